#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""images.py OUT -- small JPEG files and what Pillow makes of them: decoding, resizing, colour operations.

Run once (Pillow 9.4, libjpeg-turbo 2.1.5); the results are in tests/data/images. Every .rgb file is one or more 8-bit
images (H, W, 3) end to end, in the order of the lists below, which src/data/image_test.c repeats.
"""
import sys

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

out = sys.argv[1]
rng = np.random.default_rng(5)
H, W = 47, 61
y, x = np.mgrid[0:H, 0:W]
waves = [127 + 70 * np.sin(x / 3.1 + k) + 50 * np.cos(y / (2.3 + k) + x / 9) for k in range(3)]
pixels = np.clip(np.stack(waves, -1) + rng.normal(0, 15, (H, W, 3)), 0, 255).astype(np.uint8)
pixels[10:20, 5:30] = [250, 3, 128]
image = Image.fromarray(pixels)


def raw(name, images):
    with open(f"{out}/{name}", "wb") as f:
        for i in images:
            f.write(np.asarray(i.convert("RGB")).tobytes())


raw("input.rgb", [image])

BILINEAR, BICUBIC = Image.BILINEAR, Image.BICUBIC
cases = [  # size, filter, box
    ((61, 47), BICUBIC, None), ((30, 20), BILINEAR, None), ((30, 20), BICUBIC, None), ((97, 80), BICUBIC, None),
    ((75, 20), BILINEAR, None), ((24, 24), BICUBIC, (10, 5, 43, 46)), ((24, 24), BILINEAR, (33, 2, 61, 21)),
    ((5, 3), BICUBIC, None), ((1, 1), BILINEAR, None),
]
raw("resized.rgb", [(image.crop(b) if b else image).resize(s, f) for s, f, b in cases])

u = 0.9
raw("colours.rgb", [
    ImageOps.equalize(image), ImageOps.invert(image), ImageOps.posterize(image, 1), ImageOps.solarize(image, 26),
    ImageEnhance.Color(image).enhance(1.81), ImageEnhance.Color(image).enhance(0.19),
    ImageEnhance.Contrast(image).enhance(1.81), ImageEnhance.Brightness(image).enhance(0.19),
    ImageEnhance.Sharpness(image).enhance(1.81), ImageEnhance.Sharpness(image).enhance(0.19),
    ImageOps.autocontrast(image),
])
mean = (124, 116, 104)
raw("warped.rgb", [
    image.rotate(-27, BICUBIC, fillcolor=mean), image.rotate(27, BILINEAR, fillcolor=mean),
    image.transform(image.size, Image.AFFINE, (1, 0.27, 0, 0, 1, 0), BICUBIC, fillcolor=mean),
    image.transform(image.size, Image.AFFINE, (1, 0, 0, -0.27, 1, 0), BILINEAR, fillcolor=mean),
    image.transform(image.size, Image.AFFINE, (1, 0, 0.405 * W, 0, 1, 0), BICUBIC, fillcolor=mean),
    image.transform(image.size, Image.AFFINE, (1, 0, 0, 0, 1, -0.405 * H), BILINEAR, fillcolor=mean),
])

image.save(f"{out}/420.jpg", quality=85, subsampling=2)
image.save(f"{out}/422_progressive.jpg", quality=85, subsampling=1, progressive=True)
image.save(f"{out}/444.jpg", quality=85, subsampling=0)
image.convert("L").save(f"{out}/grey.jpg", quality=85)
image.convert("CMYK").save(f"{out}/cmyk.jpg", quality=95)
image.save(f"{out}/really.png")
names = ["420", "422_progressive", "444", "grey"]
raw("decoded.rgb", [Image.open(f"{out}/{n}.jpg") for n in names])
half = Image.open(f"{out}/444.jpg")
half.draft("RGB", (W // 2, H // 2))                       # the decoder's own halving
raw("halved.rgb", [half])
