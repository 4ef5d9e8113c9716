// SPDX-License-Identifier: Apache-2.0
/* cli_models_test.c -- models of all kinds through the commands: trained, evaluated, resumed, their files read and
 * written. */
#include "data/graph_pack.h"
#include "data/json.h"
#include "data/npy.h"
#include "data/safetensors.h"
#include "tests/program.h"

static void training_evaluating_and_generating_work_together(void **state)
{
    (void)state;
    says(run("train " SMALL " " DATA " --valid-fraction 0.1 --steps 12 --out '%s/run' --json --quiet", scratch_dir,
             scratch_dir),
         0, "valid_loss");
    json_t *j = json_output();
    assert_int_equal(json_integer_value(json_object_get(j, "step")), 12);
    json_decref(j);
    says(run("generate --checkpoint '%s/run/step-000012' --prompt 'The ' --tokens 20", scratch_dir), 0, "The ");
    says(run("data inspect '%s/tokens/tokens_00000.bin'", scratch_dir), 0, "SYNTHETIC");
    says(run("eval --checkpoint tests/golden/mamba_odd --tokens tests/golden/mamba_odd/tokens.npy --json"), 0,
         "\"tokens\": 72");
    says(run("train --resume '%s/run' " DATA " --valid-fraction 0.1 --steps 14 --batch 2 --length 32 --quiet",
             scratch_dir, scratch_dir),
         0, "14 steps");
    /* nothing left to do: no loss, and still JSON */
    says(run("train --resume '%s/run' " DATA " --valid-fraction 0.1 --steps 12 --batch 2 --length 32 --quiet --json",
             scratch_dir, scratch_dir),
         0, "\"loss\": null");
    json_decref(json_output());
    says(run("train --resume '%s/run' " DATA " --valid-fraction 0.1 --steps 12 --batch 2 --length 32 --quiet",
             scratch_dir, scratch_dir),
         0, "no step is left");
    says(run("train " SMALL " " DATA " --steps 2 --out '%s/run' --quiet", scratch_dir, scratch_dir), 2, "--resume");
}

static void images_train_and_evaluate(void **state)
{
    (void)state;
    const char *golden = "tests/golden_vision/scale_pad";
    says(run("train " VISION " --batch 4 --steps 4 --valid-batches 2 --ema 0.5 --optimizer lamb --out '%s/images' "
             "--json --quiet",
             scratch_dir),
         0, "valid_accuracy");
    assert_int_equal(number("images"), 16);
    says(run("train --resume '%s/images' --batch 4 --steps 6 --ema 0.5 --optimizer lamb --valid-batches 1 --out "
             "'%s/images'",
             scratch_dir, scratch_dir),
         0, "SYNTHETIC shapes");
    says(run("eval --checkpoint '%s/images/step-000006' --data shapes --batch 100 --json", scratch_dir), 0,
         "\"targets\": 10000");
    const double plain = number("loss");
    says(run("eval --checkpoint '%s/images/step-000006' --ema --data shapes --batch 100 --json", scratch_dir), 0,
         "accuracy");
    assert_true(isfinite(number("loss")) && number("loss") != plain);
    /* the golden network: batch statistics, and the running ones */
    says(run("eval --checkpoint %s --images %s/images.npy --labels %s/labels.npy --train-mode --json", golden, golden,
             golden),
         0, "accuracy");
    assert_near(number("loss"), 1.7488295839086248, 1e-5);
    says(run("eval --checkpoint %s --images %s/images.npy --logits '%s/l.npy'", golden, golden, scratch_dir), 0,
         "no item has a label");
    says(run("eval --checkpoint %s --images %s/images.npy --labels %s/labels.npy --grads '%s/g.safetensors'", golden,
             golden, golden, scratch_dir),
         0, "loss");
    says(run("eval --checkpoint %s --tokens tests/golden/mamba_odd/tokens.npy", golden), 2,
         "a model of images, but the data is tokens");
    says(run("generate --checkpoint %s", golden), 2, "a model of images");
    assert_null(strstr(output, "In the beginning")); // no text where there will be none
    assert_ok(mba_npy_write(scratch("y.npy"), MBA_WIRE_I32, 1, (int64_t[]){ 2 }, (int32_t[]){ 3, 7 }));
    says(run("eval --checkpoint %s --images %s/images.npy --labels '%s/y.npy'", golden, golden, scratch_dir), 1,
         "label 1 of");
    assert_ok(mba_npy_write(scratch("x.npy"), MBA_WIRE_F32, 4, (int64_t[]){ 1, 3, 1, 1 }, (float[]){ 0, NAN, 0 }));
    says(run("eval --checkpoint %s --images '%s/x.npy'", golden, scratch_dir), 1, "value 1 of");
}

