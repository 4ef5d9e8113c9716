/* train.c -- `mambascope train`: trains a language model, or prints what a step would cost. */
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/model_options.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/synthetic.h"
#include "core/print.h"
#include "device/cpu/ceilings.h"
#include "train/checkpoint.h"
#include "train/train.h"

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

typedef struct train_cli {
    mba_train_options o;
    mba_model_options model;
    double            lr, lr_min, decay, beta1, beta2, clip;
    int64_t           steps, warmup, seed;
    bool              dry_run, json, documents, quiet;
    mba_progress      bar;
    double            floor_s;
    mba_train_report  last;
} train_cli;

/* ---- what a step costs ---- */

static json_t *cost_json(const mba_session *s)
{
    const mba_cost    c   = mba_graph_cost(s->graph, MBA_STEP);
    const mba_layout *lay = &s->program->layout;
    json_t *memory = json_object();
    for (int r = 0; r < MBA_ROLES; r++)
        if (lay->role_bytes[r]) json_object_set_new(memory, mba_role_name((mba_role)r), json_integer((json_int_t)lay->role_bytes[r]));
    json_object_set_new(memory, "step arena", json_integer((json_int_t)lay->arena_bytes[MBA_ACT]));
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:b, s:i, s:{s:f, s:f, s:f}, s:{s:f, s:f}, s:o}", "model",
                     s->model.name ? s->model.name : "given", "batch", (json_int_t)s->model.batch, "length", (json_int_t)s->model.length,
                     "parameters", (json_int_t)mba_session_parameters(s), "plan_bytes", (json_int_t)mba_program_bytes(s->program),
                     "recompute", (int)s->recomputes, "nodes", (int)s->graph->nnodes, "flops", "tensor", c.tensor_flops, "vector",
                     c.vector_flops, "special", c.special_ops, "bytes", "read", c.read_bytes, "write", c.write_bytes, "memory", memory);
}

/* Parameters by the last two words of their names: layers fold into one row. */
static void print_parameters(FILE *f, const mba_session *s)
{
    typedef struct row { char name[96]; int64_t n, count; } row;
    row rows[128];
    int n = 0;
    for (int32_t i = 0; i < s->graph->ntensors; i++) {
        const mba_tensor *t = s->graph->tensors[i];
        char name[96];
        int  layer, used = 0, k = 0;
        if (!mba_is_param(t)) continue;
        if (sscanf(t->name, "backbone.layers.%d.%n", &layer, &used) == 1 && used) snprintf(name, sizeof name, "layers.*.%s", t->name + used);
        else snprintf(name, sizeof name, "%s", t->name);
        while (k < n && strcmp(rows[k].name, name)) k++;
        if (k == n && n < 128) {
            rows[n] = (row){ .n = 0 };
            memcpy(rows[n++].name, name, sizeof name);
        }
        rows[k].n += mba_elems(t);
        rows[k].count++;
    }
    fprintf(f, "%-40s %8s %14s\n", "parameter", "tensors", "numbers");
    for (int k = 0; k < n; k++) fprintf(f, "%-40s %8lld %14lld\n", rows[k].name, (long long)rows[k].count, (long long)rows[k].n);
    fprintf(f, "%-40s %8s %14lld\n\n", "in all", "", (long long)mba_session_parameters(s));
}

static void print_cost(FILE *f, const mba_session *s)
{
    fprintf(f, "%-10s %14s %14s %14s %12s %12s\n", "pass", "tensor GFLOP", "vector GFLOP", "special Gop", "read MB", "written MB");
    for (unsigned pass = MBA_FORWARD; pass <= MBA_STEP; pass = pass == MBA_UPDATE ? MBA_STEP : pass == MBA_STEP ? MBA_STEP + 1 : pass << 1) {
        const mba_cost c = mba_graph_cost(s->graph, pass);
        fprintf(f, "%-10s %14.3f %14.3f %14.3f %12.1f %12.1f\n", pass == MBA_STEP ? "step" : mba_pass_name((mba_pass)pass),
                c.tensor_flops / 1e9, c.vector_flops / 1e9, c.special_ops / 1e9, c.read_bytes / 1e6, c.write_bytes / 1e6);
    }
    fputs("(the least any implementation computes and moves; an FMA is 2 FLOP)\n\n", f);
}

