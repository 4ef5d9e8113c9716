#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vision.py -- makes tests/golden_vision/<name>/: tiny MambaVision networks, one training step each.

    python3 tools/golden/vision.py                      all of them (needs torch, CPU only)
    python3 tools/golden/vision.py drop                 some of them
    python3 tools/golden/vision.py --check              writes nothing; recomputes what is there

A directory holds
    config.json          the arguments of the reference network
    model.safetensors    parameters (F32) under their published names, and per BatchNorm running_mean, running_var (F32)
                         and num_batches_tracked (I64 scalar, 7) before the step
    logits.npy           float32, training mode: statistics of the batch
    grads.safetensors    F32, d loss / d parameter, same names and shapes as the parameters
    stats.safetensors    the BatchNorm buffers after the step's one forward pass (num_batches_tracked 8)
    logits_eval.npy      float32, evaluation mode with the buffers of model.safetensors: no path dropped, no sign
                         flipped
    expected.json        loss (double: the mean cross-entropy), zero_gradients, versions, droppath
    images.npy           float32 (N, 3, H, W); labels.npy int64 (N)
    droppath.npy         float32, one axis: the factor k / (1 - p) of every branch of every image or window, in the
                         order of computation: stages, their blocks, in a token block first the mixer, then the MLP; in
                         a branch image n, or window (n nH + row) nW + column. Block 0 has p = 0 and ones. `droppath` in
                         expected.json lists stage, block, branch, p, offset and count
zero_gradients names the tensors whose gradient is zero in exact arithmetic: biases in front of a BatchNorm, the last
layer's edge norm. Compare their norm with the largest gradient's, not with their own. The directory hub
(hub_vision.py) is laid out as on the Hub: config.json has the keys of MambaVisionConfig, tensors are model.*, and
expected.json also has loss_eval.

Everything is computed in float64 by mambavision.py and rounded once."""
import os

import numpy as np
import torch
from torch.nn import functional as F

import mambavision
import pieces

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "golden_vision")

# name: configuration, images in the batch
MODELS = {
    # Sizes 52 26 13 7 4 2; four windows per image in stage 2, one in stage 3; dropped paths.
    "drop": (dict(dim=4, in_dim=5, depths=[1, 2, 3, 2], heads=[1, 1, 2, 4], windows=[0, 0, 2, 2], mlp_ratio=3,
                  layer_scale=None, drop_path=0.4, classes=10, image=52), 2),
    # Sizes 45 23 12 6 3 2; windows of 2 on 3 x 3 and of 3 on 2 x 2, so both stages pad; heads of width 5.
    "scale_pad": (dict(dim=5, in_dim=7, depths=[1, 1, 1, 2], heads=[1, 1, 4, 8], windows=[0, 0, 2, 3], mlp_ratio=2,
                       layer_scale=1e-5, drop_path=0.0, classes=7, image=45), 2),
}


def split_drop(model, flat, N, image):
    """The stored vector cut into one piece per branch; None where there is none."""
    if flat is None:
        return None
    counts = [N * count for *_, count in model.branches(image, image)]
    return list(torch.from_numpy(flat).split(counts))


def step_of(config, arrays):
    """The loss of a directory as a function of the model, in the model's precision."""
    labels = torch.from_numpy(arrays["labels"])

    def loss_of(model):
        kind = model.head.weight.dtype
        drop = split_drop(model, arrays.get("droppath"), len(labels), config["image"])
        logits = model(torch.from_numpy(arrays["images"]).to(kind), drop and [f.to(kind) for f in drop])
        return logits, F.cross_entropy(logits, labels)
    return loss_of


def evaluated(arrays):
    """Logits with the running statistics of the stored state (those before the step), no path dropped."""
    def logits_eval(model, state):
        model.load_state_dict({k: torch.from_numpy(v) for k, v in state.items()})
        with torch.no_grad():
            return model.eval()(torch.from_numpy(arrays["images"]).to(model.head.weight.dtype))
    return logits_eval


def draw_drop(model, N, image, rng):
    """All factors in one vector, and the list of what stands where. Where paths are dropped at all, some image or
    window of the branch is kept and some is not, so that no gradient is zero by chance."""
    factors, table, offset = [], [], 0
    for stage, block, branch, p, count in model.branches(image, image):
        keep = np.ones(N * count)
        while p > 0 and (keep.all() or not keep.any()):
            keep = (rng.uniform(size=N * count) >= p).astype(float)
        factors.append(keep / (1 - p))
        table.append({"stage": stage, "block": block, "branch": "ab"[branch], "p": p, "offset": offset,
                      "count": N * count})
        offset += N * count
    return np.concatenate(factors).astype(np.float32), table


def make(name):
    config, N = MODELS[name]
    rng = pieces.seeded("vision " + name)
    model = mambavision.MambaVision(**config)
    state = pieces.draw(model, rng, 2)
    for i in (0, 3):                        # variances near 0.01 in the stem, so that its own eps (1e-4) can be seen
        state[f"patch_embed.conv_down.{i}.weight"] *= np.float32(0.1)
    arrays = {"images": rng.normal(0, 1, (N, 3, config["image"], config["image"])).astype(np.float32),
              "labels": rng.integers(0, config["classes"], N)}
    expected = {}
    if config["drop_path"]:
        arrays["droppath"], expected["droppath"] = draw_drop(model, N, config["image"], rng)

    loss_of, logits_eval = step_of(config, arrays), evaluated(arrays)
    pieces.calibrate(model, state, rng, loss_of)
    result = pieces.run_step(model, state, loss_of)
    narrow = pieces.run_step(mambavision.MambaVision(**config), state, loss_of)
    print(f"{name:14} float32: loss {narrow[1] - result[1]:+.0e} logits "
          f"{pieces.distance({'': narrow[0]}, {'': result[0]})[0]:.0e} gradients {pieces.told(narrow[2], result[2])}")
    expected["zero_gradients"] = pieces.zeros(result[2])
    arrays["logits_eval"] = logits_eval(model, state).numpy().astype(np.float32)
    pieces.write(os.path.join(ROOT, name), config, state, arrays, result, expected)


def check(name):
    directory = os.path.join(ROOT, name)
    config, _, arrays, *_ = pieces.read(directory)
    pieces.compare(directory, mambavision.MambaVision(**config), step_of(config, arrays), evaluated(arrays))


if __name__ == "__main__":
    pieces.main(__doc__, MODELS, make, check)
