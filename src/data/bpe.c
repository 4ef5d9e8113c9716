// SPDX-License-Identifier: Apache-2.0
/* bpe.c -- see bpe.h: hash tables of merges and of whole words, a cache of words, and the merging of one word. */
#include "data/bpe.h"

#include <stdlib.h>
#include <string.h>

#define NO_RANK UINT32_MAX

/* An entry of the table of merges: open addressing, at most half full. */
typedef struct merge {
    int32_t  left, right, result; /* left < 0: free */
    uint32_t rank;
} merge;

/* The words of ordinary text repeat. An entry has the size of a cache line, is found by hash and is overwritten by the
 * next word with the same slot. */
enum { CACHE_SLOTS = 1 << 14, CACHE_BYTES = 22, CACHE_IDS = 10 };
typedef struct cached {
    uint8_t bytes, n; /* bytes 0: free */
    char    word[CACHE_BYTES];
    int32_t id[CACHE_IDS];
} cached;

/* A symbol of the word being merged; `pair` is the rank of this symbol with the next one. */
typedef struct symbol {
    int32_t  id;
    uint32_t previous, next, pair;
} symbol;

/* An entry of the table of whole words, which are tokens: open addressing, at most half full. */
typedef struct whole {
    uint32_t start, bytes;
    int32_t  id; /* -1: free */
} whole;

struct mba_bpe {
    int32_t         byte_id[256];
    size_t          mask;
    merge          *table;
    cached         *cache;
    whole          *whole; /* NULL: all words are merged */
    size_t          whole_mask;
    const mba_text *text;   /* of whole words */
    symbol         *symbol; /* scratch of mba__bpe_word */
    uint64_t       *heap;   /* rank << 32 | position */
    size_t          room;   /* symbols; the heap has three times as many */
};

mba_status mba__bpe_create(mba_bpe **out, const int32_t byte_id[256], size_t merges)
{
    mba_bpe *b = calloc(1, sizeof *b);
    if (!b) return mba_fail(MBA_E_NOMEM, "no memory for a tokenizer");
    size_t slots = 16;
    while (slots < merges * 2) slots *= 2;
    memcpy(b->byte_id, byte_id, sizeof b->byte_id);
    b->mask = slots - 1;
    b->table = malloc(slots * sizeof *b->table);
    b->cache = calloc(CACHE_SLOTS, sizeof *b->cache);
    if (!b->table || !b->cache) {
        mba__bpe_destroy(b);
        return mba_fail(MBA_E_NOMEM, "no memory for %zu merges", merges);
    }
    for (size_t i = 0; i < slots; i++) b->table[i].left = -1;
    *out = b;
    return MBA_OK;
}

void mba__bpe_destroy(mba_bpe *b)
{
    if (!b) return;
    free(b->table);
    free(b->cache);
    free(b->whole);
    free(b->symbol);
    free(b->heap);
    free(b);
}

/* The slot of a pair, or the free slot where it would go. */
static merge *find(const mba_bpe *b, int32_t left, int32_t right)
{
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9E3779B97F4A7C15u;
    for (size_t i = (h ^ h >> 32) & b->mask;; i = (i + 1) & b->mask) {
        merge *m = b->table + i;
        if (m->left < 0 || (m->left == left && m->right == right)) return m;
    }
}

void mba__bpe_merge(mba_bpe *b, int32_t left, int32_t right, uint32_t rank, int32_t result)
{
    *find(b, left, right) = (merge){ .left = left, .right = right, .rank = rank, .result = result };
}

/* ---- one word ---- */

static void sift_down(uint64_t *heap, size_t n, size_t i)
{
    const uint64_t moving = heap[i];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (moving <= heap[child]) break;
        heap[i] = heap[child];
    }
    heap[i] = moving;
}

