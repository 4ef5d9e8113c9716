# SPDX-License-Identifier: Apache-2.0
"""Training steps of models as people have them, and the same after mambascope_torch.install(), in one process:

    tools/peers/extensions ROOT                                  # once: causal_conv1d is compiled code
    PYTHONPATH=bindings/torch PEERS_ROOT=ROOT PEERS_SCRIPTS=FOLDER python3 tools/peers/dropin_steps.py OUT.csv
    ... dropin_steps.py OUT.csv mamba_ssm --ways eager           # one of mamba_ssm, transformers; eager, compiled

Both models are Mamba-2 370m at 8 x 2048 tokens with random weights: mamba_ssm's MambaLMHeadModel with its defaults, and
transformers' Mamba2ForCausalLM, which takes the kernels of mamba_ssm and causal_conv1d. fp32 parameters, bf16
autocast, fused AdamW. `compiled` is torch.compile of every block, once for all. A run is --steps steps from the same
weights on the same tokens; its time is the median of all but the first five, by events around each step. FOLDER holds
common.py: import shims, and Triton compilation on all cores.

How far bf16 takes such losses apart, theirs tell: the same model with chunks of 128 and of 64 instead of 256 computes
the same with other roundings. OUT.csv gets a line for each run, with every loss. Ends with 1 if at some step our losses
are further from theirs than 1.5 times the largest difference between two of their runs so far (before there is any:
0.1 % of the first loss), or if a step is less than 1.3 times as fast as theirs."""
import argparse
import csv
import gc
import os
import sys

BATCH, LENGTH, VOCABULARY, WARM, CHUNKS = 8, 2048, 50288, 5, (256, 128, 64)


def mamba_ssm_model(torch, chunk):
    from mamba_ssm.models.config_mamba import MambaConfig
    from mamba_ssm.models.mixer_seq_simple import MambaLMHeadModel
    config = MambaConfig(d_model=1024, n_layer=48, ssm_cfg={"layer": "Mamba2", "chunk_size": chunk},
                         pad_vocab_size_multiple=16)
    model = MambaLMHeadModel(config, device="cuda", dtype=torch.float32)

    def loss(tokens):
        logits = model(tokens[:, :-1]).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    return model, loss, model.backbone.layers


def transformers_model(torch, chunk):
    import transformers
    config = transformers.Mamba2Config(hidden_size=1024, num_hidden_layers=48, num_heads=32, head_dim=64,
                                       state_size=128, n_groups=1, expand=2, chunk_size=chunk, vocab_size=VOCABULARY,
                                       use_cache=False)
    with torch.device("cuda"):
        model = transformers.Mamba2ForCausalLM(config)
    return model, lambda tokens: model(tokens[:, :-1], labels=tokens[:, :-1], use_cache=False).loss, \
        model.backbone.layers


MODELS = {"mamba_ssm": mamba_ssm_model, "transformers": transformers_model}


def run(torch, common, build, chunk, compiled, steps):
    """Losses, median milliseconds of a step and peak memory in GiB."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.manual_seed(3)
    model, loss_of, blocks = build(torch, chunk)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    tokens = [torch.randint(0, 50000, (BATCH, LENGTH + 1), device="cuda") for _ in range(4)]

    def forward(i):
        with torch.autocast("cuda", torch.bfloat16):
            return loss_of(tokens[i % 4])
    common.patch(False)
    if not compiled:
        with common.dry_run():
            forward(0).backward()
        model.zero_grad(set_to_none=True)
        common.patch(False)
    for block in blocks if compiled else ():
        block.compile()
    losses, marks = [], [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
    marks[0].record()
    for i in range(steps):
        loss = forward(i)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
        marks[i + 1].record()
    torch.cuda.synchronize()
    times = sorted(a.elapsed_time(b) for a, b in zip(marks[WARM:], marks[WARM + 1:]))
    return [float(v) for v in losses], times[len(times) // 2], torch.cuda.max_memory_allocated() / 2 ** 30


def within_noise(theirs, ours):
    """Whether ours stay as near to theirs as these are to each other with other roundings, up to a factor."""
    noise, good = 0.001 / 1.5 * theirs[0][0], True
    for step, own in enumerate(ours):
        now = [losses[step] for losses in theirs]
        noise = max(noise, max(now) - min(now))
        good &= abs(now[0] - own) <= 1.5 * noise
    return good


def compare(o, out, name, way):
    """Whether ours is near enough and fast enough."""
    import torch
    import common
    import mambascope_torch
    found = {}
    for whose, chunk in [(f"theirs, chunks of {n}", n) for n in CHUNKS] + [("ours", CHUNKS[0])]:
        if whose == "ours":
            print("  installed in", len(mambascope_torch.install()), "places")
        torch._dynamo.reset()
        found[whose] = losses, ms, peak = run(torch, common, MODELS[name], chunk, way == "compiled", o.steps)
        mambascope_torch.uninstall()
        out.writerow([name, way, whose, f"{ms:.3f}", f"{peak:.2f}", " ".join(f"{v:.4f}" for v in losses)])
        o.file.flush()
        print(f"{name} {way} {whose}: {ms:.2f} ms a step, {peak:.1f} GiB, losses {losses[0]:.4f} .. {losses[-1]:.4f}",
              flush=True)
    *peers, (ours, our_ms, _) = found.values()
    theirs, their_ms = [losses for losses, *_ in peers], min(ms for _, ms, _ in peers)
    apart = max(abs(a - b) for a, b in zip(theirs[0], ours))
    noise = max(max(now) - min(now) for now in zip(*theirs))
    near = within_noise(theirs, ours)
    print(f"{name} {way}: {their_ms / our_ms:.2f} times as fast; losses at most {apart:.4f} apart, theirs with other "
          f"chunks {noise:.4f}: {'within' if near else 'beyond'} noise", flush=True)
    return their_ms >= 1.3 * our_ms and near


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("models", nargs="*", metavar="MODEL", help=" ".join(MODELS))
    p.add_argument("--ways", nargs="+", choices=("eager", "compiled"), default=["eager", "compiled"])
    p.add_argument("--steps", type=int, default=20)
    o = p.parse_intermixed_args()
    if any(m not in MODELS for m in o.models):
        p.error(f"models: {' '.join(MODELS)}")
    import transformers                                  # noqa: F401 - before common.py puts a stand-in for the hub
    import huggingface_hub                               # noqa: F401
    sys.path.insert(0, os.environ["PEERS_SCRIPTS"])
    import common
    common.setup_paths("mamba")
    common.install_dry()
    good = True
    with open(o.out, "w", encoding="utf-8", newline="") as o.file:
        out = csv.writer(o.file)
        out.writerow(["model", "way", "whose", "step_ms", "peak_gib", "losses"])
        for way in o.ways:
            for name in o.models or MODELS:
                good &= compare(o, out, name, way)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