#define HUB "tests/golden_vision/hub"

/* The results of the authors' class for the same images. */
static void logits_are_those_of_the_class(const char *path)
{
    mba_npy *have, *want;
    float    a[16], b[16];
    assert_ok(mba_npy_open(&have, path));
    assert_ok(mba_npy_open(&want, HUB "/logits_eval.npy"));
    const int64_t n = mba_npy_array(want)->elems;
    assert_true(n <= 16 && mba_npy_array(have)->elems == n);
    assert_ok(mba_array_read_f32(mba_npy_array(have), a, n));
    assert_ok(mba_array_read_f32(mba_npy_array(want), b, n));
    for (int64_t i = 0; i < n; i++) assert_near(a[i], b[i], 1e-5);
    mba_npy_close(have);
    mba_npy_close(want);
}

/* The tensors of two files have the same names, types and, but for the head, shapes. */
static void assert_same_layout(const char *written, const char *published)
{
    mba_safetensors *a, *b;
    assert_ok(mba_safetensors_open(&a, written));
    assert_ok(mba_safetensors_open(&b, published));
    assert_int_equal(mba_safetensors_count(a), mba_safetensors_count(b));
    for (int64_t i = 0; i < mba_safetensors_count(b); i++) {
        const mba_array *want = mba_safetensors_at(b, i), *have = mba_safetensors_find(a, want->name);
        if (!have) print_error("no %s\n", want->name);
        assert_non_null(have);
        assert_int_equal(have->dtype, want->dtype);
        assert_int_equal(have->rank, want->rank);
        const bool head = !strncmp(want->name, "model.head.", 11);
        for (int k = head; k < want->rank; k++) assert_int_equal(have->shape[k], want->shape[k]);
    }
    mba_safetensors_close(a);
    mba_safetensors_close(b);
}

/* Every key of the published file that the class reads is in ours, with its value where nothing changed it. */
static void assert_published_keys(const char *path)
{
    static const char *const same[] = {
        "model_type",     "architectures", "auto_map",         "depths",   "num_heads", "window_size", "dim",
        "in_dim",         "mlp_ratio",     "drop_path_rate",   "in_chans", "qkv_bias",  "qk_scale",    "drop_rate",
        "attn_drop_rate", "layer_scale",   "layer_scale_conv", "crop_pct", "crop_mode", "mean",        "std",
        "torch_dtype"
    };
    json_t *have, *want;
    assert_ok(mba_json_load(&have, path, NULL));
    assert_ok(mba_json_load(&want, HUB "/config.json", NULL));
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        if (!json_equal(json_object_get(have, same[i]), json_object_get(want, same[i]))) print_error("%s\n", same[i]);
        assert_true(json_equal(json_object_get(have, same[i]), json_object_get(want, same[i])));
    }
    assert_int_equal(json_integer_value(json_object_get(have, "num_classes")), 10);
    json_decref(have);
    json_decref(want);
}

