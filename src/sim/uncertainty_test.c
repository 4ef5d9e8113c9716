// SPDX-License-Identifier: Apache-2.0
/* uncertainty_test.c -- a machine drawn within the spreads of its numbers: every part of every spread once, nothing
 * else moved, the same on every machine and compiler; bands that hold what they say. */
#include "tests/test.h"

#include <math.h>
#include <stdlib.h>

#include "core/sort.h"
#include "sim/uncertainty.h"

static void every_part_of_a_spread_is_drawn_once(void **state)
{
    (void)state;
    mba_gpu m, drawn;
    assert_ok(mba_gpu_load(&m, "h200"));
    for (int k = 0; k < MBA_GPU_KEYS; k++) {
        double v[MBA_GPU_SAMPLES], sum = 0, squares = 0;
        for (int i = 0; i < MBA_GPU_SAMPLES; i++) {
            mba_gpu_sample(&drawn, &m, i);
            v[i] = drawn.v[k];
            assert_true(v[i] >= mba_gpu_keys[k].least && v[i] <= mba_gpu_keys[k].most);
            assert_true(m.sigma[k] > 0 || v[i] == m.v[k]);
        }
        mba_sort(v, MBA_GPU_SAMPLES);
        const bool clipped = v[0] == mba_gpu_keys[k].least || v[MBA_GPU_SAMPLES - 1] == mba_gpu_keys[k].most;
        if (!(m.sigma[k] > 0) || clipped) continue;
        for (int i = 0; i < MBA_GPU_SAMPLES; i++) {
            assert_true(i == 0 || v[i] > v[i - 1]);
            sum += (v[i] - m.v[k]) / m.sigma[k];
            squares += (v[i] - m.v[k]) / m.sigma[k] * (v[i] - m.v[k]) / m.sigma[k];
        }
        assert_near(sum, 0, 1e-6);
        assert_near(sqrt(squares / MBA_GPU_SAMPLES), 1, 0.02); // middles of parts: the outermost are a little short
    }
}

/* Numbers move on their own: none is another's shadow. */
static void numbers_are_drawn_apart(void **state)
{
    static const int some[] = { MBA_GPU_clk, MBA_GPU_hbm_mix, MBA_GPU_l2_lat, MBA_GPU_block_start, MBA_GPU_hbm_lat };
    enum { SOME = sizeof some / sizeof *some };
    mba_gpu m, drawn;
    double  z[SOME][MBA_GPU_SAMPLES];
    (void)state;
    assert_ok(mba_gpu_load(&m, "h200"));
    for (int i = 0; i < MBA_GPU_SAMPLES; i++) {
        mba_gpu_sample(&drawn, &m, i);
        for (int s = 0; s < SOME; s++) z[s][i] = (drawn.v[some[s]] - m.v[some[s]]) / m.sigma[some[s]];
    }
    for (int a = 0; a < SOME; a++)
        for (int b = 0; b < a; b++) {
            double sum = 0;
            for (int i = 0; i < MBA_GPU_SAMPLES; i++) sum += z[a][i] * z[b][i];
            assert_true(fabs(sum / MBA_GPU_SAMPLES) < 0.4); // 3.2 times what chance makes of 64
        }
}

/* One number for gcc and clang, with and without optimisation. */
static void draws_have_the_same_bits_everywhere(void **state)
{
    (void)state;
    static const int some[] = { MBA_GPU_clk, MBA_GPU_xu, MBA_GPU_hbm };
    uint64_t         h = 0xcbf29ce484222325u;
    mba_gpu          m, drawn;
    assert_ok(mba_gpu_load(&m, "h200"));
    for (int s = 0; s < 3; s++) m.v[some[s]] = 10, m.sigma[some[s]] = 0.7;
    for (int i = 0; i < MBA_GPU_SAMPLES; i++) {
        mba_gpu_sample(&drawn, &m, i);
        for (int s = 0; s < 3; s++) {
            unsigned char bytes[sizeof(double)];
            memcpy(bytes, &drawn.v[some[s]], sizeof bytes);
            for (size_t b = 0; b < sizeof bytes; b++) h = (h ^ bytes[b]) * 0x100000001b3u;
        }
    }
    printf("draws: %016llx\n", (unsigned long long)h);
    assert_true(h == 0x328fc5e281ed1a36u);
}

static void bands_hold_what_they_say(void **state)
{
    (void)state;
    double times[MBA_GPU_SAMPLES];
    for (int i = 0; i < MBA_GPU_SAMPLES; i++)
        times[i] = 0.9 + 0.2 * ((i * 37) % MBA_GPU_SAMPLES) / (MBA_GPU_SAMPLES - 1);
    const mba_band b = mba_band_of_samples(times);
    int            inside = 0;
    for (int i = 0; i < MBA_GPU_SAMPLES; i++) inside += times[i] >= b.low && times[i] <= b.high;
    assert_int_equal(inside, 52); // 81 % of 64
    for (int i = 0; i < MBA_GPU_SAMPLES; i++) times[i] = 1.1 + 0.001 * i;
    assert_true(mba_band_of_samples(times).low == 1); // the answer itself is always inside
    const mba_band none = { 1, 1 }, both = mba_band_combine(b, none), twice = mba_band_combine(b, b);
    assert_near(both.low, b.low, 1e-12);
    assert_near(both.high, b.high, 1e-12);
    assert_near(log(twice.high), sqrt(2) * log(b.high), 1e-12);
    assert_true(twice.low < b.low && twice.high > b.high);
    const mba_band beside = mba_band_combine((mba_band){ 1.1, 1.2 },
                                             none); // one that leaves the answer out is widened to it
    assert_true(beside.low == 1);
    assert_near(beside.high, 1.2, 1e-12);
}

/* Draws that move both answers alike leave their ratio where it is; wins are counted with the ratio itself in view. */
static void ratios_are_taken_draw_by_draw(void **state)
{
    (void)state;
    double a[MBA_GPU_SAMPLES], b[MBA_GPU_SAMPLES];
    for (int i = 0; i < MBA_GPU_SAMPLES; i++) a[i] = b[i] = 0.8 + 0.4 * i / MBA_GPU_SAMPLES;
    const mba_ratio same = mba_ratio_of_samples(1.1, a, b), tie = mba_ratio_of_samples(1, a, b);
    assert_true(same.band.low == 1 && same.band.high == 1 && same.above == 1);
    assert_true(tie.above == 0.5);
    assert_true(mba_ratio_of_samples(0.9, a, b).above == 0);
    for (int i = 0; i < MBA_GPU_SAMPLES; i++) b[i] = i % 4 ? a[i] : 1.2 * a[i]; // every fourth draw is against it
    const mba_ratio some = mba_ratio_of_samples(1.1, a, b);
    assert_near(some.above, 0.75, 1e-12);
    assert_near(some.band.low, 1 / 1.2, 1e-12);
    assert_true(some.band.high == 1);
    for (int i = 0; i < MBA_GPU_SAMPLES; i++) b[i] = a[i] * (i % 2 ? 1.0005 : 0.9995);
    assert_near(mba_ratio_of_samples(1, a, b).above, 0.5, 1e-12); // less than a thousandth is nothing
}

MBA_TEST_MAIN(cmocka_unit_test(every_part_of_a_spread_is_drawn_once), cmocka_unit_test(numbers_are_drawn_apart),
              cmocka_unit_test(draws_have_the_same_bits_everywhere), cmocka_unit_test(bands_hold_what_they_say),
              cmocka_unit_test(ratios_are_taken_draw_by_draw))
