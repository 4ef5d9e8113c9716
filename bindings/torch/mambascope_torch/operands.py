# SPDX-License-Identifier: Apache-2.0
"""What the functions with mamba_ssm's arguments ask of their operands, and what they make of them for the kernels."""
import torch


def unsupported(fact, what):
    if fact:
        raise NotImplementedError("mambascope: " + what)


def require(fact, what):
    if not fact:
        raise ValueError("mambascope: " + what)


def check_values(fact, what):
    """Of numbers on the device: a GPU is not waited for, it stops by itself; so does a compiled model."""
    if fact.is_cuda or torch.compiler.is_compiling():
        torch._assert_async(fact, "mambascope: " + what)
    else:
        require(bool(fact), what)


def check_types(activations):
    first = next(iter(activations.values()))
    kind, device = first.dtype, first.device
    if kind not in (torch.float32, torch.bfloat16):
        raise ValueError(f"mambascope: activations of type {kind}: float32 or bfloat16")
    for name, t in activations.items():                 # words are made only where they are needed: this is every call
        if t is not None and t.dtype != kind:
            raise ValueError(f"mambascope: {name} is {t.dtype}, others {kind}: activations have one type")
        if t is not None and t.device != device:
            raise ValueError(f"mambascope: {name} is on {t.device}, the first operand on {device}")
    unsupported(device.type == "cpu" and kind != torch.float32, "on the CPU only float32")
    if device.type not in ("cpu", "cuda"):
        raise NotImplementedError(f"mambascope: a device of type {device.type}")


def log_of(A):
    """The kernels take log(-A); the gradient comes back through the logarithm."""
    unsupported(A.is_complex(), "complex A; the kernels hold real states")
    A = A.float()
    check_values((A < 0).all(), "A is not negative everywhere; the kernels take log(-A), a growing state has none")
    return torch.log(-A)


def before_softplus(dt, bias):
    """What softplus turns into dt + bias: the kernels always apply it."""
    unsupported(dt.dtype != torch.float32, "steps without softplus in bfloat16; the kernels apply softplus "
                 "themselves, and undoing it would lose digits. Pass the raw steps with softplus on, or float32")
    step = dt if bias is None else dt + bias
    check_values((step > 0).all(), "a step that is not positive; without softplus all must be")
    return step + torch.log(-torch.expm1(-step))


def check_shape(name, t, shape):
    if t is not None and t.shape != shape:
        raise ValueError(f"mambascope: {name} is {tuple(t.shape)}, not {tuple(shape)}")
