# SPDX-License-Identifier: Apache-2.0
"""mambascope_torch -- the state-space kernels of mambascope as PyTorch operators with gradients.

    from mambascope_torch import mamba_chunk_scan_combined, selective_scan_fn    # same arguments as mamba_ssm's
    import mambascope_torch; mambascope_torch.install()                          # or: in the installed mamba_ssm

Works on libmambascope_kernels.so through ctypes (include/mba_kernels.h); nothing is compiled against PyTorch. The
library is looked for in $MAMBASCOPE_KERNELS, beside this file and in the build folder of the tree. CPU tensors run too,
in fp32. `python -m mambascope_torch.check` proves that all of it works here.

Activations (x, dt, B, C, z) have one type, float32 or bfloat16. Their views are taken as they are where rows lie at one
distance (columns of a wider matrix do) and copied where not; gradients come back dense. See docs/kernels-abi.md.
"""
import ctypes
import functools
import importlib
import os
import re
import sys
from typing import List, Optional, Tuple

import torch
from torch import Tensor

from .operands import before_softplus, check_shape, check_types, check_values, log_of, require, unsupported

# ---- include/mba_kernels.h ----

SSD, SCAN = 0, 1
X, DT, B_, C_, Z, A_LOG, D_, DT_BIAS, IDS, INITIAL = range(10)
Y, FINAL = range(2)
OPERANDS, ACTIVATIONS, RESULTS = 10, 5, 2
ALL_OPTIONAL = (Z, D_, DT_BIAS, IDS, INITIAL)


class _StridedView(ctypes.Structure):
    _fields_ = [("stride", ctypes.c_int64 * 4), ("skew", ctypes.c_int64)]


class _Desc(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_size_t), ("op", ctypes.c_int32), ("type", ctypes.c_int32)] + [
        (name, ctypes.c_int64) for name in ("batch", "length", "heads", "head_dim", "groups", "state", "chunk")] + [
        ("given", ctypes.c_uint32), ("d_per_channel", ctypes.c_int32), ("final", ctypes.c_int32),
        ("backward", ctypes.c_int32), ("dt_min", ctypes.c_double), ("dt_max", ctypes.c_double),
        ("view", _StridedView * ACTIVATIONS), ("variant", ctypes.c_char_p)]


class _Machine(ctypes.Structure):
    _fields_ = [("cc", ctypes.c_int32), ("sms", ctypes.c_int32), ("regs_sm", ctypes.c_int32),
                ("threads_sm", ctypes.c_int32), ("smem_block_bytes", ctypes.c_int64), ("smem_sm_bytes", ctypes.c_int64)]


class _Pointers(ctypes.Structure):
    _fields_ = [("in_", ctypes.c_void_p * OPERANDS), ("out", ctypes.c_void_p * RESULTS),
                ("dout", ctypes.c_void_p * RESULTS), ("din", ctypes.c_void_p * OPERANDS),
                ("saved", ctypes.c_void_p), ("work", ctypes.c_void_p)]


def _library_path():
    here = os.path.dirname(os.path.abspath(__file__))
    named = os.environ.get("MAMBASCOPE_KERNELS")
    tried = [named] if named else [os.path.join(here, "libmambascope_kernels.so"),
                                   os.path.join(here, "..", "..", "..", "build", "libmambascope_kernels.so")]
    for path in tried:
        if os.path.exists(path):
            return path
    raise OSError("MAMBASCOPE_KERNELS names " + named + ", which is not there" if named else
                  f"libmambascope_kernels.so is in none of {tried}; build it (cmake, target mambascope_kernels) or "
                  f"name it "
                  "in MAMBASCOPE_KERNELS")


