// SPDX-License-Identifier: Apache-2.0
/* hf_vision.c -- reads and writes the config.json of MambaVision that the Hugging Face Hub publishes.
 *
 *     {"model_type": "mambavision", "dim": 80, "in_dim": 32, "depths": [1, 3, 8, 4], "num_heads": [2, 4, 8, 16],
 *      "window_size": [8, 8, 14, 7], "mlp_ratio": 4, "drop_path_rate": 0.2, "crop_pct": 1.0, ..}
 *
 * Our own files have the same "model_type" but the names of `mambascope list fields`: "heads", "windows", "classes". */
#include <math.h>
#include <string.h>

#include "data/array.h"
#include "data/image_ops.h"
#include "train/hf_vision.h"

enum { STATE = 8, CONV = 3, UNUSED_WINDOW = 8 }; // constants of the published class

/* Returns the first of these keys that the file has, or NULL. */
static const char *first_of(const mba_source *o, const char *const *keys)
{
    while (*keys && !json_object_get(o->object, *keys)) keys++;
    return *keys;
}

mba_status mba__hf_vision_format(mba_hf_format *out, const mba_source *o)
{
    static const char *const published[] = {
        // keys that only one of the two formats has
        "num_heads",  "window_size", "num_classes", "drop_path_rate", "in_chans",
        "qkv_bias",   "qk_scale",    "drop_rate",   "attn_drop_rate", "layer_scale_conv",
        "resolution", "crop_pct",    "crop_mode",   "mean",           "std",
        NULL,
    };
    static const char *const ours[] = { "image", "classes",   "heads", "windows", "state",
                                        "conv",  "drop_path", "crop",  "squash",  NULL };
    const char              *theirs = first_of(o, published), *own = first_of(o, ours);
    if (theirs && own)
        return mba_fail(MBA_E_FORMAT,
                        "\"%s\" and \"%s\" are in one file\nwhy: the first is a key of the "
                        "published format, the second one of ours\nfix: use either num_heads, window_size, "
                        "num_classes, drop_path_rate, resolution, crop_pct; or heads, "
                        "windows, classes, drop_path, image, crop",
                        theirs, own);
    *out = own ? MBA_HF_VISION_OURS : MBA_HF_VISION;
    return MBA_OK;
}

/* ---- reading ---- */

/* Reads four numbers, one for each stage. */
static mba_status stages(const mba_source *o, const char *key, const int64_t *standard, int64_t least, int64_t *out)
{
    const json_t *list = mba__source_get(o, key);
    memcpy(out, standard, sizeof *out * MBA_STAGES);
    if (!list) return MBA_OK;
    if (!json_is_array(list) || json_array_size(list) != MBA_STAGES)
        return mba_fail(MBA_E_FORMAT,
                        "\"%s\" is not a list of %d numbers\nwhy: the network has %d stages\n"
                        "fix: correct it",
                        key, MBA_STAGES, MBA_STAGES);
    for (size_t i = 0; i < MBA_STAGES; i++) {
        const json_t *v = json_array_get(list, i);
        if (!json_is_integer(v) || json_integer_value(v) < least || json_integer_value(v) > MBA_FIELD_MOST)
            return mba_fail(MBA_E_FORMAT, "entry %zu of \"%s\" is not a number between %lld and %d\nfix: correct it", i,
                            key, (long long)least, MBA_FIELD_MOST);
        out[i] = json_integer_value(v);
    }
    return MBA_OK;
}

static mba_status impossible(const char *key, const char *why)
{
    return mba_fail(MBA_E_UNSUPPORTED,
                    "\"%s\" has a value that is not supported\nwhy: %s\n"
                    "fix: choose a checkpoint without it",
                    key, why);
}

/* Checks the three numbers for the normalisation of colours: only those of ImageNet are supported. */
static mba_status check_colours(const mba_source *o, const char *key, const float want[3])
{
    const json_t *list = mba__source_get(o, key);
    double        v;
    if (!list) return MBA_OK;
    bool same = json_is_array(list) && json_array_size(list) == 3;
    for (size_t k = 0; same && k < 3; k++)
        same = mba_json_number(json_array_get(list, k), &v) && fabs(v - (double)want[k]) < 1e-6;
    return same ? MBA_OK : impossible(key, "photographs are normalised with the colours of ImageNet");
}

