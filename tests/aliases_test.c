// SPDX-License-Identifier: Apache-2.0
/* aliases_test.c -- names of earlier releases still find what they mean: in stores, in tables of measured kernels and
 * in --op. */
#include <glob.h>

#include <sqlite3.h>

#include "core/aliases.h"
#include "core/file.h"
#include "core/op.h"
#include "scope/store.h"
#include "sim/profiled.h"
#include "tests/program.h"

typedef struct alias {
    const char *op, *old, *now;
} alias;

static const alias aliases[] = {
#define KERNEL(was, is)      { NULL, #was, #is },
#define VARIANT(of, was, is) { #of, #was, #is },
#include "core/aliases.def"
#undef KERNEL
#undef VARIANT
};
enum { ALIASES = sizeof aliases / sizeof *aliases };

static bool has(const mba_variant *v, const char *name)
{
    for (; v && v->name; v++)
        if (!strcmp(v->name, name)) return true;
    return false;
}

static const mba_op *op_named(const char *name)
{
    for (int i = 0; mba_ops[i]; i++)
        if (!strcmp(mba_ops[i]->name, name)) return mba_ops[i];
    return NULL;
}

static bool is_variant(const char *op, const char *name)
{
    const mba_op *o = op_named(op);
    return o && (has(o->cpu, name) || has(o->cuda, name));
}

static void aliases_lead_to_names_that_exist(void **state)
{
    (void)state;
    for (int i = 0; i < ALIASES; i++) {
        const alias *a = &aliases[i];
        char         back[64];
        assert_string_equal(a->op ? mba_alias_variant(a->op, a->old) : mba_alias_kernel(a->old), a->now);
        assert_string_equal(a->op ? mba_alias_variant(a->op, a->now) : mba_alias_kernel(a->now), a->now);
        if (!a->op) continue;
        snprintf(back, sizeof back, "%s_bwd", a->op);
        assert_string_equal(mba_alias_variant(back, a->old), a->now);
        if (!is_variant(a->op, a->now) && !is_variant(back, a->now)) fail_msg("%s has no variant %s", a->op, a->now);
        if (is_variant(a->op, a->old) || is_variant(back, a->old)) fail_msg("%s still has a variant %s", a->op, a->old);
    }
    assert_string_equal(mba_alias_variant("conv1d_bwd", "walk"), "persistent");
    assert_string_equal(mba_alias_variant("conv2d", "walk"), "walk"); // another operator's name
    assert_string_equal(mba_alias_kernel("lamb_cut_more"), "lamb_cut_more");
    assert_null(mba_alias_kernel(NULL));
    assert_null(mba_alias_variant("conv1d", NULL));
}

/* ---- stores ---- */

static int64_t old_kernels_in(const char *path)
{
    sqlite3      *db;
    sqlite3_stmt *q;
    int64_t       n = 0;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT name FROM kernel", -1, &q, NULL), SQLITE_OK);
    while (sqlite3_step(q) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(q, 0);
        n += name && mba_alias_kernel(name) != name;
    }
    sqlite3_finalize(q);
    sqlite3_close(db);
    return n;
}

static bool planned(const mba_row_launch *l, int64_t n, const char *kernel)
{
    for (int64_t i = 0; i < n; i++)
        if (!strcmp(l[i].kernel, kernel)) return true;
    return false;
}

/* Every node has a variant of today, every kernel a name of today, and kernels are still those of the launches. */
static void check_store(const char *path, int64_t old)
{
    mba_store      *s;
    mba_row_node   *node;
    mba_row_launch *launch;
    mba_row_kernel *kernel;
    int64_t         nodes, launches, kernels, renamed = 0;
    assert_ok(mba_store_open(&s, path));
    assert_ok(mba_load_node(s, &node, &nodes));
    assert_ok(mba_load_launch(s, &launch, &launches));
    assert_ok(mba_load_kernel(s, &kernel, &kernels));
    for (int64_t i = 0; i < nodes; i++)
        if (!is_variant(node[i].op, node[i].variant)) fail_msg("%s: %s=%s", path, node[i].op, node[i].variant);
    for (int64_t i = 0; i < kernels; i++)
        for (int k = 0; k < ALIASES; k++) {
            if (aliases[k].op) continue;
            assert_true(strcmp(kernel[i].name, aliases[k].old));
            if (strcmp(kernel[i].name, aliases[k].now)) continue;
            renamed++;
            if (!planned(launch, launches, kernel[i].name)) fail_msg("%s: no launch of %s", path, kernel[i].name);
        }
    assert_int_equal(renamed, old);
    assert_ok(mba_store_close(s));
}

