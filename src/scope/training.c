// SPDX-License-Identifier: Apache-2.0
/* training.c -- see training.h: reads log.jsonl, options.json, checkpoints and samples.jsonl of a run, and summarises
 * them. */
#include "scope/training.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/file.h"
#include "data/json.h"
#include "train/checkpoint.h"

static const size_t  LOG_MOST = (size_t)1 << 31; // bytes: ten million steps
static const int64_t STEP_MOST = INT64_C(1) << 48;
enum { PATH_ROOM = 4096, NOTES_MOST = 64, SAMPLES_MOST = 200 };

/* ---- lists that grow ---- */

/* The list of n entries with room for one more; NULL: no memory. Its size doubles. */
static void *grown(void *list, int64_t n, size_t bytes)
{
    mba_debug_assert(n >= 0 && (list || n == 0));
    return n & (n - 1) ? list : realloc(list, (size_t)(n ? 2 * n : 1) * bytes); // 0, 1, 2, 4, ..: full
}

#define ROOM_FOR_ONE_MORE(list, n) \
    do { \
        void *grown_ = grown(list, n, sizeof *(list)); \
        if (!grown_) return mba_fail(MBA_E_NOMEM, "no memory for the log of a run"); \
        (list) = grown_; \
    } while (0)

static mba_status copy_of(char **out, const char *text)
{
    *out = strdup(text);
    return *out ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory for the log of a run");
}

static mba_status add_fact(mba_training *t, const char *name, const char *value)
{
    if (mba_training_fact_of(t, name)) return MBA_OK; // the first source wins
    ROOM_FOR_ONE_MORE(t->fact, t->nfacts);
    mba_training_fact *f = &t->fact[t->nfacts];
    *f = (mba_training_fact){ 0 };
    t->nfacts++;
    MBA_TRY(copy_of(&f->name, name));
    return copy_of(&f->value, value);
}

const char *mba_training_fact_of(const mba_training *t, const char *name)
{
    for (int i = 0; i < t->nfacts; i++)
        if (!strcmp(t->fact[i].name, name)) return t->fact[i].value;
    return NULL;
}

/* ---- the log ---- */

static double number_of(const json_t *o, const char *key)
{
    double v;
    return mba_json_number(mba_json_get(o, key), &v) && isfinite(v) ? v : NAN;
}

static bool ends_in(const char *s, const char *end)
{
    const size_t n = strlen(s), m = strlen(end);
    return n > m && !strcmp(s + n - m, end);
}

/* True for letters, digits and _ only: the key becomes a heading, a tag, a CSV column. */
static bool is_plain(const char *key)
{
    return strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == strlen(key)
           && strlen(key) < 30;
}

/* The key "tokens_per_s" of the first line names the unit. */
static void learn_unit(mba_training *t, const json_t *o)
{
    const char *key;
    json_t     *value;
    snprintf(t->unit, sizeof t->unit, "units");
    json_object_foreach((json_t *)o, key, value) if (ends_in(key, "_per_s") && is_plain(key))
        snprintf(t->unit, sizeof t->unit, "%.*s", (int)strlen(key) - 6, key);
}

/* Keys of the form valid_NAME are validation scores. */
static void read_scores(mba_training *t, mba_trained *s, const json_t *o)
{
    const char *key;
    json_t     *value;
    json_object_foreach((json_t *)o, key, value)
    {
        int k = 0;
        if (strncmp(key, "valid_", 6) || !strcmp(key, "valid_loss") || !is_plain(key)) continue;
        while (k < t->nscores && strcmp(t->score[k], key + 6)) k++;
        mba_assert(k <= t->nscores && t->nscores <= MBA_TRAINING_SCORES);
        if (k == MBA_TRAINING_SCORES) continue;
        if (k == t->nscores) snprintf(t->score[t->nscores++], sizeof t->score[0], "%s", key + 6);
        s->score[k] = number_of(o, key);
    }
}

