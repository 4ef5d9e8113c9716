# SPDX-License-Identifier: Apache-2.0
"""dropin_test -- the convolution, the gated norm and mixers against PyTorch in float64, and install() in stand-ins for
mamba_ssm and in transformers' models, on the CPU. Ends with 77 where PyTorch or the library is missing."""
import sys
import tempfile
import types
import warnings

try:
    import unittest                      # not in Debian's python3-minimal
    import torch
    import torch.nn.functional as F
    import mambascope_torch as mt
    mt.library()
except (ImportError, OSError) as missing:
    print("skipped:", missing)
    sys.exit(77)

from comparison import assert_agrees, leaf
from mambascope_torch import operands
from mambascope_torch.layers import CONVOLUTION, GATED, MIXER
from mambascope_torch.recurrence import convolution, inner, mixer, norm

try:
    import transformers
    for file in mt.dropin.MODEL_FILES:         # before there are stand-ins for mamba_ssm, which these would find
        __import__(f"transformers.models.{file}.modeling_{file}")
except ImportError:
    transformers = None


def mixer_arguments(heads=4, width=6, groups=2, state=5, others=0, batch=2, length=21, per_channel=False):
    torch.manual_seed(8)
    inner_width, mixed = heads * width, heads * width + 2 * groups * state
    return dict(zxbcdt=leaf(batch, length, 2 * others + inner_width + mixed + heads), conv1d_weight=leaf(mixed, 4),
                conv1d_bias=leaf(mixed), dt_bias=leaf(heads), A=(-torch.rand(heads) - 0.2).requires_grad_(),
                D=leaf(heads, width) if per_channel else leaf(heads), headdim=None if per_channel else width,
                ngroups=groups, rmsnorm_weight=leaf(inner_width), outproj_weight=leaf(7, inner_width + others),
                outproj_bias=leaf(7), norm_before_gate=False)


