// SPDX-License-Identifier: Apache-2.0
/* store_files.c -- see store_files.h. */
#include "cli/store_files.h"

#include <stdlib.h>
#include <string.h>

#include "cli/say.h"
#include "core/file.h"
#include "scope/doubts.h"
#include "sim/machine.h"

/* Whether the store can be read and holds anything. */
static mba_status look_at(const char *path)
{
    mba_store    *s = NULL;
    mba_analysis *a = NULL;
    mba_status    st = mba_store_open(&s, path);
    if (st == MBA_OK) st = mba_analysis_create(&a, s);
    if (st == MBA_OK && !a->nsheet && !a->nnodes && !a->nkernels)
        st = mba_fail(MBA_E_FORMAT,
                      "'%s' is an empty store\nwhy: its run ended before it recorded anything\n"
                      "fix: run mambascope profile again",
                      path);
    mba_analysis_destroy(a);
    const mba_status closed = mba_store_close(s);
    (void)closed; // it was only read
    return st;
}

static void leave_out(char *names, size_t room, const char *path)
{
    const char  *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const size_t n = strlen(names);
    snprintf(names + n, room - n, "%s%s", n ? ", " : "", *name ? name : "(no name)");
    mba_say(stderr, "left out: %s\n", mba_message());
}

mba_status mba_stores_open_good(mba_stores *r, const char *const *path, int n, int *shown)
{
    const char *good[MBA_RUNS_MAX];
    char        left_out[sizeof r->left_out] = "";
    int         k = 0, first = shown ? *shown : n, kept = 0;
    if (n < 1 || n > MBA_RUNS_MAX) return mba_stores_open(r, path, n); // reports what is wrong
    if (n == 1) MBA_TRY(look_at(path[0]));
    if (n == 1) return mba_stores_open(r, path, n);
    for (int i = 0; i < n; i++) {
        const mba_status st = look_at(path[i]);
        if (st == MBA_E_NOMEM) return st; // the store may be undamaged
        if (st != MBA_OK) {
            leave_out(left_out, sizeof left_out, path[i]);
            continue;
        }
        kept += i < first;
        good[k++] = path[i];
    }
    if (!k)
        return mba_fail(MBA_E_FORMAT,
                        "none of the %d stores can be read\nwhy: the lines above say why\n"
                        "fix: name stores of `mambascope profile` or `suite`; mambascope export FILE.db --check "
                        "finds damage",
                        n);
    MBA_TRY(mba_stores_open(r, good, k));
    snprintf(r->left_out, sizeof r->left_out, "%s", left_out);
    if (shown) *shown = kept;
    return MBA_OK;
}

/* Takes the rates of L2 and L1 from the machine file, for the roofline. */
static mba_status add_cache_rates(mba_stores *r)
{
    for (int i = 0; i < r->n; i++) {
        const char *machine = mba_machine_of_run(r->run[i].a);
        mba_gpu     m;
        if (!machine) continue;
        MBA_TRY(mba_gpu_load(&m, machine));
        r->run[i].l2_bytes_s = 1e9 * m.v[MBA_GPU_l2_rd];
        r->run[i].l1_bytes_s = 1e9 * m.v[MBA_GPU_smem_bw] * m.v[MBA_GPU_sm] * m.v[MBA_GPU_clk];
    }
    return MBA_OK;
}

mba_status mba_stores_simulate(mba_stores *r, mba_whatif **out, bool whatif)
{
    const mba_analysis *run[MBA_RUNS_MAX];
    *out = whatif ? calloc(1, sizeof **out) : NULL;
    if (whatif && !*out) return mba_fail(MBA_E_NOMEM, "no memory for the simulations");
    MBA_TRY(add_cache_rates(r));
    for (int i = 0; i < r->shown; i++) run[i] = r->run[i].a;
    if (whatif) MBA_TRY(mba_whatif_make(*out, run, r->shown));
    r->whatif = *out;
    return MBA_OK;
}

static bool is_database(const char *path)
{
    static const char magic[16] = "SQLite format 3";
    char              head[sizeof magic];
    FILE             *f = fopen(path, "rb");
    const bool        yes = f && fread(head, 1, sizeof head, f) == sizeof head && !memcmp(head, magic, sizeof magic);
    if (f) fclose(f);
    return yes;
}

mba_status mba_output_check(const char *path)
{
    mba_writer *w = NULL;
    if (is_database(path))
        return mba_fail(
            MBA_E_ARG,
            "'%s' is a store\nwhy: writing there would destroy its measurements\nfix: name another file, or remove "
            "the store",
            path);
    MBA_TRY(mba_writer_create(&w, path));
    mba_writer_destroy(w);
    return MBA_OK;
}

void mba_stores_tell_doubts(FILE *f, const mba_stores *r)
{
    mba_analysis *a[MBA_RUNS_MAX];
    mba_doubt     d[MBA_DOUBTS_MAX];
    for (int i = 0; i < r->n; i++) a[i] = r->run[i].a;
    const int n = mba_doubts_together(d, a, r->n);
    for (int k = 0; k < n; k++) {
        const mba_run *run = &r->run[d[k].first];
        const char    *part = mba_env_find(run->a, "suite.part"), *name = part ? part : run->label;
        const bool     named = d[k].stores == 1 && r->n > 1;
        mba_say(f, "note: %s%s%s\n", named ? name : "", named ? ": " : "", d[k].text);
    }
}
