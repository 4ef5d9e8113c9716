// SPDX-License-Identifier: Apache-2.0
/* ssd_plans_test.c -- launch plans of the CUDA variants of ssd: how they differ, how `fused` splits its scans, and FLOP
 * counts against the loops of the kernels. No GPU is needed. */
#include "tests/test.h"

#include "core/check.h"
#include "core/plan_work.h"
#include "core/program.h"
#include "ops/ssd/ssd.h"
#include "ops/ssd/fused/ssd_data_flops.h"
#include "ops/ssd/ssd_slots.h"
#include "tests/machines.h"

/* The launches of a plan over the tiles of another, in as many blocks as fit. */
static void check_persistent(const mba_plan *few, const mba_plan *all, const mba_machine *m)
{
    assert_int_equal(few->nlaunches, all->nlaunches);
    assert_in_range(few->nlaunches, 1, SSD_LAUNCHES_MAX); // `persistent_dynamic` has a counter for each
    for (int k = 0; k < few->nlaunches; k++) {
        const mba_launch *l = &few->launch[k];
        assert_string_equal(l->kernel, all->launch[k].kernel);
        assert_int_equal(l->tiles, all->launch[k].grid[0]);
        assert_true(l->persistent && l->grid[0] <= l->tiles && l->grid[0] > 0);
        assert_true(l->grid[0] == l->tiles || l->grid[0] % m->sm == 0);
    }
}

/* `persistent*` have the tiles of `chunked` in fewer blocks, and the same scratch but for the counters of
 * `persistent_dynamic`; `bc_fused` has one launch less and no C B^T in scratch. */
static void steps_of_the_ladder_differ_from_chunked_in_one_thing(void **state)
{
    (void)state;
    static const mba_case    peer = { { 4, 4096, 64, 64, 1, 128, 256, SKIP_HEAD | BIAS | MODEL }, "mamba2-1.3b" };
    static const char *const name[] = { "chunked", "persistent", "persistent_dynamic", "persistent_prefetch",
                                        "bc_fused" };
    enum { WAYS = sizeof name / sizeof *name }; // they follow `fused` and `fused_mma` in the list
    mba_case_graph o;
    assert_ok(mba_case_build(&o, &mba_op_ssd, &peer, (mba_case_how){ .compute = MBA_BF16 }));
    for (size_t m = 0; m < sizeof machines / sizeof *machines; m++)
        for (int32_t i = 0; i < o.g->nnodes; i++) {
            const mba_node *n = o.g->nodes[i];
            mba_plan        plan[WAYS];
            if (n->op != &mba_op_ssd && n->op != &mba_op_ssd_bwd) continue;
            for (int k = 0; k < WAYS; k++) {
                assert_ok(mba_plan_variant(&plan[k], NULL, o.g->arena, n, &n->op->cuda[2 + k], &machines[m]));
                assert_string_equal(plan[k].variant, name[k]);
            }
            for (int k = 1; k < WAYS - 1; k++) {
                const size_t counters = k == 2 ? SSD_LAUNCHES_MAX * sizeof(unsigned) : 0;
                check_persistent(&plan[k], &plan[0], &machines[m]);
                for (int j = 0; j < plan[0].nscratch; j++)
                    assert_int_equal(plan[k].scratch[j].bytes,
                                     plan[0].scratch[j].bytes + (j == SSD_STEPS_WORK ? counters : 0));
            }
            assert_int_equal(plan[WAYS - 1].nlaunches, plan[0].nlaunches - 1);
            assert_int_equal(plan[WAYS - 1].scratch[SSD_CB_WORK].bytes, 0);
        }
    mba_graph_destroy(o.g);
}

