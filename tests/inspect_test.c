// SPDX-License-Identifier: Apache-2.0
/* inspect_test.c -- `mambascope data inspect`: every format recognised by its content, the whole text of the answer,
 * its JSON, and one clear error for what is damaged. */
#include <limits.h>

#include "cli/inspect.h"
#include "data/graph_pack.h"
#include "tests/images.h"
#include "tests/program.h"

/* All of it happens in the scratch directory, where tests/ is what it is elsewhere. */
static int inspect(const char *what) { return run("data inspect %s", what); }

/* The whole answer. */
static void gives(const char *what, const char *text)
{
    says(inspect(what), 0, "");
    assert_string_equal(output, text);
}

static void put_bytes(const char *name, const void *bytes, size_t n)
{
    char path[512];
    snprintf(path, sizeof path, "%s", scratch(name));
    for (char *slash = path + strlen(scratch_dir) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        mkdir(path, 0777);
    }
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void put_text(const char *name, const char *text) { put_bytes(name, text, strlen(text)); }

static void put_jpeg(const char *name, const char *golden)
{
    size_t n;
    char  *bytes = golden_bytes(&n, golden);
    put_bytes(name, bytes, n);
    free(bytes);
}

/* ---- text and tokens ---- */

static void put_tokens(void)
{
    static const uint16_t bare[] = { 50256, 1, 2, 3, 50256, 4, 50256, 5, 6, 7, 8 };
    put_bytes("bare.bin", bare, sizeof bare);
}

static void put_texts(void)
{
    put_text("plain.md", "caf\xc3\xa9\n\nlast");
    put_text("lines", "{\"text\": \"abc\", \"id\": 1}\n\n{\"text\": \"\\u00e9\"}\n{\"id\": 3}\n");
}

static void tokens_show_documents(void **state)
{
    (void)state;
    put_tokens();
    gives("bare.bin", "bare.bin: bare tokens (nanoGPT; no header) of 2 bytes\n"
                      "  format               tokens\n"
                      "  bytes                22\n"
                      "  bytes per token      2\n"
                      "  begins               50256 1 2 3 50256 4 50256 5 6 7 8\n"
                      "  files                1\n"
                      "  tokens               11\n"
                      "  largest token        50256\n"
                      "  end of text          50256\n"
                      "  documents            3\n"
                      "  document tokens      min 1, mean 2.66667, max 4\n"
                      "    1                             1 ################################\n"
                      "    2 .. 3                        1 ################################\n"
                      "    4 .. 7                        1 ################################\n");
    put_text("a.txt", "two words\n");
    put_text("b.txt", "one\n");
    assert_int_equal(run("data prepare --out shards --shard 9 a.txt b.txt"), 0);
    gives("shards", "shards: llm.c tokens of 2 bytes\n"
                    "  format               tokens\n"
                    "  bytes per token      2\n"
                    "  tokenizer            bytes\n"
                    "  vocab                257\n"
                    "  source               a.txt and 1 more\n"
                    "  synthetic            no\n"
                    "  begins               256 116 119 111 32 119 111 114 100\n"
                    "  files                2\n"
                    "  tokens               16\n"
                    "  largest token        256\n"
                    "  end of text          256\n"
                    "  documents            2\n"
                    "  document tokens      min 4, mean 7, max 10\n"
                    "    4 .. 7                        1 ################################\n"
                    "    8 .. 15                       1 ################################\n");
}

static void text_and_json_lines_show_lengths(void **state)
{
    (void)state;
    put_texts();
    gives("plain.md", "plain.md: plain text, one document\n"
                      "  format               text\n"
                      "  bytes                11\n"
                      "  lines                3\n"
                      "  utf8                 yes\n"
                      "  line bytes           min 0, mean 3, max 5\n"
                      "    0                             1 ################\n"
                      "    1                             0\n"
                      "    2 .. 3                        0\n"
                      "    4 .. 7                        2 ################################\n");
    gives("lines", "lines: JSON lines, one document each\n"
                   "  format               json-lines\n"
                   "  bytes                55\n"
                   "  lines                4\n"
                   "  keys\n"
                   "    text                 2\n"
                   "    id                   2\n"
                   "  field                text\n"
                   "  documents            2\n"
                   "  lines without text   1\n"
                   "  document bytes       min 2, mean 2.5, max 3\n"
                   "    2 .. 3                        2 ################################\n");
    says(inspect("--field id lines"), 0, "documents            0\n  lines without text   3\n");
}

static void tokenizers_and_arrays_are_described(void **state)
{
    (void)state;
    says(inspect("tests/data/tokenizer/gpt2.json"), 0,
         "  vocab                400\n  end of text          0\n  tokens               400\n");
    says(inspect("tests/data/formats/f32.npy"), 0,
         "  dtype                F32\n  shape                2 3\n  values               6\n"
         "  value                min -1, mean -0.375, max 0.25\n  not finite           0\n");
    says(inspect("tests/data/formats/types.safetensors"), 0,
         "  tensors              11\n  values               40\n  tensor bytes         158\n");
    assert_non_null(strstr(output, "    BF16 (6)                bf16\n"));
    says(inspect("tests/data/formats/sharded"), 0, "  format               checkpoint\n  tensors              3\n");
    says(inspect("tests/data/formats/bool.npy"), 1, "its type is '|b1'");
}

/* ---- images ---- */

/* Record r: label r mod 10, left half dark, right half light. */
static void put_cifar(const char *name, int records, int labels)
{
    static uint8_t bytes[40 * 3074];
    for (int r = 0; r < records; r++) {
        uint8_t *p = bytes + r * (3072 + labels);
        if (labels == 2) *p++ = (uint8_t)(r % 20);
        *p++ = (uint8_t)(r % 10);
        for (int i = 0; i < 3072; i++) p[i] = i % 32 < 16 ? 0 : (uint8_t)(255 - 100 * (i / 1024));
    }
    put_bytes(name, bytes, (size_t)records * (size_t)(3072 + labels));
}

static void cifar_is_counted_and_drawn(void **state)
{
    (void)state;
    put_cifar("test_batch.bin", 12, 1);
    says(inspect("test_batch.bin"), 0, "");
    static const char facts[] = "test_batch.bin: CIFAR-10, binary version\n"
                                "  format               cifar-10\n"
                                "  bytes                36876\n"
                                "  images               12\n"
                                "  width                32\n"
                                "  height               32\n"
                                "  sampled              12\n"
                                "  damaged              0\n"
                                "  classes              10\n"
                                "  class counts\n"
                                "    0                             2 ################################\n"
                                "    1                             2 ################################\n"
                                "    2                             1 ################\n";
    assert_memory_equal(output, facts, strlen(facts));
    const char *picture = strstr(output, "    9                             1 ################\n");
    assert_non_null(picture);
    picture = strchr(picture, '\n') + 1;
    for (int row = 0; row < 12; row++, picture = strchr(picture, '\n') + 1)
        assert_memory_equal(picture, "              ************              ************              ************\n",
                            79);
    assert_string_equal(picture, "  class 0                   class 1                   class 2\n");
    put_cifar("hundred/train.bin", 5, 2);
    says(inspect("hundred"), 0,
         "hundred: CIFAR-100, binary version\n  format               cifar-100\n  training\n"
         "    images               5\n");
    assert_null(strstr(output, "held out"));
}

static void mnist_pairs_and_single_files_are_read(void **state)
{
    (void)state;
    static const uint8_t images[] = { 0, 0, 8,   3, 0, 0,   0, 2, 0, 0,   0,   2, 0,   0,
                                      0, 3, 255, 0, 0, 255, 0, 0, 0, 128, 255, 0, 128, 255 };
    static const uint8_t labels[] = { 0, 0, 8, 1, 0, 0, 0, 2, 1, 0 };
    put_bytes("mnist/t10k-images-idx3-ubyte", images, sizeof images);
    put_bytes("mnist/t10k-labels-idx1-ubyte", labels, sizeof labels);
    says(inspect("mnist"), 0,
         "mnist: images and labels in IDX files (MNIST)\n  format               mnist\n  held out\n"
         "    images               2\n    width                3\n    height               2\n");
    gives("mnist/t10k-labels-idx1-ubyte", "mnist/t10k-labels-idx1-ubyte: one IDX array (a file of MNIST)\n"
                                          "  format               idx\n"
                                          "  bytes                10\n"
                                          "  dtype                U8\n"
                                          "  shape                2\n"
                                          "  values               2\n"
                                          "  value                min 0, mean 0.5, max 1\n"
                                          "  class counts\n"
                                          "    0                             1 ################################\n"
                                          "    1                             1 ################################\n");
    says(inspect("mnist/t10k-images-idx3-ubyte"), 0, "  shape                2 2 3\n");
    assert_non_null(strstr(output, "\n  @                          +@\n  image 0                   image 1\n"));
    put_bytes("mnist/t10k-images-idx3-ubyte", images, sizeof images - 1);
    says(inspect("mnist"), 1, "12 values of 1 bytes, 11 bytes are there");
    says(inspect("mnist/t10k-images-idx3-ubyte"), 1, "12 values of 1 bytes, 11 bytes are there");
}

static void folders_and_shards_show_classes_and_damage(void **state)
{
    (void)state;
    put_jpeg("photos/train/cat/a.jpg", "420.jpg");
    put_jpeg("photos/train/cat/b.jpg", "grey.jpg");
    put_jpeg("photos/train/dog/c.jpeg", "444.jpg");
    put_text("photos/train/dog/d.jpg", "\xff\xd8 no more");
    assert_int_equal(symlink("nowhere", scratch("photos/train/dog/e.jpg")), 0);
    put_jpeg("photos/val/cat/e.jpg", "420.jpg");
    put_jpeg("photos/val/dog/f.jpg", "420.jpg");
    says(inspect("photos"), 0, "");
    static const char start[] = "photos: images, a folder per class\n"
                                "  format               image-folder\n"
                                "  training\n"
                                "    images               5\n"
                                "    width                min 61, mean 61, max 61\n"
                                "    height               min 47, mean 47, max 47\n";
    assert_memory_equal(output, start, strlen(start));
    assert_non_null(strstr(output,
                           "    sampled              5\n    jpeg                 3\n    damaged              2\n"
                           "    first damaged        photos/train/dog/d.jpg\n    classes              2\n"));
    assert_non_null(strstr(output, "      cat                           2 ######################\n"
                                   "      dog                           3 ################################\n"));
    assert_non_null(strstr(output, "  held out\n    images               2\n"));
    assert_non_null(strstr(output, "\n  cat                       cat                       dog\n"));
    put_jpeg("half/train/cat/a.png", "really.png"); // no val/: train/ is no class
    put_jpeg("half/train/dog/b.jpg", "420.jpg");
    says(inspect("half"), 0,
         "half: images, a folder per class\n  format               image-folder\n  training\n"
         "    images               2\n");
    assert_non_null(
        strstr(output, "    jpeg                 1\n    png                  1\n    damaged              0\n"));
    assert_null(strstr(output, "held out"));
    put_jpeg("held/val/cat/a.png", "really.png");
    says(inspect("held"), 0, "  format               image-folder\n  held out\n    images               1\n");
    assert_int_equal(shell("mkdir t s && cp photos/train/cat/a.jpg t/a.jpg && cp photos/train/cat/b.jpg t/b.jpg && "
                           "printf 3 > t/a.cls &&"
                           " printf 1 > t/b.cls && (cd t && tar --format=ustar -cf ../s/x-0.tar a.jpg a.cls &&"
                           " tar --format=ustar -cf ../s/x-1.tar b.jpg b.cls)"),
                     0);
    says(inspect("s"), 0,
         "s: WebDataset shards (tar)\n  format               webdataset\n  training\n    images               2\n");
    assert_null(strstr(output, "held out"));
    says(inspect("'s/x-*.tar'"), 0, "    images               2\n");
    says(inspect("s/x-0.tar"), 0, "  images               1\n");
    assert_non_null(strstr(output, "    3                             1 ################################\n"));
    assert_int_equal(shell("head -c 1536 s/x-0.tar > s/x-2.tar"), 0);
    says(inspect("s"), 1, "x-2.tar' is not a valid tar archive");
    says(inspect("peptides-func"), 0,
         "peptides-func: the first 500 graphs of a generated collection, SYNTHETIC\n"
         "  format               synthetic-graphs\n  graphs               500\n");
    says(inspect("shapes"), 0,
         "shapes: ten classes of shapes, SYNTHETIC\n  format               shapes\n  training\n"
         "    images               50000\n");
    assert_non_null(strstr(output, "      disc                       5000 ################################\n"));
    assert_int_equal(shell("mkdir photos/train/empty"), 0);
    says(inspect("photos"), 1, "the class folder 'photos/train/empty' has no images");
}

/* ---- graphs ---- */

static void put_tu(const char *edges)
{
    put_text("DS/DS_A.txt", edges);
    put_text("DS/DS_graph_indicator.txt", "1\n1\n1\n2\n2\n");
    put_text("DS/DS_graph_labels.txt", "-1\n1\n");
    put_text("DS/DS_node_attributes.txt", "0.5\n1\n2\n3\n4\n");
}

static void put_ogb(const char *features)
{
    put_text("ogb/raw/num-node-list.csv", "3\n2\n");
    put_text("ogb/raw/num-edge-list.csv", "2\n1\n");
    put_text("ogb/raw/edge.csv", "0,1\n1,2\n0,1\n");
    put_text("ogb/raw/node-feat.csv", features);
    put_text("ogb/raw/graph-label.csv", "1\n0\n");
    put_text("ogb/split/scaffold/train.csv", "1\n");
    put_text("ogb/split/scaffold/valid.csv", "");
    put_text("ogb/split/scaffold/test.csv", "0\n");
}

static void graphs_show_sizes_degrees_and_classes(void **state)
{
    (void)state;
    put_tu("1, 2\n2, 1\n2, 3\n3, 2\n4, 5\n5, 4\n");
    gives("DS", "DS: a TUDataset in text files\n"
                "  format               tu-dataset\n"
                "  graphs               2\n"
                "  nodes                5\n"
                "  edges                6\n"
                "  undirected           yes\n"
                "  node features        1\n"
                "  node feature type    f32\n"
                "  edge features        0\n"
                "  nodes per graph      min 2, mean 2.5, max 3\n"
                "  edges per graph      min 2, mean 3, max 4\n"
                "  out degree           min 1, mean 1.2, max 2\n"
                "    1                             4 ################################\n"
                "    2 .. 3                        1 ########\n"
                "  labels of            graphs\n"
                "  label width          1\n"
                "  labels missing       0\n"
                "  classes              2\n"
                "  class counts\n"
                "    0                             1 ################################\n"
                "    1                             1 ################################\n");
    put_ogb("5,0\n6,1\n7,2\n5,0\n5,1\n");
    says(inspect("ogb"), 0,
         "  format               ogb-csv\n  split scheme         scaffold\n  graphs               2\n"
         "  nodes                5\n  edges                3\n");
    assert_non_null(
        strstr(output,
               "  split\n    train                1\n    valid                0\n    test                 1\n"));
    put_text("malnet/benign/x/1.edgelist", "# a comment\n7 9\n9 9\n7 12\n");
    put_text("malnet/trojan/y/2.edgelist", "0 1\n");
    says(inspect("malnet"), 0,
         "malnet: MalNet call graphs as edge lists\n  format               malnet\n  graphs               2\n"
         "  nodes                5\n  edges                4\n");
    assert_non_null(strstr(output, "    2                             1 ################################\n    3"
                                   "                             0\n    4                             1"));
    says(inspect("malnet/benign/x/1.edgelist"), 0,
         "  format               edge-list\n  bytes                25\n"
         "  graphs               1\n  nodes                3\n");
    assert_null(strstr(output, "class"));
    says(inspect("tests/data/graphs/python.graphpk"), 0,
         "  format               graphpk\n  bytes                834\n  graphs               2\n");
}

/* ---- JSON and errors ---- */

static void has_keys(const char *what, const char *const *keys)
{
    char line[512];
    snprintf(line, sizeof line, "%s --json", what);
    says(inspect(line), 0, "");
    json_t *j = json_output();
    for (; *keys; keys++) {
        if (!json_object_get(j, *keys)) print_error("no \"%s\" of %s in:\n%s\n", *keys, what, output);
        assert_non_null(json_object_get(j, *keys));
    }
    json_decref(j);
}

static void json_has_the_documented_keys(void **state)
{
    (void)state;
    put_tokens();
    put_texts();
    put_cifar("test_batch.bin", 12, 1);
    put_cifar("hundred/train.bin", 5, 2);
    put_tu("1, 2\n");
    has_keys("bare.bin",
             (const char *const[]){ "path", "format", "about", "bytes", "bytes_per_token", "begins", "files", "tokens",
                                    "largest_token", "end_of_text", "documents", "document_tokens", NULL });
    has_keys("lines", (const char *const[]){ "lines", "keys", "field", "documents", "lines_without_text",
                                             "document_bytes", NULL });
    has_keys("plain.md", (const char *const[]){ "lines", "utf8", "line_bytes", NULL });
    has_keys("test_batch.bin", (const char *const[]){ "images", "width", "height", "sampled", "damaged", "classes",
                                                      "class_counts", NULL });
    has_keys("hundred", (const char *const[]){ "format", "training", NULL });
    has_keys("DS", (const char *const[]){ "graphs", "nodes", "edges", "undirected", "node_features", "edge_features",
                                          "nodes_per_graph", "edges_per_graph", "out_degree", "labels_of",
                                          "label_width", "labels_missing", "classes", "class_counts", NULL });
}

static void damage_gives_one_clear_error(void **state)
{
    (void)state;
    put_text("nothing", "");
    put_bytes("odd", "\0\1\2", 3);
    put_text("half.jsonl", "{\"text\": \"a\"}\n{\"text\": \n");
    put_text("other.json", "{\n \"a\": 1\n}\n");
    put_text("broken.json", "{\n \"a\": \n");
    put_bytes("x.gz", "\x1f\x8b\x08\0", 4);
    put_jpeg("one.jpg", "420.jpg");
    put_bytes("cut.graphpk", "GRAPHPK1\1\0\0\0", 12);
    put_bytes("cut.npy", "\x93NUMPY\1\0", 8);
    put_bytes("cut.safetensors", "\x40\0\0\0\0\0\0\0{\"a\":", 13);
    put_bytes("huge.safetensors", "\0\0\0\0\0\0\0\x10{\"a\":1}", 16); // like tokens
    put_text("text.safetensors", "AAAAAAAA{\"a\":1}\n");              // like text
    put_text("text.npy", "hello world\n");
    put_text("loops.edgelist", "4 4\n");
    put_bytes("torch/pytorch_model.bin", "PK\3\4....", 8);
    assert_int_equal(shell("mkdir bare_folder"), 0);
    put_tu("1, 2\n2, 6\n");
    put_ogb("5,0\n6,1\n7,nan\n5,0\n5,1\n");
    static const struct {
        const char *what, *words;
    } table[] = {
        { "nowhere", "nowhere" },
        { "nothing", "'nothing' is empty" },
        { "odd", "match no known format, and 3 bytes" },
        { "half.jsonl", "line 2 is not a JSON object" },
        { "other.json", "neither JSON lines nor a tokenizer.json" },
        { "broken.json", "broken.json" },
        { "x.gz", "'x.gz' cannot be unpacked" },
        { "one.jpg", "one JPEG image" },
        { "cut.graphpk", "cut.graphpk" },
        { "cut.npy", "cut.npy" },
        { "cut.safetensors", "cut.safetensors" },
        { "huge.safetensors", "header length" },
        { "text.safetensors", "header length" },
        { "text.npy", "not a valid .npy" },
        { "loops.edgelist", "has no nodes" },
        { "bare_folder", "no class folders" },
        { "torch", "a ZIP archive (.npz, .pt)" },
        { "DS", "goes to a node that is not there" },
        { "ogb", "'nan' stands for a value that is not a number" },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        says(inspect(table[i].what), 1, table[i].words);
        assert_memory_equal(output, "error: ", 7); // and nothing before it
        assert_null(strstr(output + 1, "error: "));
        assert_non_null(strstr(output, "why: "));
        /* Again in this process: what an error leaves behind, the search at its end finds, once for all of them. */
        assert_int_not_equal(mba_inspect(scratch(table[i].what), &(mba_inspect_options){ 0 }), MBA_OK);
    }
    says(inspect(""), 2, "data inspect PATH");
}

/* Every format in one process, in both ways. */
static void several_paths_are_answered_in_turn(void **state)
{
    (void)state;
    static const char all[] =
        "bare.bin plain.md lines test_batch.bin photos DS malnet tests/data/tokenizer/gpt2.json "
        "tests/data/formats/f32.npy tests/data/formats/types.safetensors tests/data/formats/sharded "
        "tests/data/graphs/python.graphpk";
    char json[512];
    put_tokens();
    put_texts();
    put_cifar("test_batch.bin", 12, 1);
    put_tu("1, 2\n");
    put_jpeg("photos/train/cat/a.jpg", "420.jpg");
    rmdir(scratch("photos/train/empty"));
    put_text("malnet/benign/x/1.edgelist", "7 9\n");
    snprintf(json, sizeof json, "%s --json", all);
    runs_per_leak_search = 1;
    says(inspect(all), 0, "");
    assert_int_equal(strncmp(output, "bare.bin: ", 10), 0);
    assert_non_null(strstr(output, "python.graphpk: graphs in one file (GRAPHPK1)\n"));
    says(inspect(json), 0, "");
    runs_per_leak_search = 0;
}

static int start(void **state)
{
    char here[PATH_MAX], tests[PATH_MAX + 8];
    (void)state;
    scratch_make();
    runs_per_leak_search = 0; // the last test has one run for all formats
    if (!getcwd(here, sizeof here)) return -1;
    snprintf(tests, sizeof tests, "%s/tests", here);
    return symlink(tests, scratch("tests")) || chdir(scratch_dir);
}

static int end(void **state)
{
    (void)state;
    scratch_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_show_documents),
        cmocka_unit_test(text_and_json_lines_show_lengths),
        cmocka_unit_test(tokenizers_and_arrays_are_described),
        cmocka_unit_test(cifar_is_counted_and_drawn),
        cmocka_unit_test(mnist_pairs_and_single_files_are_read),
        cmocka_unit_test(folders_and_shards_show_classes_and_damage),
        cmocka_unit_test(graphs_show_sizes_degrees_and_classes),
        cmocka_unit_test(json_has_the_documented_keys),
        cmocka_unit_test(damage_gives_one_clear_error),
        cmocka_unit_test(several_paths_are_answered_in_turn),
    };
    return cmocka_run_group_tests(tests, start, end);
}
