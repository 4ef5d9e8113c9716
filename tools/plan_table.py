#!/usr/bin/env python3
"""plan_table -- the tables of docs/results/plans.md: our kernels' plans beside the counters, by `mambascope verify`.

    tools/plan_table.py NAME=FILE.db ..  > tables.md       (build/mambascope, or $MAMBASCOPE)"""
import json
import os
import subprocess
import sys

PROGRAM = os.environ.get("MAMBASCOPE", "build/mambascope")
WHY = {"agrees": "", "lags": "writes held back by L2, or those of the kernel before",
       "kept": "reads that launches before have left in L2", "again": "operands that blocks read more than once",
       "DIFFERS": "not known"}


def number(x, form):
    return "–" if x is None else form % x


def rows_of(path):
    out = subprocess.run([PROGRAM, "verify", path, "--json"], capture_output=True, text=True, check=True).stdout
    return [r for r in json.loads(out) if r["whose"] == "ours"]


def tensor_table(stores):
    print("| workload | kernel | launches | GFLOP planned | counted | equal | padding of the node |\n|---|---|---|---|---|---|---|")
    for name, rows in stores:
        for r in rows:
            if r["tensor"] == "-":
                continue
            print("| %s | `%s` | %d | %s | %s | %s | %s |" % (
                name, r["kernel"], r["per_step"], number(r["tensor_expected"], "%.9g"), number(r["tensor_measured"], "%.9g"),
                {"agrees": "yes", "agrees (both)": "yes, both launches", "at most": "at most: chunks that are forgotten are left out"}.get(r["tensor"], "**no**"), number(r["padding"], "%.3f")))


def bytes_table(stores):
    print("| workload | kernel | launches | MB planned | counted | ratio | reads +- | writes +- | verdict | why |\n" + "|---" * 10 + "|")
    for name, rows in stores:
        for r in rows:
            if r["bytes"] == "-":
                continue
            print("| %s | `%s` | %d | %.1f | %.1f | %.3f | %+.1f | %+.1f | %s | %s |" % (
                name, r["kernel"], r["per_step"], r["bytes_expected"], r["bytes_measured"], r["bytes_ratio"], r["read_excess"],
                r["write_excess"], r["bytes"], WHY[r["bytes"]]))


stores = [(a.split("=")[0], rows_of(a.split("=")[1])) for a in sys.argv[1:]]
tensor_table(stores)
print()
bytes_table(stores)