/* Whether the backward pass of a case begins by recomputing the forward pass. */
static bool recomputes_forward(const mba_case *c, mba_case_how how, const char *variants)
{
    mba_case_graph o;
    mba_program   *p;
    bool           prepares = false, keeps = false;
    assert_ok(mba_case_build(&o, &mba_op_ssd, c, how));
    assert_ok(
        mba_program_create(&p, o.g,
                           &(mba_program_options){ .cuda = true, .machine = &machines[1], .variants = variants }));
    for (int32_t i = 0; i < o.g->nnodes; i++) {
        const mba_node *n = o.g->nodes[i];
        if (n->op == &mba_op_ssd) keeps = n->out[KEPT_STATES] != NULL;
        if (n->op == &mba_op_ssd_bwd) prepares = !strcmp(p->plan[i]->launch[0].kernel, "ssd_prep");
        if (n->op == &mba_op_ssd_bwd) assert_string_equal(p->plan[i]->variant, "fused");
    }
    assert_int_equal(keeps, !how.recompute);
    mba_program_destroy(p);
    mba_graph_destroy(o.g);
    return prepares;
}

static void backward_uses_what_its_own_forward_saved(void **state)
{
    (void)state;
    const mba_case c = { { 2, 200, 4, 64, 2, 128, 64, SKIP_HEAD | BIAS | RESETS }, "fused" };
    assert_false(recomputes_forward(&c, (mba_case_how){ .compute = MBA_BF16 }, NULL));
    assert_true(recomputes_forward(&c, (mba_case_how){ .compute = MBA_BF16 }, "ssd=chunked")); // saves nothing
    assert_true(recomputes_forward(&c, (mba_case_how){ .compute = MBA_BF16, .recompute = true }, NULL));
}

/* ---- how the scans of `fused` are split ---- */

static void check_split(const ssd_split *r, int64_t sms)
{
    int64_t recomputed = 0, received = 0;
    assert_in_range(r->blocks, 1, sms);
    assert_int_equal(r->at[0], 0);
    assert_int_equal(r->at[r->blocks], r->items * r->K);
    assert_true((r->how == SSD_STATE_RECOMPUTED) == (r->blocks > r->items)); // the launcher relies on this
    for (int64_t j = 0; j < r->blocks; j++) {
        const int64_t before = r->at[j] % r->K;
        assert_true(r->at[j] < r->at[j + 1]);
        if (!before) continue;
        assert_true(r->at[j - r->before[j]] <= r->at[j] - before);
        if (r->how == SSD_STATE_PASSED) assert_int_equal(r->before[j], 1); // no chain of waits
        else assert_int_equal(before % 2, 0);                              // chunks are recomputed in pairs
        const bool within = r->at[j - 1] > r->at[j] - before; // the previous range lies inside the item too
        recomputed += within ? r->at[j] - r->at[j - 1] : before;
        received += r->how == SSD_STATE_PASSED || within;
        if (within) assert_int_equal((r->at[j] - 1) / r->K, r->at[j - 1] / r->K); // it has one item: no wait
    }
    assert_int_equal(r->recomputed, r->how == SSD_STATE_RECOMPUTED ? recomputed : 0);
    assert_int_equal(r->received, received);
    assert_int_equal(r->state_slots, received ? r->blocks : 0);
}

static void split_covers_every_chunk_once(void **state)
{
    (void)state;
    const int64_t batch[] = { 1, 2, 3, 4, 8, 300 }, heads[] = { 2, 4, 24, 32, 64, 80, 128 };
    const int64_t length[] = { 1, 64, 65, 300, 512, 1100, 2048, 4096, 32768, 131072 };
    const int64_t sms[] = { 1, 2, 3, 7, 114, 132, 400 };
    int           seen[3] = { 0 };
    for (int i = 0; i < 6 * 10 * 7 * 7 * 2; i++) {
        const bool      backward = i / 420 % 2;
        const int64_t   n = sms[i / 840 % 7];
        const int64_t   H = heads[i / 60 % 7];
        const ssd_dims  d = { .B = batch[i % 6], .L = length[i / 6 % 10], .H = H, .P = 64, .N = 128, .G = 1, .J = H };
        const ssd_split r = ssd_split_of(&d, n, backward);
        seen[r.how]++;
        if (r.how == SSD_UNSPLIT) continue;
        check_split(&r, n);
        const ssd_split recomputed = ssd_split_as(&d, r.how, r.blocks, backward);
        assert_memory_equal(&recomputed, &r, sizeof r); // what a launcher derives from the plan
    }
    for (int k = 0; k < 3; k++) assert_true(seen[k] > 0);
}

