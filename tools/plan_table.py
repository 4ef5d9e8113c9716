#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""plan_table -- the tables of docs/results/plans.md (tools/refresh_h200 keeps them as results): our kernels' plans
beside the counters, by `mambascope verify`.

    tools/plan_table.py NAME=FILE.db ..  > tables.md       (build/mambascope, or $MAMBASCOPE)"""
import json
import os
import subprocess
import sys

PROGRAM = os.environ.get("MAMBASCOPE", "build/mambascope")
WHY = {"agrees": "", "late writes": "writes delayed by L2, or those of the previous kernel",
       "L2 hits": "reads that previous launches left in L2", "rereads": "operands that blocks read more than once",
       "DIFFERS": "not known"}


def number(x, form):
    return "–" if x is None else form % x


def rows_of(path):
    out = subprocess.run([PROGRAM, "verify", path, "--json"], capture_output=True, text=True, check=True).stdout
    return [r for r in json.loads(out) if r["whose"] == "ours"]


def tensor_table(stores):
    print("| workload | kernel | launches | GFLOP planned | counted | equal | padding of the node "
          "|\n|---|---|---|---|---|---|---|")
    for name, rows in stores:
        for r in rows:
            if r["tensor"].startswith("-"):  # no tensor work; (data): none with this data
                continue
            print("| %s | `%s` | %d | %s | %s | %s | %s |" % (
                name, r["kernel"], r["per_step"], number(r["tensor_expected"], "%.9g"),
                number(r["tensor_measured"], "%.9g"),
                {"agrees": "yes", "agrees (both)": "yes, both launches", "agrees (data)": "yes, as the data has it",
                 "at most": "at most: chunks that are forgotten are left out"}.get(r["tensor"], "**no**"),
                 number(r["padding"], "%.3f")))


def bytes_table(stores):
    print("| workload | kernel | launches | MB planned | between sweeps, MB | between sweeps: ratio | between sweeps: "
          "verdict | "
          "in a step, MB | in a step: ratio | reads +- | writes +- | in a step: verdict | why |\n"
          + "|---" * 13 + "|")
    for name, rows in stores:
        for r in rows:
            if r["bytes"] == "-":
                continue
            print("| %s | `%s` | %d | %.1f | %s | %s | %s | %.1f | %.3f | %+.1f | %+.1f | %s | %s |" % (
                name, r["kernel"], r["per_step"], r["bytes_expected"], number(r["settled_bytes"], "%.1f"),
                number(r["settled_ratio"], "%.3f"), r["settled"].replace("-", "–"), r["bytes_measured"],
                r["bytes_ratio"],
                r["read_excess"], r["write_excess"], r["bytes"], WHY[r["bytes"]]))


def count_table(stores):
    """Per workload: how many kernels beyond twice the L2 agree, and what else there is."""
    print("| workload | kernels | between sweeps: within 5 % | between sweeps: again | between sweeps: differs | in a "
          "step: within 5 % | "
          "in a step: lags | in a step: kept | in a step: again | in a step: differs |\n" + "|---" * 10 + "|")
    for name, rows in stores:
        of = [r for r in rows if r["bytes"] != "-"]
        if of:
            print("| %s | %d | " % (name, len(of)) + " | ".join(
                str(sum(r[k] == w for r in of)) for k, w in (("settled", "agrees"), ("settled", "rereads"),
                                                             ("settled", "DIFFERS"),
                                                             ("bytes", "agrees"), ("bytes", "late writes"),
                                                             ("bytes", "L2 hits"),
                                                             ("bytes", "rereads"),
                                                             ("bytes", "DIFFERS"))) + " |")


stores = [(a.split("=")[0], rows_of(a.split("=")[1])) for a in sys.argv[1:]]
tensor_table(stores)
print()
bytes_table(stores)
print()
count_table(stores)