class Layers(unittest.TestCase):
    def agrees(self, ours, yardstick, arguments, only_ours=(), both=False):
        assert_agrees(self, ours, yardstick, arguments, 3e-6, only_ours, both)   # sums of some hundred fp32 products

    def test_the_convolution(self):
        for more in (dict(activation="silu"), dict(bias=leaf(6)), dict(activation="swish", bias=leaf(6),
                     seq_idx=torch.tensor([[0] * 4 + [1] * 9, [3] * 8 + [2] * 5]))):
            torch.manual_seed(2)
            self.agrees(mt.causal_conv1d_fn, convolution, dict(x=leaf(2, 6, 13), weight=leaf(6, 4), **more))
        a = dict(x=leaf(2, 6, 13), weight=leaf(6, 3), initial_states=leaf(2, 6, 2), return_final_states=True)
        self.agrees(mt.causal_conv1d_fn, convolution, a, ("return_final_states",), both=True)

    def test_the_gated_norm(self):
        for shape in ((2, 7, 12), (5, 12), (2, 3, 4, 12)):
            a = dict(x=leaf(*shape), weight=leaf(12), z=leaf(*shape))
            self.agrees(lambda **k: mt.rmsnorm_fn(**k, bias=None, eps=0.1, group_size=6, norm_before_gate=False),
                        lambda x, weight, z: norm(x, weight, z, 0.1, 2), a)

    def test_the_mixer(self):
        for change in (dict(), dict(per_channel=True), dict(others=3)):
            self.agrees(mt.mamba_split_conv1d_scan_combined, mixer, dict(mixer_arguments(**change), chunk_size=8),
                        ("chunk_size",))
        for more in (dict(norm_before_gate=True), dict(rmsnorm_weight=None), dict(conv1d_bias=None),
                     dict(outproj_weight=None, outproj_bias=None),
                     dict(seq_idx=torch.arange(21).expand(2, 21) // 6, dt_limit=(0.3, 1.4))):
            self.agrees(mt.mamba_split_conv1d_scan_combined,
                        lambda conv1d_bias, **k: mixer(conv1d_bias=0 * k["conv1d_weight"][:, 0] if conv1d_bias is None
                                                       else conv1d_bias, **k),
                        dict(mixer_arguments(), chunk_size=8, **more), ("chunk_size",))

    def test_the_mixer_with_states(self):
        a = dict(mixer_arguments(), initial_states=leaf(2, 4, 6, 5), chunk_size=8, return_final_states=True)
        self.agrees(mt.mamba_split_conv1d_scan_combined, mixer, a, ("chunk_size", "return_final_states"), both=True)

    def test_the_layer_of_mamba_1(self):
        torch.manual_seed(9)
        a = dict(xz=leaf(2, 12, 17), conv1d_weight=leaf(6, 1, 4), conv1d_bias=leaf(6), x_proj_weight=leaf(11, 6),
                 delta_proj_weight=leaf(6, 3), out_proj_weight=leaf(5, 6), out_proj_bias=leaf(5),
                 A=(-torch.rand(6, 4) - 0.2).requires_grad_(), D=leaf(6), delta_bias=leaf(6))
        self.agrees(mt.mamba_inner_fn, inner, a)

    def test_operators_are_what_torch_expects(self):
        kinds = ("test_schema", "test_autograd_registration", "test_faketensor")
        a = mixer_arguments()
        conv = (leaf(2, 9, 6), leaf(6, 4), leaf(6), torch.zeros(2, 9, dtype=torch.int32), None, True, False)
        torch.library.opcheck(CONVOLUTION.operator, conv, test_utils=kinds)
        torch.library.opcheck(GATED.operator, (leaf(2, 9, 6), leaf(2, 9, 6), leaf(6), 2, 1e-5), test_utils=kinds)
        tensors = (a["zxbcdt"], a["conv1d_weight"], a["conv1d_bias"], a["dt_bias"], a["A"], a["D"], a["rmsnorm_weight"],
                   None, None)
        numbers = (2, 6, 8, True, 2, 1e-5, 0.0, 1.0, True, True)
        torch.library.opcheck(MIXER.operator, (*tensors, *numbers), test_utils=kinds)

    def test_compiled_is_the_same(self):
        a = mixer_arguments()
        tensors = {k: v for k, v in a.items() if torch.is_tensor(v)}
        others = {k: v for k, v in a.items() if k not in tensors}

        def loss(**given):
            return mt.mamba_split_conv1d_scan_combined(**given, **others, chunk_size=8).square().sum()
        want = torch.autograd.grad(loss(**tensors), list(tensors.values()))
        for dynamic in (False, True):
            torch._dynamo.reset()
            compiled = torch.compile(loss, backend="aot_eager", fullgraph=True, dynamic=dynamic)
            got = torch.autograd.grad(compiled(**tensors), list(tensors.values()))
            for name, g, w in zip(tensors, got, want):
                self.assertLess((g - w).norm(), 1e-5 * w.norm(), name)

    def test_data_parallel_is_the_same(self):
        class Mixer(torch.nn.Module):
            def __init__(self):
                super().__init__()
                a = mixer_arguments()
                self.numbers = {k: v for k, v in a.items() if not torch.is_tensor(v)}
                self.parts = torch.nn.ParameterDict({k: v.detach() for k, v in a.items()
                                                     if torch.is_tensor(v) and k != "zxbcdt"})

            def forward(self, zxbcdt):
                return mt.mamba_split_conv1d_scan_combined(zxbcdt, **dict(self.parts), **self.numbers, chunk_size=8)
        found = []
        with tempfile.TemporaryDirectory() as folder:
            torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
            for wrap in (lambda m: m, torch.nn.parallel.DistributedDataParallel):
                torch.manual_seed(3)
                model = wrap(Mixer())
                model(mixer_arguments()["zxbcdt"]).square().sum().backward()
                found.append([p.grad.clone() for p in model.parameters()])
            torch.distributed.destroy_process_group()
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(*found)))

    def test_a_gradient_of_the_gradient_is_refused(self):
        a = mixer_arguments()
        first, = torch.autograd.grad(mt.mamba_split_conv1d_scan_combined(**a, chunk_size=8).sum(), a["zxbcdt"],
                                     create_graph=True)
        with self.assertRaisesRegex(RuntimeError, "gradient of a gradient"):
            first.square().sum().backward()


