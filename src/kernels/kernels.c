// SPDX-License-Identifier: Apache-2.0
/* kernels.c -- implements include/mba_kernels.h: one operator as a graph of its own, run on the caller's pointers.
 *
 * A plan is the graph of one operator with its gradient, planned by the same code as a model. Only the
 * memory is not the program's: each operand of the two nodes is mapped, by its storage, to a pointer of the caller. */
#include "mba_kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/program.h"
#include "core/version.h"
#include "ops/conv1d/conv1d.h"
#include "ops/gated_rmsnorm/gated_rmsnorm.h"
#include "ops/selective_scan/selective_scan.h"
#include "ops/ssd/ssd.h"

enum { MACHINE_HOST = -2, MACHINE_DESCRIBED = -1 }; /* instead of the index of a GPU */
enum { FORWARD, BACKWARD };

/* Where the caller has a tensor: in one of the arrays of mba_kernels_pointers, or in a part of `saved`. Kernels do not
 * access UNUSED ones. */
typedef enum from { NOWHERE, IN, OUT, DOUT, DIN, SAVED, UNUSED } from;
typedef struct place {
    from        from;
    size_t      at, skew_bytes;
    const char *name;
} place;

struct mba_kernels_plan {
    mba_graph      *graph;
    mba_program    *program;
    mba_machine     machine;
    char            machine_name[256], variants[160];
    int             device;
    mba_tensor     *operand[MBA_KERNELS_OPERANDS], *result[MBA_KERNELS_RESULTS];
    const mba_node *node[2]; /* forward, backward or NULL */
    place           in[2][MBA_IN_MAX], out[2][MBA_OUT_MAX];
    size_t          saved_bytes;
};

/* ---- operands ---- */

static const char *const names[] = { "x", "dt", "B", "C", "z", "A_log", "D", "dt_bias", "ids", "initial" };

static const struct {
    const char   *name;
    const mba_op *backward;
    uint32_t      needs, takes; /* bit k: operand k must be there, may be there */
} operators[] = {
#define BIT(k) (1u << MBA_KERNELS_##k)
    [MBA_KERNELS_SSD] = { "ssd", &mba_op_ssd_bwd, BIT(X) | BIT(DT) | BIT(B) | BIT(C) | BIT(A_LOG),
                          BIT(D) | BIT(DT_BIAS) | BIT(IDS) | BIT(INITIAL) },
    [MBA_KERNELS_SCAN] = { "selective_scan", &mba_op_selective_scan_bwd,
                           BIT(X) | BIT(DT) | BIT(B) | BIT(C) | BIT(A_LOG),
                           BIT(Z) | BIT(D) | BIT(DT_BIAS) | BIT(IDS) | BIT(INITIAL) },
    [MBA_KERNELS_CONV1D] = { "conv1d", &mba_op_conv1d_bwd, BIT(X) | BIT(WEIGHT), BIT(BIAS) | BIT(IDS) | BIT(INITIAL) },
    [MBA_KERNELS_GATED_NORM] = { "gated_rmsnorm", &mba_op_gated_rmsnorm_bwd, BIT(X) | BIT(Z) | BIT(WEIGHT), 0 },
};
enum { OPERATORS = sizeof operators / sizeof *operators };

static bool is_recurrence(const mba_kernels_desc *d) { return d->op == MBA_KERNELS_SSD || d->op == MBA_KERNELS_SCAN; }

static const char *name_of(const mba_kernels_desc *d, int k)
{
    const bool weight = k == MBA_KERNELS_WEIGHT;
    if (is_recurrence(d) || !(weight || k == MBA_KERNELS_BIAS)) return names[k];
    return weight ? "weight" : "bias";
}

