// SPDX-License-Identifier: Apache-2.0
/* unicode.h -- the part of Unicode that byte-level BPE needs: UTF-8, four character classes, NFC.
 *
 *     mba_text out = { 0 };
 *     if (!mba_utf8_valid(text, n)) MBA_TRY(mba_utf8_repair(&out, text, n));   // bad bytes -> U+FFFD
 *     if (!mba_nfc_already(text, n)) MBA_TRY(mba_nfc(&out, text, n));
 *     free(out.data);
 *
 * NFC is that of one Unicode version (mba_unicode_version()), classes are those of 16.0. Code points assigned later
 * have no class, and NFC does not change them. */
#ifndef MBA_UNICODE_H
#define MBA_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

/* A growing buffer of bytes. The caller frees `data`; zeroed is empty. The functions here append. */
typedef struct mba_text {
    char  *data;
    size_t n, capacity;
} mba_text;

MBA_MUST mba_status mba_text_add(mba_text *t, const void *bytes, size_t n);

/* The class of a code point; MBA_NFC_MAY_CHANGE may be added to each. */
enum { MBA_UNICODE_OTHER = 0, MBA_LETTER = 1, MBA_NUMBER = 2, MBA_SPACE = 3, MBA_CLASS = 3, MBA_NFC_MAY_CHANGE = 4 };
unsigned    mba_unicode_class(uint32_t code);
const char *mba_unicode_version(void);

/* Reads one code point of valid UTF-8 and advances *at. */
static inline uint32_t mba_utf8_next(const char **at)
{
    const unsigned char *p = (const unsigned char *)*at;
    if (p[0] < 0x80) {
        *at += 1;
        return p[0];
    }
    if (p[0] < 0xE0) {
        *at += 2;
        return (p[0] & 31u) << 6 | (p[1] & 63u);
    }
    if (p[0] < 0xF0) {
        *at += 3;
        return (p[0] & 15u) << 12 | (p[1] & 63u) << 6 | (p[2] & 63u);
    }
    *at += 4;
    return (p[0] & 7u) << 18 | (p[1] & 63u) << 12 | (p[2] & 63u) << 6 | (p[3] & 63u);
}

bool mba_utf8_valid(const char *text, size_t n);

/* Appends the text with every maximal bad subsequence replaced by U+FFFD, as Python's errors="replace" does. */
MBA_MUST mba_status mba_utf8_repair(mba_text *out, const char *text, size_t n);

/* Both take valid UTF-8. mba_nfc_already examines single code points: true is certain, false may be too cautious. */
bool                mba_nfc_already(const char *text, size_t n);
MBA_MUST mba_status mba_nfc(mba_text *out, const char *text, size_t n);

#endif
