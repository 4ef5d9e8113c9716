# SPDX-License-Identifier: Apache-2.0
"""pieces.py -- what the two reference networks (mambavision.py, graphmamba.py) and the makers of their golden vectors
(vision.py, graphs.py) share.

    y = scan(u, step, A, B, C, D)               (M, L, h): the selective scan, one position at a time
    x = next(filled((6, 4)))                    the fill rule of the reference vectors in the specifications
    off, name = gradient_error(loss, tensors)   autograd against finite differences, for every tensor
    write(directory, config, arrays, ..)        one golden directory
    main(__doc__, MODELS, make, check)          the command line that makes and checks them

Plain on purpose: these lines are read next to the equations. Whoever wants speed passes another `scan`."""
import argparse
import hashlib
import json
import math
import os
import shutil

import numpy as np
import torch


def scan(u, step, A, B, C, D):
    """S[t] = exp(step[t] A) S[t-1] + step[t] B[t] u[t];  y[t] = C[t] . S[t] + D u[t].

    u, step (M, L, h); A (h, N), negative; B, C (M, L, N); D (h). The state starts at 0 in each of the M sequences."""
    state = u.new_zeros(u.shape[0], u.shape[2], A.shape[1])
    y = []
    for t in range(u.shape[1]):
        decay = torch.exp(step[:, t, :, None] * A)
        state = decay * state + (step[:, t] * u[:, t])[:, :, None] * B[:, t, None, :]
        y.append((state * C[:, t, None, :]).sum(-1) + D * u[:, t])
    return torch.stack(y, 1)


# Drawing and checking ----------------------------------------------------------------------------------------------

def filled(*shapes):
    """Float64 tensors of the given shapes, filled by a counter that runs through all of them (sections 13)."""
    i = 0
    for shape in shapes:
        count = int(np.prod(shape))
        a = np.arange(i + 1, i + count + 1, dtype=np.uint64) * np.uint64(0x9E3779B9) & np.uint64(0xFFFFFFFF)
        a ^= a >> np.uint64(16)
        a = a * np.uint64(0x85EBCA6B) & np.uint64(0xFFFFFFFF)
        a ^= a >> np.uint64(13)
        a = a * np.uint64(0xC2B2AE35) & np.uint64(0xFFFFFFFF)
        a ^= a >> np.uint64(16)
        i += count
        yield torch.from_numpy((a / 2.0 ** 31 - 1).reshape(shape))


def near(name, value, wanted, digits=9):
    """Compares with numbers a specification prints to so many digits after the point."""
    value, wanted = value.detach().flatten(), torch.tensor(wanted, dtype=torch.float64)
    off = (value - wanted).abs().max().item()
    assert value.shape == wanted.shape and off <= 0.51 * 10.0 ** -digits, f"{name}: {value} is not {wanted}, off {off}"


def gradient_error(loss, tensors):
    """Largest disagreement over `tensors` {name: leaf} between autograd and differences, along the gradient and along
    something else, relative to the gradient's norm (no less than 1e-4 of the largest). loss() is in float64 and must
    give the same value every time. Returns it and the tensor's name."""
    gradients = torch.autograd.grad(loss(), list(tensors.values()), allow_unused=True)
    gradients = [torch.zeros_like(t) if g is None else g for g, t in zip(gradients, tensors.values())]
    largest = max(g.norm().item() for g in gradients)
    generator = torch.Generator().manual_seed(1)
    worst = (0.0, "")
    with torch.no_grad():
        for (name, tensor), g in zip(tensors.items(), gradients):
            other = torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)
            direction = g / max(g.norm().item(), 1e-300) + other / other.norm()
            scale = max(g.norm().item(), 1e-4 * largest)
            # A long step is exact unless it crosses the kink of a ReLU; then a shorter one, with more rounding.
            for step in (1e-3, 1e-4, 1e-5, 1e-6):
                off = abs(slope(loss, tensor, direction, step) - (g * direction).sum().item()) / scale
                if off < 1e-7:
                    break
            worst = max(worst, (off, name))
    return worst