/* ---- plans: products that warps issue, counted by the loops of the kernels (ssd_mma*.cuh, ssd_fma.cuh) ---- */

/* y or dx of a chunk and two heads of 64 columns: four warps of `wide` rows per head skip blocks of 16 beyond the
 * diagonal. */
static double scan_flops(int Q, int N, int rows, bool rev)
{
    const int wide = rows / 4;
    double    sum = 0;
    for (int r0 = 0; r0 < Q; r0 += rows)
        for (int lo = r0; lo < r0 + rows; lo += wide) {
            sum += 2 * 2.0 * wide * 64 * ((N + 63) / 64 * 64);
            for (int s = rev ? r0 : 0; s < (rev ? Q : r0 + rows); s += 16)
                if (rev ? s >= lo : s < lo + wide) sum += 2 * 2.0 * wide * 64 * 16;
        }
    return sum;
}

static double expected_flops(const ssd_dims *d, const char *kernel, bool made) /* made: computes C B^T */
{
    const int    Q = (int)d->Q, N = (int)d->N, tiles = Q / 64, rows = Q % 128 ? 64 : 128;
    const double chunks = (double)(d->B * mba_ceil(d->L, Q)), groups = chunks * (double)d->G,
                 P = (double)mba_ceil(d->P, 64);
    const double pairs = groups * (double)mba_ceil(d->J, 2) * P, slabs = (double)mba_ceil(N, 64),
                 wide = (double)mba_ceil(N, 128);
    const double half = tiles * (tiles + 1) / 2, tile = 2.0 * 64 * 64 * 64;
    if (!strcmp(kernel, "chunk_state_fwd") || !strcmp(kernel, "chunk_scan_bwd_dstates"))
        return pairs * wide * 4 * tiles * tile;
    if (!strcmp(kernel, "bmm_chunk_fwd")) return groups * half * slabs * tile;
    if (!strcmp(kernel, "chunk_scan_fwd")) return pairs * scan_flops(Q, N, rows, false);
    if (!strcmp(kernel, "chunk_scan_chunk_state_bwd_dx")) return pairs * scan_flops(Q, N, rows, true);
    if (!strcmp(kernel, "bc_chunk_scan_fwd") || !strcmp(kernel, "bc_chunk_scan_bwd_dx"))
        return groups * P * (double)mba_ceil(mba_ceil(d->J, 2), SSD_BC_PAIRS) * half * slabs * tile
               + pairs * scan_flops(Q, N, 64, kernel[14] == 'b');
    if (!strcmp(kernel, "chunk_state_bwd_db") || !strcmp(kernel, "chunk_scan_bwd_dc"))
        return groups * wide * (double)d->J * P * tiles * 2 * tile;
    if (!strcmp(kernel, "chunk_scan_bwd_dcb")) return groups * half * ((double)d->J * P + (made ? slabs : 0)) * tile;
    if (!strcmp(kernel, "bmm_chunk_bwd")) return groups * wide * half * 2 * tile;
    return -1;
}

/* The same of `fma`: tiles of 64 x 64 and 16 of k, four warps of 16 rows, three products for one. Chunks of whole tiles
 * have whole tiles of tokens. */