/* Types of conv1d and the gated norm. */
static mba_type type_of_layer(const mba_kernels_desc *d, int k)
{
    const mba_dtype act = d->type == MBA_KERNELS_BF16 ? MBA_BF16 : MBA_F32;
    const bool      conv = d->op == MBA_KERNELS_CONV1D;
    const int64_t   B = d->batch, L = d->length, D = conv ? d->heads : d->heads * d->head_dim, W = d->taps;
    switch (k) {
    case MBA_KERNELS_X:
    case MBA_KERNELS_Z: return MBA_TYPE(act, B, L, D);
    case MBA_KERNELS_WEIGHT: return conv ? MBA_TYPE(MBA_F32, D, W) : MBA_TYPE(MBA_F32, D);
    case MBA_KERNELS_BIAS: return MBA_TYPE(MBA_F32, D);
    case MBA_KERNELS_IDS: return MBA_TYPE(MBA_I32, B, L);
    default: return MBA_TYPE(MBA_F32, B, W - 1, D);
    }
}

static mba_type type_of(const mba_kernels_desc *d, int k)
{
    const mba_dtype act = d->type == MBA_KERNELS_BF16 ? MBA_BF16 : MBA_F32;
    const int64_t   B = d->batch, L = d->length, H = d->heads, P = d->head_dim, N = d->state;
    const bool      ssd = d->op == MBA_KERNELS_SSD;
    if (!is_recurrence(d)) return type_of_layer(d, k);
    switch (k) {
    case MBA_KERNELS_X: return ssd ? MBA_TYPE(act, B, L, H, P) : MBA_TYPE(act, B, L, H);
    case MBA_KERNELS_DT:
    case MBA_KERNELS_Z: return MBA_TYPE(act, B, L, H);
    case MBA_KERNELS_B:
    case MBA_KERNELS_C: return MBA_TYPE(act, B, L, d->groups, N);
    case MBA_KERNELS_A_LOG: return ssd ? MBA_TYPE(MBA_F32, H) : MBA_TYPE(MBA_F32, H, N);
    case MBA_KERNELS_D: return ssd && d->d_per_channel ? MBA_TYPE(MBA_F32, H, P) : MBA_TYPE(MBA_F32, H);
    case MBA_KERNELS_DT_BIAS: return MBA_TYPE(MBA_F32, H);
    case MBA_KERNELS_IDS: return MBA_TYPE(MBA_I32, B, L);
    default: return ssd ? MBA_TYPE(MBA_F32, B, H, P, N) : MBA_TYPE(MBA_F32, B, H, N);
    }
}

static bool is_given(const mba_kernels_desc *d, int k)
{
    return (operators[d->op].needs | (operators[d->op].takes & d->given)) >> k & 1;
}

/* Converts strides to run and pitch of tensor.h: the innermost axes are contiguous, all others have one distance.
 * False: the strides do not fit that. */
static bool one_distance(const mba_type *t, const int64_t *stride, int64_t *run, int64_t *pitch)
{
    int64_t next = 1;
    int     i = (int)t->rank - 1;
    for (; i >= 0 && (t->dim[i] == 1 || stride[i] == next); i--) next *= t->dim[i];
    *run = *pitch = next;
    if (i < 0) return true;
    *pitch = next = stride[i];
    if (*pitch < *run) return false;
    for (; i >= 0; i--) {
        if (t->dim[i] != 1 && stride[i] != next) return false;
        if (__builtin_mul_overflow(next, t->dim[i], &next)) return false;
    }
    return true;
}

/* Adds operand k to the graph, as an external buffer with the caller's strides. */
static mba_status add_operand(mba_kernels_plan *p, const mba_kernels_desc *d, int k)
{
    const mba_kernels_strided_view none = { { 0 }, 0 }, *w = k < MBA_KERNELS_ACTIVATIONS ? &d->view[k] : &none;
    const mba_type                 type = type_of(d, k);
    const int64_t                  vector = 16 / (int64_t)mba_dtype_bytes(type.dtype);
    int64_t                        run = mba_type_elems(&type), pitch = run;
    bool                           dense = true;
    const char                    *name = name_of(d, k);
    for (int i = 0; i < 4; i++) dense &= w->stride[i] == 0;
    if (!dense && !one_distance(&type, w->stride, &run, &pitch))
        return mba_fail(MBA_E_SHAPE,
                        "%s lies at strides %lld, %lld, %lld, %lld\n"
                        "why: kernels see rows at one distance\nfix: copy it to dense memory",
                        name, (long long)w->stride[0], (long long)w->stride[1], (long long)w->stride[2],
                        (long long)w->stride[3]);
    if (w->skew < 0 || w->skew >= vector)
        return mba_fail(MBA_E_ARG,
                        "%s has a skew of %lld elements\nwhy: 16 bytes hold %lld\n"
                        "fix: how many elements it is beyond a multiple of 16 bytes",
                        name, (long long)w->skew, (long long)vector);
    p->operand[k] = mba_input_external(p->graph, name, type, w->skew, run, pitch, d->backward && type.dtype != MBA_I32);
    if (k == MBA_KERNELS_IDS) p->operand[k]->bound = INT32_MAX;
    return MBA_OK;
}

