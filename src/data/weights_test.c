// SPDX-License-Identifier: Apache-2.0
/* weights_test.c -- weights in one file or in several shards, and indexes that contradict the shards. */
#include "tests/test.h"
#include "tests/scratch.h"
#include "core/file.h"
#include "data/weights.h"

#include <limits.h>

#define DATA "tests/data/formats/"

static void copy_to(const char *from, const char *to)
{
    mba_map     map;
    mba_writer *w;
    assert_ok(mba_file_map(&map, from));
    assert_ok(mba_writer_create(&w, to));
    assert_ok(mba_writer_put(w, map.data, map.bytes));
    assert_ok(mba_writer_commit(w));
    mba_writer_destroy(w);
    mba_file_unmap(&map);
}

/* Writes model.safetensors.index.json of the scratch with this weight_map. */
static void write_index(const char *format, const char *inside)
{
    char        text[1024];
    mba_writer *w;
    snprintf(text, sizeof text, format, inside);
    assert_ok(mba_writer_create(&w, scratch("model.safetensors.index.json")));
    assert_ok(mba_writer_put(w, text, strlen(text)));
    assert_ok(mba_writer_commit(w));
    mba_writer_destroy(w);
}

static void assert_refused(mba_status code, const char *map, const char *words)
{
    mba_weights *w = NULL;
    write_index("{\"weight_map\": {%s}}", map);
    assert_fails(mba_weights_open(&w, scratch_dir), code, words);
    assert_null(w);
    assert_non_null(strstr(mba_message(), "model.safetensors.index.json'"));
    assert_non_null(strstr(mba_message(), "\nfix: "));
}

static void assert_values(const mba_weights *w, const char *name, int64_t n, float first)
{
    float            x[8];
    const mba_array *a = mba_weights_find(w, name);
    assert_non_null(a);
    assert_ok(mba_array_read_f32(a, x, n));
    assert_true(x[0] == first);
}

static void shards_look_like_one_file(void **state)
{
    (void)state;
    mba_weights *w;
    assert_ok(mba_weights_open(&w, DATA "sharded"));
    assert_int_equal(mba_weights_count(w), 3);
    assert_string_equal(mba_weights_at(w, 0)->name, "embed");
    assert_string_equal(mba_weights_at(w, 1)->name, "head");
    assert_string_equal(mba_weights_at(w, 2)->name, "norm");
    assert_values(w, "embed", 4, 0);
    assert_values(w, "head", 4, 10);
    assert_values(w, "norm", 2, 1);
    assert_null(mba_weights_find(w, "tail"));
    assert_non_null(strstr(mba_weights_find(w, "head")->file, "model-00002-of-00002"));
    mba_weights_close(w);
    mba_weights_close(NULL);
}

static void a_single_file_is_found_and_preferred(void **state)
{
    (void)state;
    mba_weights *w;
    copy_to(DATA "types.safetensors", scratch("model.safetensors"));
    write_index("%s", "{}"); // not even looked at
    assert_ok(mba_weights_open(&w, scratch_dir));
    assert_int_equal(mba_weights_count(w), 11);
    assert_values(w, "f32", 6, -1);
    for (int64_t i = 1; i < 11; i++)
        assert_true(strcmp(mba_weights_at(w, i - 1)->name, mba_weights_at(w, i)->name) < 0);
    mba_weights_close(w);
    unlink(scratch("model.safetensors"));
}

static void tensors_the_index_does_not_name_are_left_aside(void **state)
{
    (void)state;
    mba_weights *w;
    copy_to(DATA "sharded/model-00001-of-00002.safetensors", scratch("a.safetensors"));
    copy_to(DATA "sharded/model-00001-of-00002.safetensors", scratch("b.safetensors"));
    write_index("{\"weight_map\": {%s}}", "\"norm\": \"b.safetensors\"");
    assert_ok(mba_weights_open(&w, scratch_dir));
    assert_int_equal(mba_weights_count(w), 1);
    assert_null(mba_weights_find(w, "embed"));
    mba_weights_close(w);
    // The same names in two shards: the map decides.
    write_index("{\"weight_map\": {%s}}", "\"norm\": \"b.safetensors\", \"embed\": \"a.safetensors\"");
    assert_ok(mba_weights_open(&w, scratch_dir));
    assert_non_null(strstr(mba_weights_find(w, "norm")->file, "b.safetensors"));
    assert_non_null(strstr(mba_weights_find(w, "embed")->file, "a.safetensors"));
    mba_weights_close(w);
}

static void indexes_that_lie_are_refused(void **state)
{
    (void)state;
    const mba_status bad = MBA_E_FORMAT;
    copy_to(DATA "sharded/model-00001-of-00002.safetensors", scratch("a.safetensors"));
    assert_refused(bad, "",
                   "names no tensor\nwhy: \"weight_map\" should be an object that maps tensors to shards, "
                   "and is empty");
    assert_refused(bad, "\"norm\": 1", "maps tensor \"norm\" to a whole number");
    assert_refused(bad, "\"norm\": null", "maps tensor \"norm\" to null");
    assert_refused(MBA_E_IO, "\"norm\": \"c.safetensors\"", "No such file");
    assert_non_null(strstr(mba_message(), "where: shard \"c.safetensors\" of "));
    assert_refused(bad, "\"embed\": \"a.safetensors\", \"head\": \"a.safetensors\"",
                   "tensor \"head\" is not in the shard \"a.safetensors\"");
    assert_refused(bad, "\"norm\": \"a.safetensors\", \"norm\": \"a.safetensors\"", "duplicate object key");
    assert_refused(bad, "\"norm\": ", "line 1, column");
    mba_weights *w = NULL;
    write_index("{%s}", "");
    assert_fails(mba_weights_open(&w, scratch_dir), bad, "and is absent");
    write_index("{\"weight_map\": %s}", "[1]");
    assert_fails(mba_weights_open(&w, scratch_dir), bad, "and is a list");
    write_index("%s", "[]");
    assert_fails(mba_weights_open(&w, scratch_dir), bad, "should be an object");
}