/* Refuses options of the class that no published network uses and that we cannot compute. */
static mba_status check_fixed(const mba_source *o)
{
    int64_t channels;
    double  drop, attn_drop;
    bool    bias;
    MBA_TRY(mba__source_int(o, "in_chans", 3, 1, MBA_FIELD_MOST, &channels));
    if (channels != 3) return impossible("in_chans", "images have 3 channels");
    MBA_TRY(mba__source_bool(o, "qkv_bias", true, &bias));
    if (!bias) return impossible("qkv_bias", "attention has biases");
    const json_t *norms = mba__source_get(o, "qk_scale");
    double        zero = 1;
    if (norms && !json_is_false(norms) && !(mba_json_number(norms, &zero) && zero == 0))
        return impossible("qk_scale", "the class would normalise queries and keys");
    MBA_TRY(mba__source_real(o, "drop_rate", 0, 0, 1, &drop));
    MBA_TRY(mba__source_real(o, "attn_drop_rate", 0, 0, 1, &attn_drop));
    if (drop > 0) return impossible("drop_rate", "there is no dropout but whole paths");
    if (attn_drop > 0) return impossible("attn_drop_rate", "there is no dropout but whole paths");
    if (mba__source_get(o, "layer_scale_conv")) return impossible("layer_scale_conv", "only token blocks are scaled");
    MBA_TRY(check_colours(o, "mean", mba_colours_imagenet.mean));
    return check_colours(o, "std", mba_colours_imagenet.deviation);
}

/* Reads "layer_scale". The class scales branches if it is a number, even 0; here 0 means no scaling, so 0 is
 * refused. */
static mba_status layer_scale(const mba_source *o, double *out)
{
    MBA_TRY(mba__source_real(o, "layer_scale", 0, 0, 1e6, out));
    if (mba__source_get(o, "layer_scale") && !(*out > 0))
        return mba_fail(MBA_E_UNSUPPORTED,
                        "\"layer_scale\" is 0\nwhy: then all scales start at 0\nfix: use "
                        "null for none, or a small number for scales, whose values are in the weights");
    return MBA_OK;
}

static bool same_network(const mba_vision *a, const mba_vision *b)
{
    return a->dim == b->dim && a->in_dim == b->in_dim && !memcmp(a->depths, b->depths, sizeof a->depths)
           && a->windows[2] == b->windows[2] && a->windows[3] == b->windows[3];
}

/* Fills in the size of images and the crop with which the authors evaluate this network, where the file does not give
 * them. For other networks they are the class's defaults, 224 and 0.875. */
