#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""graphs.py -- makes tests/golden_graph/<name>/: tiny Graph-Mamba networks, one training step each.

    python3 tools/golden/graphs.py                      all of them (needs torch, CPU only)
    python3 tools/golden/graphs.py voc_like             some of them
    python3 tools/golden/graphs.py --check              writes nothing; recomputes what is there, also padded

A directory holds the files of vision.py, without those of images, and
    batch.graphpk        the batch as a GRAPHPK1 container: all its graphs, in this order. Eigenvectors are as computed,
                         before sign flips
    lap_signs.npy        float32 (K), factor of eigenvector k in training; absent without LapPE
    perm.npy             int32 (layers, N): perm[l][r] is the node (in the union) at position r
    segment.npy          int32 (layers, N): number of the segment position r lies in, 0, 0, .. 1, 1, ..; a segment is a
                         graph, or a graph's part in one bucket
    perm_eval.npy, segment_eval.npy    int32 (layers, 5, N): the orders whose branch outputs logits_eval.npy averages

Everything is computed in float64 by graphmamba.py and rounded once."""
import os
import struct
import zlib

import numpy as np
import torch

import graphmamba
import pieces
from graphmamba import BUCKET, NOISE, preset

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "golden_graph")
PASSES = 5                                                                         # orders averaged in evaluation

# name: configuration, sizes of the graphs. Smaller than lap_k: missing eigenvectors; 1: no edge at all.
MODELS = {
    # Node task; a class that never occurs; graphs smaller than lap_k; edge features; edges sorted by target.
    "voc_like": (preset(24, 3, BUCKET, ("linear+lap", 5), ("linear", 2), (8, 8), 3, None, 7, "weighted_cross_entropy"),
                 [13, 1, 6, 18]),
    # Mean pooling; embedding tables of the real sizes; two missing labels; edges as (a, b), (b, a), ..
    "peptides_like": (preset(20, 3, NOISE, ("atom+lap", 9), ("bond", 3), (10, 6), 1, "mean", 4, "bce"),
                      [21, 9, 5, 1, 16, 3]),
    # Max pooling; directed, unsorted, with self loops, a repeated edge, nodes without in-edges.
    "malnet_like": (preset(18, 2, BUCKET, ("linear", 5), ("one", 0), (0, 0), 3, "max", 5, "cross_entropy",
                           node_norm=True, pre_layers=1),
                    [30, 12, 45, 2]),
    # Random-walk encodings.
    "walks_like": (preset(18, 2, NOISE, ("linear+rw", 5), ("one", 0), (0, 6), 2, "mean", 4, "cross_entropy", rw_k=7),
                   [14, 3, 25, 2]),
}


# The container -----------------------------------------------------------------------------------------------------

TYPES = {np.dtype("<f4"): 1, np.dtype("<i4"): 2, np.dtype("u1"): 3}
FEATURES = {1: "<f4", 2: "<i4", 3: "u1"}


def write_graphpk(path, pack):
    """GRAPHPK1 of a dictionary: nodeptr, edgeptr, src, dst (inside the graph), nodes, edges or None, labels, level
    ("graph" or "node"), classes, flags, lap_values (G, K) and lap_vectors (N, K) or None, walks (N, K) or None."""
    G, N, E = len(pack["nodeptr"]) - 1, int(pack["nodeptr"][-1]), int(pack["edgeptr"][-1])

    def feature(x):
        return (0, 0) if x is None else (x.shape[1], TYPES[x.dtype])

    labels = pack["labels"]
    K, R = (0 if pack[x] is None else pack[x].shape[1] for x in ("lap_vectors", "walks"))
    sections = {"NODEPTR": pack["nodeptr"].astype("<u8"), "EDGEPTR": pack["edgeptr"].astype("<u8"),
                "EDGESRC": pack["src"].astype("<u4"), "EDGEDST": pack["dst"].astype("<u4"), "NODEFEAT": pack["nodes"],
                "EDGEFEAT": pack["edges"], "LABEL": labels, "SPLIT": np.zeros(G, "u1"),
                "LAPVAL": pack["lap_values"], "LAPVEC": pack["lap_vectors"], "RWSE": pack["walks"]}
    sections = {tag: x for tag, x in sections.items() if x is not None}
    head = struct.pack("<8sIIQQQ11I44x", b"GRAPHPK1", 1, pack["flags"], G, N, E, *feature(pack["nodes"]),
                       *feature(pack["edges"]), {"graph": 0, "node": 1}[pack["level"]], *feature(labels),
                       pack["classes"], K, R, len(sections))
    assert len(head) == 128
    offset, table, body = -(-(128 + 32 * len(sections)) // 64) * 64, b"", b""
    start = offset
    for tag, x in sections.items():
        data = np.ascontiguousarray(x).tobytes()
        table += struct.pack("<8sQQII", tag.encode(), offset, len(data), zlib.crc32(data), 0)
        body += data + bytes(-len(data) % 64)
        offset = start + len(body)
    with open(path, "wb") as f:
        f.write((head + table).ljust(start, b"\0") + body)


def read_graphpk(path):
    with open(path, "rb") as f:
        raw = f.read()
    magic, version, flags, G, N, E, *rest = struct.unpack_from("<8sIIQQQ11I", raw)
    nw, nt, ew, et, level, lw, lt, classes, K, R, S = rest
    assert magic == b"GRAPHPK1" and version == 1
    found = {}
    for i in range(S):
        tag, offset, size, crc, _ = struct.unpack_from("<8sQQII", raw, 128 + 32 * i)
        found[tag.rstrip(b"\0").decode()] = data = raw[offset:offset + size]
        assert offset % 64 == 0 and len(data) == size and zlib.crc32(data) == crc, tag

    def array(tag, kind, *shape):
        return np.frombuffer(found[tag], kind).reshape(shape) if tag in found else None

    return {"flags": flags, "level": ["graph", "node"][level], "classes": classes,
            "nodeptr": array("NODEPTR", "<u8", G + 1), "edgeptr": array("EDGEPTR", "<u8", G + 1),
            "src": array("EDGESRC", "<u4", E), "dst": array("EDGEDST", "<u4", E),
            "nodes": array("NODEFEAT", FEATURES[nt], N, nw),
            "edges": array("EDGEFEAT", FEATURES[et], E, ew) if et else None,
            "labels": array("LABEL", FEATURES[lt], N if level else G, lw),
            "lap_values": array("LAPVAL", "<f4", G, K), "lap_vectors": array("LAPVEC", "<f4", N, K),
            "walks": array("RWSE", "<f4", N, R)}


# The graphs --------------------------------------------------------------------------------------------------------

def undirected(n, extra, rng):
    """A random tree and some more edges, each in both directions, one after the other; (a, b), (b, a), .."""
    pairs = {(int(rng.integers(0, i)), i) for i in range(1, n)}
    for _ in range(extra if n > 2 else 0):
        a, b = sorted(rng.choice(n, 2, replace=False).tolist())
        pairs.add((a, b))
    return np.array([e for a, b in sorted(pairs) for e in ((a, b), (b, a))], int).reshape(-1, 2)


def directed(n, rng):
    """Calls, mostly to a few; with a self loop, an edge that occurs twice, and nodes nobody calls."""
    pairs = [(i, int(rng.integers(0, i) * rng.uniform())) for i in range(1, n)]
    pairs += [(int(rng.integers(0, n)), int(rng.integers(0, max(1, n // 3)))) for _ in range(n)]
    pairs += [pairs[0], (n - 1, n - 1)]
    return rng.permutation(np.array(pairs, int))


def lap_pairs(n, edges, K):
    """K smallest eigenvalues and eigenvectors of Deg - Adj, without self loops; NaN where there are not so many."""
    adjacent = np.zeros((n, n))
    adjacent[edges[:, 0], edges[:, 1]] = adjacent[edges[:, 1], edges[:, 0]] = 1
    np.fill_diagonal(adjacent, 0)
    values, vectors = np.linalg.eigh(np.diag(adjacent.sum(1)) - adjacent)
    pad = max(0, K - n)
    values = np.pad(np.maximum(values[:K], 0), (0, pad), constant_values=np.nan)
    return values, np.pad(vectors[:, :K], ((0, 0), (0, pad)), constant_values=np.nan)


def degree_profile(n, edges):
    """[d, min, max, mean, std] of the out-neighbours' out-degrees; zeros where there is none."""
    degree = np.bincount(edges[:, 0], minlength=n)
    rows = np.zeros((n, 5))
    for v in range(n):
        seen = degree[edges[edges[:, 0] == v, 1]].astype(float)
        if len(seen):
            spread = np.sqrt(((seen - seen.mean()) ** 2).sum() / (max(len(seen) - 1, 1) + 1e-6))
            rows[v] = degree[v], seen.min(), seen.max(), seen.mean(), spread
    return rows


