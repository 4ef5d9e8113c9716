# SPDX-License-Identifier: Apache-2.0
"""answers.py -- sentences of README that are computed from results, for tools/docs: the answers to the study's
questions, and the speed of the SSM operators beside mamba_ssm. Numbers and verdicts come from bench/results. A result
that contradicts a sentence stops `./run docs`, so that somebody writes another sentence."""
from tables import Bad, newest, rows_of

CLAIMS, LADDER = "h200/claims.csv", "h200/ssd_ladder.csv"
EXPERIMENTS, VALIDATION = "simulated/experiments.csv", "simulated/validation.csv"
SSD, SCAN = "h200/ssd.csv", "h200/selective_scan.csv"


def value(file, **fields):
    """The newest result with these fields, as a number."""
    found = newest([r for r in rows_of(file) if all(r[f] == v for f, v in fields.items())], str(fields))
    if not found:
        raise Bad(f"{file} has no result {fields}")
    return float(found["value"].removesuffix(" %"))


def extent(numbers, form, end=""):
    low, high = form.format(min(numbers)), form.format(max(numbers))
    return (low if low == high else f"{low} to {high}") + end


def require(true, what):
    if not true:
        raise Bad(f"the results say otherwise: {what} (tools/answers.py)")


def what_takes_the_time():
    share = lambda shape, whose: (100 * value(CLAIMS, what="peer step", shape=shape, metric=whose)
                                  / value(CLAIMS, what="peer step", shape="kernels and copies", metric=whose))
    gemm = next(r["shape"] for r in rows_of(CLAIMS) if r["what"] == "peer step" and r["shape"].startswith("GEMM"))
    verdicts = {r["metric"]: r["value"] for r in rows_of(CLAIMS) if r["what"].startswith("claims: ")
                and r["shape"].startswith("F1 ") and not r["metric"].endswith("measured")}
    largest = sum(v == "reproduced" for v in verdicts.values())
    require(share("SSM", "peer") > share(gemm, "peer") and share("SSM", "ours") < share(gemm, "ours"),
            "kernels decide whether SSM or GEMM takes more time")
    apart = " (head apart)" if "without the head" in gemm else ""
    return (f"It depends on the kernels: SSM {share('SSM', 'peer'):.0f} % and GEMM {share(gemm, 'peer'):.0f} % of a "
            f"Mamba-2 step with mamba_ssm, {share('SSM', 'ours'):.0f} % and {share(gemm, 'ours'):.0f} % with our fused "
            f"kernels{apart}. GEMM is the largest class in {largest} of {len(verdicts)} runs.")


def ladder(metric, unit=None):
    """{(shape and pass, variant): value} of the SSD variants."""
    return {(r["shape"], r["variant"]): float(r["value"]) for r in rows_of(LADDER)
            if r["what"] == "passes" and r["metric"] == metric and unit in (None, r["unit"])}


def quotients(values, variant, ending=""):
    """Of a variant to `chunked`, for every shape and pass that ends so."""
    return [v / values[shape, "chunked"] for (shape, of), v in values.items()
            if of == variant and shape.endswith(ending)]


def short_lived_blocks():
    lives = quotients(ladder("mean life of a block"), "persistent")
    rates = quotients(ladder("DRAM", "GB/s"), "persistent")
    require(min(lives) > 1.5 and max(rates) < 1.1, "blocks that live longer do not move more bytes per second")
    return (f"No. Persistent blocks live {extent(lives, '{:.1f}')} times as long, at {extent(rates, '{:.2f}')} times "
            "the bandwidth. Only static tiles were tried.")


def fusion():
    times = ladder("kernels")
    both = {}
    for (shape, variant), time in times.items():
        layer = shape.rpartition(", ")[0], variant
        both[layer] = both.get(layer, 0) + time
    slower = [100 * (q - 1) for q in quotients(both, "bc_fused")]
    require(min(slower) > 0, "fusing C B^T alone makes SSD slower")
    gain = lambda way: extent([1 / q for q in quotients(times, "fused", way)], "{:.1f}", "×")
    return (f"Fusing C·Bᵀ alone makes SSD {extent(slower, '{:.0f}')} % slower; fusing everything gives "
            f"{gain('forward')} forward, {gain('backward')} backward.")


def best_ratio():
    speed = {}
    for r in rows_of(EXPERIMENTS):
        if r["what"] == "q2":
            speed.setdefault(r["shape"], {})[r["metric"]] = float(r["value"])
    gain = lambda low, high: [100 * (s[high] / s[low] - 1) for s in speed.values()]
    require(max(gain("24", "64")) < 5, "beyond 24:1 a step gains little")
    return (f"Open. Steps gain {extent(gain('16', '24'), '{:.0f}')} % from 16:1 to 24:1 and at most "
            f"{max(gain('24', '64')):.0f} % beyond, but the sweep charges neither area nor power.")


def other_sizes():
    rates = {}
    for r in rows_of(EXPERIMENTS):
        if r["what"] == "n1":
            rates.setdefault(int(r["shape"]) * int(r["metric"].removeprefix("batch ")), []).append(float(r["value"]))
    few, many = rates[2048], rates[16384]
    require(max(few) < 1.1 * min(few) and max(many) < 1.1 * min(many), "tokens in flight decide, not their length")
    error = lambda mode: value(VALIDATION, what="errors of kernels", shape="SSM, held out", metric=mode)
    return (f"Tokens in flight decide, not length: {extent(few, '{:.0f}')} thousand tokens/s with 2,048, "
            f"{extent(many, '{:.0f}')} with 16,384. Only the H200 is validated: SSM kernels are "
            f"{error('profile-driven with SASS'):.0f} % off by counters, {error('plan-driven'):.0f} % by launch plans.")


def study():
    rows = [("What takes the time?", what_takes_the_time(), "measured"),
            ("Q1: do short-lived blocks cause low bandwidth?", short_lived_blocks(), "measured"),
            ("Q2: which tensor:vector ratio is best?", best_ratio(), "simulated"),
            ("Q3: what does fusion give?", fusion(), "measured"),
            ("N1, N2: other sizes, other GPUs?", other_sizes(), "simulated")]
    return ["| question | answer | basis |", "|---|---|---|", *("| " + " | ".join(row) + " |" for row in rows)]


def speeds():
    """Forward passes beside mamba_ssm, by the latest results."""
    shapes = {r["shape"] for r in rows_of(SSD) if r["what"] == "ssd" and r["peer"] == "mamba_ssm"}
    fused = [value(SSD, what="ssd", shape=s, metric="forward", peer="mamba_ssm")
             / value(SSD, what="ssd", shape=s, metric="forward alone", variant="fused") for s in shapes]
    other = [float(r["value"]) for r in rows_of(SSD) if r["what"] == "ssd at other shapes" and r["variant"] != "fused"
             and r["metric"] == "forward, times mamba_ssm"]
    scan = [r for r in rows_of(SCAN) if r["metric"] == "forward, times mamba_ssm"]
    last = max(r["date"] for r in scan)
    scan = [float(r["value"]) for r in scan if r["date"] == last]
    return [f"Our SSD forward runs at {extent(fused, '{:.1f}')} times mamba_ssm's speed for P 64, N 128, at "
            f"{extent(other, '{:.1f}')} times for other sizes",
            "([ssd.md](src/ops/ssd/ssd.md)); the selective scan at "
            f"{extent(scan, '{:.1f}')} times ([selective_scan.md](src/ops/selective_scan/selective_scan.md))."]


BLOCKS = {"study": study, "speeds": speeds}
