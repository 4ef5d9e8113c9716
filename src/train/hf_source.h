// SPDX-License-Identifier: Apache-2.0
/* hf_source.h -- reads a config.json and remembers which keys were looked up, so that none is ignored silently.
 *
 *     mba_hf_reading r = { .notes = &notes };
 *     mba_source  o = { config, &r };
 *     MBA_TRY(mba__source_int(&o, "hidden_size", 768, 1, MOST, &width));      // as mba_json_int, and remembered
 *     mba_source  rope = mba__source_within(&o, "rope_parameters");           // an object inside; absent: defaults
 *     mba__source_unknown(&o, mba__hf_harmless(format));                      // a note that names all other keys
 *
 * The keys that a reader looks up are the keys it knows: no second list is needed. Harmless keys are those that
 * programs write but neither their classes nor we use in computations: words, separated by blanks. */
#ifndef MBA_HF_SOURCE_H
#define MBA_HF_SOURCE_H

#include "data/json.h"
#include "train/hf.h"

enum { MBA_READS_MAX = 256 };

typedef struct mba_hf_reading {
    mba_hf_notes *notes;
    int           nreads;
    struct {
        const json_t *object;
        const char   *key;
    } read[MBA_READS_MAX]; /* keys are literals of the readers */
} mba_hf_reading;

typedef struct mba_source {
    const json_t   *object; /* NULL: absent, every key has its default */
    mba_hf_reading *reading;
} mba_source;

const json_t *mba__source_get(const mba_source *o, const char *key);
mba_source    mba__source_within(const mba_source *o, const char *key);
bool          mba__source_null(const mba_source *o, const char *key); /* present, and null */

MBA_MUST mba_status mba__source_require(const mba_source *o, const char *key);

/* Fails if the file has the key: it changes the computation in a way that we do not support, and `why` says how. */
MBA_MUST mba_status mba__source_absent(const mba_source *o, const char *key, const char *why);

MBA_MUST mba_status mba__source_int(const mba_source *o, const char *key, int64_t standard, int64_t min, int64_t max,
                                    int64_t *out);
MBA_MUST mba_status mba__source_real(const mba_source *o, const char *key, double standard, double min, double max,
                                     double *out);
MBA_MUST mba_status mba__source_bool(const mba_source *o, const char *key, bool standard, bool *out);
MBA_MUST mba_status mba__source_text(const mba_source *o, const char *key, const char *standard, const char **out);

/* Adds one line to the notes; cuts what does not fit. */
void mba__source_note(const mba_source *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The harmless keys of a format. */
const char *mba__hf_harmless(mba_hf_format format);

/* Adds one note with every key that was not looked up, is not null and is not harmless; keys of inner objects as
 * "ssm_cfg.layer". */
void mba__source_unknown(const mba_source *o, const char *harmless);

/* Reads a published language model of this format into an incomplete configuration (hf_config_text.c). */
MBA_MUST mba_status mba__hf_text_read(mba_lm *c, mba_hf_format format, const mba_source *o);

#endif
