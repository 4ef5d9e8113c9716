// SPDX-License-Identifier: Apache-2.0
/* describe.h -- what is known of a run before anybody watches it: machine, workload, graph, plans, ceilings.
 *
 * Every collector begins with mba_describe_run and mba_describe_program, so that a store of the CPU and one of the GPU
 * differ only in what was measured. */
#ifndef MBA_DESCRIBE_H
#define MBA_DESCRIBE_H

#include "device/cpu/ceilings.h"
#include "scope/store.h"
#include "train/session.h"

/* Sheet: program, commit, date, command (NULL: not known), host, CPU; and GPU where the session runs on one. */
MBA_MUST mba_status mba_describe_run(mba_store *s, const char *command);
MBA_MUST mba_status mba_describe_device(mba_store *s, const mba_device *d);

/* Table I. */
MBA_MUST mba_status mba_describe_model(mba_store *s, const mba_session *session);

/* Tables node, operand and launch, of a full batch; `_at`: of the ragged one of a step. */
MBA_MUST mba_status mba_describe_program(mba_store *s, const mba_program *p);
MBA_MUST mba_status mba_describe_program_at(mba_store *s, const mba_program *p, const mba_step *step);

/* The number of launch k of a node in table launch. */
int64_t mba_launch_number(const mba_program *p, int32_t node, int k);

/* Types and shapes of a node's operands: "x f32 4x128, w f32 128 -> y f32 4x128"; cut where the room ends. */
void mba_node_shape(char *text, size_t room, const mba_node *n);

/* Measured rates, and those of the data sheet where the device's are known. */
MBA_MUST mba_status mba_describe_ceilings(mba_store *s, const mba_ceilings *c, const mba_device *d);

#endif