static void a_network_of_the_hub_is_evaluated_trained_and_written(void **state)
{
    (void)state;
    char line[1024];
    says(run("eval --checkpoint " HUB " --images " HUB "/images.npy --labels " HUB
             "/labels.npy --logits '%s/l.npy' --json",
             scratch_dir),
         0, "accuracy");
    assert_near(number("loss"), 1.5859953417179902, 1e-5);
    assert_null(strstr(output, "note:"));
    logits_are_those_of_the_class(scratch("l.npy"));
    says(run("train --init " HUB " --data shapes --steps 1"), 2, "fix: --set classes=10");
    says(run("train --init " HUB " --set classes=10,image=24 --data shapes --steps 2 --batch 2 --valid-batches 1 --out "
             "'%s/tuned'",
             scratch_dir),
         0, "the head is initialised again: it has 10 classes, the head of '" HUB "' has 7");
    assert_published_keys(scratch("tuned/step-000002/config.json"));
    assert_same_layout(scratch("tuned/step-000002/model.safetensors"), HUB "/model.safetensors");
    says(run("train --resume '%s/tuned' --data shapes --steps 3 --batch 2 --valid-batches 1", scratch_dir), 0,
         "3 steps");
    /* without a word about classes the head tells how many there are */
    snprintf(line, sizeof line,
             "rm -rf '%s/h' && cp -r " HUB " '%s/h' && grep -v num_classes "
             "tests/golden_vision/hub/config.json > '%s/h/config.json'",
             scratch_dir, scratch_dir, scratch_dir);
    assert_int_equal(system(line), 0);
    says(run("eval --checkpoint '%s/h' --images " HUB "/images.npy --labels " HUB "/labels.npy --json", scratch_dir), 0,
         "accuracy");
    assert_near(number("loss"), 1.5859953417179902, 1e-5);
}

static void a_pickle_is_refused_with_the_command_that_converts_it(void **state)
{
    (void)state;
    char line[1024];
    snprintf(line, sizeof line, "mkdir -p '%s/p' && echo PK > '%s/p/mambavision_tiny_1k.pth.tar'", scratch_dir,
             scratch_dir);
    assert_int_equal(system(line), 0);
    static const char *const path[] = { "p", "p/mambavision_tiny_1k.pth.tar" };
    for (int i = 0; i < 2; i++) {
        snprintf(line, sizeof line, "fix: python3 tools/convert_checkpoint.py '%s/%s' OUT", scratch_dir, path[i]);
        says(run("eval --checkpoint '%s/%s' --data shapes", scratch_dir, path[i]), 1, line);
        says(run("train --init '%s/%s' --data shapes", scratch_dir, path[i]), 1, line);
    }
    says(run("eval --checkpoint " HUB "/model.safetensors --data shapes"), 1, "it is a file");
}

/* The script, where there is a Python with torch (MBA_PYTHON, or python3): what timm saves becomes what it was made
 * of. */
static void the_script_converts_what_timm_saves(void **state)
{
    (void)state;
    char        line[2048];
    const char *python = getenv("MBA_PYTHON") ? getenv("MBA_PYTHON") : "python3";
    snprintf(line, sizeof line, "'%s' -c 'import torch, safetensors.torch' 2>/dev/null", python);
    if (system(line)) skip();
    snprintf(line, sizeof line,
             "cd '%s' && rm -rf hub.pth.tar made && '%s' -c \"import argparse, torch\n"
             "from safetensors.torch import load_file\n"
             "tensors = load_file('$OLDPWD/" HUB "/model.safetensors')\n"
             "torch.save({'epoch': 1, 'args': argparse.Namespace(lr=1), 'state_dict': "
             "{k[6:]: v for k, v in tensors.items()}}, 'hub.pth.tar')\"",
             scratch_dir, python);
    assert_int_equal(system(line), 0);
    snprintf(line, sizeof line, "'%s' tools/convert_checkpoint.py '%s/hub.pth.tar' '%s/made' 2>&1", python, scratch_dir,
             scratch_dir);
    says(shell(line), 1, "fix: --heads");
    snprintf(line, sizeof line,
             "'%s' tools/convert_checkpoint.py '%s/hub.pth.tar' '%s/made' --heads 1 1 2 4 "
             "--windows 8 8 4 2 2>&1",
             python, scratch_dir, scratch_dir);
    says(shell(line), 0, "tensors");
    says(run("eval --checkpoint '%s/made' --images " HUB "/images.npy --labels " HUB "/labels.npy --json", scratch_dir),
         0, "accuracy");
    assert_near(number("loss"), 1.5859953417179902, 1e-5);
}

