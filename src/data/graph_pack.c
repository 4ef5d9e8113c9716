// SPDX-License-Identifier: Apache-2.0
/* graph_pack.c -- see graph_pack.h.
 *
 * Reading and writing share one description of the sections (`sections`). The header determines which sections exist
 * and how large each must be, so sizes in the file are never trusted, only compared. */
#include "data/graph_pack.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "data/array.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "sections are used where they lie");

enum {
    HEADER_BYTES = 128,
    ENTRY_BYTES = 32,
    SECTION_ALIGN = 64,
    SECTIONS = 11,
    VERSION = 1,
    FLAG_UNDIRECTED = 1,
    FLAG_SORTED = 2,
    WIDTH_MAX = 1 << 20
};

/* ---- checksums: eight bytes per step, one table for each position ---- */

static uint32_t       crc_table[8][256];
static pthread_once_t crc_ready = PTHREAD_ONCE_INIT;

static void make_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t r = i;
        for (int k = 0; k < 8; k++) r = r >> 1 ^ (r & 1 ? 0xEDB88320u : 0);
        crc_table[0][i] = r;
    }
    for (int k = 1; k < 8; k++)
        for (int i = 0; i < 256; i++) {
            const uint32_t r = crc_table[k - 1][i];
            crc_table[k][i] = r >> 8 ^ crc_table[0][r & 255];
        }
}

uint32_t mba_crc32(uint32_t crc, const void *bytes, size_t n)
{
    uint32_t(*const t)[256] = crc_table;
    pthread_once(&crc_ready, make_tables);
    const unsigned char *p = bytes;
    crc = ~crc;
    for (; n >= 8; n -= 8, p += 8) {
        uint32_t a, b;
        memcpy(&a, p, 4);
        memcpy(&b, p + 4, 4);
        a ^= crc;
        crc = t[7][a & 255] ^ t[6][a >> 8 & 255] ^ t[5][a >> 16 & 255] ^ t[4][a >> 24] ^ t[3][b & 255]
              ^ t[2][b >> 8 & 255] ^ t[1][b >> 16 & 255] ^ t[0][b >> 24];
    }
    for (; n; n--, p++) crc = crc >> 8 ^ t[0][(crc ^ *p) & 255];
    return ~crc;
}

/* ---- the sections of a collection ---- */

typedef struct section {
    char     tag[9];
    uint64_t rows, row_bytes; /* row_bytes 0: absent */
    bool     optional;
    size_t   field; /* of mba_graph_set */
} section;

#define FIELD(name) offsetof(mba_graph_set, name)

static void sections(section out[SECTIONS], const mba_graph_set *s)
{
    const mba_graph_form *f = &s->form;
    const uint64_t        g = (uint64_t)s->graphs, v = (uint64_t)s->nodes, e = (uint64_t)s->edges;
    const uint64_t        k = (uint64_t)f->lap_k, r = (uint64_t)f->rwse_k;
    const uint64_t        node_bytes = mba_graph_type_bytes(f->node_type) * (uint64_t)f->node_width;
    const uint64_t        edge_bytes = mba_graph_type_bytes(f->edge_type) * (uint64_t)f->edge_width;
    const uint64_t        label_bytes = mba_graph_type_bytes(f->label_type) * (uint64_t)f->label_width;
    const section         all[SECTIONS] = {
                { "NODEPTR", g + 1, 8, false, FIELD(node_ptr) },
                { "EDGEPTR", g + 1, 8, false, FIELD(edge_ptr) },
                { "EDGESRC", e, 4, false, FIELD(src) },
                { "EDGEDST", e, 4, false, FIELD(dst) },
                { "NODEFEAT", v, node_bytes, false, FIELD(node_feat) },
                { "EDGEFEAT", e, edge_bytes, false, FIELD(edge_feat) },
                { "LABEL", f->node_labels ? v : g, label_bytes, false, FIELD(label) },
                { "SPLIT", g, 1, true, FIELD(split) },
                { "LAPVAL", g, 4 * k, false, FIELD(lap_val) },
                { "LAPVEC", v, 4 * k, false, FIELD(lap_vec) },
                { "RWSE", v, 4 * r, false, FIELD(rwse) },
    };
    memcpy(out, all, sizeof all);
}