static double expected_fma_flops(const ssd_dims *d, const char *kernel)
{
    const int    tiles = (int)d->Q / 64;
    const double step = 3 * 2.0 * 64 * 64 * 16, groups = (double)(d->B * mba_ceil(d->L, d->Q) * d->G);
    const double half = tiles * (tiles + 1) / 2, P = (double)mba_ceil(d->P, 64), N = (double)mba_ceil(d->N, 64);
    const double P16 = (double)mba_ceil(d->P, 16), N16 = (double)mba_ceil(d->N, 16);
    const double heads = groups * (double)d->J;
    double       scan = 0; // steps of a warp, of four
    for (int i = 0; i < tiles; i++)
        for (int warp = 0; warp < 4; warp++) scan += (N16 + 4 * i + warp + 1) / 4;
    if (!strcmp(kernel, "chunk_state_fwd_fma") || !strcmp(kernel, "chunk_scan_bwd_dstates_fma"))
        return heads * P * N * 4 * tiles * step;
    if (!strcmp(kernel, "bmm_chunk_fwd_fma")) return groups * half * N16 * step;
    if (!strcmp(kernel, "chunk_scan_fwd_fma") || !strcmp(kernel, "chunk_scan_chunk_state_bwd_dx_fma"))
        return heads * P * scan * step;
    if (!strcmp(kernel, "chunk_state_bwd_db_fma") || !strcmp(kernel, "chunk_scan_bwd_dc_fma"))
        return heads * N * tiles * P16 * step;
    if (!strcmp(kernel, "chunk_scan_bwd_dcb_fma")) return heads * half * P16 * step;
    if (!strcmp(kernel, "bmm_chunk_bwd_fma")) return groups * N * 4 * half * step;
    return -1;
}

static void plans_count_the_products_that_warps_issue(void **state)
{
    (void)state;
    static const mba_case cases[] = { { { 4, 4096, 32, 64, 8, 128, 256, MODEL }, "headline" },
                                      { { 1, 1001, 6, 64, 2, 128, 128, MODEL }, "odd" },
                                      { { 2, 300, 3, 40, 1, 72, 192, 0 }, "odd heads, tiles of 64 rows" },
                                      { { 1, 65, 18, 64, 1, 256, 64, 0 }, "nine pairs" } };
    int                   seen = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mba_case_graph o;
        assert_ok(mba_case_build(&o, &mba_op_ssd, &cases[i], (mba_case_how){ .compute = MBA_BF16 }));
        for (int32_t k = 0; k < o.g->nnodes; k++) {
            const mba_node *n = o.g->nodes[k];
            const bool      mine = n->op == &mba_op_ssd || n->op == &mba_op_ssd_bwd;
            for (const mba_variant *v = n->op->cuda; mine && v->name; v++) {
                const ssd_dims d = ssd_dims_of(n);
                mba_plan       p;
                if (mba_plan_variant(&p, NULL, o.g->arena, n, v, &machines[1]) != MBA_OK) continue;
                for (int l = 0; l < p.nlaunches; l++) {
                    const char  *kernel = p.launch[l].kernel;
                    const double want = strcmp(v->name, "fma")
                                            ? expected_flops(&d, kernel, !strcmp(v->name, "bc_fused"))
                                            : expected_fma_flops(&d, kernel);
                    if (want < 0) continue;
                    assert_near(mba_launch_work(&p.launch[l], MBA_MMA) / want, 1, 1e-12);
                    seen++;
                }
            }
        }
        mba_graph_destroy(o.g);
    }
    assert_int_equal(seen, 280);
}

/* In fp32 `fma` multiplies three TF32 operands for one; in TF32 one, so that nothing but that and its work changes. */
static void a_tf32_product_is_one_of_three(void **state)
{
    (void)state;
    static const mba_case c = { { 1, 1001, 6, 64, 2, 128, 128, MODEL }, "odd" };
    double                arithmetic[2] = { 0 };
    int                   seen[2] = { 0 };
    for (int tf32 = 0; tf32 < 2; tf32++) {
        mba_case_graph o;
        mba_plan       p;
        assert_ok(mba_case_build(&o, &mba_op_ssd, &c, (mba_case_how){ .compute = MBA_F32, .tf32 = tf32 }));
        for (int32_t k = 0; k < o.g->nnodes; k++) {
            const mba_node    *n = o.g->nodes[k];
            const mba_variant *v = n->op->cuda;
            if (n->op != &mba_op_ssd && n->op != &mba_op_ssd_bwd) continue;
            const ssd_dims d = ssd_dims_of(n);
            while (strcmp(v->name, "fma")) v++;
            assert_ok(mba_plan_variant(&p, NULL, o.g->arena, n, v, &machines[1]));
            for (int l = 0; l < p.nlaunches; l++) {
                const double want = expected_fma_flops(&d, p.launch[l].kernel);
                if (want < 0) continue;
                assert_near(mba_launch_work(&p.launch[l], MBA_MMA) / want, tf32 ? 1. / 3 : 1, 1e-12);
                arithmetic[tf32] += mba_launch_work(&p.launch[l], MBA_FMA);
                seen[tf32]++;
            }
        }
        mba_graph_destroy(o.g);
    }
    assert_int_equal(seen[0], 3 + 9); // forward, backward
    assert_int_equal(seen[1], seen[0]);
    assert_true(arithmetic[1] < arithmetic[0]);
}

