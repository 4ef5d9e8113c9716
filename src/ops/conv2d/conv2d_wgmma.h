// SPDX-License-Identifier: Apache-2.0
/* conv2d_wgmma.h -- how "wgmma" divides images among blocks: what its plan (conv2d_wgmma.c) and its kernels
 * (conv2d_wgmma_cuda.cu) share.
 *
 * An image is cut into strips of columns. All images of a batch stand below each other in a strip: row s = b H + h of
 * the stack. Rows of shared memory are those of the stack with one row of zeros above each image and below the last, so
 * that a tap is a constant distance: q = s + s / H + 1. Eight channels of a pixel are a vector of 16 bytes, and vectors
 * of one plane lie beside each other. The eight pixels of a matrix are a column of eight rows; rows are an odd number
 * of vectors apart, so that they lie in different banks. */
#ifndef MBA_CONV2D_WGMMA_H
#define MBA_CONV2D_WGMMA_H

#include "ops/conv2d/conv2d_slots.h"

enum {
    WG_THREADS = 256, /* two warpgroups */
    WG_WARPS = 8,
    WG_CHANNELS = 80, /* out, of a tile: a warp's sums fit in registers */
    WG_K = 16,        /* channels in of a stage: one step of wgmma */
    WG_TAPS = 9,      /* 3 x 3 */
    WG_ROWS = 16,     /* a warp's pixels: 16 rows of 4 columns, one matrix each */
    WG_COLUMNS = 4,
    WG_QUADS_MOST = 3,    /* four columns each: with both neighbours 14, one per pair of lanes */
    WG_PATCH_MOST = 256,  /* rows of a patch: a lane of each warp keeps the address of one */
    WG_STAGES = 4,        /* of the ring */
    WG_VECTOR_BYTES = 16, /* of eight channels of a pixel */
    WG_BANKS_BYTES = 128,
    WG_FILTER = WG_TAPS * 2 * WG_CHANNELS /* vectors of a stage */
};

/* Tiles of 512 pixels x 80 channels, the pixels of eight warps. */
typedef struct conv2d_tiles {
    int strips, quads; /* of an image: strips, each of so many times 4 columns */
    int chunks, parts; /* of 16 channels in; of 80 channels out */
    int rows, pitch;   /* of a patch: those of the pixels, their neighbours and the zeros between images */
    int plane, stage;  /* bytes: eight channels of a patch; a patch of 16 channels and their filter */
    int all;           /* tiles, of all strips and parts */
} conv2d_tiles;

/* Strips are the widest of those that compute the fewest columns. */
static inline conv2d_tiles conv2d_tiles_of(conv2d_dims d)
{
    conv2d_tiles t = { 0 };
    for (int quads = 1; quads <= WG_QUADS_MOST; quads++) {
        const int strips = (int)mba_ceil(d.W, quads * WG_COLUMNS);
        if (t.quads && strips * quads > t.strips * t.quads) continue;
        t.strips = strips;
        t.quads = quads;
    }
    const int bands = (WG_WARPS + (WG_WARPS % t.quads ? 2 * (t.quads - 1) : 0)) / t.quads;
    t.chunks = (int)(d.Ci / WG_K);
    t.parts = (int)(d.Co / WG_CHANNELS);
    t.all = (int)mba_ceil(mba_ceil(d.B * d.H, WG_ROWS) * t.quads, WG_WARPS) * t.strips * t.parts;
    t.rows = bands * WG_ROWS + 2 + (int)((bands * WG_ROWS + d.H - 2) / d.H);
    t.pitch = t.quads * WG_COLUMNS + 3;
    /* Two lanes copy 32 bytes of a pixel to two planes: the half a row of banks apart. */
    t.plane = (int)mba_ceil(t.rows * t.pitch * WG_VECTOR_BYTES, WG_BANKS_BYTES) * WG_BANKS_BYTES + WG_BANKS_BYTES / 2;
    t.stage = 2 * t.plane + WG_FILTER * WG_VECTOR_BYTES;
    return t;
}

#endif
