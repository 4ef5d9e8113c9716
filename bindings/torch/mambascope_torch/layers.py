# SPDX-License-Identifier: Apache-2.0
"""layers -- the convolution, the gated norm and the whole of a Mamba-2 mixer between its two projections.

Each is a Layer: forward and backward on tensors and plain numbers. PyTorch knows each as a registered operator, for
whatever traces it; where nothing does, _Direct calls it past the dispatcher."""
import functools
from typing import Callable, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from .native import (A_LOG, B_, BIAS, C_, CONV1D, D_, DT, DT_BIAS, FINAL, GATED_NORM, GRADS_DENSE, GRADS_STRIDED, IDS,
                     INITIAL, Pointers, SSD, WEIGHT, X, Y, Z, aligned, plan_of, regular, view_of)
from .operators import Once


class Layer(NamedTuple):
    forward: Callable            # (tensors, numbers) -> (results, what is kept for the way back)
    backward: Callable           # (gradients of results, tensors, kept, numbers) -> gradients of tensors
    operator: Callable           # the same as a registered operator: (*tensors, *numbers) -> (*results, *kept)
    results: int


class _Direct(torch.autograd.Function):
    @staticmethod
    def forward(ctx, layer, numbers, *tensors):
        results, kept = layer.forward(tensors, numbers)
        ctx.set_materialize_grads(False)
        ctx.layer, ctx.numbers, ctx.count = layer, numbers, len(tensors)
        ctx.save_for_backward(*tensors, *kept)
        return results

    @staticmethod
    def backward(ctx, *grads):
        tensors, kept = ctx.saved_tensors[:ctx.count], ctx.saved_tensors[ctx.count:]
        if not torch.is_grad_enabled():
            return None, None, *ctx.layer.backward(grads, tensors, kept, ctx.numbers)
        with torch.no_grad():                                # asked for with create_graph
            found = ctx.layer.backward(grads, tensors, kept, ctx.numbers)
        return None, None, *Once.apply(torch.zeros((), requires_grad=True), *found)


def call_layer(layer, tensors, numbers):
    if type(tensors[0]) is Tensor and not torch.compiler.is_compiling():
        return _Direct.apply(layer, numbers, *tensors)
    return layer.operator(*tensors, *numbers)[:layer.results]


def _parameter(t):
    """fp32 as the kernels take it; whole numbers as int32."""
    return None if t is None else aligned(t.float() if t.is_floating_point() else t.int())


def _empty(like, shape, dtype=None):
    return torch.empty(shape, dtype=dtype or like.dtype, device=like.device)


def _bytes(like, count):
    return _empty(like, (count,), torch.uint8)


def _seed(like, gradient, shape=None, dtype=None):
    """The gradient of a result, zeros where nothing flows back through it."""
    if gradient is None:
        return torch.zeros(shape or like.shape, dtype=dtype or like.dtype, device=like.device)
    return aligned(gradient)


def _or_empty(like, grads):
    """An operator returns tensors only."""
    return [like.new_empty(0) if g is None else g for g in grads]


def _gradients_of(tensors, grads):
    """Of an operator's list: none for what was not there or has none."""
    return [g if t is not None and t.is_floating_point() else None for g, t in zip(grads, tensors)]


def _point(to, tensors):
    for k, t in tensors.items():
        if t is not None:
            to[k] = t.data_ptr()


# ---- the convolution: x (B, L, D), weight (D, W) ----

def _conv_plan(x, weight, given, silu, final, backward):
    sizes = dict(op=CONV1D, type=int(x.dtype == torch.bfloat16), batch=x.shape[0], length=x.shape[1], heads=x.shape[2],
                 state=weight.shape[1], given=sum(1 << k for k, t in given.items() if t is not None),
                 d_per_channel=int(silu), final=int(final), backward=backward)
    return plan_of(x.device, (view_of(x),), tuple(sizes.items()))


