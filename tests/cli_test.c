/* cli_test.c -- the program as a person or a script meets it: answers, exit codes, errors that help. */
#include "tests/test.h"

#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/file.h"
#include "data/graph_pack.h"
#include "data/image.h"
#include "data/npy.h"
#include "tests/scratch.h"

static char output[1 << 16];                       // stdout and stderr of the last command

/* Runs `mambascope ARGS` in the shell and returns its exit code. */
static int run(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static int run(const char *fmt, ...)
{
    char        args[2048], line[4096];
    const char *program = getenv("MBA_PROGRAM");
    va_list     ap;
    assert_non_null(program);
    va_start(ap, fmt);
    vsnprintf(args, sizeof args, fmt, ap);
    va_end(ap);
    /* The sanitizer's search for leaks takes seconds at the end of every process, so every 24th has it. */
    static int runs;
    snprintf(line, sizeof line, "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=%d '%s' %s 2>&1", runs++ % 24 == 0, program,
             args);
    FILE *f = popen(line, "r");
    assert_non_null(f);
    const size_t n = fread(output, 1, sizeof output - 1, f);
    output[n] = 0;
    const int status = pclose(f);
    assert_true(WIFEXITED(status));                // never a crash
    return WEXITSTATUS(status);
}

static void says(int exit_code, int wanted, const char *words)
{
    if (exit_code == wanted && strstr(output, words)) return;
    print_error("exit %d (wanted %d), wanted \"%s\" in:\n%s\n", exit_code, wanted, words, output);
    fail();
}

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

#define DATA "--data '%s/tokens'"
#define VISION "--model mambavision-t --set dim=8,in_dim=8,depths=1:1:1:1,heads=1:1:2:4,windows=0:0:2:1,image=24," \
               "drop_path=0.1"
#define GRAPH "--model graphmamba-peptides-func --set layers=2,width=16,pe_count=4,pe_width=4 --graphs 4"
#define SMALL "--model mamba2-130m --set width=32,layers=2,vocab=264,state=8,head_dim=16,chunk=16 --batch 2 --length 32"

static int make_data(void **state)
{
    (void)state;
    scratch_make();
    return run("data prepare --out '%s/tokens' --synthetic 200K", scratch_dir);
}

static int remove_data(void **state)
{
    (void)state;
    scratch_remove();
    return 0;
}

static void help_ends_in_examples(void **state)
{
    (void)state;
    static const char *const command[] = { "suite", "train", "eval", "generate", "data", "list", "bench", "selftest",
                                           "doctor", "profile", "show", "export", "diff",
                                           "report", "verify", "simulate", "sweep", "validate", "calibrate", "manual" };
    says(run("--help"), 0, "examples:");
    for (size_t i = 0; i < sizeof command / sizeof *command; i++) {
        says(run("%s --help", command[i]), 0, "examples:\n  mambascope");
        const char *last = strrchr(output, '\n');
        assert_non_null(last);
    }
    says(run("--version"), 0, "mambascope");
    says(run("doctor"), 0, "OpenBLAS");
    says(run("doctor"), 0, "SQLite");
    says(run("doctor"), 0, "zlib");
    says(run("show --help"), 0, "source claims");
}

/* The man page has every command and option; bash completes them. */
static void the_manual_and_the_shell_know_every_option(void **state)
{
    static char page[sizeof output], names[sizeof output];
    char        line[2048];
    (void)state;
    says(run("manual"), 0, ".SH COMMANDS");
    snprintf(page, sizeof page, "%s", output);
    says(run("manual --list"), 0, "suite\n");
    snprintf(names, sizeof names, "%s", output);
    for (char *rest = NULL, *name = strtok_r(names, "\n", &rest); name; name = strtok_r(NULL, "\n", &rest)) {
        snprintf(line, sizeof line, ".SS \"%s", name);
        if (!strstr(page, line)) fail_msg("the manual has no '%s'", name);
        assert_int_equal(run("%s --list-options | cut -f1 | sed 's/-/\\\\-/g'", name), 0);
        for (char *more = NULL, *o = strtok_r(output, "\n", &more); o; o = strtok_r(NULL, "\n", &more)) {
            snprintf(line, sizeof line, ".BR %s", o);
            if (!strstr(page, line)) fail_msg("the manual has no '%s' of %s", o, name);
        }
    }
    snprintf(line, sizeof line,
             "manual --bash > '%s'; bash -c 'source \"$1\"; COMP_WORDS=(\"$2\" suite --res); COMP_CWORD=2; "
             "_mambascope; echo \"${COMPREPLY[@]}\"; COMP_WORDS=(\"$2\" sim); COMP_CWORD=1; _mambascope; echo "
             "\"${COMPREPLY[@]}\"' "
             "x '%s' '%s'", scratch("completion"), scratch("completion"), getenv("MBA_PROGRAM"));
    says(run("%s", line), 0, "--resume\nsimulate\n");
}

static void misuse_is_told_and_exits_with_2(void **state)
{
    (void)state;
    static const struct { const char *args, *words; } table[] = {
        { "", "usage" },                                  { "dance", "no command 'dance'" },
        { "profile", "profile what?" },
        { "train", "no model" },                          { "train --model nobody", "no model 'nobody'" },
        { "train --model mamba-130m --batch 0", "--batch 0" }, { "train --model mamba-130m --batch x", "--batch x" },
        { "train --model mamba-130m --lengthy 3", "no option --lengthy" },
        { "train --model mamba-130m --steps", "--steps wants a value" },
        { "train --model mamba2-130m --set heads=5 --dry-run", "heads" },
        { "train --model mamba2-130m --set colour=5 --dry-run", "colour" },
        { "train --model mamba2-130m --recompute never --dry-run", "auto, on, off or states" },
        { "train --model mamba2-130m --op ssd_bvd=chunked --dry-run", "no operator 'ssd_bvd'" },
        { "train --model mamba2-130m stray", "'stray' is not expected" },
        { "train --model mambavision-t --length 3 --dry-run", "--batch and --image" },
        { "train --model mambavision-t --set depths=1:2 --dry-run", "stage 2" },
        { "train --model mambavision-t --set depths=1:2:3:4:5 --dry-run", "depths" },
        { "train --model mambavision-t --carry --dry-run", "for text" },
        { "train --model mambavision-t --optimizer sgd --dry-run", "adamw or lamb" },
        { "train --model graphmamba-voc --batch 3 --dry-run", "--graphs, --nodes and --edges" },
        { "train --model graphmamba-voc --set loss=hinge --dry-run", "loss=hinge" },
        { "train --model graphmamba-voc --set order=Sorted --graphs 1 --steps 1 --quiet", "no node order 'Sorted'" },
        { "train --model mamba-130m --graphs 3 --dry-run", "--batch and --length" },
        { "train --model mamba-130m --mixup 1 --dry-run", "are for images" },
        { "train --model mambavision-t --made 30 --dry-run", "--made is for graphs" },
        { "train --model mamba-130m --set eps=-1 --dry-run", "cannot set 'eps=-1'" },
        { "train --model mamba-130m --set width=64 --set layers=2 --dry-run", "--set is given twice" },
        { "train --model mamba-130m --end-of-text 3 --dry-run", "--end-of-text without --documents" },
        { "show -x", "no option -x" },                    { "data inspect -q x", "no option -q" },
        { "list", "list what?" },                         { "bench nothing", "bench what?" },
        { "data prepare", "--out" },                      { "eval", "--checkpoint" },
        { "generate", "--checkpoint" },                   { "selftest nobody", "no operator 'nobody'" },
        { "eval --checkpoint x --data shapes --labels y.npy", "--labels without --images" },
        { "eval --checkpoint x --tokens t.npy --batch 3", "go with --data" },
        { "eval --checkpoint x --tokens t.npy --logits l --grads l", "one file" },
        { "eval --checkpoint tests/golden/mamba_odd --tokens t.npy --grads tests/golden/mamba_odd/model.safetensors",
          "written over" },
        { "profile --model mamba2-130m --units 5", "go with a program" },
        { "profile --model mamba2-130m --skip-steps 2", "go with a program" },
        { "profile --skip-steps 2 -- true", "--skip-steps without --range" },
        { "diff a.db b.db --gate 1e400", "0 to 1000" },   { "suite --only ''", "--only" },
        { "data prepare --out ''", "--out with a new directory" },
        { "simulate --model mamba2-130m --op ssd", "no variant of ssd is named" },
        { "simulate --model mamba2-130m --op attention=fast", "attention has no variant 'fast'" },
        { "sweep --axis hbm=x2 --batch 2", "a size without --model" },
        { "sweep --axis persistent=maybe --model mamba2-130m", "0 or 1" },
        { "sweep --axis clock=2 --model mamba2-130m", "x0.5:x1:x2" },
        { "sweep --experiment q1 --part 2", "q1 has 1" },
        { "sweep --axis keep=foo --model mamba2-130m", "no scratch 'foo' to keep" },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) says(run("%s", table[i].args), 2, table[i].words);
}

static json_t *json_output(void)
{
    json_error_t e;
    json_t      *j = json_loads(output, 0, &e);
    if (!j) print_error("not JSON: %s\n%s\n", e.text, output);
    assert_non_null(j);
    return j;
}

static double cell(const json_t *rows, size_t i, const char *key)
{
    return json_number_value(json_object_get(json_array_get(rows, i), key));
}

/* A sweep's answer, which has `rows`. Longer than `output`, and the talk on stderr is no part of it: a pipe and a file. */
static json_t *swept(const char *axes, size_t rows)
{
    json_error_t e;
    assert_int_equal(run("sweep %s --json 2> /dev/null | cat > '%s'", axes, scratch("swept.json")), 0);
    json_t *j = json_load_file(scratch("swept.json"), 0, &e);
    if (!j) fail_msg("not JSON: %s", e.text);
    assert_int_equal(json_array_size(j), rows);
    return j;
}

/* What is asked for beside an axis counts too, and the rest of the question is in the answer. */
static void a_sweep_is_of_the_machine_that_was_asked_for(void **state)
{
    (void)state;
    json_t *plain = swept("--axis machine=a100 --model mamba2-130m", 1),
           *ratio = swept("--axis ratio=16 --by machine=a100 --model mamba2-130m", 1),       // what an A100 has
           *l2 = swept("--axis l2=x0.25:x1 --model mambavision-t --batch 128", 2),
           *clock = swept("--axis clock=x1:x2 --model mamba2-130m", 2),
           *ring = swept("--axis ring=4 --model mamba2-130m", 1),
           *fp32 = swept("--axis hbm=x1 --precision fp32", 5), *bf16 = swept("--axis hbm=x1", 5);
    assert_true(cell(ratio, 0, "step_ms") == cell(plain, 0, "step_ms"));
    assert_true(cell(l2, 0, "step_ms") > 1.01 * cell(l2, 1, "step_ms"));
    assert_true(cell(clock, 1, "speedup") > 1.2);
    assert_string_equal(json_string_value(json_object_get(json_array_get(ring, 0), "grade")), "C");
    assert_true(cell(fp32, 0, "step_ms") > 2 * cell(bf16, 0, "step_ms"));
    json_t *all[] = { plain, ratio, l2, clock, ring, fp32, bf16 };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) json_decref(all[i]);
    says(run("simulate --model mamba2-130m --batch 1 --length 64 --set hbm=x2"), 0, "on h200 with hbm=x2 (grade C)");
    says(run("sweep --axis hbm=x2 --model mamba2-130m"), 0, "error band: ");
}

