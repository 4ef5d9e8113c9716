// SPDX-License-Identifier: Apache-2.0
/* graph_features_test.c -- Laplacian, walks and degree profiles against NumPy (tools/golden/graph_features.py), and the
 * eigen solver against the equations it solves. */
#include <omp.h>

#include "tests/test.h"

#include "core/rng.h"
#include "data/graph_features.h"
#include "data/npy.h"

#define DATA "tests/data/graphs/"
enum { GRAPHS = 10, K_LAP = 10, K_WALK = 16 };

static double *load(const char *path, int64_t *rows, int64_t *columns)
{
    mba_npy *f;
    assert_ok(mba_npy_open(&f, path));
    const mba_array *a = mba_npy_array(f);
    double          *x = malloc((size_t)a->elems * sizeof *x + 1);
    assert_ok(mba_array_read_f64(a, x, a->elems));
    *rows = a->shape[0];
    *columns = a->rank > 1 ? a->shape[1] : 1;
    mba_npy_close(f);
    return x;
}

/* The sample graphs as a collection without features. */
static mba_graph_store *load_graphs(void)
{
    mba_graph_store *s;
    int64_t          graphs, edges, columns, k = 0;
    double          *nodes = load(DATA "nodes.npy", &graphs, &columns);
    double          *edge = load(DATA "edges.npy", &edges, &columns);
    uint32_t        *src = malloc((size_t)edges * 4), *dst = malloc((size_t)edges * 4);
    assert_int_equal(graphs, GRAPHS);
    assert_ok(mba_graph_store_create(&s, &(mba_graph_form){ 0 }));
    for (int64_t g = 0; g < graphs; g++) {
        int64_t n = 0;
        for (; k < edges && edge[3 * k] == (double)g; k++, n++) {
            src[n] = (uint32_t)edge[3 * k + 1];
            dst[n] = (uint32_t)edge[3 * k + 2];
        }
        const mba_graph_item item = { .nodes = (int64_t)nodes[g], .edges = n, .src = src, .dst = dst };
        assert_ok(mba_graph_store_add(s, &item));
    }
    free(nodes);
    free(edge);
    free(src);
    free(dst);
    return s;
}

static double square(double x) { return x * x; }

/* For one node: the sum of squares over the vectors with the eigenvalue of vector k. */
static double space_of(const float *vec, const double *values, int64_t k)
{
    double sum = 0;
    for (int64_t j = 0; j < K_LAP; j++)
        if (fabs(values[j] - values[k]) < 1e-8 * 40) sum += square(vec[j]);
    return sum;
}

static void laplacian_agrees_with_numpy(void **state)
{
    (void)state;
    mba_graph_store *s = load_graphs();
    int64_t          rows, columns, compared = 0;
    double          *values = load(DATA "lap_values.npy", &rows, &columns);
    double          *spaces = load(DATA "lap_spaces.npy", &rows, &columns);
    assert_ok(mba_graph_store_laplace(s, K_LAP));
    const mba_graph_set *t = mba_graph_store_set(s);
    for (int64_t g = 0; g < t->graphs; g++) {
        const double *w = values + g * K_LAP;
        for (int64_t k = 0; k < K_LAP; k++) {
            assert_int_equal(isnan(t->lap_val[g * K_LAP + k]), isnan(w[k]));
            if (!isnan(w[k])) assert_near(t->lap_val[g * K_LAP + k], w[k], 1e-7 * (1 + w[k]));
            for (uint64_t v = t->node_ptr[g]; v < t->node_ptr[g + 1]; v++) {
                assert_int_equal(isnan(t->lap_vec[v * K_LAP + (size_t)k]), isnan(w[k]));
                if (isnan(spaces[v * K_LAP + (size_t)k])) continue;
                assert_near(space_of(t->lap_vec + v * K_LAP, w, k), spaces[v * K_LAP + (size_t)k], 3e-7);
                compared++;
            }
        }
    }
    assert_true(compared > 2000); // most of 2910 spaces lie below K
    free(values);
    free(spaces);
    mba_graph_store_destroy(s);
}

static void walks_agree_with_numpy(void **state)
{
    (void)state;
    mba_graph_store *s = load_graphs();
    int64_t          rows, columns;
    double          *want = load(DATA "walks.npy", &rows, &columns);
    assert_ok(mba_graph_store_walks(s, K_WALK));
    assert_true(rows == mba_graph_store_set(s)->nodes && columns == K_WALK);
    for (int64_t i = 0; i < rows * columns; i++) assert_near(mba_graph_store_set(s)->rwse[i], want[i], 6e-8);
    free(want);
    mba_graph_store_destroy(s);
}

