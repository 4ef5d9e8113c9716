// SPDX-License-Identifier: Apache-2.0
/* profile.c -- `mambascope profile`: profiles training steps of a model, or any CUDA program, and writes a store. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cliffs.h"
#include "cli/command.h"
#include "cli/model_options.h"
#include "cli/options.h"
#include "cli/profile.h"
#include "cli/ranks.h"
#include "cli/say.h"
#include "core/aliases.h"
#include "core/file.h"
#include "core/lock.h"
#include "scope/collect.h"
#include "scope/metrics.h"
#include "scope/rank_merge.h"

typedef struct profile_options {
    mba_model_options   model;
    mba_collect_options collect;
    mba_foreign_options foreign;
    const char         *out;
} profile_options;

/* The command as it was typed, for the environment table. */
static void join(char *text, size_t room, int argc, char **argv)
{
    int n = snprintf(text, room, "mambascope");
    for (int i = 0; i < argc && n > 0 && (size_t)n < room; i++)
        n += snprintf(text + n, room - (size_t)n, " %s", argv[i]);
}

/* An old store stays until the new one is complete. If there is none, the new store has its final name from the start,
 * so that the records of a killed run can be read. */
typedef struct target {
    const char *out;
    char        path[4096];
    mba_store  *store;
} target;

static mba_status begin(target *t, const char *out)
{
    MBA_TRY(mba_store_may_replace(out));
    t->out = out;
    const int n = snprintf(t->path, sizeof t->path, "%s%s", out, access(out, F_OK) ? "" : ".unfinished");
    if (n >= (int)sizeof t->path)
        return mba_fail(MBA_E_ARG, "the name of the store is too long\nfix: choose a shorter --out");
    if (strcmp(t->path, out)) mba_store_remove(t->path); // left by a killed run, perhaps incomplete
    return mba_store_create(&t->store, t->path);
}

static mba_status finish(target *t, mba_status st)
{
    const mba_status closed = mba_store_close(t->store);
    if (st == MBA_OK) st = closed;
    if (st == MBA_OK && strcmp(t->path, t->out) && rename(t->path, t->out))
        return mba_fail(MBA_E_IO, "cannot rename the store to '%s'\nwhy: %s\nfix: it is complete, as '%s'", t->out,
                        strerror(errno), t->path);
    if (st == MBA_OK) return mba_name_sync(t->out);
    unlink(t->path);
    return st;
}

static mba_status tell(const char *path)
{
    if (mba_samples_wanted()) return MBA_OK; // this process serves another, which reports
    mba_say(stderr, "wrote %s; `mambascope show %s` prints it\n", path, path);
    return MBA_OK;
}

/* `w`: of several ranks, which take each step together; NULL: one. */
static mba_status profile_rank(const mba_model_options *m, const mba_collect_options *o, const char *out, mba_world *w,
                               mba_profile_more_fn *more, void *ctx)
{
    target              to = { 0 };
    mba_session         s = { 0 };
    mba_session_options so = { .backward = true, .update = true, .adamw = mba_adamw_defaults() };
    mba_collect_options collect = *o;
    MBA_TRY(mba_model_options_apply(m, &so));
    collect.compute = so.compute;
    so.world = w;
    so.accumulate = w != NULL; // as `train` does
    if (w) so.place = (mba_place){ w->rank, w->ranks };
    mba_status st = mba_session_plan(&s, &so);
    if (st == MBA_OK && !mba_samples_wanted() && !(w && w->rank))
        mba_cliffs_tell(&so); // a process that serves another is silent
    if (st == MBA_OK) st = mba_session_bind(&s, 1);
    if (st == MBA_OK) st = begin(&to, out);
    if (st == MBA_OK) {
        st = mba_collect(to.store, &s, &collect);
        if (st == MBA_OK && more) st = more(ctx, to.store);
        st = finish(&to, st);
    }
    mba_session_end(&s);
    return st;
}

mba_status mba_profile_model(const mba_model_options *m, const mba_collect_options *o, const char *out,
                             mba_profile_more_fn *more, void *ctx)
{
    return profile_rank(m, o, out, NULL, more, ctx);
}

/* ---- several ranks ---- */