/* Ours and foreign kernels by their counts; on the machine they were counted on, near what they took there. */
static void a_store_is_simulated(void **state)
{
    const char *path = "tests/data/stores/h200_mamba2.db";
    double      ms = 0, measured = 0;
    (void)state;
    says(run("simulate --store %s --machine h100", path), 0, "from what was counted on the NVIDIA H200 (grade C)");
    assert_int_equal(run("simulate --store %s --json 2> /dev/null | cat > '%s'", path, scratch("stored.json")), 0);
    json_t *rows = json_load_file(scratch("stored.json"), 0, NULL), *row;
    size_t  i;
    assert_int_equal(json_array_size(rows), 57);
    json_array_foreach(rows, i, row) {
        const double launches = json_number_value(json_object_get(row, "launches"));
        assert_true(json_number_value(json_object_get(row, "us")) > 0 && launches > 0);
        ms       += launches * json_number_value(json_object_get(row, "us"));
        measured += launches * json_number_value(json_object_get(row, "measured_us"));
    }
    assert_true(fabs(ms / measured - 1) < 0.15);
    json_decref(rows);
    says(run("simulate --store tests/data/stores/h200_peer_small.db"), 1, "no kernel with counts");
    says(run("simulate --store tests/data/stores/v1.db"), 1, "no kernel with counts");
    says(run("simulate --store tests/cli_test.c"), 1, "fix: ");
    says(run("simulate --store %s --set smem_sm=1", path), 1, "cannot run on h200");
    put(scratch("empty.db"), "");
    says(run("simulate --store '%s'", scratch("empty.db")), 1, "fix: ");
}