/* Seconds of the run so far: the clock of each session starts at 0. */
static double run_seconds(mba_training *t, double seconds, double *session, double *before)
{
    if (isnan(seconds)) return NAN;
    if (seconds < *session) *before += *session, t->sessions++;
    *session = seconds;
    return *before + seconds;
}

/* Takes ownership of `text`; NULL means that it could not be allocated. */
static mba_status add_note(mba_training *t, char *text)
{
    void *list = t->nnotes < NOTES_MOST && text ? grown(t->note, t->nnotes, sizeof *t->note) : NULL;
    if (list) t->note = list, t->note[t->nnotes++] = text;
    else free(text);
    return list || (text && t->nnotes == NOTES_MOST) ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory for the log of a run");
}

/* Notes the options that changed when a run was resumed: "changed": ["--lr 0.001 -> 0.0005"]. */
static mba_status add_changes(mba_training *t, int64_t step, const json_t *list)
{
    size_t  i;
    json_t *change;
    json_array_foreach(list, i, change)
    {
        char *note = NULL;
        if (!json_is_string(change)) continue;
        if (asprintf(&note, "from step %lld on: %s", (long long)step, json_string_value(change)) < 0) note = NULL;
        MBA_TRY(add_note(t, note));
    }
    return MBA_OK;
}

typedef struct clock {
    double session, before;
} clock;

/* Reads one line: a step, or a note of the run. *good is false for anything else. */
static mba_status read_line(mba_training *t, const json_t *o, clock *c, bool *good)
{
    const json_t *step = mba_json_get(o, "step");
    const int64_t at = json_is_integer(step) ? (int64_t)json_integer_value(step) : -1;
    *good = at >= 0 && at <= STEP_MOST;
    if (!json_object_get(o, "loss")) *good = true;
    if (!json_object_get(o, "loss")) return add_note(t, json_dumps(o, JSON_COMPACT | JSON_ENSURE_ASCII));
    *good &= !t->n || at > t->step[t->n - 1].step;
    if (!*good) return MBA_OK;
    if (!*t->unit) learn_unit(t, o);
    ROOM_FOR_ONE_MORE(t->step, t->n);
    char rate[48];
    snprintf(rate, sizeof rate, "%s_per_s", t->unit);
    mba_trained s = { .step = at,
                      .units = number_of(o, t->unit),
                      .loss = number_of(o, "loss"),
                      .lr = number_of(o, "lr"),
                      .grad_norm = number_of(o, "grad_norm"),
                      .rate = number_of(o, rate),
                      .valid_loss = number_of(o, "valid_loss"),
                      .skipped = json_is_true(json_object_get(o, "skipped")) };
    s.seconds = run_seconds(t, number_of(o, "seconds"), &c->session, &c->before);
    for (int k = 0; k < MBA_TRAINING_SCORES; k++) s.score[k] = NAN;
    read_scores(t, &s, o);
    t->step[t->n++] = s;
    return add_changes(t, at, json_object_get(o, "changed"));
}

static void leave_out(mba_training *t, int64_t number)
{
    if (!t->damaged++) t->damaged_line = number;
}

static mba_status read_lines(mba_training *t, const char *text, size_t bytes)
{
    static const mba_json_limits limits = { 1 << 20, 4096, 8 };
    clock                        c = { 0 };
    int64_t                      number = 0;
    for (const char *line = text, *end = text + bytes; line < end;) {
        const char  *stop = memchr(line, '\n', (size_t)(end - line));
        const size_t n = (size_t)((stop ? stop : end) - line);
        json_t      *o = NULL;
        bool         good = false;
        number++;
        mba_status st = n ? mba_json_parse(&o, "log.jsonl", line, n, &limits) : MBA_E_FORMAT;
        if (st == MBA_E_NOMEM) return st;
        if (st == MBA_OK) st = read_line(t, o, &c, &good);
        json_decref(o);
        if (st == MBA_E_NOMEM) return st;
        if (!good && !stop) t->half = true;
        else if (!good) leave_out(t, number);
        line = stop ? stop + 1 : end;
    }
    return MBA_OK;
}