/* ---- creating a plan ---- */

/* Within these limits every product of dimensions fits into 64 bits. */
static mba_status check_sizes(const mba_kernels_desc *d)
{
    const bool    heads = d->op == MBA_KERNELS_SSD || d->op == MBA_KERNELS_GATED_NORM;
    const int64_t P = heads ? d->head_dim : 1, G = is_recurrence(d) ? d->groups : 1;
    const int64_t N = d->op == MBA_KERNELS_GATED_NORM ? 1 : d->state; // taps of conv1d
    const int64_t dim[] = { d->batch, d->length, d->heads, P, G, N };
    double        all = 1;
    for (size_t i = 0; i < sizeof dim / sizeof *dim; i++) {
        if (dim[i] < 1)
            return mba_fail(MBA_E_ARG,
                            "a dimension is %lld\nwhy: batch, length, heads, head_dim, groups and state or taps are "
                            "at least 1\nfix: set those that this operator has",
                            (long long)dim[i]);
        all *= (double)dim[i];
    }
    if (all > 0x1p56)
        return mba_fail(MBA_E_ARG, "%g elements in all\nwhy: no machine holds them\nfix: a smaller shape", all);
    return MBA_OK;
}

/* Refuses options that a scan does not have, rather than ignore them silently. */
static mba_status check_scan(const mba_kernels_desc *d)
{
    if (d->dt_min != 0 || (d->dt_max > 0 && !isinf(d->dt_max)))
        return mba_fail(MBA_E_UNSUPPORTED,
                        "a scan with steps in %g .. %g\nwhy: only ssd has limits of the step\n"
                        "fix: leave dt_min and dt_max 0",
                        d->dt_min, d->dt_max);
    if (d->d_per_channel)
        return mba_fail(MBA_E_ARG, "a scan with D per channel of a head\nwhy: each of its heads is one channel\n"
                                   "fix: leave d_per_channel 0");
    return MBA_OK;
}

/* Refuses operands and results that conv1d and the gated norm do not have. */
static mba_status check_layer(const mba_kernels_desc *d)
{
    const uint32_t more = d->given & ~(operators[d->op].needs | operators[d->op].takes);
    for (int k = 0; k < MBA_KERNELS_OPERANDS; k++)
        if (more >> k & 1)
            return mba_fail(MBA_E_ARG, "%s has no operand %s\nfix: leave its bit of `given` 0", operators[d->op].name,
                            name_of(d, k));
    if (d->op == MBA_KERNELS_GATED_NORM && (d->final || !(d->eps >= 0)))
        return mba_fail(MBA_E_ARG,
                        "a gated norm with final %d and eps %g\nwhy: it has no state, and eps is not negative\n"
                        "fix: leave final 0, set eps",
                        d->final, d->eps);
    return MBA_OK;
}