static void heap_push(uint64_t *heap, size_t *n, uint64_t item)
{
    size_t i = (*n)++;
    for (; i && item < heap[(i - 1) / 2]; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = item;
}

static uint64_t heap_pop(uint64_t *heap, size_t *n)
{
    const uint64_t top = heap[0];
    heap[0] = heap[--*n];
    if (*n) sift_down(heap, *n, 0);
    return top;
}

static uint32_t pair_rank(const mba_bpe *b, int32_t left, int32_t right)
{
    const merge *m = find(b, left, right);
    return m->left < 0 ? NO_RANK : m->rank;
}

/* Each merge removes one symbol and pushes at most two pairs, so a heap of three times the symbols suffices. */
static mba_status word_room(mba_bpe *b, size_t bytes)
{
    if (bytes <= b->room) return MBA_OK;
    if (bytes > UINT32_MAX / 2)
        return mba_fail(MBA_E_UNSUPPORTED,
                        "a word of %zu bytes without a space is too long for the "
                        "tokenizer\nfix: split it, or use --tokenizer bytes",
                        bytes);
    const size_t room = bytes + bytes / 2 + 64;
    symbol      *fresh = realloc(b->symbol, room * sizeof *fresh);
    if (fresh) b->symbol = fresh;
    uint64_t *heap = realloc(b->heap, 3 * room * sizeof *heap);
    if (heap) b->heap = heap;
    if (!fresh || !heap) return mba_fail(MBA_E_NOMEM, "no memory for a word of %zu bytes", bytes);
    b->room = room;
    return MBA_OK;
}

static size_t word_symbols(mba_bpe *b, const char *word, size_t bytes)
{
    symbol *s = b->symbol;
    size_t  n = 0;
    for (size_t i = 0; i < bytes; i++)
        s[i] =
            (symbol){ .id = b->byte_id[(unsigned char)word[i]], .previous = (uint32_t)i - 1, .next = (uint32_t)i + 1 };
    for (size_t i = 0; i < bytes; i++) {
        s[i].pair = i + 1 < bytes ? pair_rank(b, s[i].id, s[i + 1].id) : NO_RANK;
        if (s[i].pair != NO_RANK) b->heap[n++] = (uint64_t)s[i].pair << 32 | i;
    }
    for (size_t i = n / 2; i-- > 0;) sift_down(b->heap, n, i);
    return n;
}

/* Symbols are identified by their start. A symbol that was merged away has pair NO_RANK, which marks its entries of the
 * heap as stale; symbols only grow, so a pair that disappeared never returns. */
static void merge_symbols(mba_bpe *b, size_t bytes, size_t heap_n)
{
    symbol   *s = b->symbol;
    uint64_t *heap = b->heap;
    while (heap_n) {
        const uint64_t top = heap_pop(heap, &heap_n);
        const uint32_t at = (uint32_t)top, rank = (uint32_t)(top >> 32);
        if (s[at].pair != rank) continue;
        const uint32_t gone = s[at].next, next = s[gone].next;
        s[at].id = find(b, s[at].id, s[gone].id)->result;
        s[at].next = next;
        s[gone].pair = NO_RANK;
        s[at].pair = next < bytes ? pair_rank(b, s[at].id, s[next].id) : NO_RANK;
        if (next < bytes) s[next].previous = at;
        if (s[at].pair != NO_RANK) heap_push(heap, &heap_n, (uint64_t)s[at].pair << 32 | at);
        if (at == 0) continue;
        const uint32_t before = s[at].previous;
        s[before].pair = pair_rank(b, s[before].id, s[at].id);
        if (s[before].pair != NO_RANK) heap_push(heap, &heap_n, (uint64_t)s[before].pair << 32 | before);
    }
}

static uint64_t hash(const char *word, size_t bytes)
{
    uint64_t h = bytes, part;
    for (; bytes >= 8; word += 8, bytes -= 8) {
        memcpy(&part, word, 8);
        h = (h ^ part) * 0x9E3779B97F4A7C15u;
        h ^= h >> 29;
    }
    part = 0;
    memcpy(&part, word, bytes);
    return (h ^ part) * 0x9E3779B97F4A7C15u;
}

static cached *cache_slot(const mba_bpe *b, const char *word, size_t bytes)
{
    return b->cache + (hash(word, bytes) >> 40 & (CACHE_SLOTS - 1));
}

/* ---- words that are tokens ---- */

mba_status mba__bpe_whole_create(mba_bpe *b, const mba_text *text, size_t words)
{
    size_t slots = 16;
    while (slots < words * 2) slots *= 2;
    b->whole = malloc(slots * sizeof *b->whole);
    if (!b->whole) return mba_fail(MBA_E_NOMEM, "no memory for %zu tokens", words);
    for (size_t i = 0; i < slots; i++) b->whole[i].id = -1;
    b->whole_mask = slots - 1;
    b->text = text;
    return MBA_OK;
}

/* The slot of a word, or the free slot where it would go. */
static whole *find_whole(const mba_bpe *b, const char *word, size_t bytes)
{
    for (size_t i = (size_t)(hash(word, bytes) >> 32) & b->whole_mask;; i = (i + 1) & b->whole_mask) {
        whole *w = b->whole + i;
        if (w->id < 0 || (w->bytes == bytes && !memcmp(b->text->data + w->start, word, bytes))) return w;
    }
}

void mba__bpe_whole_add(mba_bpe *b, uint32_t start, uint32_t bytes, int32_t id)
{
    *find_whole(b, b->text->data + start, bytes) = (whole){ start, bytes, id };
}

mba_status mba__bpe_word(mba_bpe *b, mba_ids *out, const char *word, size_t bytes)
{
    if (!bytes) return MBA_OK;
    MBA_TRY(mba_ids_reserve(out, bytes > CACHE_IDS ? (int64_t)bytes : CACHE_IDS));
    const whole *token = b->whole ? find_whole(b, word, bytes) : NULL;
    if (token && token->id >= 0) {
        out->id[out->n++] = token->id;
        return MBA_OK;
    }
    cached *slot = bytes <= CACHE_BYTES ? cache_slot(b, word, bytes) : NULL;
    if (slot && slot->bytes == bytes && !memcmp(slot->word, word, bytes)) {
        memcpy(out->id + out->n, slot->id, sizeof slot->id);
        out->n += slot->n;
        return MBA_OK;
    }
    MBA_TRY(word_room(b, bytes));
    merge_symbols(b, bytes, word_symbols(b, word, bytes));
    const int64_t first = out->n;
    for (size_t i = 0; i < bytes; i = b->symbol[i].next) out->id[out->n++] = b->symbol[i].id;
    if (slot && out->n - first <= CACHE_IDS) {
        *slot = (cached){ .bytes = (uint8_t)bytes, .n = (uint8_t)(out->n - first) };
        memcpy(slot->word, word, bytes);
        memcpy(slot->id, out->id + first, (size_t)slot->n * sizeof *slot->id);
    }
    return MBA_OK;
}
