# SPDX-License-Identifier: Apache-2.0
"""Picks of a Triton cache (~/.triton/cache of the run that was counted) the code that a table's launches may have run:

    python tools/peers/triton_cache.py CACHE src/sim/data/peers_counted_1.3b.tsv OUT
    tools/sass_path OUT/*.cubin > paths.json
    tools/kernel_points --code paths.json src/sim/data/peers_counted_1.3b.tsv > new.tsv

The autotuner compiles every tiling of a kernel; those with the row's warps, shared memory and registers are kept, each
code once. Of several kernel_points takes the one that reproduces the row's counts. Prints what was kept, and rows that
nothing was compiled for."""
import json
import pathlib
import re
import subprocess
import sys


def registers_of(cubin):
    text = subprocess.run(["cuobjdump", "-res-usage", cubin], capture_output=True, text=True, check=True).stdout
    return int(re.search(r"REG:(\d+)", text)[1])


def code_of(cubin):
    return subprocess.run(["cuobjdump", "-sass", cubin], capture_output=True, text=True, check=True).stdout


def rows_of(table):
    lines = open(table, encoding="utf-8").read().splitlines()
    heading = next(line for line in lines if line.startswith("# set"))[2:].split("\t")
    return [dict(zip(heading, line.split("\t"))) for line in lines if not line.startswith("#")]


def candidates(cache, row):
    for about in sorted(cache.glob(f"*/{row['kernel']}.json")):
        made, cubin = json.loads(about.read_text(encoding="utf-8")), about.with_suffix(".cubin")
        if (made["num_warps"] * 32, made["shared"]) == (int(row["block"]), int(row["smem"])):
            if registers_of(cubin) == int(row["regs"]):
                yield cubin


def main():
    cache, table, out = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    out.mkdir(exist_ok=True)
    kept = set()
    for row in rows_of(table):
        found = {code_of(cubin): cubin for cubin in candidates(cache, row)}
        print(row["kernel"], "grid", row["grid"], *[cubin.parent.name[:6] for cubin in found.values()]
              or ["not compiled"])
        for code, cubin in found.items():
            if code not in kept:
                kept.add(code)
                (out / f"{row['kernel']}.{cubin.parent.name[:6]}.cubin").write_bytes(cubin.read_bytes())


main()
