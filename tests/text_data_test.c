// SPDX-License-Identifier: Apache-2.0
/* text_data_test.c -- text as --data: never read as token ids, prepared once, and its tokenizer in every checkpoint. */
#include "tests/program.h"
#include "data/tokenizer.h"
#include "train/text_data.h"

#define TINY "--model mamba2-130m --set width=32,layers=2,vocab=%d,state=8,head_dim=16,chunk=16 --batch 2 --length 32"
#define NEOX "tests/data/tokenizer/neox.json"

/* Words enough for a few batches, with an even number of bytes: as bare 16-bit tokens it would be accepted. */
static void put_book(const char *name)
{
    FILE *f = fopen(scratch(name), "w");
    assert_non_null(f);
    for (int i = 0; i < 600; i++) fprintf(f, "word %04d of it\n", i);
    fclose(f);
}

static void must_be(const char *name)
{
    if (!access(scratch(name), F_OK)) return;
    print_error("no %s\n", name);
    fail();
}

static void same_bytes(const char *a, const char *b)
{
    char line[1200];
    snprintf(line, sizeof line, "cmp '%s' '%s' 2>&1", a, b);
    says(shell(line), 0, "");
}

static void text_is_prepared_and_never_read_as_tokens(void **state)
{
    (void)state;
    put_book("book.txt");
    says(run("train " TINY " --data '%s/book.txt' --steps 2", 50288, scratch_dir), 0,
         "1 document, 9601 tokens (tokenizer bytes)");
    assert_non_null(strstr(output, "data: 9601 tokens")); // 4800 of the file's bytes before
    assert_non_null(strstr(output, "--set vocab=257"));
    says(run("train " TINY " --data '%s/book.txt' --steps 2", 200, scratch_dir), 2,
         "the tokenizer has 257 tokens, the model 200");
    /* Also under the name of token files, also in a folder, and by a glob. */
    put_book("book.bin");
    says(run("train " TINY " --data '%s/book.bin' --steps 2", 50288, scratch_dir), 1,
         "looks like text, not like tokens");
    assert_int_equal(mkdir(scratch("texts"), 0755), 0);
    put_book("texts/a.txt");
    put(scratch("texts/b.jsonl"), "{\"text\":\"one\"}\n{\"text\":\"two\"}\n");
    says(run("train " TINY " --data '%s/texts' --steps 1", 264, scratch_dir), 0, "and 1 more prepared: 3 documents");
    says(run("train " TINY " --data '%s/texts/*.txt' --steps 1", 264, scratch_dir), 0, "1 document");
    says(run("train " TINY " --data '%s/texts/b.jsonl' --field body --steps 1", 264, scratch_dir), 1,
         "no text under \"body\"");
    says(run("train " TINY " --data " NEOX " --steps 1", 264), 1, "goes to --tokenizer");
    assert_int_equal(unlink(scratch("book.bin")), 0);
}

static void text_is_prepared_once_for_a_run(void **state)
{
    (void)state;
    put_book("book.txt");
    says(run("train " TINY " --data '%s/book.txt' --steps 2 --out '%s/a'", 264, scratch_dir, scratch_dir), 0,
         "9601 tokens");
    assert_non_null(strstr(output, "/a/tokens"));
    says(run("train --resume '%s/a' --batch 2 --length 32 --data '%s/book.txt' --steps 4 --out '%s/a'", scratch_dir,
             scratch_dir, scratch_dir),
         0, "as it was prepared");
    /* Unbroken and broken runs are the same, and so is one over shards made by hand. */
    says(run("train " TINY " --data '%s/book.txt' --steps 4 --out '%s/b' --quiet", 264, scratch_dir, scratch_dir), 0,
         "4 steps");
    says(run("data prepare --out '%s/shards' '%s/book.txt'", scratch_dir, scratch_dir), 0, "9601 tokens");
    says(run("train " TINY " --data '%s/shards' --steps 4 --out '%s/c' --quiet", 264, scratch_dir, scratch_dir), 0,
         "4 steps");
    same_bytes(scratch("b/step-000004/model.safetensors"), scratch("c/step-000004/model.safetensors"));
    /* A text that has changed is not silently trained on. */
    FILE *f = fopen(scratch("book.txt"), "r+");
    assert_non_null(f);
    fputc('W', f);
    fclose(f);
    says(run("train --resume '%s/a' --batch 2 --length 32 --data '%s/book.txt' --steps 6 --out '%s/a'", scratch_dir,
             scratch_dir, scratch_dir),
         2, "the text has changed");
}

static void eval_reads_text_with_the_tokenizer_of_the_checkpoint(void **state)
{
    (void)state;
    put_book("book.txt");
    says(run("train " TINY " --data '%s/book.txt' --tokenizer " NEOX " --steps 2 --out '%s/n' --quiet", 800,
             scratch_dir, scratch_dir),
         0, "2 steps");
    says(run("eval --checkpoint '%s/n' --data '%s/book.txt' --batch 2 --length 32", scratch_dir, scratch_dir), 0,
         "tokenizer bpe-");
    says(run("eval --checkpoint '%s/n' --data '%s/n/tokens' --batch 2 --length 32", scratch_dir, scratch_dir), 0,
         "loss ");
    says(run("train --init '%s/n' --data '%s/book.txt' --batch 2 --length 32 --steps 1 --out '%s/m'", scratch_dir,
             scratch_dir, scratch_dir),
         0, "tokenizer bpe-");
    same_bytes(scratch("m/step-000001/tokenizer.json"), NEOX);
    says(run("train " TINY " --data '%s/n/tokens' --tokenizer bytes --steps 1", 800, scratch_dir), 2,
         "was encoded with another tokenizer");
}

