// SPDX-License-Identifier: Apache-2.0
/* weights.c -- see weights.h: reads the index, opens the shards, and recognises pickles. */
#include "data/weights.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "core/file.h"
#include "data/json.h"
#include "data/listing.h"

struct mba_weights {
    mba_safetensors **shards;
    const mba_array **tensors; // by name
    int64_t           nshards, ntensors;
};

/* One line of the index; its JSON owns both strings. */
typedef struct line {
    const char *tensor, *shard;
} line;

static mba_status no_memory(const char *path)
{
    return mba_fail(MBA_E_NOMEM, "no memory for the weights of '%s'", path);
}

void mba_weights_close(mba_weights *w)
{
    if (!w) return;
    for (int64_t i = 0; i < w->nshards; i++) mba_safetensors_close(w->shards[i]);
    free(w->shards);
    free(w->tensors);
    free(w);
}

static mba_status new_weights(mba_weights **out, const char *path, size_t tensors, size_t shards)
{
    mba_weights *w = calloc(1, sizeof *w);
    if (!w) return no_memory(path);
    w->tensors = calloc(tensors + 1, sizeof *w->tensors);
    w->shards = calloc(shards + 1, sizeof *w->shards);
    if (!w->tensors || !w->shards) {
        mba_weights_close(w);
        return no_memory(path);
    }
    *out = w;
    return MBA_OK;
}

/* ---- the index ---- */

/* True for a plain file name: a shard lies beside its index, and its name must not lead elsewhere. */
static bool plain_name(const char *name)
{
    const size_t n = strlen(name), ending = strlen(".safetensors");
    if (n <= ending || n > 255 || name[0] == '.' || strcmp(name + n - ending, ".safetensors")) return false;
    for (size_t i = 0; i < n; i++)
        if (name[i] == '/' || name[i] == '\\' || (unsigned char)name[i] < ' ') return false;
    return true;
}

static mba_status read_line(line *l, const char *file, const char *tensor, const json_t *shard)
{
    *l = (line){ tensor, json_string_value(shard) };
    if (!l->shard)
        return mba_fail(MBA_E_FORMAT,
                        "'%s' maps tensor \"%s\" to %s\nwhy: it should be the name of a shard\n"
                        "fix: fetch the index again",
                        file, mba_quote(tensor).text, mba_json_kind(shard));
    if (!plain_name(l->shard))
        return mba_fail(MBA_E_FORMAT,
                        "'%s' maps tensor \"%s\" to the shard \"%s\"\nwhy: a shard is a file beside the "
                        "index, a plain name that ends in .safetensors\nfix: do not use this checkpoint unless you "
                        "trust its source",
                        file, mba_quote(tensor).text, mba_quote(l->shard).text);
    return MBA_OK;
}

static int compare_shard(const void *a, const void *b)
{
    const line *x = a, *y = b;
    const int   c = strcmp(x->shard, y->shard);
    return c ? c : strcmp(x->tensor, y->tensor);
}

static int compare_name(const void *a, const void *b)
{
    return strcmp((*(const mba_array *const *)a)->name, (*(const mba_array *const *)b)->name);
}

/* Reads the lines and sorts them by shard, so that each shard is opened once. */
static mba_status read_lines(line *lines, size_t *count, const char *file, json_t *map)
{
    const char *tensor;
    json_t     *shard;
    *count = 0;
    json_object_foreach(map, tensor, shard) MBA_TRY(read_line(&lines[(*count)++], file, tensor, shard));
    qsort(lines, *count, sizeof *lines, compare_shard);
    return MBA_OK;
}

static mba_status open_shards(mba_weights *w, const char *file, const line *lines, size_t count,
                              mba__shard_open *open_shard, void *user)
{
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || strcmp(lines[i].shard, lines[i - 1].shard)) {
            mba_status st = open_shard(&w->shards[w->nshards], user, lines[i].shard);
            if (st != MBA_OK) return mba_where(st, "shard \"%s\" of '%s'", mba_quote(lines[i].shard).text, file);
            w->nshards++;
        }
        const mba_array *a = mba_safetensors_find(w->shards[w->nshards - 1], lines[i].tensor);
        if (!a)
            return mba_fail(MBA_E_FORMAT,
                            "tensor \"%s\" is not in the shard \"%s\"\nwhy: '%s' says it is there; the "
                            "files do not belong together\nfix: fetch index and shards again",
                            mba_quote(lines[i].tensor).text, mba_quote(lines[i].shard).text, file);
        w->tensors[w->ntensors++] = a;
    }
    qsort(w->tensors, (size_t)w->ntensors, sizeof *w->tensors, compare_name);
    return MBA_OK;
}

static mba_status from_map(mba_weights **out, const char *file, json_t *map, mba__shard_open *open_shard, void *user)
{
    size_t       count = json_object_size(map);
    mba_weights *w = NULL;
    if (count == 0)
        return mba_fail(MBA_E_FORMAT,
                        "'%s' names no tensor\nwhy: \"weight_map\" should be an object that maps tensors "
                        "to shards, and is %s\nfix: fetch the index again",
                        file, json_is_object(map) ? "empty" : mba_json_kind(map));
    line *lines = calloc(count, sizeof *lines);
    if (!lines) return no_memory(file);
    mba_status st = read_lines(lines, &count, file, map);
    if (st == MBA_OK) st = new_weights(&w, file, count, count);
    if (st == MBA_OK) st = open_shards(w, file, lines, count, open_shard, user);
    free(lines);
    if (st == MBA_OK) *out = w;
    else mba_weights_close(w);
    return st;
}

