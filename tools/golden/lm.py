#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lm.py -- makes tests/golden/<name>/: tiny language models of transformers, with logits, loss and gradients.

    python3 tools/golden/lm.py                         all of them (needs torch and transformers, CPU only)
    python3 tools/golden/lm.py mamba_odd bamba_tied    some of them
    python3 tools/golden/lm.py --check                 writes nothing; compares what is there with the numpy model of
                                                       plain.py (needs numpy only)

Each directory is a checkpoint exactly as save_pretrained wrote it (config.json, safetensors) and beside it
    tokens.npy           int64 (B, L), B = 2, ids 1..V-1
    logits.npy           float32 (B, L, V)
    grads.safetensors    float32, d loss / d tensor for every tensor of the checkpoint, under its stored name and shape,
                         a tied tensor once, with both its contributions; the loss is the mean of -log p(next token)
                         over the B*(L-1) predicted positions
    expected.json        that loss, the number of predicted tokens, and the versions it was made with

The checkpoint is read back with from_pretrained(dtype=float32, attn_implementation="eager"), evaluated in double
precision by transformers' own modules and rounded once at the end (README.md has the other ways that were compared).
model.double() alone is not double precision: all five model files force float32 inside. So the model runs in a
TorchFunctionMode that turns every request for float32 into float64 and recomputes the rotary frequencies, and in a
TorchDispatchMode that fails at any float32 result. Every directory is then checked against plain.py, which is written
from the specifications: logits directly, every gradient tensor by a finite difference. A disagreement stops the run."""
import argparse
import hashlib
import json
import math
import os
import shutil
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import plain                                                                       # noqa: E402

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "golden")
BATCH = 2

# Token ids start at 1: bamba and jamba give row pad_token_id (0) of the embedding no gradient from its look-ups.
IDS = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)


def describe(kind, length, options=None, **config):
    """One model: its type, the length it is run at, how it is saved, its configuration (small by default)."""
    small = dict(hidden_size=32, num_hidden_layers=2, vocab_size=60)
    if kind == "nemotron_h":
        symbols = {"M": "linear_attention", "*": "full_attention", "-": "mlp"}
        config["layers_block_type"] = [symbols[s] for s in config.pop("pattern")]
        del small["num_hidden_layers"]
    return kind, length, small | config, options or {}


MODELS = {
    # Mamba-1
    "mamba_odd": describe("mamba", 37, num_hidden_layers=3, vocab_size=61, state_size=16),
    "mamba_rank": describe("mamba", 64, hidden_size=40, vocab_size=80, state_size=8, time_step_rank=5),
    "mamba_bias": describe("mamba", 101, vocab_size=64, state_size=16, use_bias=True, expand=3, time_step_rank=7),
    "mamba_untied": describe("mamba", 20, hidden_size=40, vocab_size=99, state_size=8, conv_kernel=3,
                             use_conv_bias=False, tie_word_embeddings=False),
    # Mamba-2: untied unless it says so
    "mamba2_one_group": describe("mamba2", 100, n_groups=1, num_heads=4, head_dim=16, state_size=16, chunk_size=64,
                                 tie_word_embeddings=True),
    "mamba2_groups2_limit": describe("mamba2", 150, n_groups=2, num_heads=8, head_dim=8, state_size=16, chunk_size=128,
                                     time_step_limit=[0.01, 0.1]),
    # Gated norms over 16 values: where such a group nearly vanishes in a row, float32 loses digits. In seven draws
    # transformers' own float32 was off by 3e-6 to 9e-5 in the worst gradient; this is the one with 3e-6.
    "mamba2_groups4": describe("mamba2", 200, dict(draw="mamba2_groups4 c"), n_groups=4, num_heads=4, head_dim=16,
                               state_size=16, chunk_size=64, tie_word_embeddings=True),
    "mamba2_short_limit": describe("mamba2", 29, num_hidden_layers=3, vocab_size=70, n_groups=1, num_heads=4,
                                   head_dim=16, state_size=32, chunk_size=256, time_step_limit=[0.02, 0.2],
                                   use_conv_bias=False, tie_word_embeddings=True),
    "mamba2_long": describe("mamba2", 300, n_groups=2, num_heads=4, head_dim=16, state_size=32, chunk_size=256,
                            tie_word_embeddings=True),
    "mamba2_bias": describe("mamba2", 201, hidden_size=40, n_groups=2, num_heads=10, head_dim=8, state_size=16,
                            chunk_size=128, use_bias=True),
    # Hybrids. In nemotron_h the Mamba width is heads times head width, whatever `expand` says; likewise attention's.
    "nemotron_h_gqa": describe("nemotron_h", 90, pattern="M*-M-", n_groups=2, mamba_num_heads=4, mamba_head_dim=12,
                               ssm_state_size=16, chunk_size=64, num_attention_heads=4, num_key_value_heads=2,
                               head_dim=12, intermediate_size=64),
    "nemotron_h_limit": describe("nemotron_h", 150, pattern="M-*-", n_groups=4, mamba_num_heads=8, mamba_head_dim=8,
                                 ssm_state_size=16, chunk_size=128, num_attention_heads=3, num_key_value_heads=1,
                                 head_dim=16, intermediate_size=48, time_step_limit=[0.01, 0.1]),
    "bamba_gqa": describe("bamba", 70, num_hidden_layers=3, attn_layer_indices=[1], mamba_n_groups=1, mamba_n_heads=4,
                          mamba_d_state=16, mamba_chunk_size=64, num_attention_heads=4, num_key_value_heads=2,
                          intermediate_size=48),
    "bamba_tied": describe("bamba", 131, hidden_size=48, vocab_size=64, attn_layer_indices=[0], mamba_n_groups=2,
                           mamba_n_heads=6, mamba_d_state=8, mamba_chunk_size=64, num_attention_heads=3,
                           num_key_value_heads=1, intermediate_size=40, tie_word_embeddings=True,
                           rope_parameters=dict(rope_type="default", rope_theta=500.0)),
    "jamba_dense": describe("jamba", 53, num_hidden_layers=3, attn_layer_period=3, attn_layer_offset=1, num_experts=1,
                            mamba_d_state=8, mamba_dt_rank=3, num_attention_heads=4, num_key_value_heads=2,
                            intermediate_size=48),
    # What config.json says and the class does not obey: nemotron_h never ties and, like jamba, has no biases in
    # attention; bamba with an odd number of turning values turns one more; experts that stand in no layer.
    "nemotron_h_flags": describe("nemotron_h", 75, pattern="-M*", n_groups=3, mamba_num_heads=6, mamba_head_dim=7,
                                 ssm_state_size=9, chunk_size=64, num_attention_heads=4, num_key_value_heads=2,
                                 head_dim=5, intermediate_size=37, conv_kernel=2, use_conv_bias=False, use_bias=True,
                                 mlp_bias=True, attention_bias=True, tie_word_embeddings=True),
    "bamba_odd_rotary": describe("bamba", 50, hidden_size=40, attn_layer_indices=[0], mamba_n_groups=2,
                                 mamba_n_heads=4, mamba_d_state=11, mamba_chunk_size=64, mamba_d_conv=3,
                                 mamba_proj_bias=True, mamba_conv_bias=False, num_attention_heads=4,
                                 num_key_value_heads=2, intermediate_size=41, attention_bias=True, mlp_bias=True),
    "jamba_no_experts": describe("jamba", 37, attn_layer_period=2, attn_layer_offset=0, num_experts=4,
                                 expert_layer_period=9, expert_layer_offset=7, mamba_d_state=5, mamba_d_conv=3,
                                 mamba_proj_bias=True, mamba_conv_bias=False, num_attention_heads=4,
                                 num_key_value_heads=2, intermediate_size=40, attention_bias=True,
                                 tie_word_embeddings=True),
    # The file formats
    "mamba2_sharded": describe("mamba2", 45, dict(max_shard_size="30KB"), n_groups=1, num_heads=8, head_dim=8,
                               state_size=16, chunk_size=64),
    "nemotron_h_bf16": describe("nemotron_h", 77, dict(dtype="bfloat16"), pattern="M-*-", n_groups=2, mamba_num_heads=4,
                                mamba_head_dim=16, ssm_state_size=16, chunk_size=128, num_attention_heads=4,
                                num_key_value_heads=1, head_dim=8, intermediate_size=64),
}


# Building the random models ----------------------------------------------------------------------------------------

def inverse_softplus(t):
    return t + np.log(-np.expm1(-t))


def draw(name, shape, rng):
    """Values for one parameter: nothing at a special value, branches of order one, steps between 0.005 and 0.5."""
    last = name.split(".")[-1]
    if name.endswith(("dt_bias", "dt_proj.bias")):
        return inverse_softplus(np.exp(rng.uniform(math.log(0.005), math.log(0.5), shape)))
    if last == "A_log" and len(shape) == 2:                                        # Mamba-1: near log(1..N)
        return np.log(np.arange(1, shape[1] + 1)) + rng.normal(0, 0.2, shape)
    if last == "A_log":
        return np.log(rng.uniform(0.3, 8, shape))
    if last == "D":
        return rng.normal(1, 0.3, shape)
    if last == "bias":
        return rng.normal(0, 0.2, shape)
    if len(shape) == 1:                                                            # norm weights
        return rng.normal(1, 0.2, shape)
    if "embed" in name:
        return rng.normal(0, 0.3, shape)
    if "conv1d" in name:
        return rng.normal(0, 0.5, shape)
    return rng.normal(0, shape[1] ** -0.5, shape)


def build(kind, config, name):
    import torch
    import transformers
    model = transformers.AutoModelForCausalLM.from_config(
        transformers.AutoConfig.for_model(kind, **IDS, **config), attn_implementation="eager")
    rng = np.random.default_rng(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little"))
    with torch.no_grad():
        for parameter_name, p in model.named_parameters():                         # a tied tensor comes once
            p.copy_(torch.from_numpy(draw(parameter_name, tuple(p.shape), rng)))
    return model, rng


# Evaluating in double precision ------------------------------------------------------------------------------------

def double_modes():
    """Two contexts: in the first no code can ask for float32 and get it, the second stops at any float32 result.

    The model files force float32 in norms, steps, scans, softmax, rotary angles and the head (`.float()`,
    `.to(torch.float32)`, `dtype=torch.float32`), so model.double() alone rounds to float32 in every layer."""
    import torch
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    def widen(value):
        return torch.float64 if value is torch.float32 else value

    class Float64(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            if function is torch.Tensor.float:
                return args[0].double()
            return function(*map(widen, args), **{k: widen(v) for k, v in (kwargs or {}).items()})

    class NoFloat32(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            for t in result if isinstance(result, (tuple, list)) else (result,):
                assert not isinstance(t, torch.Tensor) or t.dtype is not torch.float32, f"{function} made a float32"
            return result

    return Float64(), NoFloat32()


def evaluate(model, tokens):
    """loss, logits; the gradients are left in the model. In whatever precision the model is."""
    import torch
    model.eval()
    model.zero_grad()
    ids = torch.from_numpy(tokens)
    logits = model(input_ids=ids, use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))
    loss.backward()
    return loss.item(), logits.detach()


def load(directory, obey_limit=True):
    """`obey_limit` repairs nemotron_h where a limit is set: its mixer clamps the step to (time_step_min, inf) and never
    reads time_step_limit (transformers 5.23; their pull request 48989 says the same and does this)."""
    import torch
    import transformers
    model = transformers.AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, attn_implementation="eager")
    for module in model.modules():
        limited = tuple(getattr(model.config, "time_step_limit", ())) != (0.0, math.inf)
        if obey_limit and limited and type(module).__name__ == "NemotronHMamba2Mixer":
            assert module.time_step_limit == (model.config.time_step_min, math.inf), "has transformers repaired it?"
            module.time_step_limit = model.config.time_step_limit
    return model


def evaluate_double(directory, tokens):
    """What we commit: the checkpoint as stored, every operation in float64."""
    model = load(directory).double()
    wide, checked = double_modes()
    with wide, checked:
        for module in model.modules():                   # rotary frequencies were made in float32 when it was built
            if hasattr(module, "inv_freq"):
                module.inv_freq = module.compute_default_rope_parameters(model.config)[0]
        loss, logits = evaluate(model, tokens)
    return model, loss, logits


def gradient_distance(model, truth):
    """Largest |a - b| / max(|b|, 1e-4 * largest |b|) over the tensors, in norms: the measure our engine is held to."""
    pairs = [(p.grad.double(), q.grad) for p, q in zip(model.parameters(), truth.parameters())]
    largest = max(b.norm() for _, b in pairs)
    return max(((a - b).norm() / max(b.norm(), 1e-4 * largest)).item() for a, b in pairs)


def gradients_as_stored(model):
    """{stored name: float32 array}: save_pretrained renames some families, so it names the gradients as well."""
    import torch
    with torch.no_grad():
        for name, p in model.named_parameters():
            assert p.grad is not None and p.grad.abs().max() > 0, f"no gradient for {name}"
            p.copy_(p.grad)
    with tempfile.TemporaryDirectory() as folder:
        model.float().save_pretrained(folder)
        return plain.read_safetensors(os.path.join(folder, "model.safetensors"))


# Checking against plain.py -----------------------------------------------------------------------------------------

def relative(a, b):
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def finite_difference(value, tensor, direction):
    """Derivative of value() along direction, fourth order; tensor is changed in place and put back."""
    step, saved = 1e-4, tensor.copy()
    at = {}
    for k in (1, -1, 2, -2):
        tensor[...] = saved + k * step * direction
        at[k] = value()
    tensor[...] = saved
    return (8 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12 * step)


def check(directory):
    """Largest disagreement between what is stored and plain.py: logits, loss, and over all gradient tensors."""
    config, tensors = plain.load(directory)
    tokens = np.load(os.path.join(directory, "tokens.npy"))
    with open(os.path.join(directory, "expected.json"), encoding="utf-8") as f:
        expected = json.load(f)
    gradients = plain.read_safetensors(os.path.join(directory, "grads.safetensors"))
    assert {k: v.shape for k, v in gradients.items()} == {k: v.shape for k, v in tensors.items()}
    logits = plain.forward(config, tensors, tokens)
    off_logits = relative(np.load(os.path.join(directory, "logits.npy")), logits)
    off_loss = abs(plain.loss(logits, tokens) - expected["loss"])
    rng, off_gradients, worst = np.random.default_rng(1), 0.0, ""

    def value():
        return plain.loss(plain.forward(config, tensors, tokens), tokens)

    for name, g in gradients.items():
        # Along the gradient, so that the derivative is not small, and along something else, so that all of it counts.
        other = rng.normal(size=g.shape)
        direction = g / np.linalg.norm(g) + other / np.linalg.norm(other)
        slope = finite_difference(value, tensors[name], direction)
        off = abs(slope - np.sum(g * direction)) / np.linalg.norm(g)
        if off > off_gradients:
            off_gradients, worst = off, name
    return off_logits, off_loss, off_gradients, worst


def report(name):
    directory = os.path.join(ROOT, name)
    off_logits, off_loss, off_gradients, worst = check(directory)
    size = sum(os.path.getsize(os.path.join(directory, f)) for f in os.listdir(directory))
    print(f"{name:20} {size // 1024} kB, numpy: logits {off_logits:.0e} loss {off_loss:.0e} "
          f"gradients {off_gradients:.0e} ({worst})", flush=True)
    # Stored values are rounded to float32 (3e-8 of the norm). A finite difference across the kink of a step clamp is
    # less exact: 2e-7 was the largest seen.
    assert off_logits < 1e-7 and off_loss < 1e-12 and off_gradients < 1e-6, f"{name}: disagrees with plain.py"


# One directory -----------------------------------------------------------------------------------------------------

def make(name):
    import torch
    import transformers
    from safetensors.numpy import save_file
    kind, length, config, options = MODELS[name]
    directory = os.path.join(ROOT, name)
    shutil.rmtree(directory, ignore_errors=True)
    model, rng = build(kind, config, options.get("draw", name))
    tokens = rng.integers(1, config["vocab_size"], (BATCH, length))
    model.to(getattr(torch, options.get("dtype", "float32"))).save_pretrained(
        directory, max_shard_size=options.get("max_shard_size", "50GB"))

    model, loss, logits = evaluate_double(directory, tokens)
    ways = {"float32": load(directory), "double(), float32 forced inside": load(directory).double()}
    if kind == "nemotron_h" and "time_step_limit" in config:
        ways["float32, time_step_limit ignored"] = load(directory, obey_limit=False)
    for way, other in ways.items():
        other_loss, other_logits = evaluate(other, tokens)
        print(f"{name:20} {way}: loss {other_loss - loss:+.0e} logits {relative(other_logits, logits):.0e} "
              f"gradients {gradient_distance(other, model):.0e}")

    np.save(os.path.join(directory, "tokens.npy"), tokens)
    np.save(os.path.join(directory, "logits.npy"), logits.numpy().astype(np.float32))
    gradients = gradients_as_stored(model)
    save_file({k: v.astype(np.float32) for k, v in gradients.items()}, os.path.join(directory, "grads.safetensors"))
    with open(os.path.join(directory, "expected.json"), "w", encoding="utf-8") as f:
        json.dump({"loss": loss, "tokens": BATCH * (length - 1),
                   "versions": {"torch": torch.__version__, "transformers": transformers.__version__,
                                "numpy": np.__version__}}, f, indent=1)
        f.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="directories to make or check; all of them if none is named")
    parser.add_argument("--check", action="store_true", help="compare what is there with plain.py, write nothing")
    arguments = parser.parse_args()
    names = arguments.names or list(MODELS)
    if not arguments.check:
        import torch
        import transformers
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(True)
        transformers.utils.logging.disable_progress_bar()
        transformers.utils.logging.set_verbosity_error()
    for name in names:
        if not arguments.check:
            make(name)
        report(name)


if __name__ == "__main__":
    main()
