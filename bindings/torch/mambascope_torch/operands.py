# SPDX-License-Identifier: Apache-2.0
"""What the functions with mamba_ssm's arguments ask of their operands, and what they make of them for the kernels."""
import warnings

import torch
from torch import Tensor

_said, _looked = set(), set()


def _text(what):
    """Of a function where it names sizes: words are made only where they are needed, this is every call."""
    return "mambascope: " + (what if isinstance(what, str) else what())


def unsupported(fact, what):
    """Installed functions hand such calls to the ones that they replace."""
    if fact:
        raise NotImplementedError(_text(what))


def require(fact, what):
    if not fact:
        raise ValueError(_text(what))


def say_once(what):
    if not torch.compiler.is_compiling() and what not in _said:
        _said.add(what)
        warnings.warn("mambascope: " + what, stacklevel=3)


def check_values(t, good, what):
    """Of numbers on the device. On a GPU they are looked at when a shape is seen for the first time, as the host waits
    for it; never while a graph is captured or a model traced."""
    if torch.compiler.is_compiling() or type(t) not in (Tensor, torch.nn.Parameter):
        return
    if t.is_cuda:
        key = (what, t.device, t.shape)
        if key in _looked or torch.cuda.is_current_stream_capturing():
            return
        require(bool(good(t)), what)
        _looked.add(key)
    else:
        require(bool(good(t)), what)


def kernel_type(x):
    """The type that kernels compute in for activations like x."""
    if x.device.type not in ("cpu", "cuda"):
        raise NotImplementedError(f"mambascope: a device of type {x.device.type}")
    if x.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        raise ValueError(f"mambascope: activations of type {x.dtype}: float32, bfloat16 or float16")
    if x.device.type == "cpu":
        return torch.float32
    if x.dtype == torch.float16:
        say_once("the kernels have no float16: activations become bfloat16, results float16 again")
        return torch.bfloat16
    return x.dtype


def as_kind(kind, device, **activations):
    """Activations in the type of the kernels."""
    for name, t in activations.items():
        if t is not None and t.device != device:
            raise ValueError(f"mambascope: {name} is on {t.device}, the first operand on {device}")
        if t is not None and t.dtype == torch.float32 and kind != torch.float32:
            say_once(f"{name} is float32 beside activations of two bytes: it is rounded to bfloat16")
    return [t if t is None or t.dtype == kind else t.to(kind) for t in activations.values()]


def check_negative(A):
    unsupported(A.is_complex(), "complex A; the kernels hold real states")
    check_values(A, lambda a: (a < 0).all(),
                 "A is not negative everywhere; the kernels take log(-A), a growing state has none")


def log_of(A):
    """The kernels take log(-A); the gradient comes back through the logarithm."""
    return torch.log(-A.float())


def steps_for(dt, bias, softplus, kind, axis):
    """dt and its bias, of whose sum the kernels take the softplus. Steps that are ready are put through its inverse.
    From what must be rounded to bfloat16 the mean of its head goes to the float32 bias first: a step of 0.01 has the
    logarithm -4.6, and of that number bfloat16 keeps two digits."""
    if softplus and dt.dtype == kind:
        return dt, bias
    shape = [1] * dt.dim()
    shape[axis] = -1
    wide = dt.float()
    if not softplus:
        wide, bias = wide if bias is None else wide + bias.float().view(shape), None
        check_values(wide.detach(), lambda t: (t > 0).all(),
                     "a step that is not positive; without softplus all must be")
        wide = wide + torch.log(-torch.expm1(-wide))
    if kind == torch.float32:
        return wide, bias
    mean = wide.detach().mean([k for k in range(dt.dim()) if k != axis % dt.dim()])
    return (wide - mean.view(shape)).to(kind), mean if bias is None else mean + bias.float()


def check_shape(name, t, shape):
    if t is not None and t.shape != shape:
        raise ValueError(f"mambascope: {name} is {tuple(t.shape)}, not {tuple(shape)}")


def check_ids(seq_idx, shape):
    check_shape("seq_idx", seq_idx, shape)
    require(seq_idx is None or not seq_idx.is_floating_point(), "seq_idx is a whole number for every token")
    if seq_idx is not None and seq_idx.dtype == torch.int64:
        check_values(seq_idx, lambda t: (t == t.int()).all(),
                     "a seq_idx beyond 32 bits; the kernels hold it in so many")
