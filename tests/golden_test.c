// SPDX-License-Identifier: Apache-2.0
/* golden_test.c -- every directory of tests/golden, made by Hugging Face transformers, and of tests/golden_native, made
 * by mamba_ssm, through `eval`.
 *
 * The bounds are those the project promises in fp32: the loss to 1e-5, logits and every gradient tensor with
 * ||a - b|| <= 1e-4 max(||b||, 1e-4 times the largest gradient norm of the model). */
#include "tests/test.h"

#include <dirent.h>
#include <unistd.h>

#include "core/file.h"
#include "data/json.h"
#include "data/npy.h"
#include "data/safetensors.h"
#include "tests/program.h"
#include "train/evaluate.h"

static double *numbers_of(const mba_array *a)
{
    double *x = malloc(sizeof *x * (size_t)a->elems);
    assert_non_null(x);
    assert_ok(mba_array_read_f64(a, x, a->elems));
    return x;
}

static double norm(const double *x, const double *y, int64_t n)
{
    double s = 0;
    for (int64_t i = 0; i < n; i++) s += (x[i] - (y ? y[i] : 0)) * (x[i] - (y ? y[i] : 0));
    return sqrt(s);
}

/* ||a - b|| over max(||b||, least); same shape. */
static double distance(const mba_array *have, const mba_array *want, double least)
{
    assert_int_equal(have->rank, want->rank);
    for (int i = 0; i < have->rank; i++) assert_int_equal(have->shape[i], want->shape[i]);
    double      *a = numbers_of(have), *b = numbers_of(want);
    const double d = norm(a, b, have->elems) / fmax(norm(b, NULL, want->elems), least);
    free(a);
    free(b);
    return d;
}

static double largest_norm(const mba_safetensors *f)
{
    double most = 0;
    for (int64_t i = 0; i < mba_safetensors_count(f); i++) {
        double *x = numbers_of(mba_safetensors_at(f, i));
        most = fmax(most, norm(x, NULL, mba_safetensors_at(f, i)->elems));
        free(x);
    }
    return most;
}

static double logits_error(const char *dir)
{
    char     path[512];
    mba_npy *have, *want;
    snprintf(path, sizeof path, "%s/logits.npy", dir);
    assert_ok(mba_npy_open(&have, scratch("logits.npy")));
    assert_ok(mba_npy_open(&want, path));
    const double e = distance(mba_npy_array(have), mba_npy_array(want), 0);
    mba_npy_close(have);
    mba_npy_close(want);
    return e;
}

static double grads_error(const char *dir)
{
    char             path[512];
    mba_safetensors *have, *want;
    double           worst = 0;
    snprintf(path, sizeof path, "%s/grads.safetensors", dir);
    assert_ok(mba_safetensors_open(&have, scratch("grads.safetensors")));
    assert_ok(mba_safetensors_open(&want, path));
    assert_int_equal(mba_safetensors_count(have), mba_safetensors_count(want));
    const double least = 1e-4 * largest_norm(want);
    for (int64_t i = 0; i < mba_safetensors_count(want); i++) {
        const mba_array *b = mba_safetensors_at(want, i), *a = mba_safetensors_find(have, b->name);
        assert_non_null(a);
        const double e = distance(a, b, least);
        if (!(e <= worst)) worst = e;
    }
    mba_safetensors_close(have);
    mba_safetensors_close(want);
    return worst;
}

static double expected_loss(const char *dir)
{
    char    path[512];
    json_t *j;
    double  loss;
    snprintf(path, sizeof path, "%s/expected.json", dir);
    assert_ok(mba_json_load(&j, path, NULL));
    assert_ok(mba_json_real(j, "loss", NAN, 0, 1e9, &loss));
    json_decref(j);
    return loss;
}

/* Returns how many of the three bounds are missed. */
static int check(const char *dir, mba_recompute recompute)
{
    char           tokens[512], logits[512], grads[512];
    mba_evaluation e;
    snprintf(tokens, sizeof tokens, "%s/tokens.npy", dir);
    snprintf(logits, sizeof logits, "%s", scratch("logits.npy"));
    snprintf(grads, sizeof grads, "%s", scratch("grads.safetensors"));
    assert_ok(mba_evaluate(&e, &(mba_evaluate_options){ .checkpoint = dir,
                                                        .tokens = tokens,
                                                        .logits = logits,
                                                        .grads = grads,
                                                        .session = { .recompute = recompute } }));
    const double loss = fabs(e.loss - expected_loss(dir)), z = logits_error(dir), g = grads_error(dir);
    const int    bad = !(loss <= 1e-5) + !(z <= 1e-4) + !(g <= 1e-4);
    printf("%s %-40s %s loss %.1e  logits %.1e  worst gradient %.1e\n", bad ? "BAD" : "   ", dir,
           recompute == MBA_RECOMPUTE_ON ? "recomputed" : "kept      ", loss, z, g);
    return bad;
}