static void graphs_train_and_evaluate(void **state)
{
    (void)state;
    says(run("train " GRAPH " --steps 4 --valid-batches 0 --out '%s/graphs' --json --quiet", scratch_dir), 0,
         "valid_ap");
    assert_true(number("graphs") > 4);
    says(run("train --resume '%s/graphs' --graphs 4 --nodes 750 --edges 1532 --steps 6 --out '%s/graphs'", scratch_dir,
             scratch_dir),
         0, "SYNTHETIC peptides-func");
    says(run("eval --checkpoint '%s/graphs/step-000006' --graphs tests/golden_graph/peptides_like/batch.graphpk",
             scratch_dir),
         2, "does not fit the model");
    says(run("eval --checkpoint '%s/graphs/step-000006' --data peptides-func --max-graphs 8 --nodes 3000 --edges 6000 "
             "--json",
             scratch_dir),
         0, "\"ap\"");
    // a tenth of five batches of 8, ten tasks each
    assert_int_equal((int)number("targets"), 4 * 10);
    says(
        run("eval --checkpoint '%s/graphs/step-000006' --data peptides-func --synthetic 90 --max-graphs 8 --nodes 3000 "
            "--edges 6000 --json",
            scratch_dir),
        0, "\"ap\"");
    assert_int_equal((int)number("targets"), 9 * 10);
    says(run("eval --checkpoint '%s/graphs/step-000006' --data peptides-func", scratch_dir), 2,
         "--max-graphs, --nodes and --edges");
    says(run("train --model graphmamba-peptides-func --set layers=1,width=8,pe_count=0 --graphs 4 --synthetic 30 "
             "--steps 1 "
             "--quiet"),
         0, "1 steps");                                                          // a width of positions, and none
    says(run("train " GRAPH " --synthetic 30 --steps 1"), 0, "data: 24 graphs"); // eight of ten are for training
    says(run("train " GRAPH " --synthetic 30 --steps 1"), 0, "\nvalidation  ");  // its memory, before it is taken
}

/* `count` graphs of a set from `first` on, in a file of their own, and the results of the checkpoint g for them. */
static float *results_of(const mba_graph_set *s, int64_t first, int64_t count, int64_t *n)
{
    mba_graph_store *store;
    mba_npy         *logits;
    mba_graph_form   form = s->form;
    form.lap_k = form.rwse_k = 0; // computed anew, for one graph as for all
    assert_ok(mba_graph_store_create(&store, &form));
    for (int64_t i = 0; i < count; i++) {
        const mba_graph_item g = mba_graph_set_item(s, first + i);
        assert_ok(mba_graph_store_add(store, &g));
    }
    assert_ok(mba_graph_pack_write(scratch("some.graphpk"), mba_graph_store_set(store)));
    mba_graph_store_destroy(store);
    says(run("eval --checkpoint '%s/g' --graphs '%s/some.graphpk' --logits '%s/some.npy'", scratch_dir, scratch_dir,
             scratch_dir),
         0, "loss");
    assert_ok(mba_npy_open(&logits, scratch("some.npy")));
    const mba_array *a = mba_npy_array(logits);
    float           *x = malloc(sizeof *x * (size_t)a->elems);
    assert_non_null(x);
    assert_ok(mba_array_read_f32(a, x, a->elems));
    *n = a->elems;
    mba_npy_close(logits);
    return x;
}

