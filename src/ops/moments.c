// SPDX-License-Identifier: Apache-2.0
/* moments.c -- see moments.h. */
#include "ops/moments.h"

mba_status mba_moments_shape(const mba_node *n, mba_type *out, mba_moments_options o)
{
    const char *op = n->op->name;
    MBA_NEED(o.beta1 >= 0 && o.beta1 < 1 && o.beta2 >= 0 && o.beta2 < 1,
             "%s: betas of %g and %g\n"
             "why: moments are averages\nfix: 0 <= beta < 1",
             op, o.beta1, o.beta2);
    MBA_NEED(o.eps > 0, "%s: an eps of %g\nwhy: parameters without a gradient are divided by it\nfix: above 0", op,
             o.eps);
    for (int k = P; k <= V; k++) {
        const mba_tensor *t = n->in[k];
        MBA_NEED(mba_type_equal(&t->type, &n->in[P]->type) && t->type.dtype == MBA_F32 && mba_dense(t),
                 "%s: %s is not flat fp32 beside the parameters", op, t->name);
        out[k] = t->type; // PO .. VO have the order of P .. V
    }
    if (n->in[COPY]) out[COPYO] = n->in[COPY]->type;
    return MBA_OK;
}

bool mba_moments_of(mba_tensor *in[MBA_IN_MAX], mba_graph *g, mba_group k, mba_tensor *norm)
{
    return mba_moments_shard(in, g, k, norm, 1);
}

bool mba_moments_shard(mba_tensor *in[MBA_IN_MAX], mba_graph *g, mba_group k, mba_tensor *norm, int64_t ranks)
{
    static const char *const m_name[] = { "m.decay", "m.no_decay" }, *const v_name[] = { "v.decay", "v.no_decay" };
    mba_tensor *grad = mba_flat_grads(g, k);
    if (!grad) return false;
    const mba_type shard = MBA_TYPE(MBA_F32, mba_elems(grad) / ranks);
    in[P] = mba_flat_params(g, k);
    in[G] = grad;
    in[M] = mba_state(g, m_name[k], MBA_OPTIM, shard);
    in[V] = mba_state(g, v_name[k], MBA_OPTIM, shard);
    in[NORM] = norm;
    in[COPY] = mba_flat_copies(g, k);
    return true;
}
