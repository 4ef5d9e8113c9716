#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""claims_table -- the tables of docs/results/claims.md, by `mambascope show`: what watching costs, the claims over
a set of stores.

    tools/claims_table.py watching NAME=FILE.db ..                        one line per store
    tools/claims_table.py matrix FILE.db ..                               a line per claim and column of `show matrix`
(build/mambascope, or $MAMBASCOPE)"""
import json
import os
import subprocess
import sys

PROGRAM = os.environ.get("MAMBASCOPE", "build/mambascope")


def shown(path, tables, beside=""):
    call = [PROGRAM, "show", path, *tables, "--json"] + (["--compare", beside] if beside else [])
    return json.loads(subprocess.run(call, capture_output=True, text=True, check=True).stdout)


def step_facts(path):
    """Rows of `show steps`: what -> value."""
    return {r["what"]: r["value"] for r in shown(path, ["steps"])["steps"]}


def number(x, form):
    return "–" if x is None else form % x


def watching(names):
    print("| workload | all of it | steps, timeline | counter sets (passes) | cold-L2 bytes, blocks | "
          "step, without profiler | graph-traced | back to back | "
          "kernel-traced | corrected for records |\n" + "|---" * 10 + "|")
    for name, path in names:
        f, rows = step_facts(path), shown(path, ["collection", "environment"])
        seconds = ["%.1f s" % r["number"] for r in rows["environment"] if r["key"] == "suite.seconds"]
        sets = [r for r in rows["collection"] if r["mode"] == "counters"]
        total = lambda *modes: sum(r["seconds"] for r in rows["collection"] if r["mode"] in modes)
        print("| %s | %s | %.1f s | %d (%d): %.1f s | %.1f s | %.2f ms | **%s** | %s | **%s** | %s |" % (
            name, seconds[0] if seconds else "–", total("plain", "graph", "timeline"), len(sets),
            sum(r["passes"] for r in sets), total("counters"),
            total("settled", "blocks"), f["step time, without profiler"],
            number(f.get("overhead of graph tracing"), "%+.1f %%"),
            number(f.get("without profiler, back to back"), "%.2f ms"),
            number(f.get("overhead of kernel tracing"), "%+.1f %%"),
            number(f.get("overhead after the correction"), "%+.1f %%")))


def matrix(paths):
    """A line per claim and column of the stores, and one for the whole set: column "suite", whose text says why."""
    first, *others = paths
    print("| id | column | of what | claim | number | verdict | text | sensitivity |\n" + "|---" * 8 + "|")
    for r in shown(first, ["matrix"], ",".join(others))["matrix"]:
        number = r["cell"].replace(" / ", "/").replace(" → ", "→")
        cells = [r["unit"], r["claim"], number, r["verdict"], r["measured"], r["sensitivity"]]
        print(f"| {r['id']} | {r['column']} | " + " | ".join(c if c and c != "-" else "" for c in cells)
              + " |")


if sys.argv[1] == "watching":
    watching([a.split("=", 1) for a in sys.argv[2:]])
else:
    matrix(sys.argv[2:])