/* Results of a graph do not depend on the others of its batch: random orders go by its own nodes. */
static void each_graph_alone_is_as_in_the_batch(void)
{
    mba_graph_pack *p;
    int64_t         n, at = 0;
    assert_ok(mba_graph_pack_open(&p, scratch("g/batch.graphpk")));
    const mba_graph_set *s = mba_graph_pack_set(p);
    float               *all = results_of(s, 0, s->graphs, &n), most = 0;
    for (int64_t i = 0; i < n; i++) most = fmaxf(most, fabsf(all[i]));
    for (int64_t g = 0; g < s->graphs; g++) {
        int64_t k;
        float  *one = results_of(s, g, 1, &k);
        assert_true(at + k <= n);
        for (int64_t i = 0; i < k; i++) assert_near(one[i], all[at + i], 1e-6 * (double)most);
        at += k;
        free(one);
    }
    assert_int_equal(at, n);
    free(all);
    mba_graph_pack_close(p);
}

/* Every golden graph network is stored under the names of the released code; its batch gives finite results. */
static void graph_checkpoints_have_the_published_names(void **state)
{
    (void)state;
    static const struct {
        const char *name, *config, *score;
    } table[] = {
        { "voc_like",
          "{\"model_type\": \"graphmamba\", \"width\": 24, \"layers\": 3, \"node_reals\": 5, "
          "\"edge_reals\": 2, \"pe_count\": 8, "
          "\"pe_width\": 8, \"head_layers\": 3, \"outputs\": 7, \"buckets\": 3}",
          "f1" },
        { "peptides_like",
          "{\"model_type\": \"graphmamba\", \"width\": 20, \"layers\": 3, "
          "\"node_tables\": [119, 5, 12, 12, 10, 6, 6, 2, 2], "
          "\"edge_tables\": [5, 6, 2], \"pe_count\": 10, \"pe_width\": 6, \"head_layers\": 1, \"outputs\": 4, "
          "\"readout\": \"mean\", "
          "\"loss\": \"bce\"}",
          "ap" },
        { "malnet_like",
          "{\"model_type\": \"graphmamba\", \"width\": 18, \"layers\": 2, \"node_reals\": 5, \"pre_layers\": 1, "
          "\"head_layers\": 3, \"outputs\": 5, \"readout\": \"max\", \"loss\": \"ce\", \"buckets\": 3}",
          "accuracy" },
        { "walks_like",
          "{\"model_type\": \"graphmamba\", \"width\": 18, \"layers\": 2, \"node_reals\": 5, \"rw_count\": 7, "
          "\"pe_width\": 6, \"head_layers\": 2, \"outputs\": 4, \"readout\": \"mean\", \"loss\": \"ce\"}",
          "accuracy" },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char line[1024], path[600];
        snprintf(line, sizeof line, "rm -rf '%s/g' && cp -r tests/golden_graph/%s '%s/g'", scratch_dir, table[i].name,
                 scratch_dir);
        assert_int_equal(system(line), 0);
        snprintf(path, sizeof path, "%s/g/config.json", scratch_dir);
        put(path, table[i].config);
        says(run("eval --checkpoint '%s/g' --graphs '%s/g/batch.graphpk' --train-mode --grads '%s/g/gg.safetensors' "
                 "--logits '%s/g/ll.npy' --json",
                 scratch_dir, scratch_dir, scratch_dir, scratch_dir),
             0, table[i].score);
        assert_true(isfinite(number("loss")));
        each_graph_alone_is_as_in_the_batch();
    }
}

