// SPDX-License-Identifier: Apache-2.0
/* suite_parts.c -- see suite.h. */
#include "cli/suite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/profile.h"
#include "cli/suite_peers.h"
#include "scope/clock.h"
#include "train/train.h"

/* ---- the five workloads ---- */

/* One preset per device: on the CPU one that takes seconds, on a GPU the headline run of the study. */
typedef struct workload {
    const char     *name, *cpu, *cuda;
    mba_batch_shape cpu_shape, cuda_shape; /* text on the CPU: the length is the suite's */
    const char     *small;
    mba_batch_shape batch;
    double          lr, cpu_s, cuda_s; /* seconds of a quick part, for the first estimate of the time left */
} workload;

static const workload workloads[] = {
    { "mamba1",
      "mamba-130m",
      "mamba-370m",
      { .batch = 1 },
      { .batch = 4, .length = 4096 },
      "width=128,layers=4,vocab=264",
      { .batch = 8, .length = 128 },
      4e-3,
      28,
      22 },
    { "mamba2",
      "mamba2-130m",
      "mamba2-headline",
      { .batch = 1 },
      { .batch = 4, .length = 4096 },
      "width=128,layers=4,vocab=264,state=32,head_dim=32,chunk=64",
      { .batch = 8, .length = 128 },
      4e-3,
      26,
      22 },
    { "hybrid",
      "hybrid-130m",
      "hybrid-headline",
      { .batch = 1 },
      { .batch = 4, .length = 4096 },
      "width=128,vocab=264,state=32,head_dim=32,chunk=64,q_heads=4,kv_heads=2,attn_dim=32,mlp=256,pattern=M-*-M-",
      { .batch = 8, .length = 128 },
      4e-3,
      27,
      21 },
    { "mambavision",
      "mambavision-t",
      "mambavision-t",
      { .batch = 1 },
      { .batch = 128 },
      "dim=16,in_dim=16,depths=1:1:2:2,heads=2:2:4:8,windows=0:0:2:1,drop_path=0",
      { .batch = 16 },
      2e-3,
      9,
      35 },
    { "graphmamba",
      "graphmamba-peptides-func",
      "graphmamba-peptides-func",
      { .graphs = 16 },
      { .graphs = 128 },
      "layers=2,width=48,pe_count=0,pe_width=0",
      { .graphs = 16 },
      2e-3,
      7,
      19 },
};
enum { WORKLOADS = sizeof workloads / sizeof *workloads };

/* A full run on a GPU also has these parts, one line each:
 *   baseline    SSD and the scan as several kernels, which is what the study saw (F5, F9; Q3 starts from it)
 *   persistent  the same kernels in persistent blocks (F5, Q1), whose tiles are assigned beforehand, or taken one by
 *               one, or whose next inputs are prefetched
 *   bc_fused    C B^T computed in the blocks that use it (Q3)
 *   sizes       step times of all language models, 131,072 tokens a step in shorter and longer sequences, then one
 *               sequence of several lengths (N1). The models have 130 million parameters: steps of larger ones do not
 *               fit into 141 GB at that length.
 *   mamba_ssm   the study's own kernels, by injection (`profile -- CMD`) */
typedef struct beside {
    const char     *group, *name, *workload, *model, *variants, *sets;
    mba_batch_shape shape;
    int64_t         layers;   /* mamba_ssm: fewer than the model has, for counters of its kernels */
    double          expect_s; /* on an H200 */
} beside;
static const char CHUNKED[] = "ssd=chunked,ssd_bwd=chunked", TILES[] = "selective_scan=tiles,selective_scan_bwd=tiles",
                  PERSISTENT[] = "ssd=persistent,ssd_bwd=persistent",
                  DYNAMIC[] = "ssd=persistent_dynamic,ssd_bwd=persistent_dynamic",
                  PREFETCH[] = "ssd=persistent_prefetch,ssd_bwd=persistent_prefetch",
                  BC_FUSED[] = "ssd=bc_fused,ssd_bwd=bc_fused";
static const char FEW[] = "overview,roofline,cache,pipes,occupancy"; // what F5, F9 and the ladder of SSD kernels need
#define SIZE(workload, model, batch_, length_, s) \
    { \
        "sizes", model "-" #batch_ "x" #length_, workload, model, NULL, NULL, { .batch = batch_, .length = length_ }, \
            0, s \
    }
#define SIZES(workload, model) \
    SIZE(workload, model, 256, 512, 4), SIZE(workload, model, 32, 4096, 4), SIZE(workload, model, 1, 131072, 4), \
        SIZE(workload, model, 1, 16384, 2), SIZE(workload, model, 1, 4096, 2)
#define HEADLINE \
    { \
        .batch = 4, .length = 4096 \
    }
#define SHORT \
    { \
        .batch = 1, .length = 1024 \
    }
