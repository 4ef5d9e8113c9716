#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""graph_features.py -- writes tests/data/graphs/ with NumPy: Laplacian eigenspaces, walks, degree profiles and metrics
by their definitions, and a GRAPHPK1 file by tools/pyg_to_graphpk.py. Needs numpy.

    python3 tools/golden/graph_features.py             # from the root of the repository
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import pyg_to_graphpk  # noqa: E402

OUT = "tests/data/graphs"
K_LAP, K_WALK = 10, 16


def both(pairs):
    return [(a, b) for a, b in pairs] + [(b, a) for a, b in pairs]


def sample_graphs():
    """(name, nodes, directed edges): repeated eigenvalues, several components, fewer nodes than K, self loops."""
    r = np.random.default_rng(5)
    tree = [(int(r.integers(0, i)), i) for i in range(1, 60)]
    grid = [(y * 7 + x, y * 7 + x + 1) for y in range(5) for x in range(6)]
    grid += [(y * 7 + x, y * 7 + 7 + x) for y in range(4) for x in range(7)]
    loose = [(a, b) for a in range(40) for b in range(40) if r.random() < 0.06]
    dense = [(a, b) for a in range(90) for b in range(a) if r.random() < 0.3]
    return [
        ("path", 12, both([(i, i + 1) for i in range(11)])),
        ("cycle", 20, both([(i, (i + 1) % 20) for i in range(20)])),
        ("grid", 35, both(grid)),
        ("star", 13, both([(0, i) for i in range(1, 13)])),
        ("complete", 6, both([(a, b) for a in range(6) for b in range(a)])),
        ("apart", 15, both([(0, 1), (1, 2), (3, 4), (4, 5), (5, 3), (7, 8)])),
        ("tree", 60, both(tree)),
        ("directed with self loops and a duplicate", 40, loose + [(3, 3), loose[0]]),
        ("dense", 90, both(dense)),
        ("alone", 1, []),
    ]


def laplace(n, edges):
    """Eigenvalues, and of each the diagonal of the projector on its eigenspace; NaN where K cuts the space."""
    a = np.zeros((n, n))
    for s, d in edges:
        if s != d:
            a[s, d] = a[d, s] = 1
    w, v = np.linalg.eigh(np.diag(a.sum(1)) - a)
    k = min(n, K_LAP)
    val, space = np.full(K_LAP, np.nan), np.full((n, K_LAP), np.nan)
    val[:k] = np.maximum(w[:k], 0)
    for j in range(k):
        same = np.abs(w - w[j]) < 1e-8 * max(1, abs(w[-1]))
        if np.flatnonzero(same).max() < k:
            space[:, j] = (v[:, same] ** 2).sum(1)
    return val, space


def walks(n, edges):
    a = np.zeros((n, n))
    for s, d in edges:
        a[s, d] += 1
    deg = a.sum(1, keepdims=True)
    p = np.divide(a, deg, out=np.zeros_like(a), where=deg > 0)
    out, power = [], np.eye(n)
    for _ in range(K_WALK):
        power = power @ p
        out.append(np.diag(power).copy())
    return np.stack(out, 1)


def profile(n, edges):
    deg = np.bincount([s for s, _ in edges], minlength=n).astype(float)
    out = np.zeros((n, 5))
    for v in range(n):
        d = np.array([deg[b] for a, b in edges if a == v])
        if len(d):
            spread = np.sqrt(((d - d.mean()) ** 2).sum() / (max(len(d) - 1, 1) + 1e-6))
            out[v] = [deg[v], d.min(), d.max(), d.mean(), spread]
    return out


def save(name, a):
    np.save(f"{OUT}/{name}.npy", np.ascontiguousarray(a))


def features():
    graphs = sample_graphs()
    save("nodes", np.array([n for _, n, _ in graphs], np.int32))
    save("edges", np.array([(g, s, d) for g, (_, _, e) in enumerate(graphs) for s, d in e], np.int32))
    laps = [laplace(n, e) for _, n, e in graphs]
    save("lap_values", np.stack([v for v, _ in laps]))
    save("lap_spaces", np.concatenate([s for _, s in laps]))
    save("walks", np.concatenate([walks(n, e) for _, n, e in graphs]))
    save("profiles", np.concatenate([profile(n, e) for _, n, e in graphs]))


def average_precision(y, s):
    """As scikit-learn defines it: thresholds are the distinct scores."""
    total, before = 0.0, 0.0
    for t in sorted(set(s), reverse=True):
        said = s >= t
        recall, precision = (y[said] == 1).sum() / (y == 1).sum(), (y[said] == 1).mean()
        total, before = total + (recall - before) * precision, recall
    return total


def metrics():
    r = np.random.default_rng(9)
    rows, classes, tasks = 400, 7, 5
    score = (r.normal(size=(rows, classes)) * 4).round() / 4                       # with ties
    truth = r.integers(0, classes - 2, rows)                                       # two classes are only predicted
    said = score.argmax(1)
    f1, recall = [], []
    for c in range(classes):
        yes, right = said == c, truth == c
        tp, fp, fn = (yes & right).sum(), (yes & ~right).sum(), (~yes & right).sum()
        if tp + fp + fn:
            f1.append(2 * tp / (2 * tp + fp + fn))
            recall.append(tp / (tp + fn) if tp + fn else 0.0)
    order = np.argsort(-score, axis=1, kind="stable")
    top5 = np.mean([truth[i] in order[i, :5] for i in range(rows)])
    multi = (r.normal(size=(rows, tasks)) * 4).round() / 4
    label = (multi + r.normal(size=multi.shape) > 0.8).astype(float)
    label[r.random(label.shape) < 0.1] = np.nan
    label[:, 3] = np.where(np.isnan(label[:, 3]), np.nan, 0)                       # a task without a positive
    there = ~np.isnan(label)
    aps = [average_precision(label[there[:, t], t], multi[there[:, t], t]) for t in range(tasks) if t != 3]
    mae = np.nanmean(np.abs(multi - label))
    save("metric_scores", score.astype(np.float32))
    save("metric_truth", truth.astype(np.int32))
    save("metric_multi", multi.astype(np.float32))
    save("metric_labels", label.astype(np.float32))
    save("metric_values", np.array([(said == truth).mean(), np.mean(f1), np.mean(recall), top5, np.mean(aps), mae]))


def pack():
    """The file that src/data/graph_pack_test.c knows by heart."""
    f = np.float32
    graphs = [
        {"x": np.array([[1, 2], [3, 4], [5, 6]], f), "edge_index": np.array([[1, 0, 2], [0, 1, 1]]),
         "edge_attr": np.array([[7], [8], [9]], f), "y": np.array([[1, np.nan]], f), "split": 1},
        {"x": np.array([[7, 8]], f), "edge_index": np.zeros((2, 0), np.int64), "edge_attr": np.zeros((0, 1), f),
         "y": np.array([[0, 1]], f), "split": 0},
    ]
    pyg_to_graphpk.write_pack(f"{OUT}/python.graphpk", graphs, classes=2)


if __name__ == "__main__":
    os.makedirs(OUT, exist_ok=True)
    features()
    metrics()
    pack()
