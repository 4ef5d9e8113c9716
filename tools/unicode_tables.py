#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""unicode_tables.py -- writes src/data/unicode_tables.c: the Unicode facts that byte-level BPE needs.

    python3 tools/unicode_tables.py > src/data/unicode_tables.c
    python3 tools/unicode_tables.py --digest            # what src/data/unicode_test.c compares with

Everything comes from Python's unicodedata, whose Unicode version is written into the file; but classes are those of
Unicode 16, as in the Hugging Face library (0.23): what was assigned since 14.0 stands below. NFC leaves it alone."""
import sys
import textwrap
import unicodedata

LETTER, NUMBER, SPACE, NFC_MAY_CHANGE = 1, 2, 3, 4
LAST = 0x10FFFF
HANGUL_VOWELS, HANGUL_TAILS = range(0x1161, 0x1176), range(0x11A8, 0x11C3)


def decomposition(c):
    """The canonical decomposition of a code point as a list, or an empty one."""
    d = unicodedata.decomposition(chr(c))
    return [] if not d or d.startswith("<") else [int(x, 16) for x in d.split()]


DECOMPOSED = {c: decomposition(c) for c in range(LAST + 1) if decomposition(c)}
COMPOSED = {c: d for c, d in DECOMPOSED.items() if len(d) == 2 and unicodedata.normalize("NFC", chr(c)) == chr(c)}
SECONDS = {d[1] for d in COMPOSED.values()}


def code_points(ranges):
    pairs = (r.split("-") for r in ranges.split())
    return {c for p in pairs for c in range(int(p[0], 16), int(p[-1], 16) + 1)}


# Letters and numbers of Unicode 15.0, 15.1 and 16.0 that 14.0 does not have.
LATER_LETTERS = code_points(
    "1C89-1C8A A7CB-A7CD A7DA-A7DC 105C0-105F3 10D4A-10D65 10D6F-10D85 10EC2-10EC4 1123F-11240 11380-11389 1138B 1138E "
    "11390-113B5 113B7 113D1 113D3 11BC0-11BE0 11F02 11F04-11F10 11F12-11F33 1342F 13441-13446 13460-143FA 16100-1611D "
    "16D40-16D6C 18CFF 1B132 1B155 1DF25-1DF2A 1E030-1E06D 1E4D0-1E4EB 1E5D0-1E5ED 1E5F0 2B739 2EBF0-2EE5D 31350-323AF")
LATER_NUMBERS = code_points("10D40-10D49 116D0-116E3 11BF0-11BF9 11F50-11F59 16130-16139 16D70-16D79 1CCF0-1CCF9 "
                            "1D2C0-1D2D3 1E4F0-1E4F9 1E5F1-1E5FA")


def kind(c):
    """LETTER, NUMBER, SPACE (the property White_Space) or 0."""
    if c in LATER_LETTERS or c in LATER_NUMBERS:
        return LETTER if c in LATER_LETTERS else NUMBER
    category = unicodedata.category(chr(c))
    if category[0] == "Z" or c in (9, 10, 11, 12, 13, 0x85):
        return SPACE
    return {"L": LETTER, "N": NUMBER}.get(category[0], 0)


def may_change(c):
    """Text without such code points is in NFC already."""
    if 0xD800 <= c < 0xE000:
        return False
    return (unicodedata.combining(chr(c)) != 0 or c in SECONDS or c in HANGUL_VOWELS or c in HANGUL_TAILS
            or unicodedata.normalize("NFC", chr(c)) != chr(c))


def classes():
    return [kind(c) | (NFC_MAY_CHANGE if may_change(c) else 0) for c in range(LAST + 1)]


def two_level(values, size):
    """Distinct blocks of `size` values, and the block number of each stretch of code points up to the last non-zero."""
    last = max(c for c, v in enumerate(values) if v)
    blocks, index = {}, []
    for start in range(0, last + 1, size):
        block = tuple((values[start:start + size] + [0] * size)[:size])
        index.append(blocks.setdefault(block, len(blocks)))
    return list(blocks), index


def combining_ranges():
    """(first, last, class) of the code points whose combining class is not 0."""
    ranges = []
    for c in range(LAST + 1):
        k = unicodedata.combining(chr(c))
        if not k:
            continue
        if ranges and ranges[-1][1] == c - 1 and ranges[-1][2] == k and c - ranges[-1][0] < 128:
            ranges[-1][1] = c
        else:
            ranges.append([c, c, k])
    return ranges


def table(declaration, numbers, fmt):
    text = ", ".join(format(n, fmt) for n in numbers) + ","
    body = textwrap.fill(text, 118, initial_indent="    ", subsequent_indent="    ")
    print(f"{declaration}[{len(numbers)}] = {{\n{body}\n}};")


def write():
    size = 128
    blocks, index = two_level(classes(), size)
    words = []
    for block in blocks:
        for i in range(0, size, 8):
            words.append(sum(v << (4 * k) for k, v in enumerate(block[i:i + 8])))
    assert len(blocks) <= 256
    ranges = combining_ranges()
    assert all(first < 1 << 17 and last - first < 1 << 7 for first, last, _ in ranges)
    assert not any(d[1] in DECOMPOSED for d in DECOMPOSED.values() if len(d) > 1)     # unicode.c relies on it
    packed = [c << 36 | d[0] << 18 | (d[1] if len(d) > 1 else 0) for c, d in sorted(DECOMPOSED.items())]
    place = {c: i for i, c in enumerate(sorted(DECOMPOSED))}
    pairs = [place[c] for c, _ in sorted(COMPOSED.items(), key=lambda item: item[1])]
    print(f"""/* unicode_tables.c -- Unicode {unicodedata.unidata_version}; letters and numbers of 16.0.
 * Written by tools/unicode_tables.py: change that, not this. */
#include "data/unicode_tables.h"

const char     mba__unicode_version[] = "{unicodedata.unidata_version}";
const uint32_t mba__unicode_stretches = {len(index)};
const int32_t  mba__decompositions_n  = {len(packed)};
const int32_t  mba__compositions_n    = {len(pairs)};
const int32_t  mba__combining_n       = {len(ranges)};
""")
    table("const uint8_t mba__unicode_stretch", index, "d")
    table("const uint32_t mba__unicode_block", words, "#x")
    table("const uint64_t mba__decompositions", packed, "#x")
    table("const uint16_t mba__compositions", pairs, "d")
    table("const uint32_t mba__combining", [first << 15 | (last - first) << 8 | k for first, last, k in ranges], "#x")


def fnv(data):
    h = 0xcbf29ce484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001b3 & 0xFFFFFFFFFFFFFFFF
    return h


def digest():
    """One number for all classes, one for NFC of every code point alone and followed by each of a few marks."""
    print(f"classes {fnv(bytes(classes())):#018x}")
    for mark in ("", "\u0301", "\u0323\u0301", "\u0301\u0323", "\u3099", "\u0338\u0307"):
        text = b"".join(unicodedata.normalize("NFC", chr(c) + mark).encode()
                        for c in range(LAST + 1) if not 0xD800 <= c < 0xE000)
        print(f"nfc {'+'.join(f'{ord(m):04X}' for m in mark) or 'alone'} {fnv(text):#018x}")


digest() if sys.argv[1:] == ["--digest"] else write()
