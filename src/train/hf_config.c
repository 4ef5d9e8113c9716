// SPDX-License-Identifier: Apache-2.0
/* hf_config.c -- reads a config.json (hf.h): finds out its format and calls the reader of that format. hf_config_text.c
 * reads published language models, hf_vision.c MambaVision; our own formats are read here, field by field.
 * hf_config_write.c writes them. */
#include <string.h>

#include "data/array.h"
#include "train/hf_source.h"
#include "train/hf_vision.h"

static const char *const types[] = {
#define X(format, type) type,
    MBA_HF_LIST(X)
#undef X
};

const char *mba_hf_type(mba_hf_format format) { return types[format]; }

/* ---- our formats: every field by its name ---- */

static mba_status read_list(const mba_source *o, const mba_field *f, int64_t *to)
{
    const json_t *list = mba__source_get(o, f->name);
    if (!list) return MBA_OK;
    if (!json_is_array(list) || json_array_size(list) > (size_t)f->count)
        return mba_fail(MBA_E_FORMAT, "\"%s\" is not a list of at most %d numbers\nfix: correct it", f->name, f->count);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > MBA_FIELD_MOST)
            return mba_fail(MBA_E_FORMAT, "entry %zu of \"%s\" is not a number between 0 and %d\nfix: correct it", i,
                            f->name, MBA_FIELD_MOST);
        to[i] = json_integer_value(v);
    }
    return MBA_OK;
}

static mba_status read_words(const mba_source *o, const mba_field *f, void *to)
{
    const char *text;
    MBA_TRY(mba__source_text(o, f->name, f->kind == MBA_FIELD_WORD ? f->words[0] : "", &text));
    if (f->kind == MBA_FIELD_TEXT) {
        if (strlen(text) >= (size_t)f->count)
            return mba_fail(MBA_E_FORMAT, "\"%s\" has %zu letters\nfix: use at most %d", f->name, strlen(text),
                            f->count - 1);
        strcpy(to, text);
        return MBA_OK;
    }
    *(int *)to = mba_field_word(f, text, strlen(text));
    if (*(int *)to >= 0) return MBA_OK;
    return mba_fail(MBA_E_FORMAT, "\"%s\" is \"%s\"\nwhy: %s\nfix: correct it", f->name, mba_quote(text).text,
                    f->meaning);
}

static mba_status read_fields(void *config, const mba_field *fields, const mba_source *o)
{
    for (const mba_field *f = fields; f->name; f++) {
        void *to = mba_field_at(config, f);
        switch (f->kind) {
        case MBA_FIELD_INT: MBA_TRY(mba__source_int(o, f->name, 0, 0, MBA_FIELD_MOST, to)); break;
        case MBA_FIELD_BOOL: MBA_TRY(mba__source_bool(o, f->name, false, to)); break;
        case MBA_FIELD_REAL: MBA_TRY(mba__source_real(o, f->name, 0, 0, 1e12, to)); break;
        case MBA_FIELD_LIST: MBA_TRY(read_list(o, f, to)); break;
        default: MBA_TRY(read_words(o, f, to)); break;
        }
    }
    return MBA_OK;
}

static mba_status read_ours(mba_lm *c, const mba_source *o)
{
    MBA_TRY(mba__source_require(o, "pattern"));
    return read_fields(c, mba_lm_fields, o);
}

/* Refuses keys of any class of transformers that change what is stored or computed. */
static mba_status check_common(const mba_source *o)
{
    MBA_TRY(mba__source_absent(o, "quantization_config", "quantized weights cannot be read"));
    return mba__source_absent(o, "per_layer_config", "all layers of a kind have one configuration here");
}

static mba_status read_model(mba_model *m, mba_hf_format format, const mba_source *o)
{
    m->task = format == MBA_HF_GRAPH                                    ? MBA_TASK_GRAPHS
              : format == MBA_HF_VISION || format == MBA_HF_VISION_OURS ? MBA_TASK_IMAGES
                                                                        : MBA_TASK_TEXT;
    MBA_TRY(check_common(o));
    switch (format) {
    case MBA_HF_VISION: MBA_TRY(mba__hf_vision_read(&m->vision, o)); break;
    case MBA_HF_VISION_OURS: MBA_TRY(read_fields(&m->vision, mba_vision_fields, o)); break;
    case MBA_HF_GRAPH:
        m->graph.graphs = m->graph.nodes = m->graph.edges = 1; // the file has no batch sizes
        MBA_TRY(read_fields(&m->graph, mba_graphnet_fields, o));
        break;
    case MBA_HF_OURS: MBA_TRY(read_ours(&m->lm, o)); break;
    default: MBA_TRY(mba__hf_text_read(&m->lm, format, o));
    }
    mba__source_unknown(o, mba__hf_harmless(format));
    return MBA_OK;
}

/* The model type of a file without "model_type" that names its class: "architectures": ["MambaForCausalLM"]. */
static const char *type_of_class(const mba_source *o)
{
    static const char *const known[][2] = { { "Mamba", "mamba" },
                                            { "Mamba2", "mamba2" },
                                            { "NemotronH", "nemotron_h" },
                                            { "Bamba", "bamba" },
                                            { "Jamba", "jamba" } };
    const char              *name = json_string_value(json_array_get(mba__source_get(o, "architectures"), 0));
    for (size_t i = 0; name && i < sizeof known / sizeof *known; i++) {
        const size_t n = strlen(known[i][0]);
        if (!strncmp(name, known[i][0], n) && (!strcmp(name + n, "ForCausalLM") || !strcmp(name + n, "Model")))
            return known[i][1];
    }
    return NULL;
}

static mba_status read_any(mba_model *m, mba_hf_format *format, const mba_source *o)
{
    const char *type;
    *m = (mba_model){ 0 };
    MBA_TRY(mba__source_text(o, "model_type", NULL, &type));
    if (!type && mba__source_get(o, "d_model")) type = types[MBA_HF_MAMBA_SSM];
    if (!type && mba__source_get(o, "in_dim") && mba__source_get(o, "depths")) type = types[MBA_HF_VISION];
    if (!type) type = type_of_class(o);
    for (int f = 0; type && f < MBA_HF_FORMATS; f++)
        if (!strcmp(type, types[f])) {
            *format = (mba_hf_format)f;
            if (f == MBA_HF_VISION) MBA_TRY(mba__hf_vision_format(format, o));
            return read_model(m, *format, o);
        }
    if (!type)
        return mba_fail(MBA_E_FORMAT, "\"model_type\" is missing\nwhy: it says which model this is\nfix: add it");
    return mba_fail(MBA_E_UNSUPPORTED,
                    "the model type \"%s\" is not supported\nwhy: supported are mamba, mamba2, nemotron_h, bamba, "
                    "jamba, mambavision, graphmamba and mambascope\n"
                    "fix: choose a checkpoint of one of them",
                    mba_quote(type).text);
}

mba_status mba_hf_config_read(mba_model *m, mba_hf_format *format, const json_t *config)
{
    mba_hf_notes   notes = { 0 };
    mba_hf_reading reading = { .notes = &notes };
    return read_any(m, format, &(mba_source){ config, &reading });
}

mba_status mba_hf_config_notes(mba_hf_notes *out, const json_t *config)
{
    mba_model      m;
    mba_hf_format  format;
    mba_hf_reading reading = { .notes = out };
    out->text[0] = 0;
    return read_any(&m, &format, &(mba_source){ config, &reading });
}