static mba_status check_desc(const mba_kernels_desc *d)
{
    if (!d) return mba_fail(MBA_E_ARG, "no description\nfix: a mba_kernels_desc");
    if (d->bytes != sizeof *d)
        return mba_fail(MBA_E_ARG,
                        "a description of %zu bytes\nwhy: this library (%s) has one of %zu\n"
                        "fix: use the header that came with it, and set .bytes",
                        d->bytes, MBA_COMMIT, sizeof *d);
    if (d->op < 0 || d->op >= OPERATORS)
        return mba_fail(MBA_E_ARG, "no operator %d\nfix: MBA_KERNELS_SSD, _SCAN, _CONV1D or _GATED_NORM", d->op);
    if (d->type != MBA_KERNELS_F32 && d->type != MBA_KERNELS_BF16)
        return mba_fail(MBA_E_ARG, "activations of type %d\nfix: MBA_KERNELS_F32 or MBA_KERNELS_BF16", d->type);
    if (d->given >> MBA_KERNELS_OPERANDS)
        return mba_fail(MBA_E_ARG,
                        "operands that nobody knows: given is 0x%x\nwhy: there are %d\n"
                        "fix: bits of the header that came with this library",
                        d->given, MBA_KERNELS_OPERANDS);
    if (d->op == MBA_KERNELS_SCAN) MBA_TRY(check_scan(d));
    if (d->op == MBA_KERNELS_SSD && d->given >> MBA_KERNELS_Z & 1)
        return mba_fail(MBA_E_UNSUPPORTED, "ssd has no gate z\nfix: multiply y by silu(z) behind it");
    if (!is_recurrence(d)) MBA_TRY(check_layer(d));
    if (d->backward < 0 || d->backward > MBA_KERNELS_GRADS_STRIDED)
        return mba_fail(MBA_E_ARG, "backward is %d\nfix: 0, MBA_KERNELS_GRADS_DENSE or MBA_KERNELS_GRADS_STRIDED",
                        d->backward);
    return check_sizes(d);
}

static mba_status find_machine(mba_kernels_plan *p, const mba_kernels_machine *m)
{
    if (!m) return mba_cuda_current(&p->machine, p->machine_name, sizeof p->machine_name, &p->device);
    p->device = m->cc ? MACHINE_DESCRIBED : MACHINE_HOST;
    snprintf(p->machine_name, sizeof p->machine_name, m->cc ? "sm_%d" : "the host", m->cc);
    p->machine = (mba_machine){ .name = p->machine_name,
                                .cc = m->cc,
                                .sm = m->sms,
                                .warp = 32,
                                .regs_sm = m->regs_sm,
                                .threads_sm = m->threads_sm,
                                .smem_block_bytes = m->smem_block_bytes,
                                .smem_sm_bytes = m->smem_sm_bytes };
    if (m->cc && m->sms < 1)
        return mba_fail(MBA_E_ARG, "a machine with %d SMs\nfix: at least one, or .cc of 0 for the host", m->sms);
    return MBA_OK;
}

static void append_ssd(mba_kernels_plan *p, const mba_kernels_desc *d)
{
    mba_tensor **t = p->operand;
    p->result[MBA_KERNELS_Y] = mba_ssd(p->graph, .x = t[MBA_KERNELS_X], .dt = t[MBA_KERNELS_DT], .B = t[MBA_KERNELS_B],
                                       .C = t[MBA_KERNELS_C], .A_log = t[MBA_KERNELS_A_LOG], .D = t[MBA_KERNELS_D],
                                       .dt_bias = t[MBA_KERNELS_DT_BIAS], .ids = t[MBA_KERNELS_IDS],
                                       .initial = t[MBA_KERNELS_INITIAL], .chunk = d->chunk, .dt_min = d->dt_min,
                                       .dt_max = d->dt_max, .final = d->final ? &p->result[MBA_KERNELS_FINAL] : NULL);
}

static void append_scan(mba_kernels_plan *p, const mba_kernels_desc *d)
{
    mba_tensor **t = p->operand;
    p->result[MBA_KERNELS_Y] = mba_selective_scan(p->graph, .u = t[MBA_KERNELS_X], .delta = t[MBA_KERNELS_DT],
                                                  .A_log = t[MBA_KERNELS_A_LOG], .B = t[MBA_KERNELS_B],
                                                  .C = t[MBA_KERNELS_C], .D = t[MBA_KERNELS_D], .z = t[MBA_KERNELS_Z],
                                                  .dt_bias = t[MBA_KERNELS_DT_BIAS], .initial = t[MBA_KERNELS_INITIAL],
                                                  .ids = t[MBA_KERNELS_IDS],
                                                  .final = d->final ? &p->result[MBA_KERNELS_FINAL] : NULL);
}

