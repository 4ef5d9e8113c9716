# SPDX-License-Identifier: Apache-2.0
"""comparison -- for mambascope_torch_test and dropin_test: operands, and our functions against others in float64."""
import torch


def leaf(*shape, scale=1.0):
    return (torch.randn(*shape) * scale).requires_grad_()


def wide(arguments):
    """The same numbers in float64, leaves of their own."""
    return {k: t.detach().double().requires_grad_() if torch.is_tensor(t) and t.is_floating_point() else t
            for k, t in arguments.items()}


def assert_agrees(test, ours, reference, arguments, most, only_ours=(), both=True):
    """Results and all gradients, with random gradients on the results. most: error relative to the norm; only_ours:
    what the reference does not take; both: ours returns all results, else the first."""
    exact = wide({k: v for k, v in arguments.items() if k not in only_ours})
    got, want = ours(**arguments), reference(**exact)
    got, want = (got if both else (got,)), (want if isinstance(want, tuple) else (want,))
    want = want if both else want[:1]
    test.assertEqual(len(got), len(want))
    torch.manual_seed(5)
    seeds = [torch.randn_like(w) for w in want]
    torch.autograd.backward(want, seeds)
    torch.autograd.backward(got, [s.float() for s in seeds])
    pairs = [("result", g, w) for g, w in zip(got, want)]
    pairs += [(k, arguments[k].grad, t.grad) for k, t in exact.items() if torch.is_tensor(t) and t.requires_grad]
    for name, g, w in pairs:
        test.assertEqual(tuple(g.shape), tuple(w.shape), name)
        test.assertLess((g.double() - w).norm() / w.norm(), most, name)