static void an_experiment_is_one_document(void **state)
{
    (void)state;
    json_t *tables = swept("--experiment n1", 2);
    assert_int_equal(json_array_size(json_object_get(json_array_get(tables, 0), "rows")), 18);
    assert_int_equal(json_array_size(json_object_get(json_array_get(tables, 1), "rows")), 3);
    json_decref(tables);
    assert_int_equal(run("sweep --experiment n1 --part 2 --csv 2> /dev/null | cat"), 0);
    int lines = 0;
    for (const char *c = output; *c; c++) lines += *c == '\n';
    assert_int_equal(lines, 4);
}

/* No GPU is visible, whatever this machine has. */
static void calibrate_without_a_gpu_says_what_to_do_instead(void **state)
{
    (void)state;
    assert_int_equal(setenv("CUDA_VISIBLE_DEVICES", "", 1), 0);
    says(run("calibrate --out '%s'", scratch("none.ini")), 1, "mambascope simulate --machine h200");
    says(run("calibrate --imitate '%s'", scratch("none.tsv")), 1, "validate --counterfactual -");
    assert_int_equal(unsetenv("CUDA_VISIBLE_DEVICES"), 0);
    assert_int_not_equal(access(scratch("none.ini"), F_OK), 0);
    assert_int_not_equal(access(scratch("none.tsv"), F_OK), 0);
}