static void append_conv1d(mba_kernels_plan *p, const mba_kernels_desc *d)
{
    mba_tensor **t = p->operand;
    p->result[MBA_KERNELS_Y] = mba_conv1d(p->graph, .x = t[MBA_KERNELS_X], .w = t[MBA_KERNELS_WEIGHT],
                                          .bias = t[MBA_KERNELS_BIAS], .ids = t[MBA_KERNELS_IDS],
                                          .initial = t[MBA_KERNELS_INITIAL], .silu = d->silu != 0,
                                          .final = d->final ? &p->result[MBA_KERNELS_FINAL] : NULL);
}

static void append_gated_norm(mba_kernels_plan *p, const mba_kernels_desc *d)
{
    mba_tensor **t = p->operand;
    p->result[MBA_KERNELS_Y] = mba_gated_rmsnorm(p->graph, t[MBA_KERNELS_X], t[MBA_KERNELS_Z], t[MBA_KERNELS_WEIGHT],
                                                 d->heads, (float)d->eps);
}

static mba_status build(mba_kernels_plan *p, const mba_kernels_desc *d)
{
    static void (*const append[])(mba_kernels_plan *, const mba_kernels_desc *) = { append_ssd, append_scan,
                                                                                    append_conv1d, append_gated_norm };
    mba_graph    *g = p->graph;
    const mba_op *backward = operators[d->op].backward;
    for (int k = 0; k < MBA_KERNELS_OPERANDS; k++)
        if (is_given(d, k)) MBA_TRY(add_operand(p, d, k));
    append[d->op](p, d);
    MBA_TRY(mba_graph_status(g));
    p->node[FORWARD] = p->result[MBA_KERNELS_Y]->producer_node;
    if (!d->backward) return MBA_OK;
    MBA_TRY(mba_backward_from(g, d->final ? 2 : 1, p->result, (mba_tensor *[MBA_KERNELS_RESULTS]){ NULL }));
    for (int32_t i = 0; i < g->nnodes; i++)
        if (g->nodes[i]->op == backward) p->node[BACKWARD] = g->nodes[i];
    mba_assert(p->node[BACKWARD]);
    for (int k = 0; d->backward == MBA_KERNELS_GRADS_DENSE && k < MBA_OUT_MAX; k++)
        if (p->node[BACKWARD]->out[k]) mba_make_dense(p->node[BACKWARD]->out[k]);
    return MBA_OK;
}

/* ---- addresses of tensors ---- */

static place place_of(const mba_kernels_plan *p, const mba_tensor *t)
{
    for (int k = 0; k < MBA_KERNELS_OPERANDS; k++) {
        const mba_tensor *o = p->operand[k];
        if (!o) continue;
        if (o->st == t->st)
            return (place){ IN, (size_t)k, (size_t)o->offset * mba_dtype_bytes(o->type.dtype), o->name };
        if (o->st->grad == t->st)
            return (place){ DIN, (size_t)k, (size_t)t->offset * mba_dtype_bytes(t->type.dtype), o->name };
    }
    for (int k = 0; k < MBA_KERNELS_RESULTS; k++) {
        const mba_tensor *r = p->result[k];
        const char       *name = k == MBA_KERNELS_Y ? "y" : "final";
        if (r && r->st == t->st) return (place){ OUT, (size_t)k, 0, name };
        if (r && r->st->grad == t->st) return (place){ DOUT, (size_t)k, 0, name };
    }
    return (place){ .from = NOWHERE };
}

/* Places the outputs that forward saves for backward into `saved`, one after the other. */
static void place_saved(mba_kernels_plan *p)
{
    const mba_node *f = p->node[FORWARD], *b = p->node[BACKWARD];
    mba_assert(f); // b may be NULL: forward alone
    for (int k = 0; k < MBA_OUT_MAX; k++) {
        if (!f->out[k] || p->out[FORWARD][k].from != NOWHERE) continue;
        const bool  left = p->program->layout.first[f->out[k]->st->id] < 0; // this variant does not write it
        const place here = { left ? UNUSED : SAVED, p->saved_bytes, 0, "saved" };
        p->out[FORWARD][k] = here;
        for (int i = 0; b && i < MBA_IN_MAX; i++)
            if (b->in[i] && b->in[i]->st == f->out[k]->st) p->in[BACKWARD][i] = here;
        if (!left)
            p->saved_bytes += (size_t)mba_ceil((int64_t)mba_tensor_bytes(f->out[k]), MBA_ALIGN_BYTES) * MBA_ALIGN_BYTES;
    }
}

