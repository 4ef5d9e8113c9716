// SPDX-License-Identifier: Apache-2.0
/* vision_test.c -- MambaVision: totals and work of the published sizes, the mixer's reference vectors, and golden
 * networks from PyTorch (tests/golden.h). */
#include "tests/golden.h"

#include "models/mambavision.h"
#include "tests/reference_fill.h"
#include "train/checkpoint.h"

/* ---- the published sizes ---- */

typedef struct size {
    const char *name;
    int64_t     parameters, tensors, not_decayed;
    int         norms;            /* batch norms */
    double      gmacs, published; /* convolutions and linears; the authors' table */
} size;

static const size sizes[] = {
    { "mambavision-t", 31794248, 219, 64744, 11, 4.459, 4.4 },
    { "mambavision-t2", 35104008, 265, 75304, 11, 5.105, 5.1 },
    { "mambavision-s", 50140584, 240, 81384, 15, 7.481, 7.5 },
    { "mambavision-b", 97685288, 311, 147048, 15, 14.954, 15.0 },
    { "mambavision-l", 227961048, 311, 224568, 15, 34.840, 34.9 },
};

static mba_graph *published(const char *name)
{
    const mba_vision *preset = mba_vision_presets();
    while (preset->name && strcmp(preset->name, name)) preset++;
    assert_non_null(preset->name);
    mba_graph *g = graph();
    mba_vision c = *preset;
    assert_ok(mba_vision_complete(&c));
    mba_vision_build(g, &c);
    assert_ok(mba_graph_status(g));
    return g;
}

static void parameter_totals_are_the_published_ones(void **state)
{
    (void)state;
    size_t n = 0;
    for (const mba_vision *p = mba_vision_presets(); p->name; p++) n++;
    assert_int_equal(n, sizeof sizes / sizeof *sizes);
    for (size_t i = 0; i < n; i++) {
        mba_graph *g = published(sizes[i].name);
        int64_t    all = 0, tensors = 0, kept = 0, states = 0;
        for (int32_t k = 0; k < g->ntensors; k++) {
            const mba_tensor *t = g->tensors[k];
            states += mba_is_state(t);
            if (!mba_is_param(t)) continue;
            tensors++;
            all += mba_elems(t);
            kept += t->st == g->params[MBA_NO_DECAY] ? mba_elems(t) : 0;
        }
        mba_graph_destroy(g);
        printf("    %-15s %lld\n", sizes[i].name, (long long)all);
        assert_int_equal(all, sizes[i].parameters);
        assert_int_equal(tensors, sizes[i].tensors);
        assert_int_equal(kept, sizes[i].not_decayed);
        assert_int_equal(states, 2 * sizes[i].norms);
    }
}

/* The authors' profiler counts convolutions and linears (and a per mille of other things), but not the scores of
 * attention, which it does not see. */
static void multiply_accumulates_are_the_published_ones(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        mba_graph *g = published(sizes[i].name);
        double     flops = 0;
        for (int32_t k = 0; k < g->nnodes; k++) {
            const mba_node *n = g->nodes[k];
            if (n->op->kind == MBA_GEMM || n->op->kind == MBA_CONV) flops += n->op->cost(n).tensor_flops;
        }
        mba_graph_destroy(g);
        printf("    %-15s %.3f G, published %.1f\n", sizes[i].name, flops / 2e9, sizes[i].published);
        assert_near(flops / 2e9, sizes[i].gmacs, 5e-4);
        assert_near(flops / 2e9, sizes[i].published, 0.1);
    }
}

/* ---- the mixer alone ---- */

