/* vision_test.c -- MambaVision: parameter totals of the published sizes, and a golden network from PyTorch.
 *
 * The bounds are those of golden_test.c; gradients that are zero but for rounding (biases in front of a batch norm) are
 * held to 1e-6 of the largest gradient norm. */
#include "tests/test.h"

#include "core/program.h"
#include "data/json.h"
#include "data/npy.h"
#include "data/safetensors.h"
#include "models/mambavision.h"

static void parameter_totals_are_the_published_ones(void **state)
{
    (void)state;
    static const int64_t total[] = { 31794248, 35104008, 50140584, 97685288, 227961048 };
    int i = 0;
    for (const mba_vision *preset = mba_vision_presets(); preset->name; preset++, i++) {
        mba_graph *g;
        mba_vision c = *preset;
        int64_t    n = 0;
        assert_ok(mba_vision_complete(&c));
        assert_ok(mba_graph_create(&g));
        mba_vision_build(g, &c);
        assert_ok(mba_graph_status(g));
        for (int32_t k = 0; k < g->ntensors; k++) if (mba_is_param(g->tensors[k])) n += mba_elems(g->tensors[k]);
        mba_graph_destroy(g);
        printf("    %-15s %lld\n", preset->name, (long long)n);
        assert_int_equal(n, total[i]);
    }
    assert_int_equal(i, 5);
}

/* ---- the golden network ---- */

typedef struct golden { const char *dir; mba_vision c; mba_graph *g; mba_program *p; json_t *expected; } golden;

static const char *in(const golden *o, const char *name)
{
    static char path[4][300];
    static int  next;
    char       *to = path[next++ % 4];
    snprintf(to, sizeof path[0], "%s/%s", o->dir, name);
    return to;
}

static void read_list(int64_t *out, const json_t *config, const char *key)
{
    for (size_t i = 0; i < MBA_STAGES; i++) out[i] = json_integer_value(json_array_get(json_object_get(config, key), i));
}

static void read_config(golden *o)
{
    json_t *j;
    assert_ok(mba_json_load(&j, in(o, "config.json"), NULL));
    o->c = (mba_vision){ .train = true, .keep_logits = true };
    assert_ok(mba_json_int(j, "dim", 0, 1, 1000, &o->c.dim));
    assert_ok(mba_json_int(j, "in_dim", 0, 1, 1000, &o->c.in_dim));
    assert_ok(mba_json_int(j, "mlp_ratio", 0, 1, 10, &o->c.mlp_ratio));
    assert_ok(mba_json_int(j, "classes", 0, 2, 1000, &o->c.classes));
    assert_ok(mba_json_int(j, "image", 0, 1, 1000, &o->c.image));
    assert_ok(mba_json_real(j, "layer_scale", 0, 0, 1, &o->c.layer_scale));
    read_list(o->c.depths, j, "depths");
    read_list(o->c.heads, j, "heads");
    read_list(o->c.windows, j, "windows");
    json_decref(j);
    assert_ok(mba_json_load(&o->expected, in(o, "expected.json"), NULL));
}

static void read_inputs(golden *o)
{
    mba_npy *images, *labels;
    assert_ok(mba_npy_open(&images, in(o, "images.npy")));
    assert_ok(mba_npy_open(&labels, in(o, "labels.npy")));
    const mba_array *a = mba_npy_array(images), *b = mba_npy_array(labels);
    const int64_t    B = a->shape[0], S = a->shape[2];
    float           *planes = malloc(sizeof(float) * (size_t)a->elems), *x = mba_program_at(o->p, mba_graph_find(o->g, "images"));
    int32_t         *t = mba_program_at(o->p, mba_graph_find(o->g, "labels"));
    assert_non_null(planes);
    assert_ok(mba_array_read_f32(a, planes, a->elems));
    for (int64_t n = 0; n < B; n++)                                               // planes to channels last
        for (int64_t c = 0; c < 3; c++)
            for (int64_t i = 0; i < S * S; i++) x[(n * S * S + i) * 3 + c] = planes[(n * 3 + c) * S * S + i];
    double *y = malloc(sizeof(double) * (size_t)B);
    assert_non_null(y);
    assert_ok(mba_array_read_f64(b, y, B));
    for (int64_t n = 0; n < B; n++) t[n] = (int32_t)y[n];
    free(y);
    free(planes);
    mba_npy_close(images);
    mba_npy_close(labels);
}

static void read_weights(const golden *o)
{
    mba_safetensors *f;
    assert_ok(mba_safetensors_open(&f, in(o, "model.safetensors")));
    for (int32_t k = 0; k < o->g->ntensors; k++) {
        const mba_tensor *t = o->g->tensors[k];
        if (!mba_is_param(t) && !mba_is_state(t)) continue;
        const mba_array *a = mba_safetensors_find(f, t->name);
        if (mba_is_state(t) && !a) continue;                                      // the graph's own
        if (!a) print_error("no %s\n", t->name);
        assert_non_null(a);
        assert_ok(mba_array_read_f32(a, mba_program_at(o->p, t), mba_elems(t)));
    }
    mba_safetensors_close(f);
}