static void as_evaluated(mba_vision *c)
{
    static const mba_vision others[] = {
        // L2, L2-512, L3-256, L3-512
        { .dim = 196, .in_dim = 64, .depths = { 3, 3, 12, 5 }, .windows = { 0, 0, 14, 7 }, .image = 224, .crop = 1 },
        { .dim = 196,
          .in_dim = 64,
          .depths = { 3, 3, 12, 5 },
          .windows = { 0, 0, 32, 16 },
          .image = 512,
          .crop = 0.93,
          .squash = true },
        { .dim = 256, .in_dim = 64, .depths = { 3, 3, 20, 10 }, .windows = { 0, 0, 16, 8 }, .image = 256, .crop = 1 },
        { .dim = 256,
          .in_dim = 64,
          .depths = { 3, 3, 20, 10 },
          .windows = { 0, 0, 32, 16 },
          .image = 512,
          .crop = 0.93,
          .squash = true },
    };
    mba_vision known = { .image = 224, .crop = 0.875 };
    for (const mba_vision *p = mba_vision_presets(); p->name; p++) {
        mba_vision whole = *p;
        whole.windows[2] = 14;
        whole.windows[3] = 7;
        if (same_network(c, &whole)) known.crop = p->crop;
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (same_network(c, &others[i])) known = others[i];
    if (!c->image) c->image = known.image;
    if (!(c->crop > 0)) c->crop = known.crop;
    c->squash = known.squash;
}

/* Reads "crop_mode": "center" keeps the aspect ratio, "squash" makes the image square; absent or null: as the authors
 * do. */
static mba_status crop_mode(const mba_source *o, bool *squash)
{
    const char *mode;
    MBA_TRY(mba__source_text(o, "crop_mode", *squash ? "squash" : "center", &mode));
    *squash = !strcmp(mode, "squash");
    return *squash || !strcmp(mode, "center") ? MBA_OK : impossible("crop_mode", "known are \"center\" and \"squash\"");
}

mba_status mba__hf_vision_read(mba_vision *c, const mba_source *o)
{
    static const int64_t depths[] = { 1, 3, 8, 4 }, heads[] = { 2, 4, 8, 16 }, windows[] = { 8, 8, 14, 7 };
    double               ratio;
    MBA_TRY(check_fixed(o));
    MBA_TRY(mba__source_int(o, "dim", 80, 1, MBA_FIELD_MOST, &c->dim));
    MBA_TRY(mba__source_int(o, "in_dim", 32, 1, MBA_FIELD_MOST, &c->in_dim));
    MBA_TRY(stages(o, "depths", depths, 1, c->depths));
    MBA_TRY(stages(o, "num_heads", heads, 0, c->heads));
    MBA_TRY(stages(o, "window_size", windows, 0, c->windows));
    c->windows[0] = c->windows[1] = 0; // convolution stages have no windows, whatever the file says
    MBA_TRY(mba__source_real(o, "mlp_ratio", 4, 1, 256, &ratio));
    c->mlp_ratio = (int64_t)ratio;
    if (ratio != floor(ratio)) return impossible("mlp_ratio", "hidden widths are multiples of the channels");
    MBA_TRY(mba__source_real(o, "drop_path_rate", 0.2, 0, 1, &c->drop_path));
    MBA_TRY(layer_scale(o, &c->layer_scale));
    MBA_TRY(mba__source_int(o, "num_classes", 0, 0, MBA_FIELD_MOST, &c->classes));
    if (mba__source_get(o, "num_classes") && !c->classes)
        return impossible("num_classes", "a network without classes has no head, and no loss");
    MBA_TRY(mba__source_int(o, "resolution", 0, 1, MBA_FIELD_MOST, &c->image));
    MBA_TRY(mba__source_real(o, "crop_pct", 0, 0, 1, &c->crop));
    c->state = STATE;
    c->conv = CONV;
    as_evaluated(c);
    return crop_mode(o, &c->squash);
}

/* ---- writing ---- */

bool mba__hf_vision_fits(const mba_vision *c) { return c->state == STATE && c->conv == CONV; }

static void put_stages(json_t *o, const char *key, const int64_t *v, int64_t unused)
{
    json_t *a = json_array();
    for (int i = 0; i < MBA_STAGES; i++) json_array_append_new(a, json_integer(i < 2 && !v[i] ? unused : v[i]));
    json_object_set_new(o, key, a);
}

static void put_colours(json_t *o, const char *key, const float v[3])
{
    json_t *a = json_array();
    for (int k = 0; k < 3; k++) json_array_append_new(a, json_real(round((double)v[k] * 1e3) / 1e3));
    json_object_set_new(o, key, a);
}

void mba__hf_vision_write(json_t *o, const mba_vision *c)
{
    json_object_set_new(o, "architectures", json_pack("[s]", "MambaVisionModelForImageClassification"));
    json_object_set_new(o, "auto_map",
                        json_pack("{s:s, s:s, s:s}", "AutoConfig", "configuration_mambavision.MambaVisionConfig",
                                  "AutoModel", "modeling_mambavision.MambaVisionModel",
                                  "AutoModelForImageClassification",
                                  "modeling_mambavision.MambaVisionModelForImageClassification"));
    json_object_set_new(o, "torch_dtype", json_string("float32"));
    json_object_set_new(o, "dim", json_integer(c->dim));
    json_object_set_new(o, "in_dim", json_integer(c->in_dim));
    put_stages(o, "depths", c->depths, 0);
    put_stages(o, "num_heads", c->heads, 1);
    put_stages(o, "window_size", c->windows, UNUSED_WINDOW);
    json_object_set_new(o, "mlp_ratio", json_integer(c->mlp_ratio));
    json_object_set_new(o, "drop_path_rate", json_real(c->drop_path));
    json_object_set_new(o, "in_chans", json_integer(3));
    json_object_set_new(o, "num_classes", json_integer(c->classes));
    json_object_set_new(o, "qkv_bias", json_true());
    json_object_set_new(o, "qk_scale", json_null());
    json_object_set_new(o, "drop_rate", json_real(0));
    json_object_set_new(o, "attn_drop_rate", json_real(0));
    json_object_set_new(o, "layer_scale", c->layer_scale > 0 ? json_real(c->layer_scale) : json_null());
    json_object_set_new(o, "layer_scale_conv", json_null());
    json_object_set_new(o, "resolution", json_integer(c->image));
    json_object_set_new(o, "crop_pct", json_real(c->crop > 0 ? c->crop : 0.875));
    json_object_set_new(o, "crop_mode", json_string(c->squash ? "squash" : "center"));
    put_colours(o, "mean", mba_colours_imagenet.mean);
    put_colours(o, "std", mba_colours_imagenet.deviation);
}
