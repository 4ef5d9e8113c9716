# SPDX-License-Identifier: Apache-2.0
"""Sets values of ncu beside those of our stores (tools/gpu_ncu makes both): OUT/ncu.csv, OUT/ncu.md and one line of
summary. The tables of ncu.md become bench/results/h200/ncu.csv and ncu_differences.csv by `tools/results.py FILE
--table`, labels peer,variant,shape,setting and variant,shape,setting,what.

Counts must be equal. Bytes and percentages must agree within 2 % where a kernel moves more than twice the L2; what
differs is listed with its reason, or as unexplained."""
import collections
import csv
import pathlib
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import store as store_file

EXACT = ("ops_path_tensor", "sass_thread_inst", "ctas_launched")
INSTRUCTIONS = ("smsp__inst_executed.sum", "smsp__inst_executed.max", "inst_executed_pipe_xu.sum")
CACHES = ("dram__", "lts__", "l1tex__t_sector_hit_rate", "gpu__time", "sm__cycles_active", "pct_of_peak")
WITHIN = 0.02
TIME, CYCLES = "gpu__time_duration.sum", "sm__cycles_active.avg"


REPEATED = "ncu repeats the kernel for it, which finds its own data in L2"


def reason(metric, ours, theirs, k):
    """Why two values may differ, or None. times, cycles: ours over ncu's, of the runs in which the two were read."""
    if any(e in metric for e in EXACT):
        return None
    if metric in INSTRUCTIONS:
        spins = k["name"].startswith(("nvjet", "ssd")) or "segment_k_on" in k["name"]
        return "warps spin at barriers: waiting is instructions too" if spins else None
    if metric == "dram__bytes_write.sum" and abs(ours - theirs) <= k["l2"] / 3:
        return "write-back: what L2 holds at the beginning and the end is another's"
    if any(c in metric for c in CACHES) and k["moved"] <= 2 * k["l2"]:
        return "moves less than twice the L2, which held other data"
    if metric.startswith("lts__") and k["repeated"]:
        return REPEATED
    if abs(k["times"] - 1) > WITHIN and ("pct" in metric or metric in (TIME, CYCLES)):
        return f"this launch took {100 * (k['times'] - 1):+.1f} % here"
    if metric.endswith("pct_of_peak_sustained_active") and abs(ours * k["cycles"] / theirs - 1) <= WITHIN:
        return f"as many busy cycles of {100 * (k['cycles'] - 1):+.1f} % active ones"
    if metric.endswith("pct_of_peak_sustained_elapsed") and abs(ours * k["times"] / theirs - 1) <= WITHIN:
        return f"as much in {100 * (k['times'] - 1):+.1f} % of the time"
    if metric == RATE and k["parts"] and all(abs(r - 1) <= WITHIN for r in k["parts"]):
        return "hits {:+.1f} %, sectors {:+.1f} %: a quotient of what ncu reads in two runs".format(
            *(100 * (r - 1) for r in k["parts"]))
    if abs(ours - theirs) < 0.1 and "pct" in metric:
        return "less than a tenth of a percent"
    return between(metric, ours, theirs, k)


def between(metric, ours, theirs, k):
    """Ours lies among what ncu itself has: of the same launch in another run, or of others that our one stands for."""
    again = k["again"].get(metric)
    if again and min(theirs, again) * (1 - WITHIN) <= ours <= max(theirs, again) * (1 + WITHIN):
        return f"read again, ncu has {again:.8g}"
    low, high = k["span"][metric]
    if high > (1 + WITHIN) * low and low * (1 - WITHIN) <= ours <= high * (1 + WITHIN):
        return f"launches of it differ: {low:.8g} to {high:.8g} by ncu; ours is one of them"
    return None


def demangled(symbols):
    try:
        text = subprocess.run(["c++filt"], input="\n".join(symbols) + "\n", capture_output=True, text=True,
                              check=True).stdout
        return text.splitlines()
    except OSError:
        sys.exit("c++filt is needed (binutils)")


def base_name(name):
    """"void ssd_scan<1, 0>(task)" -> "ssd_scan": ncu and c++filt write template arguments differently."""
    name = re.sub(r"^void ", "", name)
    return re.split(r"[<(]", name)[0]


def read_csv(path):
    return [r for r in csv.DictReader(open(path)) if r.get("ID", "").isdigit()] if path.exists() else []


def pick(db, ours, row, place):
    """A library runs one kernel with one grid for several shapes: those with the same tensor FLOPs, then in the order
    of launches."""
    flops = "sm__ops_path_tensor_src_bf16_dst_fp32.sum"
    theirs = row[flops][0] if flops in row else 0
    same = [k for k in ours if (theirs,) in db.execute("select value from counter where kernel = ? and metric = ?",
                                                       [k[0], flops]).fetchall()]
    among = same if same and theirs else ours
    return among[place % len(among)][:2]