/* ---- `fused` at the shapes of published models: tiles of 64 p x 128 n (ssd_tiled.cuh) ---- */

static const mba_case published[] = {
    { { 2, 4096, 80, 64, 1, 64, 256, SKIP_HEAD | BIAS | MODEL }, "zamba2-2.7b" },
    { { 2, 4096, 112, 64, 2, 64, 256, SKIP_HEAD | BIAS | MODEL }, "zamba2-7b" },
    { { 2, 4096, 64, 128, 1, 64, 256, SKIP_HEAD | BIAS | MODEL }, "plamo2-8b" },
    { { 2, 4096, 128, 80, 8, 128, 128, SKIP_HEAD | BIAS | MODEL }, "nemotron-nano-9b" },
    { { 2, 4096, 96, 80, 8, 128, 128, SKIP_HEAD | BIAS | MODEL }, "nemotron-3-nano-4b" },
    { { 2, 4096, 48, 32, 1, 128, 256, SKIP_HEAD | BIAS | MODEL }, "granite-4.0-h-350m" },
    { { 2, 4096, 48, 64, 1, 256, 256, SKIP_HEAD | BIAS | MODEL }, "falcon-h1-1.5b" },
    { { 2, 4096, 24, 128, 1, 256, 256, SKIP_HEAD | BIAS | MODEL }, "falcon-h1-7b" },
    { { 2, 4096, 32, 128, 2, 256, 256, SKIP_HEAD | BIAS | MODEL }, "falcon-h1-34b" },
    { { 2, 4096, 256, 64, 8, 256, 128, SKIP_HEAD | BIAS | MODEL }, "nemotron-h-56b" },
    { { 3, 1000, 25, 64, 1, 128, 256, SKIP_HEAD | BIAS }, "an odd number of heads" },
    { { 2, 200, 3, 16, 1, 16, 64, SKIP_FULL | RESETS | STATES }, "small heads and states" },
};

/* wgmma of a launch, counted by the loops of its kernels; negative: not counted. */
static double tiled_flops(const ssd_dims *d, const ssd_segments *r, const char *kernel, bool rev)
{
    const double  n64 = 2.0 * 64 * 64 * 16, n128 = 2 * n64;
    const int64_t p = mba_ceil(d->P, 64), n = mba_ceil(d->N, 128), even = mba_ceil(d->J * p, 2) * 2 * d->G;
    const double  tiles = (double)(d->B * even * n), rows = (double)(d->B * even), chunks = (double)r->K;
    const int64_t made = rev ? r->K - r->per_segment : (r->segments - 1) * r->per_segment;
    if (!strcmp(kernel, "ssd_tiled_scan") || !strcmp(kernel, "ssd_tiled_scan_rev"))
        return chunks * (tiles * (8 * n64 + 4 * n128) + rows * 4 * n64);
    if (!strncmp(kernel, "ssd_tiled_states", 16)) return tiles * (double)made * 4 * n128;
    if (!strcmp(kernel, "ssd_tiled_bc"))
        return chunks / 2 * (double)(d->B * d->G * n)
               * ((double)(d->J * p) * (2 * 2 * 4 * n128 + 3 * 4 * n64) + 2 * 6 * 4 * n128);
    return -1;
}