static void the_mixer_has_its_reference_vectors(void **state)
{
    (void)state;
    static const char *order[] = {
        "in_proj.weight", "conv1d_x.weight", "conv1d_z.weight", "x_proj.weight", "dt_proj.weight", "dt_proj.bias", "D",
        "out_proj.weight"
    };
    mba_graph  *g = graph();
    mba_tensor *x = mba_param(g, "x", MBA_TYPE(MBA_F32, 1, 6, 4), MBA_INIT_CONST(0), MBA_DECAY);
    mba_tensor *y = mba__vision_mixer(g, x, (mba__mixer_size){ .state = 3, .rank = 2, .conv = 3 });
    mba_tensor *go = mba_input(g, "go", y->type), *A_log = mba_graph_find(g, "A_log");
    rig         r = rig_create(g, 1, &y, &go);
    uint32_t    counter = 1;
    reference_fill(&r, x, &counter);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) reference_fill(&r, mba_graph_find(g, order[i]), &counter);
    reference_fill(&r, go, &counter);
    for (int i = 0; i < 6; i++) assert_near(rig_want(&r, A_log, i), log(1 + i % 3), 1e-7); // as it starts
    for (int i = 0; i < 6; i++) rig_set(&r, A_log, i, log(1 + i % 3));
    rig_run(&r);
    assert_reference(&r, y, 0, 4, (double[]){ -0.016266519, -0.193490511, 0.191841445, -0.327681384 });
    assert_reference(&r, y, 20, 4, (double[]){ 0.218530685, 0.156581917, 0.150240228, -0.059067400 });
    assert_reference_sums(&r, y, 4.523006768, 5.456938536);
    assert_reference(&r, rig_grad(&r, x), 0, 4, (double[]){ -0.038250258, -0.045028806, -0.208877033, -0.252342670 });
    assert_reference_sums(&r, rig_grad(&r, x), -0.481710750, 2.445214147);
    assert_reference(&r, rig_grad(&r, A_log), 0, 6,
                     (double[]){ 0.001402080, -0.000054266, 0.000251683, -0.000148071, -0.000011371, -0.000141586 });
    assert_reference(&r, rig_grad(&r, mba_graph_find(g, "dt_proj.bias")), 0, 2, (double[]){ 0.002753683, 0.000070830 });
    assert_reference(&r, rig_grad(&r, mba_graph_find(g, "D")), 0, 2, (double[]){ 0.376217121, -0.060116000 });
    rig_destroy(&r);
}

/* ---- golden networks ---- */

static void read_list(int64_t *out, const json_t *config, const char *key)
{
    const json_t *list = json_object_get(config, key);
    for (size_t i = 0; i < MBA_STAGES; i++) out[i] = json_integer_value(json_array_get(list, i));
}

/* The layout of the Hugging Face Hub: a network of the authors' class. */
#define HUB "tests/golden_vision/hub"

static golden_pieces name_on_the_hub(const golden *o, const char *name)
{
    golden_pieces p = golden_same_name(o, name);
    snprintf(p.name[0], GOLDEN_NAME, "model.%s", name);
    return p;
}

static golden golden_of(const char *dir)
{
    return (golden){ .dir = dir, .pieces = strcmp(dir, HUB) ? golden_same_name : name_on_the_hub };
}

static mba_vision read_hub(void)
{
    mba_model     m;
    mba_hf_format format;
    assert_ok(mba_checkpoint_config(&m, &format, HUB));
    assert_int_equal(format, MBA_HF_VISION);
    assert_int_equal(m.vision.image, 224); // as the authors evaluate
    assert_true(m.vision.crop == 0.93);
    m.vision.batch = 2;
    m.vision.image = 45;
    m.vision.keep_logits = true;
    return m.vision;
}

static mba_vision read_config(const golden *o)
{
    json_t    *j;
    mba_vision c = { .batch = 2, .keep_logits = true };
    if (!strcmp(o->dir, HUB)) return read_hub();
    assert_ok(mba_json_load(&j, golden_path(o, "config.json"), NULL));
    assert_ok(mba_json_int(j, "dim", 0, 1, 1000, &c.dim));
    assert_ok(mba_json_int(j, "in_dim", 0, 1, 1000, &c.in_dim));
    assert_ok(mba_json_int(j, "mlp_ratio", 0, 1, 10, &c.mlp_ratio));
    assert_ok(mba_json_int(j, "classes", 0, 2, 1000, &c.classes));
    assert_ok(mba_json_int(j, "image", 0, 1, 1000, &c.image));
    assert_ok(mba_json_real(j, "drop_path", 0, 0, 1, &c.drop_path));
    c.layer_scale = json_real_value(json_object_get(j, "layer_scale")); // null: 0
    read_list(c.depths, j, "depths");
    read_list(c.heads, j, "heads");
    read_list(c.windows, j, "windows");
    json_decref(j);
    return c;
}