class Types(unittest.TestCase):
    def test_other_types_are_converted(self):
        a = mixer_arguments()
        want = mt.mamba_split_conv1d_scan_combined(**a, chunk_size=8)
        for kind in (torch.bfloat16, torch.float16):
            b = dict(a, **{k: a[k].to(kind) for k in ("zxbcdt", "outproj_weight", "outproj_bias")})
            got = mt.mamba_split_conv1d_scan_combined(**b, chunk_size=8)
            self.assertEqual(got.dtype, kind)
            self.assertLess((got.float() - want).norm() / want.norm(), 2e-2)
        x, dt, B = torch.randn(2, 9, 4, 6).bfloat16(), torch.randn(2, 9, 4), torch.randn(2, 9, 1, 5).bfloat16()
        y = mt.mamba_chunk_scan_combined(x, dt, -torch.rand(4) - 0.1, B, B, 16, dt_softplus=True)
        self.assertEqual(y.dtype, torch.bfloat16)

    def test_steps_keep_their_digits_in_bfloat16(self):
        torch.manual_seed(1)
        step = torch.exp(torch.rand(2, 64, 5) * 2 - 6 + torch.arange(5))
        for softplus, dt, bias in ((False, step, None), (False, step / 2, step[0, 0] * 0 + 1e-3),
                                   (True, step + torch.log(-torch.expm1(-step)), torch.zeros(5))):
            want = step if bias is None or softplus else step / 2 + 1e-3
            raw, moved = operands.steps_for(dt, bias, softplus, torch.bfloat16, 2)
            self.assertEqual(raw.dtype, torch.bfloat16)
            got = F.softplus(raw.float() + moved)
            self.assertLess(((got - want) / want).abs().max(), 2.0 ** -7)      # a deviation of 2 has spacing 2^-6

    def test_float16_and_rounding_are_said_once(self):
        operands._said.clear()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(3):
                operands.as_kind(torch.bfloat16, torch.device("cpu"), B=torch.ones(1))
        self.assertEqual(len(caught), 1)

    def test_misuse_is_named(self):
        a = dict(mixer_arguments(), chunk_size=8)
        for change, words in ((dict(A=-a["A"]), "A is not negative"), (dict(headdim=7), "do not fit"),
                              (dict(activation="gelu"), "silu or swish"), (dict(dt_bias=leaf(3)), "dt_bias is"),
                              (dict(ngroups=3), "do not share")):
            with self.assertRaisesRegex(ValueError, words):
                mt.mamba_split_conv1d_scan_combined(**dict(a, **change))


def stand_in(name, **attributes):
    module = types.ModuleType(name)
    module.__path__ = []
    vars(module).update(attributes)
    sys.modules[name] = module
    return module


class Install(unittest.TestCase):
    def setUp(self):
        self.known = set(sys.modules)

    def tearDown(self):
        mt.uninstall()
        for name in set(sys.modules) - self.known:
            if name.split(".")[0] in ("mamba_ssm", "causal_conv1d", "user"):
                del sys.modules[name]

    def mamba_ssm(self):
        theirs = {name: (lambda name: lambda *a, **k: name)(name) for name in mt.dropin.HOMES}
        for name in ("mamba_ssm", "mamba_ssm.ops", "mamba_ssm.ops.triton", "mamba_ssm.modules", "causal_conv1d"):
            stand_in(name)
        for name, home in mt.dropin.HOMES.items():
            setattr(sys.modules.get(home) or stand_in(home), name, theirs[name])
        return theirs

    def test_every_holder_has_ours_until_uninstall(self):
        theirs = self.mamba_ssm()
        user = stand_in("user", selective_scan_fn=theirs["selective_scan_fn"])
        places = mt.install()
        self.assertIn("user.selective_scan_fn", places)
        self.assertEqual(sum(p.split(".")[0] in ("mamba_ssm", "causal_conv1d") for p in places), len(theirs))
        u = torch.randn(1, 3, 5)
        a = (u, u, -torch.rand(3, 2) - 0.1, torch.randn(1, 2, 5), torch.randn(1, 2, 5))
        self.assertTrue(torch.equal(user.selective_scan_fn(*a, delta_softplus=True),
                                    mt.selective_scan_fn(*a, delta_softplus=True)))
        mt.uninstall()
        self.assertIs(user.selective_scan_fn, theirs["selective_scan_fn"])

    def test_what_ours_cannot_do_goes_to_theirs(self):
        self.mamba_ssm()
        mt.install()
        scan = sys.modules["mamba_ssm.ops.triton.ssd_combined"].mamba_chunk_scan_combined
        x, dt, B = torch.randn(1, 9, 2, 4), torch.randn(1, 9, 2), torch.randn(1, 9, 1, 3)
        operands._said.clear()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for more in (dict(return_varlen_states=True), dict(something_new=1), dict(return_varlen_states=True)):
                self.assertEqual(scan(x, dt, -torch.ones(2), B, B, 8, **more), "mamba_chunk_scan_combined")
        self.assertEqual(len(caught), 2)
        with self.assertRaisesRegex(ValueError, "A is not negative"):
            scan(x, dt, torch.ones(2), B, B, 8)

    def test_without_causal_conv1d_layers_of_mamba_ssm_have_ours(self):
        self.mamba_ssm()
        for name in ("causal_conv1d", mt.dropin.HOMES["causal_conv1d_fn"]):
            del sys.modules[name]
        layer = stand_in("mamba_ssm.modules.mamba2", causal_conv1d_fn=None)
        mt.install()
        x, weight = torch.randn(1, 4, 9), torch.randn(4, 4)
        self.assertLess((layer.causal_conv1d_fn(x, weight) - convolution(x, weight)[0]).abs().max(), 1e-5)
        mt.uninstall()
        self.assertIsNone(layer.causal_conv1d_fn)


