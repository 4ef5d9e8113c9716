# SPDX-License-Identifier: Apache-2.0
"""functions -- what mamba_ssm and causal_conv1d offer, with their arguments. They raise NotImplementedError for what
ours cannot do, and ValueError for what nobody can."""
import torch
import torch.nn.functional as F

from .layers import CONVOLUTION, GATED, MIXER, call_layer
from .native import SCAN, SSD
from .operands import (as_kind, check_ids, check_negative, check_shape, kernel_type, require, steps_for, unsupported)
from .operators import call_operator, wants

NO_LIMIT = (0.0, float("inf"))


class _Gate(torch.autograd.Function):
    """y silu(z), each result rounded once: PyTorch would round silu(z) too, and keep it."""

    @staticmethod
    def forward(ctx, y, z):
        ctx.save_for_backward(y, z)
        return (y.float() * F.silu(z.float())).to(y.dtype)

    @staticmethod
    def backward(ctx, dout):
        y, z = ctx.saved_tensors
        dout, wide = dout.float(), z.float()
        slope = torch.sigmoid(wide)
        gate = wide * slope
        return (dout * gate).to(y.dtype), (dout * y.float() * (slope + gate * (1 - slope))).to(z.dtype)


def mamba_chunk_scan_combined(x, dt, A, B, C, chunk_size, D=None, z=None, dt_bias=None, initial_states=None,
                              seq_idx=None, cu_seqlens=None, dt_softplus=False, dt_limit=NO_LIMIT,
                              return_final_states=False, return_varlen_states=False, state_dtype=None, variant=""):
    """x (B, L, H, P), dt (B, L, H), A (H), B and C (B, L, G, N) -> y, or (y, final states) in float32.

    The chunk only moves roundings. z gates y behind the kernel. The first token takes initial_states, whatever its
    seq_idx. variant: kernels by name, which refuse what they do not take; "chunked" has gradients of dt, A and dt_bias
    nearer to float64, and takes longer (default: the first that takes the shape)."""
    unsupported(return_varlen_states, "states at the ends of documents (return_varlen_states)")
    unsupported(cu_seqlens is not None and seq_idx is None, "cu_seqlens without seq_idx; documents are told by seq_idx")
    unsupported(state_dtype not in (None, torch.float32), lambda: f"states of type {state_dtype}; they are float32")
    require(x.dim() == 4 and B.dim() == 4, "x is (B, L, H, P) and B is (B, L, G, N)")
    (batch, length, heads, width), (groups, state) = x.shape, B.shape[2:]
    require(heads % groups == 0, lambda: f"{heads} heads do not share {groups} groups")
    for name, t, shape in (("dt", dt, (batch, length, heads)), ("A", A, (heads,)), ("z", z, x.shape),
                           ("B", B, (batch, length, groups, state)), ("C", C, B.shape), ("dt_bias", dt_bias, (heads,)),
                           ("initial_states", initial_states, (batch, heads, width, state)),
                           ("D", D, (heads,) if D is None or D.dim() == 1 else (heads, width))):
        check_shape(name, t, shape)
    check_ids(seq_idx, (batch, length))
    check_negative(A)
    require(dt_limit[1] > 0, lambda: f"dt_limit is {tuple(dt_limit)}; no step lies below an upper limit of 0")
    kind, given_type = kernel_type(x), x.dtype
    dt, dt_bias = steps_for(dt, dt_bias, dt_softplus, kind, 2)
    x, B, C, z, dt = as_kind(kind, x.device, x=x, B=B, C=C, z=z, dt=dt)
    y, final = call_operator(SSD, [x, dt, B, C, None, A, D, dt_bias, seq_idx, initial_states],
                             bool(return_final_states), chunk=int(chunk_size), dt_min=float(dt_limit[0]),
                             dt_max=float(dt_limit[1]), variant=variant)
    if z is not None:
        y = _Gate.apply(y, z)
    y = y.to(given_type)
    return (y, final) if return_final_states else y