static void read_images(const golden *o, const mba_vision *c)
{
    const int64_t B = c->batch, S = c->image;
    double       *planes = golden_array(o, "images.npy", B * 3 * S * S), *labels = golden_array(o, "labels.npy", B);
    float        *x = golden_reals(o, "images");
    for (int64_t n = 0; n < B; n++) // planes to channels last
        for (int64_t k = 0; k < 3; k++)
            for (int64_t i = 0; i < S * S; i++) x[(n * S * S + i) * 3 + k] = (float)planes[(n * 3 + k) * S * S + i];
    for (int64_t n = 0; n < B; n++) golden_indices(o, "labels")[n] = (int32_t)labels[n];
    free(planes);
    free(labels);
}

static int64_t field(const json_t *o, const char *key) { return json_integer_value(json_object_get(o, key)); }

/* The file has the factors of all branches behind each other; expected.json says whose are where. */
static void read_drops(const golden *o)
{
    const json_t *list = json_object_get(o->expected, "droppath");
    const json_t *last = json_array_get(list, json_array_size(list) - 1);
    double       *f = golden_array(o, "droppath.npy", field(last, "offset") + field(last, "count"));
    int64_t       dropped = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        char          name[64];
        const json_t *piece = json_array_get(list, i);
        const int64_t from = field(piece, "offset"), n = field(piece, "count");
        snprintf(name, sizeof name, "levels.%d.blocks.%d.drop_%s", (int)field(piece, "stage"),
                 (int)field(piece, "block"), json_string_value(json_object_get(piece, "branch")));
        assert_int_equal(mba_elems(golden_tensor(o, name)), n);
        for (int64_t k = 0; k < n; k++) golden_reals(o, name)[k] = (float)f[from + k];
        for (int64_t k = 0; k < n; k++) dropped += f[from + k] == 0;
    }
    assert_true(dropped > 0);
    free(f);
}

static void check(const char *dir, bool drops, bool recompute)
{
    golden o = golden_of(dir);
    golden_open(&o);
    mba_vision c = read_config(&o);
    c.train = true;
    c.given_drop = drops;
    o.g->recompute = recompute;
    assert_ok(mba_vision_complete(&c));
    golden_bind(&o, mba_vision_build(o.g, &c).loss);
    read_images(&o, &c);
    if (drops) read_drops(&o);
    assert_ok(mba_program_run(o.p, MBA_FORWARD | MBA_BACKWARD, &(mba_step){ .seed = 1 }, NULL));
    golden_outputs(&o, "logits.npy", true);
    golden_gradients(&o);
    golden_statistics(&o, 10);
    golden_close(&o);
}

static void check_evaluation(const char *dir)
{
    golden o = golden_of(dir);
    golden_open(&o);
    mba_vision c = read_config(&o);
    assert_ok(mba_vision_complete(&c));
    mba_vision_build(o.g, &c);
    golden_bind(&o, NULL);
    read_images(&o, &c);
    assert_ok(mba_program_run(o.p, MBA_FORWARD, &(mba_step){ .seed = 1 }, NULL));
    golden_outputs(&o, "logits_eval.npy", false);
    golden_close(&o);
}

static void a_golden_network_with_layer_scale_and_padded_windows_agrees(void **state)
{
    (void)state;
    for (int recompute = 0; recompute < 2; recompute++) check("tests/golden_vision/scale_pad", false, recompute);
    check_evaluation("tests/golden_vision/scale_pad");
}

static void a_golden_network_with_dropped_paths_agrees(void **state)
{
    (void)state;
    for (int recompute = 0; recompute < 2; recompute++) check("tests/golden_vision/drop", true, recompute);
    check_evaluation("tests/golden_vision/drop");
}

static void a_network_of_the_authors_class_agrees(void **state)
{
    (void)state;
    check(HUB, false, false);
    check_evaluation(HUB);
}

/* ---- the published config.json ---- */

static mba_status read_text(mba_model *m, mba_hf_format *format, const char *text)
{
    json_t *j;
    assert_ok(mba_json_parse(&j, "config.json", text, strlen(text), NULL));
    const mba_status st = mba_hf_config_read(m, format, j);
    json_decref(j);
    return st;
}

