# SPDX-License-Identifier: Apache-2.0
"""trials.py -- finds the fastest setting of a peer's training step on this CPU, and times it: for the scripts here.

    trials.time_steps(model, optimizer, loss_of, steps)      inside a trial: prints the result as one JSON line
    trials.search(script, name, settings, whole, arguments)  around the trials: every setting is tried on a model cut to
                                                             a few layers; those within 1.25 times the fastest are timed
                                                             with `whole` put in, and the fastest of these is returned

Each trial is a process of its own (`script --trial SETTING`), stopped when it passes --limit seconds (four times that
for a whole model) or leaves the machine less than 1.5 GB of memory; one that is stopped counts as not working. Settings
that disagree about the loss of the first step stop the search."""
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


# Inside a trial ----------------------------------------------------------------------------------------------------

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


def step(optimizer, loss_of):
    """Seconds of forward, backward, update, and of processor time in all; and the loss before it."""
    cpu, t0 = time.process_time(), time.perf_counter()
    loss = loss_of()
    t1 = time.perf_counter()
    loss.backward()
    t2 = time.perf_counter()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return (t1 - t0, t2 - t1, time.perf_counter() - t2, time.process_time() - cpu), loss.item()


def time_steps(model, optimizer, loss_of, steps):
    _, loss = step(optimizer, loss_of)                                               # warms up, compiles
    before = matmul_gflops()
    timed = [step(optimizer, loss_of)[0] for _ in range(steps)]
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

def without(record, *keys):
    return {k: v for k, v in record.items() if k not in keys}


def available_gb():
    with open("/proc/meminfo", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("MemAvailable")) / 2 ** 20


def run_trial(script, setting, limit_s):
    """The trial's result, or None; it is stopped at limit_s, or when the machine runs out of memory."""
    child = subprocess.Popen([sys.executable, script, "--trial", json.dumps(setting)],
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
    told = " ".join(f"{k}={v}" for k, v in without(setting, "model", "steps").items())
    print(f"{setting['model']} {told}: {said}", file=sys.stderr, flush=True)
    return result


def search(script, name, settings, whole, arguments):
    """The record of the fastest setting. `settings` are dictionaries with the cut model's `layers` among them, `whole`
    is what changes for the whole one."""
    settings = [{"model": name} | s | {"steps": 2} for s in settings]
    tried = [(s, run_trial(script, s, arguments.limit)) for s in settings]
    worked = [(s, r) for s, r in tried if r]
    losses = [r["loss"] for _, r in worked]
    assert max(losses) - min(losses) < 1e-4, f"{name}: settings disagree about the loss: {losses}"
    bar = 1.25 * min(r["seconds_min"] for _, r in worked)
    last = [s | whole | {"steps": arguments.steps} for s, r in worked if r["seconds_min"] <= bar]
    last = [(s, run_trial(script, s, 4 * arguments.limit)) for s in last]
    fastest, result = min((pair for pair in last if pair[1]), key=lambda pair: pair[1]["seconds_min"])
    said = {k: None for k in ("seconds_min", "cpu_s", "loss")}
    return {"setting": without(fastest, "model", "steps", "layers"), **result,
            "tried": [without(s, "model", "steps") | {k: (r or said)[k] for k in said} for s, r in tried + last]}


def provenance(script, name, arguments, *packages):
    """Machine, versions, date and command line of a record."""
    versions = {p.__name__: p.__version__ for p in packages} | {"python": platform.python_version()}
    options = f"--steps {arguments.steps} --limit {arguments.limit}"
    return {"machine": {"cpu": cpu_name(), "cores": os.cpu_count(), "arch": platform.machine()}, "versions": versions,
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
            "command": f"tools/peers/{os.path.basename(script)} {name} {options}"}


def cpu_name():
    for line in subprocess.run(["lscpu"], capture_output=True, text=True).stdout.splitlines():
        if line.startswith("Model name:"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def main(doc, models, trial, measure):
    """The scripts' command line: trial(setting) runs one trial, measure(name, arguments) returns a model's record."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help=", ".join(models) + "; all if none is named")
    parser.add_argument("--steps", type=int, default=3, help="timed steps of the whole model")
    parser.add_argument("--limit", type=int, default=300, help="seconds per trial; four times that for a whole model")
    parser.add_argument("--trial", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.trial:
        return trial(json.loads(arguments.trial))
    for name in arguments.models or models:
        print(json.dumps(measure(name, arguments)), flush=True)
