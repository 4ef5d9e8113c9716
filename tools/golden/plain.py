# SPDX-License-Identifier: Apache-2.0
"""plain.py -- the language models of the specifications as plain numpy, in double precision, read from a checkpoint.

    config, tensors = plain.load("tests/golden/mamba2_groups2")
    logits = plain.forward(config, tensors, tokens)              # tokens (B, L) -> (B, L, V)
    loss   = plain.loss(logits, tokens)                          # mean over the B*(L-1) predicted positions

It is the second witness beside transformers: written from the equations, the state is walked one position at a time
(no chunks, no associative scan, no cumulative sums), and it shares no line with the library: it reads config.json and
the safetensors files itself. Forward only: gradients are checked against it by finite differences (lm.py)."""
import json
import math
import os
import struct

import numpy as np


# Reading a checkpoint directory ------------------------------------------------------------------------------------

def read_safetensors(path):
    """Every tensor of one file as float64; F32 and BF16 are all that occurs here."""
    with open(path, "rb") as f:
        (size,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(size))
        data = f.read()
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        raw = data[begin:end]
        if entry["dtype"] == "F32":
            values = np.frombuffer(raw, "<f4")
        elif entry["dtype"] == "BF16":                       # the upper half of a float
            values = (np.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4")
        else:
            raise ValueError(f"{path}: {name} is {entry['dtype']}")
        tensors[name] = values.astype(np.float64).reshape(entry["shape"])
    return tensors


def load(directory):
    """(config, {name: float64 array}) of a checkpoint, whole or sharded."""
    with open(os.path.join(directory, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    index = os.path.join(directory, "model.safetensors.index.json")
    if not os.path.exists(index):
        return config, read_safetensors(os.path.join(directory, "model.safetensors"))
    with open(index, encoding="utf-8") as f:
        where = json.load(f)["weight_map"]
    shards = {shard: read_safetensors(os.path.join(directory, shard)) for shard in sorted(set(where.values()))}
    return config, {name: shards[shard][name] for name, shard in where.items()}


def number(value):
    """A number of config.json; an infinite one is written {"__float__": "Infinity"}."""
    return float(value["__float__"]) if isinstance(value, dict) else float(value)


# Elementwise and row-wise pieces -----------------------------------------------------------------------------------

def silu(t):
    return t / (1.0 + np.exp(-t))


def softplus(t):
    return np.where(t > 20.0, t, np.log1p(np.exp(np.minimum(t, 20.0))))


def rmsnorm(x, w, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * w


def gated_rmsnorm(y, z, w, eps, groups):
    """Gate first, then normalise each of `groups` equal runs of channels on its own."""
    q = y * silu(z)
    runs = q.reshape(*q.shape[:-1], groups, -1)
    runs = runs / np.sqrt(np.mean(runs * runs, axis=-1, keepdims=True) + eps)
    return runs.reshape(q.shape) * w


class Layer:
    """The tensors below one prefix: `at("in_proj")` applies a linear layer, `at["D"]` is a tensor."""

    def __init__(self, tensors, prefix):
        self.tensors, self.prefix = tensors, prefix

    def __getitem__(self, name):
        return self.tensors[self.prefix + name]

    def get(self, name):
        return self.tensors.get(self.prefix + name)

    def __call__(self, name, x):
        y = x @ self[name + ".weight"].T
        bias = self.get(name + ".bias")
        return y if bias is None else y + bias


def causal_conv(x, w, bias):
    """x (B, L, C), w (C, 1, K): tap K-1 meets the current position, earlier than 0 is 0."""
    L, K = x.shape[1], w.shape[2]
    a = np.zeros_like(x) if bias is None else np.broadcast_to(bias, x.shape).copy()
    for k in range(K):
        back = K - 1 - k
        if back < L:
            a[:, back:] += w[:, 0, k] * x[:, :L - back]
    return a


def causal_conv_silu(x, w, bias):
    return silu(causal_conv(x, w, bias))


# Mixers ------------------------------------------------------------------------------------------------------------

def mamba1(at, u, inner_norm_eps):
    """`inner_norm_eps` is None, or Jamba's: its RMSNorms on dt, B and C."""
    xz = at("in_proj", u)
    D = xz.shape[-1] // 2
    x, z = xz[..., :D], xz[..., D:]
    x = causal_conv_silu(x, at["conv1d.weight"], at.get("conv1d.bias"))
    R, N = at["dt_proj.weight"].shape[1], at["A_log"].shape[1]
    s = at("x_proj", x)
    dt_low, Bm, C = s[..., :R], s[..., R:R + N], s[..., R + N:]
    if inner_norm_eps is not None:
        dt_low = rmsnorm(dt_low, at["dt_layernorm.weight"], inner_norm_eps)
        Bm = rmsnorm(Bm, at["b_layernorm.weight"], inner_norm_eps)
        C = rmsnorm(C, at["c_layernorm.weight"], inner_norm_eps)
    dt = softplus(dt_low @ at["dt_proj.weight"].T + at["dt_proj.bias"])
    A = -np.exp(at["A_log"])                                                     # (D, N)
    h = np.zeros((u.shape[0], D, N))
    y = np.empty_like(x)
    for t in range(u.shape[1]):
        h = np.exp(dt[:, t, :, None] * A) * h + (dt[:, t] * x[:, t])[:, :, None] * Bm[:, t, None, :]
        y[:, t] = np.einsum("bdn,bn->bd", h, C[:, t])
    return at("out_proj", (y + at["D"] * x) * silu(z))


def mamba2(at, u, P, N, G, norm_groups, limit, eps):
    zxbcdt = at("in_proj", u)
    H = at["A_log"].shape[0]
    D = H * P
    z, xbc, dt = zxbcdt[..., :D], zxbcdt[..., D:2 * D + 2 * G * N], zxbcdt[..., 2 * D + 2 * G * N:]
    xbc = causal_conv_silu(xbc, at["conv1d.weight"], at.get("conv1d.bias"))
    B, L = u.shape[:2]
    x = xbc[..., :D].reshape(B, L, H, P)
    group_of_head = np.arange(H) // (H // G)
    Bm = xbc[..., D:D + G * N].reshape(B, L, G, N)[:, :, group_of_head]
    C = xbc[..., D + G * N:].reshape(B, L, G, N)[:, :, group_of_head]
    dt = np.clip(softplus(dt + at["dt_bias"]), *limit)
    A = -np.exp(at["A_log"])                                                     # (H)
    h = np.zeros((B, H, P, N))
    y = np.empty_like(x)
    for t in range(L):
        add = (dt[:, t, :, None] * x[:, t])[..., None] * Bm[:, t, :, None, :]
        h = np.exp(dt[:, t] * A)[:, :, None, None] * h + add
        y[:, t] = np.einsum("bhpn,bhn->bhp", h, C[:, t])
    y = (y + at["D"][:, None] * x).reshape(B, L, D)
    return at("out_proj", gated_rmsnorm(y, z, at["norm.weight"], eps, norm_groups))


def rotate(v, width, theta):
    """Rotary embedding, halves split, on the first `width` of each head: v (B, L, H, P). An odd width turns one
    more."""
    half = (width + 1) // 2
    angle = np.arange(v.shape[1])[:, None] * theta ** (-2.0 * np.arange(half) / width)       # (L, half)
    cos, sin = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
    a, b, rest = v[..., :half], v[..., half:2 * half], v[..., 2 * half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, rest], axis=-1)


def attention(at, u, heads, kv_heads, rotary_factor, theta):
    q, k, v = (at(f"{name}_proj", u) for name in "qkv")
    return at("o_proj", attend(q, k, v, heads, kv_heads, int(q.shape[-1] // heads * rotary_factor), theta))


def attend(q, k, v, heads, kv_heads, width, theta):
    """q, k and v (B, L, heads * P) as projections give them; the first `width` of each head turn."""
    B, L = q.shape[:2]
    q, k, v = q.reshape(B, L, heads, -1), k.reshape(B, L, kv_heads, -1), v.reshape(B, L, kv_heads, -1)
    P = q.shape[-1]
    if width:
        q, k = rotate(q, width, theta), rotate(k, width, theta)
    out = np.empty_like(q)
    for i in range(heads):
        key, value = k[:, :, i // (heads // kv_heads)], v[:, :, i // (heads // kv_heads)]
        for t in range(L):
            score = np.einsum("bp,bsp->bs", q[:, t, i], key[:, :t + 1]) / math.sqrt(P)
            p = np.exp(score - score.max(axis=1, keepdims=True))
            out[:, t, i] = np.einsum("bs,bsp->bp", p / p.sum(axis=1, keepdims=True), value[:, :t + 1])
    return out.reshape(B, L, heads * P)


def swiglu(at, u):
    return at("down_proj", silu(at("gate_proj", u)) * at("up_proj", u))


def relu2(at, u):
    return at("down_proj", np.maximum(at("up_proj", u), 0.0) ** 2)


# Whole models: every branch is (norm weight, function of the normed stream) -----------------------------------------

def branches_mamba(c, tensors):
    for i in range(c["num_hidden_layers"]):
        p = f"backbone.layers.{i}."
        yield p + "norm.weight", lambda u, p=p: mamba1(Layer(tensors, p + "mixer."), u, None)


def branches_mamba2(c, tensors):
    limit = [number(v) for v in c["time_step_limit"]]
    for i in range(c["num_hidden_layers"]):
        p = f"backbone.layers.{i}."
        yield p + "norm.weight", lambda u, p=p: mamba2(
            Layer(tensors, p + "mixer."), u, c["head_dim"], c["state_size"], c["n_groups"],
            c["n_groups"], limit, c["layer_norm_epsilon"])


def branches_nemotron_h(c, tensors):
    limit = [number(v) for v in c["time_step_limit"]]
    if limit == [0, np.inf]:
        limit[0] = c["time_step_min"]                    # as transformers' class has it; NVIDIA's has no such bound
    mixers = {
        "linear_attention": lambda at, u: mamba2(at, u, c["mamba_head_dim"], c["ssm_state_size"], c["n_groups"],
                                                 c["n_groups"], limit, c["layer_norm_epsilon"]),
        "full_attention": lambda at, u: attention(at, u, c["num_attention_heads"], c["num_key_value_heads"], 0.0, 1.0),
        "mlp": relu2,
    }
    for i, kind in enumerate(c["layers_block_type"]):
        p = f"backbone.layers.{i}."
        yield p + "norm.weight", lambda u, p=p, kind=kind: mixers[kind](Layer(tensors, p + "mixer."), u)


def branches_bamba(c, tensors):
    limit, rope = [number(v) for v in c["time_step_limit"]], c["rope_parameters"]
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        if i in (c["attn_layer_indices"] or []):
            yield p + "input_layernorm.weight", lambda u, p=p: attention(
                Layer(tensors, p + "self_attn."), u, c["num_attention_heads"], c["num_key_value_heads"],
                rope["partial_rotary_factor"], rope["rope_theta"])
        else:
            yield p + "input_layernorm.weight", lambda u, p=p: mamba2(
                Layer(tensors, p + "mamba."), u, c["mamba_d_head"], c["mamba_d_state"], c["mamba_n_groups"],
                c["mamba_n_groups"], limit, c["rms_norm_eps"])
        yield p + "pre_ff_layernorm.weight", lambda u, p=p: swiglu(Layer(tensors, p + "feed_forward."), u)


def branches_jamba(c, tensors):
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        if i % c["attn_layer_period"] == c["attn_layer_offset"]:
            yield p + "input_layernorm.weight", lambda u, p=p: attention(
                Layer(tensors, p + "self_attn."), u, c["num_attention_heads"], c["num_key_value_heads"], 0.0, 1.0)
        else:
            yield p + "input_layernorm.weight", lambda u, p=p: mamba1(
                Layer(tensors, p + "mamba."), u, c["rms_norm_eps"])
        yield p + "pre_ff_layernorm.weight", lambda u, p=p: swiglu(Layer(tensors, p + "feed_forward."), u)


def native_attention(at, u, c):
    """mamba_ssm's MHA: one projection, and a convolution without activation behind it."""
    heads, kv_heads = c["num_heads"], c.get("num_heads_kv", c["num_heads"])
    qkv = at("in_proj", u)
    if c.get("d_conv"):
        qkv = causal_conv(qkv, at["conv1d.weight"], at["conv1d.bias"])
    P = qkv.shape[-1] // (heads + 2 * kv_heads)
    q, k, v = np.split(qkv, [heads * P, (heads + kv_heads) * P], axis=-1)
    return at("out_proj", attend(q, k, v, heads, kv_heads, c.get("rotary_emb_dim", 0), c.get("rotary_emb_base", 1e4)))


def native_mlp(at, u):
    value, gate = np.split(at("fc1", u), 2, axis=-1)
    return at("fc2", value * silu(gate))


def branches_mamba_ssm(c, tensors):
    s = c["ssm_cfg"]
    for i in range(c["n_layer"]):
        p = f"backbone.layers.{i}."
        if i in c["attn_layer_idx"]:
            mixer = lambda at, u: native_attention(at, u, c["attn_cfg"])
        elif s.get("layer") == "Mamba2":
            mixer = lambda at, u: mamba2(at, u, s["headdim"], s["d_state"], s["ngroups"], s["ngroups"], [0, np.inf],
                                         1e-5)
        else:
            mixer = lambda at, u: mamba1(at, u, None)
        yield p + "norm.weight", lambda u, p=p, mixer=mixer: mixer(Layer(tensors, p + "mixer."), u)
        if c["d_intermediate"]:
            yield p + "norm2.weight", lambda u, p=p: native_mlp(Layer(tensors, p + "mlp."), u)


# model_type: branches, embedding, last norm
FAMILIES = {
    "mamba": (branches_mamba, "backbone.embeddings.weight", "backbone.norm_f.weight"),
    "mamba2": (branches_mamba2, "backbone.embeddings.weight", "backbone.norm_f.weight"),
    "nemotron_h": (branches_nemotron_h, "backbone.embeddings.weight", "backbone.norm_f.weight"),
    "bamba": (branches_bamba, "model.embed_tokens.weight", "model.final_layernorm.weight"),
    "jamba": (branches_jamba, "model.embed_tokens.weight", "model.final_layernorm.weight"),
    # names no type in its file
    "mamba_ssm": (branches_mamba_ssm, "backbone.embedding.weight", "backbone.norm_f.weight"),
}


def forward(config, tensors, tokens):
    branches, embedding, last_norm = FAMILIES[config.get("model_type", "mamba_ssm")]
    eps = config["layer_norm_epsilon"] if "layer_norm_epsilon" in config else config.get("rms_norm_eps", 1e-5)
    stream = tensors[embedding][tokens]
    for norm, branch in branches(config, tensors):
        stream = stream + branch(rmsnorm(stream, tensors[norm], eps))
    head = tensors.get("lm_head.weight", tensors[embedding])            # absent when tied
    return rmsnorm(stream, tensors[last_norm], eps) @ head.T


def loss(logits, tokens):
    z = logits[:, :-1]
    top = z.max(axis=-1, keepdims=True)
    lse = top[..., 0] + np.log(np.exp(z - top).sum(axis=-1))
    hit = np.take_along_axis(z, tokens[:, 1:, None], axis=-1)[..., 0]
    return float(np.mean(lse - hit))
