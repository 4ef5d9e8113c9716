// SPDX-License-Identifier: Apache-2.0
/* generated_test.c -- everything that is made up here (graphs of all collections, images, augmentations), as one text
 * that is compared with tests/data/generated.txt. MBA_RENEW=1 writes that file instead: where a change means to alter
 * what is made up, commit both.
 *
 * A list of numbers stands there as its length, its root mean square and three sums with random signs, each over the
 * norm of the list, plus 10: a value that is another moves them, the last digit of a value does not. */
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/xxh64.h"
#include "data/draw.h"
#include "data/graph_synthetic.h"
#include "data/image_recipe.h"
#include "data/image_set.h"
#include "tests/test.h"

static char   text[1 << 16];
static size_t said;

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    said += (size_t)vsnprintf(text + said, sizeof text - said, fmt, ap);
    va_end(ap);
    assert_true(said < sizeof text);
}

typedef enum kind { U8, I32, U32, U64, F32 } kind;

static double value_at(const void *x, kind k, int64_t i)
{
    switch (k) {
    case U8: return ((const uint8_t *)x)[i];
    case I32: return ((const int32_t *)x)[i];
    case U32: return ((const uint32_t *)x)[i];
    case U64: return (double)((const uint64_t *)x)[i];
    case F32: return ((const float *)x)[i];
    }
    return NAN;
}

static void say_list(const char *name, const void *x, kind k, int64_t n)
{
    double sum[3] = { 0 }, square = 0;
    if (!x || !n) return;
    for (int64_t i = 0; i < n; i++) {
        const double   v = value_at(x, k, i);
        const uint64_t sign = mba_xxh64(&i, sizeof i);
        for (int j = 0; j < 3; j++) sum[j] += sign >> j & 1 ? v : -v;
        square += v * v;
    }
    const double norm = square > 0 ? sqrt(square) : 1;
    say(" %s %lld rms %.6f sums %.6f %.6f %.6f\n", name, (long long)n, sqrt(square / (double)n), 10 + sum[0] / norm,
        10 + sum[1] / norm, 10 + sum[2] / norm);
}

static kind kind_of(mba_graph_type t) { return t == MBA_GRAPH_F32 ? F32 : t == MBA_GRAPH_I32 ? I32 : U8; }

static void say_graphs(mba_synthetic which, uint64_t seed)
{
    mba_graph_store *store;
    assert_ok(mba_graph_synthetic(&store, which, seed, 6));
    const mba_graph_set *s = mba_graph_store_set(store);
    const mba_graph_form f = s->form;
    say("%s, seed %llu: %lld graphs, %lld nodes, %lld edges, %lld classes, %s\n", mba_synthetic_name(which),
        (unsigned long long)seed, (long long)s->graphs, (long long)s->nodes, (long long)s->edges, (long long)f.classes,
        s->undirected ? "undirected" : "directed");
    say_list("node_ptr", s->node_ptr, U64, s->graphs + 1);
    say_list("edge_ptr", s->edge_ptr, U64, s->graphs + 1);
    say_list("src", s->src, U32, s->edges);
    say_list("dst", s->dst, U32, s->edges);
    say_list("nodes", s->node_feat, kind_of(f.node_type), s->nodes * f.node_width);
    say_list("edges", s->edge_feat, kind_of(f.edge_type), s->edges * f.edge_width);
    say_list("labels", s->label, kind_of(f.label_type), (f.node_labels ? s->nodes : s->graphs) * f.label_width);
    say_list("split", s->split, U8, s->graphs);
    mba_graph_store_destroy(store);
}

