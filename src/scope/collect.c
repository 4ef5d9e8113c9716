// SPDX-License-Identifier: Apache-2.0
/* collect.c -- see collect.h: describes the run, measures the ceilings and calls the collector of the device. */
#include "scope/collect.h"

#include "scope/describe.h"
#include "train/feed.h"
#include "train/run_options.h"

static const double CEILING_S = 0.3; // seconds of measurement per ceiling

static double more(double a, double b) { return a > b ? a : b; }

static mba_ceilings best_of(mba_ceilings a, mba_ceilings b)
{
    return (mba_ceilings){ more(a.stream_bytes, b.stream_bytes), more(a.fma_flops, b.fma_flops),
                           more(a.tensor_flops, b.tensor_flops), more(a.exp_ops, b.exp_ops) };
}

/* Notes the options that need a GPU. */
static mba_status note_gpu_only(const mba_collecting *c)
{
    const mba_collect_options *o = c->options;
    if (o->blocks)
        MBA_TRY(mba_note_missing(c->store, "blocks", "--blocks: a CPU runs no thread blocks",
                                 "mambascope profile --device cuda --blocks"));
    if (o->deep)
        MBA_TRY(mba_note_missing(c->store, "deep", "--source: only GPU kernels have instruction counts",
                                 "mambascope profile --device cuda --source KERNEL"));
    return MBA_OK;
}

/* Measures the ceilings of the CPU before and after the steps and takes the higher ones. Other processes can take a
 * third of the CPU for seconds; with one measurement, steps can seem faster than their floor. */
static mba_status nodes_between_ceilings(mba_collecting *c)
{
    const mba_ceilings *given = c->options->ceilings;
    mba_ceilings        rates, again;
    if (given) rates = *given;
    else MBA_TRY(mba_ceilings_measure(&rates, CEILING_S));
    MBA_TRY(note_gpu_only(c));
    MBA_TRY(mba_collect_nodes(c));
    if (!given) {
        MBA_TRY(mba_ceilings_measure(&again, CEILING_S));
        rates = best_of(rates, again);
    }
    return mba_describe_ceilings(c->store, &rates, c->session->device);
}

static mba_status events_under_ceilings(mba_collecting *c)
{
    mba_ceilings rates;
    if (c->options->steps_only) return mba_collect_cuda(c);
    if (c->options->ceilings) rates = *c->options->ceilings;
    else MBA_TRY(mba_ceilings_measure_cuda(&rates, c->options->compute, c->session->graph->tf32));
    MBA_TRY(mba_describe_ceilings(c->store, &rates, c->session->device));
    return mba_collect_cuda(c);
}

static mba_status describe(mba_collecting *c)
{
    mba_store *s = c->store;
    MBA_TRY(mba_describe_run(s, c->options->command));
    MBA_TRY(mba_describe_device(s, c->session->device));
    MBA_TRY(mba_describe_model(s, c->session));
    MBA_TRY(mba_env_put_number(s, "run.units", "given", c->units, mba_task_unit(c->session->model.task)));
    MBA_TRY(mba_env_put_text(s, "run.precision", "given", "%s",
                             mba_precision_name(c->options->compute, c->session->graph->tf32)));
    MBA_TRY(mba_env_put_text(s, "run.data", "given", "SYNTHETIC: %s",
                             c->session->model.task == MBA_TASK_GRAPHS ? "made-up graphs of the preset's collection"
                                                                       : "random values"));
    MBA_TRY(mba_env_put_number(s, "run.synthetic", "given", 1, ""));
    MBA_TRY(mba_env_put_number(s, "run.steps", "given", (double)c->options->steps, "step"));
    MBA_TRY(mba_env_put_number(s, "run.warmup", "given", (double)c->options->warmup, "step"));
    MBA_TRY(mba_describe_program_at(s, c->session->program, &c->step));
    return mba_store_commit(s); // a run that is killed later leaves this much
}

mba_status mba_collect(mba_store *store, mba_session *s, const mba_collect_options *o)
{
    mba_collect_options all = *o;
    mba_collecting      c = { .store = store, .session = s, .step = { .seed = 1, .lr = 1e-4f }, .options = &all };
    if (all.steps <= 0) all.steps = 5;
    if (all.warmup <= 0) all.warmup = 3;
    if (!all.compute) all.compute = MBA_F32;
    mba_assert(s->device && s->program);
    MBA_TRY(mba_feed_example(s, &c.step));
    c.units = (double)(s->model.task == MBA_TASK_GRAPHS ? c.step.count[MBA_GRAPHS] : mba_model_units(&s->model));
    if (mba_samples_wanted()) return mba_collect_samples(&c, mba_samples_wanted());
    MBA_TRY(describe(&c));
    MBA_TRY(s->device->machine->cc > 0 ? events_under_ceilings(&c) : nodes_between_ceilings(&c));
    return mba_store_commit(store);
}
