// SPDX-License-Identifier: Apache-2.0
/* checkpoint.c -- see checkpoint.h: loads and saves configuration, weights, moments and gradients. checkpoint_dirs.c
 * has the directories of a run. */
#include "train/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "data/json.h"
#include "data/tokenizer_files.h"
#include "train/checkpoint_dirs.h"
#include "train/checkpoint_ranks.h"
#include "train/checksums.h"
#include "train/shards.h"

enum { PATH_ROOM = 4096 };

static mba_status join(char *out, const char *directory, const char *name)
{
    const int n = snprintf(out, PATH_ROOM, "%s/%s", directory, name);
    return n > 0 && n < PATH_ROOM
               ? MBA_OK
               : mba_fail(MBA_E_ARG, "the path '%s/%s' is too long\nfix: choose a shorter path", directory, name);
}

/* ---- names ---- */

/* Finds a stored tensor by the name of a slice, or by one of the other names that published files use for it. */
static const mba_array *find(const mba_weights *w, const mba_model *m, const char *name)
{
    char             other[MBA_HF_NAME_MAX + 16];
    const mba_array *a = mba_weights_find(w, name);
    const bool       embedding = m->task == MBA_TASK_TEXT && strstr(name, "embed") && !strstr(name, "layers.");
    if (!a && m->task != MBA_TASK_TEXT) { // files of image models may lack the prefix
        if (!strncmp(name, "model.", 6)) return mba_weights_find(w, name + 6);
        snprintf(other, sizeof other, "model.%s", name);
        return mba_weights_find(w, other);
    }
    if (!a && !strncmp(name, "backbone.", 9)) {
        snprintf(other, sizeof other, "model.%s", name + 9);
        a = mba_weights_find(w, other);
    }
    // A model that was saved without its head has no prefix.
    if (!a && (!strncmp(name, "backbone.", 9) || !strncmp(name, "model.", 6)))
        a = mba_weights_find(w, strchr(name, '.') + 1);
    if (!a && embedding) a = mba_weights_find(w, "backbone.embedding.weight");
    if (!a && embedding) a = mba_weights_find(w, "backbone.embeddings.weight");
    if (!a && embedding && !m->lm.untied) a = mba_weights_find(w, "lm_head.weight");
    return a;
}

/* ---- the configuration ---- */

static bool same_numbers(const mba_array *a, const mba_array *b)
{
    return a && b && a->dtype == b->dtype && a->bytes == b->bytes && !memcmp(a->data, b->data, (size_t)a->bytes);
}

/* Corrects the configuration by the weights, where programs disagree about config.json. transformers does not tie a
 * head that is stored with other values than the embedding, and its nemotron_h class has no biases in attention
 * whatever config.json says; other programs obey the file. */
static mba_status believe_weights(mba_model *m, mba_hf_format format, const char *directory)
{
    mba_lm      *c = &m->lm;
    mba_weights *w = NULL;
    const bool   biases = format == MBA_HF_NEMOTRON_H && c->attn_bias;
    if (c->untied && !biases) return MBA_OK;
    MBA_TRY(mba_weights_open(&w, directory));
    const mba_array *head = mba_weights_find(w, "lm_head.weight");
    const char      *table = format == MBA_HF_BAMBA || format == MBA_HF_JAMBA ? "model.embed_tokens.weight"
                                                                              : "backbone.embeddings.weight";
    if (head && !c->untied) c->untied = !same_numbers(head, find(w, m, table));
    const char *attends = strchr(c->pattern, '*');
    if (attends && biases) {
        char name[MBA_HF_NAME_MAX];
        snprintf(name, sizeof name, "backbone.layers.%d.mixer.q_proj.bias", (int)(attends - c->pattern));
        c->attn_bias = find(w, m, name) != NULL;
    }
    mba_weights_close(w);
    return MBA_OK;
}

/* Takes the number of classes from the head, since a published config.json of an image model may not give it. */
static mba_status count_classes(mba_model *m, const char *directory)
{
    mba_weights *w = NULL;
    MBA_TRY(mba_weights_open(&w, directory));
    const mba_array *head = find(w, m, "model.head.weight");
    if (head && head->rank == 2 && head->shape[0] > 1) m->vision.classes = head->shape[0];
    mba_weights_close(w);
    return MBA_OK;
}