static const beside besides[] = {
    { "baseline", "mamba2-chunked", "mamba2", NULL, CHUNKED, NULL, HEADLINE, 0, 28 },
    { "baseline", "mamba2-chunked-short", "mamba2", NULL, CHUNKED, "overview,cache,occupancy", SHORT, 0, 9 },
    { "baseline", "mamba1-tiles", "mamba1", NULL, TILES, FEW, HEADLINE, 0, 21 },
    { "persistent", "mamba2-persistent", "mamba2", NULL, PERSISTENT, FEW, HEADLINE, 0, 20 },
    { "persistent", "mamba2-persistent-dynamic", "mamba2", NULL, DYNAMIC, FEW, HEADLINE, 0, 20 },
    { "persistent", "mamba2-persistent-prefetch", "mamba2", NULL, PREFETCH, FEW, HEADLINE, 0, 20 },
    { "bc_fused", "mamba2-bc_fused", "mamba2", NULL, BC_FUSED, FEW, HEADLINE, 0, 20 },
    SIZES("mamba1", "mamba-130m"),
    SIZES("mamba2", "mamba2-130m"),
    SIZES("hybrid", "hybrid-130m"),
    { "sizes", "mambavision-32", "mambavision", NULL, NULL, NULL, { .batch = 32 }, 0, 2 },
    { "sizes", "graphmamba-32", "graphmamba", NULL, NULL, NULL, { .graphs = 32 }, 0, 2 },
    { "mamba_ssm", "mamba_ssm-mamba2", "mamba2", NULL, NULL, FEW, HEADLINE, 0, 52 },
    { "mamba_ssm", "mamba_ssm-mamba2-short", "mamba2", NULL, NULL, "overview,cache", SHORT, 4, 25 },
    { "mamba_ssm", "mamba_ssm-mamba1", "mamba1", NULL, NULL, "overview,roofline", HEADLINE, 0, 25 },
};
enum { SIZE_STEPS = 3 }; // at least; a step of 131,072 tokens takes a third of a second
enum { BESIDES = sizeof besides / sizeof *besides };
_Static_assert(WORKLOADS + BESIDES <= MBA_SUITE_PARTS_MAX, "every part has a place");

static bool on_cuda(const mba_suite_options *o) { return o->device && !strncmp(o->device, "cuda", 4); }
static bool is(const mba_suite_options *o, const char *scale) { return !strcmp(o->scale, scale); }

void mba_suite_defaults(mba_suite_options *o)
{
    if (!o->scale) o->scale = "quick";
    if (!o->length) o->length = is(o, "tiny") ? 32 : is(o, "full") ? 1024 : 256;
    if (!o->repeats) o->repeats = is(o, "tiny") ? 1 : is(o, "full") ? 5 : 3;
    if (!o->steps) o->steps = is(o, "tiny") ? 3 : is(o, "full") ? 400 : 120;
}

static mba_suite_part main_part(const workload *w, const mba_suite_options *o)
{
    const bool     cuda = on_cuda(o), text = w->batch.length > 0, tiny = is(o, "tiny");
    mba_suite_part p = { .workload = w->name,
                         .steps = o->repeats,
                         .train_steps = o->steps,
                         .small = w->small,
                         .batch = w->batch,
                         .lr = w->lr,
                         .expect_s = cuda ? w->cuda_s : w->cpu_s };
    p.model = (mba_model_options){ .name = cuda ? w->cuda : w->cpu,
                                   .device = o->device,
                                   .threads = o->threads,
                                   .shape = cuda ? w->cuda_shape : w->cpu_shape };
    if (text && !cuda) p.model.shape.length = o->length;
    if (is(o, "full")) p.expect_s *= cuda ? 1.2 : 5;
    if (tiny) {
        p.model.name = w->cpu;
        p.model.set = w->small;
        p.model.shape = text ? (mba_batch_shape){ .batch = 1, .length = o->length } : w->cpu_shape;
        p.batch = text ? (mba_batch_shape){ .batch = 2, .length = 32 } : (mba_batch_shape){ .batch = 2 };
        if (!text && w->batch.graphs) p.batch = p.model.shape = (mba_batch_shape){ .graphs = 4 };
        p.expect_s = 0.8;
    }
    snprintf(p.name, sizeof p.name, "%s", w->name);
    return p;
}

static const workload *workload_named(const char *name)
{
    const workload *w = workloads;
    while (strcmp(w->name, name)) w++;
    return w;
}

