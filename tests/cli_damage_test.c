// SPDX-License-Identifier: Apache-2.0
/* cli_damage_test.c -- damaged input, full disks, closed doors and Ctrl-C: one clear error, nothing half-written,
 * nothing lost. */
#include <unistd.h>

#include "core/file.h"
#include "data/image.h"
#include "tests/program.h"

/* Two classes of four JPEG files. */
static void jpeg_folder(const char *name)
{
    mba_image m = { 0 };
    assert_ok(mba_image_reshape(&m, 40, 30));
    for (int i = 0; i < 8; i++) {
        uint8_t *bytes;
        size_t   n;
        char     path[600];
        memset(m.rgb, 20 * i, 40 * 30 * 3);
        assert_ok(mba_jpeg_encode(&bytes, &n, &m, 80));
        snprintf(path, sizeof path, "%s/%s/class%d", scratch_dir, name, i / 4);
        assert_ok(mba_mkdirs(path));
        snprintf(path + strlen(path), 32, "/%d.jpg", i);
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        assert_int_equal(fwrite(bytes, 1, n, f), n);
        fclose(f);
        free(bytes);
    }
    mba_image_free(&m);
}

static void damaged_images_are_counted_and_empty_classes_told(void **state)
{
    (void)state;
    char path[600];
    jpeg_folder("jpegs");
    snprintf(path, sizeof path, "%s/jpegs/class1/5.jpg", scratch_dir);
    put(path, "this is no JPEG");
    says(run("train " VISION " --batch 4 --steps 4 --data '%s/jpegs' --json --quiet", scratch_dir), 0, "left_out");
    assert_true(number("left_out") >= 1);
    says(run("train " VISION " --batch 4 --steps 4 --data '%s/jpegs'", scratch_dir), 0, "5.jpg");
    says(run("train " VISION ",classes=7 --batch 4 --steps 1 --data '%s/jpegs' --quiet", scratch_dir), 2,
         "--set classes=2");
    says(run("train " VISION " --batch 4 --steps 1 --data '%s/jpegs'", scratch_dir), 0, "no validation part");
    says(run("train " VISION " --batch 4 --steps 1 --valid-fraction 0.1 --data '%s/jpegs'", scratch_dir), 0,
         "7 images of 2 classes; others held out evenly by class");
    assert_non_null(strstr(output, "validation 0."));
    says(run("train " VISION " --batch 4 --steps 1 --valid-fraction 0.01 --data '%s/jpegs' --quiet", scratch_dir), 2,
         "0.01 of 8 images is none");
    snprintf(path, sizeof path, "%s/jpegs/class2", scratch_dir);
    assert_ok(mba_mkdirs(path));
    says(run("train " VISION " --batch 4 --steps 1 --data '%s/jpegs' --quiet", scratch_dir), 1, "has no images");
    snprintf(path, sizeof path, "%s/cut.tar", scratch_dir);
    put(path, "not a tar archive, and far too short for one");
    says(run("train " VISION " --batch 4 --steps 1 --data '%s' --quiet", path), 1, "cut.tar");
}

static void ctrl_c_finishes_the_step_and_saves(void **state)
{
    (void)state;
    char line[2048];
    snprintf(line, sizeof line,
             "'%s' train " SMALL " --data '%s/tokens' --steps 1000000 --out '%s/cut' --quiet 2>&1 & p=$!; "
             "while [ ! -s '%s/cut/log.jsonl' ]; do sleep 0.05; done; kill -INT $p; wait $p; echo exit $?",
             getenv("MBA_PROGRAM"), scratch_dir, scratch_dir, scratch_dir);
    shell(line);
    assert_non_null(strstr(output, "exit 0"));
    assert_non_null(strstr(output, "interrupted, saved"));
    assert_int_equal(scratch_entries("cut"), 5); // log, options, the tokenizer (two files), a checkpoint
}

/* A golden checkpoint with one thing changed. */
static void copy_checkpoint(const char *to)
{
    char line[1024];
    snprintf(line, sizeof line, "rm -rf '%s' && cp -r tests/golden/mamba_odd '%s'", to, to);
    assert_int_equal(system(line), 0);
}

/* The first F32 of a safetensors file becomes I32: as many bytes, other numbers. */
static void mislabel(const char *path)
{
    char  head[512];
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fread(head, 1, sizeof head, f), sizeof head);
    const char *at = memmem(head, sizeof head, "\"F32\"", 5);
    assert_non_null(at);
    assert_int_equal(fseek(f, at + 1 - head, SEEK_SET), 0);
    assert_int_equal(fputc('I', f), 'I');
    assert_int_equal(fclose(f), 0);
}

