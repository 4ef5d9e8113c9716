#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""results -- reads and writes bench/results/<machine>/*.csv, the one place where measured numbers live. docs/results.md
says what the columns mean. Used by tools/docs and by the tools that measure; by itself:

    tools/results.py FILE.csv < rows.csv       adds rows to a file (with or without their heading), and checks all of it
    tools/results.py FILE.csv --table LABELS machine=M date=D commit=C what=W < table.md
                                               puts a Markdown table in the place of the rows of the same `what`. LABELS
                                               are the fields of its first columns (shape,variant); its other columns
                                               become metrics"""
import csv
import glob
import io
import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
FOLDER = "bench/results"
FIELDS = "machine,date,commit,what,shape,variant,metric,value,unit,peer,setting".split(",")
MUST_HAVE = ("machine", "date", "what", "metric", "value")
DATE = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d)?")


class Bad(Exception):
    """What is wrong with a file of results, as FILE:LINE: WHAT."""


def check(row, where):
    for field in MUST_HAVE:
        if not row[field]:
            raise Bad(f"{where}: no {field}")
    if not DATE.fullmatch(row["date"]):
        raise Bad(f"{where}: date '{row['date']}' is not YYYY-MM-DD or YYYY-MM-DDThh:mm")


def parse(text, name):
    reader = csv.reader(io.StringIO(text))
    heading = next(reader, None)
    if heading != FIELDS:
        raise Bad(f"{name}:1: the heading must be {','.join(FIELDS)}")
    rows = []
    for cells in reader:
        where = f"{name}:{reader.line_num}"
        if len(cells) != len(FIELDS):
            raise Bad(f"{where}: {len(cells)} cells, {len(FIELDS)} wanted")
        rows.append(dict(zip(FIELDS, cells)))
        check(rows[-1], where)
    return rows


def path_of(name):
    return os.path.join(ROOT, FOLDER, name)


def files():
    """The names of all files of results."""
    return sorted(os.path.relpath(p, path_of(".")) for p in glob.glob(path_of("*/*.csv")))


def read(name):
    """The rows of bench/results/NAME."""
    with open(path_of(name), encoding="utf-8", newline="") as file:
        return parse(file.read(), f"{FOLDER}/{name}")


def text_of(rows):
    out = io.StringIO()
    writer = csv.DictWriter(out, FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def write(name, rows):
    text = text_of(rows)
    parse(text, name)
    os.makedirs(os.path.dirname(path_of(name)), exist_ok=True)
    with open(path_of(name), "w", encoding="utf-8", newline="") as file:
        file.write(text)


def replace(name, rows, *same, write_it=True, measured=False):
    """Puts rows in the place of those that agree with one of them in the fields `same`; other rows stay where they are.
    Where nothing but date and commit would change, nothing does, unless these are of a measurement (`measured`). Says
    whether anything changed."""
    key = lambda row: tuple(row[f] for f in same)
    told = lambda row: {f: v for f, v in row.items() if measured or f not in ("date", "commit")}
    keys, kept = {key(r) for r in rows}, read(name) if os.path.exists(path_of(name)) else []
    if [told(r) for r in kept if key(r) in keys] == [told(r) for r in rows]:
        return False
    at = next((i for i, r in enumerate(kept) if key(r) in keys), len(kept))
    before = [r for r in kept[:at] if key(r) not in keys]
    if write_it:
        write(name, before + rows + [r for r in kept[at:] if key(r) not in keys])
    return True


def row(**fields):
    return {f: str(fields.get(f, "")) for f in FIELDS}


# ---- tables of the tools that measure ----

UNITS = ("ms", "us", "µs", "s", "MB", "GB", "GB/s", "KB", "GHz", "MHz", "GiB", "GFLOP/s", "TFLOP/s", "%", "W")
NUMBER = r"[-−+]?[\d,.]+(?:e[-+]?\d+)?"
IN_CELLS = {"%": r" ?%", "×": r" ?[×x]", "ms": r" ms", "us": r" us"}


def cells_of(line):
    return [cell.strip().replace("**", "") for cell in line.strip().strip("|").split("|")]


def split_unit(heading):
    """`time, ms` -> time, ms"""
    metric, _, unit = heading.rpartition(", ")
    return (metric, unit) if metric and unit in UNITS else (heading or "value", "")


def without_unit(cells):
    """Where all cells of a column end in one unit: that unit, and the cells without it."""
    filled = [c for c in cells if c not in ("", "–", "-")]
    for unit, end in IN_CELLS.items():
        if filled and all(re.fullmatch(NUMBER + end, c) for c in filled):
            return unit, [re.sub(end + "$", "", c) for c in cells]
    return "", cells


def of_table(lines, labels, **fields):
    """Rows of results from the lines of a Markdown table: its first columns are the fields `labels`, each other column
    is a metric. Units leave headings and cells; a row whose labels have been there is counted, `norm_fwd (2)`; an empty
    cell is no result."""
    lines = [line for line in lines if line.startswith("|")]
    heading, body = cells_of(lines[0]), [cells_of(line) for line in lines[2:]]
    seen = {}
    for cells in body:
        key = tuple(cells[:len(labels)])
        seen[key] = seen.get(key, 0) + 1
        if seen[key] > 1:
            cells[len(labels) - 1] += f" ({seen[key]})"
    columns = []
    for i, head in list(enumerate(heading))[len(labels):]:
        (metric, unit), (in_cells, values) = split_unit(head), without_unit([cells[i] for cells in body])
        columns.append((metric, in_cells or unit, values))
    return [row(**{**fields, **dict(zip(labels, cells)), "metric": metric, "unit": unit, "value": values[i]})
            for i, cells in enumerate(body) for metric, unit, values in columns if values[i]]


def put_table(name, text, labels, write_it=True, measured=False, **fields):
    """A Markdown table in the place of the results of the same `what`. Says whether anything changed."""
    return replace(name, of_table(text.splitlines(), labels, **fields), "what", write_it=write_it, measured=measured)


def main():
    words = sys.argv[1:]
    if len(words) != 1 and words[1:2] != ["--table"]:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    text = sys.stdin.read()
    if len(words) > 1:
        name = os.path.relpath(os.path.abspath(words[0]), os.path.join(ROOT, FOLDER))
        try:
            changed = put_table(name, text, words[2].split(","), **dict(w.split("=", 1) for w in words[3:]))
        except (Bad, ValueError, IndexError) as bad:
            sys.exit(f"results: {bad}")
        print("changed" if changed else "nothing has changed")
        return
    if not text.startswith(FIELDS[0] + ","):
        text = ",".join(FIELDS) + "\n" + text
    name = os.path.relpath(os.path.abspath(sys.argv[1]), os.path.join(ROOT, FOLDER))
    try:
        old = read(name) if os.path.exists(path_of(name)) else []
        write(name, old + parse(text, "rows"))
    except Bad as bad:
        sys.exit(f"results: {bad}")


if __name__ == "__main__":
    main()