static void published_shapes_are_fused(void **state)
{
    (void)state;
    int seen = 0;
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        mba_case_graph o;
        mba_program   *p;
        assert_ok(mba_case_build(&o, &mba_op_ssd, &published[i], (mba_case_how){ .compute = MBA_BF16 }));
        assert_ok(mba_program_create(&p, o.g, &(mba_program_options){ .cuda = true, .machine = &machines[1] }));
        for (int32_t k = 0; k < o.g->nnodes; k++) {
            const mba_node *n = o.g->nodes[k];
            if (n->op != &mba_op_ssd && n->op != &mba_op_ssd_bwd) continue;
            const ssd_dims     d = ssd_dims_of(n), tiles = ssd_tile_dims(&d);
            const ssd_segments r = ssd_segments_of(&tiles, machines[1].sm, true);
            assert_string_equal(p->plan[k]->variant, "fused");
            if (n->op == &mba_op_ssd_bwd) assert_true(ssd_has_saved(p->plan[k], n));
            for (int l = 0; l < p->plan[k]->nlaunches; l++) {
                const mba_launch *at = &p->plan[k]->launch[l];
                const double      want = tiled_flops(&d, &r, at->kernel, strstr(at->kernel, "_rev") != NULL);
                assert_true(!strncmp(at->kernel, "ssd_tiled_", 10));
                if (want < 0) continue;
                assert_near(mba_launch_work(at, MBA_MMA) / want, 1, 1e-12);
                seen++;
            }
        }
        mba_program_destroy(p);
        mba_graph_destroy(o.g);
    }
    assert_true(seen >= 3 * (int)(sizeof published / sizeof *published));
}

/* ---- FLOPs that depend on the data ---- */

enum { FLAGS = 130, ALL = 131, RESET = 2 }; /* words and flag of a record (ssd_fused.cuh) */

/* Chunks that ssd_states multiplies, by definition: those whose state reaches the end of the segment (reverse: its
 * beginning) through a log decay of less than 88 and no reset. */
static int64_t wanted_chunks(const float *rec, const ssd_dims *d, const ssd_segments *r, bool rev)
{
    int64_t n = 0;
    for (int64_t head = 0; head < d->B * d->H; head++)
        for (int64_t seg = 0; seg < r->segments; seg++) {
            double        sum = 0;
            const int64_t begin = seg * r->per_segment, next = begin + r->per_segment, end = next < r->K ? next : r->K;
            if (seg == (rev ? 0 : r->segments - 1)) continue;
            for (int64_t i = 0; i < end - begin && sum >= -88; i++, n++) {
                const float *c = rec + (head * r->K + (rev ? begin + i : end - 1 - i)) * SSD_RECORD;
                sum = (int)c[FLAGS] & RESET ? -1000 : sum + (double)c[ALL];
            }
        }
    return n;
}

static void fill_records(float *rec, int64_t chunks, int how)
{
    uint32_t seed = 7;
    for (int64_t i = 0; i < chunks; i++) {
        seed = seed * 1664525 + 1013904223;
        rec[i * SSD_RECORD + FLAGS] = how == 2 && seed >> 28 == 0 ? RESET : seed >> 31; // bit 0 is irrelevant here
        rec[i * SSD_RECORD + ALL] = how ? -(float)(seed >> 8 & 0xffff) / 65536 * (float)(1 + i / 64 % 32) : -0.5f;
    }
}

