// SPDX-License-Identifier: Apache-2.0
/* image_bench.c -- see image_bench.h: compresses synthetic images and times image_recipe.h on them. */
#include "data/image_bench.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "data/image_recipe.h"

enum { FILES = 16, THREADS_MAX = 256 };

/* A set of JPEG or PNG files in memory. */
typedef struct files {
    mba_image_set set;
    uint8_t      *bytes[FILES];
    size_t        n[FILES];
} files;

static int32_t files_label(const mba_image_set *s, int64_t number) { return (int32_t)(number % s->classes); }

static mba_status files_read(const mba_image_set *s, int64_t number, mba_sample *out)
{
    const files *f = (const files *)s;
    out->encoded = f->bytes[number % FILES];
    out->encoded_bytes = f->n[number % FILES];
    out->label = files_label(s, number);
    snprintf(out->name, sizeof out->name, "benchmark image %d", (int)(number % FILES));
    return MBA_OK;
}

static void files_close(mba_image_set *s)
{
    files *f = (files *)s;
    for (int i = 0; i < FILES; i++) free(f->bytes[i]);
}

static const mba_image_kind kind = { "benchmark", files_read, files_close, files_label, NULL };

/* Square synthetic images, cut to W x H, compressed. */
static mba_status make_files(files *f, const mba_image_bench_options *o)
{
    const mba_image_set_options so = { .path = "synthetic", .classes = FILES, .size = o->W > o->H ? o->W : o->H };
    mba_image_set              *made = NULL;
    mba_sample                  s = { 0 };
    MBA_TRY(mba_image_synthetic_create(&made, &so));
    mba_status st = MBA_OK;
    for (int i = 0; st == MBA_OK && i < FILES; i++) {
        st = mba_image_set_read(made, i, &s);
        if (st != MBA_OK) break;
        for (int32_t y = 0; y < o->H; y++)
            memmove(s.image.rgb + (size_t)y * (size_t)o->W * 3, s.image.rgb + (size_t)y * (size_t)s.image.W * 3,
                    (size_t)o->W * 3);
        const mba_image cut = { .rgb = s.image.rgb, .W = o->W, .H = o->H };
        st = o->png ? mba_png_encode(&f->bytes[i], &f->n[i], &cut)
                    : mba_jpeg_encode(&f->bytes[i], &f->n[i], &cut, o->quality);
    }
    mba_sample_free(&s);
    mba_image_set_close(made);
    return st;
}

typedef struct worker {
    const files            *f;
    const mba_image_recipe *r;
    double                  seconds;
    int                     thread;
    int64_t                 images;
    double                  cpu_s;
    mba_status              st;
    char                    story[512];
} worker;

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static mba_status one_image(mba_image_maker *m, uint8_t *rgb, float *x, const worker *w)
{
    const int64_t number = w->images + ((int64_t)w->thread << 20);
    const int32_t size = w->r->size;
    int32_t       label;
    MBA_TRY(mba_image_make(m, rgb, &label, &w->f->set, number, w->r, 1, 0));
    mba_normalise(x, rgb, (int64_t)size * size, &w->r->colours);
    mba_draw d = mba_draw_start(1, "erase", 0, number);
    if (w->r->erase > 0 && mba_draw_chance(&d, w->r->erase)) mba_erase(x, size, size, &d);
    return MBA_OK;
}

static void *work(void *argument)
{
    worker         *w = argument;
    mba_image_maker m = { 0 };
    const size_t    n = (size_t)w->r->size * (size_t)w->r->size * 3;
    uint8_t        *rgb = malloc(n);
    float          *x = malloc(n * sizeof *x);
    w->st = rgb && x ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory to time the preparation of images");
    const double cpu = now(CLOCK_THREAD_CPUTIME_ID), until = now(CLOCK_MONOTONIC) + w->seconds;
    while (w->st == MBA_OK && now(CLOCK_MONOTONIC) < until) {
        w->st = one_image(&m, rgb, x, w);
        w->images++;
    }
    w->cpu_s = now(CLOCK_THREAD_CPUTIME_ID) - cpu;
    if (w->st != MBA_OK) snprintf(w->story, sizeof w->story, "%.500s", mba_message());
    mba_image_maker_free(&m);
    free(rgb);
    free(x);
    return NULL;
}

static mba_status run_threads(mba_image_bench *out, const files *f, const mba_image_recipe *r, double seconds)
{
    pthread_t    thread[THREADS_MAX];
    worker       w[THREADS_MAX];
    mba_status   st = MBA_OK;
    double       cpu = 0;
    int          started = 0;
    const double begin = now(CLOCK_MONOTONIC);
    for (; started < out->threads; started++) {
        w[started] = (worker){ .f = f, .r = r, .seconds = seconds, .thread = started };
        if (pthread_create(&thread[started], NULL, work, &w[started])) break;
    }
    if (started < out->threads) st = mba_fail(MBA_E_NOMEM, "cannot start %d threads", out->threads);
    for (int i = 0; i < started; i++) {
        pthread_join(thread[i], NULL);
        if (w[i].st != MBA_OK && st == MBA_OK) st = mba_fail(w[i].st, "%s", w[i].story);
        out->images += w[i].images;
        cpu += w[i].cpu_s;
    }
    out->seconds = now(CLOCK_MONOTONIC) - begin;
    out->images_per_s = (double)out->images / out->seconds / out->threads;
    out->images_per_cpu_s = (double)out->images / (cpu > 0 ? cpu : 1e-9);
    return st;
}

static mba_image_bench_options with_defaults(mba_image_bench_options o)
{
    if (!o.threads) o.threads = 1;
    if (o.seconds <= 0) o.seconds = 2;
    if (!o.W) o.W = 500;
    if (!o.H) o.H = 375;
    if (!o.size) o.size = 224;
    if (!o.quality) o.quality = 94;
    return o;
}

mba_status mba_image_bench_run(mba_image_bench *out, const mba_image_bench_options *options)
{
    const mba_image_bench_options o = with_defaults(*options);
    if (o.threads < 1 || o.threads > THREADS_MAX || o.W < 8 || o.H < 8 || o.W > 4096 || o.H > 4096 || o.size < 8
        || o.size > 4096 || o.quality < 1 || o.quality > 100)
        return mba_fail(MBA_E_ARG,
                        "%d threads, files of %d x %d, quality %d, to %d pixels cannot be timed\nwhy: 1 to %d threads, "
                        "sides of 8 to 4096, quality 1 to 100",
                        o.threads, o.W, o.H, o.quality, o.size, THREADS_MAX);
    files f = { .set = { .kind = &kind, .count = INT64_C(1) << 40, .classes = FILES } };
    f.set.colours = mba_colours_imagenet;
    mba_status       st = make_files(&f, &o);
    mba_image_recipe r = mba_image_recipe_train(&f.set, o.size);
    if (o.plain) {
        r.rand.operations = 0;
        r.erase = 0;
    }
    *out = (mba_image_bench){ .threads = o.threads };
    for (int i = 0; i < FILES; i++) out->file_bytes += (double)f.n[i] / FILES;
    if (st == MBA_OK) st = run_threads(out, &f, &r, o.seconds);
    files_close(&f.set);
    return st;
}
