# SPDX-License-Identifier: Apache-2.0
"""mambascope_torch_test -- the binding on the CPU: arguments, views, gradients and refusals. Ends with 77 where PyTorch
or the library is missing, as ctest wants it of a skipped test.

The library runs fp32 on host pointers as it runs on a GPU's, so all but the launches is proved here."""
import ctypes
import os
import sys

try:
    import unittest                      # not in Debian's python3-minimal
    import torch
    import mambascope_torch as mt
    mt.library()
except (ImportError, OSError) as missing:
    print("skipped:", missing)
    sys.exit(77)

from comparison import assert_agrees, leaf, wide
from mambascope_torch import native, recurrence

PEERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/peers")


def ssd_arguments(batch=2, length=37, heads=4, width=6, groups=2, state=5):
    torch.manual_seed(3)
    return dict(x=leaf(batch, length, heads, width), dt=leaf(batch, length, heads),
                A=(-torch.rand(heads) - 0.2).requires_grad_(), B=leaf(batch, length, groups, state),
                C=leaf(batch, length, groups, state))


def scan_arguments(batch=2, length=21, channels=6, state=4, groups=None):
    torch.manual_seed(4)
    shape = (batch, state, length) if groups is None else (batch, groups, state, length)
    return dict(u=leaf(batch, channels, length), delta=leaf(batch, channels, length),
                A=(-torch.rand(channels, state) - 0.2).requires_grad_(), B=leaf(*shape), C=leaf(*shape))