/* Without decay the count equals the plan's, to the last FLOP; with decay, the definition's. */
static void states_are_counted_from_the_data(void **state)
{
    (void)state;
    const mba_case c = { { 4, 4096, 32, 64, 8, 128, 64, SKIP_HEAD | BIAS | MODEL }, "headline" };
    mba_case_graph o;
    mba_program   *p;
    int            seen = 0;
    assert_ok(mba_case_build(&o, &mba_op_ssd, &c, (mba_case_how){ .compute = MBA_BF16 }));
    assert_ok(mba_program_create(&p, o.g, &(mba_program_options){ .cuda = true, .machine = &machines[1] }));
    for (int32_t i = 0; i < o.g->nnodes; i++) {
        const mba_node   *n = o.g->nodes[i];
        const mba_tensor *t = mba_ssd_records(n, p->plan[i]);
        if (!t) continue;
        const bool         rev = n->op == &mba_op_ssd_bwd;
        const ssd_dims     d = ssd_dims_of(n);
        const ssd_segments r = ssd_segments_of(&d, machines[1].sm, true);
        float             *rec = calloc(1, (size_t)mba_tensor_bytes(t));
        assert_non_null(rec);
        assert_true(r.segments > 1);
        for (int how = 0; how < 3; how++, seen++) {
            mba_ssd_data data[MBA_SSD_DATA_MAX];
            fill_records(rec, d.B * d.H * r.K, how);
            assert_int_equal(mba_ssd_data_flops(data, n, p->plan[i], rec), rev ? 2 : 1);
            const mba_launch *l = &p->plan[i]->launch[data[0].launch];
            const double      all = mba_launch_work(l, MBA_MMA), flops = data[0].tensor_flops;
            assert_string_equal(l->kernel, rev ? "ssd_states_rev" : "ssd_states");
            if (how == 0) assert_true(flops == all);
            else assert_true(flops > 0 && flops < all);
            assert_true(flops == 2.0 * 64 * 128 * 64 * (double)wanted_chunks(rec, &d, &r, rev));
            if (rev) assert_true(data[1].tensor_flops == 0);
        }
        free(rec);
    }
    assert_int_equal(seen, 6); // forward and backward
    mba_program_destroy(p);
    mba_graph_destroy(o.g);
}

/* mma.sync of ssd_bwd_slow, counted by its loops (ssd_fused_slow.cuh): of a head, or at the end of a block's share. */
static double slow_flops(bool end)
{
    int64_t n = 0;
    for (int chunk = 0; chunk < 2; chunk++)
        for (int warp = 0; warp < 4; warp++) {
            for (int part = 0; part < 2 && end; part++) n += 3 * 4 * 16;          // last_products
            for (int state = 0; state < 2 && !end; state++) n += 4 * 8 * 4;       // add_state_product
            for (int j = 0; j <= warp && !end; j++) n += 2 * 4 + 2 * 8;           // add_dcb<false>
            for (int j = 0; j < 4 && chunk == 1 && !end; j++) n += 2 * 4 + 2 * 8; // add_dcb<true>
        }
    return (double)n * 2 * 16 * 8 * 16;
}

/* The plan has no products of wide-range heads; the data have them: three heads of two pairs, one of them by both of
 * its chunks, each in a block of its own; then all heads, and a block has all of its pair. */