def selective_scan_fn(u, delta, A, B, C, D=None, z=None, delta_bias=None, delta_softplus=False,
                      return_last_state=False):
    """u, delta, z (B, D, L), A (D, N), B and C (B, N, L) or (B, G, N, L) -> out, or (out, last state in float32).

    The kernels want channels side by side: u, delta, z whose memory is (B, L, D) are taken as they are, others are
    copied; out is a transposed view of (B, L, D), so that a following rearrange to tokens first costs nothing. A
    gradient flows through the last state too."""
    unsupported(A.is_complex() or B.is_complex() or C.is_complex(), "complex A; the kernels hold real states")
    require(u.dim() == 3, "u is (B, D, L)")
    batch, channels, length = u.shape
    for name, t in (("B", B), ("C", C)):
        unsupported(t.dim() == 2,
                    lambda: f"a {name} that does not change from token to token; (B, N, L) or (B, G, N, L)")
        require(t.dim() in (3, 4), lambda: f"{name} is (B, N, L) or (B, G, N, L)")
    groups, state = B.shape[1] if B.dim() == 4 else 1, B.shape[-2]
    require(channels % groups == 0, lambda: f"{channels} channels do not share {groups} groups")
    for name, t, shape in (("delta", delta, u.shape), ("A", A, (channels, state)), ("z", z, u.shape),
                           ("B", B, (batch, *(() if B.dim() == 3 else (groups,)), state, length)),
                           ("C", C, (batch, *(() if C.dim() == 3 else (groups,)), state, length)),
                           ("D", D, (channels,)), ("delta_bias", delta_bias, (channels,))):
        check_shape(name, t, shape)
    require(C.dim() == 4 or groups == 1, lambda: f"C is (B, N, L), B has {groups} groups")
    check_negative(A)
    kind, given_type = kernel_type(u), u.dtype
    delta, delta_bias = steps_for(delta, delta_bias, delta_softplus, kind, 1)
    u, B, C, z, delta = as_kind(kind, u.device, u=u, B=B, C=C, z=z, delta=delta)
    out, last = call_operator(SCAN, [u, delta, B, C, z, A, D, delta_bias, None, None], bool(return_last_state))
    out = out.to(given_type)
    return (out, last) if return_last_state else out


def _is_silu(activation):
    require(activation in (None, "silu", "swish"), lambda: f"activation {activation}: None, silu or swish")
    return activation is not None


def _convolve(x, weight, bias, seq_idx, silu, initial=None, final=False):
    """x (B, L, D) -> y, last inputs (B, W-1, D)."""
    unsupported(weight.shape[1] > 16, lambda: f"a convolution of {weight.shape[1]} taps; up to 16")
    return call_layer(CONVOLUTION, (x, weight, bias, seq_idx, initial), (silu, final))


def causal_conv1d_fn(x, weight, bias=None, seq_idx=None, initial_states=None, return_final_states=False,
                     final_states_out=None, activation=None):
    """x (B, D, L), weight (D, W), bias (D), initial states (B, D, W-1) -> out, or (out, final states). Memory of out
    is (B, L, D), whatever that of x is."""
    silu = _is_silu(activation)
    unsupported(final_states_out is not None, "final states in a tensor of the caller's (final_states_out)")
    require(x.dim() == 3 and weight.dim() == 2, "x is (B, D, L) and weight (D, W)")
    (batch, channels, length), taps = x.shape, weight.shape[1]
    unsupported(taps < 2 and return_final_states, "a final state of one tap")
    for name, t, shape in (("weight", weight, (channels, taps)), ("bias", bias, (channels,)),
                           ("initial_states", initial_states, (batch, channels, taps - 1))):
        check_shape(name, t, shape)
    check_ids(seq_idx, (batch, length))
    require(seq_idx is None or not (initial_states is not None or return_final_states), "seq_idx and states exclude "
            "each other")
    kind, given_type = kernel_type(x), x.dtype
    x, = as_kind(kind, x.device, x=x)
    y, final = _convolve(x.transpose(1, 2), weight, bias, seq_idx, silu,
                         None if initial_states is None else initial_states.transpose(1, 2), return_final_states)
    y = y.transpose(1, 2).to(given_type)
    return (y, final.transpose(1, 2).to(given_type)) if return_final_states else y


