# SPDX-License-Identifier: Apache-2.0
"""native -- libmambascope_kernels.so through ctypes: its structs (include/mba_kernels.h), plans, and which views of
tensors it takes as they are."""
import ctypes
import functools
import os
import re

import torch

# ---- include/mba_kernels.h ----

SSD, SCAN, CONV1D, GATED_NORM = range(4)
X, DT, B_, C_, Z, A_LOG, D_, DT_BIAS, IDS, INITIAL = range(10)
WEIGHT, BIAS = A_LOG, DT_BIAS                 # of conv1d and the gated norm
GRADS_DENSE, GRADS_STRIDED = 1, 2
Y, FINAL = range(2)
OPERANDS, ACTIVATIONS, RESULTS = 10, 5, 2
ALL_OPTIONAL = (Z, D_, DT_BIAS, IDS, INITIAL)


class StridedView(ctypes.Structure):
    _fields_ = [("stride", ctypes.c_int64 * 4), ("skew", ctypes.c_int64)]


class Desc(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_size_t), ("op", ctypes.c_int32), ("type", ctypes.c_int32)] + [
        (name, ctypes.c_int64) for name in ("batch", "length", "heads", "head_dim", "groups", "state", "chunk")] + [
        ("given", ctypes.c_uint32), ("d_per_channel", ctypes.c_int32), ("final", ctypes.c_int32),
        ("backward", ctypes.c_int32), ("dt_min", ctypes.c_double), ("dt_max", ctypes.c_double),
        ("view", StridedView * ACTIVATIONS), ("variant", ctypes.c_char_p)]


class Machine(ctypes.Structure):
    _fields_ = [("cc", ctypes.c_int32), ("sms", ctypes.c_int32), ("regs_sm", ctypes.c_int32),
                ("threads_sm", ctypes.c_int32), ("smem_block_bytes", ctypes.c_int64), ("smem_sm_bytes", ctypes.c_int64)]


class Pointers(ctypes.Structure):
    _fields_ = [("in_", ctypes.c_void_p * OPERANDS), ("out", ctypes.c_void_p * RESULTS),
                ("dout", ctypes.c_void_p * RESULTS), ("din", ctypes.c_void_p * OPERANDS),
                ("saved", ctypes.c_void_p), ("work", ctypes.c_void_p)]


def library_path():
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
    lib = ctypes.CDLL(library_path())
    plan = ctypes.c_void_p
    for name, result, arguments in (
            ("plan_create", ctypes.c_int, [ctypes.POINTER(plan), ctypes.POINTER(Desc), ctypes.POINTER(Machine)]),
            ("forward", ctypes.c_int, [plan, ctypes.POINTER(Pointers), ctypes.c_void_p]),
            ("backward", ctypes.c_int, [plan, ctypes.POINTER(Pointers), ctypes.c_void_p]),
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
        desc = Desc(bytes=ctypes.sizeof(Desc), **sizes)
        for k, view in enumerate(views):
            if view:
                strides, skew = view
                desc.view[k] = StridedView((ctypes.c_int64 * 4)(*strides), skew)
        _try(library().mba_kernels_plan_create(ctypes.byref(self._plan), ctypes.byref(desc),
                                               ctypes.byref(Machine(**machine)) if machine is not None else None))
        self.saved_bytes = library().mba_kernels_saved_bytes(self._plan)
        self.work_bytes = tuple(library().mba_kernels_work_bytes(self._plan, way) for way in (0, 1))
        self.variants = tuple(library().mba_kernels_variant(self._plan, way).decode() for way in (0, 1))

    def __del__(self):
        if getattr(self, "_plan", None):
            self._destroy(self._plan)

    def run(self, backward, pointers, device, work=None):
        """work: memory that several plans share, which run one after the other."""
        if work is None:
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
def plan_of(device, views, sizes):
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


def regular(t):
    return t if t.is_contiguous() or _takes(t.shape, t.stride()) else t.contiguous()


def aligned(t):
    t = t.contiguous()
    return t if t.data_ptr() % 16 == 0 else t.clone()


def view_of(t):
    return (t.stride() + (0,) * (4 - t.dim()), t.data_ptr() % 16 // t.element_size()) if t is not None else None


class Call:
    """Operands as the library takes them, and the plan for them."""

    def __init__(self, op, operands, final, backward, **sizes):
        self.operands = [None if t is None else regular(t) if k < ACTIVATIONS else aligned(t)
                         for k, t in enumerate(operands)]
        x, b = self.operands[X], self.operands[B_]
        self.device = x.device
        sizes["variant"] = sizes.get("variant", "").encode() or None
        sizes.update(op=op, type=int(x.dtype == torch.bfloat16), batch=x.shape[0], length=x.shape[1], heads=x.shape[2],
                     head_dim=x.shape[3] if op == SSD else 1, groups=b.shape[2], state=b.shape[3], final=int(final),
                     backward=int(backward), given=sum(1 << k for k in ALL_OPTIONAL if operands[k] is not None),
                     d_per_channel=int(operands[D_] is not None and operands[D_].dim() == 2))
        views = tuple(view_of(t) for t in self.operands[:ACTIVATIONS])
        self.plan = plan_of(self.device, views, tuple(sorted(sizes.items())))
        self.pointers = Pointers()
        for k, t in enumerate(self.operands):
            self.pointers.in_[k] = t.data_ptr() if t is not None else None

    def forward(self, y, final, saved):
        self.pointers.out[Y] = y.data_ptr()
        self.pointers.out[FINAL] = final.data_ptr() if final.numel() else None
        self.pointers.saved = saved.data_ptr()
        self.plan.run(0, self.pointers, self.device)

    def backward(self, dy, dfinal, grads, saved):
        run_backward(self.plan, self.pointers, dy, dfinal, grads, saved)


def run_backward(plan, pointers, dy, dfinal, grads, saved):
    pointers.dout[Y] = dy.data_ptr()
    pointers.dout[FINAL] = dfinal.data_ptr() if dfinal is not None else None
    pointers.saved = saved.data_ptr()
    for k, t in enumerate(grads):
        pointers.din[k] = t.data_ptr() if t is not None else None
    plan.run(1, pointers, dy.device)