static double norm(const float *x, const double *y, int64_t n)                   // of x - y
{
    double s = 0;
    for (int64_t i = 0; i < n; i++) s += pow((double)x[i] - (y ? y[i] : 0), 2);
    return sqrt(s);
}

static double distance(const mba_array *want, const float *have, double least, double *size)
{
    double *y = malloc(sizeof(double) * (size_t)want->elems);
    assert_non_null(y);
    assert_ok(mba_array_read_f64(want, y, want->elems));
    double s = 0;
    for (int64_t i = 0; i < want->elems; i++) s += y[i] * y[i];
    const double d = norm(have, y, want->elems);
    free(y);
    *size = sqrt(s);
    return d / fmax(*size, least);
}

static double largest_gradient(const mba_safetensors *f)
{
    double most = 0, size;
    for (int64_t i = 0; i < mba_safetensors_count(f); i++) {
        const mba_array *a = mba_safetensors_at(f, i);
        float *zero = calloc((size_t)a->elems, sizeof *zero);
        assert_non_null(zero);
        distance(a, zero, 1, &size);
        free(zero);
        if (size > most) most = size;
    }
    return most;
}

static void check_gradients(const golden *o)
{
    mba_safetensors *f;
    double           worst = 0, zero = 0, size;
    assert_ok(mba_safetensors_open(&f, in(o, "grads.safetensors")));
    const double most = largest_gradient(f);
    for (int32_t k = 0; k < o->g->ntensors; k++) {
        const mba_tensor *t = o->g->tensors[k];
        if (!mba_is_param(t)) continue;
        const mba_array *a = mba_safetensors_find(f, t->name);
        assert_non_null(a);
        const double e = distance(a, mba_program_beside(o->p, t->st->grad, t), 1e-4 * most, &size);
        if (size < 1e-6 * most) { if (e * 1e-4 > zero) zero = e * 1e-4; }        // e is in units of 1e-4 of the largest
        else if (!(e <= worst)) worst = e;
    }
    mba_safetensors_close(f);
    printf("    %s: worst gradient %.1e, zero ones within %.1e of the largest\n", o->dir, worst, zero);
    assert_true(worst <= 1e-4);
    assert_true(zero <= 1e-6);
}

static void check_outputs(const golden *o)
{
    mba_npy *f;
    double   size;
    assert_ok(mba_npy_open(&f, in(o, "logits.npy")));
    const double e = distance(mba_npy_array(f), mba_program_at(o->p, mba_graph_find(o->g, "logits")), 0, &size);
    mba_npy_close(f);
    const double loss = *(const float *)mba_program_at(o->p, mba_graph_find(o->g, "loss"));
    printf("    %s: logits %.1e, loss %.1e\n", o->dir, e, fabs(loss - json_real_value(json_object_get(o->expected, "loss"))));
    assert_true(e <= 1e-4);
    assert_near(loss, json_real_value(json_object_get(o->expected, "loss")), 1e-5);
}

/* The statistics of a training step have moved the running ones as PyTorch's do. */
static void check_statistics(const golden *o)
{
    mba_safetensors *f;
    double           worst = 0, size;
    int              n = 0;
    assert_ok(mba_safetensors_open(&f, in(o, "stats.safetensors")));
    for (int32_t k = 0; k < o->g->ntensors; k++) {
        const mba_tensor *t = o->g->tensors[k];
        const mba_array  *a = mba_is_state(t) ? mba_safetensors_find(f, t->name) : NULL;
        if (!a) continue;
        const double e = distance(a, mba_program_at(o->p, t), 1e-3, &size);
        if (!(e <= worst)) worst = e;
        n++;
    }
    mba_safetensors_close(f);
    printf("    %s: %d running statistics within %.1e\n", o->dir, n, worst);
    assert_true(n >= 10 && worst <= 1e-5);
}

static void a_golden_network_agrees(void **state)
{
    (void)state;
    static const mba_machine host = { .name = "host" };
    const mba_step step = { .seed = 1 };
    golden         o = { .dir = "tests/golden_vision/scale_pad" };
    read_config(&o);
    o.c.batch = 2;
    assert_ok(mba_vision_complete(&o.c));
    assert_ok(mba_graph_create(&o.g));
    mba_tensor *loss = mba_vision_build(o.g, &o.c).loss;
    assert_ok(mba_graph_status(o.g));
    assert_ok(mba_backward(o.g, loss));
    assert_ok(mba_program_create(&o.p, o.g, &(mba_program_options){ .machine = &host }));
    assert_ok(mba_program_bind(o.p, &mba_device_cpu));
    assert_ok(mba_program_init(o.p, 1));
    read_weights(&o);
    read_inputs(&o);
    assert_ok(mba_program_run(o.p, MBA_FORWARD | MBA_BACKWARD, &step, NULL));
    check_outputs(&o);
    check_gradients(&o);
    check_statistics(&o);
    json_decref(o.expected);
    mba_program_destroy(o.p);
    mba_graph_destroy(o.g);
}

MBA_TEST_MAIN(cmocka_unit_test(parameter_totals_are_the_published_ones), cmocka_unit_test(a_golden_network_agrees))
