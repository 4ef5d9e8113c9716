#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""convert_checkpoint.py -- turns a PyTorch pickle (.pth, .pth.tar, .pt, .ckpt, pytorch_model.bin) into a directory with
model.safetensors and config.json, which mambascope and transformers read.

    python3 tools/convert_checkpoint.py mambavision_tiny_1k.pth.tar OUT        the configuration is told by the shapes
    python3 tools/convert_checkpoint.py mine.pth OUT --model mambavision-t     or by name
    python3 tools/convert_checkpoint.py mine.pth OUT --heads 2 4 8 16 --windows 7 7 4 4
    python3 tools/convert_checkpoint.py mamba2-780m OUT                        a directory: config.json is taken over
    python3 tools/convert_checkpoint.py last.ckpt OUT --config config.json

A pickle is a program. It is read with weights_only=True: tensors and plain containers, and nothing is run. Needs torch
and safetensors (pip install torch safetensors)."""
import argparse
import glob
import json
import os
import re
import shutil
import sys

# What shapes do not tell of the published sizes: heads, windows, side of the images, part of a photograph that is seen.
PUBLISHED = {
    #                   dim, in_dim, depths,        heads,            windows,         drop, side, crop
    "mambavision-t":      (80, 32, [1, 3, 8, 4],   [2, 4, 8, 16],   [8, 8, 14, 7],  0.2, 224, 1.0),
    "mambavision-t2":     (80, 32, [1, 3, 11, 4],  [2, 4, 8, 16],   [8, 8, 14, 7],  0.2, 224, 0.98),
    "mambavision-s":      (96, 64, [3, 3, 7, 5],   [2, 4, 8, 16],   [8, 8, 14, 7],  0.2, 224, 0.93),
    "mambavision-b":      (128, 64, [3, 3, 10, 5], [2, 4, 8, 16],   [8, 8, 14, 7],  0.3, 224, 1.0),
    "mambavision-l":      (196, 64, [3, 3, 10, 5], [4, 8, 16, 32],  [8, 8, 14, 7],  0.3, 224, 1.0),
    "mambavision-l2":     (196, 64, [3, 3, 12, 5], [4, 8, 16, 32],  [8, 8, 14, 7],  0.3, 224, 1.0),
    "mambavision-l2-512": (196, 64, [3, 3, 12, 5], [4, 8, 16, 32],  [8, 8, 32, 16], 0.3, 512, 0.93),
    "mambavision-l3-256": (256, 64, [3, 3, 20, 10], [4, 8, 16, 32], [8, 8, 16, 8],  0.5, 256, 1.0),
    "mambavision-l3-512": (256, 64, [3, 3, 20, 10], [4, 8, 16, 32], [8, 8, 32, 16], 0.5, 512, 0.93),
}
ENDINGS = (".pth", ".pth.tar", ".pt", ".pt.tar", ".ckpt")
NO_WEIGHTS = ("optimizer", "scheduler", "scaler", "rng_state", "training_args")
BESIDE = ("tokenizer*", "special_tokens_map.json", "vocab.*", "merges.txt", "generation_config.json", "*.model")


def fail(what, fix):
    raise SystemExit(f"error: {what}\n  fix: {fix}")


# ---- pickles ----

def pickles_of(directory):
    """The files of a directory that hold weights: pytorch_model*.bin, or the only other pickle."""
    names = sorted(os.listdir(directory))
    shards = [n for n in names if n.startswith("pytorch_model") and n.endswith(".bin")]
    others = [n for n in names if n.lower().endswith(ENDINGS) and not n.startswith(NO_WEIGHTS)]
    if not shards and len(others) != 1:
        fail(f"{len(others)} PyTorch pickles in '{directory}'" + "".join(f", {n}" for n in others), "name one file")
    return [os.path.join(directory, n) for n in shards or others]


def load(path):
    import torch
    try:
        with torch.serialization.safe_globals([argparse.Namespace]):  # timm keeps its options beside the weights
            return torch.load(path, map_location="cpu", weights_only=True)
    except OSError as e:
        fail(f"cannot read '{path}': {e.strerror}", "check the path")
    except Exception as e:  # whatever a damaged file or a class raises
        code = re.search(r"GLOBAL (\S+)", str(e))
        why = f"it asks for {code.group(1)}, which is code" if code else str(e).splitlines()[0].split(". ")[0]
        fail(f"'{path}' cannot be read as tensors and plain containers\n  why: {why}",
             "load it in the program that wrote it and save model.state_dict() alone"
             if code else "fetch the file again")


def tensors_of(path, averaged):
    """The tensors of a pickle by name, out of the dictionaries that trainers put around them."""
    import torch
    found = load(path)
    wrapped = ["state_dict_ema", "model_ema"] if averaged else ["state_dict", "model_state_dict", "model", "module"]
    if averaged and not (isinstance(found, dict) and any(w in found for w in wrapped)):
        fail(f"'{path}' has no averaged model", "leave --ema out")
    for name in wrapped:
        if isinstance(found, dict) and isinstance(found.get(name), dict):
            found = found[name]
    if not isinstance(found, dict) or not any(isinstance(v, torch.Tensor) for v in found.values()):
        fail(f"there are no tensors in '{path}'", "a file with a state_dict")
    odd = [k for k, v in found.items() if not isinstance(v, torch.Tensor)]
    if odd:
        print(f"note: left aside, because they are no tensors: {', '.join(map(str, odd))}", file=sys.stderr)
    found = {k: v for k, v in found.items() if isinstance(v, torch.Tensor)}
    for prefix in ("module.", "_orig_mod."):                                    # what parallel and compiled models add
        if all(k.startswith(prefix) for k in found):
            found = {k[len(prefix):]: v for k, v in found.items()}
    return found


# ---- MambaVision ----

def is_mambavision(tensors):
    return any(k.endswith("patch_embed.conv_down.3.weight") for k in tensors)


def shapes_of(tensors):
    """What the shapes of a MambaVision say; names without the prefix."""
    blocks = [set(re.findall(rf"^levels\.{i}\.blocks\.(\d+)\.", "\n".join(tensors), re.M)) for i in range(4)]
    fc1 = next((v for k, v in tensors.items() if k.endswith("mlp.fc1.weight")), None)
    if "head.weight" not in tensors or fc1 is None or not all(blocks):
        fail("this is a part of a MambaVision alone",
             "a checkpoint for classification, with levels.0 to levels.3 and head")
    return {"dim": tensors["patch_embed.conv_down.3.weight"].shape[0],
            "in_dim": tensors["patch_embed.conv_down.0.weight"].shape[0],
            "depths": [len(b) for b in blocks],
            "mlp_ratio": fc1.shape[0] // fc1.shape[1],
            "num_classes": tensors["head.weight"].shape[0],
            "layer_scale": 1e-5 if any(k.endswith("gamma_1") for k in tensors) else None}


def size_of(shapes, options):
    """The published size with these shapes: by name, or where only one has them."""
    fits = [n for n, p in PUBLISHED.items() if (shapes["dim"], shapes["in_dim"], shapes["depths"]) == p[:3]]
    if options.model and options.model not in fits:
        fail(f"the file is no {options.model}: dim {shapes['dim']}, in_dim {shapes['in_dim']}, depths "
             f"{shapes['depths']}",
             f"--model {fits[0]}" if fits else "leave --model out; --heads and --windows say what the shapes do not")
    if options.model or len(fits) == 1:
        return options.model or fits[0]
    if not fits and not (options.heads and options.windows):
        fail(f"no published MambaVision has dim {shapes['dim']}, in_dim {shapes['in_dim']}, depths {shapes['depths']}",
             "--heads A B C D --windows A B C D, which the shapes do not tell")
    if fits and not options.windows:
        fail(f"{' and '.join(fits)} have the same shapes", f"--model {fits[0]}, or another of them")
    return fits[0] if fits else None


def mambavision_config(tensors, options):
    shapes = shapes_of(tensors)
    name = size_of(shapes, options)
    *_, heads, windows, drop, side, crop = PUBLISHED[name] if name else (None, None, 0.2, 224, 0.875)
    config = {"model_type": "mambavision", "architectures": ["MambaVisionModelForImageClassification"], **shapes,
              "num_heads": options.heads or heads, "window_size": options.windows or windows,
              "drop_path_rate": drop, "layer_scale_conv": None, "resolution": options.image or side,
              "crop_pct": crop, "crop_mode": "center" if side != 512 else "squash",
              "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225], "torch_dtype": "float32"}
    print(f"config.json: {name or 'a MambaVision of another size'}, from the shapes")
    return config


# ---- the directory ----

def config_of(tensors, options):
    """A configuration: given, or beside the pickle, or told by the shapes."""
    directory = options.source if os.path.isdir(options.source) else os.path.dirname(options.source) or "."
    beside = options.config or os.path.join(directory, "config.json")
    if options.config or (os.path.isfile(beside) and not options.model and not options.heads):
        print(f"config.json: '{beside}'")
        try:
            with open(beside) as f:
                return json.load(f)
        except (OSError, ValueError) as e:
            fail(f"cannot read '{beside}': {e}", "a config.json")
    if is_mambavision(tensors):
        return mambavision_config({k.removeprefix("model."): v for k, v in tensors.items()}, options)
    fail("no config.json: nothing says which model this is", "--config FILE, or put it beside the pickle")


def write(out, tensors, config, source):
    """All of it or nothing."""
    from safetensors.torch import save_file
    building = out.rstrip("/") + ".partial"
    shutil.rmtree(building, ignore_errors=True)
    os.makedirs(building)
    # Tied tensors are one memory under two names; a file has a copy for each, and readers find that they are the same.
    save_file({k: v.detach().clone().contiguous() for k, v in tensors.items()},
              os.path.join(building, "model.safetensors"), {"format": "pt"})
    with open(os.path.join(building, "config.json"), "w") as f:
        json.dump(config, f, indent=1)
        f.write("\n")
    if os.path.isdir(source):
        for name in sorted({n for b in BESIDE for n in glob.glob(os.path.join(source, b)) if os.path.isfile(n)}):
            shutil.copy(name, building)
    os.rename(building, out)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("source", help="a pickle, or a directory with one")
    p.add_argument("out", help="the directory to make")
    p.add_argument("--config", metavar="FILE", help="config.json of the model (the one beside the pickle)")
    p.add_argument("--model", choices=sorted(PUBLISHED), metavar="NAME", help="the published MambaVision it is: "
                   + ", ".join(sorted(PUBLISHED)))
    p.add_argument("--heads", type=int, nargs=4, metavar="N", help="MambaVision of another size: heads of the stages")
    p.add_argument("--windows", type=int, nargs=4, metavar="N", help="its sides of the windows")
    p.add_argument("--image", type=int, metavar="N", help="side of its images (224)")
    p.add_argument("--ema", action="store_true", help="the averaged model that timm keeps beside the last one")
    options = p.parse_args()
    try:
        import safetensors.torch  # noqa: F401
    except ImportError as e:
        fail(f"Python has no '{e.name}'", "pip install torch safetensors")
    if os.path.exists(options.out):
        fail(f"'{options.out}' is there already", "another name, or remove it")
    if not os.path.exists(options.source):
        fail(f"there is no '{options.source}'", "check the path")
    tensors = {}
    for path in pickles_of(options.source) if os.path.isdir(options.source) else [options.source]:
        tensors.update(tensors_of(path, options.ema))
    config = config_of(tensors, options)
    if config.get("model_type") == "mambavision":                               # as published: part of another module
        tensors = {"model." + k.removeprefix("model."): v for k, v in tensors.items()}
    write(options.out, tensors, config, options.source)
    print(f"{options.out}: {len(tensors)} tensors, {sum(v.numel() for v in tensors.values())} numbers")


if __name__ == "__main__":
    main()
