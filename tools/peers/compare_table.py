# SPDX-License-Identifier: Apache-2.0
"""Sets the counters of a store of the peer stack beside a table of the same kernels that was measured by other means:

    python3 tools/peers/compare_table.py peer.db TABLE.md

TABLE.md has rows | kernel | grid | block | us | DRAM MB | DRAM % | L2 hit % | L1 hit % | tensor % | FMA % | ALU % | XU
% | L1/shared % | .. |. Prints a Markdown table: kernel, grid, then `there / here` for time, DRAM bytes and percentages,
and what share of them is near (time and bytes within 10 %, percentages within 5 points)."""
import re
import sqlite3
import sys

COLUMNS = ["us", "DRAM MB", "DRAM %", "L2 hit %", "L1 hit %", "tensor %", "FMA %", "ALU %", "XU %", "L1/shared %"]
ACTIVE = ".avg.pct_of_peak_sustained_active"


def table_rows(path):
    for line in open(path):
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if len(cells) >= 13 and re.fullmatch(r"\(\d+, \d+, \d+\)", cells[1]) and cells[3].replace(".", "").isdigit():
            yield cells[0], tuple(map(int, re.findall(r"\d+", cells[1]))), int(cells[2]), [float(c)
                for c in cells[3:13]]


def ours(db, kernel):
    c = dict(db.execute("select metric, value from counter where kernel = ?", [kernel]))
    get = lambda m: c.get(m, float("nan"))
    return [get("gpu__time_duration.sum") / 1e3, (get("dram__bytes_read.sum") + get("dram__bytes_write.sum")) / 1e6,
            get("dram__throughput.avg.pct_of_peak_sustained_elapsed"),
            100 * get("lts__t_sectors_lookup_hit.sum") / get("lts__t_sectors.sum"),
            get("l1tex__t_sector_hit_rate.pct"), get("sm__pipe_tensor_cycles_active" + ACTIVE),
            get("sm__pipe_fma_cycles_active" + ACTIVE),
            get("sm__pipe_alu_cycles_active" + ACTIVE), get("sm__inst_executed_pipe_xu" + ACTIVE),
            get("l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed")]


def find(db, name, grid, block):
    """The launch with this grid, or where the autotuner has chosen another tile, the first of this name that is no part
    of a longer one."""
    found = db.execute("select id, name, grid_x, grid_y, grid_z, block_x from kernel").fetchall()
    named = [k for k in found if re.sub(r"^_|_kernel$", "", k[1]).lower() == name.lower()]
    same = [k for k in named if k[2:5] == grid and k[5] == block]
    return (same or named or [None])[0]


def main():
    db = sqlite3.connect(sys.argv[1])
    near, absent = {True: [0, 0], False: [0, 0]}, 0            # by whether the autotuner has chosen the same tile
    print("| kernel | grid | " + " | ".join(COLUMNS) + " |\n|---|---|" + "---|" * len(COLUMNS))
    for name, grid, block, there in table_rows(sys.argv[2]):
        kernel = find(db, name, grid, block)
        if not kernel:
            absent += 1
            print(f"| {name} | {'x'.join(map(str, grid))} | not in this step" + " |" * len(COLUMNS))
            continue
        same = kernel[2:5] == grid and kernel[5] == block
        tile = "x".join(map(str, grid)) + ("" if same else " / " + "x".join(map(str, kernel[2:5])))
        cells = []
        for i, (a, b) in enumerate(zip(there, ours(db, kernel[0]))):
            fine = abs(b - a) <= (max(0.1 * a, 2) if i < 2 else 5)
            near[same][0] += fine
            near[same][1] += 1
            cells.append(f"{a:.0f} / {b:.0f}" + ("" if fine else " *"))
        print(f"| {name} | {tile} | " + " | ".join(cells) + " |")
    print(f"\nOf launches with the same grid and block {near[True][0]} of {near[True][1]} values are near (* is not), "
          f"of those where the autotuner has chosen "
          f"another tile {near[False][0]} of {near[False][1]}; {absent} rows have no such launch.")


main()
