# SPDX-License-Identifier: Apache-2.0
"""recurrence -- the operators as PyTorch loops over tokens, and the layers around them, with the arguments of the
reference: a yardstick.

Everything in the type of the arguments; float64 is what tests give. Gradients are autograd's."""
import torch
import torch.nn.functional as F


def ssd(x, dt, A, B, C, D=None, z=None, dt_bias=None, initial_states=None, seq_idx=None, dt_softplus=False,
        dt_limit=(0.0, float("inf"))):
    """x (B, L, H, P), dt (B, L, H), A (H), B and C (B, L, G, N) -> y, final states (B, H, P, N)."""
    batch, length, heads, width = x.shape
    step = dt if dt_bias is None else dt + dt_bias
    step = torch.clamp(F.softplus(step) if dt_softplus else step, *dt_limit)
    B, C = (t.repeat_interleave(heads // t.shape[2], dim=2) for t in (B, C))
    h = x.new_zeros(batch, heads, width, B.shape[3]) if initial_states is None else initial_states
    ys = []
    for t in range(length):
        if seq_idx is not None and t > 0:
            h = h * (seq_idx[:, t] == seq_idx[:, t - 1])[:, None, None, None]
        decay = torch.exp(step[:, t] * A)
        h = decay[..., None, None] * h + (step[:, t, :, None] * x[:, t])[..., None] * B[:, t, :, None, :]
        ys.append((h * C[:, t, :, None, :]).sum(-1))
    y = torch.stack(ys, 1)
    if D is not None:
        y = y + x * (D[:, None] if D.dim() == 1 else D)
    return (y if z is None else y * F.silu(z)), h


def scan(u, delta, A, B, C, D=None, z=None, delta_bias=None, delta_softplus=False):
    """u, delta (B, D, L), A (D, N), B and C (B, N, L) or (B, G, N, L) -> out (B, D, L), last state (B, D, N)."""
    step = delta if delta_bias is None else delta + delta_bias[:, None]
    step = F.softplus(step) if delta_softplus else step
    B, C = (t[:, None] if t.dim() == 3 else t for t in (B, C))
    B, C = (t.repeat_interleave(u.shape[1] // t.shape[1], dim=1) for t in (B, C))
    h = u.new_zeros(*u.shape[:2], A.shape[1])
    ys = []
    for t in range(u.shape[2]):
        h = torch.exp(step[:, :, t, None] * A) * h + (step[:, :, t] * u[:, :, t])[..., None] * B[..., t]
        ys.append((h * C[..., t]).sum(-1))
    out = torch.stack(ys, 2)
    if D is not None:
        out = out + u * D[:, None]
    return (out if z is None else out * F.silu(z)), h


def convolution(x, weight, bias=None, seq_idx=None, initial_states=None, activation=None):
    """x (B, D, L); the state is (B, D, W-1)."""
    taps, length = weight.shape[1], x.shape[2]
    before = x.new_zeros(*x.shape[:2], taps - 1) if initial_states is None else initial_states
    padded = torch.cat([before, x], 2)
    y = 0 if bias is None else bias[:, None]
    for k in range(taps):
        part = padded[:, :, k:k + length]
        if seq_idx is not None:
            ids = F.pad(seq_idx, (taps - 1, 0), value=-7)[:, k:k + length]
            part = part * (ids == seq_idx)[:, None]
        y = y + weight[:, k, None] * part
    return (F.silu(y) if activation else y), padded[:, :, length:]


def norm(x, weight, z, eps, groups, before=False):
    """weight q / rms(q) with q = x silu(z); before: norm first, gate behind it."""
    x = (x if before else x * F.silu(z)).unflatten(-1, (groups, -1))
    x = (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)).flatten(-2) * weight
    return x * F.silu(z) if before else x


def mixer(zxbcdt, conv1d_weight, conv1d_bias, dt_bias, A, D, initial_states=None, seq_idx=None,
          dt_limit=(0.0, float("inf")), rmsnorm_weight=None, outproj_weight=None, outproj_bias=None, headdim=None,
          ngroups=1, norm_before_gate=True, rmsnorm_eps=1e-6):
    """zxbcdt (B, L, MLP | z | x B C | dt) -> the mixer's result, final states."""
    heads, width = D.shape if D.dim() == 2 else (D.shape[0], headdim)
    inner, mixed = heads * width, conv1d_weight.shape[0]
    others = (zxbcdt.shape[2] - inner - mixed - heads) // 2
    mlp, z, xBC, dt = zxbcdt.split([2 * others, inner, mixed, heads], -1)
    xBC = convolution(xBC.transpose(1, 2), conv1d_weight, conv1d_bias, seq_idx, activation="silu")[0].transpose(1, 2)
    x, B, C = xBC.split([inner] + [(mixed - inner) // 2] * 2, -1)
    B, C = B.unflatten(2, (ngroups, -1)), C.unflatten(2, (ngroups, -1))
    y, final = ssd(x.unflatten(2, (heads, width)), dt, A, B, C, D=D, dt_bias=dt_bias, initial_states=initial_states,
                   seq_idx=seq_idx, dt_softplus=True, dt_limit=dt_limit)
    y = y.flatten(2)
    y = y * F.silu(z) if rmsnorm_weight is None else norm(y, rmsnorm_weight, z, rmsnorm_eps, ngroups, norm_before_gate)
    if others:
        y = torch.cat([F.silu(mlp[..., :others]) * mlp[..., others:], y], -1)
    return (y if outproj_weight is None else F.linear(y, outproj_weight, outproj_bias)), final


def inner(xz, conv1d_weight, conv1d_bias, x_proj_weight, delta_proj_weight, out_proj_weight, out_proj_bias, A, D=None,
          delta_bias=None):
    """xz (B, x | z, L) -> (B, L, M), a layer of Mamba-1."""
    x, z = xz.chunk(2, 1)
    x = convolution(x, conv1d_weight[:, 0], conv1d_bias, activation="silu")[0]
    rank, state = delta_proj_weight.shape[1], A.shape[1]
    step, B, C = F.linear(x.transpose(1, 2), x_proj_weight).split([rank, state, state], -1)
    y, _ = scan(x, F.linear(step, delta_proj_weight).transpose(1, 2), A, B.transpose(1, 2), C.transpose(1, 2), D, z,
                delta_bias, delta_softplus=True)
    return F.linear(y.transpose(1, 2), out_proj_weight, out_proj_bias)
