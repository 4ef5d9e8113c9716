// SPDX-License-Identifier: Apache-2.0
/* cli_test.c -- the program as a person or a script meets it: answers, exit codes, what a command prints. */
#include "tests/program.h"

static void help_ends_in_examples(void **state)
{
    (void)state;
    static const char *const command[] = { "suite",    "train",  "eval",     "generate",  "data",
                                           "list",     "bench",  "selftest", "doctor",    "profile",
                                           "show",     "export", "diff",     "report",    "verify",
                                           "simulate", "sweep",  "validate", "calibrate", "manual" };
    says(run("--help"), 0, "\nExamples\n  mambascope");
    for (size_t i = 0; i < sizeof command / sizeof *command; i++) {
        says(run("%s --help", command[i]), 0, "\nExamples\n  ");
        const char *examples = strstr(output, "\nExamples\n");
        assert_non_null(strstr(examples, "\n  mambascope "));
    }
    says(run("doctor"), 0, "OpenBLAS");
    says(run("doctor"), 0, "SQLite");
    says(run("doctor"), 0, "zlib");
    says(run("show --help"), 0, "source advice claims");
}

/* The first line is for programs: "mambascope 1.2.3 commit"; what it was built from and for follows, a line each. */
static void the_version_tells_what_it_was_built_of(void **state)
{
    static const char *const feature[] = { "sources", "compiler", "C library", "CPU",    "GPU",  "OpenBLAS",
                                           "Jansson", "SQLite",   "libjpeg",   "libpng", "zlib", "zstd" };
    int                      major, minor, patch, end = 0;
    char                     name[64];
    (void)state;
    says(run("--version"), 0, "mambascope ");
    assert_int_equal(sscanf(output, "mambascope %d.%d.%d%n", &major, &minor, &patch, &end), 3);
    assert_true(output[end] == ' ' || output[end] == '\n');
    for (size_t i = 0; i < sizeof feature / sizeof *feature; i++) {
        snprintf(name, sizeof name, "\n%-10s ", feature[i]);
        const char *line = strstr(output, name);
        if (!line) fail_msg("no line '%s' in:\n%s", feature[i], output);
        assert_true(line[strlen(name)] > ' ');
    }
    assert_non_null(strstr(output, "gcc ") ? strstr(output, "gcc ") : strstr(output, "clang "));
#ifdef __aarch64__
    assert_non_null(strstr(output, "\nCPU        kernels for neon\n"));
#elif defined __x86_64__
    assert_non_null(strstr(output, "\nCPU        kernels for sse2, avx2, avx512\n"));
#endif
#ifdef MBA_WITH_CUDA
    assert_non_null(strstr(output, "\nGPU        kernels for sm_"));
#else
    assert_non_null(strstr(output, "\nGPU        none\n"));
#endif
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
             "x '%s' '%s'",
             scratch("completion"), scratch("completion"), getenv("MBA_PROGRAM"));
    says(run("%s", line), 0, "--resume\nsimulate\n");
}