/* Each of the published sizes is evaluated with the pixels and the part of a photograph that its authors take. */
static void published_sizes_are_evaluated_as_by_their_authors(void **state)
{
    (void)state;
    static const struct {
        const char *keys;
        int64_t     image;
        double      crop;
        bool        squash;
    } table[] = {
        { "", 224, 1, false }, // the class's own defaults: T
        { ",\"depths\": [1, 3, 11, 4]", 224, 0.98, false },
        { ",\"dim\": 96, \"in_dim\": 64, \"depths\": [3, 3, 7, 5]", 224, 0.93, false },
        { ",\"dim\": 196, \"in_dim\": 64, \"depths\": [3, 3, 12, 5], \"window_size\": [8, 8, 32, 16]", 512, 0.93,
          true },
        { ",\"dim\": 256, \"in_dim\": 64, \"depths\": [3, 3, 20, 10], \"window_size\": [8, 8, 16, 8]", 256, 1, false },
        { ",\"dim\": 16, \"window_size\": [8, 8, 3, 2]", 224, 0.875, false },
        { ",\"crop_pct\": 0.5, \"resolution\": 96, \"crop_mode\": \"squash\"", 96, 0.5, true },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char          text[256];
        mba_model     m;
        mba_hf_format format;
        snprintf(text, sizeof text, "{\"model_type\": \"mambavision\"%s}", table[i].keys);
        assert_ok(read_text(&m, &format, text));
        assert_int_equal(format, MBA_HF_VISION);
        assert_ok(mba_model_complete(&m));
        assert_int_equal(m.vision.image, table[i].image);
        assert_true(m.vision.crop == table[i].crop && m.vision.squash == table[i].squash);
    }
}

/* What the class would compute otherwise is refused, never ignored; and so is a mixture of their keys and ours, in
 * which the windows of the file were once ignored. */
static void what_the_published_keys_ask_for_is_done_or_refused(void **state)
{
    (void)state;
    static const struct {
        const char *keys, *words;
    } wrong[] = {
        { "\"heads\": [1, 1, 2, 4], \"window_size\": [8, 8, 3, 2]", "\"window_size\" and \"heads\" are in one file" },
        { "\"window_size\": 7", "\"window_size\" is not a list of 4 numbers" },
        { "\"num_heads\": [2, 4, 8]", "\"num_heads\" is not a list of 4 numbers" },
        { "\"depths\": [1, 3, 8, 0]", "entry 3 of \"depths\"" },
        { "\"depths\": [1, 3, 8, 2.5]", "entry 3 of \"depths\"" },
        { "\"mlp_ratio\": 3.5", "\"mlp_ratio\"" },
        { "\"in_chans\": 1", "\"in_chans\"" },
        { "\"qkv_bias\": false", "\"qkv_bias\"" },
        { "\"qk_scale\": 0.5", "\"qk_scale\"" },
        { "\"qk_scale\": true", "\"qk_scale\"" },
        { "\"drop_rate\": 0.1", "\"drop_rate\"" },
        { "\"attn_drop_rate\": 0.1", "\"attn_drop_rate\"" },
        { "\"layer_scale_conv\": 1e-5", "\"layer_scale_conv\"" },
        { "\"layer_scale\": 0", "\"layer_scale\" is 0" },
        { "\"num_classes\": 0", "\"num_classes\"" },
        { "\"mean\": [0.5, 0.5, 0.5]", "\"mean\"" },
        { "\"std\": 1", "\"std\"" },
        { "\"crop_mode\": \"border\"", "\"crop_mode\"" },
    };
    char          text[256];
    mba_model     m;
    mba_hf_format format;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(text, sizeof text, "{\"model_type\": \"mambavision\", %s}", wrong[i].keys);
        const mba_status st = read_text(&m, &format, text);
        if (st == MBA_OK) print_error("%s was read\n", text);
        assert_true(st == MBA_E_FORMAT || st == MBA_E_UNSUPPORTED);
        assert_non_null(strstr(mba_message(), wrong[i].words));
        assert_non_null(strstr(mba_message(), "\nfix: "));
    }
    assert_ok(read_text(&m, &format,
                        "{\"model_type\": \"mambavision\", \"mlp_ratio\": 3.0, \"qk_scale\": false, "
                        "\"layer_scale\": 1e-6, \"drop_path_rate\": 0.3, \"num_classes\": 21841, "
                        "\"num_heads\": [1, 1, 2, 4], \"window_size\": [5, 6, 3, 2]}"));
    const mba_vision *c = &m.vision;
    assert_int_equal(c->mlp_ratio, 3);
    assert_int_equal(c->classes, 21841);
    assert_true(c->layer_scale == 1e-6 && c->drop_path == 0.3);
    assert_true(c->heads[2] == 2 && c->heads[3] == 4 && c->windows[2] == 3 && c->windows[3] == 2);
}