static mba_status dry_run(train_cli *c)
{
    mba_session         s  = { 0 };
    mba_session_options so = c->o.session;
    so.backward   = so.update = true;
    so.accumulate = c->o.micros > 1;
    so.model.carry = c->o.carry;
    if (!so.memory_bytes) so.memory_bytes = INT64_MAX;         // a plan for a machine that is not here
    mba_status st = mba_session_plan(&s, &so);
    if (st == MBA_OK && c->json) {
        json_t *o = cost_json(&s);
        json_dumpf(o, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
        putchar('\n');
        json_decref(o);
    } else if (st == MBA_OK) {
        print_parameters(stdout, &s);
        print_cost(stdout, &s);
        mba_program_print_memory(stdout, s.program);
    }
    mba_session_end(&s);
    return st;
}

/* ---- training ---- */

static void planned(void *ctx, const mba_session *s, const mba_loader *data)
{
    train_cli *c = ctx;
    const mba_token_notes *notes = mba_loader_notes(data);
    const mba_ceilings     ceilings = mba_ceilings_measure(0.1);
    c->floor_s = 0;
    for (int32_t i = 0; i < s->graph->nnodes; i++)
        c->floor_s += mba_ceilings_floor(&ceilings, s->graph->nodes[i]->op->cost(s->graph->nodes[i]))
                    * (double)(s->graph->nodes[i]->pass == MBA_UPDATE || c->o.micros < 1 ? 1 : c->o.micros);
    c->bar = mba_progress_start("training", c->o.schedule.steps);
    if (c->quiet) return;
    fprintf(stderr, "%s: %lld parameters, batch %lld x length %lld x %lld, %d threads\n", c->model.name ? c->model.name : "checkpoint",
            (long long)mba_session_parameters(s), (long long)s->model.batch, (long long)s->model.length,
            (long long)(c->o.micros > 0 ? c->o.micros : 1), mba_cpu_threads());
    fprintf(stderr, "data: %lld tokens in %d files%s\n", (long long)mba_loader_tokens(data), mba_loader_files(data),
            notes && notes->synthetic ? " (SYNTHETIC text)" : "");
    mba_program_print_memory(stderr, s->program);
}

static void report(void *ctx, const mba_train_report *r)
{
    train_cli *c = ctx;
    char       note[160];
    snprintf(note, sizeof note, "loss %.4f  %.0f tokens/s  %.0f %% of floor", r->loss, r->tokens_per_s, 100 * c->floor_s / r->step_s);
    mba_progress_show(&c->bar, r->step, note);
    if (!isnan(r->valid_loss)) c->last = *r;
    else {
        const double valid = c->last.step ? c->last.valid_loss : NAN;
        c->last = *r;
        c->last.valid_loss = valid;
    }
    if (c->quiet) return;
    const bool terminal = isatty(2);
    if (r->skipped || !isnan(r->valid_loss)) {
        mba_progress_end(&c->bar);
        if (r->skipped) fprintf(stderr, "step %lld skipped: %s\n", (long long)r->step, r->note);
        if (!isnan(r->valid_loss)) fprintf(stderr, "step %lld  loss %.4f  validation %.4f nats/token\n", (long long)r->step, r->loss, r->valid_loss);
    } else if (!terminal && (r->step % 100 == 0 || r->step == r->steps)) {
        fprintf(stderr, "step %lld  loss %.4f  norm %.3f  lr %.2e  %.0f tokens/s\n", (long long)r->step, r->loss, r->grad_norm, r->lr, r->tokens_per_s);
    }
}

/* The most memory this process had resident. */
static json_int_t peak_bytes(void)
{
    struct rusage use;
    return getrusage(RUSAGE_SELF, &use) ? 0 : (json_int_t)use.ru_maxrss * 1024;
}

static void print_result(const train_cli *c)
{
    const mba_train_report *r = &c->last;
    if (c->json) {
        json_t *o = json_pack("{s:I, s:f, s:f, s:I, s:f, s:f}", "step", (json_int_t)r->step, "loss", r->loss, "grad_norm", r->grad_norm,
                              "tokens", (json_int_t)r->tokens, "seconds", r->run_s, "tokens_per_s", (double)r->tokens / r->run_s);
        json_object_set_new(o, "valid_loss", isnan(r->valid_loss) ? json_null() : json_real(r->valid_loss));
        json_object_set_new(o, "peak_bytes", json_integer(peak_bytes()));
        json_dumpf(o, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
        putchar('\n');
        json_decref(o);
        return;
    }
    printf("%lld steps, %lld tokens in %.1f s (%.0f tokens/s): loss %.4f", (long long)r->step, (long long)r->tokens, r->run_s,
           (double)r->tokens / r->run_s, r->loss);
    if (!isnan(r->valid_loss)) printf(", validation %.4f", r->valid_loss);
    printf(" nats/token%s\n", interrupted ? "; interrupted, saved" : "");
}

static mba_status run_training(train_cli *c)
{
    mba_synthetic made = { 0 };
    if (!c->o.data) MBA_TRY(mba_synthetic_create(&made, (uint64_t)c->seed, 4 << 20));
    if (!c->o.data) c->o.data = made.path;
    struct sigaction action = { .sa_handler = on_signal };
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    c->o.stop = &interrupted;
    c->o.planned = planned;
    c->o.report  = report;
    c->o.ctx     = c;
    c->last      = (mba_train_report){ .valid_loss = NAN, .loss = NAN, .grad_norm = NAN, .run_s = 1e-9 };
    const mba_status st = mba_train(&c->o);
    mba_progress_end(&c->bar);
    mba_synthetic_remove(&made);
    if (st == MBA_OK) print_result(c);
    return st;
}

/* The model is named by --model, or taken from the checkpoint that is resumed. */
static mba_status choose_model(train_cli *c)
{
    char          path[4096];
    mba_hf_format format;
    if (c->o.resume && !c->model.name) {
        snprintf(path, sizeof path, "%s", c->o.resume);
        if (!strstr(c->o.resume, "step-")) MBA_TRY(mba_checkpoint_latest(path, sizeof path, c->o.resume));
        MBA_TRY(mba_checkpoint_config(&c->o.session.model, &format, path));
    } else if (!c->model.name) {
        return mba_fail(MBA_E_ARG, "no model\nfix: --model NAME, with a name of `mambascope list models`, or --resume DIR");
    }
    MBA_TRY(mba_model_options_apply(&c->model, &c->o.session));
    c->o.session.model.documents = c->documents;
    return MBA_OK;
}

mba_status mba_command_train(int argc, char **argv)
{
    const mba_adamw_options a = mba_adamw_defaults();
    bool      help;
    train_cli c = { .lr = 1e-3, .lr_min = 1e-5, .decay = a.decay, .beta1 = a.beta1, .beta2 = a.beta2, .clip = a.clip, .steps = 100,
                    .warmup = -1, .seed = 1, .o = { .micros = 1, .guard = 8, .valid_batches = 16, .keep = 3 } };
    const mba_option options[] = {
        MBA_MODEL_OPTIONS(&c.model),
        { "--data",      MBA_OPT_TEXT, &c.o.data,      "PATH",  "token files: `mambascope data prepare`; without it, SYNTHETIC text", 0, 0 },
        { "--validation", MBA_OPT_REAL, &c.o.validation, "PART", "hold the last part of the data out (0.1)", 0, 0.9 },
        { "--steps",     MBA_OPT_INT,  &c.steps,       "N",     "updates (100)", 1, 1e12 },
        { "--micros",    MBA_OPT_INT,  &c.o.micros,    "N",     "micro-batches per update (1)", 1, 32768 },
        { "--lr",        MBA_OPT_REAL, &c.lr,          "X",     "largest learning rate (1e-3)", 0, 100 },
        { "--lr-min",    MBA_OPT_REAL, &c.lr_min,      "X",     "what the cosine ends at (1e-5)", 0, 100 },
        { "--warmup",    MBA_OPT_INT,  &c.warmup,      "N",     "steps of linear warm-up (2 % of the steps)", 0, 1e12 },
        { "--decay",     MBA_OPT_REAL, &c.decay,       "X",     "weight decay of matrices (0.1)", 0, 100 },
        { "--beta1",     MBA_OPT_REAL, &c.beta1,       "X",     "(0.9)", 0, 1 },
        { "--beta2",     MBA_OPT_REAL, &c.beta2,       "X",     "(0.95)", 0, 1 },
        { "--clip",      MBA_OPT_REAL, &c.clip,        "X",     "longest gradient (1); 0: any", 0, 1e9 },
        { "--guard",     MBA_OPT_REAL, &c.o.guard,     "X",     "skip norms above X times their median (8); 0: only NaN", 0, 1e9 },
        { "--seed",      MBA_OPT_INT,  &c.seed,        "N",     "of parameters and data order (1)", 0, 9e15 },
        { "--in-order",  MBA_OPT_FLAG, &c.o.in_order,  NULL,    "batches in the order of the data, not shuffled", 0, 0 },
        { "--carry",     MBA_OPT_FLAG, &c.o.carry,     NULL,    "in order, states carried from batch to batch (truncated back-propagation)", 0, 0 },
        { "--documents", MBA_OPT_FLAG, &c.documents,   NULL,    "reset states and mask attention at document borders", 0, 0 },
        { "--out",       MBA_OPT_TEXT, &c.o.out,       "DIR",   "keep log.jsonl and checkpoints step-* there", 0, 0 },
        { "--save-every", MBA_OPT_INT, &c.o.save_every, "N",    "steps between checkpoints (only the last)", 1, 1e12 },
        { "--keep",      MBA_OPT_INT,  &c.o.keep,      "N",     "newest checkpoints to keep (3); 0: all", 0, 1e9 },
        { "--valid-every", MBA_OPT_INT, &c.o.valid_every, "N",  "steps between validations (only the last)", 1, 1e12 },
        { "--valid-batches", MBA_OPT_INT, &c.o.valid_batches, "N", "batches of a validation (16); 0: all", 0, 1e9 },
        { "--resume",    MBA_OPT_TEXT, &c.o.resume,    "DIR",   "go on from a checkpoint, or from the newest of a run", 0, 0 },
        { "--stop-after", MBA_OPT_INT, &c.o.stop_after, "N",    "leave after N steps of this session, saved", 1, 1e12 },
        { "--dry-run",   MBA_OPT_FLAG, &c.dry_run,     NULL,    "print parameters, memory plan, FLOPs and bytes of a step; run nothing", 0, 0 },
        { "--json",      MBA_OPT_FLAG, &c.json,        NULL,    "result as JSON (docs/commands.md has the keys)", 0, 0 },
        { "--quiet",     MBA_OPT_FLAG, &c.quiet,       NULL,    "no talk on stderr", 0, 0 },
        { 0 },
    };
    const mba_usage usage = { "train", "--model NAME [options]",
        "Trains a language model on the CPU. Ctrl-C finishes the step, saves and exits.", options,
        "mambascope train --model mamba2-130m --batch 1 --length 1024 --dry-run\n"
        "mambascope train --model mamba2-130m --set width=256,layers=6,vocab=257 --data shards --validation 0.1 --steps 500 --out run\n"
        "mambascope train --resume run --data shards --validation 0.1 --steps 500 --out run\n" };
    MBA_TRY(mba_options_parse(&usage, argc, argv, NULL, &help));
    if (help) return MBA_OK;
    c.o.session.adamw = (mba_adamw_options){ c.beta1, c.beta2, a.eps, c.decay, c.clip };
    c.o.schedule = (mba_schedule){ c.lr, c.lr_min < c.lr ? c.lr_min : c.lr, c.warmup < 0 ? c.steps / 50 : c.warmup, c.steps };
    c.o.seed     = (uint64_t)c.seed;
    MBA_TRY(choose_model(&c));
    return c.dry_run ? dry_run(&c) : run_training(&c);
}
