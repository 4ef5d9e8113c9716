#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""formats.py -- writes tests/data/formats/ with Python's safetensors and NumPy: files by another hand for the
tests of src/data, and from them the seeds of the fuzzers in tests/fuzz/corpus/. Needs numpy, torch, safetensors.

    python3 tools/golden/formats.py            # from the root of the repository
"""
import json
import os
import shutil

import numpy as np
import torch
from safetensors.torch import save_file

OUT, CORPUS = "tests/data/formats", "tests/fuzz/corpus"


def safetensors_files():
    """Value i of every tensor is i/4 - 1 where the type has fractions, i - 1 where it has not."""
    quarters = torch.arange(6, dtype=torch.float64) / 4 - 1
    whole = torch.arange(4) - 1
    save_file({
        "f32": quarters.float().reshape(2, 3), "f16": quarters.half().reshape(3, 2), "bf16": quarters.bfloat16(),
        "f64": quarters.reshape(1, 6), "i64": whole, "i32": whole.int().reshape(2, 2), "i8": whole.char(),
        "scalar": torch.tensor(0.5), "empty": torch.zeros(0, 5), "bool": torch.tensor([True, False]),
        'na"me \\ \u00e9\u4e16\U0001f40d': torch.tensor([7.0]),
    }, f"{OUT}/types.safetensors", metadata={"format": "pt"})
    save_file({"attn0": torch.arange(6.0).reshape(1, 1, 2, 3)}, f"{OUT}/example.safetensors")


def sharded_directory():
    folder = f"{OUT}/sharded"
    os.makedirs(folder, exist_ok=True)
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    save_file({"embed": torch.arange(4.0), "norm": torch.ones(2)}, f"{folder}/{names[0]}", metadata={"format": "pt"})
    save_file({"head": torch.arange(4.0) + 10}, f"{folder}/{names[1]}", metadata={"format": "pt"})
    index = {"metadata": {"total_size": 40}, "weight_map": {"embed": names[0], "head": names[1], "norm": names[0]}}
    with open(f"{folder}/model.safetensors.index.json", "w", encoding="utf-8") as f:
        f.write(json.dumps(index, indent=2, sort_keys=True) + "\n")


def npy_files():
    a = np.arange(6).reshape(2, 3) / 4 - 1
    for name, array, version in [
            ("f32", a.astype("<f4"), (1, 0)),
            ("f64", a.astype("<f8"), (2, 0)),
            ("i32", (a * 4).astype("<i4"), (3, 0)),
            ("i64", (a * 4).astype("<i8").ravel(), None),
            ("scalar", np.float32(0.5), None),
            ("empty", np.zeros((0, 7), "<f4"), None),
            ("rank8", np.arange(2, dtype="<i4").reshape(1, 1, 1, 2, 1, 1, 1, 1), None),
            ("rank9", np.zeros((1,) * 9, "<f4"), None),
            ("fortran", np.asfortranarray(a), None),
            ("big", a.astype(">f4"), None),
            ("bool", a > 0, None),
            ("fields", np.zeros(2, [("x", "<f4"), ("y", "<i4")]), None)]:
        with open(f"{OUT}/{name}.npy", "wb") as f:
            np.lib.format.write_array(f, np.asanyarray(array), version=version)
    np.save(f"{OUT}/object.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)


def seeds():
    for target, files in {
            "safetensors": ["types.safetensors", "example.safetensors"],
            "npy": ["f32.npy", "f64.npy", "i32.npy", "rank8.npy", "scalar.npy", "fields.npy"],
            "shard_index": ["sharded/model.safetensors.index.json"]}.items():
        os.makedirs(f"{CORPUS}/{target}", exist_ok=True)
        for name in files:
            shutil.copyfile(f"{OUT}/{name}", f"{CORPUS}/{target}/{os.path.basename(name)}")
    with open(f"{CORPUS}/shard_index/one_shard.json", "w", encoding="utf-8") as f:
        shard = "a-00001.safetensors"
        f.write(json.dumps({"weight_map": {"embed": shard, "head": shard, "norm": "b-00001.safetensors"}}) + "\n")
    os.makedirs(f"{CORPUS}/json", exist_ok=True)
    config = ('{"model_type": "mamba2", "hidden_size": 768, "time_step_limit": [0.0, Infinity], "x": -Infinity, '
              '"y": NaN, "rms_norm": true, "eps": 1e-5, "pad": null, "ssm_cfg": {}, '
              '"big": 1000000000000000019884624838656}')
    newer = '{"time_step_limit": [0.0, {"__float__": "Infinity"}], "t": "a\\"b\\\\\\u00e9\\ud83d\\udc0d"}'
    for name, text in {"config": config, "newer": newer}.items():
        with open(f"{CORPUS}/json/{name}", "w", encoding="utf-8") as f:
            f.write(text)


os.makedirs(OUT, exist_ok=True)
safetensors_files()
sharded_directory()
npy_files()
seeds()