static void place_all(mba_kernels_plan *p)
{
    for (int w = FORWARD; w <= BACKWARD; w++) {
        const mba_node *n = p->node[w];
        for (int k = 0; n && k < MBA_IN_MAX; k++)
            if (n->in[k]) p->in[w][k] = place_of(p, n->in[k]);
        for (int k = 0; n && k < MBA_OUT_MAX; k++)
            if (n->out[k]) p->out[w][k] = place_of(p, n->out[k]);
    }
    place_saved(p);
    for (int w = FORWARD; w <= BACKWARD; w++)
        for (int k = 0; p->node[w] && k < MBA_IN_MAX; k++)
            mba_assert(!p->node[w]->in[k] || p->in[w][k].from != NOWHERE);
}

/* Refuses plans whose launches need more shared memory than the machine has with all stages of their rings: here
 * nothing shortens rings. */
static mba_status check_shared(const mba_kernels_plan *p)
{
    for (int w = FORWARD; w <= BACKWARD; w++) {
        const mba_plan *plan = p->node[w] ? p->program->plan[p->node[w]->id] : NULL;
        for (int i = 0; plan && i < plan->nlaunches; i++)
            if ((int64_t)plan->launch[i].smem_bytes > p->machine.smem_block_bytes)
                return mba_fail(
                    MBA_E_UNSUPPORTED,
                    "%s cannot run on %s\nwhy: a block needs %zu bytes of shared memory, the machine has %lld\n"
                    "fix: another variant, or a smaller chunk",
                    plan->launch[i].kernel, p->machine.name, plan->launch[i].smem_bytes,
                    (long long)p->machine.smem_block_bytes);
    }
    return MBA_OK;
}

static mba_status create(mba_kernels_plan *p, const mba_kernels_desc *d, const mba_kernels_machine *m)
{
    const char *op = operators[d->op].name;
    MBA_TRY(find_machine(p, m));
    MBA_TRY(mba_graph_create(&p->graph));
    MBA_TRY(build(p, d));
    if (d->variant) snprintf(p->variants, sizeof p->variants, "%s=%.40s,%s_bwd=%.40s", op, d->variant, op, d->variant);
    MBA_TRY(mba_program_create(&p->program, p->graph,
                               &(mba_program_options){ .cuda = p->device != MACHINE_HOST,
                                                       .machine = &p->machine,
                                                       .variants = d->variant ? p->variants : NULL }));
    MBA_TRY(check_shared(p));
    place_all(p);
    return MBA_OK;
}

int mba_kernels_plan_create(mba_kernels_plan **out, const mba_kernels_desc *d, const mba_kernels_machine *m)
{
    mba_kernels_plan *p = NULL;
    if (!out) return mba_fail(MBA_E_ARG, "no place for the plan\nfix: the address of a pointer");
    *out = NULL;
    mba_status st = mba_cpu_isa_check();
    if (st == MBA_OK) st = check_desc(d);
    if (st == MBA_OK && !(p = calloc(1, sizeof *p))) st = mba_fail(MBA_E_NOMEM, "no memory for a plan");
    if (st == MBA_OK) st = create(p, d, m);
    if (st == MBA_OK) *out = p;
    else mba_kernels_plan_destroy(p);
    return st;
}

void mba_kernels_plan_destroy(mba_kernels_plan *p)
{
    if (!p) return;
    mba_program_destroy(p->program);
    mba_graph_destroy(p->graph);
    free(p);
}

/* ---- running ---- */

static void *look_up(const mba_kernels_pointers *a, const place *w)
{
    switch (w->from) {
    case IN: return (void *)(uintptr_t)a->in[w->at];
    case OUT: return a->out[w->at];
    case DOUT: return (void *)(uintptr_t)a->dout[w->at];
    case DIN: return a->din[w->at];
    case SAVED: return a->saved ? (char *)a->saved + w->at : NULL;
    default: return NULL;
    }
}

