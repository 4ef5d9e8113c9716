"""results -- reads and writes bench/results/<machine>/*.csv, the one place where measured numbers live. docs/results.md says what the
columns mean. Used by tools/docs and by the tools that measure; by itself:

    tools/results.py FILE.csv < rows.csv       adds rows to a file (with its heading where they have none), and checks all of it"""
import csv
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


def replace(name, rows, *same):
    """Puts rows in the place of those that agree with one of them in the fields `same`; other rows stay where they are."""
    key = lambda row: tuple(row[f] for f in same)
    keys, kept = {key(r) for r in rows}, read(name) if os.path.exists(path_of(name)) else []
    at = next((i for i, r in enumerate(kept) if key(r) in keys), len(kept))
    before = [r for r in kept[:at] if key(r) not in keys]
    write(name, before + rows + [r for r in kept[at:] if key(r) not in keys])


def row(**fields):
    return {f: str(fields.get(f, "")) for f in FIELDS}


def of_table(lines, labels, **fields):
    """Rows of results from the lines of a Markdown table: its first columns are the fields `labels`, each other column is a metric. A
    heading `name, unit` of a plain unit is split; an empty cell is no result."""
    cut = lambda line: [c.strip() for c in line.strip().strip("|").split("|")]
    heading = cut(lines[0])
    found = []
    for line in lines[2:]:
        cells = cut(line)
        names = dict(zip(labels, cells))
        for head, value in list(zip(heading, cells))[len(labels):]:
            metric, unit = split_unit(head)
            if value:
                found.append(row(**{**fields, **names, "metric": metric, "unit": unit, "value": value}))
    return found


UNITS = ("ms", "us", "µs", "s", "MB", "GB", "GB/s", "KB", "GHz", "MHz", "GiB", "GFLOP/s", "TFLOP/s", "%", "W")


def split_unit(heading):
    metric, _, unit = heading.rpartition(", ")
    return (metric, unit) if metric and unit in UNITS else (heading or "value", "")


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    text = sys.stdin.read()
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