typedef struct rank_profile {
    const profile_options *o;
    const mba_launcher    *launcher;
    mba_world             *world;
    mba_rank_clocks        before, after;
} rank_profile;

/* After rank 0 has measured: the others close their stores, then it adds them to its own. */
static mba_status merge(void *ctx, mba_store *s)
{
    rank_profile *p = ctx;
    MBA_TRY(mba_rank_clocks_compare(&p->after, p->world));
    MBA_TRY(mba_world_barrier(p->world));
    MBA_TRY(mba_env_put_number(s, "run.ranks", "given", p->world->ranks, ""));
    return mba_rank_merge(s, p->world->ranks, p->o->out, &p->before, &p->after);
}

static mba_status compare_again(void *ctx, mba_store *s)
{
    rank_profile *p = ctx;
    (void)s;
    return mba_rank_clocks_compare(&p->after, p->world);
}

static mba_status profile_ranks(mba_world *w, void *ctx)
{
    rank_profile *p = ctx;
    mba_lock     *lock = NULL;
    char          out[4096];
    p->world = w;
    mba_ranks_divide_cores(p->launcher, p->o->model.threads);
    if (!mba_rank_store_path(out, sizeof out, p->o->out, w->rank))
        return mba_fail(MBA_E_ARG, "the name of the store is too long\nfix: choose a shorter --out");
    MBA_TRY(mba_store_may_replace(out));
    MBA_TRY(mba_lock_beside(&lock, out));
    mba_status st = mba_rank_clocks_compare(&p->before, w);
    if (st == MBA_OK) st = profile_rank(&p->o->model, &p->o->collect, out, w, w->rank ? compare_again : merge, p);
    if (st == MBA_OK && w->rank) st = mba_world_barrier(w); // its store is closed: rank 0 may read it
    if (st == MBA_OK) st = mba_world_barrier(w);            // nobody leaves before rank 0 has read it
    mba_rank_clocks_free(&p->before);
    mba_rank_clocks_free(&p->after);
    mba_lock_release(lock);
    return st == MBA_OK && !w->rank ? tell(p->o->out) : st;
}

/* An external program has its own steps, sizes and GPU, and only our kernels can be profiled from inside. */
static mba_status check_foreign(const profile_options *o)
{
    const mba_model_options   *m = &o->model;
    const mba_batch_shape      none = { 0 };
    const mba_collect_options *c = &o->collect;
    const char                *with = c->steps                                ? "--steps"
                                      : c->warmup                             ? "--warmup"
                                      : c->steps_only                         ? "--steps-only"
                                      : c->power_limit_w > 0                  ? "--power-limit"
                                      : c->blocks                             ? "--blocks"
                                      : c->deep                               ? "--source"
                                      : m->name                               ? "--model"
                                      : m->set                                ? "--set"
                                      : memcmp(&m->shape, &none, sizeof none) ? "a size"
                                      : m->device                             ? "--device"
                                      : m->precision                          ? "--precision"
                                      : m->memory                             ? "--memory"
                                      : m->recompute                          ? "--recompute"
                                      : m->variants                           ? "--op"
                                      : m->threads                            ? "--threads"
                                                                              : NULL;
    if (!with && o->foreign.skip_steps && !o->foreign.range)
        return mba_fail(MBA_E_ARG,
                        "--skip-steps needs --range\nwhy: a step of an external program is one entry into an "
                        "NVTX range\nfix: add --range NAME, or use --skip-launches");
    if (!with) return MBA_OK;
    return mba_fail(MBA_E_ARG,
                    "%s and -- CMD cannot be combined\nwhy: it describes a run of our models; a program runs as it "
                    "is\nfix: leave it "
                    "out; --launches, --range, --skip-steps and --skip-seconds limit what is recorded",
                    with);
}

int mba_exit_code; // command.h

static void on_signal(int number)
{
    static const char text[] =
        "\ninterrupted: the records are stored when the program has ended; a second signal then ends at once\n";
    (void)number;
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) return; // stderr is closed
}

/* A program that could not be profiled leaves no store: it would hold nothing but the environment. The exit code of the
 * program is ours, even if it ended before anything was recorded. */
