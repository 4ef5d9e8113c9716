# SPDX-License-Identifier: Apache-2.0
"""operators -- ssd and selective_scan: registered with PyTorch for whatever traces them, and called past its dispatcher
where nothing does."""
from typing import List, Optional, Tuple

import torch
from torch import Tensor

from .native import (A_LOG, B_, C_, Call, DT, IDS, SCAN, SSD, X, Z, aligned, run_backward)
from .operands import log_of

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
    return _run_forward(Call(op, operands, final, backward, **sizes), op, final)


def _empty_gradients(operands):
    """Of every operand but ids; an empty tensor where it is absent: an operator returns tensors only."""
    x = operands[X]
    return [x.new_empty(t.shape, dtype=t.dtype) if t is not None and k != IDS else x.new_empty(0)
            for k, t in enumerate(operands)]


def _backward(op, dy, dfinal, saved, operands, final, **sizes):
    call = Call(op, operands, final, True, **sizes)
    grads = _empty_gradients(operands)
    call.backward(aligned(dy), aligned(dfinal) if final else None,
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
        call = Call(op, _operands(op, given), final, backward, **sizes)
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
        return None, None, None, None, *Once.apply(torch.zeros((), requires_grad=True), *grads)

    @staticmethod
    def gradients(ctx, dy, dfinal):
        *operands, saved, A = ctx.saved_tensors
        if ctx.op == SCAN and dy is not None:
            dy = dy.transpose(1, 2)
        dy, dfinal = _seeds(ctx.op, operands[X], operands[B_], dy, dfinal, ctx.final)
        grads = _gradients_again(ctx, operands, aligned(dy), None if dfinal is None else aligned(dfinal), saved)
        grads[A_LOG] = grads[A_LOG] / A                      # of log(-A)
        if ctx.op == SCAN:
            for k in (X, DT, Z):
                grads[k] = None if grads[k] is None else grads[k].transpose(1, 2)
            for k, dims in zip((B_, C_), ctx.shapes):
                grads[k] = grads[k].permute(0, 2, 3, 1) if dims == 4 else grads[k].squeeze(2).transpose(1, 2)
        return grads


class Once(torch.autograd.Function):
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
        run_backward(ctx.plan, ctx.pointers, dy, dfinal, grads, saved)
    else:
        Call(ctx.op, operands, ctx.final, True, **ctx.sizes).backward(dy, dfinal, grads, saved)
    return grads


def _float(t):
    return None if t is None else t.float()


def wants(*tensors):
    """Whether a gradient is asked of any of them."""
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


def _tokens_first(t):
    """(B, N, L) or (B, G, N, L) as (B, L, G, N)."""
    return t.transpose(1, 2).unsqueeze(2) if t.dim() == 3 else t.permute(0, 3, 1, 2)


def _operands(op, given):
    """The kernels' operands of the arguments: tokens first, numbers of parameters in fp32, log(-A)."""
    x, dt, B, C, z, A, D, bias, ids, initial = given
    if op == SCAN:
        x, dt, z = x.transpose(1, 2), dt.transpose(1, 2), None if z is None else z.transpose(1, 2)
        B, C = _tokens_first(B), _tokens_first(C)
    return [x, dt, B, C, z, log_of(A), _float(D), _float(bias), None if ids is None else ids.int(), _float(initial)]


def call_operator(op, given, final, **sizes):
    """Result and final state. The registered operators are for what traces them: compiled models, exports, tensors that
    hold no numbers."""
    back = wants(*given)
    if type(given[X]) is Tensor and not torch.compiler.is_compiling():
        return _Eager.apply(op, sizes, final, back, *given)
    operands = _operands(op, given)
    if op == SSD:
        return ssd(*(t for k, t in enumerate(operands) if k != Z), *sizes.values(), final, back)[:2]
    y, state = selective_scan(*operands, final, back)[:2]
    return y.transpose(1, 2), state


