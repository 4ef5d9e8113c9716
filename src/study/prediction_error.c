// SPDX-License-Identifier: Apache-2.0
/* prediction_error.c -- see prediction_error.h. */
#include "study/prediction_error.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/sort.h"
#include "sim/engine.h"

/* Letters in any case, and a dash for a space: "h100-pcie" is in "NVIDIA H100 PCIe". */
static bool begins_with(const char *s, const char *name)
{
    for (; *name; s++, name++)
        if (tolower((unsigned char)*s) != *name && !(*s == ' ' && *name == '-')) return false;
    return !isalnum((unsigned char)*s);
}

const char *mba_machine_for_gpu(const char *gpu)
{
    const char *best = NULL; // the longest: a card beside the machine whose clocks it takes
    for (int i = 0; mba_gpu_name(i); i++)
        for (const char *s = gpu, *name = mba_gpu_name(i); *s; s++)
            if ((s == gpu || !isalnum((unsigned char)s[-1])) && begins_with(s, name)
                && (!best || strlen(name) > strlen(best)))
                best = name;
    return best;
}

static mba_status sum_up(mba_prediction_error *o, const mba_profiled_set *d)
{
    double *size = malloc(((size_t)o->n + 1) * sizeof *size), predicted = 0, measured = 0;
    if (!size) return mba_fail(MBA_E_NOMEM, "no memory for the errors of %d kernels", o->n);
    for (int i = 0; i < o->n; i++) {
        const mba_profiled_kernel *c = &d->one[i];
        size[i] = fabs(o->percent[i]);
        o->mean += size[i] / o->n;
        predicted += c->launches * c->us * (1 + o->percent[i] / 100);
        measured += c->launches * c->us;
        if (size[i] <= o->worst) continue;
        o->worst = size[i];
        snprintf(o->worst_kernel, sizeof o->worst_kernel, "%s", c->kernel);
    }
    mba_sort(size, o->n);
    o->p90 = o->n ? size[(int)(0.9 * (o->n - 1) + 0.5)] : NAN;
    o->sum = 100 * (predicted / measured - 1);
    free(size);
    return MBA_OK;
}

static mba_status predict(mba_prediction_error *o, const mba_profiled_set *d)
{
    mba_gpu m;
    if (!o->machine) return MBA_OK;
    MBA_TRY(mba_gpu_load(&m, o->machine));
    for (int i = 0; i < d->n; i++) {
        mba_sim_kernel k;
        mba_sim_result r;
        MBA_TRY(mba_profiled_lower(&k, &d->one[i], &m));
        MBA_TRY(mba_sim_run(&r, &k, &m, MBA_SIM_ONE_SM));
        o->percent[i] = 100 * (1e6 * r.seconds / d->one[i].us - 1);
    }
    o->n = d->n;
    return sum_up(o, d);
}

static mba_status make(mba_prediction_error **out, const mba_profiled_set *d, const char *machine)
{
    mba_prediction_error *o = calloc(1, sizeof *o);
    if (o) o->percent = calloc((size_t)d->n + 1, sizeof *o->percent);
    if (!o || !o->percent) {
        mba_prediction_error_destroy(o);
        return mba_fail(MBA_E_NOMEM, "no memory for the errors of %d kernels", d->n);
    }
    o->machine = machine;
    for (int i = 0; i < d->n; i++) o->percent[i] = NAN;
    const mba_status st = predict(o, d);
    if (st == MBA_OK) *out = o;
    else mba_prediction_error_destroy(o);
    return st;
}

mba_status mba_prediction_error_of_store(mba_prediction_error **out, const mba_store_kernels *s)
{
    return make(out, &s->kernels, mba_machine_for_gpu(s->gpu));
}

mba_status mba_prediction_error_held_out(mba_prediction_error **out)
{
    mba_profiled_set *d;
    int               n = 0;
    MBA_TRY(mba_profiled_load(&d, NULL));
    for (int i = 0; i < d->n; i++) {
        mba_profiled_kernel *c = &d->one[i];
        if (c->set != MBA_POINT_HELD || c->again || !mba_profiled_complete(c)) continue;
        mba_profiled_drop_sass(c);
        const mba_profiled_kernel other = d->one[n];
        d->one[n++] = *c;
        d->one[i] = other;
    }
    mba_profiled_set held = { d->one, n };
    const mba_status st = make(out, &held, "h200");
    mba_profiled_destroy(d);
    return st;
}

void mba_prediction_error_destroy(mba_prediction_error *o)
{
    if (o) free(o->percent);
    free(o);
}
