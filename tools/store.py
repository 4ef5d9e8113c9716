# SPDX-License-Identifier: Apache-2.0
"""store.py -- opens a store (docs/store.md) for the tools, with current names: kernels and variants of stores that an
earlier release wrote are translated by src/core/aliases.def, as the program does.

    db = store.open(path)                 an sqlite3 connection, read only; columns are those of the file
    store.kernel(name), store.variant(op, name)"""
import pathlib
import re
import sqlite3

ALIASES = (pathlib.Path(__file__).resolve().parent.parent / "src/core/aliases.def").read_text()
KERNELS = dict(re.findall(r"^KERNEL\((\w+), (\w+)\)", ALIASES, re.M))
VARIANTS = {(op, old): now for op, old, now in re.findall(r"^VARIANT\((\w+), (\w+), (\w+)\)", ALIASES, re.M)}
COLUMNS = {"kernel": {"name": "kernel_alias(name)"}, "launch": {"kernel": "kernel_alias(kernel)"},
           "node": {"variant": "variant_alias(op, variant)"}}


def kernel(name):
    return KERNELS.get(name, name)


def variant(op, name):
    return VARIANTS.get((re.sub(r"_bwd$", "", op or ""), name), name)


def open(path):
    """Temporary views stand before the tables whose names are translated; the file is not written."""
    db = sqlite3.connect(f"{pathlib.Path(path).resolve().as_uri()}?immutable=1", uri=True)
    db.create_function("kernel_alias", 1, kernel, deterministic=True)
    db.create_function("variant_alias", 2, variant, deterministic=True)
    for table, renamed in COLUMNS.items():
        columns = [row[1] for row in db.execute(f"pragma main.table_info({table})")]
        chosen = ", ".join(f"{renamed[c]} as {c}" if c in renamed else f'"{c}"' for c in columns)
        if columns:
            db.execute(f"create temp view {table} as select {chosen}, rowid as rowid from main.{table}")
    return db