static mba_status resolve(void **at, const mba_kernels_pointers *a, const place *w)
{
    enum { UNIT = 16 };
    *at = look_up(a, w);
    if (w->from == UNUSED) return MBA_OK;
    if (!*at)
        return mba_fail(MBA_E_ARG, "no pointer for %s%s\nfix: what the description gives has one",
                        w->from == DIN || w->from == DOUT ? "the gradient of " : "", w->name);
    if ((uintptr_t)*at % UNIT != w->skew_bytes)
        return mba_fail(MBA_E_ARG,
                        "%s lies %zu bytes beyond a multiple of %d\nwhy: its plan was made for %zu\n"
                        "fix: a plan with its skew, or a copy",
                        w->name, (size_t)((uintptr_t)*at % UNIT), UNIT, w->skew_bytes);
    return MBA_OK;
}

static mba_status fill_call(mba_call *c, const mba_kernels_plan *p, int way, const mba_kernels_pointers *a,
                            void *stream)
{
    const mba_node *n = p->node[way];
    *c = (mba_call){ .node = n, .plan = p->program->plan[n->id], .work = a->work, .stream = stream };
    for (int k = 0; k < MBA_IN_MAX; k++)
        if (n->in[k]) MBA_TRY(resolve(&c->in[k], a, &p->in[way][k]));
    for (int k = 0; k < MBA_OUT_MAX; k++)
        if (n->out[k]) MBA_TRY(resolve(&c->out[k], a, &p->out[way][k]));
    if (c->plan->work_bytes && (!a->work || (uintptr_t)a->work % MBA_ALIGN_BYTES))
        return mba_fail(MBA_E_ARG,
                        "no workspace, or not at a multiple of %d bytes\n"
                        "fix: mba_kernels_work_bytes of them",
                        MBA_ALIGN_BYTES);
    return MBA_OK;
}

static mba_status run(const mba_kernels_plan *p, int way, const mba_kernels_pointers *a, void *stream)
{
    mba_call c;
    int      before = 0;
    if (!p || !a)
        return mba_fail(MBA_E_ARG, "no %s\nfix: %s", p ? "pointers" : "plan",
                        p ? "a mba_kernels_pointers" : "look at what mba_kernels_plan_create returned");
    if (!p->node[way]) return mba_fail(MBA_E_ARG, "this plan has no backward\nfix: set .backward in its description");
    mba_launch_fn *launch = p->program->launch[p->node[way]->id];
    if (p->device == MACHINE_DESCRIBED || !launch)
        return mba_fail(MBA_E_UNSUPPORTED, "this plan cannot run\nwhy: %s",
                        launch ? "its machine was only described" : "this library was built without CUDA");
    MBA_TRY(fill_call(&c, p, way, a, stream));
    if (p->device == MACHINE_HOST) return launch(&c);
    MBA_TRY(mba_cuda_use(p->device, &before));
    const mba_status st = launch(&c);
    if (before != p->device && mba_cuda_use(before, &before) != MBA_OK && st == MBA_OK) return MBA_E_DEVICE;
    return st;
}

int mba_kernels_forward(const mba_kernels_plan *p, const mba_kernels_pointers *a, void *stream)
{
    return run(p, FORWARD, a, stream);
}

int mba_kernels_backward(const mba_kernels_plan *p, const mba_kernels_pointers *a, void *stream)
{
    return run(p, BACKWARD, a, stream);
}

/* ---- queries ---- */

static const mba_plan *plan_of(const mba_kernels_plan *p, int backward)
{
    const mba_node *n = p ? p->node[backward ? BACKWARD : FORWARD] : NULL;
    return n ? p->program->plan[n->id] : NULL;
}

size_t mba_kernels_saved_bytes(const mba_kernels_plan *p) { return p ? p->saved_bytes : 0; }

size_t mba_kernels_work_bytes(const mba_kernels_plan *p, int backward)
{
    return plan_of(p, backward) ? plan_of(p, backward)->work_bytes : 0;
}

const char *mba_kernels_variant(const mba_kernels_plan *p, int backward)
{
    return plan_of(p, backward) ? plan_of(p, backward)->variant : "";
}

const char *mba_kernels_error(void) { return mba_message(); }
const char *mba_kernels_version(void) { return MBA_VERSION " (" MBA_COMMIT ")"; }
