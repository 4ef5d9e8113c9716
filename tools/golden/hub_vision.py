#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hub_vision.py -- makes tests/golden_vision/hub/: a tiny MambaVision by the authors' own class, in the layout in which
the Hugging Face Hub has them (keys of MambaVisionConfig, tensors model.*).

    MAMBAVISION=../MambaVision python3 tools/golden/hub_vision.py          a clone of github.com/NVlabs/MambaVision
    MAMBAVISION=../MambaVision python3 tools/golden/hub_vision.py --check  writes nothing; recomputes what is there

Needs torch, timm and einops; a CPU is enough: the scan, which the class takes from mamba_ssm, is the plain one of
pieces.py. Computed in float64 and rounded once, but for A, which the class makes in float32. mambavision.py, which was
written from the equations, must agree."""
import importlib.machinery
import importlib.util
import os
import sys
import types
import warnings

import numpy as np
import torch
from torch.nn import functional as F

import mambavision
import pieces
import vision

NAMES = ("dim", "in_dim", "depths", "num_heads", "window_size", "mlp_ratio", "drop_path_rate", "num_classes",
         "layer_scale", "layer_scale_conv", "in_chans", "qkv_bias", "qk_scale", "drop_rate", "attn_drop_rate")

# Sizes 45 23 12 6 3: windows of 4 on 6 x 6 and of 2 on 3 x 3, so that both stages have several and pad.
IMAGE, BATCH = 45, 2
MODELS = {"hub": {
    "architectures": ["MambaVisionModelForImageClassification"],
    "auto_map": {"AutoConfig": "configuration_mambavision.MambaVisionConfig",
                 "AutoModel": "modeling_mambavision.MambaVisionModel",
                 "AutoModelForImageClassification": "modeling_mambavision.MambaVisionModelForImageClassification"},
    "attn_drop_rate": 0.0, "crop_mode": "center", "crop_pct": 0.93, "depths": [1, 1, 2, 3], "dim": 4,
    "drop_path_rate": 0.0, "drop_rate": 0.0, "id2label": {str(i): f"class {i}" for i in range(7)}, "in_chans": 3,
    "in_dim": 5, "layer_scale": 1e-05, "layer_scale_conv": None, "mean": [0.485, 0.456, 0.406], "mlp_ratio": 2,
    "model_type": "mambavision", "num_classes": 7, "num_heads": [1, 1, 2, 4], "qk_scale": None, "qkv_bias": True,
    "std": [0.229, 0.224, 0.225], "torch_dtype": "float32", "transformers_version": "4.38.0.dev0",
    "window_size": [8, 8, 4, 2]}}


def scan(u, delta, A, B, C, D, z=None, delta_bias=None, delta_softplus=True, return_last_state=None):
    """mamba_ssm's selective_scan_fn as the class calls it: channels in front of positions."""
    step = F.softplus(delta.transpose(1, 2) + delta_bias)
    return pieces.scan(u.transpose(1, 2), step, A, B.transpose(1, 2), C.transpose(1, 2), D).transpose(1, 2)


def original():
    """The authors' class."""
    if "MAMBAVISION" not in os.environ:
        raise SystemExit("error: MAMBAVISION names a clone of github.com/NVlabs/MambaVision")
    for name in ("mamba_ssm", "mamba_ssm.ops", "mamba_ssm.ops.selective_scan_interface"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["mamba_ssm.ops.selective_scan_interface"].selective_scan_fn = scan
    warnings.simplefilter("ignore")                                              # timm's, about names of its modules
    folder = os.path.join(os.environ["MAMBAVISION"], "mambavision", "models")
    package = importlib.machinery.ModuleSpec("authors", None, is_package=True)  # "mambavision" is the module beside us
    package.submodule_search_locations = [folder]
    sys.modules["authors"] = importlib.util.module_from_spec(package)
    return importlib.import_module("authors.mamba_vision").MambaVision


class Hub(torch.nn.Module):
    """What the class on the Hub is: the network as `model`."""
    def __init__(self, config):
        super().__init__()
        self.model = original()(**{k: config[k] for k in NAMES})

    @property
    def head(self):
        return self.model.head

    def forward(self, images, drop=None):
        return self.model(images)


class Plain(torch.nn.Module):
    """The same from the equations."""
    def __init__(self, config):
        super().__init__()
        self.model = mambavision.MambaVision(
            dim=config["dim"], in_dim=config["in_dim"], depths=config["depths"], heads=config["num_heads"],
            windows=config["window_size"], mlp_ratio=config["mlp_ratio"], layer_scale=config["layer_scale"],
            drop_path=config["drop_path_rate"], classes=config["num_classes"], image=IMAGE)

    head = Hub.head

    def forward(self, images, drop=None):
        return self.model(images, drop)


def make(name):
    config, rng = MODELS[name], pieces.seeded("vision " + name)
    model = Hub(config)
    state = pieces.draw(model, rng, 2)
    arrays = {"images": rng.normal(0, 1, (BATCH, 3, IMAGE, IMAGE)).astype(np.float32),
              "labels": rng.integers(0, config["num_classes"], BATCH)}
    loss_of, logits_eval = vision.step_of({"image": IMAGE}, arrays), vision.evaluated(arrays)
    pieces.calibrate(model, state, rng, loss_of)
    result = pieces.run_step(model, state, loss_of)
    arrays["logits_eval"] = logits_eval(model, state).numpy().astype(np.float32)
    loss_eval = F.cross_entropy(torch.from_numpy(arrays["logits_eval"]).double(), torch.from_numpy(arrays["labels"]))
    pieces.write(os.path.join(vision.ROOT, name), config, state, arrays, result,
                 {"loss_eval": loss_eval.item(), "zero_gradients": pieces.zeros(result[2])})


def check(name):
    """Both classes give what is there."""
    config, state, arrays, grads, _, expected = pieces.read(os.path.join(vision.ROOT, name))
    loss_of, logits_eval = vision.step_of({"image": IMAGE}, arrays), vision.evaluated(arrays)
    for kind in (Hub, Plain):
        model = kind(config).double()
        logits, loss, gradients, _ = pieces.run_step(model, state, loss_of)
        moved = {k: g for k, g in gradients.items() if k not in expected["zero_gradients"]}
        off = {"logits": np.abs(logits.numpy() - arrays["logits"]).max(), "loss": abs(loss - expected["loss"]),
               "evaluated": np.abs(logits_eval(model, state).numpy() - arrays["logits_eval"]).max(),
               "gradients": pieces.distance({k: torch.from_numpy(grads[k]) for k in moved}, moved)[0]}
        print(f"{name} {kind.__name__:6}" + ", ".join(f"{k} {v:.0e}" for k, v in off.items()))
        assert max(off.values()) < 1e-5, name


if __name__ == "__main__":
    pieces.main(__doc__, MODELS, make, check)
