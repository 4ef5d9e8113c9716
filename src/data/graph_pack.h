// SPDX-License-Identifier: Apache-2.0
/* graph_pack.h -- reads and writes GRAPHPK1, the container for a collection of graphs; files are mapped.
 *
 *     mba_graph_pack *p;
 *     MBA_TRY(mba_graph_pack_open(&p, "voc.graphpk"));
 *     const mba_graph_set *s = mba_graph_pack_set(p);        // graph_set.h; lent until the pack is closed
 *     mba_graph_pack_close(p);                               // NULL is fine
 *
 *     MBA_TRY(mba_graph_pack_write("voc.graphpk", s));       // all or nothing, as in core/file.h
 *
 * Little-endian: a header of 128 bytes, a table of sections, then the sections at multiples of 64 bytes:
 *
 *     0  "GRAPHPK1"            40 node feature width, type       72 LapPE K, RWSE K
 *     8  version (1), flags    48 edge feature width, type       80 number of sections, then zeros
 *     16 graphs, nodes, edges  56 label level, width, type, number of classes
 *     section: 8 bytes of tag, u64 offset, u64 bytes, u32 CRC-32, u32 zero
 *
 *     NODEPTR EDGEPTR u64   EDGESRC EDGEDST u32   NODEFEAT EDGEFEAT LABEL by their type   SPLIT u8
 *     LAPVAL LAPVEC RWSE f32
 *
 * flags: 1 undirected, 2 sorted. Types: 0 none, 1 f32, 2 i32, 3 u8. Level: 0 graph, 1 node. The counts at 16 are the
 * only 64-bit fields of the header. Opening reads the whole file once and checks sizes, checksums and everything that
 * mba_graph_set_check requires, so users of the arrays need no checks. Only "undirected" is not verified.
 * tools/pyg_to_graphpk.py writes the same files from Python. */
#ifndef MBA_GRAPH_PACK_H
#define MBA_GRAPH_PACK_H

#include "data/graph_set.h"

typedef struct mba_graph_pack mba_graph_pack;

/* MBA_E_FORMAT: damaged, with the first error; MBA_E_UNSUPPORTED: another version. */
MBA_MUST mba_status mba_graph_pack_open(mba_graph_pack **out, const char *path);
/* The same from memory, which is 8-byte aligned and must outlive the pack; `name` is for messages. */
MBA_MUST mba_status  mba_graph_pack_open_bytes(mba_graph_pack **out, const char *name, const void *bytes, size_t n);
void                 mba_graph_pack_close(mba_graph_pack *p);
const mba_graph_set *mba_graph_pack_set(const mba_graph_pack *p);

MBA_MUST mba_status mba_graph_pack_write(const char *path, const mba_graph_set *s);

/* Continues a CRC-32 (polynomial 0xEDB88320 reflected, inverted at both ends) with `n` bytes; start with 0. */
uint32_t mba_crc32(uint32_t crc, const void *bytes, size_t n);

#endif