static void an_old_store_finds_its_kernels(void **state)
{
    (void)state;
    static const char *const stores[] = { "graph", "graphmamba", "mamba1", "mamba2", "vision" };
    for (size_t i = 0; i < sizeof stores / sizeof *stores; i++) {
        char path[128];
        snprintf(path, sizeof path, "tests/data/stores/h200_%s.db", stores[i]);
        const int64_t old = old_kernels_in(path);
        assert_true(old > 0);
        check_store(path, old);
    }
    says(run("verify tests/data/stores/h200_mamba1.db"), 0, "scan_bwd_specialized");
}

/* ---- tables of measured kernels ---- */

/* The files of the built-in table, one after the other. */
static char *built_in_table(size_t *bytes)
{
    glob_t files;
    char  *all = NULL;
    *bytes = 0;
    assert_int_equal(glob("src/sim/data/kernels/*.tsv", 0, NULL, &files), 0);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        char  *text;
        size_t n;
        assert_ok(mba_file_read(&text, &n, files.gl_pathv[i], 1 << 24));
        assert_non_null(all = realloc(all, *bytes + n + 1));
        memcpy(all + *bytes, text, n + 1);
        *bytes += n;
        free(text);
    }
    globfree(&files);
    return all;
}

/* That table with every name turned back, cell by cell. */
static char *earlier_table(size_t *bytes)
{
    char  *out;
    size_t n;
    char  *text = built_in_table(&n);
    assert_non_null(out = malloc(2 * n + 1));
    *bytes = 0;
    for (char *at = text; *at;) {
        const size_t cell = strcspn(at, "\t\n");
        const char  *name = at;
        size_t       length = cell;
        for (int i = 0; i < ALIASES; i++)
            if (!aliases[i].op && strlen(aliases[i].now) == cell && !memcmp(at, aliases[i].now, cell))
                length = strlen(name = aliases[i].old);
        memcpy(out + *bytes, name, length);
        *bytes += length;
        at += cell;
        if (*at) out[(*bytes)++] = *at++;
    }
    out[*bytes] = 0;
    free(text);
    return out;
}

static void an_old_table_of_kernels_is_the_same(void **state)
{
    (void)state;
    mba_profiled_set *now, *old;
    size_t            bytes;
    char             *text = earlier_table(&bytes);
    assert_non_null(strstr(text, "\tnorm_fwd_team\t"));
    assert_ok(mba_profiled_load(&now, NULL));
    assert_ok(mba_profiled_parse(&old, "earlier", text, bytes));
    assert_int_equal(now->n, old->n);
    for (int i = 0; i < now->n; i++) {
        assert_string_equal(now->one[i].kernel, old->one[i].kernel);
        assert_string_equal(now->one[i].variant, old->one[i].variant);
        if (op_named(now->one[i].op) && !is_variant(now->one[i].op, now->one[i].variant))
            fail_msg("%s has no variant %s", now->one[i].op, now->one[i].variant);
    }
    mba_profiled_destroy(now);
    mba_profiled_destroy(old);
    free(text);
}

/* ---- the command line ---- */

#define STEP_OF "simulate --machine h200 --model mamba2-130m --batch 1 --length 64 --json "

static void op_takes_an_earlier_name_and_says_so(void **state)
{
    (void)state;
    says(run(STEP_OF "--op conv1d=walk"), 0, "note: --op conv1d=walk: the variant is now called persistent\n");
    assert_int_equal(run(STEP_OF "--op conv1d=walk 2> /dev/null | cat"), 0);
    json_t *old = json_output();
    assert_int_equal(run(STEP_OF "--op conv1d=persistent | cat"), 0);
    json_t *now = json_output();
    assert_true(json_equal(old, now));
    json_decref(old);
    json_decref(now);
    says(run(STEP_OF "--op conv1d=wolk"), 2, "conv1d has no variant 'wolk'");
}

MBA_TEST_MAIN(cmocka_unit_test(aliases_lead_to_names_that_exist), cmocka_unit_test(an_old_store_finds_its_kernels),
              cmocka_unit_test(an_old_table_of_kernels_is_the_same),
              cmocka_unit_test(op_takes_an_earlier_name_and_says_so))