mba_status mba_checkpoint_config(mba_model *m, mba_hf_format *format, const char *directory)
{
    char    path[PATH_ROOM];
    json_t *config = NULL;
    MBA_TRY(join(path, directory, "config.json"));
    mba_status st = mba_json_load(&config, path, NULL);
    if (st == MBA_OK) {
        st = mba_hf_config_read(m, format, config);
        if (st == MBA_OK) {
            mba_model whole = *m;
            st = mba_model_complete(&whole); // a contradiction is in the file, so the message names it
        }
        if (st != MBA_OK) st = mba_where(st, "reading '%s'", path);
    }
    json_decref(config);
    if (st == MBA_OK && *format == MBA_HF_VISION && !m->vision.classes) st = count_classes(m, directory);
    return st == MBA_OK && m->task == MBA_TASK_TEXT ? believe_weights(m, *format, directory) : st;
}

mba_status mba_checkpoint_notes(mba_hf_notes *out, const char *directory)
{
    char    path[PATH_ROOM];
    json_t *config = NULL;
    MBA_TRY(join(path, directory, "config.json"));
    MBA_TRY(mba_json_load(&config, path, NULL));
    mba_status st = mba_hf_config_notes(out, config);
    json_decref(config);
    return st == MBA_OK ? MBA_OK : mba_where(st, "reading '%s'", path);
}

/* ---- reading ---- */

static bool same_shape(const mba_array *a, const mba_type *t)
{
    bool same = a->rank == t->rank;
    for (int i = 0; same && i < a->rank; i++) same = a->shape[i] == t->dim[i];
    return same;
}

static bool is_real(mba_file_dtype t)
{
    return t == MBA_WIRE_F16 || t == MBA_WIRE_BF16 || t == MBA_WIRE_F32 || t == MBA_WIRE_F64;
}

static mba_status find_slice(const mba_array **out, const mba_weights *w, const mba_model *m, const mba_hf_slice *p)
{
    const mba_array *a = find(w, m, p->name);
    if (!a)
        return mba_fail(MBA_E_FORMAT,
                        "the checkpoint has no tensor \"%s\"\nwhy: the model of its config.json needs one\nfix: "
                        "use weights and config.json of the same model",
                        p->name);
    if (!same_shape(a, &p->type))
        return mba_fail(MBA_E_SHAPE,
                        "the tensor \"%s\" is %s, but the model needs %s\nfix: use weights and "
                        "config.json of the same model",
                        p->name, mba_shape_words(a->rank, a->shape).text,
                        mba_shape_words((int)p->type.rank, p->type.dim).text);
    if (!is_real(a->dtype))
        return mba_fail(MBA_E_FORMAT,
                        "the tensor \"%s\" is stored as %s\nwhy: weights must be real numbers; "
                        "the file may be mislabelled, or its weights quantized\nfix: use a checkpoint in F32, "
                        "BF16 or F16",
                        p->name, mba_file_dtype_name(a->dtype));
    *out = a;
    return MBA_OK;
}

static int64_t row_elems(const mba_tensor *t) { return mba_elems(t) / t->type.dim[0]; }

static bool ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), k = strlen(end);
    return n > k && !strcmp(name + n - k, end);
}

/* Counts stored tensors that are not used here: PyTorch's counters beside running statistics, and tables of rotary
 * angles. */
static int64_t counters(const mba_weights *w)
{
    int64_t n = 0;
    for (int64_t i = 0; i < mba_weights_count(w); i++) {
        const char *name = mba_weights_at(w, i)->name;
        n += ends_with(name, ".num_batches_tracked") || ends_with(name, ".rotary_emb.inv_freq");
    }
    return n;
}

/* Fails if the file has more tensors than the model: then it belongs to another model. A tied head may be stored
 * twice. */
static mba_status check_leftovers(const mba_weights *w, const mba_model *m, int64_t used)
{
    const bool twice = m->task == MBA_TASK_TEXT && !m->lm.untied && mba_weights_find(w, "lm_head.weight")
                       && (mba_weights_find(w, "backbone.embeddings.weight")
                           || mba_weights_find(w, "backbone.embedding.weight")
                           || mba_weights_find(w, "model.embed_tokens.weight")
                           || mba_weights_find(w, "model.embeddings.weight"));
    const int64_t count = mba_weights_count(w) - twice - counters(w);
    if (count == used) return MBA_OK;
    return mba_fail(MBA_E_FORMAT,
                    "the checkpoint has %lld tensors, the model %lld\nwhy: weights and config.json belong to "
                    "different models\nfix: use weights and config.json of the same model",
                    (long long)count, (long long)used);
}