def _share_openmp():
    """The library of a wheel names no OpenMP runtime: kernels on the CPU run on the threads of PyTorch's, which every
    PyTorch brings under a name of its own. LLVM's and Intel's have the functions of GCC's, too."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        loaded = {line.split(maxsplit=5)[5].strip() for line in maps if line.count("/")}
    for kind in (r"libgomp[-.]", r"libiomp5\.", r"libomp[-.]"):
        for path in sorted(loaded):
            if re.match(kind, os.path.basename(path)):
                return ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    try:
        return ctypes.CDLL("libgomp.so.1", mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return None                          # a library that needs one says so


@functools.lru_cache(maxsize=1)
def library():
    """The shared library, opened once."""
    _share_openmp()
    lib = ctypes.CDLL(_library_path())
    plan = ctypes.c_void_p
    for name, result, arguments in (
            ("plan_create", ctypes.c_int, [ctypes.POINTER(plan), ctypes.POINTER(_Desc), ctypes.POINTER(_Machine)]),
            ("forward", ctypes.c_int, [plan, ctypes.POINTER(_Pointers), ctypes.c_void_p]),
            ("backward", ctypes.c_int, [plan, ctypes.POINTER(_Pointers), ctypes.c_void_p]),
            ("plan_destroy", None, [plan]), ("saved_bytes", ctypes.c_size_t, [plan]),
            ("work_bytes", ctypes.c_size_t, [plan, ctypes.c_int]), ("variant", ctypes.c_char_p, [plan, ctypes.c_int]),
            ("error", ctypes.c_char_p, []), ("version", ctypes.c_char_p, [])):
        function = getattr(lib, "mba_kernels_" + name)
        function.restype, function.argtypes = result, arguments
    return lib


def _try(code):
    if code:
        raise RuntimeError("mambascope: " + library().mba_kernels_error().decode())


# ---- plans: one per shape, layout and device ----

class Plan:
    """A plan of the library; `sizes` are fields of mba_kernels_desc, `views` pairs of strides and skew."""

    def __init__(self, views, machine=None, **sizes):
        self._destroy = library().mba_kernels_plan_destroy
        self._plan = ctypes.c_void_p()
        desc = _Desc(bytes=ctypes.sizeof(_Desc), **sizes)
        for k, view in enumerate(views):
            if view:
                strides, skew = view
                desc.view[k] = _StridedView((ctypes.c_int64 * 4)(*strides), skew)
        _try(library().mba_kernels_plan_create(ctypes.byref(self._plan), ctypes.byref(desc),
                                               ctypes.byref(_Machine(**machine)) if machine is not None else None))
        self.saved_bytes = library().mba_kernels_saved_bytes(self._plan)
        self.work_bytes = tuple(library().mba_kernels_work_bytes(self._plan, way) for way in (0, 1))
        self.variants = tuple(library().mba_kernels_variant(self._plan, way).decode() for way in (0, 1))

    def __del__(self):
        if getattr(self, "_plan", None):
            self._destroy(self._plan)

    def run(self, backward, pointers, device):
        work = torch.empty(self.work_bytes[backward] + 256, dtype=torch.uint8, device=device)
        pointers.work = (work.data_ptr() + 255) // 256 * 256
        call = library().mba_kernels_backward if backward else library().mba_kernels_forward
        stream = _stream_of(device) if device.type == "cuda" else None
        _try(call(self._plan, ctypes.byref(pointers), stream))


def _stream_of(device):
    """Its handle; Triton's launchers take the first way too, which makes no object."""
    if hasattr(torch._C, "_cuda_getCurrentRawStream") and device.index is not None:
        return torch._C._cuda_getCurrentRawStream(device.index)
    return torch.cuda.current_stream(device).cuda_stream


@functools.lru_cache(maxsize=512)
def _plan(device, views, sizes):
    if device.type == "cpu":
        return Plan(views, machine={}, **dict(sizes))
    with torch.cuda.device(device):
        return Plan(views, **dict(sizes))


def _takes(shape, strides):
    """Whether kernels take a tensor (B, L, ..) so: the numbers of a token side by side, and tokens at one distance
    throughout or side by side in every sequence."""
    run = 1
    for n, s in list(zip(shape, strides))[:1:-1]:
        if n != 1 and s != run:
            return False
        run *= n
    (batch, length), (batch_step, step) = shape[:2], strides[:2]
    if length == 1:
        return batch == 1 or batch_step >= run
    return step >= run and (batch == 1 or batch_step == length * step or (step == run and batch_step >= length * step))


def _regular(t):
    return t if t.is_contiguous() or _takes(t.shape, t.stride()) else t.contiguous()


def _aligned(t):
    t = t.contiguous()
    return t if t.data_ptr() % 16 == 0 else t.clone()


