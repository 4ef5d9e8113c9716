# SPDX-License-Identifier: Apache-2.0
"""A training step of MambaVision-T at its best, for side_steps.py: torch.compile of the model and of the loss, fused
AdamW, channels last, bf16 autocast, the whole step as a CUDA graph.

    PEERS_ROOT=ROOT PYTHONPATH=FOLDER python3 tools/peers/vision_step.py [amp|bf16]

The images lie in pinned memory and are copied to the GPU inside the step, as ours are. bf16: parameters and optimizer
states too. FOLDER holds e_vision.py (stand-ins for timm's layers) and common.py. The result is a line of
$OUT/results.jsonl."""
import os
import sys

import e_vision as e
from common import _pkg, SRC, emit, patch, profile_steps
import torch
import torch.nn.functional as F

BATCH, STEPS = 128, 24


def build(mode):
    e.stub_timm()
    import mamba_ssm.modules.mamba_simple                      # noqa: F401 - MambaVision takes its functions
    base = os.path.join(SRC, "mambavision", "mambavision")
    _pkg("mambavision", base)
    _pkg("mambavision.models", os.path.join(base, "models"))
    from mambavision.models.mamba_vision import MambaVision
    torch.manual_seed(0)
    model = MambaVision(depths=[1, 3, 8, 4], num_heads=[2, 4, 8, 16], window_size=[8, 8, 14, 7], dim=80, in_dim=32,
                        mlp_ratio=4, resolution=224, drop_path_rate=0.2)
    kind = torch.bfloat16 if mode == "bf16" else torch.float32
    return model.to("cuda", dtype=kind, memory_format=torch.channels_last).train(), kind


def main():
    mode = sys.argv[1] if len(sys.argv) > 1 else "amp"
    patch(False)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.benchmark = True
    model, kind = build(mode)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.05, fused=True, capturable=True)
    host = torch.randn(BATCH, 3, 224, 224).to(memory_format=torch.channels_last).pin_memory()
    images = torch.empty_like(host, device="cuda", memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (BATCH,), device="cuda")
    net, loss_of = torch.compile(model), torch.compile(lambda y: F.cross_entropy(y, labels, label_smoothing=0.1))

    def step(_=0):
        images.copy_(host, non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=mode == "amp"):
            loss = loss_of(net(images.to(kind)))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        first = float(step().detach())
        for _ in range(4):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    replay = lambda _=0: graph.replay()                        # noqa: E731
    for _ in range(3):
        replay()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(STEPS + 1)]
    marks[0].record()
    for mark in marks[1:]:
        replay()
        mark.record()
    torch.cuda.synchronize()
    times = sorted(a.elapsed_time(b) for a, b in zip(marks, marks[1:]))
    busy = profile_steps(replay, n=3)
    emit("E", model="MambaVision-T", batch=BATCH, mode=mode, variant="compiled", ms=times[STEPS // 2],
         gpu_ms=busy["gpu_us"] / 1e3, peak_gib=torch.cuda.memory_reserved() / 2 ** 30, loss0=first, top=busy["top"])


if __name__ == "__main__":
    main()