static void decoding_is_measured_per_core(void **state)
{
    (void)state;
    assert_int_equal(run("bench decode --repeats 1 --threads 2 --json"), 0);
    json_t *rows = json_output(), *row;
    size_t  i;
    assert_int_equal(json_array_size(rows), 4);       // with and without augmentation, one thread and all
    json_array_foreach(rows, i, row) {
        assert_int_equal(json_number_value(json_object_get(row, "threads")), i < 2 ? 1 : 2);
        assert_true(json_number_value(json_object_get(row, "images")) > 0);
        assert_true(json_number_value(json_object_get(row, "images_per_s_per_core")) > 0);
    }
    json_decref(rows);
}

/* What a bar on a terminal says is there in 80 columns, and none of its lines is longer. */
static void the_bar_of_training_says_rate_and_part_of_the_floor(void **state)
{
    (void)state;
    char line[1024];
    if (system("command -v script > /dev/null 2>&1")) skip();
    snprintf(line, sizeof line, "TERM=xterm COLUMNS=80 script -qec \"'%s' train --model mamba2-130m --set "
             "width=64,layers=2,vocab=264 --batch 4 --length 64 --steps 5\" /dev/null < /dev/null", getenv("MBA_PROGRAM"));
    FILE *f = popen(line, "r");
    assert_non_null(f);
    output[fread(output, 1, sizeof output - 1, f)] = 0;
    pclose(f);
    int bars = 0;
    for (char *p = strtok(output, "\r\n"); p; p = strtok(NULL, "\r\n")) {
        if (!strstr(p, " left  loss ")) continue;
        assert_non_null(strstr(p, " tokens/s  "));
        assert_non_null(strstr(p, " % of floor"));
        assert_true(strcspn(p, "\033") < 80);
        bars++;
    }
    assert_true(bars > 0);
}

static void a_dry_run_tells_what_a_step_costs(void **state)
{
    (void)state;
    says(run("train --model mamba2-130m --batch 1 --length 1024 --dry-run --json"), 0, "plan_bytes");
    json_t *j = json_output();
    assert_int_equal(json_integer_value(json_object_get(j, "parameters")), 128989632);
    assert_true(json_integer_value(json_object_get(j, "plan_bytes")) > 16 * 128989632LL);
    /* 6 FLOPs per token and number of every matrix, the tied head once; SSD comes on top */
    const double matrices = 24.0 * (3352.0 * 768 + 768.0 * 1536) + 50288.0 * 768;
    const double tensor = json_real_value(json_object_get(json_object_get(j, "flops"), "tensor"));
    assert_true(tensor > 6 * matrices * 1024 && tensor < 1.5 * 6 * matrices * 1024);
    assert_true(json_real_value(json_object_get(json_object_get(j, "flops"), "vector")) > 0);
    assert_true(json_real_value(json_object_get(json_object_get(j, "flops"), "special")) > 0);
    assert_true(json_real_value(json_object_get(json_object_get(j, "bytes"), "read")) > 0);
    assert_true(json_real_value(json_object_get(json_object_get(j, "bytes"), "write")) > 0);
    json_decref(j);
    static const struct { const char *model; int64_t parameters; const char *key; } others[] = {
        { "mambavision-t --batch 2", 31794248, "image" },
        { "graphmamba-peptides-func --graphs 4", 491770, "max_nodes" },
    };
    for (int i = 0; i < 2; i++) {
        says(run("train --model %s --dry-run --json", others[i].model), 0, others[i].key);
        j = json_output();
        assert_int_equal(json_integer_value(json_object_get(j, "parameters")), others[i].parameters);
        assert_true(json_real_value(json_object_get(json_object_get(j, "flops"), "tensor")) > 1e8);
        json_decref(j);
    }
    says(run("train --model mambavision-t --dry-run"), 0, "levels.0.blocks.*.conv1.weight");
    says(run("list models"), 0, "mambavision-l");
    says(run("list models"), 0, "graphmamba-malnet");
    says(run("list fields"), 0, "drop_path");
    says(run("train --model hybrid-headline --dry-run"), 0, "step arena");
    says(run("train --model graphmamba-malnet --set head_layers=200 --dry-run"), 0, "post_mp.198.weight");
    says(run("train --model mambavision-t --set depths=512:512:512:512 --image 32 --dry-run"), 2, "512 in all");
    says(run("train --model mamba-2.8b --batch 1048576 --length 1073741824 --dry-run"), 1, "no machine holds");
    says(run("list models --json"), 0, "mamba-2.8b");
    json_decref(json_output());
    says(run("list ops --csv"), 0, "operator,kind,cpu,cuda,cases,doc");
    says(run("train --model mamba-130m --length 4096 --batch 1 --memory 5GB --dry-run --json"), 0,
         "\"recompute\": true");
    says(run("train --model mamba-130m --length 4096 --batch 1 --memory 6GB --dry-run --json"), 0,
         "\"recompute\": false");
}