/* A key that nobody knows is named, in the published files and in ours. */
static void unknown_keys_of_images_are_named(void **state)
{
    (void)state;
    static const char *const text[] = {
        "{\"model_type\": \"mambavision\", \"auto_map\": {}, \"id2label\": {}, \"use_hfe_branch\": true}",
        "{\"model_type\": \"mambavision\", \"dim\": 8, \"heads\": [1, 1, 2, 4], \"use_hfe_branch\": true}",
    };
    for (int i = 0; i < 2; i++) {
        json_t      *j;
        mba_hf_notes notes;
        assert_ok(mba_json_parse(&j, "config.json", text[i], strlen(text[i]), NULL));
        assert_ok(mba_hf_config_notes(&notes, j));
        json_decref(j);
        assert_non_null(strstr(notes.text, "use_hfe_branch"));
        assert_null(strstr(notes.text, "auto_map"));
        assert_null(strstr(notes.text, "id2label"));
    }
}

/* What the class cannot say, another state size for one, is kept in our own format. */
static void what_the_class_cannot_say_is_written_as_ours(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        mba_model     m, back;
        mba_hf_format format;
        assert_ok(mba_model_preset(&m, "mambavision-b"));
        m.vision.state = i ? 16 : 8;
        m.vision.image = 96;
        m.vision.squash = true;
        assert_ok(mba_model_complete(&m));
        assert_int_equal(mba_hf_format_for(&m), i ? MBA_HF_VISION_OURS : MBA_HF_VISION);
        json_t *j = mba_hf_config_write(&m, mba_hf_format_for(&m));
        assert_true((json_object_get(j, i ? "heads" : "num_heads") != NULL)
                    && !json_object_get(j, i ? "num_heads" : "heads"));
        assert_ok(mba_hf_config_read(&back, &format, j));
        json_decref(j);
        assert_int_equal(format, mba_hf_format_for(&m));
        assert_int_equal(back.vision.state, m.vision.state);
        assert_int_equal(back.vision.image, 96);
        assert_true(back.vision.squash);
        assert_true(back.vision.layer_scale == m.vision.layer_scale && back.vision.crop == m.vision.crop);
        assert_memory_equal(back.vision.heads, m.vision.heads, sizeof m.vision.heads);
        assert_memory_equal(back.vision.windows, m.vision.windows, sizeof m.vision.windows);
    }
}

static void numbers_beyond_sense_are_refused(void **state)
{
    (void)state;
    static const double crop[] = { 1, 0.98, 0.93, 1, 1 }; // what evaluation sees of a photograph, as published
    for (int i = 0; i < 5; i++) assert_true(mba_vision_presets()[i].crop == crop[i]);
    mba_vision c = *mba_vision_presets();
    c.crop = 1e-9;
    assert_fails(mba_vision_complete(&c), MBA_E_ARG, "crop must be from 0.1 to 1, not 1e-09");
    c = *mba_vision_presets();
    c.layer_scale = -1;
    assert_fails(mba_vision_complete(&c), MBA_E_ARG, "layer_scale must be 0 (none) or larger, not -1");
}

MBA_TEST_MAIN(cmocka_unit_test(parameter_totals_are_the_published_ones),
              cmocka_unit_test(numbers_beyond_sense_are_refused),
              cmocka_unit_test(multiply_accumulates_are_the_published_ones),
              cmocka_unit_test(the_mixer_has_its_reference_vectors),
              cmocka_unit_test(a_golden_network_with_layer_scale_and_padded_windows_agrees),
              cmocka_unit_test(a_golden_network_with_dropped_paths_agrees),
              cmocka_unit_test(a_network_of_the_authors_class_agrees),
              cmocka_unit_test(published_sizes_are_evaluated_as_by_their_authors),
              cmocka_unit_test(what_the_published_keys_ask_for_is_done_or_refused),
              cmocka_unit_test(unknown_keys_of_images_are_named),
              cmocka_unit_test(what_the_class_cannot_say_is_written_as_ours))
