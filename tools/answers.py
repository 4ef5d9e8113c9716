# SPDX-License-Identifier: Apache-2.0
"""answers.py -- blocks of pages that have a name, for tools/docs: sentences that are computed from results, such as
README's answers to the study's questions, and tables with long queries. Numbers and verdicts come from bench/results. A
result that contradicts a sentence stops `./run docs`, so that somebody writes another sentence."""
import functools
import math
import re

import results
from tables import Bad, block_lines, newest, rows_of

CLAIMS, LADDER = "h200/claims.csv", "h200/ssd_ladder.csv"
VALIDATION = "simulated/validation.csv"
SSD, SCAN, SUITE = "h200/ssd.csv", "h200/selective_scan.csv", "h200/suite.csv"
STEPS, NCCL = "h200/steps.csv", "h200/nccl.csv"


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


def cells(claim, metric):
    """{column of the matrix of claims: value}; column "suite" is the whole set."""
    return {r["variant"]: r["value"] for r in rows_of(CLAIMS)
            if r["what"] == "matrix" and r["shape"] == claim and r["metric"] == metric}


def what_takes_the_time():
    gemm, ssm, largest = cells("F1", "number"), cells("F2", "number"), cells("F1", "verdict")
    columns = [v for c, v in largest.items() if c != "suite"]
    require(float(ssm["mamba_ssm"]) > float(gemm["mamba_ssm"]) and float(ssm["fused"]) < float(gemm["fused"]),
            "kernels decide whether SSM or GEMM takes more time")
    return (f"Kernels decide: SSM {ssm['mamba_ssm']} %, GEMM {gemm['mamba_ssm']} % of a Mamba-2 step with mamba_ssm; "
            f"{ssm['fused']} %, {gemm['fused']} % with our fused kernels. GEMM leads in "
            f"{columns.count('reproduced')} of {len(columns)} runs.")


def ladder(metric, unit=None):
    """{(shape and pass, variant): value} of the SSD variants."""
    return {(r["shape"], r["variant"]): float(r["value"]) for r in rows_of(LADDER)
            if r["what"] == "passes" and r["metric"] == metric and unit in (None, r["unit"])}


def quotients(values, variant, ending=""):
    """Of a variant to `chunked`, for every shape and pass that ends so."""
    return [v / values[shape, "chunked"] for (shape, of), v in values.items()
            if of == variant and shape.endswith(ending)]


def suite(metric, run):
    """Of a variant to the baseline, in the suite."""
    of = lambda name: value(CLAIMS, what="Q1 and Q3", shape=name, metric=metric)
    return of(run) / of("mamba2-chunked")


def both_passes(run):
    return sum(value(CLAIMS, what="Q1 and Q3", shape=run, metric=way) for way in ("forward", "backward"))


WAYS = {"persistent": "static", "persistent_dynamic": "dynamic", "persistent_prefetch": "prefetching"}


def short_lived_blocks():
    """The life of a block is everywhere the mean of the kernels' means, weighted by their times. Of ways to take tiles
    that move more bytes the rate is no answer: their bytes and time stand beside it."""
    runs = {way: "mamba2-" + way.replace("_", "-") for way in WAYS}
    there = {r["shape"] for r in rows_of(CLAIMS) if r["what"] == "Q1 and Q3"}
    runs = {way: run for way, run in runs.items() if run in there}
    factors = lambda measured, metric, of: [q for way in of
                                            for q in quotients(measured, way) + [suite(metric, of[way])]]
    more = {way: suite("bytes", run) for way, run in runs.items() if suite("bytes", run) > 1.05}
    plain = {way: run for way, run in runs.items() if way not in more}
    lives = factors(ladder("life of a block"), "life of a block", runs)
    rates = factors(ladder("DRAM", "GB/s"), "DRAM", plain)
    require(min(lives) > 1.5 and max(rates) < 1.1, "blocks that live longer do not move more bytes per second")
    times = {way: both_passes(run) / both_passes("mamba2-chunked") for way, run in runs.items()}
    best = min(plain, key=times.get)
    require(times[best] > 0.95 and all(times[way] > 1 for way in more),
            "no way to take tiles makes persistent blocks help, as the report page has it")
    others = "".join(f"; {WAYS[way]} tiles: {100 * (bytes - 1):.0f} % more bytes, {suite('DRAM', runs[way]):.2f} times "
                     f"the bandwidth, {times[way]:.2f} times the time" for way, bytes in more.items())
    return (f"No. Persistent blocks live {extent(lives, '{:.1f}')} times as long, at {extent(rates, '{:.2f}')} times "
            f"the bandwidth ({', '.join(WAYS[way] for way in plain)} tiles: at best {times[best]:.2f} times the time)"
            f"{others}.")


