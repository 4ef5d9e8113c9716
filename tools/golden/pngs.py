#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pngs.py FILES OUT [SEED] -- small PNG files of every kind in the folder FILES, and what Pillow makes of them in OUT.

Run once (Pillow 13.0) with tests/fuzz/corpus/png and tests/data/images/png.rgb. OUT has the pixels of convert("RGB"), 8
bits (H, W, 3), of the files in the order of their names, which src/data/image_test.c repeats. Pillow itself writes few
kinds, so the files are written here: every colour type with every depth, plain and interlaced, all five filters,
palettes with and without transparency.
"""
import io
import os
import struct
import sys
import zlib

import numpy as np
from PIL import Image

GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6
CHANNELS = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGBA: 4}
DEPTHS = {GREY: (1, 2, 4, 8, 16), RGB: (8, 16), PALETTE: (1, 2, 4, 8), GREY_ALPHA: (8, 16), RGBA: (8, 16)}
NAMES = {GREY: "grey", RGB: "rgb", PALETTE: "palette", GREY_ALPHA: "grey_alpha", RGBA: "rgba"}
PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def packed(row, depth):
    """A row of samples as its bytes."""
    if depth == 16:
        return row.astype(">u2").tobytes()
    if depth == 8:
        return row.astype(np.uint8).tobytes()
    bits = "".join(format(v, f"0{depth}b") for v in row)
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))


def paeth(a, b, c):
    p = a + b - c
    return min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]


def filtered(rows, step):
    """Row after row with filter 0, 1, 2, 3, 4, 0, .."""
    out, above = b"", None
    for y, row in enumerate(rows):
        above = above if above is not None else bytes(len(row))
        guess = []
        for i, _ in enumerate(row):
            a, b, c = (row[i - step] if i >= step else 0), above[i], (above[i - step] if i >= step else 0)
            guess.append((0, a, b, (a + b) // 2, paeth(a, b, c))[y % 5])
        out += bytes([y % 5]) + bytes((v - g) & 255 for v, g in zip(row, guess))
        above = row
    return out


def png(samples, kind, depth, interlaced, palette=None, clear=None):
    """samples: (H, W, channels)"""
    H, W, channels = samples.shape
    step = max(1, channels * depth // 8)
    parts = [samples[y::dy, x::dx] for x, y, dx, dy in PASSES] if interlaced else [samples]
    data = b"".join(filtered([packed(row.reshape(-1), depth) for row in p], step) for p in parts if p.size)
    file = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", W, H, depth, kind, 0, 0, interlaced))
    file += chunk(b"gAMA", struct.pack(">I", 45455)) + chunk(b"tEXt", b"Comment\0no pixel depends on it")
    if palette is not None:
        file += chunk(b"PLTE", palette.tobytes())
    if clear is not None:
        file += chunk(b"tRNS", clear)
    half = len(data) // 2
    z = zlib.compressobj(9)
    first, last = z.compress(data[:half]) + z.flush(zlib.Z_FULL_FLUSH), z.compress(data[half:]) + z.flush()
    return file + chunk(b"IDAT", first) + chunk(b"IDAT", last) + chunk(b"IEND", b"")


def picture(rng, H, W, kind, depth):
    """Waves and noise over the whole range; of 16-bit grey one half is small, the part that is not clipped."""
    most = (1 << depth) - 1
    y, x = np.mgrid[0:H, 0:W]
    waves = [0.5 + 0.3 * np.sin(x / 3.1 + k) + 0.2 * np.cos(y / (2.3 + k)) for k in range(CHANNELS[kind])]
    v = np.clip(np.stack(waves, -1) * most + rng.normal(0, most / 8, (H, W, CHANNELS[kind])), 0, most)
    if kind == GREY and depth == 16:
        v[:, :W // 2] /= 256
    return v.astype(np.int64)


def files(rng, H, W):
    for kind, depths in DEPTHS.items():
        for depth in depths:
            for interlaced in (0, 1):
                samples = picture(rng, H, W, kind, depth)
                palette = rng.integers(0, 256, (1 << depth, 3), dtype=np.uint8) if kind == PALETTE else None
                clear = None
                if kind == PALETTE and interlaced:
                    clear = rng.integers(0, 256, (1 << depth) // 2, dtype=np.uint8).tobytes()
                elif kind in (GREY, RGB) and interlaced:
                    clear = samples[0, 0].astype(">u2").tobytes()
                name = f"{NAMES[kind]}_{depth}{'_interlaced' if interlaced else ''}.png"
                yield name, png(samples, kind, depth, interlaced, palette, clear)


def main():
    folder, out = sys.argv[1:3]
    rng = np.random.default_rng(int(sys.argv[3]) if len(sys.argv) > 3 else 7)
    H, W = (11, 19) if len(sys.argv) <= 3 else rng.integers(1, 40, 2)
    made = dict(files(rng, H, W))
    for name, data in made.items():
        with open(os.path.join(folder, name), "wb") as f:
            f.write(data)
    with open(out, "wb") as f:
        for name in sorted(made):
            f.write(np.asarray(Image.open(io.BytesIO(made[name])).convert("RGB")).tobytes())


main()
