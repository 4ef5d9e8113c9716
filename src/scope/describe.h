// SPDX-License-Identifier: Apache-2.0
/* describe.h -- writes what is known of a run before anything is measured: machine, workload, graph, plans, ceilings.
 *
 * Every collector starts with mba_describe_run and mba_describe_program, so stores of the CPU and of the GPU differ
 * only in what was measured. */
#ifndef MBA_DESCRIBE_H
#define MBA_DESCRIBE_H

#include "device/cpu/ceilings.h"
#include "scope/store.h"
#include "train/session.h"

/* The sheet: program, commit, date, command (NULL: not known), host, CPU; and the GPU if the session runs on one. */
MBA_MUST mba_status mba_describe_run(mba_store *s, const char *command);
MBA_MUST mba_status mba_describe_device(mba_store *s, const mba_device *d);

/* Table I: the model and its configuration. */
MBA_MUST mba_status mba_describe_model(mba_store *s, const mba_session *session);

/* Tables node, operand and launch for a full batch; `_at`: for the ragged batch of a step. */
MBA_MUST mba_status mba_describe_program(mba_store *s, const mba_program *p);
MBA_MUST mba_status mba_describe_program_at(mba_store *s, const mba_program *p, const mba_step *step);

/* The id of launch k of a node in table launch. */
int64_t mba_launch_number(const mba_program *p, int32_t node, int k);

/* Types and shapes of a node's operands: "x f32 4x128, w f32 128 -> y f32 4x128"; truncated to `room`. */
void mba_node_shape(char *text, size_t room, const mba_node *n);

/* Measured ceilings, and those of the data sheet if the GPU is known. */
MBA_MUST mba_status mba_describe_ceilings(mba_store *s, const mba_ceilings *c, const mba_device *d);

#endif
