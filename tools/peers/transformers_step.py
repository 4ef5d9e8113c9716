#!/usr/bin/env python3
"""transformers_step.py -- seconds of one training step of transformers on this CPU, at its fastest setting here.

    python3 tools/peers/transformers_step.py                          all models (needs torch and transformers)
    python3 tools/peers/transformers_step.py mamba2-130m --steps 5    one of them
    python3 tools/peers/transformers_step.py >> bench/results/cpu/transformers.jsonl

A step is forward, mean next-token loss, backward and torch's fused AdamW, in float32, batch 1 x length 1024 of random
tokens, random weights. First every setting (threads, torch.compile, attention) is tried on the model cut to a few
layers; those within 1.25 times the best processor time per thread are then timed on the whole model, and the one with
the shortest step is reported.
Each trial is a process of its own, stopped when it passes --limit seconds or leaves the machine less than 1.5 GB of
memory; one that is stopped counts as not working.

stdout: one JSON line per model. seconds_min and seconds_median are over the timed steps; gflops_before and gflops_after
are a float32 matrix product of torch, with the same threads, just around them; cpu_s is the processor time of all
threads in one step, the least over the steps. On a machine that others use, seconds_min lies above what an idle machine
would show, and cpu_s / threads not far below it (threads that wait spin). `tried` lists the trials; `loss` must be the
same for all settings of one size, or the script stops."""
import argparse
import datetime
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time

LENGTH = 1024
HYBRID = "M-M-M-M*-M-M-M-M*-M-M-M-"

# name: layers of the trials, layers in all, attention implementations to try
MODELS = {
    "mamba-130m": (1, 24, ["eager"]),
    "mamba2-130m": (3, 24, ["eager"]),
    "hybrid-130m": (9, 24, ["sdpa", "eager"]),
}


# Inside a trial ----------------------------------------------------------------------------------------------------

def build(name, layers, attention):
    import torch
    import transformers
    ids = dict(pad_token_id=0, bos_token_id=0, eos_token_id=0)
    if name == "mamba-130m":
        config = transformers.MambaConfig(
            hidden_size=768, num_hidden_layers=layers, vocab_size=50280, state_size=16, **ids)
    elif name == "mamba2-130m":
        config = transformers.Mamba2Config(
            hidden_size=768, num_hidden_layers=layers, vocab_size=50288, num_heads=24, head_dim=64, state_size=128,
            n_groups=1, chunk_size=256, tie_word_embeddings=True, **ids)
    else:
        kinds = {"M": "linear_attention", "*": "full_attention", "-": "mlp"}
        config = transformers.NemotronHConfig(
            hidden_size=768, layers_block_type=[kinds[s] for s in HYBRID[:layers]], vocab_size=50288,
            mamba_num_heads=24, mamba_head_dim=64, ssm_state_size=128, n_groups=1, chunk_size=128,
            num_attention_heads=12, num_key_value_heads=4, head_dim=64, intermediate_size=3072, mlp_hidden_act="relu2",
            tie_word_embeddings=True, **ids)
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention)
    if name == "hybrid-130m":               # its class ignores tie_word_embeddings (transformers 5.22)
        model.lm_head.weight = model.model.embeddings.weight
    return model.train()


def matmul_gflops():
    import torch
    n = 1024
    a, b = torch.randn(n, n), torch.randn(n, n)
    seconds = []
    for _ in range(8):
        start = time.perf_counter()
        a @ b
        seconds.append(time.perf_counter() - start)
    return round(2e-9 * n ** 3 / min(seconds), 1)


def step(model, optimizer, tokens):
    """Seconds of forward, backward, update, and of processor time in all; and the loss before it."""
    cpu, t0 = time.process_time(), time.perf_counter()
    loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
    t1 = time.perf_counter()
    loss.backward()
    t2 = time.perf_counter()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return (t1 - t0, t2 - t1, time.perf_counter() - t2, time.process_time() - cpu), loss.item()