static void a_broken_shard_is_named(void **state)
{
    (void)state;
    copy_to(DATA "f32.npy", scratch("broken.safetensors"));
    assert_refused(MBA_E_FORMAT, "\"norm\": \"broken.safetensors\"",
                   "broken.safetensors' is not a valid safetensors file");
    assert_non_null(strstr(mba_message(), "where: shard \"broken.safetensors\""));
}

static void shard_names_cannot_lead_elsewhere(void **state)
{
    (void)state;
    const char *const tricks[] = { "../a.safetensors",
                                   "/etc/a.safetensors",
                                   "sub/a.safetensors",
                                   "..\\\\a.safetensors",
                                   "..",
                                   ".safetensors",
                                   ".a.safetensors",
                                   "",
                                   "a.bin",
                                   "a.safetensors/",
                                   "a.safetensors\\n",
                                   "\\ta.safetensors",
                                   "config.json" };
    for (size_t i = 0; i < sizeof tricks / sizeof *tricks; i++) {
        char map[128];
        snprintf(map, sizeof map, "\"norm\": \"%s\"", tricks[i]);
        assert_refused(MBA_E_FORMAT, map, "a plain name that ends in .safetensors");
    }
    char name[400], map[500];
    memset(name, 'a', sizeof name);
    strcpy(name + 380, ".safetensors");
    snprintf(map, sizeof map, "\"norm\": \"%s\"", name);
    assert_refused(MBA_E_FORMAT, map, "a plain name that ends in .safetensors");
}

static void every_truncation_of_the_index_is_refused(void **state)
{
    (void)state;
    mba_map      map;
    mba_weights *w = NULL;
    assert_ok(mba_file_map(&map, DATA "sharded/model.safetensors.index.json"));
    for (size_t n = 0; n + 1 < map.bytes; n++) { // the last byte is a newline after the end
        char *cut = malloc(n ? n : 1);
        memcpy(cut, map.data, n);
        assert_int_equal(mba__weights_from_index(&w, "cut", cut, n, NULL, NULL), MBA_E_FORMAT);
        free(cut);
    }
    mba_file_unmap(&map);
}

static void an_empty_directory_tells_what_it_lacks(void **state)
{
    (void)state;
    mba_weights *w = NULL;
    assert_ok(mba_mkdirs(scratch("old")));
    assert_fails(mba_weights_open(&w, scratch("old")), MBA_E_IO,
                 "neither model.safetensors nor model.safetensors.index.json");
    assert_fails(mba_weights_open(&w, scratch("none")), MBA_E_IO, "there is no such directory");
    copy_to(DATA "f32.npy", scratch("old/pytorch_model.bin"));
    assert_fails(mba_weights_open(&w, scratch("old")), MBA_E_FORMAT, "pytorch_model.bin' is a PyTorch pickle");
    assert_fails(mba_weights_open(&w, DATA "f32.npy"), MBA_E_IO, "it is a file");
}

/* Each pickle alone in a directory, and as a path. Files that a trainer or a loader keeps beside weights are not
 * weights. */
static void pickles_get_the_command_that_converts_them(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool        inside, itself;
    } file[] = {
        { "mambavision_tiny_1k.pth.tar", true, true },
        { "model.pth", true, true },
        { "model.pt", true, true },
        { "last.ckpt", true, true },
        { "pytorch_model.bin", true, true },
        { "pytorch_model-00001-of-00002.bin", true, true },
        { "optimizer.pt", false, true },
        { "tokens_00000.bin", false, true },
        { "README.md", false, false },
        { "weights.npy", false, false },
    };
    for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
        char         directory[64], path[PATH_MAX], line[PATH_MAX + 64];
        mba_weights *w = NULL;
        snprintf(directory, sizeof directory, "pickle%zu", i);
        assert_ok(mba_mkdirs(scratch(directory)));
        snprintf(path, sizeof path, "%s/%s", scratch(directory), file[i].name);
        copy_to(DATA "f32.npy", path);
        snprintf(line, sizeof line, "\nfix: python3 tools/convert_checkpoint.py '%s' OUT", path);
        if (file[i].itself) assert_fails(mba_weights_no_pickle(path), MBA_E_FORMAT, line);
        else assert_ok(mba_weights_no_pickle(path));
        snprintf(line, sizeof line, "\nfix: python3 tools/convert_checkpoint.py '%s' OUT", scratch(directory));
        assert_fails(mba_weights_open(&w, scratch(directory)), file[i].inside ? MBA_E_FORMAT : MBA_E_IO,
                     file[i].inside ? line : "neither model.safetensors");
    }
    assert_ok(mba_weights_no_pickle(scratch("there is no such thing.pth")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_look_like_one_file),
        cmocka_unit_test(a_single_file_is_found_and_preferred),
        cmocka_unit_test(tensors_the_index_does_not_name_are_left_aside),
        cmocka_unit_test(indexes_that_lie_are_refused),
        cmocka_unit_test(a_broken_shard_is_named),
        cmocka_unit_test(shard_names_cannot_lead_elsewhere),
        cmocka_unit_test(every_truncation_of_the_index_is_refused),
        cmocka_unit_test(an_empty_directory_tells_what_it_lacks),
        cmocka_unit_test(pickles_get_the_command_that_converts_them),
    };
    scratch_make();
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove();
    return failures;
}