static mba_status read_log(mba_training *t)
{
    char   path[PATH_ROOM], *text = NULL;
    size_t bytes;
    snprintf(path, sizeof path, "%s/log.jsonl", t->path);
    MBA_TRY(mba_file_read(&text, &bytes, path, LOG_MOST));
    t->sessions = 1;
    mba_status st = read_lines(t, text, bytes);
    free(text);
    if (st != MBA_OK) return st;
    if (t->n) return MBA_OK;
    if (t->damaged)
        return mba_fail(MBA_E_FORMAT,
                        "'%s' has no step\nwhy: none of its %lld lines is written by `train`\nfix: "
                        "give a folder that `train --out` wrote",
                        path, (long long)t->damaged);
    return mba_fail(MBA_E_FORMAT,
                    "'%s' has no step\nwhy: the run ended before its first step, or has just "
                    "started\nfix: wait for it, or train again",
                    path);
}

/* ---- other files of the folder ---- */

/* Adds any JSON value as text; lists and objects as JSON. */
static mba_status add_value(mba_training *t, const char *name, const json_t *value)
{
    char number[64];
    if (json_is_string(value)) return add_fact(t, name, json_string_value(value));
    if (json_is_real(value)) {
        snprintf(number, sizeof number, "%.9g", json_real_value(value));
        return add_fact(t, name, number);
    }
    char            *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    const mba_status st = text ? add_fact(t, name, text) : mba_fail(MBA_E_NOMEM, "no memory for the options of a run");
    free(text);
    return st;
}

static mba_status add_keys(mba_training *t, json_t *o, const char *const *leave)
{
    const char *key;
    json_t     *value;
    json_object_foreach(o, key, value)
    {
        bool wanted = !json_is_null(value);
        for (int i = 0; leave[i]; i++) wanted &= strcmp(leave[i], key) != 0;
        if (wanted) MBA_TRY(add_value(t, key, value));
    }
    return MBA_OK;
}

/* Ignores errors of optional files that are damaged, or that the run has removed meanwhile. Lack of memory and a file
 * that exists but cannot be read stay errors. */
static mba_status unless_lost(mba_status st, const char *path)
{
    struct stat info;
    const bool  counts = st == MBA_E_NOMEM || (st == MBA_E_IO && stat(path, &info) == 0);
    return counts ? st : MBA_OK;
}

/* Adds the keys of a file, or of an object within it, if the file exists. */
static mba_status add_file(mba_training *t, const char *path, const char *within, const char *const *leave)
{
    json_t     *root = NULL;
    struct stat info;
    if (stat(path, &info)) return MBA_OK;
    mba_status st = mba_json_load(&root, path, NULL);
    if (st == MBA_OK) st = add_keys(t, within ? json_object_get(root, within) : root, leave);
    json_decref(root);
    return unless_lost(st, path);
}

/* The preset given by --model, else the family in config.json. */
static mba_status add_model(mba_training *t, const char *checkpoint)
{
    json_t     *config = NULL;
    char        path[PATH_ROOM + 32];
    const char *name = mba_training_fact_of(t, "--model");
    snprintf(path, sizeof path, "%s/config.json", checkpoint);
    mba_status st = name || !*checkpoint ? MBA_OK : mba_json_load(&config, path, NULL);
    if (st == MBA_OK && !name) st = mba_json_text(config, "model_type", NULL, &name);
    if (st == MBA_OK && name) st = add_fact(t, "model", name);
    json_decref(config);
    return unless_lost(st, path);
}

/* options.json has all options of the run; checkpoints name the data and, for older runs, some options. A run may have
 * no checkpoint. */
