// SPDX-License-Identifier: Apache-2.0
/* inspect_arrays.c -- reports on named tensors, checkpoints and NumPy arrays; see inspect.h. */
#include <math.h>
#include <string.h>

#include "cli/inspect.h"
#include "data/array.h"
#include "data/listing.h"
#include "data/npy.h"
#include "data/weights.h"

typedef struct array_count {
    json_t *list, *types;
    int64_t values, bytes;
} array_count;

static void add_array(array_count *c, const mba_array *a)
{
    const char *type = mba_file_dtype_name(a->dtype);
    json_t     *row = json_object(), *shape = json_array();
    for (int k = 0; k < a->rank; k++) json_array_append_new(shape, json_integer(a->shape[k]));
    mba__fact_text(row, "name", a->name);
    mba__fact_text(row, "dtype", type);
    json_object_set_new(row, "shape", shape);
    json_array_append_new(c->list, row);
    mba__fact_int(c->types, type, json_integer_value(json_object_get(c->types, type)) + a->elems);
    c->values += a->elems;
    c->bytes += a->bytes;
}

static void tell_arrays(mba_report *r, const array_count *c)
{
    mba__fact_int(r->facts, "tensors", (int64_t)json_array_size(c->list));
    mba__fact_int(r->facts, "values", c->values);
    mba__fact_int(r->facts, "tensor_bytes", c->bytes);
    json_object_set_new(r->facts, "types", c->types);
    json_object_set_new(r->facts, "list", c->list);
}

mba_status mba__inspect_safetensors(mba_report *r, const mba_map *m)
{
    mba_safetensors *f = NULL;
    MBA_TRY(mba_safetensors_open_bytes(&f, r->path, m->data, m->bytes));
    array_count c = { .list = json_array(), .types = json_object() };
    for (int64_t i = 0; i < mba_safetensors_count(f); i++) add_array(&c, mba_safetensors_at(f, i));
    mba__fact_format(r, "safetensors", "named tensors");
    tell_arrays(r, &c);
    mba_safetensors_close(f);
    return MBA_OK;
}

static bool holds(const mba_report *r, const char *name)
{
    char path[4096];
    return snprintf(path, sizeof path, "%s/%s", r->path, name) < (int)sizeof path && mba_is_file(path);
}

bool mba__inspect_checkpoint(mba_status *st, mba_report *r)
{
    mba_weights *w = NULL;
    if (!holds(r, "model.safetensors") && !holds(r, "model.safetensors.index.json")) return false;
    *st = mba_weights_open(&w, r->path);
    if (*st != MBA_OK) return true;
    array_count c = { .list = json_array(), .types = json_object() };
    for (int64_t i = 0; i < mba_weights_count(w); i++) add_array(&c, mba_weights_at(w, i));
    mba__fact_format(r, "checkpoint", "the weights of a checkpoint directory");
    tell_arrays(r, &c);
    mba_weights_close(w);
    return true;
}

static mba_status tell_values(json_t *facts, const mba_array *a)
{
    mba_value_range s = { 0 };
    double          x[1024];
    int64_t         wild = 0;
    for (int64_t at = 0; at < a->elems; at += 1024) {
        const int64_t n = a->elems - at < 1024 ? a->elems - at : 1024, width = (int64_t)mba_file_dtype_bytes(a->dtype);
        mba_array     part = *a;
        part.rank = 1;
        part.shape[0] = part.elems = n;
        part.bytes = n * width;
        part.data = (const char *)a->data + at * width;
        MBA_TRY(mba_array_read_f64(&part, x, n));
        for (int64_t i = 0; i < n; i++) {
            if (isfinite(x[i])) mba__spread_add(&s, x[i]);
            else wild++;
        }
    }
    mba__fact_spread(facts, "value", &s, false);
    mba__fact_int(facts, "not_finite", wild);
    return MBA_OK;
}

mba_status mba__inspect_npy(mba_report *r, const mba_map *m)
{
    mba_npy *f = NULL;
    MBA_TRY(mba_npy_open_bytes(&f, r->path, m->data, m->bytes));
    const mba_array *a = mba_npy_array(f);
    json_t          *shape = json_array();
    for (int k = 0; k < a->rank; k++) json_array_append_new(shape, json_integer(a->shape[k]));
    mba__fact_format(r, "npy", "one array, as NumPy saves it");
    mba__fact_text(r->facts, "dtype", mba_file_dtype_name(a->dtype));
    json_object_set_new(r->facts, "shape", shape);
    mba__fact_int(r->facts, "values", a->elems);
    const mba_status st = tell_values(r->facts, a);
    mba_npy_close(f);
    return st;
}