static void damaged_checkpoints_are_told(void **state)
{
    (void)state;
    char dir[300], path[400];
    snprintf(dir, sizeof dir, "%s/bad", scratch_dir);
    static const struct {
        const char *file, *text, *words;
    } table[] = {
        { "config.json", "", "config.json" },
        { "config.json", "{\"model_type\": \"mamba\"", "config.json" },
        { "config.json", "{}", "model_type" },
        { "config.json", "{\"model_type\": \"gpt2\"}", "gpt2" },
        { "config.json", "{\"model_type\": \"mamba\", \"hidden_size\": -3}", "hidden_size" },
        { "config.json", "{\"model_type\": \"mamba\", \"hidden_size\": \"many\"}", "hidden_size" },
        { "config.json",
          "{\"model_type\": \"mamba\", \"hidden_size\": 64, \"num_hidden_layers\": 3, "
          "\"vocab_size\": 61}",
          "but the model needs" },
        { "config.json",
          "{\"model_type\": \"mamba\", \"hidden_size\": 32, \"num_hidden_layers\": 4, "
          "\"vocab_size\": 61}",
          "no tensor" },
        { "config.json",
          "{\"model_type\": \"mamba\", \"hidden_size\": 32, \"num_hidden_layers\": 2, \"vocab_size\": 61}", "tensors" },
        { "model.safetensors", "", "model.safetensors" },
        { "model.safetensors", "nonsense that is not a header at all", "model.safetensors" },
        { "tokens.npy", "not numpy", "tokens.npy" },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        copy_checkpoint(dir);
        snprintf(path, sizeof path, "%s/%s", dir, table[i].file);
        put(path, table[i].text);
        says(run("eval --checkpoint '%s' --tokens '%s/tokens.npy'", dir, dir), 1, table[i].words);
        assert_non_null(strstr(output, "error: "));
    }
    copy_checkpoint(dir);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    assert_int_equal(truncate(path, 9000), 0);
    says(run("eval --checkpoint '%s' --tokens '%s/tokens.npy'", dir, dir), 1, "model.safetensors");
    says(run("eval --checkpoint '%s/nowhere' --tokens '%s/tokens.npy'", dir, dir), 1, "nowhere");
    copy_checkpoint(dir);
    says(run("eval --checkpoint '%s' --tokens tests/golden/mamba_untied/tokens.npy", dir), 1, "vocabulary");
    mislabel(path);
    says(run("eval --checkpoint '%s' --tokens '%s/tokens.npy'", dir, dir), 1, "is stored as I32");
}

static void bad_data_is_told(void **state)
{
    (void)state;
    char path[400];
    snprintf(path, sizeof path, "%s/short.bin", scratch_dir);
    put(path, "a\1");
    says(run("train " SMALL " --data '%s' --quiet", path), 2, "too short");
    says(run("train " SMALL " --data '%s/nowhere' --quiet", scratch_dir), 1, "nowhere");
    says(
        run("train --model mamba2-130m --set width=32,layers=1,vocab=10,state=8,head_dim=16 --batch 1 --length 16 " DATA
            " --quiet",
            scratch_dir),
        2, "vocab");
    says(run("data prepare --out '%s/t2' --tokenizer '%s/short.bin' '%s/short.bin'", scratch_dir, scratch_dir,
             scratch_dir),
         1, "short.bin");
    says(run("data prepare --out '%s/t2' '%s/none.txt'", scratch_dir, scratch_dir), 1, "none.txt");
    assert_int_equal(access(scratch("t2"), F_OK), -1); // nothing half-written
}

/* What was there before stays until what replaces it is complete. */
static void failures_cost_no_file(void **state)
{
    char   store[512], *before, *after;
    size_t n, m;
    (void)state;
    snprintf(store, sizeof store, "%s", scratch("old.db"));
    says(run("export tests/data/stores/v1.db --store '%s'", store), 0, "wrote");
    assert_ok(mba_file_read(&before, &n, store, 1 << 24));
    assert_int_equal(run("profile --out '%s' -- false", store), 1);
    assert_int_not_equal(run("profile " SMALL " --steps 1 --device cuda:99 --out '%s'", store), 0);
    assert_ok(mba_file_read(&after, &m, store, 1 << 24));
    assert_int_equal(n, m);
    assert_memory_equal(before, after, n);
    free(before);
    free(after);
    assert_int_equal(access(scratch("old.db.unfinished"), F_OK), -1);
    put(scratch("there.tsv"), "measured last year");
    if (access("/dev/nvidiactl", F_OK)) { // where there is a GPU it would be used
        assert_int_equal(run("calibrate --emulate '%s/there.tsv'", scratch_dir), 1);
        assert_ok(mba_file_read(&after, &m, scratch("there.tsv"), 1 << 20));
        assert_string_equal(after, "measured last year");
        free(after);
    }
    says(run("export tests/data/stores/v1.db --json /dev/full"), 1, "a device or a pipe");
    says(run("validate --counterfactual /dev/null"), 1, "/dev/null");
}

static void full_disks_and_closed_doors_are_told(void **state)
{
    (void)state;
    says(run("eval --checkpoint tests/golden/mamba_odd --tokens tests/golden/mamba_odd/tokens.npy --logits "
             "/proc/logits.npy"),
         1, "/proc/logits.npy");
    says(run("train " SMALL " " DATA " --steps 2 --out /proc/run --quiet", scratch_dir), 1, "/proc/run");
    put(scratch("file"), "x");
    says(run("train " SMALL " " DATA " --steps 2 --out '%s/file/run' --quiet", scratch_dir, scratch_dir), 1,
         "file/run");
    /* a limit on file sizes stands in for a full disk: the checkpoint fails whole, the log stays readable */
    char line[2048];
    snprintf(line, sizeof line,
             "(ulimit -f 64; trap '' XFSZ; '%s' train " SMALL " --data '%s/tokens' --steps 2 --out '%s/full' --quiet "
             "2>&1; "
             "echo exit $?)",
             getenv("MBA_PROGRAM"), scratch_dir, scratch_dir);
    shell(line);
    says(0, 0, "exit 1");
    says(0, 0, "saving the checkpoint");
    assert_int_equal(scratch_entries("full"), 4); // the log, the options and the tokenizer
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_images_are_counted_and_empty_classes_told),
        cmocka_unit_test(ctrl_c_finishes_the_step_and_saves),
        cmocka_unit_test(damaged_checkpoints_are_told),
        cmocka_unit_test(bad_data_is_told),
        cmocka_unit_test(full_disks_and_closed_doors_are_told),
        cmocka_unit_test(failures_cost_no_file),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
