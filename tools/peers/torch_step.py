#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_step.py -- seconds of one training step of MambaVision and Graph-Mamba in plain PyTorch on this CPU, at the
fastest setting here.

    python3 tools/peers/torch_step.py                                 both models (needs torch)
    python3 tools/peers/torch_step.py mambavision-t --steps 5         one of them
    python3 tools/peers/torch_step.py >> OUT.jsonl        # seconds go to bench/results/cpu/peers.csv (docs/results.md)

The published implementations need a GPU (their scan is a CUDA kernel), so the peer on a CPU is the reference of
tools/golden with everything as fast as plain PyTorch allows. A step is forward, loss, backward and torch's fused
AdamW, in float32, random weights:
    mambavision-t    8 images of 224 x 224, cross-entropy, dropped paths
    peptides-func    32 synthetic molecules (residues of random kind and number, about 150 nodes each), 10 binary tasks;
                     3 layers, a fresh node order in every layer
Settings: threads; torch.compile block by block (not of the scan: it would unroll the loop over time); channels_last for
the convolutions; and the scan, always vectorised over sequences, channels and states with a loop over time:
    loop        decays and inputs for all positions at once, then the recurrence, differentiated by autograd
    function    the same with a backward pass of its own, which keeps all states and loops once in reverse
    published   not a candidate, timed by --trial alone: what the published models have where there is no CUDA, graphs
                padded to the longest (here in the scan only) and y made token by token, differentiated by autograd
Sequences of a ragged batch are walked together, longest first, so that no padding is computed (but for `published`).