/* As its archives unpack, in the raw/ of PyTorch Geometric, and by the folder of the graphs. */
static void malnet_is_found_where_it_lies(void **state)
{
    (void)state;
    static const char *const paths[] = { "mal", "pyg", "mal/malnet-graphs-tiny" };
    char                     line[1024];
    snprintf(line, sizeof line,
             "cd '%s' && mkdir -p mal/split_info_tiny/type pyg && for c in addisplay benign; do "
             "mkdir -p mal/malnet-graphs-tiny/$c/x; for i in 1 2; do printf '0 1\\n1 2\\n' > "
             "mal/malnet-graphs-tiny/$c/x/$i.edgelist; echo $c/x/$i >> mal/split_info_tiny/type/train.txt; done; done; "
             "for p in val test; do echo benign/x/1 > mal/split_info_tiny/type/$p.txt; done; cp -r mal pyg/raw",
             scratch_dir);
    assert_int_equal(system(line), 0);
    for (int i = 0; i < 3; i++)
        says(run("train --model graphmamba-malnet --set layers=1,width=8 --graphs 4 --steps 1 --data '%s/%s'",
                 scratch_dir, paths[i]),
             0, "data: 4 graphs");
    says(run("train --model graphmamba-malnet --graphs 4 --steps 1 --quiet --data '%s/mal/split_info_tiny'",
             scratch_dir),
         1, "as a TUDataset");
}

/* A folder of TUDataset's text: two graphs of two nodes. */
static void tu_files(const char *edges, const char *attributes)
{
    const struct {
        const char *name, *text;
    } file[] = { { "A", edges },
                 { "graph_indicator", "1\n1\n2\n2\n" },
                 { "graph_labels", "0\n1\n" },
                 { "node_attributes", attributes } };
    mkdir(scratch("T"), 0777);
    for (int i = 0; i < 4; i++) {
        char path[600];
        snprintf(path, sizeof path, "%s/T/T_%s.txt", scratch_dir, file[i].name);
        put(path, file[i].text);
    }
}

#define TU \
    "train --model graphmamba-mnist --set layers=1,width=8,node_reals=2,edge_reals=0,outputs=2,pe_count=0," \
    "pe_width=0 --graphs 2 --steps 2 --quiet"

static void bad_graphs_are_told(void **state)
{
    (void)state;
    tu_files("1,2\n2,1\n3,4\n4,3\n", "0,1\n1,0\n1,1\n0,0\n");
    says(run(TU " --data '%s/T'", scratch_dir), 0, "2 steps");
    tu_files("1,2\n2,9\n3,4\n4,3\n", "0,1\n1,0\n1,1\n0,0\n");
    says(run(TU " --data '%s/T'", scratch_dir), 1, "T_A.txt");
    tu_files("1,2\n2,1\n3,4\n4,3\n", "0,1\nnan,0\n1,1\n0,0\n");
    says(run(TU " --data '%s/T'", scratch_dir), 1, "T_node_attributes.txt");
    says(run("train " GRAPH " --steps 1 --data '%s/nowhere' --quiet", scratch_dir), 1, "nowhere");
    says(run("train " GRAPH " --nodes 20 --edges 20 --steps 1 --quiet"), 2, "room for 20 nodes");
}

#define SMALL_GRAPHS " --set layers=1,width=24%s --graphs 2 --steps 1 --data '%s/T'"