def trial(setting):
    """One setting in this process; the result is the last line of stdout."""
    import torch
    torch.set_num_threads(setting["threads"])
    model = build(setting["model"], setting["layers"], setting["attention"])
    blocks = (model.backbone if hasattr(model, "backbone") else model.model).layers
    if setting["compile"]:                  # block by block: one compilation serves all layers of a kind
        torch._dynamo.config.cache_size_limit = 64
        for block in blocks:
            block.compile()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, 50277, (1, LENGTH), generator=generator)
    _, loss = step(model, optimizer, tokens)                                         # warms up, compiles
    before = matmul_gflops()
    timed = [step(model, optimizer, tokens)[0] for _ in range(setting["steps"])]
    after = matmul_gflops()
    totals = [sum(parts[:3]) for parts in timed]
    best = timed[totals.index(min(totals))]
    print(json.dumps({
        "parameters": sum(p.numel() for p in model.parameters()), "loss": loss, "steps": len(totals),
        "seconds_min": round(min(totals), 3), "seconds_median": round(statistics.median(totals), 3),
        "forward_s": round(best[0], 3), "backward_s": round(best[1], 3), "adamw_s": round(best[2], 3),
        "cpu_s": round(min(parts[3] for parts in timed), 3),
        "gflops_before": before, "gflops_after": after,
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2 ** 20, 1)}))


# Around the trials -------------------------------------------------------------------------------------------------

SETTING = ("layers", "threads", "compile", "attention")


def pick(record, keys):
    return {k: record.get(k) for k in keys}


def available_gb():
    with open("/proc/meminfo", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("MemAvailable")) / 2 ** 20


def run_trial(setting, limit_s):
    """The trial's result, or None; it is stopped at limit_s, or when the machine runs out of memory."""
    child = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--trial", json.dumps(setting)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    start, reason = time.monotonic(), None
    while True:
        try:
            out, err = child.communicate(timeout=1)
            break
        except subprocess.TimeoutExpired:
            if time.monotonic() - start > limit_s:
                reason = f"stopped after {limit_s} s"
            elif available_gb() < 1.5:
                reason = "stopped: memory"
            if reason:
                child.kill()
                out, err = child.communicate()
                break
    result = json.loads(out.splitlines()[-1]) if not reason and child.returncode == 0 else None
    said = f"{result['seconds_min']} s" if result else reason or (err.strip().splitlines() or ["no message"])[-1]
    told = " ".join(f"{k}={v}" for k, v in pick(setting, SETTING).items())
    print(f"{setting['model']} {told}: {said}", file=sys.stderr, flush=True)
    return result


def cpu_name():
    for line in subprocess.run(["lscpu"], capture_output=True, text=True).stdout.splitlines():
        if line.startswith("Model name:"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def measure(name, arguments):
    import torch
    import transformers
    few, layers, attentions = MODELS[name]
    tried = []
    for attention in attentions:
        for compiled in (False, True):
            for threads in sorted({1, os.cpu_count()}, reverse=True):
                setting = dict(model=name, layers=few, threads=threads, compile=compiled, attention=attention, steps=2)
                tried.append((setting, run_trial(setting, arguments.limit)))
    worked = [(s, r) for s, r in tried if r]
    losses = [r["loss"] for _, r in worked]
    assert max(losses) - min(losses) < 1e-4, f"{name}: settings disagree about the loss: {losses}"
    # By processor time per thread: unlike wall time, it is much the same when others compute.
    cost = [r["cpu_s"] / s["threads"] for s, r in worked]
    whole = [dict(s, layers=layers, steps=arguments.steps) for (s, _), c in zip(worked, cost) if c <= 1.25 * min(cost)]
    whole = [(s, run_trial(s, 4 * arguments.limit)) for s in whole]
    fastest, result = min((pair for pair in whole if pair[1]), key=lambda pair: pair[1]["seconds_min"])
    return {
        "model": name, "batch": 1, "length": LENGTH, "dtype": "float32", "setting": pick(fastest, SETTING[1:]),
        **result,
        "tried": [pick(s, SETTING) | pick(r or {}, ("seconds_min", "cpu_s", "loss")) for s, r in tried + whole],
        "machine": {"cpu": cpu_name(), "cores": os.cpu_count(), "arch": platform.machine()},
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__,
                     "python": platform.python_version()},
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "command": f"tools/peers/transformers_step.py {name} --steps {arguments.steps} --limit {arguments.limit}",
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help=", ".join(MODELS) + "; all if none is named")
    parser.add_argument("--steps", type=int, default=3, help="timed steps of the whole model")
    parser.add_argument("--limit", type=int, default=300, help="seconds per trial; four times that for a whole model")
    parser.add_argument("--trial", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.trial:
        return trial(json.loads(arguments.trial))
    for name in arguments.models or MODELS:
        print(json.dumps(measure(name, arguments)), flush=True)


if __name__ == "__main__":
    main()
