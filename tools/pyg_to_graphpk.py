#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pyg_to_graphpk.py -- turns PyTorch Geometric datasets and LRGB pickles into a GRAPHPK1 file (src/data/graph_pack.h).

    python3 tools/pyg_to_graphpk.py --out voc.graphpk --classes 21 raw/train.pickle raw/val.pickle raw/test.pickle
    python3 tools/pyg_to_graphpk.py --out mnist.graphpk --classes 10 processed/train_data.pt processed/val_data.pt ..
    python3 tools/pyg_to_graphpk.py --out mutag.graphpk processed/data.pt
    python3 tools/pyg_to_graphpk.py --out peptides.graphpk --classes 2 --splits splits.pt processed/data.pt

One input has no split unless --splits names a file with the numbers of its graphs (a dictionary with train, val,
test, or three lists in this order); three inputs are train, val and test. --classes 0 means regression; several
binary tasks are --classes 2, with NaN for missing labels. Without it the labels tell: integers in one column are
classes, one more than the largest; only 0, 1 and NaN in several columns are binary tasks; others are regression.

Needs numpy, and torch for files that torch wrote. torch_geometric is used when it is there; otherwise its objects
are read as plain containers. Pickles run code when they are read: convert only files you trust.
"""
import argparse
import gzip
import pickle
import struct
import sys
import types
import zlib

import numpy as np

TYPES = {"f": 1, "i": 2, "u": 3}                       # f32, i32, u8; 0 is none
KEEP = ("x", "edge_index", "edge_attr", "y", "pos")


# ---- the container ----

def column(a, rows):
    """An array as (rows, width) in one of the three types; width 0 and type 0 for None."""
    if a is None:
        return None, 0, 0
    a = np.asarray(a)
    a = a.reshape(rows, -1) if rows else a.reshape(0, a.shape[-1] if a.ndim > 1 else 1)
    if a.dtype.kind == "b":
        a = a.astype(np.uint8)
    kind = "f" if a.dtype.kind == "f" else "u" if a.dtype == np.uint8 else "i"
    if kind == "i" and a.size and (a.min() < -2**31 or a.max() >= 2**31):
        raise SystemExit("error: an integer feature does not fit 32 bits")
    a = np.ascontiguousarray(a, {"f": "<f4", "i": "<i4", "u": "u1"}[kind])
    return a, a.shape[1], TYPES[kind]


def sort_edges(graph):
    """By target, then source: the order in which messages are summed."""
    order = np.lexsort((graph["edge_index"][0], graph["edge_index"][1]))
    graph["edge_index"] = graph["edge_index"][:, order]
    if graph.get("edge_attr") is not None:
        graph["edge_attr"] = graph["edge_attr"][order]


def keys(first, second):
    return first.astype(np.int64) << 32 | second.astype(np.int64)


def is_undirected(e):
    return np.array_equal(np.sort(keys(e[0], e[1])), np.sort(keys(e[1], e[0])))


def is_sorted(e):
    return bool((np.diff(keys(e[1], e[0])) >= 0).all())


def stack(graphs, key, rows):
    """The arrays of all graphs as one; None where no graph has it."""
    parts = [g.get(key) for g in graphs]
    if all(p is None for p in parts):
        return None, 0, 0
    if any(p is None for p in parts):
        raise SystemExit(f"error: some graphs have {key} and some have not")
    cols = [column(p, r)[0] for p, r in zip(parts, rows)]
    if len({c.shape[1] for c in cols}) > 1:
        raise SystemExit(f"error: {key} has another width in some graphs")
    return column(np.concatenate(cols), sum(rows))


def check(graph, number):
    n, e = graph["nodes"], graph["edge_index"]
    if e.shape[1] and (e.min() < 0 or e.max() >= n):
        raise SystemExit(f"error: graph {number} has an edge to a node that is not there ({n} nodes)")
    for key in ("x", "edge_attr"):
        a = graph.get(key)
        if a is not None and np.asarray(a).dtype.kind == "f" and not np.isfinite(a).all():
            raise SystemExit(f"error: graph {number} has a value in {key} that is not finite")


def write_pack(path, graphs, classes=0, sort=False):
    """Writes a list of dictionaries with numpy arrays: edge_index (2, E), and x, edge_attr, y, nodes, split where
    they exist. `sort` orders the edges by target and source."""
    if not graphs:
        raise SystemExit("error: there are no graphs")
    for i, g in enumerate(graphs):
        g.setdefault("nodes", len(g["x"]) if g.get("x") is not None else int(g["edge_index"].max(initial=-1)) + 1)
        check(g, i)
        if sort:
            sort_edges(g)
    nodes, edges = [g["nodes"] for g in graphs], [g["edge_index"].shape[1] for g in graphs]
    feat, feat_width, feat_type = stack(graphs, "x", nodes)
    attr, attr_width, attr_type = stack(graphs, "edge_attr", edges)
    labels = [g.get("y") for g in graphs]
    per_node = labels[0] is not None and any(n > 1 for n in nodes) and \
        all(len(np.atleast_1d(y)) == n for y, n in zip(labels, nodes))
    label, label_width, label_type = stack(graphs, "y", nodes if per_node else [1] * len(graphs))
    src = np.concatenate([g["edge_index"][0] for g in graphs]).astype("<u4")
    dst = np.concatenate([g["edge_index"][1] for g in graphs]).astype("<u4")
    sections = [
        ("NODEPTR", np.cumsum([0] + nodes, dtype="<u8")), ("EDGEPTR", np.cumsum([0] + edges, dtype="<u8")),
        ("EDGESRC", src), ("EDGEDST", dst), ("NODEFEAT", feat), ("EDGEFEAT", attr), ("LABEL", label),
        ("SPLIT", np.array([g["split"] for g in graphs], "u1") if all("split" in g for g in graphs) else None),
    ]
    sections = [(tag, a) for tag, a in sections if a is not None]
    flags = all(is_undirected(g["edge_index"]) for g in graphs) | all(is_sorted(g["edge_index"]) for g in graphs) << 1
    head = b"GRAPHPK1" + struct.pack("<IIQQQ", 1, flags, len(graphs), sum(nodes), sum(edges))
    head += struct.pack("<11I", feat_width, feat_type, attr_width, attr_type, int(per_node), label_width, label_type,
                        classes, 0, 0, len(sections))
    head = head.ljust(128, b"\0")
    at, table = 128 + 32 * len(sections), b""
    for tag, a in sections:
        at += -at % 64
        table += tag.encode().ljust(8, b"\0") + struct.pack("<QQII", at, a.nbytes, zlib.crc32(a.tobytes()), 0)
        at += a.nbytes
    with open(path, "wb") as f:
        f.write(head + table)
        for _, a in sections:
            f.write(b"\0" * (-f.tell() % 64))
            f.write(a.tobytes())
    print(f"{path}: {len(graphs)} graphs, {sum(nodes)} nodes, {sum(edges)} edges, features {feat_width} and "
          f"{attr_width}, labels {label_width} per {'node' if per_node else 'graph'}", file=sys.stderr)


# ---- reading what Python wrote ----

class Container:
    """Stands for any class of torch_geometric: keeps what the pickle gives it."""

    def __init__(self, *args, **kwargs):
        self.args = args

    def __setstate__(self, state):
        self.__dict__.update(state if isinstance(state, dict) else {"state": state})

    def __call__(self, *args):
        return self


class Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        if module.split(".")[0] in ("torch_geometric", "torch_sparse", "dgl"):
            try:
                return super().find_class(module, name)
            except (ImportError, AttributeError):
                return Container
        return super().find_class(module, name)


def load(path):
    if path.endswith((".pickle", ".pkl")):
        with open(path, "rb") as f:
            return Unpickler(f).load()
    if path.endswith(".gz"):
        with gzip.open(path, "rb") as f:
            return Unpickler(f).load()
    import torch
    reader = types.ModuleType("reader")
    reader.__dict__.update({k: getattr(pickle, k) for k in dir(pickle) if not k.startswith("__")})
    reader.Unpickler = Unpickler
    reader.load = lambda f, **kw: Unpickler(f, **kw).load()
    return torch.load(path, map_location="cpu", pickle_module=reader, weights_only=False)


def fields(data):
    """The arrays of a Data object of any version, of a stand-in for one, or of a dictionary."""
    if hasattr(data, "to_dict") and not isinstance(data, Container):
        data = data.to_dict()
    while not isinstance(data, dict):
        state = data.__dict__
        data = state["_store"] if "_store" in state else state["_mapping"] if "_mapping" in state else state
    return {k: v for k, v in data.items() if v is not None}


def array(v):
    return v.detach().cpu().numpy() if hasattr(v, "detach") else np.asarray(v)


def one_graph(d):
    g = {k: array(d[k]) for k in KEEP if k in d}
    if "pos" in g:                                     # coordinates belong to the features, behind them
        pos = g.pop("pos").astype(np.float32)
        g["x"] = np.concatenate([g["x"].reshape(len(pos), -1).astype(np.float32), pos], 1) if "x" in g else pos
    if g.get("x") is not None and g["x"].ndim == 1:
        g["x"] = g["x"][:, None]
    g["edge_index"] = np.asarray(g["edge_index"], np.int64).reshape(2, -1)
    n = d.get("num_nodes")
    if g.get("x") is None and n is not None:
        g["nodes"] = int(array(n).reshape(-1)[0])
    return g


def cut(data, slices):
    """One graph after the other from a collated dataset: `slices` says where each begins in every array."""
    d, s = fields(data), {k: array(v).tolist() for k, v in fields(slices).items()}
    whole = {k: array(v) for k, v in d.items() if k in KEEP}
    counts = array(d["num_nodes"]).reshape(-1) if "num_nodes" in d and "x" not in d else None
    for i in range(len(s["edge_index"]) - 1):
        g = {}
        for k, v in whole.items():
            a, b = s[k][i], s[k][i + 1]
            g[k] = v[:, a:b] if k == "edge_index" else v[a:b]
        if counts is not None:
            g["num_nodes"] = counts[i]
        yield one_graph(g)


def read(path):
    data = load(path)
    if isinstance(data, tuple) and len(data) in (2, 3) and not isinstance(data[0], (list, tuple)):
        return list(cut(data[0], data[1]))             # (data, slices) or (dict, slices, class)
    graphs = []
    for item in data:
        if isinstance(item, (tuple, list)):            # LRGB: (x, edge_attr, edge_index, y)
            if len(item) != 4:
                raise SystemExit(f"error: {path} holds tuples of {len(item)}, not (x, edge_attr, edge_index, y)")
            item = dict(zip(("x", "edge_attr", "edge_index", "y"), item))
        graphs.append(one_graph(fields(item)))
    return graphs


def assign_splits(graphs, path):
    lists = load(path)
    if isinstance(lists, dict):
        lists = [lists[k] for k in ("train", "val" if "val" in lists else "valid", "test")]
    for number, members in enumerate(lists):
        for i in array(members).reshape(-1):
            graphs[int(i)]["split"] = number
    missing = sum("split" not in g for g in graphs)
    if missing:
        raise SystemExit(f"error: {missing} graphs are in no part of the split {path}")


def guess_classes(graphs):
    labels = [np.asarray(g["y"]) for g in graphs if g.get("y") is not None]
    if not labels:
        return 0
    y = np.concatenate([a.reshape(-1) for a in labels])
    columns = max(a.shape[-1] if a.ndim > 1 else 1 for a in labels)
    if columns > 1:
        return 2 if np.isin(y[~np.isnan(y.astype(np.float64))], (0, 1)).all() else 0
    return max(2, int(y.max()) + 1) if y.dtype.kind in "iub" and y.size and y.min() >= 0 else 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("inputs", nargs="+", help="one file, or three: train, val, test")
    p.add_argument("--out", required=True)
    p.add_argument("--classes", type=int, help="0: regression (as the labels tell)")
    p.add_argument("--splits", help="numbers of the graphs in train, val and test")
    p.add_argument("--one-hot", type=int, default=0, metavar="N", help="node features are classes: one-hot of N")
    p.add_argument("--keep-order", action="store_true", help="do not sort the edges by target and source")
    a = p.parse_args()
    if len(a.inputs) not in (1, 3):
        p.error("one input, or three")
    graphs = []
    for number, path in enumerate(a.inputs):
        part = read(path)
        if len(a.inputs) == 3:
            for g in part:
                g["split"] = number
        graphs += part
    if a.splits:
        assign_splits(graphs, a.splits)
    for g in graphs if a.one_hot else []:
        g["x"] = np.eye(a.one_hot, dtype=np.float32)[g["x"].reshape(-1).astype(np.int64)]
    write_pack(a.out, graphs, guess_classes(graphs) if a.classes is None else a.classes, sort=not a.keep_order)


if __name__ == "__main__":
    main()
