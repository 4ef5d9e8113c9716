"""pieces.py -- what the two reference networks (mambavision.py, graphmamba.py) share.

    y = scan(u, step, A, B, C, D)               (M, L, h): the selective scan, one position at a time
    x = next(filled((6, 4)))                    the fill rule of the reference vectors in the specifications
    off, name = gradient_error(loss, tensors)   autograd against finite differences, for every tensor

Plain on purpose: these lines are read next to the equations. Whoever wants speed passes another `scan`."""
import numpy as np
import torch


def scan(u, step, A, B, C, D):
    """S[t] = exp(step[t] A) S[t-1] + step[t] B[t] u[t];  y[t] = C[t] . S[t] + D u[t].

    u, step (M, L, h); A (h, N), negative; B, C (M, L, N); D (h). The state starts at 0 in each of the M sequences."""
    state = u.new_zeros(u.shape[0], u.shape[2], A.shape[1])
    y = []
    for t in range(u.shape[1]):
        decay = torch.exp(step[:, t, :, None] * A)
        state = decay * state + (step[:, t] * u[:, t])[:, :, None] * B[:, t, None, :]
        y.append((state * C[:, t, None, :]).sum(-1) + D * u[:, t])
    return torch.stack(y, 1)


# Drawing and checking ----------------------------------------------------------------------------------------------

def filled(*shapes):
    """Float64 tensors of the given shapes, filled by a counter that runs through all of them (sections 13)."""
    i = 0
    for shape in shapes:
        count = int(np.prod(shape))
        a = np.arange(i + 1, i + count + 1, dtype=np.uint64) * np.uint64(0x9E3779B9) & np.uint64(0xFFFFFFFF)
        a ^= a >> np.uint64(16)
        a = a * np.uint64(0x85EBCA6B) & np.uint64(0xFFFFFFFF)
        a ^= a >> np.uint64(13)
        a = a * np.uint64(0xC2B2AE35) & np.uint64(0xFFFFFFFF)
        a ^= a >> np.uint64(16)
        i += count
        yield torch.from_numpy((a / 2.0 ** 31 - 1).reshape(shape))


def near(name, value, wanted, digits=9):
    """Compares with numbers a specification prints to so many digits after the point."""
    value, wanted = value.detach().flatten(), torch.tensor(wanted, dtype=torch.float64)
    off = (value - wanted).abs().max().item()
    assert value.shape == wanted.shape and off <= 0.51 * 10.0 ** -digits, f"{name}: {value} is not {wanted}, off {off}"


def gradient_error(loss, tensors):
    """Largest disagreement over `tensors` {name: leaf} between autograd and differences, along the gradient and along
    something else, relative to the gradient's norm (no less than 1e-4 of the largest). loss() is in float64 and must
    give the same value every time. Returns it and the tensor's name."""
    gradients = torch.autograd.grad(loss(), list(tensors.values()), allow_unused=True)
    gradients = [torch.zeros_like(t) if g is None else g for g, t in zip(gradients, tensors.values())]
    largest = max(g.norm().item() for g in gradients)
    generator = torch.Generator().manual_seed(1)
    worst = (0.0, "")
    with torch.no_grad():
        for (name, tensor), g in zip(tensors.items(), gradients):
            other = torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)
            direction = g / max(g.norm().item(), 1e-300) + other / other.norm()
            scale = max(g.norm().item(), 1e-4 * largest)
            # A long step is exact unless it crosses the kink of a ReLU; then a shorter one, with more rounding.
            for step in (1e-3, 1e-4, 1e-5, 1e-6):
                off = abs(slope(loss, tensor, direction, step) - (g * direction).sum().item()) / scale
                if off < 1e-7:
                    break
            worst = max(worst, (off, name))
    return worst


def slope(loss, tensor, direction, step):
    """Derivative of loss() along a direction, fourth order; the tensor is changed in place and put back."""
    at, saved = {}, tensor.clone()
    for k in (1, -1, 2, -2):
        tensor.copy_(saved + k * step * direction)
        at[k] = loss().item()
    tensor.copy_(saved)
    return (8 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12 * step)