def rmsnorm_fn(x, weight, bias, z=None, eps=1e-6, group_size=None, norm_before_gate=True):
    """norm(x silu(z)) over groups of group_size channels; x, z (.., D), weight (D)."""
    unsupported(z is None or norm_before_gate, "a norm without a gate before it")
    unsupported(bias is not None, "a gated norm with a bias")
    channels = x.shape[-1]
    group_size = group_size or channels
    require(channels % group_size == 0, lambda: f"{channels} channels are no groups of {group_size}")
    check_shape("z", z, x.shape)
    check_shape("weight", weight, (channels,))
    kind, given_type, shape = kernel_type(x), x.dtype, x.shape
    x, z = as_kind(kind, x.device, x=x, z=z)
    rows = (lambda t: t) if x.dim() == 3 else (lambda t: t.reshape(1, -1, channels))
    y, = call_layer(GATED, (rows(x), rows(z), weight), (channels // group_size, float(eps)))
    return y.view(shape).to(given_type)


def _norm_then_gate(y, z, weight, eps, groups):
    """weight y / rms(y) silu(z) by PyTorch, for what no kernel does."""
    wide = y.float().unflatten(-1, (groups, -1))
    wide = (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)).flatten(-2)
    return (wide * weight.float() * F.silu(z.float())).to(y.dtype)


def _mixer_in_parts(zxbcdt, conv, dt_bias, A, D, initial, seq_idx, norm, sizes, final, how):
    """The mixer operator by operator: without a norm, with one before the gate, or with columns of a gated MLP."""
    heads, width, groups, state, others = sizes
    inner, (weight, bias, silu), (norm_weight, eps, before) = heads * width, conv, norm
    mlp, z, mixed, dt = zxbcdt.split([2 * others, inner, inner + 2 * groups * state, heads], dim=-1)
    mixed = _convolve(mixed, weight, bias, seq_idx, silu)[0]
    x, B, C = mixed.split([inner, groups * state, groups * state], dim=-1)
    y, last = mamba_chunk_scan_combined(x.unflatten(2, (heads, width)), dt, A, B.unflatten(2, (groups, state)),
                                        C.unflatten(2, (groups, state)), D=D, dt_bias=dt_bias, dt_softplus=True,
                                        initial_states=initial, seq_idx=seq_idx, return_final_states=True, **how)
    y = y.flatten(2)
    if norm_weight is None:
        y = _Gate.apply(y, z)
    elif before:
        y = _norm_then_gate(y, z, norm_weight, eps, groups)
    else:
        y = rmsnorm_fn(y, norm_weight, None, z, eps, inner // groups, False)
    if others:
        gate, up = mlp.chunk(2, dim=-1)
        y = torch.cat([F.silu(gate) * up, y], dim=-1)
    return y, last


def mamba_split_conv1d_scan_combined(zxbcdt, conv1d_weight, conv1d_bias, dt_bias, A, D, chunk_size,
                                     initial_states=None, seq_idx=None, dt_limit=NO_LIMIT,
                                     return_final_states=False, activation="silu", rmsnorm_weight=None,
                                     rmsnorm_eps=1e-6, outproj_weight=None, outproj_bias=None, headdim=None, ngroups=1,
                                     norm_before_gate=True, state_dtype=None):
    """zxbcdt (B, L, z | x B C | dt), conv1d_weight (x B C, W), D (H) with headdim, or (H, P) -> the mixer's result, or
    with the final states. With a norm behind the gate, as models have it, it is one operator; else several."""
    silu = _is_silu(activation)
    unsupported(state_dtype not in (None, torch.float32), lambda: f"states of type {state_dtype}; they are float32")
    require(zxbcdt.dim() == 3 and conv1d_weight.dim() == 2, "zxbcdt is (B, L, columns) and conv1d_weight (columns, W)")
    require(D.dim() == 2 or headdim is not None, "D has one number for a head: headdim says how wide one is")
    heads, width = D.shape if D.dim() == 2 else (D.shape[0], headdim)
    (batch, length, row), mixed, inner = zxbcdt.shape, conv1d_weight.shape[0], heads * width
    state = (mixed - inner) // (2 * ngroups)
    others = row - inner - mixed - heads
    require(heads % ngroups == 0, lambda: f"{heads} heads do not share {ngroups} groups")
    require(mixed == inner + 2 * ngroups * state and state > 0 and others >= 0 and others % 2 == 0,
            lambda: f"{row} columns and {mixed} channels of the convolution do not fit {heads} heads of {width}")
    for name, t, shape in (("conv1d_bias", conv1d_bias, (mixed,)), ("dt_bias", dt_bias, (heads,)), ("A", A, (heads,)),
                           ("rmsnorm_weight", rmsnorm_weight, (inner,)),
                           ("initial_states", initial_states, (batch, heads, width, state))):
        check_shape(name, t, shape)
    check_ids(seq_idx, (batch, length))
    check_negative(A)
    require(dt_limit[1] > 0, lambda: f"dt_limit is {tuple(dt_limit)}; no step lies below an upper limit of 0")
    unsupported(conv1d_weight.shape[1] > 16, lambda: f"a convolution of {conv1d_weight.shape[1]} taps; up to 16")
    kind, given_type = kernel_type(zxbcdt), zxbcdt.dtype
    zxbcdt, = as_kind(kind, zxbcdt.device, zxbcdt=zxbcdt)
    if rmsnorm_weight is not None and not norm_before_gate and not others:
        tensors = (zxbcdt, conv1d_weight, conv1d_bias, dt_bias, A, D, rmsnorm_weight, seq_idx, initial_states)
        out, final = call_layer(MIXER, tensors, (
            ngroups, width, int(chunk_size), silu, ngroups, float(rmsnorm_eps), float(dt_limit[0]), float(dt_limit[1]),
            bool(return_final_states), wants(*tensors)))
    else:
        out, final = _mixer_in_parts(zxbcdt, (conv1d_weight, conv1d_bias, silu), dt_bias, A, D, initial_states, seq_idx,
                                     (rmsnorm_weight, rmsnorm_eps, norm_before_gate),
                                     (heads, width, ngroups, state, others // 2), return_final_states,
                                     dict(chunk_size=chunk_size, dt_limit=dt_limit))
    out = out.to(given_type)
    if outproj_weight is not None:
        out = F.linear(out, outproj_weight, outproj_bias)
    return (out, final) if return_final_states else out


def mamba_inner_fn(xz, conv1d_weight, conv1d_bias, x_proj_weight, delta_proj_weight, out_proj_weight, out_proj_bias, A,
                   B=None, C=None, D=None, delta_bias=None, B_proj_bias=None, C_proj_bias=None, delta_softplus=True,
                   checkpoint_lvl=1, b_rms_weight=None, c_rms_weight=None, dt_rms_weight=None, b_c_dt_rms_eps=1e-6):
    """xz (B, x | z, L) -> (B, L, M): convolution, projections, scan and gate of Mamba-1. Everything is kept for the way
    back; checkpoint_lvl is theirs."""
    unsupported(any(t is not None for t in (b_rms_weight, c_rms_weight, dt_rms_weight)), "norms of B, C and dt")
    unsupported(A.is_complex(), "complex A; the kernels hold real states")
    state, rank = A.shape[1], delta_proj_weight.shape[1]
    require(xz.dim() == 3 and xz.shape[1] == 2 * A.shape[0], lambda: f"xz is (B, {2 * A.shape[0]}, L)")
    kind, given_type = kernel_type(xz), xz.dtype
    xz, = as_kind(kind, xz.device, xz=xz)
    x, z = xz.transpose(1, 2).contiguous().chunk(2, dim=-1)
    x = _convolve(x, conv1d_weight.flatten(1), conv1d_bias, None, True)[0].to(given_type)
    step, own_B, own_C = F.linear(x, x_proj_weight).split([rank, state, state], dim=-1)
    delta = F.linear(step, delta_proj_weight)
    if B is None:
        B = (own_B if B_proj_bias is None else own_B + B_proj_bias.to(own_B.dtype)).transpose(1, 2)
    if C is None:
        C = (own_C if C_proj_bias is None else own_C + C_proj_bias.to(own_C.dtype)).transpose(1, 2)
    y = selective_scan_fn(x.transpose(1, 2), delta.transpose(1, 2), A, B, C, D, z.transpose(1, 2), delta_bias,
                          delta_softplus).transpose(1, 2)
    return F.linear(y, out_proj_weight, None if out_proj_bias is None else out_proj_bias.to(y.dtype))