static void wide_range_heads_are_counted_from_the_data(void **state)
{
    (void)state;
    static const struct {
        mba_case    c;
        const char *kernel;
        int         tiles, states; /* tiles of a head, of them tiles of the state */
    } of[] = { { { { 2, 333, 6, 64, 3, 128, 64, SKIP_HEAD }, "one tile" }, "ssd_bwd_slow", 1, 1 },
               { { { 2, 333, 6, 80, 3, 200, 64, SKIP_HEAD }, "four tiles" }, "ssd_tiled_slow", 4, 2 } };
    int seen = 0;
    for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
        mba_case_graph o;
        mba_program   *p;
        assert_ok(mba_case_build(&o, &mba_op_ssd, &of[k].c, (mba_case_how){ .compute = MBA_BF16 }));
        assert_ok(mba_program_create(&p, o.g, &(mba_program_options){ .cuda = true, .machine = &machines[1] }));
        for (int32_t i = 0; i < o.g->nnodes; i++) {
            const mba_tensor *t = o.g->nodes[i]->op == &mba_op_ssd_bwd ? mba_ssd_records(o.g->nodes[i], p->plan[i])
                                                                       : NULL;
            if (!t) continue;
            enum { K = 6, HEADS = 6 };
            mba_ssd_data data[MBA_SSD_DATA_MAX];
            float       *rec = calloc(1, (size_t)mba_tensor_bytes(t)), *plain = rec + 2 * HEADS * K * SSD_RECORD;
            assert_non_null(rec);
            assert_int_equal(t->type.dim[2], K);
            plain[((1 * HEADS + 2) * K + 4) * SSD_RECORD + FLAGS] = 1; // sequence 1, group 1, pair 2
            plain[((1 * HEADS + 3) * K + 4) * SSD_RECORD + FLAGS] = 1 | RESET;
            plain[((1 * HEADS + 3) * K + 5) * SSD_RECORD + FLAGS] = 1;
            plain[((0 * HEADS + 5) * K + 1) * SSD_RECORD + FLAGS] = 1; // sequence 0, group 2, pair 0
            plain[((0 * HEADS + 0) * K + 1) * SSD_RECORD + FLAGS] = RESET;
            const int count = mba_ssd_data_flops(data, o.g->nodes[i], p->plan[i], rec);
            assert_true(count > 0);
            const mba_launch *l = &p->plan[i]->launch[data[count - 1].launch];
            assert_string_equal(l->kernel, of[k].kernel);
            assert_int_equal(l->cls, MBA_MIXED);
            assert_true(mba_launch_work(l, MBA_MMA) == 0);
            assert_true(data[count - 1].tensor_flops == 3 * of[k].tiles * (slow_flops(false) + slow_flops(true)));
            for (int64_t c = 0; c < 2 * HEADS * K; c++) plain[c * SSD_RECORD + FLAGS] = 1;
            mba_ssd_data_flops(data, o.g->nodes[i], p->plan[i], rec);
            assert_true(data[count - 1].tensor_flops
                        == 2 * HEADS * K / 2 * of[k].tiles * slow_flops(false)
                               + 2 * 3 * K / 2 * of[k].states * slow_flops(true)); // 3 groups
            free(rec);
            seen++;
        }
        mba_program_destroy(p);
        mba_graph_destroy(o.g);
    }
    assert_int_equal(seen, 2);
}

/* The products of `fma` have the distance between tokens in 32 bits. */
static void fma_refuses_tokens_too_far_apart(void **state)
{
    static const mba_case views = { { 2, 9, 4, 2, 2, 3, 4, SKIP_HEAD | BIAS | WINDOWS }, "views" };
    mba_case_graph        o;
    int                   seen = 0;
    (void)state;
    assert_ok(mba_case_build(&o, &mba_op_ssd, &views, (mba_case_how){ .compute = MBA_F32 }));
    for (int32_t i = 0; i < o.g->nnodes; i++) {
        const mba_node    *n = o.g->nodes[i];
        const mba_variant *v = n->op->cuda;
        mba_plan           p;
        if (n->op != &mba_op_ssd && n->op != &mba_op_ssd_bwd) continue;
        while (strcmp(v->name, "fma")) v++;
        const int64_t pitch = n->in[BM]->pitch;
        assert_ok(mba_plan_variant(&p, NULL, o.g->arena, n, v, &machines[1]));
        n->in[BM]->pitch = 1LL << 31;
        assert_int_not_equal(mba_plan_variant(&p, NULL, o.g->arena, n, v, &machines[1]), MBA_OK);
        assert_non_null(strstr(mba_message(), "tokens of a view are 2^31 elements apart"));
        n->in[BM]->pitch = pitch;
        seen++;
    }
    assert_int_equal(seen, 2);
    mba_graph_destroy(o.g);
}

MBA_TEST_MAIN(cmocka_unit_test(steps_of_the_ladder_differ_from_chunked_in_one_thing),
              cmocka_unit_test(backward_uses_what_its_own_forward_saved),
              cmocka_unit_test(split_covers_every_chunk_once),
              cmocka_unit_test(plans_count_the_products_that_warps_issue),
              cmocka_unit_test(a_tf32_product_is_one_of_three), cmocka_unit_test(published_shapes_are_fused),
              cmocka_unit_test(states_are_counted_from_the_data),
              cmocka_unit_test(wide_range_heads_are_counted_from_the_data),
              cmocka_unit_test(fma_refuses_tokens_too_far_apart))
