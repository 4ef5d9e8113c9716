// SPDX-License-Identifier: Apache-2.0
/* hf.h -- checkpoints as they are published: which model a config.json describes, what its tensors are called.
 *
 *     mba_model m;  mba_hf_format format;
 *     MBA_TRY(mba_hf_config_read(&m, &format, json));        // any supported model_type, or ours
 *     mba_hf_slice piece[MBA_PIECES_MAX];
 *     const int n = mba_hf_pieces(piece, format, &m, param); // the stored tensors a parameter consists of
 *
 * Inside, q, k and v are rows of one matrix, and so are value and gate of an MLP; most files hold them apart.
 * A piece is a range of rows of a parameter under its stored name, so one description serves reading,
 * writing and gradients.
 *
 * Networks for images have config.json and names of MambaVision on the Hugging Face Hub (hf_vision.c). Those for graphs
 * have the names of the released Graph-Mamba code, and a config.json of ours: "model_type", and every field of
 * `mambascope list fields` by its name. So have networks for images that the published class cannot express. */
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

/* nemotron_h: a time_step_min that keeps no step from anything, and whose logarithm exists. */
#define MBA_HF_NO_FLOOR 1e-30

/* Reads a parsed config.json into *m, which is left incomplete (mba_model_complete). What we cannot compute is an
 * error. */
MBA_MUST mba_status mba_hf_config_read(mba_model *m, mba_hf_format *format, const json_t *config);

/* What the user should know of a config.json that can be read: keys that are ignored because nobody here knows them,
 * and keys that other programs obey differently. One line each; "" where there is nothing to say. */
typedef struct mba_hf_notes {
    char text[2048];
} mba_hf_notes;
MBA_MUST mba_status mba_hf_config_notes(mba_hf_notes *out, const json_t *config);

/* The public format that can express this complete configuration, or ours. */
mba_hf_format mba_hf_format_for(const mba_model *m);

/* The config.json of a complete configuration; the caller's to json_decref. */
json_t *mba_hf_config_write(const mba_model *m, mba_hf_format format);

enum { MBA_PIECES_MAX = MBA_TABLES_MAX, MBA_PIECE_NAME_MAX = 192 };
typedef struct mba_hf_slice {
    char     name[MBA_PIECE_NAME_MAX];
    int64_t  row, rows; /* of the parameter or statistic, seen as rows of its first axis */
    mba_type type;      /* the stored shape */
} mba_hf_slice;

int mba_hf_pieces(mba_hf_slice out[MBA_PIECES_MAX], mba_hf_format format, const mba_model *m,
                  const mba_tensor *learned);

#endif