static const void *get_field(const mba_graph_set *s, const section *c)
{
    const void *p;
    memcpy(&p, (const char *)s + c->field, sizeof p);
    return p;
}

static void set_field(mba_graph_set *s, const section *c, const void *p) { memcpy((char *)s + c->field, &p, sizeof p); }

/* ---- reading ---- */

struct mba_graph_pack {
    char                *name;
    mba_map              map; /* zeroed if the caller owns the bytes */
    const unsigned char *bytes;
    size_t               n;
    mba_graph_set        set;
};

static uint32_t word(const mba_graph_pack *p, size_t at)
{
    uint32_t v;
    memcpy(&v, p->bytes + at, sizeof v);
    return v;
}

static uint64_t wide(const mba_graph_pack *p, size_t at)
{
    uint64_t v;
    memcpy(&v, p->bytes + at, sizeof v);
    return v;
}

static mba_status wrong(const mba_graph_pack *p, const char *why)
{
    return mba_fail(MBA_E_FORMAT,
                    "'%s' is not a valid file of graphs (GRAPHPK1)\nwhy: %s\n"
                    "fix: make it again, for example with tools/pyg_to_graphpk.py",
                    p->name, why);
}

static mba_status wrong_section(const mba_graph_pack *p, const char *tag, const char *why)
{
    return mba_fail(MBA_E_FORMAT,
                    "'%s' is not a valid file of graphs (GRAPHPK1)\nwhy: section %s %s\n"
                    "fix: make it again, for example with tools/pyg_to_graphpk.py",
                    p->name, tag, why);
}

/* Reads a width and its type: both or neither must be set. */
static bool read_width(const mba_graph_pack *p, size_t at, int64_t *width, mba_graph_type *type)
{
    *width = word(p, at);
    *type = MBA_GRAPH_NONE;
    if (*width > WIDTH_MAX || word(p, at + 4) >= MBA_GRAPH_TYPES) return false;
    *type = (mba_graph_type)word(p, at + 4);
    return (*width > 0) == (*type != MBA_GRAPH_NONE);
}

static mba_status read_form(mba_graph_pack *p)
{
    mba_graph_form *f = &p->set.form;
    if (!read_width(p, 40, &f->node_width, &f->node_type))
        return wrong(p, "width and type of its node features are impossible");
    if (!read_width(p, 48, &f->edge_width, &f->edge_type))
        return wrong(p, "width and type of its edge features are impossible");
    if (!read_width(p, 60, &f->label_width, &f->label_type))
        return wrong(p, "width and type of its labels are impossible");
    if (word(p, 56) > 1) return wrong(p, "the label level is neither 0 (graph) nor 1 (node)");
    if (word(p, 68) > INT32_MAX) return wrong(p, "the number of classes is impossible");
    if (word(p, 72) > WIDTH_MAX || word(p, 76) > WIDTH_MAX)
        return wrong(p, "K of its positional features is impossible");
    f->node_labels = word(p, 56) == 1;
    f->classes = word(p, 68);
    f->lap_k = word(p, 72);
    f->rwse_k = word(p, 76);
    return MBA_OK;
}

static mba_status read_header(mba_graph_pack *p)
{
    if (p->n < HEADER_BYTES || memcmp(p->bytes, "GRAPHPK1", 8)) return wrong(p, "it does not begin as such a file");
    if (word(p, 8) != VERSION)
        return mba_fail(MBA_E_UNSUPPORTED,
                        "'%s' is a graph file of version %" PRIu32 "\n"
                        "why: version 1 is known here\nfix: make it again with the tools of this version",
                        p->name, word(p, 8));
    if (word(p, 12) & ~(uint32_t)(FLAG_UNDIRECTED | FLAG_SORTED)) return wrong(p, "it has flags that do not exist");
    for (size_t i = 84; i < HEADER_BYTES; i++)
        if (p->bytes[i]) return wrong(p, "the end of its header is not zero");
    // An edge has eight bytes, a graph sixteen; a node may have none, and the last pointer bounds their number.
    if (wide(p, 16) > p->n / 16 || wide(p, 32) > p->n / 8 || wide(p, 24) > INT64_MAX / 2 / WIDTH_MAX)
        return wrong(p, "it counts more graphs, nodes or edges than its size allows");
    p->set.undirected = word(p, 12) & FLAG_UNDIRECTED;
    p->set.sorted = word(p, 12) & FLAG_SORTED;
    p->set.graphs = (int64_t)wide(p, 16);
    p->set.nodes = (int64_t)wide(p, 24);
    p->set.edges = (int64_t)wide(p, 32);
    return read_form(p);
}

