# SPDX-License-Identifier: Apache-2.0
"""recurrence -- both operators as PyTorch loops over tokens, with the arguments of the reference: a yardstick.

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