RUNS = ("one", "two", "hit", "")                            # of tools/gpu_ncu; the last takes several passes
HIT, SECTORS, RATE = "lts__t_sectors_lookup_hit.sum", "lts__t_sectors.sum", "lts__t_sector_hit_rate.pct"
BYTES, SECTOR_BYTES = "lts__t_bytes.sum", 32


def seen_by_ncu(runs, i, kernel):
    """metric -> value, and time, cycles and run in which it was read; the first run that has it."""
    values = {}
    for place, run in enumerate(runs):
        if i >= len(run) or run[i]["Kernel Name"] != kernel:
            continue
        of = {m: number(t) for m, t in run[i].items() if "__" in m and re.fullmatch(r"[-+.,eE0-9]+", t)}
        for m, v in of.items():
            values.setdefault(m, (v, of.get(TIME), of.get(CYCLES), place))
    if HIT in values and SECTORS in values:
        values.setdefault(RATE, (100 * values[HIT][0] / values[SECTORS][0], *values[HIT][1:]))
    return values


def seen_by_us(db, kernel):
    """metric -> value, and time and cycles of the set it was read in, or of the overview where that has none."""
    values, own = {}, {}
    rows = db.execute("select metric, value, metric_set from counter where kernel = ? order by metric_set != "
                      "'overview', metric_set", [kernel]).fetchall()
    for metric, value, group in rows:
        own.setdefault(group, {})[metric] = value
    for metric, value, group in rows:
        time, cycles = (own[group].get(m) or own.get("overview", {}).get(m) for m in (TIME, CYCLES))
        values.setdefault(metric, (value, time, cycles))
    if HIT in values and SECTORS in values:
        values.setdefault(RATE, (100 * values[HIT][0] / values[SECTORS][0], *values[HIT][1:]))
    return values


def spans(launches):
    """Of every kernel of ours and metric: the least and the largest ncu has read of its launches."""
    span = collections.defaultdict(dict)
    for k, theirs, _ in launches:
        for m, v in theirs.items():
            low, high = span[k["id"]].get(m, (v[0], v[0]))
            span[k["id"]][m] = min(low, v[0]), max(high, v[0])
    return span


def launches(out, name):
    """Per launch that ncu saw: what we know of it, ncu's values and ours."""
    again = read_csv(out / f"ncu.{name}.again.csv")
    runs = [read_csv(out / f"ncu.{name}{'.' if r else ''}{r}.csv") for r in RUNS]
    if not runs[-1] or not (out / f"ncu_{name}.db").exists():
        return
    db = store_file.open(out / f"ncu_{name}.db")
    l2 = db.execute("select number from sheet where key = 'gpu.l2'").fetchone()[0]
    seen = collections.Counter()
    found = db.execute("select id, name, symbol, grid_x, grid_y, grid_z from kernel where id in (select kernel from "
                       "counter) order by id").fetchall()
    kernels = [(k[0], k[1], base_name(p), *k[3:]) for k, p in zip(found, demangled([k[2] for k in found]))]
    for i, row in enumerate(runs[-1]):
        grid = [int(x) for x in row["Grid Size"].strip("()").split(",")]
        key = (base_name(row["Kernel Name"]), *grid)
        ours = [k for k in kernels if k[2:] == key]
        if not ours:
            print(f"{name}: {key[0][:60]} {grid} is not in our store", file=sys.stderr)
            continue
        theirs = seen_by_ncu(runs, i, row["Kernel Name"])
        kernel, short = pick(db, ours, theirs, seen[key])
        seen[key] += 1
        mine = seen_by_us(db, kernel)
        moved = sum(mine[m][0] for m in ("dram__bytes_read.sum", "dram__bytes_write.sum") if m in mine)
        second = {m: v[0] for m, v in seen_by_ncu([again], i, row["Kernel Name"]).items()}
        if HIT in second and SECTORS in theirs:
            second[RATE] = 100 * second[HIT] / theirs[SECTORS][0]
        if SECTORS in theirs and BYTES in theirs and theirs[SECTORS][3] != theirs[BYTES][3]:
            second[BYTES] = SECTOR_BYTES * theirs[SECTORS][0]        # of another run than the bytes
        both = all(m in of for m in (HIT, SECTORS) for of in (theirs, mine)) and theirs[HIT][3] != theirs[SECTORS][3]
        parts = [mine[m][0] / theirs[m][0] for m in (HIT, SECTORS)] if both else None
        yield dict(id=kernel, parts=parts, again=second, name=shorter(short), whose=whose(key[0]),
                   grid="x".join(map(str, grid)), moved=moved, l2=l2), theirs, mine