static mba_suite_part part_beside(const beside *b, const mba_suite_options *o)
{
    mba_suite_part p = main_part(workload_named(b->workload), o);
    p.group = b->group;
    p.train_steps = 0;
    p.model.shape = b->shape;
    p.model.variants = b->variants;
    if (b->model) p.model.name = b->model;
    p.sets = b->sets;
    p.steps_only = !strcmp(b->group, "sizes");
    p.peer = !strcmp(b->group, "mamba_ssm");
    p.layers = b->layers;
    p.expect_s = b->expect_s;
    if (p.steps_only && p.steps > SIZE_STEPS) p.steps = SIZE_STEPS;
    snprintf(p.name, sizeof p.name, "%s", b->name);
    mba_assert(strlen(b->name) < sizeof p.name);
    return p;
}

int mba_suite_plan(mba_suite_part part[MBA_SUITE_PARTS_MAX], const mba_suite_options *o)
{
    int n = 0;
    for (int w = 0; w < WORKLOADS; w++) part[n++] = main_part(&workloads[w], o);
    for (int i = 0; i < BESIDES && on_cuda(o) && is(o, "full"); i++) part[n++] = part_beside(&besides[i], o);
    return n;
}

/* ---- options as words ---- */

typedef struct words {
    char  *text;
    size_t room, n;
} words;

static void add(words *w, const char *key, const char *value)
{
    if (!value || w->n >= w->room) return;
    const int more = snprintf(w->text + w->n, w->room - w->n, "%s%s%s%s", w->n ? " " : "", key, *value ? " " : "",
                              value);
    if (more > 0) w->n += (size_t)more;
}

static void add_number(words *w, const char *key, int64_t v)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", (long long)v);
    if (v) add(w, key, digits);
}

static void add_shape(words *w, const mba_batch_shape *s)
{
    add_number(w, "--batch", s->batch);
    add_number(w, "--length", s->length);
    add_number(w, "--graphs", s->graphs);
}

enum { BLOCKS_MOST = 512 }; // block lifetimes recorded per kernel, in stores with all counters
static bool has_blocks(const mba_suite_part *p) { return !p->sets && !p->steps_only && !p->peer; }

static void add_model(words *w, const char *key, const mba_suite_part *p)
{
    add(w, key, p->model.name);
    add(w, "--set", p->model.set);
    add_shape(w, &p->model.shape);
}

/* What mba_suite_peer_make runs. */
static void peer_words(words *w, const mba_suite_part *p)
{
    add(w, "profile --workload", p->model.name);
    add_number(w, "--units", mba_suite_peer_units(p));
    add(w, "--range", "step");
    add(w, "--sets", p->sets);
    add_number(w, "--launches", mba_suite_peer_launches(p));
    add_model(w, "-- python3 tools/peers/train_nvtx.py --model", p);
    add_number(w, "--layers", p->layers);
    add_number(w, "--steps", mba_suite_peer_steps(p));
}

void mba_suite_part_words(char *text, size_t room, const mba_suite_part *p)
{
    words w = { text, room, 0 };
    *text = 0;
    if (p->peer) {
        peer_words(&w, p);
        return;
    }
    add_model(&w, "profile --model", p);
    add(&w, "--op", p->model.variants);
    add(&w, "--device", !strncmp(p->model.device, "cuda", 4) ? "cuda" : "cpu"); // whichever GPU of the machine
    add_number(&w, "--steps", p->steps);
    if (p->steps_only) add(&w, "--steps-only", "");
    add(&w, "--sets", p->sets);
    add_number(&w, "--threads", p->model.threads);
    if (has_blocks(p) && !strncmp(p->model.device, "cuda", 4)) add_number(&w, "--blocks", BLOCKS_MOST);
    if (!p->train_steps) return;
    add(&w, "; train --set", p->small);
    add_shape(&w, &p->batch);
    add_number(&w, "--steps", p->train_steps);
}

/* ---- making a part ---- */

typedef struct trained {
    mba_train_report last;
    double           first_loss;
    char             failed[512];
} trained;
typedef struct making {
    const mba_suite_part    *part;
    const mba_suite_options *options;
    trained                  t;
    double                   began;
} making;

static void note_step(void *ctx, const mba_train_report *r)
{
    trained *t = ctx;
    if (r->step == 1) t->first_loss = r->loss;
    t->last = *r;
}

static mba_status train(trained *t, const mba_suite_part *p)
{
    mba_train_options       o = { .feed = { .validation = 0.1, .smoothing = -1, .mixup = -1, .cutmix = -1 },
                                  .seed = 1,
                                  .valid_batches = 8,
                                  .guard = 8,
                                  .report = note_step,
                                  .ctx = t,
                                  .schedule = { .lr = p->lr, .lr_min = 1e-4, .warmup = 5, .steps = p->train_steps } };
    const mba_model_options where = { .device = p->model.device, .threads = p->model.threads };
    o.session.adamw = mba_adamw_defaults();
    MBA_TRY(mba_run_options_apply(&where, &o.session));
    MBA_TRY(mba_model_preset(&o.session.model, p->model.name));
    MBA_TRY(mba_model_set(&o.session.model, p->small));
    MBA_TRY(mba_model_shape(&o.session.model, &p->batch));
    return mba_train(&o);
}