/* Beside what memory bounds stands a copy of as many bytes, timed, not reckoned from the rate of large arrays. */
static void copies_stand_beside_what_memory_bounds(void **state)
{
    (void)state;
    double last = 0;
    says(run("bench op residual --copies --repeats 1 --json"), 0, "\"copy_ms\"");
    json_t *j = json_output();
    assert_true(json_array_size(j) >= 4);
    for (size_t i = 0; i < json_array_size(j); i++) {
        const json_t *row = json_array_get(j, i);
        const double  ms = json_real_value(json_object_get(row, "ms")), gb_s = json_real_value(json_object_get(row, "gb_s"));
        const double  copy = json_real_value(json_object_get(row, "copy_ms")), mb = gb_s * ms;
        assert_true(copy > 0);
        assert_near(json_real_value(json_object_get(row, "percent_of_copy")), 100 * copy / ms, 1e-6 * copy / ms * 100);
        assert_true(mb / copy < 1e4);                                     // no machine copies 10 TB/s
        if (i == 0) last = copy;
    }
    /* eight times the bytes, by another copy: 128 images after 16 */
    const double more = json_real_value(json_object_get(json_array_get(j, json_array_size(j) - 1), "copy_ms"));
    assert_true(more > last);
    json_decref(j);
}

static void training_evaluating_and_generating_work_together(void **state)
{
    (void)state;
    says(run("train " SMALL " " DATA " --validation 0.1 --steps 12 --out '%s/run' --json --quiet", scratch_dir,
             scratch_dir), 0, "valid_loss");
    json_t *j = json_output();
    assert_int_equal(json_integer_value(json_object_get(j, "step")), 12);
    json_decref(j);
    says(run("generate --checkpoint '%s/run/step-000012' --prompt 'The ' --tokens 20", scratch_dir), 0, "The ");
    says(run("data inspect '%s/tokens/tokens_00000.bin'", scratch_dir), 0, "SYNTHETIC");
    says(run("eval --checkpoint tests/golden/mamba_odd --tokens tests/golden/mamba_odd/tokens.npy --json"), 0,
         "\"tokens\": 72");
    says(run("train --resume '%s/run' " DATA " --validation 0.1 --steps 14 --batch 2 --length 32 --quiet", scratch_dir,
             scratch_dir), 0, "14 steps");
    /* nothing left to do: no loss, and still JSON */
    says(run("train --resume '%s/run' " DATA " --validation 0.1 --steps 12 --batch 2 --length 32 --quiet --json",
             scratch_dir, scratch_dir), 0, "\"loss\": null");
    json_decref(json_output());
    says(run("train --resume '%s/run' " DATA " --validation 0.1 --steps 12 --batch 2 --length 32 --quiet", scratch_dir,
             scratch_dir), 0, "no step left");
    says(run("train " SMALL " " DATA " --steps 2 --out '%s/run' --quiet", scratch_dir, scratch_dir), 2, "--resume");
}

/* A number of the JSON that was printed; NaN where there is none. */
static double number(const char *key)
{
    json_t       *j = json_output();
    const json_t *v = json_object_get(j, key);
    const double  x = json_is_number(v) ? json_number_value(v) : NAN;
    json_decref(j);
    return x;
}