mba_status mba_profile_program(const mba_foreign_options *o, const char *out, mba_profile_more_fn *more, void *ctx)
{
    target              to = { 0 };
    mba_foreign_end     end;
    mba_foreign_options f = *o;
    f.told = on_signal;
    MBA_TRY(begin(&to, out));
    mba_status st = mba_collect_foreign(to.store, &f, &end);
    if (st == MBA_OK && more) st = more(ctx, to.store);
    st = finish(&to, st);
    mba_exit_code = end.code;
    mba_say(stderr, "%s", end.story);
    return st;
}

static mba_status check_ours(const profile_options *o)
{
    const mba_foreign_options *f = &o->foreign;
    if (!o->model.name)
        return mba_fail(MBA_E_ARG,
                        "profile what?\nwhy: no model is given\nfix: add --model NAME (`mambascope list models` "
                        "shows them), or -- CMD");
    if (o->collect.power_limit_w > 0 && (!o->model.device || strncmp(o->model.device, "cuda", 4)))
        return mba_fail(MBA_E_ARG, "--power-limit needs a GPU\nwhy: the step would run on the CPU\nfix: add --device "
                                   "cuda");
    if (f->skip_s > 0 || f->skip_launches || f->skip_steps || f->launches || f->range || f->workload || f->units > 0
        || f->rules)
        return mba_fail(MBA_E_ARG,
                        "--skip-seconds, --skip-launches, --skip-steps, --launches, --range, --workload, --units and "
                        "--rules need a program (-- CMD)\nwhy: our models set all of this themselves\n"
                        "fix: leave them out, or add -- CMD");
    return MBA_OK;
}

/* Locks the name of the store: two processes would remove or replace what the other has open. */
static mba_status profile(const profile_options *o, bool foreign)
{
    mba_lock    *lock = NULL;
    mba_launcher l = { .ranks = 1 };
    if (!foreign) MBA_TRY(mba_launcher_find(&l, getenv));
    if (l.ranks > 1 && o->model.device && !strncmp(o->model.device, "cuda", 4))
        return mba_fail(MBA_E_UNSUPPORTED,
                        "%s started %d ranks, but only ranks on the CPU are profiled together\nwhy: the profiler of a "
                        "GPU repeats steps as often as its counters need, and ranks would repeat them differently\n"
                        "fix: start one process, or leave out --device cuda",
                        l.launcher, l.ranks);
    if (l.ranks > 1) return mba_on_ranks(&l, false, profile_ranks, &(rank_profile){ .o = o, .launcher = &l });
    MBA_TRY(mba_store_may_replace(o->out)); // a device or a pipe cannot have a lock file
    MBA_TRY(mba_lock_beside(&lock, o->out));
    mba_status st = foreign ? mba_profile_program(&o->foreign, o->out, NULL, NULL)
                            : mba_profile_model(&o->model, &o->collect, o->out, NULL, NULL);
    mba_lock_release(lock);
    return st == MBA_OK ? tell(o->out) : st;
}

/* Checks the names of counter sets, on every device the same. */
static mba_status check_sets(const char *names)
{
    const mba_metric_set *set[16];
    int                   n;
    return mba_metric_sets_choose(set, &n, 16, names);
}

static const char says[] = "Runs training steps of a model and writes what the hardware does to a store, one\n"
                           "SQLite file: environment, graph, plans, ceilings, timeline, counters\n"
                           "(docs/store.md). With `-- CMD` it profiles any CUDA program instead. Several ranks\n"
                           "of mpirun or srun write a store each, which rank 0 merges. If this\n"
                           "machine does not permit a measurement, the store says so and how to enable it.";

