// SPDX-License-Identifier: Apache-2.0
/* model.h -- a model of any family, for text, images or graphs; models.def lists the families, one file each.
 *
 *     mba_model m;
 *     MBA_TRY(mba_model_preset(&m, "mambavision-t"));
 *     MBA_TRY(mba_model_set(&m, "classes=10,drop_path=0.1"));
 *     MBA_TRY(mba_model_complete(&m));                 // fills derived fields, checks everything
 *     mba_tensor *loss = mba_model_build(g, &m).loss;
 *
 * Training, evaluation, checkpoints and benchmarks use only this interface. One table (models.c) holds what differs
 * between tasks. */
#ifndef MBA_MODEL_H
#define MBA_MODEL_H

#include "models/fields.h"
#include "models/graphmamba.h"
#include "models/lm.h"
#include "models/mambavision.h"

/* What a model reads. */
typedef enum mba_task { MBA_TASK_TEXT, MBA_TASK_IMAGES, MBA_TASK_GRAPHS, MBA_TASKS } mba_task;

typedef struct mba_model {
    mba_task task;
    union {
        mba_lm       lm;
        mba_vision   vision;
        mba_graphnet graph;
    };
} mba_model;

/* A family has presets of its task; the arrays of the other tasks are NULL. */
typedef struct mba_family {
    const char         *name, *doc;
    mba_task            task;
    const mba_lm       *lm; /* each ends with an entry without a name */
    const mba_vision   *vision;
    const mba_graphnet *graph;
    const mba_lm_mixer *mixers; /* of text: the mixers it defines; ends with symbol 0; NULL: none */
} mba_family;

extern const mba_family *const mba_families[]; /* ends with NULL */

/* Preset i of a family; false after the last. */
bool mba_family_preset(mba_model *out, const mba_family *f, int i);

MBA_MUST mba_status mba_model_preset(mba_model *out, const char *name); /* MBA_E_ARG: no such preset */
const char         *mba_model_name(const mba_model *m);                 /* of its preset, or "given" */

MBA_MUST mba_status mba_model_complete(mba_model *m);
MBA_MUST mba_status mba_model_set(mba_model *m, const char *assignments); /* fields.h; before complete */

/* Sets the shape of a batch; 0: unchanged. Sizes that the task does not have are MBA_E_ARG. For graphs these are
 * capacities; if only the number of graphs is given, nodes and edges scale with it. */
typedef struct mba_batch_shape {
    int64_t batch, length, image, graphs, nodes, edges;
} mba_batch_shape;
MBA_MUST mba_status mba_model_shape(mba_model *m, const mba_batch_shape *s);

/* train: batch statistics, drop path and dropout. learns: targets as training loaders produce them (mixed). */
void mba_model_mode(mba_model *m, bool train, bool learns);
void mba_model_disable_stochastic(mba_model *m);              /* no drop path, dropout or random signs */
void mba_model_outputs(mba_model *m, bool loss, bool logits); /* its results; default: only the loss */
void mba_model_compute(mba_model *m, mba_dtype dtype);        /* type of activations and matrix products */

typedef struct mba_model_graph {
    mba_tensor *loss, *logits;
} mba_model_graph;
mba_model_graph mba_model_build(mba_graph *g, const mba_model *m);

/* Call it after mba_program_init: sets initial values that mba_init cannot express. */
MBA_MUST mba_status mba_model_start(mba_program *p, const mba_model *m, uint64_t seed);

/* Of a complete model: the units of a full batch, and a description of the batch: "batch 8 x length 256". */
int64_t mba_model_units(const mba_model *m);
typedef struct mba_model_text {
    char text[128];
} mba_model_text;
mba_model_text mba_model_batch_words(const mba_model *m);

/* What `list models` shows: width, blocks, state, and classes (of tokens, images, nodes or graphs). */
typedef struct mba_model_sizes {
    int64_t width, layers, state, outputs;
} mba_model_sizes;
mba_model_sizes mba_model_sizes_of(const mba_model *m);

const char      *mba_task_name(mba_task t);      /* "text" */
const char      *mba_task_unit(mba_task t);      /* "tokens" */
const char      *mba_task_loss_unit(mba_task t); /* "nats/token" */
bool             mba_task_has_modes(mba_task t); /* training and evaluation compute different graphs */
const mba_field *mba_task_fields(mba_task t);

#endif