static bool is_head(const mba_session *s, const mba_tensor *t)
{
    return s->model.task == MBA_TASK_IMAGES && (!strcmp(t->name, "head.weight") || !strcmp(t->name, "head.bias"));
}

static mba_status load_slices(mba_session *s, mba_hf_format format, const mba_weights *w, bool new_head, int64_t *used)
{
    for (int32_t i = 0; i < s->graph->ntensors; i++) {
        const mba_tensor *t = s->graph->tensors[i];
        mba_hf_slice      slice[MBA_HF_SLICES_MAX];
        if (!mba_learned(t)) continue;
        const int n = mba_hf_slices(slice, format, &s->model, t);
        float    *at = mba_session_learned_at(s, t, false);
        if (new_head && is_head(s, t)) {
            *used += n;
            continue;
        }
        for (int k = 0; k < n; k++, (*used)++) {
            const mba_array *a;
            MBA_TRY(find_slice(&a, w, &s->model, &slice[k]));
            MBA_TRY(mba_array_read_f32(a, at + slice[k].row * row_elems(t), slice[k].rows * row_elems(t)));
        }
    }
    return MBA_OK;
}

static mba_status load(mba_session *s, mba_hf_format format, const char *directory, bool new_head)
{
    mba_weights *w = NULL;
    int64_t      used = 0;
    mba_status   st = mba_weights_open(&w, directory);
    if (st == MBA_OK) st = mba_program_pull(s->program);
    if (st == MBA_OK) {
        st = load_slices(s, format, w, new_head, &used);
        if (st == MBA_OK) st = check_leftovers(w, &s->model, used);
        if (st == MBA_OK) st = mba_program_push(s->program);
        if (st != MBA_OK) st = mba_where(st, "reading the weights in '%s'", directory);
    }
    mba_weights_close(w);
    return st;
}

mba_status mba_checkpoint_load(mba_session *s, mba_hf_format format, const char *directory)
{
    return load(s, format, directory, false);
}

mba_status mba_checkpoint_load_features(mba_session *s, mba_hf_format format, const char *directory)
{
    return load(s, format, directory, true);
}

/* ---- writing ---- */

/* data: NULL leaves room for all ranks. */
static mba_status add_slice(mba_safetensors_writer *w, const char *name, const mba_type *type, const float *data)
{
    mba_safetensors_entry e = {
        .name = name, .dtype = MBA_WIRE_F32, .rank = (int)type->rank, .data = data, .later = !data
    };
    memcpy(e.shape, type->dim, sizeof *e.shape * (size_t)type->rank);
    return mba_safetensors_add(w, &e);
}

/* Adds what a session has learned, slice by slice. With `stored`, uses the names in that file. With `grads`, adds the
 * gradients of the parameters instead. */
static mba_status add_params(mba_safetensors_writer *w, const mba_session *s, mba_hf_format format,
                             const mba_weights *stored, bool grads)
{
    for (int32_t i = 0; i < s->graph->ntensors; i++) {
        const mba_tensor *t = s->graph->tensors[i];
        mba_hf_slice      slice[MBA_HF_SLICES_MAX];
        if (grads ? !mba_is_param(t) : !mba_learned(t)) continue;
        const int    n = mba_hf_slices(slice, format, &s->model, t);
        const float *from = grads                             ? mba_program_host_counterpart(s->program, t->st->grad, t)
                            : mba__checkpoint_is_shared(s, t) ? NULL
                                                              : mba_program_host(s->program, t);
        for (int k = 0; k < n; k++) {
            const mba_array *a = NULL;
            if (stored) MBA_TRY(find_slice(&a, stored, &s->model, &slice[k]));
            MBA_TRY(add_slice(w, a ? a->name : slice[k].name, &slice[k].type,
                              from ? from + slice[k].row * row_elems(t) : NULL));
        }
    }
    return MBA_OK;
}