static void images_train_and_evaluate(void **state)
{
    (void)state;
    const char *golden = "tests/golden_vision/scale_pad";
    says(run("train " VISION " --batch 4 --steps 4 --valid-batches 2 --ema 0.5 --optimizer lamb --out '%s/images' "
             "--json --quiet", scratch_dir), 0,
         "valid_accuracy");
    assert_int_equal(number("images"), 16);
    says(run("train --resume '%s/images' --batch 4 --steps 6 --ema 0.5 --optimizer lamb --valid-batches 1 --out "
             "'%s/images'", scratch_dir,
             scratch_dir), 0, "SYNTHETIC shapes");
    says(run("eval --checkpoint '%s/images/step-000006' --data shapes --batch 100 --json", scratch_dir), 0,
         "\"targets\": 10000");
    const double plain = number("loss");
    says(run("eval --checkpoint '%s/images/step-000006' --ema --data shapes --batch 100 --json", scratch_dir), 0,
         "accuracy");
    assert_true(isfinite(number("loss")) && number("loss") != plain);
    /* the golden network: batch statistics, and the running ones */
    says(run("eval --checkpoint %s --images %s/images.npy --labels %s/labels.npy --train-mode --json", golden, golden,
             golden), 0, "accuracy");
    assert_near(number("loss"), 1.7488295839086248, 1e-5);
    says(run("eval --checkpoint %s --images %s/images.npy --logits '%s/l.npy'", golden, golden, scratch_dir), 0,
         "nothing is labelled");
    says(run("eval --checkpoint %s --images %s/images.npy --labels %s/labels.npy --grads '%s/g.safetensors'", golden,
             golden, golden,
             scratch_dir), 0, "loss");
    says(run("eval --checkpoint %s --tokens tests/golden/mamba_odd/tokens.npy", golden), 2,
         "a model of images, given are tokens");
    says(run("generate --checkpoint %s", golden), 2, "a model of images");
    assert_null(strstr(output, "In the beginning"));               // no text where there will be none
    assert_ok(mba_npy_write(scratch("y.npy"), MBA_WIRE_I32, 1, (int64_t[]){ 2 }, (int32_t[]){ 3, 7 }));
    says(run("eval --checkpoint %s --images %s/images.npy --labels '%s/y.npy'", golden, golden, scratch_dir), 1,
         "label 1 of");
    assert_ok(mba_npy_write(scratch("x.npy"), MBA_WIRE_F32, 4, (int64_t[]){ 1, 3, 1, 1 }, (float[]){ 0, NAN, 0 }));
    says(run("eval --checkpoint %s --images '%s/x.npy'", golden, scratch_dir), 1, "value 1 of");
}

static void graphs_train_and_evaluate(void **state)
{
    (void)state;
    says(run("train " GRAPH " --steps 4 --valid-batches 0 --out '%s/graphs' --json --quiet", scratch_dir), 0,
         "valid_ap");
    assert_true(number("graphs") > 4);
    says(run("train --resume '%s/graphs' --graphs 4 --nodes 750 --edges 1532 --steps 6 --out '%s/graphs'", scratch_dir,
             scratch_dir), 0,
         "SYNTHETIC peptides-func");
    says(run("eval --checkpoint '%s/graphs/step-000006' --graphs tests/golden_graph/peptides_like/batch.graphpk",
             scratch_dir), 2,
         "is not what the model reads");
    says(run("eval --checkpoint '%s/graphs/step-000006' --data peptides-func --max-graphs 8 --nodes 3000 --edges 6000 "
             "--json", scratch_dir), 0,
         "\"ap\"");
    // a tenth of five batches of 8, ten tasks each
    assert_int_equal((int)number("targets"), 4 * 10);
    says(run("eval --checkpoint '%s/graphs/step-000006' --data peptides-func --made 90 --max-graphs 8 --nodes 3000 "
             "--edges 6000 --json",
             scratch_dir), 0, "\"ap\"");
    assert_int_equal((int)number("targets"), 9 * 10);
    says(run("eval --checkpoint '%s/graphs/step-000006' --data peptides-func", scratch_dir), 2,
         "--max-graphs, --nodes and --edges");
    says(run("train --model graphmamba-peptides-func --set layers=1,width=8,pe_count=0 --graphs 4 --made 30 --steps 1 "
             "--quiet"), 0, "1 steps");                                            // a width of positions, and none
    says(run("train " GRAPH " --made 30 --steps 1"), 0, "data: 24 graphs");         // eight of ten are for training
    says(run("train " GRAPH " --made 30 --steps 1"), 0, "\nvalidation  ");              // its memory, before it is taken
}

