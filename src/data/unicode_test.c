// SPDX-License-Identifier: Apache-2.0
/* unicode_test.c -- the tables and NFC against Python's unicodedata: digests of `tools/unicode_tables.py --digest`. */
#include "tests/test.h"

#include "data/unicode.h"

static uint64_t fnv(uint64_t h, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) h = (h ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
    return h;
}
#define FNV_START 0xcbf29ce484222325u

static size_t utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (char)(0xC0 | c >> 6);
        to[1] = (char)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        to[0] = (char)(0xE0 | c >> 12);
        to[1] = (char)(0x80 | (c >> 6 & 63));
        to[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    to[0] = (char)(0xF0 | c >> 18);
    to[1] = (char)(0x80 | (c >> 12 & 63));
    to[2] = (char)(0x80 | (c >> 6 & 63));
    to[3] = (char)(0x80 | (c & 63));
    return 4;
}

static void every_code_point_has_its_class(void **state)
{
    (void)state;
    assert_string_equal(mba_unicode_version(), "14.0.0");
    assert_int_equal(mba_unicode_class(0x31350) & MBA_CLASS, MBA_LETTER); // an ideograph of 15.0
    assert_int_equal(mba_unicode_class(0x1CCF0) & MBA_CLASS, MBA_NUMBER); // a digit of 16.0
    uint64_t h = FNV_START;
    for (uint32_t c = 0; c <= 0x10FFFF; c++) h = fnv(h, &(uint8_t){ (uint8_t)mba_unicode_class(c) }, 1);
    assert_int_equal(h, 0xe076d695f78dc390);
}

static void nfc_of_every_code_point_is_that_of_python(void **state)
{
    (void)state;
    static const struct {
        const char *mark;
        uint64_t    digest;
    } want[] = {
        { "", 0x23fc43766d7c2eb9 },
        { "\u0301", 0x11054c3db1c09087 },
        { "\u0323\u0301", 0x1f450d96b88200bc },
        { "\u0301\u0323", 0x1f450d96b88200bc },
        { "\u3099", 0x39c7ec566d9a3360 },
        { "\u0338\u0307", 0x89c2a83e8e84d01b },
    };
    mba_text out = { 0 };
    for (size_t k = 0; k < sizeof want / sizeof *want; k++) {
        uint64_t h = FNV_START;
        for (uint32_t c = 0; c <= 0x10FFFF; c++) {
            if (c >= 0xD800 && c < 0xE000) continue;
            char   text[16];
            size_t n = utf8(text, c);
            memcpy(text + n, want[k].mark, strlen(want[k].mark));
            n += strlen(want[k].mark);
            assert_true(mba_utf8_valid(text, n));
            out.n = 0;
            assert_ok(mba_nfc(&out, text, n));
            if (mba_nfc_already(text, n)) assert_true(out.n == n && !memcmp(out.data, text, n));
            h = fnv(h, out.data, out.n);
        }
        assert_int_equal(h, want[k].digest);
    }
    free(out.data);
}

static void nfc_is(const char *text, const char *want)
{
    mba_text out = { 0 };
    assert_ok(mba_nfc(&out, text, strlen(text)));
    assert_ok(mba_text_add(&out, "", 1));
    assert_string_equal(out.data, want);
    free(out.data);
}

static void nfc_of_hand_worked_texts(void **state)
{
    (void)state;
    nfc_is("", "");
    assert_true(mba_nfc_already(NULL, 0));
    assert_ok(mba_nfc(&(mba_text){ 0 }, NULL, 0));
    nfc_is("e\u0301", "\u00e9");
    nfc_is("a\u0323\u0302", "\u1ead");      /* two steps: U+1EA1, then U+1EAD */
    nfc_is("a\u0302\u0323", "\u1ead");      /* the same in the other order */
    nfc_is("\u1112\u1161\u11ab", "\ud55c"); /* Hangul */
    nfc_is("\ud558\u11ab", "\ud55c");
    nfc_is("\u212b", "\u00c5");               /* a singleton: the Angstrom sign */
    nfc_is("\u0958", "\u0915\u093c");         /* excluded from composition */
    nfc_is("\u0301e\u0301", "\u0301\u00e9");  /* a mark without a starter stays */
    nfc_is("q\u0307\u0323", "q\u0323\u0307"); /* ordered, nothing to compose */
}

/* Sorting such runs by insertion would take hours for a megabyte; here the order and the speed are the claim. */
static void long_runs_of_marks_are_ordered(void **state)
{
    (void)state;
    enum { PAIRS = 200000 };
    char  *text = malloc(1 + PAIRS * 4);
    size_t n = 0;
    text[n++] = 'q';
    for (int i = 0; i < PAIRS; i++) {
        memcpy(text + n, "\u0307\u0323", 4);
        n += 4;
    }
    mba_text out = { 0 };
    assert_ok(mba_nfc(&out, text, n));
    assert_int_equal(out.n, n);
    assert_memory_equal(out.data + 1, "\u0323", 2);
    assert_memory_equal(out.data + 1 + 2 * PAIRS - 2, "\u0323\u0307", 4);
    assert_memory_equal(out.data + n - 2, "\u0307", 2);
    free(out.data);
    free(text);
}

/* The expected texts are Python's bytes.decode("utf-8", errors="replace"). */
static void bad_bytes_become_replacement_characters(void **state)
{
    (void)state;
    static const struct {
        const char *bad, *good;
    } want[] = {
        { "plain", "plain" },
        { "a\xffz", "a\ufffdz" },
        { "\x80\x80", "\ufffd\ufffd" },
        { "\xc0\xaf", "\ufffd\ufffd" }, /* overlong */
        { "\xe2\x82", "\ufffd" },       /* cut off: one for what was there */
        { "\xe2\x82z", "\ufffdz" },
        { "\xf0\x9f\x98", "\ufffd" },
        { "\xed\xa0\x80", "\ufffd\ufffd\ufffd" },           /* a surrogate */
        { "\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd" }, /* beyond the last code point */
        { "\xe0\x80\x80", "\ufffd\ufffd\ufffd" },
        { "\xf0\x9f\x98\x80\xf8", "\U0001f600\ufffd" },
        { "12345678\xc3", "12345678\ufffd" },
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        mba_text out = { 0 };
        assert_int_equal(mba_utf8_valid(want[i].bad, strlen(want[i].bad)), !strcmp(want[i].bad, want[i].good));
        assert_ok(mba_utf8_repair(&out, want[i].bad, strlen(want[i].bad)));
        assert_ok(mba_text_add(&out, "", 1));
        assert_string_equal(out.data, want[i].good);
        assert_true(mba_utf8_valid(out.data, out.n));
        free(out.data);
    }
}

MBA_TEST_MAIN(cmocka_unit_test(every_code_point_has_its_class),
              cmocka_unit_test(nfc_of_every_code_point_is_that_of_python), cmocka_unit_test(nfc_of_hand_worked_texts),
              cmocka_unit_test(long_runs_of_marks_are_ordered),
              cmocka_unit_test(bad_bytes_become_replacement_characters))