static mba_status write_training(mba_store *s, const making *m)
{
    const mba_train_report *r = &m->t.last;
    if (!m->part->train_steps) return MBA_OK;
    if (*m->t.failed) return mba_note_missing(s, "training", m->t.failed, "mambascope train --help");
    MBA_TRY(mba_env_put_text(s, "train.model", "given", "%s --set %s", m->part->model.name, m->part->small));
    MBA_TRY(mba_env_put_number(s, "train.steps", "given", (double)r->step, "step"));
    MBA_TRY(mba_env_put_number(s, "train.units", "measured", (double)r->units, r->unit));
    MBA_TRY(mba_env_put_number(s, "train.first_loss", "measured", m->t.first_loss, "nat"));
    MBA_TRY(mba_env_put_number(s, "train.last_loss", "measured", r->loss, "nat"));
    MBA_TRY(mba_env_put_number(s, "train.valid_loss", "measured", r->valid.loss, "nat"));
    MBA_TRY(mba_env_put_number(s, "train.units_per_s", "measured", (double)r->units / r->run_s, r->unit));
    if (r->valid.scores)
        MBA_TRY(mba_env_put_number(s, "train.score", "measured", r->valid.score[0].value, r->valid.score[0].name));
    return MBA_OK;
}

static mba_status write_part(void *ctx, mba_store *s)
{
    const making *m = ctx;
    char          text[1024];
    mba_suite_part_words(text, sizeof text, m->part);
    MBA_TRY(write_training(s, m));
    MBA_TRY(mba_env_put_text(s, "suite.part", "given", "%s", m->part->name));
    MBA_TRY(mba_env_put_text(s, "suite.scale", "given", "%s", m->options->scale));
    MBA_TRY(mba_env_put_text(s, "suite.options", "given", "%s", text));
    return mba_env_put_number(s, "suite.seconds", "measured", mba_clock_s() - m->began, "s");
}

mba_status mba_suite_part_make(const mba_suite_part *p, const mba_suite_options *o, const char *path)
{
    making m = { .part = p, .options = o, .began = mba_clock_s() };
    char   command[256];
    snprintf(command, sizeof command, "mambascope suite --%s --device %s --only %s", o->scale, o->device, p->name);
    if (p->peer) return mba_suite_peer_make(p, command, path, write_part, &m);
    const mba_status trained_st = p->train_steps ? train(&m.t, p) : MBA_OK;
    if (trained_st == MBA_E_IO || trained_st == MBA_E_NOMEM)
        return trained_st; // a full disk may pass: --resume tries again
    if (trained_st != MBA_OK)
        snprintf(m.t.failed, sizeof m.t.failed, "the small model did not train: %.480s", mba_message());
    const mba_collect_options collect = { .steps = p->steps,
                                          .sets = p->steps_only ? "" : p->sets,
                                          .steps_only = p->steps_only,
                                          .command = command,
                                          .blocks = has_blocks(p) ? BLOCKS_MOST : 0 };
    return mba_profile_model(&p->model, &collect, path, write_part, &m);
}

/* ---- what is there ---- */

static const char *sheet_text(const mba_row_sheet *r, int64_t n, const char *key)
{
    for (int64_t i = 0; i < n; i++)
        if (r[i].key && !strcmp(r[i].key, key)) return r[i].text ? r[i].text : "";
    return NULL;
}

static mba_status compare(mba_suite_state *is, const mba_suite_part *p, mba_store *s, char *have, size_t room)
{
    mba_row_sheet *r;
    int64_t        n;
    char           want[1024];
    MBA_TRY(mba_store_check(s));
    MBA_TRY(mba_load_sheet(s, &r, &n));
    const char *name = sheet_text(r, n, "suite.part"), *options = sheet_text(r, n, "suite.options");
    *is = MBA_PART_STRANGE;
    if (!name || !options || strcmp(name, p->name)) return MBA_OK;
    mba_suite_part_words(want, sizeof want, p);
    snprintf(have, room, "%s", options);
    *is = strcmp(want, options) ? MBA_PART_OTHER : MBA_PART_DONE;
    return MBA_OK;
}

mba_status mba_suite_part_look(mba_suite_state *is, const mba_suite_part *p, const char *path, char *have, size_t room)
{
    mba_store *s = NULL;
    *have = 0;
    *is = MBA_PART_ABSENT;
    if (access(path, F_OK)) return MBA_OK;
    mba_status st = mba_store_open(&s, path);
    if (st == MBA_OK) st = compare(is, p, s, have, room);
    (void)!mba_store_close(s); // it was only read
    if (st != MBA_E_FORMAT) return st;
    *is = MBA_PART_BROKEN;
    return MBA_OK;
}