/* Every model of a folder, of which there are at least so many. */
static void check_folder(const char *folder, int least)
{
    DIR *d = opendir(folder);
    int  n = 0, bad = 0;
    assert_non_null(d);
    scratch_make();
    for (const struct dirent *e; (e = readdir(d));) {
        char dir[300];
        if (e->d_name[0] == '.') continue;
        snprintf(dir, sizeof dir, "%s/%s", folder, e->d_name);
        bad += check(dir, MBA_RECOMPUTE_OFF) + check(dir, MBA_RECOMPUTE_ON);
        n++;
    }
    closedir(d);
    scratch_remove();
    assert_true(n >= least);
    assert_int_equal(bad, 0);
}

static void every_golden_model_agrees(void **state)
{
    (void)state;
    check_folder("tests/golden", 20);
}

/* Made by mamba_ssm's own classes: an MLP whose width they round up, attention with the biases that they have by
 * default. */
static void native_models_agree(void **state)
{
    (void)state;
    check_folder("tests/golden_native", 2);
}

/* A golden checkpoint with another value in its config.json, in scratch("changed"). */
static void change(const char *dir, const char *key, json_t *value)
{
    char    from[512], *whole;
    json_t *config;
    assert_ok(mba_mkdirs(scratch("changed")));
    snprintf(from, sizeof from, "%s/config.json", dir);
    assert_ok(mba_json_load(&config, from, NULL));
    json_object_set_new(config, key, value);
    assert_int_equal(json_dump_file(config, scratch("changed/config.json"), 0), 0);
    json_decref(config);
    snprintf(from, sizeof from, "%s/model.safetensors", dir);
    assert_non_null(whole = realpath(from, NULL));
    remove(scratch("changed/model.safetensors"));
    assert_int_equal(symlink(whole, scratch("changed/model.safetensors")), 0);
    free(whole);
}

static double evaluate_changed(const char *dir)
{
    char           tokens[512], checkpoint[512], grads[512];
    mba_evaluation e;
    snprintf(tokens, sizeof tokens, "%s/tokens.npy", dir);
    snprintf(checkpoint, sizeof checkpoint, "%s", scratch("changed"));
    snprintf(grads, sizeof grads, "%s", scratch("grads.safetensors"));
    assert_ok(mba_evaluate(&e, &(mba_evaluate_options){ .checkpoint = checkpoint, .tokens = tokens, .grads = grads }));
    return e.loss;
}

/* As transformers has it: two different matrices in a file are two, though config.json calls them tied. */
static void a_head_with_numbers_of_its_own_is_not_tied(void **state)
{
    (void)state;
    static const char *const dirs[] = { "tests/golden/mamba_untied", "tests/golden/mamba2_bias",
                                        "tests/golden/bamba_gqa", "tests/golden/jamba_dense" };
    scratch_make();
    for (int k = 0; k < 4; k++) {
        change(dirs[k], "tie_word_embeddings", json_true());
        assert_near(evaluate_changed(dirs[k]), expected_loss(dirs[k]), 1e-5);
        assert_true(grads_error(dirs[k]) <= 1e-4);
    }
    scratch_remove();
}

/* The same weights as transformers saves them without the class's head: no prefix. */
static void store_without_prefix(const char *dir)
{
    char                    from[512], to[512];
    mba_safetensors        *f;
    mba_safetensors_writer *w;
    snprintf(from, sizeof from, "%s/model.safetensors", dir);
    snprintf(to, sizeof to, "%s", scratch("changed/model.safetensors"));
    remove(to);
    assert_ok(mba_safetensors_open(&f, from));
    assert_ok(mba_safetensors_create(&w, to));
    for (int64_t i = 0; i < mba_safetensors_count(f); i++) {
        const mba_array      *a = mba_safetensors_at(f, i);
        mba_safetensors_entry e = { .dtype = a->dtype, .rank = a->rank, .data = a->data };
        assert_non_null(strchr(a->name, '.'));
        e.name = strchr(a->name, '.') + 1;
        memcpy(e.shape, a->shape, sizeof *e.shape * (size_t)a->rank);
        assert_ok(mba_safetensors_add(w, &e));
    }
    assert_ok(mba_safetensors_commit(w));
    mba_safetensors_destroy(w);
    mba_safetensors_close(f);
}