mba_status mba_checkpoint_save_grads(const mba_session *s, mba_hf_format format, const char *directory,
                                     const char *path)
{
    mba_weights            *stored = NULL;
    mba_safetensors_writer *w = NULL;
    mba_status              st = mba_weights_open(&stored, directory);
    if (st == MBA_OK) st = mba_program_pull(s->program);
    if (st == MBA_OK) st = mba_safetensors_create(&w, path);
    if (st == MBA_OK) st = add_params(w, s, format, stored, true);
    if (st == MBA_OK) st = mba_safetensors_commit(w);
    mba_safetensors_destroy(w);
    mba_weights_close(stored);
    return st;
}

/* Stores a tied head a second time for nemotron_h: without it, the class of transformers would initialise one at
 * random. */
static mba_status add_tied_head(mba_safetensors_writer *w, const mba_session *s, mba_hf_format format)
{
    if (format != MBA_HF_NEMOTRON_H || s->model.lm.untied) return MBA_OK;
    const mba_tensor *t = mba_graph_find(s->graph, "backbone.embeddings.weight");
    return add_slice(w, "lm_head.weight", &t->type, mba_program_host(s->program, t));
}

/* Adds the counters that PyTorch keeps beside running statistics and that transformers expects. They are 0: with a
 * momentum of 0.1 nothing uses them, so batches are not counted here. */
static mba_status add_counters(mba_safetensors_writer *w, const mba_session *s, mba_hf_format format)
{
    static const int64_t zero = 0;
    for (int32_t i = 0; i < s->graph->ntensors && format == MBA_HF_VISION; i++) {
        const mba_tensor *t = s->graph->tensors[i];
        char              name[MBA_HF_NAME_MAX + 32];
        if (!mba_is_state(t) || !ends_with(t->name, ".running_mean")) continue;
        snprintf(name, sizeof name, "model.%.*snum_batches_tracked", (int)(strlen(t->name) - strlen("running_mean")),
                 t->name);
        MBA_TRY(mba_safetensors_add(w, &(mba_safetensors_entry){ .name = name, .dtype = MBA_WIRE_I64, .data = &zero }));
    }
    return MBA_OK;
}

static mba_status save_weights(const mba_session *s, mba_hf_format format, const char *directory)
{
    char                    path[PATH_ROOM];
    mba_safetensors_writer *w = NULL;
    MBA_TRY(join(path, directory, "model.safetensors"));
    mba_status st = mba_safetensors_create(&w, path);
    if (st == MBA_OK) st = add_params(w, s, format, NULL, false);
    if (st == MBA_OK) st = add_tied_head(w, s, format);
    if (st == MBA_OK) st = add_counters(w, s, format);
    if (st == MBA_OK) st = mba_safetensors_commit(w);
    mba_safetensors_destroy(w);
    return st;
}

static mba_status save_config(const mba_session *s, mba_hf_format format, const char *directory)
{
    char path[PATH_ROOM];
    MBA_TRY(join(path, directory, "config.json"));
    mba__json_begin();
    json_t    *config = mba_hf_config_write(&s->model, format);
    mba_status st = mba_json_whole(config, "config.json");
    if (st == MBA_OK) st = mba_json_save(config, path);
    json_decref(config);
    return st;
}

/* ---- moments ---- */

/* A tensor of optimizer.safetensors: a moment of a parameter, or the running average of a learned tensor. at is NULL
 * for moments that several ranks share. */
typedef struct kept {
    char   name[MBA_HF_NAME_MAX];
    float *at;
} kept;

static int kept_of(kept out[3], const mba_session *s, const mba_tensor *t)
{
    int n = 0;
    for (int k = 0; k < 2 && mba_is_param(t); k++, n++) {
        snprintf(out[n].name, sizeof out[n].name, "%c.%s", mba_moment_letter(k), t->name);
        out[n].at = mba_shards_exist(s) ? NULL : mba_session_moment(s, t, k);
    }
    if (s->averages && mba_learned(t)) {
        snprintf(out[n].name, sizeof out[n].name, "ema.%s", t->name);
        out[n++].at = mba_session_learned_at(s, t, true);
    }
    return n;
}

