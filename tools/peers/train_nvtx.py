# SPDX-License-Identifier: Apache-2.0
"""A training loop of the peer stack (PyTorch, mamba_ssm, Triton) whose steps are NVTX ranges, to be watched from
outside:

    mambascope profile --out peer.db --range step -- python tools/peers/train_nvtx.py --model mamba2-130m --batch 8
    --length 2048

AMP as the authors recommend, fused AdamW, random tokens. mamba_ssm must be importable; PEERS_SCRIPTS may name a folder
whose common.py knows where the checkouts are (setup_paths) and compiles Triton kernels with all cores before they run
(dry_run)."""
import argparse
import contextlib
import importlib.util
import os
import sys
import time

p = argparse.ArgumentParser()
p.add_argument("--model", default="mamba2-130m")
p.add_argument("--batch", type=int, default=8)
p.add_argument("--length", type=int, default=2048)
p.add_argument("--warmup", type=int, default=4)
p.add_argument("--steps", type=int, default=5)
p.add_argument("--layers", type=int, default=0,
               help="fewer layers than the model has: for counters, kernels stay the same")
p.add_argument("--check", action="store_true", help="run nothing; exit 1 and say what Python does not find")
o = p.parse_args()


def missing():
    """What the model needs and Python does not find; None: nothing. Mamba-2's kernels are Triton, but its convolution
    and Mamba-1's scan are extensions."""
    package = sys.modules.get("mamba_ssm")
    if not (os.path.isdir(package.__path__[0]) if package else importlib.util.find_spec("mamba_ssm")):
        return "mamba_ssm"
    modules = ["torch", "triton", "einops", "causal_conv1d_cuda"]
    modules += ["selective_scan_cuda"] * (not o.model.startswith("mamba2"))
    return next((m for m in modules if importlib.util.find_spec(m) is None), None)


compiling = contextlib.nullcontext
if "PEERS_SCRIPTS" in os.environ:
    sys.path.insert(0, os.environ["PEERS_SCRIPTS"])
    import common
    common.setup_paths("mamba")
if o.check:
    lacks = missing()
    sys.exit(f"Python does not find {lacks}" if lacks else 0)
if "PEERS_SCRIPTS" in os.environ:
    common.install_dry()
    common.patch(False)
    compiling = common.dry_run
import torch
import torch.nn.functional as F
from mamba_ssm.models.config_mamba import MambaConfig
from mamba_ssm.models.mixer_seq_simple import MambaLMHeadModel

M2 = {"layer": "Mamba2"}
CONFIG = {
    "mamba-130m": dict(d_model=768, n_layer=24, pad_vocab_size_multiple=8),
    "mamba-370m": dict(d_model=1024, n_layer=48, pad_vocab_size_multiple=8),
    "mamba2-130m": dict(d_model=768, n_layer=24, ssm_cfg=M2, pad_vocab_size_multiple=16),
    "mamba2-370m": dict(d_model=1024, n_layer=48, ssm_cfg=M2, pad_vocab_size_multiple=16),
    "mamba2-headline": dict(d_model=1024, n_layer=48, ssm_cfg=dict(M2, ngroups=8), pad_vocab_size_multiple=16),
    "mamba2-1.3b": dict(d_model=2048, n_layer=48, ssm_cfg=M2, pad_vocab_size_multiple=16),
}
config = dict(CONFIG[o.model])
if o.layers:
    config["n_layer"] = o.layers
torch.manual_seed(0)
torch.backends.cuda.matmul.allow_tf32 = True
model = MambaLMHeadModel(MambaConfig(**config), device="cuda", dtype=torch.float32)
opt = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
ids = [torch.randint(0, 50000, (o.batch, o.length + 1), device="cuda") for _ in range(4)]


def forward_and_backward(i):
    x = ids[i % 4]
    with torch.autocast("cuda", torch.bfloat16):
        logits = model(x[:, :-1]).logits
        loss = F.cross_entropy(logits.view(-1, logits.shape[-1]), x[:, 1:].reshape(-1))
    loss.backward()
    return loss


def step(i):
    loss = forward_and_backward(i)
    opt.step()
    opt.zero_grad(set_to_none=True)
    return loss


with compiling():
    forward_and_backward(0)
opt.zero_grad(set_to_none=True)
if "PEERS_SCRIPTS" in os.environ:
    common.patch(False)
for i in range(o.warmup):
    loss = step(i)
torch.cuda.synchronize()
times = []
for i in range(o.steps):
    began = time.perf_counter()
    torch.cuda.nvtx.range_push("step")
    loss = step(i)
    torch.cuda.synchronize()
    torch.cuda.nvtx.range_pop()
    times.append(time.perf_counter() - began)
times.sort()
print(f"{o.model} {o.batch}x{o.length}: {1e3 * times[len(times) // 2]:.1f} ms a step (host waits after each), loss "
      f"{loss.item():.4f}", flush=True)