/* A tied model is whole without its head; gradients go by the names in the file. */
static void a_tied_model_saved_without_its_head_is_read(void **state)
{
    (void)state;
    static const struct {
        const char *dir, *tensor;
    } models[] = { { "tests/golden/mamba_bias", "layers.0.mixer.A_log" },
                   { "tests/golden/bamba_tied", "embed_tokens.weight" } };
    scratch_make();
    for (int k = 0; k < 2; k++) {
        mba_safetensors *f;
        change(models[k].dir, "architectures", json_null());
        store_without_prefix(models[k].dir);
        assert_near(evaluate_changed(models[k].dir), expected_loss(models[k].dir), 1e-5);
        assert_ok(mba_safetensors_open(&f, scratch("grads.safetensors")));
        assert_non_null(mba_safetensors_find(f, models[k].tensor));
        mba_safetensors_close(f);
    }
    scratch_remove();
}

/* Gradient of the embedding with another padding token (-1: none); the caller's to free. */
static float *embedding_gradient(const char *dir, int64_t pad, int64_t *elems, int64_t *cols)
{
    mba_safetensors *f;
    change(dir, "pad_token_id", pad < 0 ? json_null() : json_integer(pad));
    evaluate_changed(dir);
    assert_ok(mba_safetensors_open(&f, scratch("grads.safetensors")));
    const mba_array *a = mba_safetensors_find(f, "model.embed_tokens.weight");
    assert_non_null(a);
    float *g = malloc(sizeof *g * (size_t)a->elems);
    assert_non_null(g);
    assert_ok(mba_array_read_f32(a, g, a->elems));
    *elems = a->elems;
    *cols = a->shape[1];
    mba_safetensors_close(f);
    return g;
}

/* As transformers has it for bamba and jamba: look-ups of the padding token give the embedding no gradient, a tied head
 * does. */
static void look_ups_of_padding_have_no_gradient(void **state)
{
    (void)state;
    static const struct {
        const char *dir;
        bool        tied;
    } models[] = { { "tests/golden/bamba_tied", true },
                   { "tests/golden/bamba_gqa", false },
                   { "tests/golden/jamba_dense", false } };
    scratch_make();
    for (int m = 0; m < 3; m++) {
        int64_t       n, cols;
        float        *all = embedding_gradient(models[m].dir, -1, &n, &cols);
        const int64_t pad = 7;
        float        *some = embedding_gradient(models[m].dir, pad, &n, &cols);
        double        left = 0, was = 0;
        for (int64_t i = 0; i < n; i++) {
            if (i / cols != pad) assert_true(all[i] == some[i]);
            else {
                was += fabs((double)all[i]);
                left += fabs((double)some[i]);
            }
        }
        assert_true(models[m].tied ? left > 0 && left != was : left == 0);
        assert_true(was > 0);
        free(all);
        free(some);
    }
    scratch_remove();
}

/* Where a person sees what was ignored: on the terminal, once, from every command that reads a checkpoint. */
static void commands_name_the_keys_they_ignore(void **state)
{
    const char *note = "config.json has keys that mambascope does not know: swing; they are ignored";
    char        path[512];
    json_t     *config;
    assert_int_equal(make_data(state), 0);
    says(run("train " SMALL " " DATA " --steps 1 --quiet --out '%s/run'", scratch_dir, scratch_dir), 0, "");
    snprintf(path, sizeof path, "%s/run/step-000001/config.json", scratch_dir);
    assert_ok(mba_json_load(&config, path, NULL));
    json_object_set_new(config, "swing", json_integer(3));
    assert_int_equal(json_dump_file(config, path, 0), 0);
    json_decref(config);
    assert_int_equal(remove(scratch("run/step-000001/checksums.json")), 0); // changed on purpose
    for (int k = 0; k < 3; k++) {
        static const char *const command[] = {
            "eval --batch 2 --length 32 --data '%s/tokens' --checkpoint '%s/run'",
            "generate --tokens 2 --prompt '%s' --checkpoint '%s/run'",
            "train --batch 2 --length 32 --steps 1 --data '%s/tokens' --init '%s/run'"
        };
        char line[1024];
        snprintf(line, sizeof line, command[k], scratch_dir, scratch_dir);
        says(run("%s", line), 0, note);
        assert_null(strstr(strstr(output, note) + 1, note));
    }
    scratch_remove();
}

MBA_TEST_MAIN(cmocka_unit_test(every_golden_model_agrees), cmocka_unit_test(native_models_agree),
              cmocka_unit_test(commands_name_the_keys_they_ignore),
              cmocka_unit_test(a_head_with_numbers_of_its_own_is_not_tied),
              cmocka_unit_test(a_tied_model_saved_without_its_head_is_read),
              cmocka_unit_test(look_ups_of_padding_have_no_gradient))