def shorter(kernel):
    """"sm90_xmma_fprop_implicit_gemm_.._tilesize128x128x32_.." -> "xmma_fprop_128x128x32"."""
    m = re.match(r"sm\d+_(xmma_[a-z]+).*_tilesize([0-9x]+)_.*?(_segment_k_on)?_kernel", kernel)
    return f"{m[1]}_{m[2]}{m[3] or ''}" if m else kernel


def whose(kernel):
    """By its whole name: the short one of a template of CUTLASS is "Kernel"."""
    return "cuBLASLt" if kernel.startswith("nvjet") else "cuDNN" if re.search("cudnn|xmma|cutlass", kernel) else "ours"


def number(text):
    return float(text.replace(",", ""))


def compare(out):
    for name in ("mamba2", "vision"):
        all_of = list(launches(out, name))
        span = spans(all_of)
        for k, values, mine in all_of:
            k["span"] = span[k["id"]]
            for metric, (theirs, time, cycles, run) in values.items():
                if metric not in mine:
                    continue
                ours, our_time, our_cycles = mine[metric]
                if not time or not our_time:
                    continue                                 # a run that failed: its log says why
                k["times"] = our_time / time
                k["cycles"] = our_cycles / cycles if cycles and our_cycles else our_time / time
                k["repeated"] = run == len(RUNS) - 1
                ratio = ours / theirs if theirs else (1.0 if ours == 0 else float("inf"))
                near = abs(ratio - 1) <= WITHIN or abs(ours - theirs) <= 0.01
                fine = ours == theirs if any(e in metric for e in EXACT) else near
                why = "" if fine else reason(metric, ours, theirs, k) or "UNEXPLAINED"
                yield dict(workload=name, whose=k["whose"], kernel=k["name"], grid=k["grid"],
                           large=k["moved"] > 2 * k["l2"],
                           metric=metric, ncu=theirs, ours=ours, ratio=ratio, agrees=fine, why=why)


def is_count(row):
    return any(e in row["metric"] for e in EXACT)


def write_kernels(f, rows):
    """A line per kernel: counts, which must be equal; bytes and percentages, which must agree where it moves more than
    twice the L2."""
    f.write("| whose | kernel | grid | DRAM above 2 x L2 | counts equal | other values within 2 % | for a known "
            "reason | unexplained |\n")
    f.write("|---" * 8 + "|\n")
    for k in dict.fromkeys((r["whose"], r["kernel"], r["grid"], r["large"]) for r in rows):
        of = [r for r in rows if (r["whose"], r["kernel"], r["grid"], r["large"]) == k]
        counts, others = [r for r in of if is_count(r)], [r for r in of if not is_count(r)]
        bad = sum(r["why"] == "UNEXPLAINED" for r in of)
        f.write(f"| {k[0]} | `{k[1]}` | {k[2]} | {'yes' if k[3] else 'no'} | {sum(r['agrees'] for r in counts)} of "
                f"{len(counts)} | "
                f"{sum(r['agrees'] for r in others)} of {len(others)} | {sum(not r['agrees'] for r in of) - bad} | "
                f"{bad} |\n")


def sum_up(rows):
    counts, large = [r for r in rows if is_count(r)], [r for r in rows if not is_count(r) and r["large"]]
    small = [r for r in rows if not is_count(r) and not r["large"]]
    for words, of in (("counts are equal", counts),
                      ("values of kernels that move more than twice the L2 agree within 2 %", large),
                      ("values of the others agree within 2 %", small)):
        bad = sum(r["why"] == "UNEXPLAINED" for r in of)
        print(f"{sum(r['agrees'] for r in of)} of {len(of)} {words}, {sum(not r['agrees'] for r in of) - bad} differ "
              f"for a known reason, {bad} unexplained")


def main():
    out = pathlib.Path(sys.argv[1])
    rows = list(compare(out))
    if not rows:
        sys.exit("nothing to compare: see ncu.*.log")
    with open(out / "ncu.csv", "w", newline="") as f:
        w = csv.DictWriter(f, rows[0].keys())
        w.writeheader()
        w.writerows(rows)
    with open(out / "ncu.md", "w") as f:
        write_kernels(f, rows)
        f.write("\nWhat differs:\n\n| kernel | grid | DRAM above 2 x L2 | metric | ncu | ours | ratio | why |\n"
                + "|---" * 8 + "|\n")
        for r in rows:
            if not r["agrees"]:
                f.write(f"| `{r['kernel']}` | {r['grid']} | {'yes' if r['large'] else 'no'} | `{r['metric']}` | "
                        f"{r['ncu']:.8g} | {r['ours']:.8g} | {r['ratio']:.4f} | {r['why']} |\n")
    sum_up(rows)


main()