def fusion():
    times = ladder("kernels")
    both = {}
    for (shape, variant), time in times.items():
        layer = shape.rpartition(", ")[0], variant
        both[layer] = both.get(layer, 0) + time
    suite_wide = both_passes("mamba2-bc_fused") / both_passes("mamba2-chunked")
    slower = [100 * (q - 1) for q in quotients(both, "bc_fused") + [suite_wide]]
    require(min(slower) > 0, "fusing C B^T alone makes SSD slower")
    gain = lambda way: extent([1 / q for q in quotients(times, "fused", way) + [suite(way, "mamba2-headline")]],
                              "{:.1f}", "×")
    return (f"C·Bᵀ alone makes SSD {extent(slower, '{:.0f}')} % slower (1: spread); fusing everything gives "
            f"{gain('forward')} forward, {gain('backward')} backward.")


def effects():
    """(right sign, all, share in percent) of machines emulated beside SSM kernels."""
    return [value(VALIDATION, what="emulated operators", shape="all", metric=m)
            for m in ("right sign", "effects", "share predicted")]


def best_ratio():
    """At equal area or equal power, over all shares of the tensor units."""
    gains = {"whole step": [], "SSM": []}
    for r in rows_of(CLAIMS):
        if r["what"] == "Q2" and r["metric"] == "gain":
            gains["whole step" if r["shape"].endswith(", whole step") else "SSM"].append(100 * (float(r["value"]) - 1))
    require(max(gains["SSM"]) < 10, "no ratio makes SSM kernels much faster")
    right, every, share = effects()
    return (f"16:1 for SSM kernels: at equal area or power the best gains {extent(gains['SSM'], '{:.0f}')} %, "
            f"whole steps {extent(gains['whole step'], '{:.0f}')} %. What-ifs of SSM kernels: {right:.0f} of "
            f"{every:.0f} signs right, at {share:.0f} % of size.")


def other_sizes():
    """Rates of one sequence of 131,072 tokens over those of 16,384, by what mixes the tokens."""
    rate = lambda model, length: value(SUITE, what="sizes", shape=f"{model}-130m", variant=f"batch 1 x length {length}",
                                       metric="thousand tokens/s")
    longer = {model: rate(model, 131072) / rate(model, 16384) for model in ("mamba", "mamba2", "hybrid")}
    require(min(longer["mamba"], longer["mamba2"]) > 1 > 0.6 > longer["hybrid"], "long sequences cost attention only")
    same = extent([longer["mamba"], longer["mamba2"]], "{:.2f}")
    return (f"131,072-token sequences run at {same} times the rate of 16,384, with attention at "
            f"{longer['hybrid']:.2f}.")


def published():
    """How many published speeds of two GPUs there are, and how many the simulator meets within 20 %."""
    cells = {}
    for r in rows_of(VALIDATION):
        if r["what"] == "public numbers":
            numbers = [float(x) for x in re.split("[,;] ", r["value"])]
            cells.setdefault((r["shape"], r["variant"]), {})[r["metric"]] = numbers
    pairs = [pair for c in cells.values() for pair in zip(c["published"], c["simulated"], strict=True)]
    return len(pairs), sum(abs(simulated / real - 1) <= 0.2 for real, simulated in pairs)


def other_gpus():
    """Steps with equal kernels, simulated: the geometric mean over the models, of machines that run all of them."""
    models = {}
    for r in rows_of(CLAIMS):
        if r["what"] == "N2" and r["setting"] == "equal kernels":
            models.setdefault(r["shape"], {})[r["metric"]] = float(r["value"])
    machines = [m for m in ("b200", "h100", "a100", "v100", "mi300x") if all(m in of for of in models.values())]
    require(models and "h100" in machines, "all models of the suite were simulated on an H100")
    mean = {m: math.exp(sum(math.log(of[m]) for of in models.values()) / len(models)) for m in machines}
    every, near = published()
    return ("With equal kernels " + ", ".join(f"{m.upper()} {mean[m]:.2g}" for m in machines) + " times as fast as "
            f"H200; errors unknown, {near} of {every} published ratios met within 20 %.")


def energy():
    joules = lambda part: value(SUITE, what="energy", variant=part, metric="mJ a unit")
    ours, baseline, peer = (joules(p) for p in ("mamba2", "mamba2-chunked", "mamba_ssm-mamba2"))
    require(ours < baseline < peer, "fused kernels need the least energy per token")
    return f"Mamba-2: {ours:.1f} mJ a token; our baseline {baseline:.1f}, mamba_ssm (eager) {peer:.1f}."