COMMON = dict(vocab_size=64, hidden_size=32, num_hidden_layers=2)
HYBRID = dict(COMMON, intermediate_size=48, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)
MODELS = {
    "Mamba": dict(COMMON, state_size=4, time_step_rank=3),
    "Mamba2": dict(COMMON, num_heads=4, head_dim=16, expand=2, state_size=8, n_groups=2, chunk_size=8),
    "Bamba": dict(HYBRID, mamba_n_heads=4, mamba_d_head=16, mamba_expand=2, mamba_d_state=8, mamba_n_groups=2,
                  mamba_chunk_size=8, attn_layer_indices=[1]),
    "NemotronH": dict(COMMON, intermediate_size=48, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                      mamba_num_heads=4, mamba_head_dim=16, ssm_state_size=8, n_groups=2, chunk_size=8,
                      layers_block_type=["mamba", "attention"], moe_intermediate_size=16, n_routed_experts=4,
                      moe_shared_expert_intermediate_size=16),
    "Zamba2": dict(COMMON, intermediate_size=48, num_attention_heads=4, num_key_value_heads=4, mamba_d_state=8,
                   mamba_ngroups=2, n_mamba_heads=4, mamba_headdim=16, mamba_expand=2, chunk_size=8, num_mem_blocks=1,
                   layers_block_type=["mamba", "hybrid"], use_shared_attention_adapter=False),
    "FalconH1": dict(HYBRID, head_dim=8, mamba_d_ssm=64, mamba_n_heads=4, mamba_d_head=16, mamba_d_state=8,
                     mamba_n_groups=2, mamba_chunk_size=8, mamba_rms_norm=True, mamba_norm_before_gate=False),
}


@unittest.skipIf(transformers is None, "without transformers")
class Transformers(unittest.TestCase):
    def tearDown(self):
        mt.uninstall()

    def results(self, name, training):
        torch.manual_seed(4)
        config = getattr(transformers, name + "Config")(**MODELS[name])
        model = getattr(transformers, name + "ForCausalLM")(config).train(training)
        tokens = torch.randint(1, 64, (2, 19))
        mask = torch.ones_like(tokens)
        mask[0, :5] = 0
        out = model(tokens, attention_mask=mask, labels=tokens, use_cache=not training)
        if not training:
            return {"logits": out.logits.detach()}
        out.loss.backward()
        return {"loss": out.loss.detach()} | {k: p.grad for k, p in model.named_parameters() if p.grad is not None}

    def test_models_compute_the_same(self):
        calls = []
        for training in (True, False):
            for name in MODELS:
                with self.subTest(name, training=training):
                    want = self.results(name, training)
                    self.assertTrue(any(name.lower() in p.replace("_", "") for p in mt.install()))
                    names = ("ssd", "selective_scan")
                    kept = mt.functions.call_operator
                    mt.functions.call_operator = lambda op, *a, **k: (calls.append(names[op]), kept(op, *a, **k))[1]
                    try:
                        got = self.results(name, training)
                    finally:
                        mt.functions.call_operator = kept
                        mt.uninstall()
                    self.assertEqual(calls.pop(), "selective_scan" if name == "Mamba" else "ssd")
                    for key in want:
                        error = (got[key] - want[key]).norm() / want[key].norm().clamp_min(1e-6)
                        self.assertLess(error, 1e-4, key)        # theirs sums in another order, some 10 layers deep


if __name__ == "__main__":
    unittest.main()