def return_probabilities(n, edges, K):
    """The diagonals of P, P^2, .. P^K, P = Deg^-1 Adj by out-degrees."""
    P = np.zeros((n, n))
    np.add.at(P, (edges[:, 0], edges[:, 1]), 1)
    P /= np.maximum(P.sum(1, keepdims=True), 1)
    return np.stack([np.diag(np.linalg.matrix_power(P, k)) for k in range(1, K + 1)], 1)


def draw_pack(name, config, sizes, rng):
    calls = name in ("malnet_like", "walks_like")
    edges = [directed(n, rng) if calls else undirected(n, n // 2, rng) for n in sizes]
    flags = 0 if calls else 1
    if name == "voc_like":                                                         # sorted by target, then source
        edges, flags = [e[np.lexsort((e[:, 0], e[:, 1]))] for e in edges], 3
    N, E, K, W = sum(sizes), sum(map(len, edges)), config["lap_k"], config["outputs"]

    def below(rows, count):
        return np.stack([rng.integers(0, n, count) for n in rows], 1).astype("<i4")

    pack = {"flags": flags, "level": "graph" if config["pooling"] else "node",
            "nodeptr": np.cumsum([0, *sizes]), "edgeptr": np.cumsum([0, *map(len, edges)]),
            "src": np.concatenate(edges)[:, 0], "dst": np.concatenate(edges)[:, 1],
            "edges": None, "lap_values": None, "lap_vectors": None, "walks": None, "classes": W}
    if name == "voc_like":                                                         # one class never occurs
        labels = below([W - 1], N)
        pack |= {"nodes": rng.normal(0, 1, (N, config["node_width"])),
                 "edges": rng.normal(0, 1, (E, config["edge_width"])),
                 "labels": np.where(labels == W - 2, W - 1, labels).astype("<i4")}
    elif name == "peptides_like":                                                  # two labels are missing
        labels = rng.integers(0, 2, (len(sizes), W)).astype("<f4")
        labels[1, 2] = labels[4, 0] = np.nan
        pack |= {"nodes": below(graphmamba.ATOM_ROWS, N), "edges": below(graphmamba.BOND_ROWS, E), "labels": labels,
                 "classes": 2}
    else:
        pack |= {"nodes": np.concatenate([degree_profile(n, e) for n, e in zip(sizes, edges)]),
                 "labels": below([W], len(sizes))}
    if config.get("rw_k"):
        pack["walks"] = np.concatenate([return_probabilities(n, e, config["rw_k"]) for n, e in zip(sizes, edges)])
    if K:
        values, vectors = zip(*[lap_pairs(n, e, K) for n, e in zip(sizes, edges)])
        pack |= {"lap_values": np.stack(values), "lap_vectors": np.concatenate(vectors)}
    return {k: v.astype("<f4") if getattr(v, "dtype", None) == np.float64 else v for k, v in pack.items()}


def batch_of(pack, signs):
    """The union of all graphs of a container, in float64."""
    sizes = np.diff(pack["nodeptr"].astype(np.int64))
    graph = np.repeat(np.arange(len(sizes)), sizes)
    first = np.repeat(pack["nodeptr"][:-1].astype(np.int64), np.diff(pack["edgeptr"].astype(np.int64)))

    def tensor(x):
        return None if x is None else torch.from_numpy(x.astype(np.float64 if x.dtype.kind == "f" else np.int64))

    labels = tensor(pack["labels"])
    values = None if pack["lap_values"] is None else pack["lap_values"][graph]
    return graphmamba.Batch(
        graph=tensor(graph), src=tensor(pack["src"] + first), dst=tensor(pack["dst"] + first),
        nodes=tensor(pack["nodes"]), edges=tensor(pack["edges"]), lap_vectors=tensor(pack["lap_vectors"]),
        lap_values=tensor(values), lap_signs=tensor(signs), walks=tensor(pack["walks"]),
        labels=labels if labels.is_floating_point() else labels[:, 0])


# One directory -----------------------------------------------------------------------------------------------------

def orders_of(perm, segment):
    """(L, N) or (L, passes, N) as the model takes it."""
    if perm.ndim == 1:
        return graphmamba.Order(torch.from_numpy(perm.astype(np.int64)), torch.from_numpy(segment.astype(np.int64)))
    return [orders_of(p, s) for p, s in zip(perm, segment)]


def step_of(config, pack, arrays, form="packed"):
    def loss_of(model):
        batch = batch_of(pack, arrays.get("lap_signs")).to(next(model.parameters()).dtype)
        logits = model(batch, orders_of(arrays["perm"], arrays["segment"]), form)
        return logits, graphmamba.LOSSES[config["loss"]](logits, batch.labels)
    return loss_of


def evaluated(pack, arrays):
    """Logits with the running statistics of the stored state, no sign flips, five orders per layer."""
    def logits_eval(model, state):
        model.load_state_dict({k: torch.from_numpy(v) for k, v in state.items()})
        with torch.no_grad():
            return model.eval()(batch_of(pack, None), orders_of(arrays["perm_eval"], arrays["segment_eval"]))
    return logits_eval


def draw_orders(batch, config, passes, generator):
    """perm, segment: (L, passes, N) int32."""
    orders = [[graphmamba.draw_order(batch, config["order"], generator) for _ in range(passes)]
              for _ in range(config["layers"])]
    return (np.array([[getattr(o, field).numpy() for o in layer] for layer in orders], np.int32)
            for field in ("perm", "segment"))


def make(name):
    config, sizes = MODELS[name]
    directory = os.path.join(ROOT, name)
    rng = pieces.seeded("graph " + name)
    model = graphmamba.GraphMamba(**config)
    state = pieces.draw(model, rng, 1)
    pack = draw_pack(name, config, sizes, rng)
    arrays = {}
    if config["lap_k"]:
        arrays["lap_signs"] = rng.choice([-1.0, 1.0], config["lap_k"]).astype(np.float32)
    batch = batch_of(pack, None)
    generator = torch.Generator().manual_seed(int(rng.integers(1 << 31)))
    perm, segment = draw_orders(batch, config, 1, generator)
    arrays["perm"], arrays["segment"] = perm[:, 0], segment[:, 0]
    arrays["perm_eval"], arrays["segment_eval"] = draw_orders(batch, config, PASSES, generator)

    loss_of, logits_eval = step_of(config, pack, arrays), evaluated(pack, arrays)
    pieces.calibrate(model, state, rng, loss_of)
    result = pieces.run_step(model, state, loss_of)
    narrow = pieces.run_step(graphmamba.GraphMamba(**config), state, loss_of)
    print(f"{name:14} float32: loss {narrow[1] - result[1]:+.0e} logits "
          f"{pieces.distance({'': narrow[0]}, {'': result[0]})[0]:.0e} gradients {pieces.told(narrow[2], result[2])}")
    arrays["logits_eval"] = logits_eval(model, state).numpy().astype(np.float32)
    pieces.write(directory, config, state, arrays, result,
                 {"graphs": len(sizes), "nodes": len(batch.graph), "edges": len(batch.src),
                  "zero_gradients": pieces.zeros(result[2])})
    write_graphpk(os.path.join(directory, "batch.graphpk"), pack)


def check(name):
    directory = os.path.join(ROOT, name)
    config, state, arrays, *_ = pieces.read(directory)
    pack = read_graphpk(os.path.join(directory, "batch.graphpk"))
    model = graphmamba.GraphMamba(**config)
    packed, padded = (pieces.run_step(model.double(), state, step_of(config, pack, arrays, form))
                      for form in ("packed", "padded"))
    off = max(abs(packed[1] - padded[1]), pieces.distance(padded[2], packed[2])[0])
    assert off < 1e-11, f"{name}: packed and padded differ by {off}"
    pieces.compare(directory, model, step_of(config, pack, arrays), evaluated(pack, arrays))


if __name__ == "__main__":
    pieces.main(__doc__, MODELS, make, check)