class Binding(unittest.TestCase):
    def agrees(self, ours, reference, arguments, kept=(), both=True):
        """kept: what only our function takes."""
        assert_agrees(self, ours, reference, arguments, 2e-6, kept, both)      # sums of some hundred fp32 products

    def test_ssd(self):
        self.agrees(mt.mamba_chunk_scan_combined, recurrence.ssd,
                    dict(ssd_arguments(), chunk_size=16, dt_softplus=True), ("chunk_size",), both=False)

    def test_ssd_with_everything(self):
        a = dict(ssd_arguments(), D=leaf(4, 6), z=leaf(2, 37, 4, 6), dt_bias=leaf(4), initial_states=leaf(2, 4, 6, 5),
                 seq_idx=torch.tensor([[0] * 11 + [1] * 26, [0] * 30 + [1] * 7]), dt_limit=(0.3, 1.4), dt_softplus=True,
                 chunk_size=16, return_final_states=True)
        self.agrees(mt.mamba_chunk_scan_combined, recurrence.ssd, a, ("chunk_size", "return_final_states"))

    def test_ssd_with_ready_steps(self):
        a = dict(ssd_arguments(), D=leaf(4), chunk_size=16)
        a["dt"] = torch.nn.functional.softplus(a["dt"].detach()).requires_grad_()
        self.agrees(mt.mamba_chunk_scan_combined, recurrence.ssd, a, ("chunk_size",), both=False)

    def test_ssd_views_of_one_matrix(self):
        torch.manual_seed(6)
        wide_row = leaf(2, 19, 4 * 6 + 2 * 2 * 5 + 3)
        x, B, C, _ = wide_row.split([24, 10, 10, 3], dim=-1)
        views = dict(x=x.unflatten(2, (4, 6)), B=B.unflatten(2, (2, 5)), C=C.unflatten(2, (2, 5)))
        for name, view in views.items():
            self.assertFalse(view.is_contiguous())
            self.assertIs(native.regular(view), view, name)
        a = dict(ssd_arguments(length=19), **{k: v.detach().requires_grad_() for k, v in views.items()})
        for name in views:
            self.assertFalse(a[name].is_contiguous(), name)
        self.agrees(mt.mamba_chunk_scan_combined, recurrence.ssd, dict(a, chunk_size=8, dt_softplus=True),
                    ("chunk_size",), both=False)

    def test_views_that_must_be_copied(self):
        a = ssd_arguments()
        a["x"] = a["x"].detach().transpose(0, 1).contiguous().transpose(0, 1).requires_grad_()     # tokens before batch
        self.assertIsNot(native.regular(a["x"]), a["x"])
        a["dt"] = torch.randn(2, 37, 8)[:, :, ::2].detach().requires_grad_()
        self.assertIsNot(native.regular(a["dt"]), a["dt"])
        self.agrees(mt.mamba_chunk_scan_combined, recurrence.ssd, dict(a, chunk_size=16, dt_softplus=True),
                    ("chunk_size",), both=False)

    def test_scan(self):
        self.agrees(mt.selective_scan_fn, recurrence.scan, dict(scan_arguments(), delta_softplus=True), both=False)

    def test_scan_with_everything(self):
        a = dict(scan_arguments(groups=3), D=leaf(6), z=leaf(2, 6, 21), delta_bias=leaf(6), delta_softplus=True,
                 return_last_state=True)
        self.agrees(mt.selective_scan_fn, recurrence.scan, a, ("return_last_state",))

    def test_scan_with_ready_steps_and_tokens_first_memory(self):
        a = dict(scan_arguments(), delta_bias=(0.1 * torch.rand(6)).requires_grad_())
        a["delta"] = torch.nn.functional.softplus(a["delta"].detach()).requires_grad_()
        a["u"] = a["u"].detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_()
        self.agrees(mt.selective_scan_fn, recurrence.scan, a, both=False)

    def test_no_gradients_and_some(self):
        a = ssd_arguments()
        with torch.no_grad():
            y = mt.mamba_chunk_scan_combined(**a, chunk_size=16, dt_softplus=True)
        self.assertFalse(y.requires_grad)
        for name in ("dt", "A", "B", "C"):
            a[name] = a[name].detach()
        z = mt.mamba_chunk_scan_combined(**a, chunk_size=16, dt_softplus=True)
        self.assertTrue(torch.equal(y, z))
        z.sum().backward()
        self.assertIsNotNone(a["x"].grad)

    def test_only_the_final_state_has_a_gradient(self):
        a = ssd_arguments()
        _, final = mt.mamba_chunk_scan_combined(**a, chunk_size=16, dt_softplus=True, return_final_states=True)
        final.square().sum().backward()
        exact = wide(a)
        recurrence.ssd(**exact, dt_softplus=True)[1].square().sum().backward()
        error = (a["x"].grad - exact["x"].grad).norm() / exact["x"].grad.norm()
        self.assertLess(error, 2e-6)
        self.assertEqual(float(a["C"].grad.abs().max()), 0)

    def refuses(self, kind, words, function, **arguments):
        with self.assertRaises(kind) as caught:
            function(**arguments)
        self.assertIn(words, str(caught.exception))

    def test_refusals_name_the_reason(self):
        ssd, a = mt.mamba_chunk_scan_combined, dict(ssd_arguments(), chunk_size=16, dt_softplus=True)
        self.refuses(ValueError, "log(-A)", ssd, **dict(a, A=torch.tensor([-1.0, -1, 0.5, -1])))
        self.refuses(ValueError, "bfloat16 or float16", ssd, **dict(a, x=a["x"].double()))
        self.refuses(ValueError, "dt is (2, 37, 3)", ssd, **dict(a, dt=a["dt"][:, :, :3]))
        self.refuses(ValueError, "do not share", ssd, **dict(a, B=torch.randn(2, 37, 3, 5), C=torch.randn(2, 37, 3, 5)))
        self.refuses(ValueError, "not positive", ssd, **dict(a, dt_softplus=False))
        self.refuses(NotImplementedError, "return_varlen_states", ssd, **dict(a, return_varlen_states=True))
        self.refuses(NotImplementedError, "float32", ssd, **dict(a, state_dtype=torch.bfloat16))
        self.refuses(ValueError, "upper limit of 0", ssd, **dict(a, dt_limit=(0.0, 0.0)))
        self.refuses(ValueError, "whole number", ssd, **dict(a, seq_idx=torch.rand(2, 37)))
        self.refuses(ValueError, "beyond 32 bits", ssd, **dict(a, seq_idx=torch.tensor([[0] * 9 + [1 << 32] * 28] * 2)))
        self.refuses(NotImplementedError, "cu_seqlens without", ssd, **dict(a, cu_seqlens=torch.tensor([0, 37])))
        scan, b = mt.selective_scan_fn, dict(scan_arguments(), delta_softplus=True)
        self.refuses(NotImplementedError, "complex", scan, **dict(b, A=b["A"] + 1j))
        self.refuses(NotImplementedError, "from token to token", scan, **dict(b, B=torch.randn(6, 4)))
        self.refuses(ValueError, "A is (6, 3)", scan, **dict(b, A=b["A"][:, :3]))

    def test_a_gradient_of_the_gradient_is_refused(self):
        """A penalty on gradients would otherwise be a constant, or lack all that the kernels did."""
        ssd, scan = mt.mamba_chunk_scan_combined, mt.selective_scan_fn
        for function, a, of in ((ssd, dict(ssd_arguments(), chunk_size=16, dt_softplus=True), "x"),
                                (ssd, dict(ssd_arguments(), chunk_size=16, dt_softplus=True, z=leaf(2, 37, 4, 6)), "A"),
                                (scan, dict(scan_arguments(), delta_softplus=True), "u")):
            first, = torch.autograd.grad(function(**a).sum(), a[of])
            slope, = torch.autograd.grad(function(**a).sum(), a[of], create_graph=True)
            self.assertTrue(torch.equal(first, slope))
            with self.assertRaises(RuntimeError) as caught:
                slope.square().sum().backward()
            self.assertIn("gradient of a gradient", str(caught.exception))

    def test_plans_for_a_machine_that_is_not_there(self):
        h200 = dict(cc=90, sms=132, regs_sm=65536, threads_sm=2048, smem_block_bytes=232448, smem_sm_bytes=233472)
        sizes = dict(op=mt.SSD, type=1, batch=8, length=2048, heads=24, head_dim=64, groups=1, state=128, backward=1)
        plan = mt.Plan((), machine=h200, **sizes)
        self.assertEqual(plan.variants, ("fused", "fused"))
        self.assertGreater(plan.work_bytes[1], plan.work_bytes[0])
        chunked = mt.Plan((), machine=h200, **sizes, variant=b"chunked")
        self.assertEqual(chunked.variants, ("chunked", "chunked"))
        with self.assertRaises(RuntimeError) as caught:
            mt.Plan((), machine=h200, **dict(sizes, head_dim=264), variant=b"fused")
        self.assertIn("heads of 264", str(caught.exception))

    def test_operators_are_what_torch_expects(self):
        a = ssd_arguments(length=9)
        kinds = ("test_schema", "test_autograd_registration", "test_faketensor")
        A_log = a["A"].detach().neg().log().requires_grad_()
        arguments = (a["x"], a["dt"], a["B"], a["C"], A_log, leaf(4), leaf(4), None, None, 16, 0.0, float("inf"), "",
                     True, True)
        torch.library.opcheck(mt.ssd, arguments, test_utils=kinds)
        b = scan_arguments()
        A_log = b["A"].detach().neg().log().requires_grad_()
        arguments = (b["u"].transpose(1, 2), b["delta"].transpose(1, 2), b["B"].permute(0, 2, 1)[:, :, None],
                     b["C"].permute(0, 2, 1)[:, :, None], None, A_log, None, None, None, None, True, True)
        torch.library.opcheck(mt.selective_scan, arguments, test_utils=kinds)

    def test_the_comparison_with_the_peer_calls_them_rightly(self):
        """tools/peers/kernels.py needs a GPU and mamba_ssm: what it asks of us is asked here as well."""
        sys.path.insert(0, PEERS)
        import kernels
        a, b = ssd_arguments(length=9, width=8, state=8, groups=1), scan_arguments()
        b = {k: t.transpose(1, 2).contiguous() if k != "A" else t for k, t in b.items()}
        ssd = dict(a, D=leaf(4), bias=leaf(4), dy=torch.randn_like(a["x"]))
        scan = dict(b, B=b["B"][:, :, None], C=b["C"][:, :, None], z=leaf(*b["u"].shape), D=leaf(6), bias=leaf(6),
                    A_log=b["A"].neg().log(), dy=torch.randn_like(b["u"]))
        for (forward, backward), inputs in ((kernels.ours_ssd(ssd), 7), (kernels.ours_scan(scan), 8)):
            kept = forward(True)[2]
            self.assertEqual(forward(False)[2].numel(), 0)
            with torch.no_grad():
                self.assertEqual(sum(g.numel() > 0 for g in backward(kept)), inputs)

    def test_compiled_is_the_same(self):
        def loss(x, dt, A, B, C):
            return mt.mamba_chunk_scan_combined(x, dt, A, B, C, 16, dt_softplus=True).square().sum()
        a = ssd_arguments(length=9)
        compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
        want = torch.autograd.grad(loss(**a), list(a.values()))
        got = torch.autograd.grad(compiled(**a), list(a.values()))
        for name, g, w in zip(a, got, want):
            self.assertTrue(torch.equal(g, w), name)

    def test_structs_lie_as_the_library_promises(self):
        """src/kernels/abi.0, which elf_test holds the header to."""
        structs = {"strided_view": native.StridedView, "window": native.StridedView, "desc": native.Desc,
                   "machine": native.Machine, "pointers": native.Pointers}
        with open(os.path.join(os.path.dirname(PEERS), "..", "src", "kernels", "abi.0"), encoding="utf-8") as file:
            lines = [line.split() for line in file if line.startswith(("struct", "field"))]
        self.assertGreater(len(lines), 30)
        for line in lines:
            name, _, field = line[1].partition("mba_kernels_")[2].partition(".")
            if (name, field) == ("desc", "window"):         # the earlier name of `view`
                field = "view"
            if field:
                place = getattr(structs[name], "in_" if field == "in" else field)
                self.assertEqual([place.offset, place.size], [int(n) for n in line[2:]], line)
            else:
                self.assertEqual(ctypes.sizeof(structs[name]), int(line[2]), line)

    def test_a_library_that_is_named_is_the_one(self):
        """Whoever compares two builds must not be given a third."""
        before = os.environ.get("MAMBASCOPE_KERNELS")
        os.environ["MAMBASCOPE_KERNELS"] = "/nowhere/libmambascope_kernels.so"
        try:
            with self.assertRaisesRegex(OSError, "names /nowhere/libmambascope_kernels.so, which is not there"):
                native.library_path()
        finally:
            del os.environ["MAMBASCOPE_KERNELS"]
            if before:
                os.environ["MAMBASCOPE_KERNELS"] = before


if __name__ == "__main__":
    unittest.main()