static void misuse_is_told_and_exits_with_2(void **state)
{
    (void)state;
    static const struct {
        const char *args, *words;
    } table[] = {
        { "", "usage" },
        { "dance", "no command 'dance'" },
        { "profile", "profile what?" },
        { "train", "no model is given" },
        { "train --model nobody", "there is no model named 'nobody'" },
        { "train --model mamba-130m --batch 0", "--batch must be a whole number from 1 to 1048576, not 0" },
        { "train --model mamba-130m --batch x", "--batch must be a whole number from 1 to 1048576, not x" },
        { "train --model mamba-130m --lengthy 3", "no option --lengthy" },
        { "train --model mamba-130m --steps", "--steps needs a value" },
        { "train --model mamba2-130m --set heads=5 --dry-run", "heads" },
        { "train --model mamba2-130m --set colour=5 --dry-run", "colour" },
        { "train --model mamba2-130m --recompute never --dry-run", "auto, on, off or states" },
        { "train --model mamba2-130m --op ssd_bvd=chunked --dry-run", "no operator 'ssd_bvd'" },
        { "train --model mamba2-130m stray", "unexpected argument 'stray'" },
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
        { "train --model mambavision-t --synthetic 30 --dry-run", "--synthetic is for graphs" },
        { "train --model mamba-130m --set eps=-1 --dry-run", "cannot set 'eps=-1'" },
        { "train --model mamba-130m --set eps=0 --dry-run", "a number above 0" },
        { "train --model mamba-130m --set width=64 --set layers=2 --dry-run", "--set is given twice" },
        { "train --model mamba-130m --end-of-text 3 --dry-run", "--end-of-text needs --documents" },
        { "show -x", "no option -x" },
        { "data inspect -q x", "no option -q" },
        { "list", "list what?" },
        { "bench nothing", "bench what?" },
        { "data prepare", "--out" },
        { "eval", "--checkpoint" },
        { "generate", "--checkpoint" },
        { "selftest nobody", "no operator 'nobody'" },
        { "eval --checkpoint x --data shapes --labels y.npy", "--labels needs --images" },
        { "eval --checkpoint x --tokens t.npy --batch 3", "need --data" },
        { "eval --checkpoint x --tokens t.npy --logits l --grads l", "name one file" },
        { "eval --checkpoint tests/golden/mamba_odd --tokens t.npy --grads tests/golden/mamba_odd/model.safetensors",
          "written over" },
        { "profile --model mamba2-130m --units 5", "need a program (-- CMD)" },
        { "profile --model mamba2-130m --skip-steps 2", "need a program (-- CMD)" },
        { "profile --skip-steps 2 -- true", "--skip-steps needs --range" },
        { "diff a.db b.db --gate 1e400", "0 to 1000" },
        { "suite --only ''", "--only" },
        { "data prepare --out ''", "give --out a new folder" },
        { "data prepare --out d --seed 0 a.txt", "--seed has no effect here" },
        { "data prepare --out d --synthetic 1K a.txt", "--synthetic has no effect here" },
        { "data prepare --out d --field body", "--field has no effect here" },
        { "data inspect --out d x", "--out has no effect here" },
        { "data inspect --tokenizer bytes x", "--tokenizer has no effect here" },
        { "data inspect --shard 9 x", "--shard has no effect here" },
        { "simulate --model mamba2-130m --op ssd", "no variant of ssd is named" },
        { "simulate --model mamba2-130m --op attention=fast", "attention has no variant 'fast'" },
        { "sweep --axis hbm=x2 --batch 2", "a size needs --model" },
        { "sweep --axis persistent=maybe --model mamba2-130m", "0 or 1" },
        { "sweep --axis clock=2 --model mamba2-130m", "x0.5:x1:x2" },
        { "sweep --experiment q1 --part 2", "q1 has 1" },
        { "sweep --axis keep=foo --model mamba2-130m", "no scratch 'foo' to keep" },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) says(run("%s", table[i].args), 2, table[i].words);
}

static int times_in(const char *text, const char *words)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, words)); at += strlen(words)) n++;
    return n;
}

/* A former spelling works for one release: the program names the new one once, and neither help nor completion has the
 * old. */
static void former_options_are_accepted_and_the_new_ones_named(void **state)
{
    static const struct {
        const char *command, *old, *value, *now;
    } table[] = {
        { "train", "--micros", " 2", "--micro-batches" },
        { "train", "--decay", " 0.1", "--weight-decay" },
        { "train", "--smoothing", " 0.1", "--label-smoothing" },
        { "train", "--made", " 30", "--synthetic" },
        { "train", "--in-order", "", "--no-shuffle" },
        { "train", "--validation", " 0.1", "--valid-fraction" },
        { "train", "--keep", " 2", "--keep-checkpoints" },
        { "eval", "--made", " 30", "--synthetic" },
        { "eval", "--validation", " 0.1", "--valid-fraction" },
        { "generate", "--top", " 3", "--top-k" },
        { "profile", "--deep", " k", "--source" },
        { "profile", "--sets", " cache", "--metric-sets" },
        { "show", "--beside", " b.db", "--compare" },
        { "validate", "--freeze", " o.tsv", "--serialize" },
        { "calibrate", "--imitate", " o.tsv", "--emulate" },
        { "simulate", "--spread", "", "--uncertainty" },
        { "sweep", "--spread", "", "--uncertainty" },
        { "bench", "--copies", "", "--memory-copies" },
    };
    char note[128], name[64];
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        snprintf(note, sizeof note, "note: %s is now %s\n", table[i].old, table[i].now);
        says(run("%s %s%s %s%s --bogus", table[i].command, table[i].old, table[i].value, table[i].old, table[i].value),
             2, note);
        assert_int_equal(times_in(output, note), 1);
        assert_non_null(strstr(output, "there is no option --bogus"));
        assert_int_equal(run("%s --list-options | cut -f1", table[i].command), 0);
        snprintf(name, sizeof name, "%s\n", table[i].old);
        assert_int_equal(times_in(output, name), 0);
        snprintf(name, sizeof name, "%s\n", table[i].now);
        assert_int_equal(times_in(output, name), 1);
    }
    says(run("train --model mamba2-130m --batch 1 --length 64 --micros=3 --dry-run --json 2> /dev/null | cat"), 0,
         "plan_bytes");
    assert_int_equal(times_in(output, "note:"), 0);
}