mba_status mba_command_profile(int argc, char **argv)
{
    profile_options  o = { .out = "run.db" };
    char             command[4096];
    bool             help;
    const mba_option options[] = {
        MBA_OPTION_GROUP("Measurement"),
        { "--out", MBA_OPT_TEXT, &o.out, "FILE.db",
          "store to write; an old one is replaced when the new one is complete [run.db]", 0, 0 },
        { "--steps", MBA_OPT_INT, &o.collect.steps, "K", "number of measured steps [5]", 1, 4000 },
        { "--warmup", MBA_OPT_INT, &o.collect.warmup, "K", "warm-up steps before them [3]", 1, 100000 },
        { "--metric-sets", MBA_OPT_TEXT, &o.collect.sets, "A,..",
          "counter sets to collect: overview, roofline, cache, pipes, stalls, occupancy, access, signature; '' = none "
          "[all]",
          0, 0 },
        MBA_OPTION_ALIAS("--sets", "--metric-sets"),
        { "--steps-only", MBA_OPT_FLAG, &o.collect.steps_only, NULL,
          "GPU: measure step times without ceilings, energy, timeline and counters", 0, 0 },
        { "--power-limit", MBA_OPT_REAL, &o.collect.power_limit_w, "W",
          "GPU: set this power limit, measure step times and energy alone, set it back", 1, 1e5 },
        { "--blocks", MBA_OPT_MOST, &o.collect.blocks, "[N]",
          "record start and end of up to N thread blocks of each of our kernels [8192]", 1, 8192 },
        { "--source", MBA_OPT_TEXT, &o.collect.deep, "KERNEL",
          "count instructions and sample stalls of this kernel, line by line", 0, 0 },
        MBA_OPTION_ALIAS("--deep", "--source"),

        MBA_OPTION_GROUP("Another program (-- CMD)"),
        { "--skip-seconds", MBA_OPT_REAL, &o.foreign.skip_s, "S", "CMD: skip its first seconds", 0, 1e6 },
        { "--skip-launches", MBA_OPT_INT, &o.foreign.skip_launches, "N", "CMD: skip its first kernel launches", 0,
          1e12 },
        { "--launches", MBA_OPT_INT, &o.foreign.launches, "N", "CMD: record at most this many kernel launches", 1,
          1e12 },
        { "--range", MBA_OPT_TEXT, &o.foreign.range, "NAME",
          "CMD: record only inside this NVTX range; one entry is one step", 0, 0 },
        { "--skip-steps", MBA_OPT_INT, &o.foreign.skip_steps, "N", "CMD: skip the first N entries into --range", 0,
          1e12 },
        { "--workload", MBA_OPT_TEXT, &o.foreign.workload, "NAME",
          "CMD: name of what it runs; use the workload name of the stores you will compare it with", 0, 0 },
        { "--units", MBA_OPT_REAL, &o.foreign.units, "N", "CMD: tokens per step, for rates", 0, 1e15 },
        { "--rules", MBA_OPT_TEXT, &o.foreign.rules, "FILE", "CMD: rules that assign kernels to classes [built in]", 0,
          0 },
        MBA_MODEL_OPTIONS(&o.model),
        { 0 },
    };
    const mba_usage usage = {
        "profile", "[options] [-- CMD..]", says, options,
        "mambascope profile --model mamba2-130m --batch 1 --length 256 --out mamba2.db\n"
        "mambascope profile --model mamba2-370m --device cuda --batch 4 --length 4096 --out mamba2.db\n"
        "mambascope profile --out peer.db --metric-sets roofline --skip-seconds 30 -- python train.py\n"
        "mambascope profile --model mamba2-370m --device cuda --batch 4 --length 4096 --power-limit 400 --out 400W.db\n"
        "mpirun -np 4 mambascope profile --model mamba2-130m --batch 1 --length 256 --out 4.db\n"
        "mambascope show mamba2.db breakdown\n"
    };
    int ours = 0;
    while (ours < argc && strcmp(argv[ours], "--")) ours++;
    MBA_TRY(mba_options_parse(&usage, ours, argv, NULL, &help));
    if (help) return MBA_OK;
    MBA_TRY(check_sets(o.collect.sets));
    join(command, sizeof command, argc, argv);
    o.collect.command = o.foreign.command = command;
    o.collect.deep = mba_alias_kernel(o.collect.deep);
    o.collect.steps_only |= o.collect.power_limit_w > 0;
    o.foreign.argv = argv + ours + 1;
    o.foreign.sets = o.collect.sets;
    if (ours + 1 == argc)
        return mba_fail(MBA_E_ARG,
                        "profile what?\nwhy: no command follows --\nfix: mambascope profile [options] -- CMD");
    MBA_TRY(ours < argc ? check_foreign(&o) : check_ours(&o));
    return profile(&o, ours < argc);
}