static mba_status read_section(mba_graph_pack *p, const section *c, size_t entry)
{
    const uint64_t offset = wide(p, entry + 8), bytes = wide(p, entry + 16);
    uint64_t       want;
    if (get_field(&p->set, c)) return wrong_section(p, c->tag, "is there twice");
    if (!c->row_bytes) return wrong_section(p, c->tag, "is there, though the header says it is not");
    if (offset % SECTION_ALIGN || offset > p->n || bytes > p->n - offset)
        return wrong_section(p, c->tag, "is not inside the file, at a multiple of 64 bytes");
    if (__builtin_mul_overflow(c->rows, c->row_bytes, &want) || bytes != want)
        return wrong_section(p, c->tag, "has another size than the header says");
    if (word(p, entry + 28)) return wrong_section(p, c->tag, "has an entry that does not end in zero");
    if (mba_crc32(0, p->bytes + offset, bytes) != word(p, entry + 24))
        return wrong_section(p, c->tag, "has a wrong checksum: the file was damaged");
    set_field(&p->set, c, p->bytes + offset);
    return MBA_OK;
}

static mba_status read_sections(mba_graph_pack *p)
{
    section        all[SECTIONS];
    const uint32_t count = word(p, 80);
    sections(all, &p->set);
    if (count > SECTIONS || HEADER_BYTES + count * (size_t)ENTRY_BYTES > p->n)
        return wrong(p, "its number of sections is impossible");
    for (uint32_t i = 0; i < count; i++) {
        const size_t entry = HEADER_BYTES + i * (size_t)ENTRY_BYTES;
        const char  *tag = (const char *)p->bytes + entry;
        int          k = 0;
        while (k < SECTIONS && strncmp(all[k].tag, tag, 8)) k++;
        if (k == SECTIONS) return wrong_section(p, mba_quote_bytes(tag, strnlen(tag, 8)).text, "does not exist");
        MBA_TRY(read_section(p, &all[k], entry));
    }
    for (int k = 0; k < SECTIONS; k++)
        if (all[k].row_bytes && !all[k].optional && !get_field(&p->set, &all[k]))
            return wrong_section(p, all[k].tag, "is missing");
    p->set.form.has_split = p->set.split != NULL;
    return MBA_OK;
}

static mba_status read_pack(mba_graph_pack *p)
{
    MBA_TRY(read_header(p));
    MBA_TRY(read_sections(p));
    return mba_graph_set_check(&p->set, p->name);
}

static mba_status open_pack(mba_graph_pack **out, const char *name, const void *bytes, size_t n, mba_map map)
{
    mba_graph_pack *p = calloc(1, sizeof *p);
    mba_status      st = MBA_OK;
    if (p) *p = (mba_graph_pack){ .name = strdup(name), .map = map, .bytes = bytes, .n = n };
    else mba_file_unmap(&map);
    if (!p || !p->name) st = mba_fail(MBA_E_NOMEM, "no memory to open '%s'", name);
    if (st == MBA_OK) st = read_pack(p);
    if (st == MBA_OK) *out = p;
    else mba_graph_pack_close(p);
    return st;
}

mba_status mba_graph_pack_open(mba_graph_pack **out, const char *path)
{
    mba_map map;
    MBA_TRY(mba_file_map(&map, path));
    return open_pack(out, path, map.data, map.bytes, map);
}