def study():
    rows = [("What takes the time?", what_takes_the_time(), "measured"),
            ("Q1: do short-lived blocks cause low bandwidth?", short_lived_blocks(), "measured"),
            ("Q2: which tensor:vector ratio is best?", best_ratio(), "simulated"),
            ("Q3: what does fusion give?", fusion(), "measured"),
            ("N1: other sizes?", other_sizes(), "measured"),
            ("N2: other GPUs?", other_gpus(), "simulated"),
            ("What energy?", energy(), "measured")]
    return ["| question | answer | basis |", "|---|---|---|", *("| " + " | ".join(row) + " |" for row in rows)]


# Tables with long queries: `<!-- generated: NAME -->`. AS_OURS: fp32 master weights; of graphs the faster setting.
AS_OURS = ('peer!="" variant="" setting!="pure bf16, CUDA graph|pure bf16, compiled loss, CUDA graph|'
           'pure bf16, torch.compile, CUDA graph|eager, fp32|compiled, fp32, 179,340 edges"')
BEST = 'peer!="" setting!="eager, the slower setting|contiguous|padded, token by token, by autograd"'
QUERIES = {
    "steps": f'''h200/steps.csv what=step metric=time
        rows    step, ms = shape where variant=default
        column  ours = variant=default as {{:.1f}}
        column  baseline or fp32 = variant=baseline|fp32|"fp32, their edges" as {{:.1f}}
        column  peer = {AS_OURS} as {{:.1f}}
        column  peer's setting = {AS_OURS} show setting
        column  speed-up = {{peer}} / {{ours}} as {{:.2f}}×
        column  of the baseline = {{peer}} / {{baseline or fp32}} as {{:.2f}}×
        note''',
    "memory": '''h200/memory.csv what="memory of a step"
        rows    GiB = shape
        column  default = metric=default
        column  least (`--recompute on`) = metric="least (`--recompute on`)"
        column  peer, eager = metric="peer, eager"
        column  peer, CUDA graph = metric="peer, CUDA graph with fp32 masters"''',
    "CPU steps": f'''cpu/steps.csv what=step
        rows    model = shape; peer = {{peer}}, {{setting}} where {BEST}
        column  step, s = metric=time peer="" setting="" variant=default
        column  GEMMs alone, s = metric="GEMMs alone" peer="" setting=""
        column  SSM forward, % of floor = metric="SSM operator forward, percent of floor" peer="" setting=""
        column  backward, % of floor = metric="SSM operator backward, percent of floor" peer="" setting=""
        column  peer, s = metric=time as {{:.3g}}
        column  speed-up = {{peer, s}} / {{step, s}} as {{:.1f}}×
        note''',
    "watching": '''h200/claims.csv what=watching
        rows    workload = shape
        column  whole profile = metric="all of it"
        column  plain step, ms = metric="step, without profiler"
        column  graph-traced, % = metric="graph-traced"
        column  kernel-traced, % = metric="kernel-traced"
        note''',
    "SSD ladder": '''h200/ssd_ladder.csv what=passes
        rows    one layer = {shape:0} {shape:4}; variant = variant
        column  kernels, us = metric=kernels
        column  DRAM, MB = metric=DRAM unit=MB
        column  DRAM, GB/s = metric=DRAM unit=GB/s
        column  life of a block, us = metric="life of a block"
        note''',
    "peers": '''h200/steps.csv what="step beside the best peer" metric=time
        rows    model, batch = shape where variant!=""
        column  step, ms = variant!="" as {:.1f}
        column  peer, ms = peer!="" variant="" as {:.1f}
        column  peer's setting = peer!="" variant="" show setting
        column  speed-up = {peer, ms} / {step, ms} as {:.2f}×
        note'''}


def peers():
    """The table, and what medians of `train` make of it."""
    models, longer, faster = {"mamba2-130m": "mamba2-130m", "mamba2-1.3b": "1.3b"}, [], []
    for model, word in models.items():
        shape = f"{model}, 8 × 2048 tokens"
        beside = lambda **fields: value(STEPS, what="step beside the best peer", shape=shape, metric="time", **fields)
        median = value(NCCL, what="one rank with NCCL", shape=shape, variant="without", metric="step")
        longer.append(f"{100 * (median / beside(variant='default') - 1):.0f} % ({word})")
        faster.append(f"{beside(peer='mamba_ssm') / median:.2f}×")
        require(median > beside(variant="default"), "medians of train are longer than steps alone")
    return [*block_lines(QUERIES["peers"]), "",
            "*PyTorch 2.11; bf16 with fp32 master weights, graphs fp32. Medians "
            "([more](bench/results/h200/README.md)).",
            f"Medians of `train`, {', '.join(longer)} longer, make it {', '.join(faster)}.*"]