def slope(loss, tensor, direction, step):
    """Derivative of loss() along a direction, fourth order; the tensor is changed in place and put back."""
    at, saved = {}, tensor.clone()
    for k in (1, -1, 2, -2):
        tensor.copy_(saved + k * step * direction)
        at[k] = loss().item()
    tensor.copy_(saved)
    return (8 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12 * step)


# Golden directories ------------------------------------------------------------------------------------------------

def seeded(name):
    """A generator that depends on the name alone."""
    return np.random.default_rng(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little"))


def draw(model, rng, steps_bias):
    """Float32 values for all parameters and buffers of a model: nothing at a special value, branches of order one,
    steps of the scan between 0.005 and 0.5 (`steps_bias` is how often the step's bias enters)."""
    state = {}
    for name, t in model.state_dict().items():
        shape, last = tuple(t.shape), name.split(".")[-1]
        if last == "num_batches_tracked":
            state[name] = np.asarray(7, np.int64)
            continue
        if name.endswith("dt_proj.bias"):
            step = np.exp(rng.uniform(math.log(0.005), math.log(0.5), shape))
            value = (step + np.log(-np.expm1(-step))) / steps_bias
        elif last == "A_log":
            value = np.log(np.arange(1, shape[1] + 1)) + rng.normal(0, 0.2, shape)
        elif last.startswith("running_"):                                          # calibrate() gives them values
            value = np.ones(shape)
        elif last == "bias":
            value = rng.normal(0, 0.2, shape)
        elif last.startswith("gamma_"):
            value = rng.normal(0.6, 0.2, shape)
        elif len(shape) == 1:                                                      # D, norm weights
            value = rng.normal(1, 0.25, shape)
        elif "embedding_list" in name or "edge_encoder" in name:
            value = rng.normal(0, 0.6, shape)
        else:
            value = rng.normal(0, np.prod(shape[1:]) ** -0.5, shape)
        state[name] = value.astype(np.float32)
    return state


def calibrate(model, state, rng, loss_of):
    """Gives the running statistics of a state values not far from those of the batch, so that evaluation with them
    stays of order one."""
    norms = [m for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    for m in norms:
        m.momentum = 1.0                                                           # nothing of the old value
    *_, after = run_step(model.double(), state, loss_of)
    for m in norms:
        m.momentum = 0.1
    for name, b in after.items():
        if name.endswith("running_mean"):
            spread = np.sqrt(after[name.replace("running_mean", "running_var")].numpy())
            state[name] = (b.numpy() + spread * rng.normal(0, 0.2, b.shape)).astype(np.float32)
        elif name.endswith("running_var"):
            state[name] = (b.numpy() * rng.uniform(0.7, 1.5, b.shape)).astype(np.float32)


def run_step(model, state, loss_of):
    """One training step from a stored state, in the model's precision: logits, loss, gradients, state after it."""
    model.load_state_dict({k: torch.from_numpy(v) for k, v in state.items()})
    model.train()
    logits, loss = loss_of(model)
    parameters = dict(model.named_parameters())
    gradients = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
    gradients = {n: torch.zeros_like(p) if g is None else g for (n, p), g in zip(parameters.items(), gradients)}
    after = {n: b.clone() for n, b in model.named_buffers()}
    return logits.detach(), loss.item(), gradients, after


def distance(have, truth):
    """||a - b|| / max(||b||, 1e-4 of the largest ||b||), the worst of all tensors: the measure our engine is held to.
    Returns it and the tensor's name."""
    largest = max(b.double().norm().item() for b in truth.values())
    return max(((have[n].double() - b.double()).norm().item() / max(b.double().norm().item(), 1e-4 * largest), n)
               for n, b in truth.items())


def write(directory, config, state, arrays, result, expected):
    """`arrays` {file name: array}; `result` as run_step gives it, in float64: rounded here, once."""
    from safetensors.numpy import save_file
    logits, loss, gradients, after = result
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)

    def tensors(file, values):
        dense = {k: np.ascontiguousarray(v.astype(np.float32) if v.dtype == np.float64 else v).reshape(v.shape)
                 for k, v in values.items()}                                       # a scalar stays one
        save_file(dense, os.path.join(directory, file))

    def text(file, value):
        with open(os.path.join(directory, file), "w", encoding="utf-8") as f:
            json.dump(value, f, indent=1)
            f.write("\n")

    text("config.json", config)
    tensors("model.safetensors", state)
    tensors("grads.safetensors", {k: g.numpy() for k, g in gradients.items()})
    tensors("stats.safetensors", {k: b.numpy() for k, b in after.items()})
    for name, value in (arrays | {"logits": logits.numpy().astype(np.float32)}).items():
        np.save(os.path.join(directory, name + ".npy"), value)
    text("expected.json", {"loss": loss} | expected | {
        "versions": {"torch": torch.__version__, "numpy": np.__version__}})


def read(directory):
    """config, state, {name: array}, gradients, buffers after the step, expected."""
    from safetensors.numpy import load_file

    def text(file):
        with open(os.path.join(directory, file), encoding="utf-8") as f:
            return json.load(f)

    arrays = {f[:-4]: np.load(os.path.join(directory, f)) for f in os.listdir(directory) if f.endswith(".npy")}
    model, grads, stats = (load_file(os.path.join(directory, f + ".safetensors")) for f in ("model", "grads", "stats"))
    return text("config.json"), model, arrays, grads, stats, text("expected.json")


def compare(directory, model, loss_of, logits_eval):
    """Recomputes a directory in float64 with `model` and compares; gradients also with finite differences."""
    _, state, arrays, grads, stats, expected = read(directory)
    logits, loss, gradients, after = run_step(model.double(), state, loss_of)
    off = {"logits": np.abs(logits.numpy() - arrays["logits"]).max(),
           "evaluated": np.abs(logits_eval(model, state).numpy() - arrays["logits_eval"]).max(),
           "loss": abs(loss - expected["loss"]),
           "gradients": distance({k: torch.from_numpy(v) for k, v in grads.items()}, gradients)[0],
           "statistics": max(np.abs(after[k].numpy() - v).max() for k, v in stats.items())}
    run_step(model, state, loss_of)
    off["differences"], worst = gradient_error(lambda: loss_of(model)[1], dict(model.named_parameters()))
    size = sum(os.path.getsize(os.path.join(directory, f)) for f in os.listdir(directory))
    told = ", ".join(f"{k} {v:.0e}" for k, v in off.items())
    print(f"{os.path.basename(directory):14} {size / 1000:.0f} kB, {told} ({worst})", flush=True)
    assert size < 400000 and off["loss"] < 1e-12 and off["differences"] < 1e-6, directory
    assert max(off[k] for k in ("logits", "evaluated", "gradients", "statistics")) < 1e-5, directory


def zeros(gradients):
    """Names of the tensors whose gradient is zero but for rounding: a bias in front of a BatchNorm, for one."""
    norms = {n: g.norm().item() for n, g in gradients.items()}
    zero = [n for n, v in norms.items() if v < 1e-12 * max(norms.values())]
    assert min(v for n, v in norms.items() if n not in zero) > 1e-5 * max(norms.values()), norms
    return zero


def told(have, truth):
    """How far float32 is off, in words: apart from the zero gradients, and those against the largest one."""
    zero = zeros(truth)
    worst, name = distance(have, {n: g for n, g in truth.items() if n not in zero})
    largest = max(g.norm().item() for g in truth.values())
    noise = max((have[n].norm().item() for n in zero), default=0) / largest
    return f"{worst:.0e} ({name}), zero ones {noise:.0e} of the largest"


def main(about, models, make, check):
    """The command line of a maker: makes and checks the directories that were named, or all of `models`."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="directories to make or check; all of them if none is named")
    parser.add_argument("--check", action="store_true", help="recompute and compare what is there, write nothing")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for name in arguments.names or models:
        if not arguments.check:
            make(name)
        check(name)
