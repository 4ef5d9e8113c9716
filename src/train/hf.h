// SPDX-License-Identifier: Apache-2.0
/* hf.h -- published checkpoint formats: which model a config.json describes, and the names of its tensors.
 *
 *     mba_model m;  mba_hf_format format;
 *     MBA_TRY(mba_hf_config_read(&m, &format, json));          // any supported model_type, or ours
 *     mba_hf_slice slice[MBA_HF_SLICES_MAX];
 *     const int n = mba_hf_slices(slice, format, &m, param);   // the stored tensors that a parameter consists of
 *
 * Here q, k and v are rows of one matrix, and so are value and gate of an MLP; most files store them separately.
 * A slice is a range of rows of a parameter with its stored name, so one description serves reading,
 * writing and gradients.
 *
 * Image models have the config.json and names of MambaVision on the Hugging Face Hub (hf_vision.c). Graph models have
 * the names of the released Graph-Mamba code and a config.json of ours: "model_type", and every field of
 * `mambascope list fields` by its name. So have image models that the published class cannot express. */
#ifndef MBA_HF_H
#define MBA_HF_H

#include <jansson.h>

#include "models/model.h"

// clang-format off
#define MBA_HF_LIST(X) \
    X(OURS,       "mambascope")        /* every field of the configuration, our names */ \
    X(MAMBA,      "mamba") \
    X(MAMBA2,     "mamba2") \
    X(NEMOTRON_H, "nemotron_h") \
    X(BAMBA,      "bamba") \
    X(JAMBA,      "jamba")             /* dense */ \
    X(MAMBA_SSM,  "mamba_ssm")         /* the authors' own config.json: no model_type */ \
    X(VISION,     "mambavision")       /* as on the Hub */ \
    X(VISION_OURS, "mambavision")      /* our names of fields; tensors without "model." */ \
    X(GRAPH,      "graphmamba")
// clang-format on

typedef enum mba_hf_format {
#define X(format, type) MBA_HF_##format,
    MBA_HF_LIST(X)
#undef X
        MBA_HF_FORMATS
} mba_hf_format;

const char *mba_hf_type(mba_hf_format format);

/* nemotron_h: a time_step_min that limits no step, but whose logarithm is finite. */
#define MBA_HF_NO_FLOOR 1e-30

/* Reads a parsed config.json into *m, which stays incomplete (mba_model_complete). Fails for models that we cannot
 * compute. */
MBA_MUST mba_status mba_hf_config_read(mba_model *m, mba_hf_format *format, const json_t *config);

/* Notes for the user about a config.json that can be read: unknown keys, which are ignored, and keys that other
 * programs interpret differently. One line each; "": nothing to say. */
typedef struct mba_hf_notes {
    char text[2048];
} mba_hf_notes;
MBA_MUST mba_status mba_hf_config_notes(mba_hf_notes *out, const json_t *config);

/* The public format that can express this complete configuration; ours if none can. */
mba_hf_format mba_hf_format_for(const mba_model *m);

/* The config.json of a complete configuration; the caller calls json_decref. */
json_t *mba_hf_config_write(const mba_model *m, mba_hf_format format);

enum { MBA_HF_SLICES_MAX = MBA_TABLES_MAX, MBA_HF_NAME_MAX = 192 };
typedef struct mba_hf_slice {
    char     name[MBA_HF_NAME_MAX];
    int64_t  row, rows; /* range on the first axis of the parameter or statistic */
    mba_type type;      /* the stored shape */
} mba_hf_slice;

/* Returns the number of slices of a learned tensor (mba_learned). */
int mba_hf_slices(mba_hf_slice out[MBA_HF_SLICES_MAX], mba_hf_format format, const mba_model *m,
                  const mba_tensor *learned);

#endif
