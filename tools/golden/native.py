#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""native.py -- makes tests/golden_native/<name>/: language models of mamba_ssm's own classes, as lm.py does with
transformers'.

    python3 tools/golden/native.py PATH                # PATH: a checkout of github.com/state-spaces/mamba (needs torch,
                                                       einops)
    python3 tools/golden/native.py --check             # writes nothing; compares what is there with plain.py (needs
                                                       numpy only)

The classes of the checkout (MambaLMHeadModel, Block, Mamba, Mamba2, MHA, GatedMLP) run on a CPU in float64. What they
import and a CPU does not have stands here, one plain function or class each: RMSNorm, the gated norm, the SSD one
position at a time, the rotary embedding of flash_attn. Mamba-1 has mamba_ssm's own selective_scan_ref. config.json is
as save_pretrained writes it; the weights are safetensors instead of pytorch_model.bin, a tied head once.

What config.json leaves out is as in the classes: qkv_proj_bias and out_proj_bias true, d_intermediate rounded up to a
multiple of 128, vocab_size to pad_vocab_size_multiple. The program refuses: causal false, rms_norm false,
softmax_scale, mlp_dim, d_ssm, D_has_hdim, rmsnorm false, norm_before_gate, the layer Mamba3."""
import argparse
import dataclasses
import importlib
import json
import math
import os
import shutil
import subprocess
import sys
import types

import numpy as np

import lm

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "golden_native")

MODELS = {
    # biases in attention because nothing is said about them; an MLP of 100 that is made 128 wide; 60 symbols made 64
    "mamba2_attention": (47, dict(
        d_model=32, n_layer=3, vocab_size=60, d_intermediate=100, attn_layer_idx=[1], fused_add_norm=False,
        pad_vocab_size_multiple=16,
        ssm_cfg=dict(layer="Mamba2", d_state=16, headdim=8, ngroups=2, chunk_size=32, use_mem_eff_path=False),
        attn_cfg=dict(num_heads=4, num_heads_kv=2, causal=True, d_conv=4, rotary_emb_dim=4))),
    # no biases because it says so; an MLP of 1
    "mamba1_mlp": (33, dict(
        d_model=24, n_layer=2, vocab_size=64, d_intermediate=1, attn_layer_idx=[0], fused_add_norm=False,
        tie_embeddings=False,
        ssm_cfg=dict(d_state=8, dt_rank=3),
        attn_cfg=dict(num_heads=2, head_dim=16, causal=True, qkv_proj_bias=False, out_proj_bias=False))),
}


# What the classes import and a CPU does not have --------------------------------------------------------------------

def stand_ins():
    import torch
    from torch import nn
    import torch.nn.functional as F

    class RMSNorm(nn.Module):
        def __init__(self, size, eps=1e-5, device=None, dtype=None):
            super().__init__()
            self.eps, self.bias, self.weight = eps, None, nn.Parameter(torch.ones(size))

        def forward(self, x):
            return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight

    class RMSNormGated(nn.Module):
        def __init__(self, size, eps=1e-5, norm_before_gate=True, group_size=None, device=None, dtype=None):
            super().__init__()
            assert not norm_before_gate
            self.eps, self.group_size, self.weight = eps, group_size or size, nn.Parameter(torch.ones(size))

        def forward(self, x, z):
            q = x * F.silu(z)
            runs = q.unflatten(-1, (-1, self.group_size))
            return (runs * torch.rsqrt(runs.square().mean(-1, keepdim=True) + self.eps)).flatten(-2) * self.weight

    def ssd(x, dt, A, B, C, chunk_size, D=None, z=None, dt_bias=None, dt_softplus=False, dt_limit=(0.0, math.inf),
            **other):
        assert z is None and dt_softplus and not any(v for v in other.values() if v is not None)
        heads = x.shape[2]
        B, C = (t.repeat_interleave(heads // t.shape[2], 2) for t in (B, C))
        dt = F.softplus(dt + dt_bias).clamp(*dt_limit)
        h, y = 0, []
        for t in range(x.shape[1]):
            add = (dt[:, t, :, None] * x[:, t])[..., None] * B[:, t, :, None]
            h = torch.exp(dt[:, t] * A)[..., None, None] * h + add
            y.append(torch.einsum("bhpn,bhn->bhp", h, C[:, t]))
        return torch.stack(y, 1) + D[:, None] * x

    class RotaryEmbedding(nn.Module):
        def __init__(self, dim, base=10000.0, interleaved=False, device=None):
            super().__init__()
            assert not interleaved
            self.dim, self.base = dim, base

        def turn(self, v):
            angle = torch.arange(v.shape[1])[:, None] * self.base ** (-torch.arange(0, self.dim, 2).double() / self.dim)
            cos, sin = torch.cos(angle)[:, None], torch.sin(angle)[:, None]
            a, b, rest = v.split([self.dim // 2, self.dim // 2, v.shape[-1] - self.dim], -1)
            return torch.cat([a * cos - b * sin, a * sin + b * cos, rest], -1)

        def forward(self, q, kv, seqlen_offset=0, max_seqlen=None):
            return self.turn(q), torch.stack([self.turn(kv[:, :, 0]), kv[:, :, 1]], 2)

    return dict(RMSNorm=RMSNorm, RMSNormGated=RMSNormGated, ssd=ssd, RotaryEmbedding=RotaryEmbedding)


def original(checkout):
    """(MambaConfig, MambaLMHeadModel) of the checkout."""
    here = stand_ins()

    def module(name, **members):
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(members)

    module("mamba_ssm", __path__=[os.path.join(checkout, "mamba_ssm")])            # without what its __init__ imports
    module("mamba_ssm.modules.mamba3", Mamba3=None)
    module("mamba_ssm.utils.generation", GenerationMixin=object)
    module("mamba_ssm.ops.triton.layer_norm", RMSNorm=here["RMSNorm"], layer_norm_fn=None, rms_norm_fn=None,
           _layer_norm_fwd=None)
    module("mamba_ssm.ops.triton.layernorm_gated", RMSNorm=here["RMSNormGated"])
    module("mamba_ssm.ops.triton.selective_state_update", selective_state_update=None)
    module("mamba_ssm.ops.triton.ssd_combined", mamba_chunk_scan_combined=here["ssd"],
           mamba_split_conv1d_scan_combined=None)
    importlib.import_module("mamba_ssm.modules.mha").RotaryEmbedding = here["RotaryEmbedding"]
    scan = importlib.import_module("mamba_ssm.ops.selective_scan_interface").selective_scan_ref
    importlib.import_module("mamba_ssm.modules.mamba_simple").selective_scan_fn = scan
    models = importlib.import_module("mamba_ssm.models.mixer_seq_simple")
    return models.MambaConfig, models.MambaLMHeadModel


# One directory -----------------------------------------------------------------------------------------------------

def make(name, checkout, classes):
    import torch
    from safetensors.numpy import save_file
    length, settings = MODELS[name]
    directory = os.path.join(ROOT, name)
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    config = classes[0](**settings)
    with open(os.path.join(directory, "config.json"), "w", encoding="utf-8") as f:
        json.dump(dataclasses.asdict(config), f, indent=4)
    model = classes[1](config).double()
    rng = np.random.default_rng(int.from_bytes(name.encode(), "little") % 2**63)
    with torch.no_grad():
        for parameter, p in model.named_parameters():                              # a tied tensor comes once
            p.copy_(torch.from_numpy(lm.draw(parameter, tuple(p.shape), rng).astype(np.float32)))
    tokens = rng.integers(1, settings["vocab_size"], (lm.BATCH, length))
    wide, checked = lm.double_modes()
    with wide, checked:
        ids = torch.from_numpy(tokens)
        logits = model(ids).logits
        loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()

    def stored(of):
        return {k: of(p).detach().numpy().astype(np.float32) for k, p in model.named_parameters()}

    save_file(stored(lambda p: p), os.path.join(directory, "model.safetensors"))
    save_file(stored(lambda p: p.grad), os.path.join(directory, "grads.safetensors"))
    np.save(os.path.join(directory, "tokens.npy"), tokens)
    np.save(os.path.join(directory, "logits.npy"), logits.detach().numpy().astype(np.float32))
    commit = subprocess.run(["git", "-C", checkout, "rev-parse", "--short", "HEAD"], capture_output=True,
                            text=True).stdout.strip()
    with open(os.path.join(directory, "expected.json"), "w", encoding="utf-8") as f:
        json.dump({"loss": loss.item(), "tokens": lm.BATCH * (length - 1),
                   "versions": {"torch": torch.__version__, "mamba_ssm": commit, "numpy": np.__version__}}, f, indent=1)
        f.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", nargs="?", help="of github.com/state-spaces/mamba")
    parser.add_argument("--check", action="store_true", help="compare what is there with plain.py, write nothing")
    arguments = parser.parse_args()
    if not arguments.check and not arguments.checkout:
        parser.error("name a checkout of mamba_ssm, or --check")
    lm.ROOT = ROOT
    classes = None if arguments.check else original(arguments.checkout)
    for name in MODELS:
        if not arguments.check:
            make(name, arguments.checkout, classes)
        lm.report(name)


if __name__ == "__main__":
    main()