mba_status mba_graph_pack_open_bytes(mba_graph_pack **out, const char *name, const void *bytes, size_t n)
{
    mba_assert((uintptr_t)bytes % 8 == 0);
    return open_pack(out, name, bytes, n, (mba_map){ 0 });
}

void mba_graph_pack_close(mba_graph_pack *p)
{
    if (!p) return;
    mba_file_unmap(&p->map);
    free(p->name);
    free(p);
}

const mba_graph_set *mba_graph_pack_set(const mba_graph_pack *p) { return &p->set; }

/* ---- writing ---- */

static void put_word(unsigned char *p, uint32_t v) { memcpy(p, &v, sizeof v); }
static void put_wide(unsigned char *p, uint64_t v) { memcpy(p, &v, sizeof v); }

static void make_header(unsigned char *head, const mba_graph_set *s, uint32_t count)
{
    const mba_graph_form *f = &s->form;
    const uint32_t        fields[] = {
               (uint32_t)f->node_width,
               f->node_type,
               (uint32_t)f->edge_width,
               f->edge_type,
               f->node_labels,
               (uint32_t)f->label_width,
               f->label_type,
               (uint32_t)f->classes,
               (uint32_t)f->lap_k,
               (uint32_t)f->rwse_k,
               count,
    };
    memcpy(head, "GRAPHPK1", 8);
    put_word(head + 8, VERSION);
    put_word(head + 12, (s->undirected ? FLAG_UNDIRECTED : 0) | (s->sorted ? FLAG_SORTED : 0));
    put_wide(head + 16, (uint64_t)s->graphs);
    put_wide(head + 24, (uint64_t)s->nodes);
    put_wide(head + 32, (uint64_t)s->edges);
    memcpy(head + 40, fields, sizeof fields);
}

static size_t padding(size_t at) { return (SECTION_ALIGN - at % SECTION_ALIGN) % SECTION_ALIGN; }

static mba_status write_sections(mba_writer *w, const mba_graph_set *s)
{
    static const unsigned char zero[SECTION_ALIGN];
    unsigned char              head[HEADER_BYTES + SECTIONS * ENTRY_BYTES] = { 0 };
    section                    all[SECTIONS];
    uint32_t                   count = 0;
    sections(all, s);
    for (int k = 0; k < SECTIONS; k++) // drops those that are absent
        if (all[k].row_bytes && get_field(s, &all[k])) all[count++] = all[k];
    size_t       at = HEADER_BYTES + count * (size_t)ENTRY_BYTES;
    const size_t head_bytes = at;
    make_header(head, s, count);
    for (uint32_t k = 0; k < count; k++) {
        unsigned char *entry = head + HEADER_BYTES + k * (size_t)ENTRY_BYTES;
        const size_t   bytes = (size_t)(all[k].rows * all[k].row_bytes);
        at += padding(at);
        memcpy(entry, all[k].tag, strlen(all[k].tag));
        put_wide(entry + 8, at);
        put_wide(entry + 16, bytes);
        put_word(entry + 24, mba_crc32(0, get_field(s, &all[k]), bytes));
        at += bytes;
    }
    MBA_TRY(mba_writer_put(w, head, head_bytes));
    at = head_bytes;
    for (uint32_t k = 0; k < count; k++) {
        const size_t bytes = (size_t)(all[k].rows * all[k].row_bytes);
        MBA_TRY(mba_writer_put(w, zero, padding(at)));
        MBA_TRY(mba_writer_put(w, get_field(s, &all[k]), bytes));
        at += padding(at) + bytes;
    }
    return MBA_OK;
}

mba_status mba_graph_pack_write(const char *path, const mba_graph_set *s)
{
    mba_assert(s->form.has_split == (s->split != NULL));
    MBA_TRY(mba_graph_set_check(s, path));
    mba_writer *w = NULL;
    mba_status  st = mba_writer_create(&w, path);
    if (st == MBA_OK) st = write_sections(w, s);
    if (st == MBA_OK) st = mba_writer_commit(w);
    mba_writer_destroy(w);
    return st;
}