static mba_status save_moments(const mba_session *s, const char *directory)
{
    char                    path[PATH_ROOM];
    mba_safetensors_writer *w = NULL;
    MBA_TRY(join(path, directory, "optimizer.safetensors"));
    mba_status st = mba_safetensors_create(&w, path);
    for (int32_t i = 0; i < s->graph->ntensors && st == MBA_OK; i++) {
        const mba_tensor *t = s->graph->tensors[i];
        kept              k[3];
        const int         n = kept_of(k, s, t);
        const bool        later = mba__checkpoint_is_shared(s, t);
        for (int j = 0; j < n && st == MBA_OK; j++) st = add_slice(w, k[j].name, &t->type, later ? NULL : k[j].at);
    }
    for (int32_t i = 0; i < s->graph->ntensors && st == MBA_OK; i++) {
        const mba_tensor *t = s->graph->tensors[i];
        if (mba_session_carries(s, t)) st = add_slice(w, t->name, &t->type, mba_program_host(s->program, t));
    }
    if (st == MBA_OK) st = mba_safetensors_commit(w);
    mba_safetensors_destroy(w);
    return st;
}

static mba_status find_state(const mba_array **out, const mba_safetensors *f, const char *name, const mba_type *type)
{
    const mba_array *a = *out = mba_safetensors_find(f, name);
    if (!a)
        return mba_fail(MBA_E_FORMAT,
                        "the checkpoint has no \"%s\"\nwhy: it was saved with another "
                        "optimizer\nfix: give the options of the run that saved it",
                        name);
    if (!same_shape(a, type))
        return mba_fail(MBA_E_SHAPE,
                        "\"%s\" has another shape than in this run\nfix: give the model and "
                        "options of the run that saved it",
                        name);
    return MBA_OK;
}

static mba_status load_state(const mba_safetensors *f, const char *name, const mba_type *type, float *to)
{
    const mba_array *a;
    MBA_TRY(find_state(&a, f, name, type));
    return mba_array_read_f32(a, to, mba_type_elems(type));
}

typedef struct source {
    const mba_safetensors *file;
    int                    which;
} source;

static mba_status load_run(void *user, const mba_shards_run *r)
{
    const source    *x = user;
    const mba_array *a;
    char             name[MBA_HF_NAME_MAX];
    snprintf(name, sizeof name, "%c.%s", mba_moment_letter(x->which), r->param->name);
    MBA_TRY(find_state(&a, x->file, name, &r->param->type));
    return mba_array_read_f32_at(a, r->at, r->first, r->count);
}

/* The moments of this rank. */
static mba_status load_pieces(mba_session *s, const mba_safetensors *f)
{
    for (int which = 0; which < 2; which++)
        for (int k = 0; k < MBA_GROUPS; k++) {
            const mba_pieces p = mba_shards_pieces(s, which, k);
            source           x = { f, which };
            for (int64_t i = 0; i < p.n; i++)
                MBA_TRY(mba_shards_runs(s, s->place, k, i, p.at + i * p.elems, load_run, &x));
        }
    return MBA_OK;
}

static mba_status load_moments(mba_session *s, const char *path)
{
    mba_safetensors *f = NULL;
    MBA_TRY(mba_program_pull(s->program));
    mba_status st = mba_safetensors_open(&f, path);
    for (int32_t i = 0; i < s->graph->ntensors && st == MBA_OK; i++) {
        const mba_tensor *t = s->graph->tensors[i];
        kept              k[3];
        const int         n = kept_of(k, s, t);
        for (int j = 0; j < n && st == MBA_OK; j++)
            if (k[j].at) st = load_state(f, k[j].name, &t->type, k[j].at);
        if (st == MBA_OK && mba_session_carries(s, t))
            st = load_state(f, t->name, &t->type, mba_program_host(s->program, t));
    }
    if (st == MBA_OK && mba_shards_exist(s)) st = load_pieces(s, f);
    if (st == MBA_OK) st = mba_program_push(s->program);
    if (st != MBA_OK) st = mba_where(st, "reading '%s'", path);
    mba_safetensors_close(f);
    return st;
}