/* `count` graphs of a set from `first` on, in a file of their own, and the results of the checkpoint g for them. */
static float *results_of(const mba_graph_set *s, int64_t first, int64_t count, int64_t *n)
{
    mba_graph_store *store;
    mba_npy         *logits;
    mba_graph_form   form = s->form;
    form.lap_k = form.rwse_k = 0;                         // computed anew, for one graph as for all
    assert_ok(mba_graph_store_create(&store, &form));
    for (int64_t i = 0; i < count; i++) {
        const mba_graph_item g = mba_graph_set_item(s, first + i);
        assert_ok(mba_graph_store_add(store, &g));
    }
    assert_ok(mba_graph_pack_write(scratch("some.graphpk"), mba_graph_store_set(store)));
    mba_graph_store_destroy(store);
    says(run("eval --checkpoint '%s/g' --graphs '%s/some.graphpk' --logits '%s/some.npy'", scratch_dir, scratch_dir,
             scratch_dir), 0, "loss");
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
    static const struct { const char *name, *config, *score; } table[] = {
        { "voc_like", "{\"model_type\": \"graphmamba\", \"width\": 24, \"layers\": 3, \"node_reals\": 5, "
                      "\"edge_reals\": 2, \"pe_count\": 8, "
          "\"pe_width\": 8, \"head_layers\": 3, \"outputs\": 7, \"buckets\": 3}", "f1" },
        { "peptides_like", "{\"model_type\": \"graphmamba\", \"width\": 20, \"layers\": 3, "
                           "\"node_tables\": [119, 5, 12, 12, 10, 6, 6, 2, 2], "
          "\"edge_tables\": [5, 6, 2], \"pe_count\": 10, \"pe_width\": 6, \"head_layers\": 1, \"outputs\": 4, "
          "\"readout\": \"mean\", "
          "\"loss\": \"bce\"}", "ap" },
        { "malnet_like",
          "{\"model_type\": \"graphmamba\", \"width\": 18, \"layers\": 2, \"node_reals\": 5, \"pre_layers\": 1, "
          "\"head_layers\": 3, \"outputs\": 5, \"readout\": \"max\", \"loss\": \"ce\", \"buckets\": 3}", "accuracy" },
        { "walks_like",
          "{\"model_type\": \"graphmamba\", \"width\": 18, \"layers\": 2, \"node_reals\": 5, \"rw_count\": 7, "
          "\"pe_width\": 6, \"head_layers\": 2, \"outputs\": 4, \"readout\": \"mean\", \"loss\": \"ce\"}", "accuracy" },
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
                 scratch_dir, scratch_dir, scratch_dir, scratch_dir), 0, table[i].score);
        assert_true(isfinite(number("loss")));
        each_graph_alone_is_as_in_the_batch();
    }
}

/* As its archives unpack, in the raw/ of PyTorch Geometric, and by the folder of the graphs. */
static void malnet_is_found_where_it_lies(void **state)
{
    (void)state;
    static const char *const paths[] = { "mal", "pyg", "mal/malnet-graphs-tiny" };
    char line[1024];
    snprintf(line, sizeof line, "cd '%s' && mkdir -p mal/split_info_tiny/type pyg && for c in addisplay benign; do "
             "mkdir -p mal/malnet-graphs-tiny/$c/x; for i in 1 2; do printf '0 1\\n1 2\\n' > "
             "mal/malnet-graphs-tiny/$c/x/$i.edgelist; echo $c/x/$i >> mal/split_info_tiny/type/train.txt; done; done; "
             "for p in val test; do echo benign/x/1 > mal/split_info_tiny/type/$p.txt; done; cp -r mal pyg/raw",
             scratch_dir);
    assert_int_equal(system(line), 0);
    for (int i = 0; i < 3; i++)
        says(run("train --model graphmamba-malnet --set layers=1,width=8 --graphs 4 --steps 1 --data '%s/%s'",
                 scratch_dir, paths[i]), 0, "data: 4 graphs");
    says(run("train --model graphmamba-malnet --graphs 4 --steps 1 --quiet --data '%s/mal/split_info_tiny'",
             scratch_dir), 1, "as a TUDataset");
}

/* A folder of TUDataset's text: two graphs of two nodes. */
static void tu_files(const char *edges, const char *attributes)
{
    const struct { const char *name, *text; } file[] = {
        { "A", edges }, { "graph_indicator", "1\n1\n2\n2\n" }, { "graph_labels", "0\n1\n" },
        { "node_attributes", attributes } };
    mkdir(scratch("T"), 0777);
    for (int i = 0; i < 4; i++) {
        char path[600];
        snprintf(path, sizeof path, "%s/T/T_%s.txt", scratch_dir, file[i].name);
        put(path, file[i].text);
    }
}

