// SPDX-License-Identifier: Apache-2.0
/* hf_config_test.c -- which config.json is written for a model, and which models no published class can express. */
#include "train/hf.h"

#include "data/json.h"
#include "tests/test.h"

static mba_model complete(mba_lm c)
{
    mba_model m = { .lm = c };
    assert_ok(mba_model_complete(&m));
    return m;
}

static int64_t whole(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_integer(v)) fail_msg("\"%s\" is %s", key, v ? "no integer" : "absent");
    return json_integer_value(v);
}

/* The file has every size, since readers may have other defaults. */
static void bamba_files_name_every_size(void **state)
{
    (void)state;
    const mba_model m = complete((mba_lm){ .width = 32,
                                           .inner = 64,
                                           .head_dim = 16,
                                           .groups = 2,
                                           .norm_groups = 2,
                                           .state = 24,
                                           .conv = 3,
                                           .chunk = 8,
                                           .vocab = 60,
                                           .mlp = 40,
                                           .q_heads = 4,
                                           .kv_heads = 2,
                                           .rotary = 8,
                                           .paired = 1,
                                           .pattern = "M+*+M+" });
    static const struct {
        const char *key;
        int64_t     value;
    } of[] = { { "num_hidden_layers", 3 },  { "hidden_size", 32 },     { "vocab_size", 60 },
               { "intermediate_size", 40 }, { "mamba_expand", 2 },     { "mamba_d_state", 24 },
               { "mamba_d_conv", 3 },       { "mamba_n_heads", 4 },    { "mamba_d_head", 16 },
               { "mamba_n_groups", 2 },     { "mamba_chunk_size", 8 }, { "num_attention_heads", 4 },
               { "num_key_value_heads", 2 } };
    assert_int_equal(mba_hf_format_for(&m), MBA_HF_BAMBA);
    json_t *j = mba_hf_config_write(&m, MBA_HF_BAMBA);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (whole(j, of[i].key) != of[i].value) fail_msg("\"%s\" is %lld", of[i].key, (long long)whole(j, of[i].key));
    const json_t *at = json_object_get(j, "attn_layer_indices");
    assert_int_equal(json_array_size(at), 1);
    assert_int_equal(json_integer_value(json_array_get(at, 0)), 1);
    assert_true(json_is_false(json_object_get(j, "mlp_bias")) && json_is_true(json_object_get(j, "mamba_conv_bias")));
    assert_true(json_is_null(json_object_get(j, "pad_token_id")));
    json_decref(j);
}

/* Jamba has attention at every n-th block from some block on; other models are written in our format. */
static void jamba_files_say_where_attention_is(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        int64_t     every, from;
    } of[] = { { "m+*+", 2, 1 },       { "*+m+", 2, 0 },
               { "m+m+*+", 3, 2 },     { "m+*+m+", 2, 1 },
               { "*+m+m+", 3, 0 },     { "m+m+m+*+", 4, 3 },
               { "m+*+m+m+*+", 3, 1 }, { "m+m+", 0, 0 },
               { "*+*+m+", 0, 0 },     { "m+*+m+m+m+*+m+*+", 0, 0 } };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        mba_lm c = {
            .width = 32, .inner = 64, .state = 8, .vocab = 60, .mlp = 40, .q_heads = 2, .paired = 1, .inner_norms = 1
        };
        strcpy(c.pattern, of[i].pattern);
        const mba_model m = complete(c);
        mba_model       back;
        mba_hf_format   format;
        if (mba_hf_format_for(&m) != (of[i].every ? MBA_HF_JAMBA : MBA_HF_OURS))
            fail_msg("%s: not that class", of[i].pattern);
        json_t *j = mba_hf_config_write(&m, mba_hf_format_for(&m));
        if (of[i].every) {
            assert_int_equal(whole(j, "attn_layer_period"), of[i].every);
            assert_int_equal(whole(j, "attn_layer_offset"), of[i].from);
            assert_int_equal(whole(j, "num_experts"), 1);
            assert_int_equal(whole(j, "mamba_dt_rank"), m.lm.dt_rank);
        }
        assert_ok(mba_hf_config_read(&back, &format, j));
        assert_int_equal(format, mba_hf_format_for(&m));
        assert_ok(mba_model_complete(&back));
        assert_string_equal(back.lm.pattern, of[i].pattern);
        json_decref(j);
    }
}

static mba_status model_of(mba_model *m, const char *text)
{
    json_t       *config;
    mba_hf_format format;
    assert_ok(mba_json_parse(&config, "table", text, strlen(text), NULL));
    const mba_status st = mba_hf_config_read(m, &format, config);
    json_decref(config);
    return st;
}

/* The inner width stands in the file twice: as a number and as a multiple of the width. */
static void widths_that_disagree_are_refused(void **state)
{
    (void)state;
#define MAMBA "{\"model_type\": \"mamba\", \"hidden_size\": 32, \"num_hidden_layers\": 1, \"vocab_size\": 60"
    mba_model m;
    assert_ok(model_of(&m, MAMBA "}"));
    assert_int_equal(m.lm.inner, 64);
    assert_ok(model_of(&m, MAMBA ", \"expand\": 3, \"intermediate_size\": 96}"));
    assert_int_equal(m.lm.inner, 96);
    assert_fails(model_of(&m, MAMBA ", \"expand\": 3, \"intermediate_size\": 64}"), MBA_E_FORMAT,
                 "\"intermediate_size\" is 64, but \"expand\" x \"hidden_size\" is 96");
    assert_fails(model_of(&m, MAMBA ", \"intermediate_size\": 65}"), MBA_E_FORMAT, "\"hidden_size\" is 64");
}

MBA_TEST_MAIN(cmocka_unit_test(bamba_files_name_every_size), cmocka_unit_test(jamba_files_say_where_attention_is),
              cmocka_unit_test(widths_that_disagree_are_refused))