static void degree_profiles_agree_with_numpy(void **state)
{
    (void)state;
    mba_graph_store     *s = load_graphs();
    const mba_graph_set *t = mba_graph_store_set(s);
    int64_t              rows, columns;
    double              *want = load(DATA "profiles.npy", &rows, &columns);
    for (int64_t g = 0; g < t->graphs; g++) {
        const mba_graph_item item = mba_graph_set_item(t, g);
        float               *got = malloc((size_t)item.nodes * MBA_DEGREE_PROFILE * sizeof *got);
        assert_ok(mba_graph_degree_profile(got, item.nodes, item.edges, item.src, item.dst));
        for (int64_t i = 0; i < item.nodes * MBA_DEGREE_PROFILE; i++) {
            const double w = want[t->node_ptr[g] * MBA_DEGREE_PROFILE + (size_t)i];
            assert_near(got[i], w, 6e-8 * (1 + fabs(w)));
        }
        free(got);
    }
    free(want);
    mba_graph_store_destroy(s);
}

/* A v = v lambda, V orthonormal, lambda ascending, to rounding; `rank` < n repeats the eigenvalue 0. */
static void check_eigen(int64_t n, int64_t k, int64_t rank)
{
    double *a = calloc((size_t)(n * n), sizeof *a), *copy = malloc((size_t)(n * n) * sizeof *copy);
    double *val = malloc((size_t)k * sizeof *val), *vec = malloc((size_t)(k * n) * sizeof *vec), norm = 0;
    for (int64_t m = 0; m < rank; m++)
        for (int64_t r = 0; r < n; r++)
            for (int64_t c = 0; c < n; c++) {
                uint32_t x[4], y[4];
                mba_philox(x, 1, (uint64_t)m, (uint64_t)r);
                mba_philox(y, 1, (uint64_t)m, (uint64_t)c);
                a[r * n + c] += (mba_unit(x[0]) - 0.5) * (mba_unit(y[0]) - 0.5);
            }
    for (int64_t i = 0; i < n * n; i++) {
        norm += square(a[i]);
        copy[i] = a[i];
    }
    norm = sqrt(norm);
    assert_ok(mba_symmetric_eigen(val, vec, a, n, k));
    for (int64_t i = 0; i < k; i++) {
        if (i) assert_true(val[i] >= val[i - 1]);
        for (int64_t r = 0; r < n; r++) {
            double s = 0;
            for (int64_t c = 0; c < n; c++) s += copy[r * n + c] * vec[i * n + c];
            assert_near(s, val[i] * vec[i * n + r], 1e-14 * (double)n * norm);
        }
        for (int64_t j = 0; j <= i; j++) {
            double s = 0;
            for (int64_t c = 0; c < n; c++) s += vec[i * n + c] * vec[j * n + c];
            assert_near(s, i == j, 1e-14 * (double)n);
        }
    }
    free(a);
    free(copy);
    free(val);
    free(vec);
}

static void eigenvectors_solve_their_equation(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 12; n++)
        for (int64_t rank = 0; rank <= n; rank++) check_eigen(n, n, rank);
    check_eigen(100, 100, 100);
    check_eigen(150, 10, 60); // zero ninety times
    check_eigen(300, 7, 20);
}

static void threads_do_not_change_bits(void **state)
{
    (void)state;
    mba_graph_store *a = load_graphs(), *b = load_graphs();
    omp_set_num_threads(1);
    assert_ok(mba_graph_store_laplace(a, K_LAP));
    omp_set_num_threads(3);
    assert_ok(mba_graph_store_laplace(b, K_LAP));
    const mba_graph_set *s = mba_graph_store_set(a), *t = mba_graph_store_set(b);
    assert_memory_equal(s->lap_vec, t->lap_vec, (size_t)s->nodes * K_LAP * 4);
    assert_memory_equal(s->lap_val, t->lap_val, (size_t)s->graphs * K_LAP * 4);
    mba_graph_store_destroy(a);
    mba_graph_store_destroy(b);
}

static void a_graph_that_is_too_large_is_refused(void **state)
{
    (void)state;
    mba_graph_store *s;
    assert_ok(mba_graph_store_create(&s, &(mba_graph_form){ 0 }));
    assert_ok(mba_graph_store_add(s, &(mba_graph_item){ .nodes = 3 }));
    assert_ok(mba_graph_store_add(s, &(mba_graph_item){ .nodes = MBA_LAP_NODES_MAX + 1 }));
    assert_fails(mba_graph_store_laplace(s, 2), MBA_E_UNSUPPORTED, "where: graph 1");
    mba_graph_store_destroy(s);
}

MBA_TEST_MAIN(cmocka_unit_test(laplacian_agrees_with_numpy), cmocka_unit_test(walks_agree_with_numpy),
              cmocka_unit_test(degree_profiles_agree_with_numpy), cmocka_unit_test(eigenvectors_solve_their_equation),
              cmocka_unit_test(threads_do_not_change_bits), cmocka_unit_test(a_graph_that_is_too_large_is_refused))