def _conv_operands(tensors):
    x, weight, *others = tensors
    return regular(x), _parameter(weight), dict(zip((BIAS, IDS, INITIAL), map(_parameter, others)))


def _conv_state(x, weight, final):
    return _empty(x, (x.shape[0], weight.shape[1] - 1, x.shape[2]) if final else (0,), torch.float32)


def _conv_forward(tensors, numbers):
    silu, final = numbers
    x, weight, given = _conv_operands(tensors)
    y, state, pointers = _empty(x, x.shape), _conv_state(x, weight, final), Pointers()
    _point(pointers.in_, {X: x, WEIGHT: weight, **given})
    _point(pointers.out, {Y: y, FINAL: state if final else None})
    _conv_plan(x, weight, given, silu, final, 0).run(0, pointers, x.device)
    return (y, state), ()


def _conv_backward(grads, tensors, kept, numbers):
    silu, final = numbers
    x, weight, given = _conv_operands(tensors)
    dy, pointers = _seed(x, grads[0]), Pointers()
    dstate = _seed(x, grads[1], _conv_state(x, weight, True).shape, torch.float32) if final else None
    found = {k: None if t is None or k == IDS else _empty(t, t.shape)
             for k, t in {X: x, WEIGHT: weight, **given}.items()}
    _point(pointers.in_, {X: x, WEIGHT: weight, **given})
    _point(pointers.dout, {Y: dy, FINAL: dstate})
    _point(pointers.din, found)
    _conv_plan(x, weight, given, silu, final, GRADS_DENSE).run(1, pointers, x.device)
    return [found[k] for k in (X, WEIGHT, BIAS, IDS, INITIAL)]


@torch.library.custom_op("mambascope::conv1d", mutates_args=())
def conv1d(x: Tensor, weight: Tensor, bias: Optional[Tensor], ids: Optional[Tensor], initial: Optional[Tensor],
           silu: bool, final: bool) -> Tuple[Tensor, Tensor]:
    """y, and the last W-1 inputs (B, W-1, D) in float32 (empty unless `final`)."""
    return _conv_forward((x, weight, bias, ids, initial), (silu, final))[0]


@conv1d.register_fake
def _(x, weight, bias, ids, initial, silu, final):
    return x.new_empty(x.shape), _conv_state(x, weight, final)


@torch.library.custom_op("mambascope::conv1d_backward", mutates_args=())
def conv1d_backward(dy: Optional[Tensor], dfinal: Optional[Tensor], x: Tensor, weight: Tensor, bias: Optional[Tensor],
                    ids: Optional[Tensor], initial: Optional[Tensor], silu: bool, final: bool) -> List[Tensor]:
    return _or_empty(x, _conv_backward((dy, dfinal), (x, weight, bias, ids, initial), (), (silu, final)))


def _fake_gradients(tensors):
    """Gradients of activations have their types, all others are float32."""
    return [t.new_empty(t.shape, dtype=t.dtype if k == 0 else torch.float32)
            if t is not None and t.is_floating_point() else tensors[0].new_empty(0) for k, t in enumerate(tensors)]


@conv1d_backward.register_fake
def _(dy, dfinal, x, weight, bias, ids, initial, silu, final):
    return _fake_gradients((x, weight, bias, ids, initial))


def _register(operator, backward, tensors, results):
    """Autograd of a registered operator: `backward` is one too, of gradients, kept results, tensors and numbers."""
    def setup(ctx, inputs, output):
        ctx.set_materialize_grads(False)
        ctx.numbers = inputs[tensors:]
        ctx.save_for_backward(*inputs[:tensors], *output[results:])

    def gradients(ctx, *grads):
        given, kept = ctx.saved_tensors[:tensors], ctx.saved_tensors[tensors:]
        found = _gradients_of(given, backward(*grads[:results], *kept, *given, *ctx.numbers))
        return *found, *(None for _ in ctx.numbers)
    operator.register_autograd(gradients, setup_context=setup)


