#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""graphmamba.py -- Graph-Mamba in plain PyTorch, written from the equations: the yardstick for our own.

    model  = GraphMamba(**PRESETS["peptides-func"])
    orders = [draw_order(batch, model.order, generator) for _ in model.layers]
    logits = model(batch, orders)                            (N or G, outputs)
    loss   = LOSSES[config["loss"]](logits, batch.labels)

    python3 tools/golden/graphmamba.py                       checks: sizes, reference vectors, both forms, gradients

A batch is the disjoint union of its graphs (Batch). The node order of every layer comes from outside: an Order, or a
list of them whose branch outputs are averaged (what evaluation does with five). form="packed" walks all nodes as one
array and starts anew at every segment; form="padded" makes the zero-padded tensor of the original definition. They are
the same."""
import dataclasses
import math

import torch
from torch import nn
from torch.nn import functional as F

import pieces
import plain

STATES, TAPS = 16, 4
ATOM_ROWS = [119, 5, 12, 12, 10, 6, 6, 2, 2]
BOND_ROWS = [5, 6, 2]


# Batches and orders ------------------------------------------------------------------------------------------------

@dataclasses.dataclass
class Batch:
    graph: torch.Tensor                          # (N) the graph of each node, non-decreasing
    src: torch.Tensor                            # (E) node numbers in the union; messages flow from src to dst
    dst: torch.Tensor
    nodes: torch.Tensor                          # (N, F) features, float or int64
    edges: torch.Tensor = None                   # (E, F) likewise; None where every edge has the same learned vector
    lap_vectors: torch.Tensor = None             # (N, K), NaN = missing
    lap_values: torch.Tensor = None              # (N, K), the graph's values repeated for each of its nodes
    lap_signs: torch.Tensor = None               # (K) +1 or -1, drawn once per training step; None: none
    walks: torch.Tensor = None                   # (N, K) return probabilities
    labels: torch.Tensor = None

    @property
    def graphs(self):
        return int(self.graph.max()) + 1

    def to(self, kind):
        """The same with its real numbers in another precision."""
        return Batch(**{k: v.to(kind) if v is not None and v.is_floating_point() else v for k, v in vars(self).items()})


@dataclasses.dataclass
class Order:
    perm: torch.Tensor                           # (N) perm[r] is the node at position r
    segment: torch.Tensor                        # (N) number of the segment position r lies in: 0, 0, .. 1, 1, ..

    def __post_init__(self):
        self.lengths = torch.bincount(self.segment)
        self.starts = torch.cumsum(self.lengths, 0) - self.lengths
        self.place = torch.arange(len(self.perm)) - self.starts[self.segment]        # position inside its segment


def draw_order(batch, kind, generator):
    """One order of a layer and pass: `kind` as the released configurations name it."""
    N = len(batch.graph)
    bucket = torch.zeros(N, dtype=torch.int64)
    degree = torch.bincount(batch.src, minlength=N).double()
    noise = torch.rand(N, dtype=torch.float64, generator=generator)
    if kind == "Mamba_Hybrid_Degree_Noise_Bucket":
        bucket = torch.randint(0, 3, (N,), generator=generator)
    key = {"Mamba": torch.zeros(N), "Mamba_Permute": noise, "Mamba_Hybrid": noise, "Mamba_Degree": degree,
           "Mamba_Hybrid_Degree_Noise": degree + noise, "Mamba_Hybrid_Degree_Noise_Bucket": degree + noise}[kind]
    run = bucket * batch.graphs + batch.graph
    perm = torch.argsort(key, stable=True)
    perm = perm[torch.argsort(run[perm], stable=True)]
    return Order(perm, torch.unique_consecutive(run[perm], return_inverse=True)[1])


# The GPS layer -----------------------------------------------------------------------------------------------------

class GatedGCN(nn.Module):
    def __init__(self, H, dropout=0.0):
        super().__init__()
        self.dropout = dropout
        self.A, self.B, self.C, self.D, self.E = (nn.Linear(H, H) for _ in range(5))
        self.bn_node_x = nn.BatchNorm1d(H)
        self.bn_edge_e = nn.BatchNorm1d(H)

    def forward(self, h, e, src, dst):
        eh = self.D(h).index_select(0, dst) + self.E(h).index_select(0, src) + self.C(e)
        gate = torch.sigmoid(eh)
        zero = torch.zeros_like(h)
        num = zero.index_add(0, dst, gate * self.B(h).index_select(0, src))
        den = zero.index_add(0, dst, gate)
        xt = self.A(h) + num / (den + 1e-6)
        hl = h + F.dropout(F.relu(self.bn_node_x(xt)), self.dropout, self.training)
        return hl, e + F.dropout(F.relu(self.bn_edge_e(eh)), self.dropout, self.training)


def scan_packed(u, step, A, B, C, D, order):
    """pieces.scan on rows (N, H) that are segments one after the other: one row at a time, the state starts at 0 in
    each segment."""
    state, y = u.new_zeros(A.shape), []
    for r in range(len(u)):
        if order.place[r] == 0:
            state = torch.zeros_like(state)
        state = torch.exp(step[r, :, None] * A) * state + (step[r] * u[r])[:, None] * B[r]
        y.append(state @ C[r] + D * u[r])
    return torch.stack(y)


class Mamba(nn.Module):
    """The Mamba block at expansion 1; causal, so that zeros after the end of a sequence change nothing."""

    def __init__(self, H, scan=scan_packed):
        super().__init__()
        self.rank, self.scan = math.ceil(H / 16), scan
        self.A_log = nn.Parameter(torch.log(torch.arange(1.0, STATES + 1)).repeat(H, 1))
        self.D = nn.Parameter(torch.ones(H))
        self.in_proj = nn.Linear(H, 2 * H, bias=False)
        self.conv1d = nn.Conv1d(H, H, TAPS, groups=H)
        self.x_proj = nn.Linear(H, self.rank + 2 * STATES, bias=False)
        self.dt_proj = nn.Linear(self.rank, H)
        self.out_proj = nn.Linear(H, H, bias=False)

    def packed(self, x, order):
        """x (N, H), ordered. Neither the convolution nor the state reaches across the start of a segment."""
        px, z = self.in_proj(x).chunk(2, -1)
        c = self.conv1d.bias
        for k in range(TAPS):
            back = TAPS - 1 - k
            tap = F.pad(px, (0, 0, back, 0))[:len(px)]                               # px[t - back]
            c = c + self.conv1d.weight[:, 0, k] * tap * (order.place >= back)[:, None]
        return self.finish(F.silu(c), z, lambda *a: self.scan(*a, order))

    def padded(self, x):
        """x (sequences, length, H)."""
        px, z = self.in_proj(x).chunk(2, -1)
        c = self.conv1d(F.pad(px.transpose(1, 2), (TAPS - 1, 0))).transpose(1, 2)
        return self.finish(F.silu(c), z, pieces.scan)

    def finish(self, u, z, scan):
        r, B, C = self.x_proj(u).split([self.rank, STATES, STATES], -1)
        step = F.softplus(self.dt_proj(r))                                           # the bias enters once
        return self.out_proj(scan(u, step, -torch.exp(self.A_log), B, C, self.D) * F.silu(z))

    def forward(self, h, order, form):
        x = h.index_select(0, order.perm)
        if form == "packed":
            out = self.packed(x, order)
        else:
            dense = x.new_zeros(len(order.lengths), int(order.lengths.max()), x.shape[1])
            dense = dense.index_put((order.segment, order.place), x)
            out = self.padded(dense)[order.segment, order.place]
        return torch.zeros_like(h).index_copy(0, order.perm, out)


class GPSLayer(nn.Module):
    def __init__(self, H, dropout, scan):
        super().__init__()
        self.dropout = dropout
        self.local_model = GatedGCN(H, dropout)
        self.self_attn = Mamba(H, scan)
        self.norm1_local = nn.BatchNorm1d(H)
        self.norm1_attn = nn.BatchNorm1d(H)
        self.ff_linear1 = nn.Linear(H, 2 * H)
        self.ff_linear2 = nn.Linear(2 * H, H)
        self.norm2 = nn.BatchNorm1d(H)

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training)

    def forward(self, h, e, batch, orders, form):
        hl, e = self.local_model(h, e, batch.src, batch.dst)
        mixed = sum(self.self_attn(h, order, form) for order in orders) / len(orders)
        s = self.norm1_local(hl) + self.norm1_attn(h + self.drop(mixed))
        f = self.drop(self.ff_linear2(self.drop(F.relu(self.ff_linear1(s)))))
        return self.norm2(s + f), e


# Encoders and heads ------------------------------------------------------------------------------------------------

def module(**children):
    """Modules under names, for the sake of the published ones."""
    m = nn.Module()
    for name, child in children.items():
        setattr(m, name, child)
    return m


def embeddings(rows, width):
    return nn.ModuleList(nn.Embedding(n, width) for n in rows)


def embed_sum(tables, index):
    return sum(table(index[:, i]) for i, table in enumerate(tables))


def l2_rows(x):
    return x / x.norm(dim=-1, keepdim=True).clamp_min(1e-12)


class LapPE(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.linear_A = nn.Linear(2, 2 * p)
        self.pe_encoder = nn.Sequential(nn.ReLU(), nn.Linear(2 * p, p), nn.ReLU())

    def forward(self, batch):
        phi = batch.lap_vectors if batch.lap_signs is None else batch.lap_vectors * batch.lap_signs
        pairs = torch.stack([phi, batch.lap_values], -1)                             # (N, K, 2)
        missing = pairs.isnan().any(-1, keepdim=True)
        c = self.pe_encoder(self.linear_A(pairs.masked_fill(missing, 0.0)))
        return c.masked_fill(missing, 0.0).sum(1)


class RWSE(nn.Module):
    def __init__(self, K, p):
        super().__init__()
        self.raw_norm = nn.BatchNorm1d(K)
        self.pe_encoder = nn.Linear(K, p)

    def forward(self, batch):
        return self.pe_encoder(self.raw_norm(batch.walks))


class GeneralLayer(nn.Module):
    """Linear, (BatchNorm,) ReLU, rows to length one: pre-layers and hidden layers of heads."""

    def __init__(self, H, norm):
        super().__init__()
        self.layer = module(model=nn.Linear(H, H, bias=not norm))
        self.post_layer = nn.Sequential(nn.BatchNorm1d(H), nn.ReLU()) if norm else nn.ReLU()

    def forward(self, x):
        return l2_rows(self.post_layer(self.layer.model(x)))


class Layers(nn.Module):
    def __init__(self, count, H, norm):
        super().__init__()
        for i in range(count):
            setattr(self, f"Layer_{i}", GeneralLayer(H, norm))

    def forward(self, x):
        for layer in self.children():
            x = layer(x)
        return x


def pool(h, batch, kind):
    if kind == "mean":
        count = torch.bincount(batch.graph)[:, None]
        return h.new_zeros(batch.graphs, h.shape[1]).index_add(0, batch.graph, h) / count
    return torch.stack([part.max(0).values for part in h.split(torch.bincount(batch.graph).tolist())])


class GraphMamba(nn.Module):
    """node_encoder: "linear" (features alone), "linear+lap", "atom+lap" (tables), "lap" (linear as well, other names),
    "linear+rw" (random walks of rw_k steps, in lap_width channels).
    edge_encoder: "linear", "bond" (tables), "one" (a single vector). pooling: "mean", "max", None (a node task)."""

    def __init__(self, hidden, layers, order, node_encoder, node_width, edge_encoder, edge_width, lap_width, node_norm,
                 pre_layers, head_layers, pooling, outputs, dropout=0.0, scan=scan_packed, rw_k=0, **_):
        super().__init__()
        self.order, self.pooling, self.node_encoder, self.edge_encoder = order, pooling, node_encoder, edge_encoder
        self.encoder = nn.Module()
        width = hidden - lap_width
        if node_encoder == "linear":
            self.encoder.node_encoder = module(encoder=nn.Linear(node_width, width))
        elif node_encoder == "lap":
            self.encoder.node_encoder = LapPE(lap_width)
            self.encoder.node_encoder.linear_x = nn.Linear(node_width, width)
        else:
            first = module(atom_embedding_list=embeddings(ATOM_ROWS, width)) if node_encoder == "atom+lap" else \
                module(encoder=nn.Linear(node_width, width))
            second = RWSE(rw_k, lap_width) if rw_k else LapPE(lap_width)
            self.encoder.node_encoder = module(encoder1=first, encoder2=second)
        self.encoder.node_encoder_bn = module(bn=nn.BatchNorm1d(hidden)) if node_norm else None
        if edge_encoder == "bond":
            self.encoder.edge_encoder = module(bond_embedding_list=embeddings(BOND_ROWS, hidden))
        elif edge_encoder == "linear":
            self.encoder.edge_encoder = module(encoder=nn.Linear(edge_width, hidden))
        else:
            self.encoder.edge_encoder = module(encoder=nn.Embedding(1, hidden))
        self.pre_mp = Layers(pre_layers, hidden, True)
        self.layers = nn.ModuleList(GPSLayer(hidden, dropout, scan) for _ in range(layers))
        hidden_head = [Layers(head_layers - 1, hidden, False)] if head_layers > 1 else []
        self.post_mp = module(layer_post_mp=module(model=nn.Sequential(
            *hidden_head, module(model=nn.Linear(hidden, outputs)))))

    def encode_nodes(self, batch):
        at = self.encoder.node_encoder
        if self.node_encoder == "linear":
            h = at.encoder(batch.nodes)
        elif self.node_encoder == "lap":
            h = torch.cat([at.linear_x(batch.nodes), at(batch)], -1)
        elif self.node_encoder in ("linear+lap", "linear+rw"):
            h = torch.cat([at.encoder1.encoder(batch.nodes), at.encoder2(batch)], -1)
        else:
            h = torch.cat([embed_sum(at.encoder1.atom_embedding_list, batch.nodes), at.encoder2(batch)], -1)
        return h if self.encoder.node_encoder_bn is None else self.encoder.node_encoder_bn.bn(h)

    def encode_edges(self, batch):
        at = self.encoder.edge_encoder
        if self.edge_encoder == "bond":
            return embed_sum(at.bond_embedding_list, batch.edges)
        return at.encoder(batch.edges if self.edge_encoder == "linear" else torch.zeros_like(batch.src))

    def forward(self, batch, orders, form="packed"):
        h, e = self.pre_mp(self.encode_nodes(batch)), self.encode_edges(batch)
        for layer, order in zip(self.layers, orders, strict=True):
            h, e = layer(h, e, batch, order if isinstance(order, list) else [order], form)
        if self.pooling:
            h = pool(h, batch, self.pooling)
        *hidden, last = self.post_mp.layer_post_mp.model
        for layer in hidden:
            h = layer(h)
        return last.model(h)

    @torch.no_grad()
    def initialise(self):
        for m in self.modules():
            if isinstance(m, nn.Linear):
                for p in m.parameters():
                    p.uniform_(-m.in_features ** -0.5, m.in_features ** -0.5)
            elif isinstance(m, nn.Embedding):
                bound = math.sqrt(6 / sum(m.weight.shape))
                m.weight.normal_() if len(m.weight) == 1 else m.weight.uniform_(-bound, bound)
            elif isinstance(m, Mamba):
                for p in m.conv1d.parameters():
                    p.uniform_(-0.5, 0.5)
        for layer in self.layers:                                                    # after the linears: W_dt differs
            dt = layer.self_attn.dt_proj
            dt.weight.uniform_(-layer.self_attn.rank ** -0.5, layer.self_attn.rank ** -0.5)
            s = torch.exp(torch.rand_like(dt.bias) * math.log(100) + math.log(0.001)).clamp_min(1e-4)
            dt.bias.copy_(s + torch.log(-torch.expm1(-s)))
        return self


# Losses ------------------------------------------------------------------------------------------------------------

def class_weights(labels, classes):
    count = torch.bincount(labels, minlength=classes).double()
    return torch.where(count > 0, (len(labels) - count) / len(labels), 0.0)


def weighted_cross_entropy(y, t):
    w = class_weights(t, y.shape[1]).to(y)[t]
    return (w * -torch.log_softmax(y, -1).gather(1, t[:, None])[:, 0]).sum() / w.sum()


def weighted_bce(y, t):
    w = class_weights(t, 2).to(y)[t]
    return (w * F.binary_cross_entropy_with_logits(y[:, 0], t.to(y), reduction="none")).mean()


def bce(y, t):
    known = ~t.isnan()
    return F.binary_cross_entropy_with_logits(y[known], t[known].to(y))


LOSSES = {"weighted_cross_entropy": weighted_cross_entropy, "weighted_bce": weighted_bce, "bce": bce,
          "cross_entropy": F.cross_entropy, "l1": F.l1_loss}


# Presets -----------------------------------------------------------------------------------------------------------

NOISE, BUCKET = "Mamba_Hybrid_Degree_Noise", "Mamba_Hybrid_Degree_Noise_Bucket"


def preset(hidden, layers, order, nodes, edges, lap, head_layers, pooling, outputs, loss, **rest):
    """nodes, edges: encoder and feature width; lap: number of eigenvectors and width of their encoding."""
    return dict(hidden=hidden, layers=layers, order=order, node_encoder=nodes[0], node_width=nodes[1],
                edge_encoder=edges[0], edge_width=edges[1], lap_k=lap[0], lap_width=lap[1], node_norm=False,
                pre_layers=0, head_layers=head_layers, pooling=pooling, outputs=outputs, loss=loss, dropout=0.0) | rest


PRESETS = {
    "voc": preset(96, 4, BUCKET, ("linear+lap", 14), ("linear", 2), (10, 16), 3, None, 21, "weighted_cross_entropy"),
    "coco": preset(96, 4, BUCKET, ("linear+lap", 14), ("linear", 2), (10, 16), 3, None, 81, "weighted_cross_entropy"),
    "peptides-func": preset(96, 3, NOISE, ("atom+lap", 9), ("bond", 3), (10, 16), 1, "mean", 10, "bce"),
    "peptides-func-4": preset(96, 4, NOISE, ("atom+lap", 9), ("bond", 3), (10, 16), 1, "mean", 10, "bce"),
    "peptides-struct": preset(96, 4, NOISE, ("atom+lap", 9), ("bond", 3), (10, 16), 1, "mean", 11, "l1"),
    "mnist": preset(52, 3, NOISE, ("lap", 3), ("linear", 1), (8, 8), 3, "mean", 10, "cross_entropy"),
    "cifar10": preset(52, 3, NOISE, ("lap", 5), ("linear", 1), (8, 8), 2, "mean", 10, "cross_entropy"),
    "pattern": preset(64, 6, NOISE, ("lap", 3), ("one", 0), (16, 16), 3, None, 1, "weighted_bce"),
    "cluster": preset(48, 16, NOISE, ("lap", 7), ("one", 0), (10, 16), 3, None, 6, "weighted_cross_entropy",
                      dropout=0.1),
    "malnet": preset(64, 5, BUCKET, ("linear", 5), ("one", 0), (0, 0), 3, "max", 5, "cross_entropy", node_norm=True,
                     pre_layers=1),
}


# Checks ------------------------------------------------------------------------------------------------------------

PARAMETERS = {"voc": 497781, "coco": 503601, "peptides-func": 373018, "peptides-func-4": 491770,
              "peptides-struct": 491867, "mnist": 116486, "cifar10": 113818, "pattern": 335281, "cluster": 508966,
              "malnet": 285125}
PER_LAYER = {96: 118752, 64: 54336, 52: 36660, 48: 31440}


def check_sizes():
    for name, config in PRESETS.items():
        with torch.device("meta"):
            model = GraphMamba(**config)
        assert sum(p.numel() for p in model.parameters()) == PARAMETERS[name], name
        assert sum(p.numel() for p in model.layers[0].parameters()) == PER_LAYER[config["hidden"]], name
    print(f"sizes: {len(PRESETS)} presets as specified")


def check_gcn():
    """Section 13 of the specification: 5 nodes, 8 edges, width 3."""
    edges = torch.tensor([(0, 1), (1, 0), (1, 2), (2, 1), (3, 2), (2, 3), (3, 4), (0, 3)])
    values = pieces.filled((5, 3), (8, 3), *[(3, 3), (3,)] * 5, (5, 3), (8, 3))
    h, e = next(values).requires_grad_(), next(values).requires_grad_()
    gcn = GatedGCN(3).double()
    for linear in (gcn.A, gcn.B, gcn.C, gcn.D, gcn.E):
        linear.weight.data, linear.bias.data = next(values), next(values)
    hl, e2 = gcn(h, e, edges[:, 0], edges[:, 1])
    ((hl * next(values)).sum() + (e2 * next(values)).sum()).backward()

    def sums(x):
        return torch.stack([x.sum(), (x * x).sum()])

    pieces.near("hl[0]", hl[0], [0.244566777, 0.113868400, -0.788437152])
    pieces.near("hl[4]", hl[4], [-0.666704439, 1.902181891, 0.196049030])
    pieces.near("hl", sums(hl), [2.740504563, 7.749066951])
    pieces.near("e'[0]", e2[0], [1.985559702, -0.047149112, -0.991839349])
    pieces.near("e'", sums(e2), [11.380021771, 26.183888875])
    pieces.near("gh[0]", h.grad[0], [-0.125678475, -0.436389590, -1.324151296])
    pieces.near("gh", sums(h.grad), [3.590813717, 18.088220213])
    pieces.near("ge[0]", e.grad[0], [0.147807655, -0.328377854, 0.827971129])
    pieces.near("ge", sums(e.grad), [-1.461272191, 23.242413560])
    wanted = {"A": [-1.371932457, -0.160925922, 1.536710566, 0.978608335],
              "B": [0.619068203, 0.991844551, -2.608544598, 1.536634944],
              "C": [-0.682668725, -0.369083175, -0.819191107, -3.599120959],
              "D": [-0.761416537, 0.196662015, 1.108181178, 0.085685653],
              "E": [0.418711570, 1.457453625, -1.083173945, -1.711776953]}
    for name, row in wanted.items():
        g = getattr(gcn, name).weight.grad
        pieces.near(f"gW_{name}", torch.cat([g[0], g.sum()[None]]), row)
    print("gated gcn: reference vectors met to all digits")


def check_mamba():
    """The packed block against the numpy Mamba of plain.py, sequence by sequence."""
    H, sizes = 20, [5, 1, 9, 3]
    torch.manual_seed(3)
    block, x = Mamba(H).double(), torch.randn(sum(sizes), H, dtype=torch.float64)
    with torch.no_grad():
        for p in block.parameters():
            p.add_(torch.randn_like(p) * 0.3)
        segment = torch.repeat_interleave(torch.tensor(sizes))
        out = block.packed(x, Order(torch.arange(len(x)), segment))
    at = plain.Layer({k: v.numpy() for k, v in block.state_dict().items()}, "")
    wanted = [plain.mamba1(at, part.numpy()[None], None)[0] for part in x.split(sizes)]
    off = max((have - torch.from_numpy(want)).abs().max().item() for have, want in zip(out.split(sizes), wanted))
    print(f"mamba: the block of plain.py agrees to {off:.0e}")
    assert off < 1e-12


def random_batch(config, sizes, generator):
    """Graphs of these sizes with random edges, features and labels; the last node of each has none."""
    def rand(*shape):
        return torch.randn(shape, dtype=torch.float64, generator=generator)

    def below(rows, count):
        return torch.stack([torch.randint(0, n, (count,), generator=generator) for n in rows], 1)

    graph = torch.repeat_interleave(torch.tensor(sizes))
    ends = [torch.randint(0, n - 1, (3 * n, 2), generator=generator) + sum(sizes[:g])
            for g, n in enumerate(sizes) if n > 1]
    src, dst = torch.cat(ends).T
    N, E, K = len(graph), len(src), config["lap_k"]
    lap = {}
    if K:
        missing = torch.arange(K) >= torch.tensor(sizes)[graph][:, None]
        lap = dict(lap_vectors=rand(N, K).masked_fill(missing, math.nan), lap_signs=torch.sign(rand(K)),
                   lap_values=rand(len(sizes), K)[graph].abs().masked_fill(missing, math.nan))
    nodes = below(ATOM_ROWS, N) if config["node_encoder"] == "atom+lap" else rand(N, config["node_width"])
    edges = {"bond": lambda: below(BOND_ROWS, E), "linear": lambda: rand(E, config["edge_width"]),
             "one": lambda: None}[config["edge_encoder"]]()
    rows = len(sizes) if config["pooling"] else N
    labels = {"bce": lambda: (rand(rows, config["outputs"]) > 0).double(), "l1": lambda: rand(rows, config["outputs"]),
              "weighted_bce": lambda: below([2], rows)[:, 0]}.get(
                  config["loss"], lambda: below([config["outputs"]], rows)[:, 0])()
    return Batch(graph, src, dst, nodes, edges, labels=labels, **lap)


def check_networks():
    """Every preset, made small: packed and padded agree, and autograd agrees with differences."""
    for name in ("voc", "peptides-func", "mnist", "pattern", "malnet"):
        config = PRESETS[name] | dict(hidden=12, layers=2, lap_width=4 if PRESETS[name]["lap_k"] else 0)
        generator = torch.Generator().manual_seed(7)
        torch.manual_seed(11)
        model = GraphMamba(**config).double().initialise()
        batch = random_batch(config, [6, 1, 9, 3], generator)
        if name == "peptides-func":
            batch.labels[1, 2] = math.nan
        with torch.no_grad():
            for p in model.parameters():
                p.add_(torch.randn(p.shape, dtype=p.dtype, generator=generator) * 0.1)
        orders = [[draw_order(batch, model.order, generator) for _ in range(2)] for _ in model.layers]

        def loss(form="packed"):
            return LOSSES[config["loss"]](model(batch, orders, form), batch.labels)

        tensors = dict(model.named_parameters())
        a, b = (torch.autograd.grad(loss(form), list(tensors.values()), allow_unused=True)
                for form in ("packed", "padded"))
        differ = max((x - y).abs().max().item() for x, y in zip(a, b) if x is not None)
        unused = [n for n, g in zip(tensors, a) if g is None]
        assert all(n.startswith("layers.1.local_model.bn_edge_e.") for n in unused), unused
        differ = max(differ, abs(loss().item() - loss("padded").item()))
        off, worst = pieces.gradient_error(loss, tensors)
        print(f"{name}: packed and padded differ by {differ:.0e}, autograd and differences by {off:.0e} ({worst})")
        assert differ < 1e-12 and off < 1e-6


if __name__ == "__main__":
    torch.set_num_threads(1)
    check_sizes()
    check_gcn()
    check_mamba()
    check_networks()