/* tokenizer.json and a configuration with which AutoTokenizer reads it. */
static void check_tokenizer(const char *folder, const char *json)
{
    char           path[600];
    json_error_t   e;
    mba_tokenizer *t;
    snprintf(path, sizeof path, "%s/tokenizer_config.json", scratch(folder));
    json_t *config = json_load_file(path, 0, &e);
    assert_non_null(config);
    assert_string_equal(json_string_value(json_object_get(config, "tokenizer_class")), "PreTrainedTokenizerFast");
    assert_string_equal(json_string_value(json_object_get(config, "eos_token")), "<|endoftext|>");
    json_decref(config);
    snprintf(path, sizeof path, "%s/tokenizer.json", scratch(folder));
    assert_ok(mba_tokenizer_create(&t, path));
    if (!json) assert_string_equal(mba_tokenizer_name(t), "bytes");
    else same_bytes(path, json);
    mba_tokenizer_destroy(t);
}

static void every_checkpoint_holds_its_tokenizer(void **state)
{
    (void)state;
    put_book("book.txt");
    says(run("data prepare --out '%s/bpe' --tokenizer " NEOX " '%s/book.txt'", scratch_dir, scratch_dir), 0, "bpe-");
    check_tokenizer("bpe", NEOX);
    says(run("train " TINY " --data '%s/bpe' --steps 2 --save-every 1 --out '%s/t' --quiet", 800, scratch_dir,
             scratch_dir),
         0, "2 steps");
    check_tokenizer("t", NEOX);
    check_tokenizer("t/step-000001", NEOX);
    check_tokenizer("t/step-000002", NEOX);
    says(run("generate --checkpoint '%s/t' --tokens 3 --prompt word", scratch_dir), 0, "word");
    says(run("train " TINY " --steps 1 --out '%s/s' --quiet", 264, scratch_dir), 0, "1 steps");
    check_tokenizer("s/step-000001", NULL);
    /* What lies beside it, a chat template for example, stays with a model that is trained on. */
    put(scratch("t/step-000002/chat_template.jinja"), "{{ messages }}");
    says(run("train --init '%s/t/step-000002' --data '%s/bpe' --batch 2 --length 32 --steps 1 --out '%s/u' --quiet",
             scratch_dir, scratch_dir, scratch_dir),
         0, "1 steps");
    must_be("u/step-000001/chat_template.jinja");
    /* Data of another tokenizer would be other words to the model. */
    says(run("data prepare --out '%s/other' '%s/book.txt'", scratch_dir, scratch_dir), 0, "(bytes)");
    says(run("train --init '%s/t' --data '%s/other' --batch 2 --length 32 --steps 1 --quiet", scratch_dir, scratch_dir),
         2, "another tokenizer than the model");
    says(run("train --init '%s/t' --data '%s/other' --tokenizer bytes --batch 2 --length 32 --steps 1 --quiet",
             scratch_dir, scratch_dir),
         0, "1 steps");
    /* Bare tokens have none, and none is invented. */
    says(run("train " TINY " --data '%s/bare.bin' --steps 1 --out '%s/v' --quiet", 264, scratch_dir, scratch_dir), 0,
         "1 steps");
    assert_int_not_equal(access(scratch("v/step-000001/tokenizer.json"), F_OK), 0);
}

/* In this process: what was read is let go, and a path that has no room is not cut. */
static void text_that_was_read_is_let_go(void **state)
{
    (void)state;
    mba_text_data d;
    char          path[512], folder[512], line[1024], text[sizeof d.path + 2];
    bool          mapped = false;
    put_book("read.txt");
    snprintf(path, sizeof path, "%s", scratch("read.txt"));
    snprintf(folder, sizeof folder, "%s", scratch("read-tokens"));
    assert_ok(mba_text_data_open(&d, &(mba_text_data_options){ .data = path, .folder = folder, .vocab = 257 }));
    FILE *f = fopen("/proc/self/maps", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) mapped |= strstr(line, "/read.txt") != NULL;
    fclose(f);
    assert_false(mapped);
    assert_non_null(strstr(d.story, "9601 tokens"));
    mba_text_data_close(&d);
    for (size_t n = sizeof d.path - 1; n <= sizeof d.path + 1; n++) {
        memset(text, 'a', n);
        text[n] = 0;
        const mba_status st = mba_text_data_open(&d, &(mba_text_data_options){ .data = text, .vocab = 257 });
        if (n < sizeof d.path) assert_ok(st); // no text: the loader says what it is
        else assert_fails(st, MBA_E_ARG, "is too long\nfix: choose a shorter --data");
        mba_text_data_close(&d);
    }
}

static int begin(void **state)
{
    (void)state;
    scratch_make();
    FILE *f = fopen(scratch("bare.bin"), "wb");
    if (!f) return -1;
    for (int i = 0; i < 2000; i++) {
        fputc(i % 250, f);
        fputc(0, f);
    }
    return fclose(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_prepared_and_never_read_as_tokens),
        cmocka_unit_test(text_is_prepared_once_for_a_run),
        cmocka_unit_test(eval_reads_text_with_the_tokenizer_of_the_checkpoint),
        cmocka_unit_test(every_checkpoint_holds_its_tokenizer),
        cmocka_unit_test(text_that_was_read_is_let_go),
    };
    return cmocka_run_group_tests(tests, begin, remove_data);
}