_register(conv1d, conv1d_backward, tensors=5, results=2)
CONVOLUTION = Layer(_conv_forward, _conv_backward, conv1d, results=2)


# ---- the gated norm: x, z (B, L, D), weight (D) ----

def _norm_plan(x, z, groups, eps, backward):
    sizes = dict(op=GATED_NORM, type=int(x.dtype == torch.bfloat16), batch=x.shape[0], length=x.shape[1], heads=groups,
                 head_dim=x.shape[2] // groups, dt_min=eps, backward=backward)
    return plan_of(x.device, (view_of(x), None, None, None, view_of(z)), tuple(sizes.items()))


def _norm_kept(x, groups):
    """1/rms of every group, whatever variant runs; plans ask for no more."""
    return (x.shape[0] * x.shape[1] * groups * 4 + 255) // 256 * 256


def _norm_forward(tensors, numbers):
    groups, eps = numbers
    x, z, weight = regular(tensors[0]), regular(tensors[1]), _parameter(tensors[2])
    y, kept, pointers, plan = _empty(x, x.shape), _bytes(x, _norm_kept(x, groups)), Pointers(), \
        _norm_plan(x, z, groups, eps, GRADS_DENSE)
    assert plan.saved_bytes <= kept.numel()
    _point(pointers.in_, {X: x, Z: z, WEIGHT: weight})
    pointers.out[Y], pointers.saved = y.data_ptr(), kept.data_ptr()
    plan.run(0, pointers, x.device)
    return (y,), (kept,)


def _norm_backward(grads, tensors, kept, numbers):
    groups, eps = numbers
    x, z, weight = regular(tensors[0]), regular(tensors[1]), _parameter(tensors[2])
    dy, pointers, found = _seed(x, grads[0]), Pointers(), {k: _empty(t, t.shape) for k, t in
                                                           ((X, x), (Z, z), (WEIGHT, weight))}
    _point(pointers.in_, {X: x, Z: z, WEIGHT: weight})
    pointers.dout[Y], pointers.saved = dy.data_ptr(), kept[0].data_ptr()
    _point(pointers.din, found)
    _norm_plan(x, z, groups, eps, GRADS_DENSE).run(1, pointers, x.device)
    return list(found.values())


@torch.library.custom_op("mambascope::gated_norm", mutates_args=())
def gated_norm(x: Tensor, z: Tensor, weight: Tensor, groups: int, eps: float) -> Tuple[Tensor, Tensor]:
    """weight q / rms(q) with q = x silu(z), each group of channels by itself; and what the backward needs."""
    (y,), (kept,) = _norm_forward((x, z, weight), (groups, eps))
    return y, kept


@gated_norm.register_fake
def _(x, z, weight, groups, eps):
    return x.new_empty(x.shape), x.new_empty((_norm_kept(x, groups),), dtype=torch.uint8)


@torch.library.custom_op("mambascope::gated_norm_backward", mutates_args=())
def gated_norm_backward(dy: Optional[Tensor], kept: Tensor, x: Tensor, z: Tensor, weight: Tensor, groups: int,
                        eps: float) -> List[Tensor]:
    return _norm_backward((dy,), (x, z, weight), (kept,), (groups, eps))


@gated_norm_backward.register_fake
def _(dy, kept, x, z, weight, groups, eps):
    return [x.new_empty(x.shape), z.new_empty(z.shape), weight.new_empty(weight.shape, dtype=torch.float32)]


_register(gated_norm, gated_norm_backward, tensors=3, results=1)
GATED = Layer(_norm_forward, _norm_backward, gated_norm, results=1)


# ---- the mixer of Mamba-2: zxbcdt (B, L, z | x B C | dt) -> the gated norm of the SSD of the convolution ----

class _Mixer:
    """The three plans of a mixer. Activations are columns of the projection, and so are their gradients; x, B and C of
    the convolution are columns of one matrix, which is computed again on the way back instead of being kept."""

    def __init__(self, device, dtype, shape, heads, width, groups, taps, given, silu, chunk, norm, limits, final, back):
        batch, length, row = shape
        self.inner, inner = heads * width, heads * width
        self.mixed = row - inner - heads                        # x, B and C
        state = (self.mixed - inner) // (2 * groups)
        self.columns = dict(zip((X, B_, C_), (0, inner, inner + groups * state)))
        self.dt_column = inner + self.mixed
        vector = 16 // dtype.itemsize

        def view(column, pitch, *inside):
            return ((length * pitch, pitch, *inside, 1) + (0, 0))[:4], column % vector
        sizes = dict(type=int(dtype == torch.bfloat16), batch=batch, length=length, backward=back and GRADS_STRIDED)
        conv_given, ssd_given, per_channel = given
        self.conv = plan_of(device, (view(inner, row),), tuple(dict(
            sizes, op=CONV1D, heads=self.mixed, state=taps, given=conv_given, d_per_channel=int(silu)).items()))
        self.ssd = plan_of(device, (view(0, self.mixed, width), view(self.dt_column, row),
                                    *(view(self.columns[k], self.mixed, state) for k in (B_, C_))),
                           tuple(dict(sizes, op=SSD, heads=heads, head_dim=width, groups=groups, state=state,
                                      chunk=chunk, given=ssd_given, d_per_channel=per_channel, dt_min=limits[0],
                                      dt_max=limits[1], final=int(final)).items()))
        self.norm = plan_of(device, (view(0, inner), None, None, None, view(0, row)), tuple(dict(
            sizes, op=GATED_NORM, heads=norm[0], head_dim=inner // norm[0], dt_min=norm[1]).items()))
        plans = (self.conv, self.ssd, self.norm)
        self.ssd_kept = (self.ssd.saved_bytes + 255) // 256 * 256
        self.kept_bytes = self.ssd_kept + (self.norm.saved_bytes + 255) // 256 * 256
        self.work_bytes = [max(p.work_bytes[way] for p in plans) + 256 for way in (0, 1)]
        self.state_shape = (batch, heads, width, state)


@functools.lru_cache(maxsize=256)
def _mixer(*key):
    return _Mixer(*key)


def _mixer_of(tensors, numbers, back):
    zxbcdt, conv_weight, conv_bias, _, A, D, _, ids, initial = tensors
    groups, width, chunk, silu, norm_groups, eps, dt_min, dt_max, final, _ = numbers
    conv_given = (1 << BIAS if conv_bias is not None else 0) | (1 << IDS if ids is not None else 0)
    ssd_given = 1 << DT_BIAS | (1 << D_ if D is not None else 0) | (1 << IDS if ids is not None else 0) | (
        1 << INITIAL if initial is not None else 0)
    return _mixer(zxbcdt.device, zxbcdt.dtype, tuple(zxbcdt.shape), A.shape[0], width, groups, conv_weight.shape[1],
                  (conv_given, ssd_given, int(D is not None and D.dim() == 2)), silu, chunk, (norm_groups, eps),
                  (dt_min, dt_max), final, back)


class _Memory:
    """What the three plans of a call read and write."""

    def __init__(self, m, tensors):
        self.zxbcdt = aligned(tensors[0])
        self.conv_weight, self.conv_bias, self.dt_bias, self.A, self.D, self.norm_weight, self.ids, self.initial = map(
            _parameter, tensors[1:])
        self.A_log = torch.log(-self.A)
        self.size = self.zxbcdt.element_size()
        self.u = _empty(self.zxbcdt, (*self.zxbcdt.shape[:2], m.mixed))

    def conv(self, m, base, target):
        """Pointers of the convolution: columns of a projection at `base` in, a matrix at `target` out."""
        p = Pointers()
        _point(p.in_, {WEIGHT: self.conv_weight, BIAS: self.conv_bias, IDS: self.ids})
        p.in_[X], p.out[Y] = base + m.inner * self.size, target
        return p

    def ssd(self, m):
        p, base = Pointers(), self.u.data_ptr()
        _point(p.in_, {A_LOG: self.A_log, D_: self.D, DT_BIAS: self.dt_bias, IDS: self.ids, INITIAL: self.initial})
        for k, column in m.columns.items():
            p.in_[k] = base + column * self.size
        p.in_[DT] = self.zxbcdt.data_ptr() + m.dt_column * self.size
        return p

    def norm(self, y):
        p = Pointers()
        p.in_[X], p.in_[Z], p.in_[WEIGHT] = y.data_ptr(), self.zxbcdt.data_ptr(), self.norm_weight.data_ptr()
        return p


def _mixer_forward(tensors, numbers):
    final, back = numbers[-2:]
    m = _mixer_of(tensors, numbers, back)
    at, shape = _Memory(m, tensors), tensors[0].shape
    device = at.zxbcdt.device
    y, v = (_empty(at.zxbcdt, (*shape[:2], m.inner)) for _ in range(2))
    state = _empty(at.zxbcdt, m.state_shape if final else (0,), torch.float32)
    kept, work = _bytes(y, m.kept_bytes), _bytes(y, m.work_bytes[0])
    m.conv.run(0, at.conv(m, at.zxbcdt.data_ptr(), at.u.data_ptr()), device, work)
    p = at.ssd(m)
    p.out[Y], p.out[FINAL], p.saved = y.data_ptr(), state.data_ptr() if final else None, kept.data_ptr()
    m.ssd.run(0, p, device, work)
    p = at.norm(y)
    p.out[Y], p.saved = v.data_ptr(), kept.data_ptr() + m.ssd_kept
    m.norm.run(0, p, device, work)
    return (v, state), (y, kept)


def _mixer_backward(grads, tensors, kept, numbers):
    final = numbers[-2]
    m = _mixer_of(tensors, numbers, True)
    at, (y, kept) = _Memory(m, tensors), kept
    device, work = y.device, _bytes(y, m.work_bytes[1])
    dv = _seed(y, grads[0])
    dstate = _seed(y, grads[1], m.state_shape, torch.float32) if final else None
    dwide, dy, du = torch.empty_like(at.zxbcdt), _empty(y, y.shape), _empty(y, at.u.shape)
    d = {name: None if t is None else _empty(t, t.shape) for name, t in
         (("conv_weight", at.conv_weight), ("conv_bias", at.conv_bias), ("dt_bias", at.dt_bias), ("A", at.A_log),
          ("D", at.D), ("norm_weight", at.norm_weight), ("initial", at.initial))}
    p = at.norm(y)
    p.dout[Y], p.saved = dv.data_ptr(), kept.data_ptr() + m.ssd_kept
    p.din[X], p.din[Z] = dy.data_ptr(), dwide.data_ptr()
    _point(p.din, {WEIGHT: d["norm_weight"]})
    m.norm.run(1, p, device, work)
    if m.work_bytes[0] > m.work_bytes[1]:
        work = _bytes(y, m.work_bytes[0])
    m.conv.run(0, at.conv(m, at.zxbcdt.data_ptr(), at.u.data_ptr()), device, work)
    p = at.ssd(m)
    p.dout[Y], p.dout[FINAL], p.saved = dy.data_ptr(), dstate.data_ptr() if final else None, kept.data_ptr()
    for k, column in m.columns.items():
        p.din[k] = du.data_ptr() + column * at.size
    p.din[DT] = dwide.data_ptr() + m.dt_column * at.size
    _point(p.din, {A_LOG: d["A"], D_: d["D"], DT_BIAS: d["dt_bias"], INITIAL: d["initial"]})
    m.ssd.run(1, p, device, work)
    p = at.conv(m, at.zxbcdt.data_ptr(), 0)
    p.dout[Y], p.din[X] = du.data_ptr(), dwide.data_ptr() + m.inner * at.size
    _point(p.din, {WEIGHT: d["conv_weight"], BIAS: d["conv_bias"]})
    m.conv.run(1, p, device, work)
    return [dwide, d["conv_weight"], d["conv_bias"], d["dt_bias"], d["A"] / at.A, d["D"], d["norm_weight"], None,
            d["initial"]]


@torch.library.custom_op("mambascope::mamba2_mixer", mutates_args=())
def mamba2_mixer(zxbcdt: Tensor, conv_weight: Tensor, conv_bias: Optional[Tensor], dt_bias: Tensor, A: Tensor,
                 D: Optional[Tensor], norm_weight: Tensor, ids: Optional[Tensor], initial: Optional[Tensor],
                 groups: int, width: int, chunk: int, silu: bool, norm_groups: int, eps: float, dt_min: float,
                 dt_max: float, final: bool, backward: bool) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gated norm's result, the final state (empty unless `final`), and two tensors that the backward needs."""
    tensors = (zxbcdt, conv_weight, conv_bias, dt_bias, A, D, norm_weight, ids, initial)
    numbers = (groups, width, chunk, silu, norm_groups, eps, dt_min, dt_max, final, backward)
    results, kept = _mixer_forward(tensors, numbers)
    return *results, *kept


@mamba2_mixer.register_fake
def _(zxbcdt, conv_weight, conv_bias, dt_bias, A, D, norm_weight, ids, initial, groups, width, chunk, silu, norm_groups,
      eps, dt_min, dt_max, final, backward):
    inner, known = A.shape[0] * width, all(isinstance(n, int) for n in zxbcdt.shape)
    state = (conv_weight.shape[0] - inner) // (2 * groups)
    v = zxbcdt.new_empty((*zxbcdt.shape[:2], inner))
    final_state = zxbcdt.new_empty((zxbcdt.shape[0], A.shape[0], width, state) if final else (0,), dtype=torch.float32)
    if known:
        numbers = (groups, width, chunk, silu, norm_groups, eps, dt_min, dt_max, final, backward)
        kept = _mixer_of((zxbcdt, conv_weight, conv_bias, dt_bias, A, D, norm_weight, ids, initial), numbers,
                         backward).kept_bytes
    else:
        kept = torch.library.get_ctx().new_dynamic_size()       # only a plan knows it
    return v, final_state, torch.empty_like(v), zxbcdt.new_empty((kept,), dtype=torch.uint8)


@torch.library.custom_op("mambascope::mamba2_mixer_backward", mutates_args=())
def mamba2_mixer_backward(dv: Optional[Tensor], dfinal: Optional[Tensor], y: Tensor, kept: Tensor, zxbcdt: Tensor,
                          conv_weight: Tensor, conv_bias: Optional[Tensor], dt_bias: Tensor, A: Tensor,
                          D: Optional[Tensor], norm_weight: Tensor, ids: Optional[Tensor], initial: Optional[Tensor],
                          groups: int, width: int, chunk: int, silu: bool, norm_groups: int, eps: float, dt_min: float,
                          dt_max: float, final: bool, backward: bool) -> List[Tensor]:
    tensors = (zxbcdt, conv_weight, conv_bias, dt_bias, A, D, norm_weight, ids, initial)
    numbers = (groups, width, chunk, silu, norm_groups, eps, dt_min, dt_max, final, backward)
    return _or_empty(zxbcdt, _mixer_backward((dv, dfinal), tensors, (y, kept), numbers))


@mamba2_mixer_backward.register_fake
def _(dv, dfinal, y, kept, *rest):
    return _fake_gradients(rest[:9])


_register(mamba2_mixer, mamba2_mixer_backward, tensors=9, results=2)
MIXER = Layer(_mixer_forward, _mixer_backward, mamba2_mixer, results=2)