def speeds():
    """Forward passes beside mamba_ssm, by the latest results."""
    shapes = {r["shape"] for r in rows_of(SSD) if r["what"] == "ssd" and r["peer"] == "mamba_ssm"}
    fused = [value(SSD, what="ssd", shape=s, metric="forward", peer="mamba_ssm")
             / value(SSD, what="ssd", shape=s, metric="forward alone", variant="fused") for s in shapes]
    ratio = lambda what: [float(r["value"]) for r in rows_of(SSD)
                          if r["what"] == f"ssd: {what}" and r["metric"] == "forward, times mamba_ssm"]
    widths = ratio("other published sizes") + ratio("published, N 256")
    scan = [float(r["value"]) for r in rows_of(SCAN)
            if r["what"].startswith("scan: ") and r["metric"] == "forward, times mamba_ssm"]
    return [f"Our SSD forward runs at {extent(fused, '{:.1f}')} times mamba_ssm's speed for P 64, N 128, "
            f"{extent(widths, '{:.1f}')} for other published", f"widths (its chunk 256), "
            f"{extent(ratio('odd sizes'), '{:.1f}')} for odd ones, {extent(ratio('fp32 (mamba_ssm: TF32)'), '{:.1f}')} "
            "in fp32 ([ssd.md](src/ops/ssd/ssd.md)); scans at",
            f"{extent(scan, '{:.1f}')} ([selective_scan.md](src/ops/selective_scan/selective_scan.md))."]


def errors_of_sweeps():
    """How far to trust docs/results/simulator.md."""
    of = {}
    for r in rows_of(VALIDATION):
        if r["what"] == "steps" and r["metric"] in ("measured", "from plans"):
            of.setdefault(r["shape"], {})[r["metric"]] = float(r["value"])
    ratios = [s["measured"] / s["from plans"] for s in of.values()]
    steps = lambda metric: newest([r for r in rows_of(VALIDATION) if r["what"] == "errors of steps"
                                   and r["shape"] == "whole steps" and r["metric"] == metric], metric)["value"]
    right, every, share = effects()
    return [f"{len(ratios)} measured steps take {extent(ratios, '{:.2f}')} times the predicted time; over "
            f"{steps('points')} steps, other sizes among them,", f"the error is {steps('error')} %, at worst "
            f"{steps('worst')} %. SMs, registers, shared memory, pipes and DRAM were checked by emulating less "
            "of them on", "SSM kernels (`mambascope validate --counterfactual operators`, profile-driven): "
            f"{right:.0f} of {every:.0f} effects have the right sign,", f"at {share:.0f} % of their size. L2, clocks "
            "and latencies were not; other GPUs have grade C ([simulator.md](../simulator.md))."]


def advice():
    """What advice promised for kernels with one planted fault, beside what mending it saved."""
    of = {}
    for r in rows_of("h200/advice.csv"):
        if r["metric"] in ("estimated", "achieved"):
            of.setdefault(r["shape"], {})[r["metric"]] = float(r["value"])
    off = {fault: x["estimated"] - x["achieved"] for fault, x in of.items() if "achieved" in x}
    worst = max(off, key=lambda fault: abs(off[fault]))
    return [f"Of {len(off)} such kernels on an H200 the estimate is within 10 points of the gain in "
            f"{sum(abs(x) <= 10 for x in off.values())}, farthest off for {worst}", f"({of[worst]['estimated']:.0f} "
            f"instead of {of[worst]['achieved']:.0f} % of the kernel's time)."]


REBASED = ["29dca9c0", "d032d74"]


def rebased():
    """Commits that results name and that git does not know."""
    named = {r["commit"] for r in rows_of("+".join(results.files()))}
    require(named.issuperset(REBASED), "results name every commit of the list of those that are gone")
    return [f"Results name {' and '.join(REBASED)}, which git does not know: they were rebased. Of what is there,",
            "3eb17147 is nearest."]


BLOCKS = {name: functools.partial(block_lines, query) for name, query in QUERIES.items()} | {
    "advice": advice, "errors of sweeps": errors_of_sweeps, "rebased": rebased, "study": study, "peers": peers,
    "speeds": speeds}