static mba_status read_facts(mba_training *t)
{
    static const char *const none[] = { NULL };
    static const char *const changing[] = { "version", "step", "units",   "epoch", "index",
                                            "guard",   "best", "options", NULL };
    char                     path[PATH_ROOM + 32], checkpoint[PATH_ROOM];
    snprintf(path, sizeof path, "%s/options.json", t->path);
    MBA_TRY(add_file(t, path, "options", none));
    const bool       options = t->nfacts > 0;
    const mba_status without = mba_checkpoint_require_empty(t->path); // E_ARG: there are some
    *checkpoint = 0;
    if (without == MBA_E_ARG) MBA_TRY(mba_checkpoint_latest(checkpoint, sizeof checkpoint, t->path));
    else MBA_TRY(without);
    snprintf(path, sizeof path, "%s/trainer.json", checkpoint);
    if (*checkpoint) MBA_TRY(add_file(t, path, NULL, changing));
    MBA_TRY(add_model(t, checkpoint));
    const char *words = mba_training_fact_of(t, "data"), *data = mba_training_fact_of(t, "--data");
    t->synthetic = words ? strstr(words, "SYNTHETIC") != NULL : options && !data;
    return words || !data ? MBA_OK : add_fact(t, "data", data);
}

/* ---- samples ---- */

static mba_status add_sample(mba_training *t, const json_t *o)
{
    const char *prompt, *text;
    int64_t     step;
    MBA_TRY(mba_json_int(o, "step", 0, 0, STEP_MOST, &step));
    MBA_TRY(mba_json_text(o, "prompt", "", &prompt));
    MBA_TRY(mba_json_text(o, "text", "", &text));
    while (t->nsamples && t->sample[t->nsamples - 1].step >= step) { // a resumed run repeats these steps
        free(t->sample[--t->nsamples].prompt);
        free(t->sample[t->nsamples].text);
    }
    ROOM_FOR_ONE_MORE(t->sample, t->nsamples);
    mba_training_sample *s = &t->sample[t->nsamples++];
    *s = (mba_training_sample){ .step = step };
    MBA_TRY(copy_of(&s->prompt, prompt));
    return copy_of(&s->text, text);
}

/* Skips lines that are damaged. */
static mba_status read_samples(mba_training *t)
{
    char        path[PATH_ROOM], *text = NULL;
    size_t      bytes;
    struct stat info;
    snprintf(path, sizeof path, "%s/samples.jsonl", t->path);
    if (stat(path, &info)) return MBA_OK;
    mba_status st = mba_file_read(&text, &bytes, path, LOG_MOST);
    for (const char *line = text; st == MBA_OK && line < text + bytes && t->nsamples < SAMPLES_MOST;) {
        const char  *stop = memchr(line, '\n', (size_t)(text + bytes - line));
        const size_t n = (size_t)((stop ? stop : text + bytes) - line);
        json_t      *o = NULL;
        st = mba_json_parse(&o, "samples.jsonl", line, n, NULL);
        if (st == MBA_OK) st = add_sample(t, o);
        if (st != MBA_E_NOMEM) st = MBA_OK;
        json_decref(o);
        line += n + 1;
    }
    free(text);
    return st;
}

/* ---- the run ---- */

/* The loss unit of the task that has the unit of this run. */
static void find_loss_unit(mba_training *t)
{
    static const mba_task task[] = { MBA_TASK_TEXT, MBA_TASK_IMAGES, MBA_TASK_GRAPHS };
    for (int i = 0; i < 3; i++)
        if (!strcmp(t->unit, mba_task_unit(task[i])))
            snprintf(t->loss_unit, sizeof t->loss_unit, "%s", mba_task_loss_unit(task[i]));
}

bool mba_training_is(const char *path)
{
    char        log[PATH_ROOM];
    struct stat info;
    snprintf(log, sizeof log, "%s/log.jsonl", path);
    return !stat(log, &info) && S_ISREG(info.st_mode);
}

/* "runs/wide/" is "wide". */
static void name_run(mba_training *t, const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    snprintf(t->path, sizeof t->path, "%.*s", (int)n, path);
    const char *slash = strrchr(t->path, '/'), *name = slash && slash[1] ? slash + 1 : t->path;
    snprintf(t->label, sizeof t->label, "%.*s", (int)sizeof t->label - 1, name);
}