stdout: one JSON line per model; its fields are those of transformers_step.py."""
import os
import sys

import trials

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "golden"))

BATCH = {"mambavision-t": 8, "peptides-func": 32}


# Faster scans ------------------------------------------------------------------------------------------------------
# Rows are time-major: counts[0] rows of time 0, then counts[1] <= counts[0] rows of time 1, .. ; row i of time t
# follows row i of time t-1.

def starts_of(counts):
    starts = [0]
    for n in counts:
        starts.append(starts[-1] + n)
    return starts


def scan_loop(u, step, A, B, C, D, counts):
    import torch
    decay = torch.exp(step[:, :, None] * A).split(counts)
    driven = ((step * u)[:, :, None] * B[:, None, :]).split(counts)
    states = [driven[0]]
    for t in range(1, len(counts)):
        states.append(torch.addcmul(driven[t], decay[t], states[-1][:counts[t]]))
    return (torch.cat(states) @ C[:, :, None])[:, :, 0] + D * u


def scan_function():
    """Made late: torch is imported inside trials only."""
    import torch

    class Scan(torch.autograd.Function):
        @staticmethod
        def forward(ctx, u, step, A, B, C, D, counts):
            at = starts_of(counts)
            decay = torch.exp(step[:, :, None] * A)
            states = (step * u)[:, :, None] * B[:, None, :]
            for t in range(1, len(counts)):
                states[at[t]:at[t + 1]].addcmul_(decay[at[t]:at[t + 1]], states[at[t - 1]:at[t - 1] + counts[t]])
            ctx.save_for_backward(u, step, A, B, C, D, decay, states)
            ctx.counts = counts
            return torch.addcmul((states @ C[:, :, None])[:, :, 0], u, D)

        @staticmethod
        def backward(ctx, gy):
            u, step, A, B, C, D, decay, states = ctx.saved_tensors
            counts, at = ctx.counts, starts_of(ctx.counts)
            G = gy[:, :, None] * C[:, None, :]
            for t in range(len(counts) - 1, 0, -1):
                G[at[t - 1]:at[t - 1] + counts[t]].addcmul_(decay[at[t]:at[t + 1]], G[at[t]:at[t + 1]])
            gC = (gy[:, None, :] @ states)[:, 0]
            gB = ((step * u)[:, None, :] @ G)[:, 0]
            gBu = (G @ B[:, :, None])[:, :, 0]
            # G a S[t-1] in place of G: rows of time 0 have no state before them.
            w = G.mul_(decay)
            w[:at[1]] = 0
            for t in range(1, len(counts)):
                w[at[t]:at[t + 1]].mul_(states[at[t - 1]:at[t - 1] + counts[t]])
            gstep = torch.addcmul((w * A).sum(-1), gBu, u)
            gA = (w * step[:, :, None]).sum(0)
            gu = torch.addcmul(step * gBu, gy, D)
            return gu, gstep, gA, gB, gC, (gy * u).sum(0), None

    return Scan.apply


def scan_published(u, step, A, B, C, D):
    import torch
    decay = torch.exp(torch.einsum("bld,dn->bldn", step, A))
    driven = torch.einsum("bld,bln,bld->bldn", step, B, u)
    state, ys = torch.zeros_like(driven[:, 0]), []
    for t in range(u.shape[1]):
        state = decay[:, t] * state + driven[:, t]
        ys.append(torch.einsum("bdn,bn->bd", state, C[:, t]))
    return torch.stack(ys, 1) + D * u


def scan_padded(u, step, A, B, C, D, order):
    graphs, longest = len(order.lengths), int(order.lengths.max())
    row = order.segment * longest + order.place

    def dense(x):
        return x.new_zeros(graphs * longest, x.shape[1]).index_copy(0, row, x).view(graphs, longest, -1)

    return scan_published(dense(u), dense(step), A, dense(B), dense(C), D).flatten(0, 1).index_select(0, row)


def pick_scan(kind):
    import torch
    if kind == "published":
        return scan_published, scan_padded
    rows = {"loop": scan_loop, "function": scan_function()}[kind]

    @torch.compiler.disable
    def dense(u, step, A, B, C, D):
        M, L, h = u.shape
        flat = [x.transpose(0, 1).reshape(L * M, -1) for x in (u, step, B, C)]
        return rows(flat[0], flat[1], A, *flat[2:], D, [M] * L).reshape(L, M, h).transpose(0, 1)

    @torch.compiler.disable
    def packed(u, step, A, B, C, D, order):
        rank = torch.empty_like(order.lengths)
        rank[torch.argsort(order.lengths, descending=True)] = torch.arange(len(rank))
        to_time = torch.argsort(order.place * len(rank) + rank[order.segment])
        flat = [x.index_select(0, to_time) for x in (u, step, B, C)]
        y = rows(flat[0], flat[1], A, *flat[2:], D, torch.bincount(order.place).tolist())
        return torch.zeros_like(y).index_copy(0, to_time, y)

    return dense, packed


def check_scans():
    """Both, dense and packed, against the plain ones of tools/golden: values and all gradients, in float64."""
    import torch
    import graphmamba
    import pieces
    torch.manual_seed(0)
    h, N, sizes = 5, 4, [4, 9, 1, 6]
    order = graphmamba.Order(torch.arange(sum(sizes)), torch.repeat_interleave(torch.tensor(sizes)))

    def results(scan, shape, *more):
        generator = torch.Generator().manual_seed(2)
        shapes = [(*shape, h), (*shape, h), (h, N), (*shape, N), (*shape, N), (h,), (*shape, h)]
        u, s, A, B, C, D, g = (torch.randn(x, dtype=torch.float64, generator=generator).requires_grad_()
                               for x in shapes)
        y = scan(u, torch.nn.functional.softplus(s), -A.exp(), B, C, D, *more)
        return y, *torch.autograd.grad((y * g).sum(), [u, s, A, B, C, D])

    for kind in ("loop", "function", "published"):
        dense, packed = pick_scan(kind)
        pairs = [(results(dense, (3, 7)), results(pieces.scan, (3, 7))),
                 (results(packed, (20,), order), results(graphmamba.scan_packed, (20,), order))]
        assert max((a - b).abs().max() for have, want in pairs for a, b in zip(have, want)) < 1e-12, kind


# Synthetic molecules -----------------------------------------------------------------------------------------------

# Residues: frequency in percent, heavy atoms of the side chain, rings in it.
RESIDUES = [(8.25, 1, 0), (8.53, 7, 0), (3.06, 4, 0), (3.46, 4, 0), (7.0, 2, 0), (2.93, 5, 0), (3.72, 5, 0),
            (8.07, 0, 0), (2.27, 6, 1), (5.91, 4, 0), (9.66, 4, 0), (9.86, 5, 0), (1.42, 4, 0), (4.86, 7, 1),
            (4.87, 3, 1), (5.84, 2, 0), (4.34, 3, 0), (2.08, 10, 2), (2.75, 8, 1), (6.12, 3, 0)]


def molecule(rng):
    """Number of atoms and directed bonds: a backbone of N, CA, C, O with side chains simplified to chains and rings."""
    import numpy as np
    share = np.array([r[0] for r in RESIDUES])
    count = int(np.clip(round(rng.gamma((19.4 / 11.2) ** 2, 11.2 ** 2 / 19.4)), 2, 50))
    bonds, atoms, carbon = [], 0, None
    for kind in rng.choice(len(RESIDUES), count, p=share / share.sum()):
        _, size, rings = RESIDUES[kind]
        n, ca, c, o = range(atoms, atoms + 4)
        bonds += [(n, ca), (ca, c), (c, o)] + ([(carbon, n)] if carbon is not None else [])
        side = [ca, *range(atoms + 4, atoms + 4 + size)]
        bonds += list(zip(side, side[1:]))
        bonds += [(side[1 + 2 * r], side[-1 - r]) for r in range(rings)]
        atoms, carbon = atoms + 4 + size, c
    bonds.append((carbon, atoms))
    both = np.array(bonds)
    return atoms + 1, np.stack([both, both[:, ::-1]], 1).reshape(-1, 2)


def peptide_batch(graphs):
    import numpy as np
    import torch
    import graphmamba
    rng = np.random.default_rng(0)
    made = [molecule(rng) for _ in range(graphs)]
    sizes = np.array([n for n, _ in made])
    first = np.cumsum(sizes) - sizes
    ends = torch.from_numpy(np.concatenate([e + o for (_, e), o in zip(made, first)]))
    N, E, K = int(sizes.sum()), len(ends), 10

    def below(rows, count):
        return torch.from_numpy(np.stack([rng.integers(0, n, count) for n in rows], 1))

    def real(*shape):
        return torch.from_numpy(rng.normal(0, 1, shape).astype(np.float32))

    graph = torch.from_numpy(np.repeat(np.arange(graphs), sizes))
    return graphmamba.Batch(
        graph=graph, src=ends[:, 0].contiguous(), dst=ends[:, 1].contiguous(), nodes=below(graphmamba.ATOM_ROWS, N),
        edges=below(graphmamba.BOND_ROWS, E), lap_vectors=real(N, K) / 12, lap_values=real(graphs, K)[graph].abs(),
        lap_signs=torch.sign(real(K)), labels=torch.from_numpy(rng.integers(0, 2, (graphs, 10))).float())


# One trial ---------------------------------------------------------------------------------------------------------

def vision_trial(setting, generator):
    import torch
    import mambavision
    config = mambavision.VARIANTS["T"] | dict(depths=setting["layers"])
    model = mambavision.MambaVision(**config, scan=pick_scan(setting["scan"])[0]).initialise().train()
    N, size = BATCH["mambavision-t"], 224
    images = torch.randn(N, 3, size, size, generator=generator)
    labels = torch.randint(0, 1000, (N,), generator=generator)
    if setting["channels_last"]:
        model, images = model.to(memory_format=torch.channels_last), images.to(memory_format=torch.channels_last)

    def loss_of():
        drop = [f.float() for f in mambavision.draw_drop(model, N, size, size, generator)]
        return torch.nn.functional.cross_entropy(model(images, drop), labels)

    return model, [block for level in model.levels for block in level.blocks], loss_of


def graph_trial(setting, generator):
    import graphmamba
    config = graphmamba.PRESETS["peptides-func"] | dict(layers=setting["layers"])
    model = graphmamba.GraphMamba(**config, scan=pick_scan(setting["scan"])[1]).initialise().train()
    batch = peptide_batch(BATCH["peptides-func"])

    def loss_of():
        orders = [graphmamba.draw_order(batch, model.order, generator) for _ in model.layers]
        return graphmamba.bce(model(batch, orders), batch.labels)

    return model, model.layers, loss_of


def trial(setting):
    """One setting in this process; the result is the last line of stdout."""
    import torch
    torch.set_num_threads(setting["threads"])
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    make = vision_trial if setting["model"] == "mambavision-t" else graph_trial
    model, blocks, loss_of = make(setting, generator)
    if setting["compile"]:
        torch._dynamo.config.cache_size_limit = 64
        for block in blocks:
            block.compile()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.05, fused=True)
    trials.time_steps(model, optimizer, loss_of, setting["steps"])


# Around the trials -------------------------------------------------------------------------------------------------

# name: layers of the trials, layers in all
MODELS = {"mambavision-t": ([1, 1, 2, 2], [1, 3, 8, 4]), "peptides-func": (1, 3)}


def measure(name, arguments):
    import torch
    check_scans()
    few, layers = MODELS[name]
    settings = [dict(layers=few, threads=threads, compile=compiled, scan=scan, channels_last=last)
                for scan in ("function", "loop") for compiled in (False, True)
                for last in ((True, False) if name == "mambavision-t" else (False,))
                for threads in sorted({1, os.cpu_count()}, reverse=True)]
    about = {"image": 224}
    if name == "peptides-func":
        batch = peptide_batch(BATCH[name])
        about = {"nodes": len(batch.graph), "edges": len(batch.src), "longest": int(torch.bincount(batch.graph).max())}
    script = os.path.abspath(__file__)
    return {"model": name, "batch": BATCH[name], **about, "dtype": "float32",
            **trials.search(script, name, settings, dict(layers=layers), arguments),
            **trials.provenance(script, name, arguments, torch)}


if __name__ == "__main__":
    trials.main(__doc__, MODELS, trial, measure)
