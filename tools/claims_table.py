#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""claims_table -- the tables of docs/results/claims.md, by `mambascope show`: what watching costs, the claims of each
store.

    tools/claims_table.py watching NAME=FILE.db ..                        one line per store
    tools/claims_table.py claims NAME=FILE.db[,BESIDE.db..] ..            two columns per store: verdict, what was
                                                                          measured
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


def claims(names):
    """Of every store the verdict, and in a second column what was measured."""
    print("| | " + " | ".join(f"{n} | {n}, measured" for n, _ in names) + " |\n" + "|---" * (2 * len(names) + 1) + "|")
    all_of = []
    for _, paths in names:
        first, *beside = paths.split(",")
        all_of.append(shown(first, ["claims"], ",".join(beside))["claims"])
    for row in zip(*all_of):
        cells = [f"{r['verdict']} | {'' if r['verdict'] == 'open' else r['measured'] or ''}" for r in row]
        print(f"| {row[0]['id']} {row[0]['claim']} ({row[0]['target']}) | " + " | ".join(cells) + " |")


pairs = [a.split("=", 1) for a in sys.argv[2:]]
{"watching": watching, "claims": claims}[sys.argv[1]](pairs)
