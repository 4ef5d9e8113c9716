// SPDX-License-Identifier: Apache-2.0
/* inspect.c -- see inspect.h: what kind of data a path names. */
#include "cli/inspect.h"

#include <string.h>
#include <unistd.h>

#include "cli/progress.h"
#include "data/json.h"
#include "data/listing.h"
#include "data/recognise.h"

typedef mba_status inspect_fn(mba_report *r, const mba_map *m);

static inspect_fn *const inspect_kind[] = {
    [MBA_DATA_NPY] = mba__inspect_npy,
    [MBA_DATA_SAFETENSORS] = mba__inspect_safetensors,
    [MBA_DATA_TOKENIZER] = mba__inspect_tokenizer,
    [MBA_DATA_JSON_LINES] = mba__inspect_json_lines,
    [MBA_DATA_JSON] = mba__inspect_json,
    [MBA_DATA_TEXT] = mba__inspect_text,
    [MBA_DATA_EDGE_LIST] = mba__inspect_edge_list,
    [MBA_DATA_TOKENS] = mba__inspect_tokens,
};

static mba_status inspect_file(mba_report *r, const mba_map *m)
{
    mba_status    st;
    mba_data_kind kind;
    if (!m->bytes)
        return mba_fail(MBA_E_FORMAT, "'%s' is empty\nwhy: it has 0 bytes\nfix: write or copy it again", r->path);
    MBA_TRY(mba_refuse_foreign(r->path, m->data, m->bytes));
    if (mba__inspect_graph_file(&st, r, m) || mba__inspect_image_file(&st, r, m)) return st;
    MBA_TRY(mba_recognise_file(&kind, r->path));
    if (inspect_kind[kind]) return inspect_kind[kind](r, m);
    return mba_fail(MBA_E_FORMAT,
                    "'%s' is not a supported data set\nwhy: its first bytes match no known format, and %zu "
                    "bytes are not a whole number of 16-bit tokens\nfix: mambascope data --help names the "
                    "formats",
                    r->path, m->bytes);
}

static mba_status inspect_path(mba_report *r)
{
    mba_status st = MBA_OK;
    mba_map    m = { 0 };
    if (mba_is_folder(r->path)) {
        if (mba__inspect_checkpoint(&st, r) || mba__inspect_graph_folder(&st, r) || mba__inspect_token_folder(&st, r))
            return st;
        return mba__inspect_image_folder(r);
    }
    const bool made_up = !strcmp(r->path, "shapes") || !strcmp(r->path, "synthetic");
    if (access(r->path, F_OK) != 0 && (made_up || strpbrk(r->path, "*?["))) return mba__inspect_image_folder(r);
    if (access(r->path, F_OK) != 0 && mba__inspect_made_graphs(&st, r)) return st;
    MBA_TRY(mba_file_map(&m, r->path));
    r->bytes = (int64_t)m.bytes;
    st = inspect_file(r, &m);
    mba_file_unmap(&m);
    return st;
}

mba_status mba_inspect(const char *path, const mba_inspect_options *o)
{
    mba_report r = { .path = path, .field = o->field ? o->field : "text" };
    mba__json_begin();
    r.facts = json_object();
    mba__fact_text(r.facts, "path", path);
    mba_status st = inspect_path(&r);
    if (mba__json_starved()) st = mba_fail(MBA_E_NOMEM, "no memory to describe '%s'", path);
    if (st == MBA_OK && o->into) {
        if (json_array_append(o->into, r.facts)) st = mba_fail(MBA_E_NOMEM, "no memory to describe '%s'", path);
    } else if (st == MBA_OK && o->json) {
        st = mba_json_print(stdout, r.facts, 9);
    } else if (st == MBA_OK) {
        mba__report_print(&r, stdout, mba_colours_on(STDOUT_FILENO));
    }
    for (int i = 0; i < MBA_PICTURES; i++) mba_image_free(&r.picture[i]);
    json_decref(r.facts);
    return st;
}