#define TU "train --model graphmamba-mnist --set layers=1,width=8,node_reals=2,edge_reals=0,outputs=2,pe_count=0," \
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
    says(run("train " VISION " --batch 4 --steps 1 --validation 0.1 --data '%s/jpegs' --quiet", scratch_dir), 2,
         "held out");
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
    FILE *f = popen(line, "r");
    assert_non_null(f);
    output[fread(output, 1, sizeof output - 1, f)] = 0;
    pclose(f);
    assert_non_null(strstr(output, "exit 0"));
    assert_non_null(strstr(output, "interrupted, saved"));
    assert_int_equal(scratch_entries("cut"), 2);                                   // log.jsonl and one checkpoint
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
    static const struct { const char *file, *text, *words; } table[] = {
        { "config.json", "", "config.json" },
        { "config.json", "{\"model_type\": \"mamba\"", "config.json" },
        { "config.json", "{}", "model_type" },
        { "config.json", "{\"model_type\": \"gpt2\"}", "gpt2" },
        { "config.json", "{\"model_type\": \"mamba\", \"hidden_size\": -3}", "hidden_size" },
        { "config.json", "{\"model_type\": \"mamba\", \"hidden_size\": \"many\"}", "hidden_size" },
        { "config.json", "{\"model_type\": \"mamba\", \"hidden_size\": 64, \"num_hidden_layers\": 3, "
                         "\"vocab_size\": 61}", "the model asks for" },
        { "config.json", "{\"model_type\": \"mamba\", \"hidden_size\": 32, \"num_hidden_layers\": 4, "
                         "\"vocab_size\": 61}", "no tensor" },
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
    put(path, "ab");
    says(run("train " SMALL " --data '%s' --quiet", path), 2, "too short");
    says(run("train " SMALL " --data '%s/nowhere' --quiet", scratch_dir), 1, "nowhere");
    says(run("train --model mamba2-130m --set width=32,layers=1,vocab=10,state=8,head_dim=16 --batch 1 --length 16 "
             DATA " --quiet", scratch_dir), 2, "vocab");
    says(run("data prepare --out '%s/t2' --tokenizer '%s/short.bin' '%s/short.bin'", scratch_dir, scratch_dir,
             scratch_dir), 1, "short.bin");
    says(run("data prepare --out '%s/t2' '%s/none.txt'", scratch_dir, scratch_dir), 1, "none.txt");
    assert_int_equal(access(scratch("t2"), F_OK), -1);                             // nothing half-written
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
    if (access("/dev/nvidiactl", F_OK)) {                               // where there is a GPU it would be used
        assert_int_equal(run("calibrate --imitate '%s/there.tsv'", scratch_dir), 1);
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
             "/proc/logits.npy"), 1, "/proc/logits.npy");
    says(run("train " SMALL " " DATA " --steps 2 --out /proc/run --quiet", scratch_dir), 1, "/proc/run");
    put(scratch("file"), "x");
    says(run("train " SMALL " " DATA " --steps 2 --out '%s/file/run' --quiet", scratch_dir, scratch_dir), 1,
         "file/run");
    /* a limit on file sizes stands in for a full disk: the checkpoint fails whole, the log stays readable */
    char line[2048];
    snprintf(line, sizeof line,
             "(ulimit -f 64; trap '' XFSZ; '%s' train " SMALL " --data '%s/tokens' --steps 2 --out '%s/full' --quiet "
             "2>&1; "
             "echo exit $?)", getenv("MBA_PROGRAM"), scratch_dir, scratch_dir);
    FILE *f = popen(line, "r");
    assert_non_null(f);
    output[fread(output, 1, sizeof output - 1, f)] = 0;
    pclose(f);
    says(0, 0, "exit 1");
    says(0, 0, "saving the checkpoint");
    assert_int_equal(scratch_entries("full"), 1);                                  // the log alone
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_ends_in_examples), cmocka_unit_test(misuse_is_told_and_exits_with_2),
        cmocka_unit_test(the_manual_and_the_shell_know_every_option),
        cmocka_unit_test(the_bar_of_training_says_rate_and_part_of_the_floor),
        cmocka_unit_test(decoding_is_measured_per_core), cmocka_unit_test(a_dry_run_tells_what_a_step_costs),
        cmocka_unit_test(copies_stand_beside_what_memory_bounds),
        cmocka_unit_test(calibrate_without_a_gpu_says_what_to_do_instead),
        cmocka_unit_test(a_sweep_is_of_the_machine_that_was_asked_for), cmocka_unit_test(a_store_is_simulated),
        cmocka_unit_test(an_experiment_is_one_document),
        cmocka_unit_test(training_evaluating_and_generating_work_together),
        cmocka_unit_test(images_train_and_evaluate), cmocka_unit_test(graphs_train_and_evaluate),
        cmocka_unit_test(graph_checkpoints_have_the_published_names),
        cmocka_unit_test(malnet_is_found_where_it_lies), cmocka_unit_test(bad_graphs_are_told),
        cmocka_unit_test(damaged_images_are_counted_and_empty_classes_told),
        cmocka_unit_test(ctrl_c_finishes_the_step_and_saves), cmocka_unit_test(damaged_checkpoints_are_told),
        cmocka_unit_test(bad_data_is_told), cmocka_unit_test(full_disks_and_closed_doors_are_told),
        cmocka_unit_test(failures_cost_no_file),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