mba_status mba_checkpoint_load_average(mba_session *s, const char *directory)
{
    char             path[PATH_ROOM], name[MBA_HF_NAME_MAX];
    mba_safetensors *f = NULL;
    MBA_TRY(join(path, directory, "optimizer.safetensors"));
    mba_status st = mba_safetensors_open(&f, path);
    for (int32_t i = 0; i < s->graph->ntensors && st == MBA_OK; i++) {
        const mba_tensor *t = s->graph->tensors[i];
        if (!mba_learned(t)) continue;
        snprintf(name, sizeof name, "ema.%s", t->name);
        st = mba_safetensors_find(f, name)
                 ? load_state(f, name, &t->type, mba_session_learned_at(s, t, false))
                 : mba_fail(MBA_E_ARG,
                            "the run has no averaged weights\nwhy: there is no \"%s\"\nfix: leave --ema "
                            "out, or train with --ema",
                            name);
    }
    if (st == MBA_OK) st = mba_program_push(s->program);
    if (st != MBA_OK) st = mba_where(st, "reading the averaged model in '%s'", path);
    mba_safetensors_close(f);
    return st;
}

mba_status mba_checkpoint_load_trainer(mba_session *s, const char *directory, json_t **trainer)
{
    char path[PATH_ROOM];
    MBA_TRY(join(path, directory, "optimizer.safetensors"));
    MBA_TRY(load_moments(s, path));
    MBA_TRY(join(path, directory, "trainer.json"));
    return mba_json_load(trainer, path, NULL);
}

/* Builds the path of a file that must exist. */
static mba_status join_present(char *out, const char *directory, const char *name)
{
    MBA_TRY(join(out, directory, name));
    return !access(out, F_OK) ? MBA_OK : mba_fail(MBA_E_FORMAT, "'%s' is missing\nfix: fetch or copy it again", out);
}

static mba_status check_table(const char *directory, const char *name)
{
    char    path[PATH_ROOM];
    json_t *j = NULL;
    MBA_TRY(join_present(path, directory, name));
    const mba_status st = mba_json_load(&j, path, NULL);
    json_decref(j);
    return st;
}

static mba_status check_tensors(const char *directory)
{
    char             path[PATH_ROOM];
    mba_weights     *w = NULL;
    mba_safetensors *f = NULL;
    MBA_TRY(join_present(path, directory, "model.safetensors"));
    MBA_TRY(join_present(path, directory, "optimizer.safetensors"));
    mba_status st = mba_weights_open(&w, directory);
    if (st == MBA_OK) st = mba_safetensors_open(&f, path);
    mba_safetensors_close(f);
    mba_weights_close(w);
    return st;
}

mba_status mba_checkpoint_check(const char *directory)
{
    MBA_TRY(check_table(directory, "config.json"));
    MBA_TRY(check_table(directory, "trainer.json"));
    MBA_TRY(check_tensors(directory));
    return mba_checksums_verify(directory, true);
}

static mba_status save_all(const mba_session *s, const char *directory, const json_t *trainer)
{
    char                path[PATH_ROOM];
    const mba_hf_format format = mba_hf_format_for(&s->model);
    MBA_TRY(save_config(s, format, directory));
    MBA_TRY(save_weights(s, format, directory));
    if (s->tokenizer) MBA_TRY(mba_tokenizer_files_write(s->tokenizer, directory));
    if (!trainer) return MBA_OK;
    MBA_TRY(save_moments(s, directory));
    MBA_TRY(join(path, directory, "trainer.json"));
    return mba_json_save(trainer, path);
}

static int64_t step_of(const json_t *trainer)
{
    const json_t *step = json_object_get(trainer, "step");
    return json_is_integer(step) ? (int64_t)json_integer_value(step) : -1;
}

mba_status mba_checkpoint_save(const mba_session *s, const char *directory, const json_t *trainer, bool *apart)
{
    char       building[PATH_ROOM] = "";
    const bool ranks = s->world && s->world->ranks > 1, writes = !ranks || !s->world->rank;
    bool       begun = false;
    mba_status st = mba_program_pull(s->program);
    if (st == MBA_OK && writes) {
        st = mba__directory_begin(building, sizeof building, directory);
        begun = st == MBA_OK;
    }
    if (begun) st = save_all(s, building, trainer);
    if (ranks) st = mba__checkpoint_fill(s, mba_hf_format_for(&s->model), building, trainer != NULL, st, apart);
    if (st == MBA_OK && writes) st = mba_checksums_write(building, step_of(trainer));
    if (st == MBA_OK && writes) st = mba__directory_commit(building, directory);
    if (st != MBA_OK && begun) mba_folder_remove(building);
    return st == MBA_OK ? st : mba_where(st, "saving the checkpoint '%s'", directory);
}
