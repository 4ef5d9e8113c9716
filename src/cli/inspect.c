/* inspect.c -- see inspect.h: what kind of data a path names. */
#include "cli/inspect.h"

#include <string.h>
#include <unistd.h>

#include "cli/progress.h"
#include "data/json.h"
#include "data/listing.h"

bool mba__begins(const mba_map *m, const char *magic, size_t n)
{
    return m->bytes >= n && !memcmp(m->data, magic, n);
}

/* ---- what others write and we do not read ---- */

static const struct { const char *magic; size_t n; const char *what, *fix; } others[] = {
    { "\xff\xd8\xff", 3, "one JPEG image", "name the folder that holds a folder per class" },
    { "\x89PNG", 4, "one PNG image", "name the folder that holds a folder per class" },
    { "\x1f\x8b", 2, "compressed with gzip", "unpack it with gunzip" },
    { "\x28\xb5\x2f\xfd", 4, "compressed with zstd", "unpack it with unzstd" },
    { "PK\x03\x04", 4, "a ZIP archive (.npz, .pt)", "save the arrays as .npy or .safetensors" },
    { "PAR1", 4, "a Parquet file", "write its text as JSON lines" },
    { "\x89HDF", 4, "an HDF5 file", "save the arrays as .npy or .safetensors" },
};

mba_status mba__refuse_others(const char *path, const mba_map *m)
{
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (mba__begins(m, others[i].magic, others[i].n))
            return mba_fail(MBA_E_UNSUPPORTED, "'%s' is not a dataset we read\nwhy: it is %s\nfix: %s", path,
                            others[i].what, others[i].fix);
    return MBA_OK;
}

/* ---- all of it ---- */

/* In this order: what has a name of its own first, then text, at last what any bytes could be. */
static const mba_inspect_kind *const kinds[] = { mba__array_kinds, mba__text_kinds, mba__token_kinds };

static mba_status inspect_file(mba_report *r, const mba_map *m)
{
    mba_status st;
    if (!m->bytes)
        return mba_fail(MBA_E_FORMAT, "'%s' is empty\nwhy: it has no bytes\nfix: make it or copy it again", r->path);
    MBA_TRY(mba__refuse_others(r->path, m));
    if (mba__inspect_graph_file(&st, r, m) || mba__inspect_image_file(&st, r, m)) return st;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (const mba_inspect_kind *k = kinds[i]; k->is; k++)
            if (k->is(m)) return k->inspect(r, m);
    return mba_fail(MBA_E_FORMAT,
                    "'%s' is not a dataset we read\nwhy: its bytes begin like no format we know, and %zu bytes "
                    "are no whole number of 16-bit tokens\nfix: mambascope data --help names the formats",
                    r->path, m->bytes);
}

static mba_status inspect_path(mba_report *r)
{
    mba_status st = MBA_OK;
    mba_map    m  = { 0 };
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
        json_dumpf(r.facts, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
        putchar('\n');
    } else if (st == MBA_OK) {
        mba__report_print(&r, stdout, mba_colours_on(STDOUT_FILENO));
    }
    for (int i = 0; i < MBA_PICTURES; i++) mba_image_free(&r.picture[i]);
    json_decref(r.facts);
    return st;
}