mba_status mba__weights_from_index(mba_weights **out, const char *file, const char *text, size_t n,
                                   mba__shard_open *open_shard, void *user)
{
    json_t *root;
    MBA_TRY(mba_json_parse(&root, file, text, n, NULL));
    mba_status st = from_map(out, file, json_object_get(root, "weight_map"), open_shard, user);
    json_decref(root);
    return st;
}

/* ---- the directory ---- */

static char *join(const char *directory, const char *name)
{
    char *path = NULL;
    return asprintf(&path, "%s/%s", directory, name) < 0 ? NULL : path;
}

static bool there(const char *directory, const char *name)
{
    char      path[PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s/%s", directory, name);
    return n < PATH_MAX && access(path, F_OK) == 0;
}

static mba_status open_beside(mba_safetensors **out, void *directory, const char *shard)
{
    char *path = join(directory, shard);
    if (!path) return no_memory(directory);
    mba_status st = mba_safetensors_open(out, path);
    free(path);
    return st;
}

static mba_status open_single(mba_weights **out, const char *directory)
{
    mba_safetensors *f = NULL;
    mba_weights     *w = NULL;
    MBA_TRY(open_beside(&f, (void *)directory, "model.safetensors"));
    mba_status st = new_weights(&w, directory, (size_t)mba_safetensors_count(f), 1);
    if (st != MBA_OK) {
        mba_safetensors_close(f);
        return st;
    }
    w->shards[w->nshards++] = f;
    w->ntensors = mba_safetensors_count(f);
    for (int64_t i = 0; i < w->ntensors; i++) w->tensors[i] = mba_safetensors_at(f, i);
    qsort(w->tensors, (size_t)w->ntensors, sizeof *w->tensors, compare_name);
    *out = w;
    return MBA_OK;
}

static mba_status open_sharded(mba_weights **out, const char *directory)
{
    char  *path = join(directory, "model.safetensors.index.json"), *text = NULL;
    size_t n;
    if (!path) return no_memory(directory);
    mba_status st = mba_file_read(&text, &n, path, mba_json_limits_default.bytes);
    if (st == MBA_OK) st = mba__weights_from_index(out, path, text, n, open_beside, (void *)directory);
    free(text);
    free(path);
    return st;
}

/* ---- pickles ---- */

static bool has_pickle_name(const char *name)
{
    static const char *const ending[] = { ".pth", ".pth.tar", ".pt", ".pt.tar", ".ckpt", ".bin" };
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
        if (mba_ends_with(name, ending[i])) return true;
    return false;
}

/* True for pickles of weights in a directory: not what a trainer saves beside them, nor token files. */
static bool is_pickle_of_weights(const char *name)
{
    static const char *const other[] = { "optimizer", "scheduler", "scaler", "rng_state", "training_args" };
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (!strncmp(name, other[i], strlen(other[i]))) return false;
    return has_pickle_name(name) && (!mba_ends_with(name, ".bin") || !strncmp(name, "pytorch_model", 13));
}

mba_status mba_weights_no_pickle(const char *path)
{
    mba_listing l = { 0 };
    char        inside[PATH_MAX] = "";
    if (mba_is_folder(path) && mba_listing_read(&l, path, is_pickle_of_weights) == MBA_OK && l.n > 0)
        snprintf(inside, sizeof inside, "%s/%s", path, l.name[0]);
    mba_listing_free(&l);
    if (!*inside && !(mba_is_file(path) && has_pickle_name(path))) return MBA_OK;
    return mba_fail(MBA_E_FORMAT,
                    "'%s' is a PyTorch pickle\n"
                    "why: a pickle is a program; weights are read from safetensors files only\n"
                    "fix: python3 tools/convert_checkpoint.py '%s' OUT, then give OUT instead",
                    *inside ? inside : path, path);
}

static mba_status no_weights(const char *directory)
{
    struct stat s;
    const char *why = "neither model.safetensors nor model.safetensors.index.json is there", *fix = "check the path";
    MBA_TRY(mba_weights_no_pickle(directory));
    if (stat(directory, &s)) why = "there is no such directory";
    else if (!S_ISDIR(s.st_mode)) why = "it is a file", fix = "name the directory it is in";
    return mba_fail(MBA_E_IO, "there are no weights in '%s'\nwhy: %s\nfix: %s", directory, why, fix);
}

mba_status mba_weights_open(mba_weights **out, const char *directory)
{
    if (there(directory, "model.safetensors")) return open_single(out, directory);
    if (there(directory, "model.safetensors.index.json")) return open_sharded(out, directory);
    return no_weights(directory);
}

int64_t mba_weights_count(const mba_weights *w) { return w->ntensors; }

const mba_array *mba_weights_at(const mba_weights *w, int64_t i)
{
    mba_assert(i >= 0 && i < w->ntensors);
    return w->tensors[i];
}

const mba_array *mba_weights_find(const mba_weights *w, const char *name)
{
    const mba_array   key = { .name = name }, *at = &key;
    const mba_array **hit = bsearch(&at, w->tensors, (size_t)w->ntensors, sizeof *w->tensors, compare_name);
    return hit ? *hit : NULL;
}