mba_status mba_training_read(mba_training **out, const char *path)
{
    *out = NULL;
    if (!mba_training_is(path))
        return mba_fail(MBA_E_IO,
                        "'%s' is not a training run\nwhy: it has no log.jsonl\nfix: give a folder "
                        "that `mambascope train --out RUN` wrote",
                        path);
    mba_training *t = calloc(1, sizeof *t);
    if (!t) return mba_fail(MBA_E_NOMEM, "no memory for the log of '%s'", path);
    name_run(t, path);
    mba_status st = strlen(path) < sizeof t->path ? read_log(t)
                                                  : mba_fail(MBA_E_ARG, "the path '%s' is too long", path);
    if (st == MBA_OK) find_loss_unit(t);
    if (st == MBA_OK) st = read_facts(t);
    if (st == MBA_OK) st = read_samples(t);
    if (st == MBA_OK) *out = t;
    else mba_training_free(t);
    return st;
}

void mba_training_free(mba_training *t)
{
    if (!t) return;
    for (int i = 0; i < t->nfacts; i++) free(t->fact[i].name), free(t->fact[i].value);
    for (int i = 0; i < t->nsamples; i++) free(t->sample[i].prompt), free(t->sample[i].text);
    for (int i = 0; i < t->nnotes; i++) free(t->note[i]);
    free(t->fact);
    free(t->sample);
    free(t->note);
    free(t->step);
    free(t);
}

/* ---- numbers of a run ---- */

static int upwards(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return a < b ? -1 : a > b;
}

static double median_rate(const mba_training *t)
{
    double *v = calloc((size_t)t->n + 1, sizeof *v), median = NAN;
    int64_t n = 0;
    for (int64_t i = 0; v && i < t->n; i++)
        if (t->step[i].rate > 0) v[n++] = t->step[i].rate;
    mba_assert(n <= t->n);
    if (n) qsort(v, (size_t)n, sizeof *v, upwards);
    if (n) median = n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
    free(v);
    return median;
}

mba_training_summary mba_training_sum(const mba_training *t)
{
    mba_training_summary s = {
        .loss = NAN, .valid_loss = NAN, .best_valid_loss = NAN, .rate = median_rate(t), .seconds = NAN, .units = NAN
    };
    const int64_t most = t->n / 20 < 1 ? 1 : t->n / 20 > 100 ? 100 : t->n / 20;
    mba_assert(t->n > 0);
    double sum = 0;
    for (int64_t i = 0; i < t->n; i++) {
        const mba_trained *k = &t->step[i];
        s.steps = k->step;
        s.skipped += k->skipped;
        if (!isnan(k->seconds)) s.seconds = k->seconds;
        if (!isnan(k->units)) s.units = k->units;
        if (isnan(k->valid_loss)) continue;
        s.valid_loss = k->valid_loss;
        if (!(s.best_valid_loss <= k->valid_loss)) s.best_valid_loss = k->valid_loss, s.best_step = k->step;
    }
    for (int64_t i = t->n - 1; i >= 0 && s.mean_of < most; i--)
        if (!t->step[i].skipped && !isnan(t->step[i].loss)) sum += t->step[i].loss, s.mean_of++;
    mba_assert(s.mean_of <= most);
    if (s.mean_of) s.loss = sum / (double)s.mean_of;
    return s;
}

void mba_training_smooth(double *out, const double *v, int64_t n, double steps)
{
    const double keep = steps > 1 ? 1 - 1 / steps : 0;
    double       sum = 0, weight = 0;
    for (int64_t i = 0; i < n; i++) {
        if (isfinite(v[i])) {
            sum = keep * sum + (1 - keep) * v[i];
            weight = keep * weight + (1 - keep);
        }
        out[i] = weight > 0 ? sum / weight : NAN;
    }
}