static void say_images(const char *path, int32_t size, bool validation)
{
    mba_image_set  *s;
    mba_image_maker m = { 0 };
    uint8_t         rgb[48 * 48 * 3];
    assert_ok(mba_image_set_open(&s, &(mba_image_set_options){ .path = path, .seed = 3, .validation = validation }));
    say("%s: %lld images of %lld classes, %d x %d\n", path, (long long)s->count, (long long)s->classes, s->W, s->H);
    const mba_image_recipe recipe[] = { mba_image_recipe_train(s, size), mba_image_recipe_eval(s, size, 0) };
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < 12; i++) {
            int32_t label = -1;
            assert_ok(mba_image_make(&m, rgb, &label, s, 7 * i, &recipe[r], 5, i % 3));
            say(" label %d", label);
            say_list(r ? "evaluated" : "trained", rgb, U8, (int64_t)size * size * 3);
        }
    mba_image_maker_free(&m);
    mba_image_set_close(s);
}

static void say_draws(void)
{
    mba_draw d = mba_draw_start(11, "generated", 2, 3);
    float    beta[64], pixels[24 * 24 * 3] = { 0 }, target[10];
    for (int i = 0; i < 64; i++) beta[i] = (float)mba_draw_beta(&d, 0.2 + 0.1 * (i % 16));
    say_list("beta", beta, F32, 64);
    for (int i = 0; i < 12; i++) {
        const mba_box b = mba_random_crop(&d, 40 + 9 * i, 90 - 5 * i);
        say(" crop %.0f %.0f %.0f %.0f\n", b.x, b.y, b.W, b.H);
        const mba_mix x = mba_mix_draw(&d, i % 3 ? 0.8 : 0, i % 4 ? 1 : 0, 32, 24);
        say(" mix %d %.6f from %d,%d to %d,%d\n", x.kind, x.lam, x.x0, x.y0, x.x1, x.y1);
        mba_mix_targets(target, i % 10, (i + 3) % 10, x.lam, 10, 0.1);
        say_list("targets", target, F32, 10);
        const mba_centre c = mba_centre_crop(40 + 9 * i, 90 - 5 * i, 32, 0.875);
        say(" centre %d %d %d %d\n", c.W, c.H, c.left, c.top);
        mba_erase(pixels, 24, 24, &d);
    }
    say_list("erased", pixels, F32, 24 * 24 * 3);
}

/* Whether two texts are the same but for the last digits of numbers; tells the first difference. */
static bool near(const char *got, const char *want)
{
    int line = 1;
    while (*got || *want) {
        char        *got_end = NULL, *want_end = NULL;
        const double x = strtod(got, &got_end), y = strtod(want, &want_end);
        const size_t digits = strspn(want, "-0123456789");
        const bool   number = isdigit((unsigned char)*want) && want_end != want + digits && got_end != got;
        if (number && fabs(x - y) <= 5e-4 * fabs(y) + 1e-9) {
            got = got_end;
            want = want_end;
        } else if (number || *got != *want) {
            print_error("line %d: \"%.60s\", should be \"%.60s\"\n", line, got, want);
            return false;
        } else {
            line += *got == '\n';
            got++;
            want++;
        }
    }
    return true;
}

static bool is_as_stored(void)
{
    static const char path[] = "tests/data/generated.txt";
    static char       want[1 << 17];
    const bool        renew = getenv("MBA_RENEW") != NULL;
    FILE             *f = fopen(path, renew ? "w" : "r");
    assert_non_null(f);
    const size_t n = renew ? fwrite(text, 1, said, f) : fread(want, 1, sizeof want - 1, f);
    assert_int_equal(fclose(f), 0);
    assert_true(renew ? n == said : n + 1 < sizeof want);
    want[renew ? 0 : n] = 0;
    return renew || near(text, want);
}

static void what_is_made_up_is_what_was_made_up(void **state)
{
    (void)state;
    for (int k = 0; k < MBA_SYNTHETICS; k++) say_graphs((mba_synthetic)k, 7);
    say_graphs(MBA_SYNTHETIC_BEACON, 8);
    say_images("shapes", 32, false);
    say_images("synthetic", 48, false);
    say_images("synthetic", 24, true);
    say_draws();
    assert_true(is_as_stored());
}

MBA_TEST_MAIN(cmocka_unit_test(what_is_made_up_is_what_was_made_up))