/* A preset becomes what the data asks for and says so; what --set says instead is refused with a fix that works. */
static void graph_presets_follow_their_data(void **state)
{
    (void)state;
    static const char *const models[] = { "peptides-func", "mnist", "pattern", "voc", "malnet" };
    static const struct {
        const char *set, *why, *fix;
    } wrong[] = {
        { ",node_reals=3", "nodes have 2 features, the model reads 3",
          "leave node_reals and node_tables out of --set" },
        { ",edge_reals=1", "edges have 0 features, the model reads 1",
          "leave edge_reals and edge_tables out of --set" },
        { ",outputs=1", "a label is one of 2 classes, loss=ce with outputs=1", "leave outputs out of --set" },
        { ",loss=l1", "a label is one of 2 classes, loss=l1", "leave loss out of --set" },
        { ",loss=bce,outputs=3", "loss=bce with outputs=3 takes 3 times 0 or 1",
          "leave loss and outputs out of --set" },
        { ",readout=nodes", "labels belong to graphs, the model's results to nodes", "leave readout out of --set" },
    };
    tu_files("1,2\n2,1\n3,4\n4,3\n", "0,1\n1,0\n1,1\n0,0\n");
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        says(run("train --model graphmamba-%s" SMALL_GRAPHS, models[i], "", scratch_dir), 0,
             "from the data: node_reals=2");
    says(run("train --model graphmamba-mnist" SMALL_GRAPHS, "", scratch_dir), 0, "edge_reals=0, outputs=2");
    says(run("train --model graphmamba-peptides-func" SMALL_GRAPHS, "", scratch_dir), 0, "outputs=2, loss=ce");
    says(run("train --model graphmamba-voc" SMALL_GRAPHS, "", scratch_dir), 0, "readout=mean; no validation part");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        says(run("train --model graphmamba-mnist" SMALL_GRAPHS, wrong[i].set, scratch_dir), 2, wrong[i].why);
        assert_non_null(strstr(output, wrong[i].fix));
    }
    says(run("train --model graphmamba-mnist" SMALL_GRAPHS " --nodes 1", "", scratch_dir), 2, "--nodes 2 --edges 1200");
    says(run("train --model graphmamba-mnist" SMALL_GRAPHS " --out '%s/tu' --quiet", "", scratch_dir, scratch_dir), 0,
         "1 steps");
    says(run("eval --checkpoint '%s/tu' --data '%s/T' --max-graphs 2 --nodes 9 --edges 9", scratch_dir, scratch_dir), 0,
         "over 2 targets");
}

/* PyTorch Geometric: the text files in raw/ are read, pickles alone are refused with the command that converts them. */
static void folders_of_pytorch_geometric_are_told_apart(void **state)
{
    (void)state;
    char line[2048];
    tu_files("1,2\n2,1\n3,4\n4,3\n", "0,1\n1,0\n1,1\n0,0\n");
    snprintf(line, sizeof line,
             "cd '%s' && mkdir -p P/processed && mv T P/raw && cd P/processed && touch pre_filter.pt data.pt",
             scratch_dir);
    assert_int_equal(shell(line), 0);
    says(run("train --model graphmamba-mnist --set layers=1,width=24 --graphs 2 --steps 1 --data '%s/P'", scratch_dir),
         0, "from the data: node_reals=2");
    snprintf(line, sizeof line, "rm -r '%s/P/raw'", scratch_dir);
    assert_int_equal(shell(line), 0);
    says(run("train --model graphmamba-mnist --steps 1 --data '%s/P'", scratch_dir), 1, "tools/pyg_to_graphpk.py");
    assert_non_null(strstr(output, "P/processed/data.pt, then --data"));
    says(run("data inspect '%s/P'", scratch_dir), 1, "tools/pyg_to_graphpk.py");
    says(run("train --model graphmamba-mnist --steps 1 --data '%s/P/processed/data.pt'", scratch_dir), 1,
         "is a Python pickle");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_evaluating_and_generating_work_together),
        cmocka_unit_test(images_train_and_evaluate),
        cmocka_unit_test(a_network_of_the_hub_is_evaluated_trained_and_written),
        cmocka_unit_test(a_pickle_is_refused_with_the_command_that_converts_it),
        cmocka_unit_test(the_script_converts_what_timm_saves),
        cmocka_unit_test(graphs_train_and_evaluate),
        cmocka_unit_test(graph_checkpoints_have_the_published_names),
        cmocka_unit_test(malnet_is_found_where_it_lies),
        cmocka_unit_test(bad_graphs_are_told),
        cmocka_unit_test(graph_presets_follow_their_data),
        cmocka_unit_test(folders_of_pytorch_geometric_are_told_apart),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