/* A CPU has fp32 alone; a machine that stands for a GPU has all. */
static void a_precision_is_one_that_the_device_has(void **state)
{
    static const char *const precision[] = { "fp32", "tf32", "bf16" };
    (void)state;
    for (int k = 0; k < 3; k++)
        says(run("train --model mamba2-130m --batch 1 --length 64 --machine h200 --dry-run --precision %s",
                 precision[k]),
             0, "h200");
    says(run("train --model mamba2-130m --dry-run --precision tf32"), 2, "tf32 is not available on the CPU");
    says(run("train --model mamba2-130m --dry-run --precision bf16"), 2, "fix: add --device cuda");
    says(run("train --model mamba2-130m --dry-run --precision fp16"), 2, "fp32, tf32 or bf16");
    says(run("train --model mamba2-130m --machine h200 --dry-run --precision fp8"), 2, "fp32, tf32 or bf16");
    says(run("simulate --model mamba2-130m --precision fp8"), 2, "fp32, tf32 or bf16");
}

static double cell(const json_t *rows, size_t i, const char *key)
{
    return json_number_value(json_object_get(json_array_get(rows, i), key));
}

/* A sweep's answer, which has `rows`. Longer than `output`, and the talk on stderr is no part of it: a pipe and a
 * file. */
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
/* Names of every kind: what was probably meant stands in the fix. */
static void a_word_that_is_no_name_gets_the_one_that_is_like_it(void **state)
{
    static const struct {
        const char *args, *fix;
    } cases[] = {
        { "trian", "fix: did you mean train? mambascope --help" },
        { "simulate --machine H100", "fix: did you mean h100? a100," },
        { "simulate --set regs=x2", "fix: did you mean rf? " },
        { "simulate --set L2=x2", "fix: did you mean l2? " },
        { "train --modle mamba2-130m", "fix: did you mean --model? mambascope train --help" },
        { "train --learning-rate 1e-3", "fix: did you mean --lr? " },
        { "train --model Mamba2-130M --dry-run", "fix: did you mean mamba2-130m? mambascope list models" },
        { "train --model mamba2-130m --set n_layers=2 --dry-run", "fix: did you mean layers? mambascope list fields" },
        { "train --model mamba2-130m --op ssd=fusde --dry-run", "fix: did you mean fused? mambascope list ops" },
        { "selftest rms_norm", "fix: did you mean rmsnorm? mambascope list ops" },
        { "show run.db kernel", "fix: did you mean kernels? mambascope show --help" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) says(run("%s", cases[i].args), 2, cases[i].fix);
}

static void a_sweep_is_of_the_machine_that_was_asked_for(void **state)
{
    (void)state;
    json_t *plain = swept("--axis machine=a100 --model mamba2-130m", 1),
           *ratio = swept("--axis ratio=16 --by machine=a100 --model mamba2-130m", 1), // what an A100 has
               *l2 = swept("--axis l2=x0.25:x1 --model mambavision-t --batch 128", 2),
           *clock = swept("--axis clock=x1:x2 --model mamba2-130m", 2),
           *ring = swept("--axis ring=4 --model mamba2-130m", 1),
           *fp32 = swept("--axis hbm=x1 --precision fp32 --model mamba-130m", 1), *bf16 = swept("--axis hbm=x1", 5);
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
    says(run("simulate --store %s --machine h100", path), 0, "from counters of the NVIDIA H200 (grade C)");
    assert_int_equal(run("simulate --store %s --json 2> /dev/null | cat > '%s'", path, scratch("stored.json")), 0);
    json_t *rows = json_load_file(scratch("stored.json"), 0, NULL), *row;
    size_t  i;
    assert_int_equal(json_array_size(rows), 57);
    json_array_foreach(rows, i, row)
    {
        const double launches = json_number_value(json_object_get(row, "launches"));
        assert_true(json_number_value(json_object_get(row, "us")) > 0 && launches > 0);
        ms += launches * json_number_value(json_object_get(row, "us"));
        measured += launches * json_number_value(json_object_get(row, "measured_us"));
    }
    assert_true(fabs(ms / measured - 1) < 0.15);
    json_decref(rows);
    says(run("simulate --store tests/data/stores/h200_graphmamba.db"), 1, "no kernel with counters");
    says(run("simulate --store tests/data/stores/v1.db"), 1, "no kernel with counters");
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
    says(run("calibrate --emulate '%s'", scratch("none.tsv")), 1, "validate --counterfactual -");
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
    assert_int_equal(json_array_size(rows), 6); // with and without augmentation, and PNG; one thread and all
    json_array_foreach(rows, i, row)
    {
        assert_int_equal(json_number_value(json_object_get(row, "threads")), i < 3 ? 1 : 2);
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
    if (system("script -qec true /dev/null > /dev/null 2>&1 < /dev/null")) skip(); // as in a container without /dev/pts
    snprintf(line, sizeof line,
             "TERM=xterm COLUMNS=80 script -qec \"'%s' train --model mamba2-130m --set "
             "width=64,layers=2,vocab=264 --batch 4 --length 64 --steps 5\" /dev/null < /dev/null",
             getenv("MBA_PROGRAM"));
    shell(line);
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

/* Rank 0 of R in S parts: sums and gathers without parts; states to and from the next part with them. */
static void a_dry_run_of_several_ranks_tells_what_a_rank_sends(void **state)
{
    (void)state;
    static const char *const model[] = {
        "mamba-130m --set width=32,layers=2,vocab=264,state=8",
        "hybrid-130m --set width=32,vocab=264,state=8,head_dim=16,chunk=16,q_heads=4,attn_dim=8,kv_heads=2,mlp=64,"
        "rotary=4,attn_conv=4,pattern=M*-M",
    };
    for (int i = 0; i < 2; i++) {
        int64_t whole = 0;
        for (int parts = 1; parts <= 4; parts *= 2) {
            says(run("train --model %s --batch 1 --length 128 --dry-run --ranks 4 --sequence-ranks %d --json", model[i],
                     parts),
                 0, "sequence_bytes");
            json_t       *j = json_output(), *r = json_object_get(j, "ranks");
            const int64_t exchanges = json_integer_value(json_object_get(r, "exchanges"));
            const double  bytes = json_number_value(json_object_get(r, "sequence_bytes"));
            if (parts == 1) whole = exchanges;
            assert_int_equal(json_integer_value(json_object_get(r, "ranks")), 4);
            assert_true(whole > 0 && (parts == 1 ? bytes == 0 : bytes > 0 && exchanges > whole));
            json_decref(j);
        }
        says(run("train --model %s --batch 1 --length 128 --dry-run --ranks 4 --sequence-ranks 2", model[i]), 0,
             "to the other parts of its sequences");
    }
    says(run("train --model mamba2-130m --batch 1 --length 1024 --dry-run --ranks 8 --machine h200 2>&1"), 0,
         "SIMULATED step on h200, without communication:");
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
    static const struct {
        const char *model;
        int64_t     parameters;
        const char *key;
    } others[] = {
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
    says(run("train --model mamba-130m --length 4096 --batch 1 --memory 1GiBs --dry-run"), 2,
         "--memory must be a number of bytes, not 1GiBs");
}

/* Beside what memory bounds stands a copy of as many bytes, timed, not reckoned from the rate of large arrays. */
static void copies_stand_beside_what_memory_bounds(void **state)
{
    (void)state;
    says(run("bench op residual --memory-copies --repeats 1 --json"), 0, "\"copy_ms\"");
    json_t *j = json_output();
    assert_true(json_array_size(j) >= 4);
    for (size_t i = 0; i < json_array_size(j); i++) {
        const json_t *row = json_array_get(j, i);
        const double  ms = json_real_value(json_object_get(row, "ms")),
                     gb_s = json_real_value(json_object_get(row, "gb_s"));
        const double copy = json_real_value(json_object_get(row, "copy_ms")), mb = gb_s * ms;
        assert_true(copy > 0);
        assert_near(json_real_value(json_object_get(row, "percent_of_copy")), 100 * copy / ms, 1e-6 * copy / ms * 100);
        assert_true(mb / copy < 1e4); // no machine copies 10 TB/s
    }
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_ends_in_examples),
        cmocka_unit_test(the_version_tells_what_it_was_built_of),
        cmocka_unit_test(misuse_is_told_and_exits_with_2),
        cmocka_unit_test(former_options_are_accepted_and_the_new_ones_named),
        cmocka_unit_test(the_manual_and_the_shell_know_every_option),
        cmocka_unit_test(the_bar_of_training_says_rate_and_part_of_the_floor),
        cmocka_unit_test(decoding_is_measured_per_core),
        cmocka_unit_test(a_dry_run_of_several_ranks_tells_what_a_rank_sends),
        cmocka_unit_test(a_dry_run_tells_what_a_step_costs),
        cmocka_unit_test(copies_stand_beside_what_memory_bounds),
        cmocka_unit_test(calibrate_without_a_gpu_says_what_to_do_instead),
        cmocka_unit_test(a_word_that_is_no_name_gets_the_one_that_is_like_it),
        cmocka_unit_test(a_precision_is_one_that_the_device_has),
        cmocka_unit_test(a_sweep_is_of_the_machine_that_was_asked_for),
        cmocka_unit_test(a_store_is_simulated),
        cmocka_unit_test(an_experiment_is_one_document),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