def _view_of(t):
    return (t.stride() + (0,) * (4 - t.dim()), t.data_ptr() % 16 // t.element_size()) if t is not None else None


class _Call:
    """Operands as the library takes them, and the plan for them."""

    def __init__(self, op, operands, final, backward, **sizes):
        self.operands = [None if t is None else _regular(t) if k < ACTIVATIONS else _aligned(t)
                         for k, t in enumerate(operands)]
        x, b = self.operands[X], self.operands[B_]
        self.device = x.device
        sizes["variant"] = sizes.get("variant", "").encode() or None
        sizes.update(op=op, type=int(x.dtype == torch.bfloat16), batch=x.shape[0], length=x.shape[1], heads=x.shape[2],
                     head_dim=x.shape[3] if op == SSD else 1, groups=b.shape[2], state=b.shape[3], final=int(final),
                     backward=int(backward), given=sum(1 << k for k in ALL_OPTIONAL if operands[k] is not None),
                     d_per_channel=int(operands[D_] is not None and operands[D_].dim() == 2))
        views = tuple(_view_of(t) for t in self.operands[:ACTIVATIONS])
        self.plan = _plan(self.device, views, tuple(sorted(sizes.items())))
        self.pointers = _Pointers()
        for k, t in enumerate(self.operands):
            self.pointers.in_[k] = t.data_ptr() if t is not None else None

    def forward(self, y, final, saved):
        self.pointers.out[Y] = y.data_ptr()
        self.pointers.out[FINAL] = final.data_ptr() if final.numel() else None
        self.pointers.saved = saved.data_ptr()
        self.plan.run(0, self.pointers, self.device)

    def backward(self, dy, dfinal, grads, saved):
        _run_backward(self.plan, self.pointers, dy, dfinal, grads, saved)


def _run_backward(plan, pointers, dy, dfinal, grads, saved):
    pointers.dout[Y] = dy.data_ptr()
    pointers.dout[FINAL] = dfinal.data_ptr() if dfinal is not None else None
    pointers.saved = saved.data_ptr()
    for k, t in enumerate(grads):
        pointers.din[k] = t.data_ptr() if t is not None else None
    plan.run(1, pointers, dy.device)


# ---- the operators ----

def _state_shape(op, x, B):
    return (x.shape[0], x.shape[2], x.shape[3], B.shape[3]) if op == SSD else (x.shape[0], x.shape[2], B.shape[3])


def _empty_like_results(op, x, B, final):
    state = x.new_empty(_state_shape(op, x, B) if final else (0,), dtype=torch.float32)
    return x.new_empty(x.shape), state


def _run_forward(call, op, final):
    x, B = call.operands[X], call.operands[B_]
    y, state = _empty_like_results(op, x, B, final)
    saved = torch.empty(call.plan.saved_bytes, dtype=torch.uint8, device=call.device)
    call.forward(y, state, saved)
    return y, state, saved


def _forward(op, operands, final, backward, **sizes):
    return _run_forward(_Call(op, operands, final, backward, **sizes), op, final)


def _empty_gradients(operands):
    """Of every operand but ids; an empty tensor where it is absent: an operator returns tensors only."""
    x = operands[X]
    return [x.new_empty(t.shape, dtype=t.dtype) if t is not None and k != IDS else x.new_empty(0)
            for k, t in enumerate(operands)]


def _backward(op, dy, dfinal, saved, operands, final, **sizes):
    call = _Call(op, operands, final, True, **sizes)
    grads = _empty_gradients(operands)
    call.backward(_aligned(dy), _aligned(dfinal) if final else None,
                  [g if t is not None and k != IDS else None for k, (g, t) in enumerate(zip(grads, operands))], saved)
    return grads


@torch.library.custom_op("mambascope::ssd", mutates_args=())
def ssd(x: Tensor, dt: Tensor, B: Tensor, C: Tensor, A_log: Tensor, D: Optional[Tensor], dt_bias: Optional[Tensor],
        ids: Optional[Tensor], initial: Optional[Tensor], chunk: int, dt_min: float, dt_max: float, variant: str,
        final: bool, backward: bool) -> Tuple[Tensor, Tensor, Tensor]:
    """y, the final state (empty unless `final`), and what the backward needs (empty unless `backward`)."""
    return _forward(SSD, [x, dt, B, C, None, A_log, D, dt_bias, ids, initial], final, backward, chunk=chunk,
                    dt_min=dt_min, dt_max=dt_max, variant=variant)


@ssd.register_fake
def _(x, dt, B, C, A_log, D, dt_bias, ids, initial, chunk, dt_min, dt_max, variant, final, backward):
    return *_empty_like_results(SSD, x, B, final), _fake_saved(x)


@torch.library.custom_op("mambascope::ssd_backward", mutates_args=())
def ssd_backward(dy: Tensor, dfinal: Optional[Tensor], saved: Tensor, x: Tensor, dt: Tensor, B: Tensor, C: Tensor,
                 A_log: Tensor, D: Optional[Tensor], dt_bias: Optional[Tensor], ids: Optional[Tensor],
                 initial: Optional[Tensor], chunk: int, dt_min: float, dt_max: float, variant: str,
                 final: bool) -> List[Tensor]:
    return _backward(SSD, dy, dfinal, saved, [x, dt, B, C, None, A_log, D, dt_bias, ids, initial], final, chunk=chunk,
                     dt_min=dt_min, dt_max=dt_max, variant=variant)


@ssd_backward.register_fake
def _(dy, dfinal, saved, x, dt, B, C, A_log, D, dt_bias, ids, initial, chunk, dt_min, dt_max, variant, final):
    return _empty_gradients([x, dt, B, C, None, A_log, D, dt_bias, ids, initial])


@torch.library.custom_op("mambascope::selective_scan", mutates_args=())
def selective_scan(u: Tensor, delta: Tensor, B: Tensor, C: Tensor, z: Optional[Tensor], A_log: Tensor,
                   D: Optional[Tensor], delta_bias: Optional[Tensor], ids: Optional[Tensor], initial: Optional[Tensor],
                   final: bool, backward: bool) -> Tuple[Tensor, Tensor, Tensor]:
    """Channels last: u, delta, z (B, L, D), B and C (B, L, G, N). Results as those of ssd."""
    return _forward(SCAN, [u, delta, B, C, z, A_log, D, delta_bias, ids, initial], final, backward)


@selective_scan.register_fake
def _(u, delta, B, C, z, A_log, D, delta_bias, ids, initial, final, backward):
    return *_empty_like_results(SCAN, u, B, final), _fake_saved(u)


@torch.library.custom_op("mambascope::selective_scan_backward", mutates_args=())
def selective_scan_backward(dy: Tensor, dfinal: Optional[Tensor], saved: Tensor, u: Tensor, delta: Tensor, B: Tensor,
                            C: Tensor, z: Optional[Tensor], A_log: Tensor, D: Optional[Tensor],
                            delta_bias: Optional[Tensor], ids: Optional[Tensor], initial: Optional[Tensor],
                            final: bool) -> List[Tensor]:
    return _backward(SCAN, dy, dfinal, saved, [u, delta, B, C, z, A_log, D, delta_bias, ids, initial], final)


@selective_scan_backward.register_fake
def _(dy, dfinal, saved, u, delta, B, C, z, A_log, D, delta_bias, ids, initial, final):
    return _empty_gradients([u, delta, B, C, z, A_log, D, delta_bias, ids, initial])


def _fake_saved(x):
    """Only a plan knows its size."""
    return x.new_empty((torch.library.get_ctx().new_dynamic_size(),), dtype=torch.uint8)


def _seeds(op, x, B, dy, dfinal, final):
    """The gradients of the results, zeros where nothing flows back through one of them."""
    if dy is None:
        dy = torch.zeros_like(x)
    if final and dfinal is None:
        dfinal = x.new_zeros(_state_shape(op, x, B), dtype=torch.float32)
    return dy, dfinal if final else None


def _gradients(ctx, op, dy, dfinal, call):
    operands, saved = ctx.saved_tensors[:-1], ctx.saved_tensors[-1]
    dy, dfinal = _seeds(op, operands[0], operands[2], dy, dfinal, ctx.final)
    grads = call(dy, dfinal, saved, *operands, *ctx.numbers, ctx.final)
    return [g if t is not None and t.dtype != torch.int32 else None
            for g, t in zip((g for k, g in enumerate(grads) if op == SCAN or k != Z), operands)]


def _ssd_setup(ctx, inputs, output):
    *operands, chunk, dt_min, dt_max, variant, final, _ = inputs
    ctx.set_materialize_grads(False)
    ctx.numbers, ctx.final = (chunk, dt_min, dt_max, variant), final
    ctx.save_for_backward(*operands, output[2])


def _ssd_gradients(ctx, dy, dfinal, _):
    return *_gradients(ctx, SSD, dy, dfinal, ssd_backward), None, None, None, None, None, None


def _scan_setup(ctx, inputs, output):
    *operands, final, _ = inputs
    ctx.set_materialize_grads(False)
    ctx.numbers, ctx.final = (), final
    ctx.save_for_backward(*operands, output[2])


def _scan_gradients(ctx, dy, dfinal, _):
    return *_gradients(ctx, SCAN, dy, dfinal, selective_scan_backward), None, None


ssd.register_autograd(_ssd_gradients, setup_context=_ssd_setup)
selective_scan.register_autograd(_scan_gradients, setup_context=_scan_setup)


class _Eager(torch.autograd.Function):
    """An operator without PyTorch's dispatcher, whose Python side takes longer than the kernels of a small layer; and
    with all that leads from the arguments to the kernels' operands, which would be twenty nodes of their own. What had
    to be copied for the kernels is kept, so that the way back does not copy it again."""

    @staticmethod
    def forward(ctx, op, sizes, final, backward, *given):
        call = _Call(op, _operands(op, given), final, backward, **sizes)
        y, state, saved = _run_forward(call, op, final)
        if backward:
            ctx.set_materialize_grads(False)
            ctx.op, ctx.sizes, ctx.final = op, sizes, final
            ctx.plan, ctx.pointers = call.plan, call.pointers
            ctx.shapes = given[B_].dim(), given[C_].dim()
            ctx.save_for_backward(*call.operands, saved, given[A_LOG])
        return (y.transpose(1, 2) if op == SCAN else y), state

    @staticmethod
    def backward(ctx, dy, dfinal):
        if not torch.is_grad_enabled():
            return None, None, None, None, *_Eager.gradients(ctx, dy, dfinal)
        with torch.no_grad():                                # asked for with create_graph
            grads = _Eager.gradients(ctx, dy, dfinal)
        return None, None, None, None, *_Once.apply(torch.zeros((), requires_grad=True), *grads)

    @staticmethod
    def gradients(ctx, dy, dfinal):
        *operands, saved, A = ctx.saved_tensors
        if ctx.op == SCAN and dy is not None:
            dy = dy.transpose(1, 2)
        dy, dfinal = _seeds(ctx.op, operands[X], operands[B_], dy, dfinal, ctx.final)
        grads = _gradients_again(ctx, operands, _aligned(dy), None if dfinal is None else _aligned(dfinal), saved)
        grads[A_LOG] = grads[A_LOG] / A                      # of log(-A)
        if ctx.op == SCAN:
            for k in (X, DT, Z):
                grads[k] = None if grads[k] is None else grads[k].transpose(1, 2)
            for k, dims in zip((B_, C_), ctx.shapes):
                grads[k] = grads[k].permute(0, 2, 3, 1) if dims == 4 else grads[k].squeeze(2).transpose(1, 2)
        return grads


class _Once(torch.autograd.Function):
    """Gradients that have none. Left as they come they would be constants: a penalty on them would do nothing, without
    a word (once_differentiable speaks only where what flows in has a gradient, which that of a sum has not)."""

    @staticmethod
    def forward(ctx, anchor, *grads):
        return grads

    @staticmethod
    def backward(ctx, *_):
        raise RuntimeError("mambascope: the gradient of a gradient; the kernels have first ones only")


def _gradients_again(ctx, operands, dy, dfinal, saved):
    """By the plan and the pointers of the way there, unless hooks of saved tensors have put them elsewhere."""
    grads = [None if t is None or k == IDS else torch.empty(t.shape, dtype=t.dtype, device=t.device)
             for k, t in enumerate(operands)]
    if all(at == (None if t is None else t.data_ptr()) for at, t in zip(ctx.pointers.in_, operands)):
        _run_backward(ctx.plan, ctx.pointers, dy, dfinal, grads, saved)
    else:
        _Call(ctx.op, operands, ctx.final, True, **ctx.sizes).backward(dy, dfinal, grads, saved)
    return grads


def _operands(op, given):
    """The kernels' operands of the arguments: tokens first, numbers of parameters in fp32, log(-A)."""
    x, dt, B, C, z, A, D, bias, ids, initial = given
    if op == SCAN:
        x, dt, z = x.transpose(1, 2), dt.transpose(1, 2), None if z is None else z.transpose(1, 2)
        B, C = _tokens_first(B), _tokens_first(C)
    return [x, dt, B, C, z, log_of(A), _float(D), _float(bias), None if ids is None else ids.int(), _float(initial)]


def _call_operator(op, given, final, **sizes):
    """Result and final state. The registered operators are for what traces them: compiled models, exports, tensors that
    hold no numbers."""
    wants = _wants(*given)
    if type(given[X]) is Tensor and not torch.compiler.is_compiling():
        return _Eager.apply(op, sizes, final, wants, *given)
    operands = _operands(op, given)
    if op == SSD:
        return ssd(*(t for k, t in enumerate(operands) if k != Z), *sizes.values(), final, wants)[:2]
    y, state = selective_scan(*operands, final, wants)[:2]
    return y.transpose(1, 2), state


# ---- the reference's functions ----

def _float(t):
    return None if t is None else t.float()


def _wants(*tensors):
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


class _Gate(torch.autograd.Function):
    """y silu(z), each result rounded once: PyTorch would round silu(z) too, and keep it."""

    @staticmethod
    def forward(ctx, y, z):
        ctx.save_for_backward(y, z)
        return (y.float() * torch.nn.functional.silu(z.float())).to(y.dtype)

    @staticmethod
    def backward(ctx, dout):
        y, z = ctx.saved_tensors
        dout, wide = dout.float(), z.float()
        slope = torch.sigmoid(wide)
        gate = wide * slope
        return (dout * gate).to(y.dtype), (dout * y.float() * (slope + gate * (1 - slope))).to(z.dtype)


def mamba_chunk_scan_combined(x, dt, A, B, C, chunk_size, D=None, z=None, dt_bias=None, initial_states=None,
                              seq_idx=None, cu_seqlens=None, dt_softplus=False, dt_limit=(0.0, float("inf")),
                              return_final_states=False, return_varlen_states=False, state_dtype=None, variant=""):
    """x (B, L, H, P), dt (B, L, H), A (H), B and C (B, L, G, N) -> y, or (y, final states) in float32.

    The chunk only moves roundings. z gates y behind the kernel. The first token takes initial_states, whatever its
    seq_idx. variant: kernels by name, which refuse what they do not take; "exact" rounds nothing but results to bf16,
    and takes longer (default: the first that takes the shape)."""
    unsupported(return_varlen_states, "states at the ends of documents (return_varlen_states)")
    unsupported(state_dtype not in (None, torch.float32), f"states of type {state_dtype}; they are float32")
    require(x.dim() == 4 and B.dim() == 4, "x is (B, L, H, P) and B is (B, L, G, N)")
    check_types({"x": x, "dt": dt, "B": B, "C": C, "z": z})
    (batch, length, heads, width), (groups, state) = x.shape, B.shape[2:]
    require(heads % groups == 0, f"{heads} heads do not share {groups} groups")
    for name, t, shape in (("dt", dt, (batch, length, heads)), ("A", A, (heads,)), ("z", z, x.shape),
                           ("B", B, (batch, length, groups, state)), ("C", C, B.shape), ("dt_bias", dt_bias, (heads,)),
                           ("seq_idx", seq_idx, (batch, length)),
                           ("initial_states", initial_states, (batch, heads, width, state)),
                           ("D", D, (heads,) if D is None or D.dim() == 1 else (heads, width))):
        check_shape(name, t, shape)
    require(seq_idx is None or not seq_idx.is_floating_point(), "seq_idx is a whole number for every token")
    if seq_idx is not None and seq_idx.dtype == torch.int64:
        check_values((seq_idx == seq_idx.int()).all(), "a seq_idx beyond 32 bits; the kernels hold it in so many")
    require(dt_limit[1] > 0, f"dt_limit is {tuple(dt_limit)}; no step lies below an upper limit of 0")
    if not dt_softplus:
        dt, dt_bias = before_softplus(dt, dt_bias), None
    y, final = _call_operator(SSD, [x, dt, B, C, None, A, D, dt_bias, seq_idx, initial_states],
                              bool(return_final_states), chunk=int(chunk_size), dt_min=float(dt_limit[0]),
                              dt_max=float(dt_limit[1]), variant=variant)
    if z is not None:
        y = _Gate.apply(y, z)
    return (y, final) if return_final_states else y


def _tokens_first(t):
    """(B, N, L) or (B, G, N, L) as (B, L, G, N)."""
    return t.transpose(1, 2).unsqueeze(2) if t.dim() == 3 else t.permute(0, 3, 1, 2)


def selective_scan_fn(u, delta, A, B, C, D=None, z=None, delta_bias=None, delta_softplus=False,
                      return_last_state=False):
    """u, delta, z (B, D, L), A (D, N), B and C (B, N, L) or (B, G, N, L) -> out, or (out, last state in float32).

    The kernels want channels side by side: u, delta, z whose memory is (B, L, D) are taken as they are, others are
    copied; out is a transposed view of (B, L, D), so that a following rearrange to tokens first costs nothing. A
    gradient flows through the last state too."""
    unsupported(A.is_complex() or B.is_complex() or C.is_complex(), "complex A; the kernels hold real states")
    require(u.dim() == 3, "u is (B, D, L)")
    check_types({"u": u, "delta": delta, "B": B, "C": C, "z": z})
    batch, channels, length = u.shape
    for name, t in (("B", B), ("C", C)):
        unsupported(t.dim() == 2, f"a {name} that does not change from token to token; (B, N, L) or (B, G, N, L)")
        require(t.dim() in (3, 4), f"{name} is (B, N, L) or (B, G, N, L)")
    groups, state = B.shape[1] if B.dim() == 4 else 1, B.shape[-2]
    require(channels % groups == 0, f"{channels} channels do not share {groups} groups")
    for name, t, shape in (("delta", delta, u.shape), ("A", A, (channels, state)), ("z", z, u.shape),
                           ("B", B, (batch, *(() if B.dim() == 3 else (groups,)), state, length)),
                           ("C", C, (batch, *(() if C.dim() == 3 else (groups,)), state, length)),
                           ("D", D, (channels,)), ("delta_bias", delta_bias, (channels,))):
        check_shape(name, t, shape)
    require(C.dim() == 4 or groups == 1, f"C is (B, N, L), B has {groups} groups")
    if not delta_softplus:
        delta = before_softplus(delta, None if delta_bias is None else delta_bias.float()[:, None])
        delta_bias = None
    out, last = _call_operator(SCAN, [u, delta, B, C, z, A, D, delta_bias, None, None], bool(return_last_state))
    return (out, last) if return_last_state else out


# ---- in an installed mamba_ssm ----

_REPLACED = {"mamba_ssm.ops.triton.ssd_combined": ("mamba_chunk_scan_combined", mamba_chunk_scan_combined),
             "mamba_ssm.ops.selective_scan_interface": ("selective_scan_fn", selective_scan_fn)}
_originals = []


def install():
    """Replaces the two functions wherever a loaded module of mamba_ssm has them; returns these places. Models reach
    them with use_mem_eff_path=False (Mamba2) and use_fast_path=False (Mamba); their default paths call neither."""
    uninstall()
    for home, (name, ours) in _REPLACED.items():
        original = getattr(importlib.import_module(home), name)
        for path, module in list(sys.modules.items()):
            if path.split(".")[0] == "mamba_ssm" and getattr(module, name, None) is original:
                setattr(module, name, ours)
                _originals.append((module, name, original))
    return [f"{module.__name__}.{name}" for module, name, _ in _originals]


def uninstall():
    """Puts the original functions back."""
    while _originals:
        setattr(*_originals.pop())
