# SPDX-License-Identifier: Apache-2.0
"""dropin -- puts our functions where mamba_ssm, causal_conv1d and transformers have theirs. A call that ours cannot do
goes to theirs, which is said once."""
import functools
import importlib
import importlib.util
import inspect
import sys

from . import functions
from .operands import say_once

# Where each function of theirs is defined.
HOMES = {"mamba_chunk_scan_combined": "mamba_ssm.ops.triton.ssd_combined",
         "mamba_split_conv1d_scan_combined": "mamba_ssm.ops.triton.ssd_combined",
         "selective_scan_fn": "mamba_ssm.ops.selective_scan_interface",
         "mamba_inner_fn": "mamba_ssm.ops.selective_scan_interface",
         "rmsnorm_fn": "mamba_ssm.ops.triton.layernorm_gated",
         "causal_conv1d_fn": "causal_conv1d.causal_conv1d_interface"}
# What transformers' model files call them.
ALIASES = {"mamba2_chunk_scan": "mamba_chunk_scan_combined", "mamba_selective_scan": "selective_scan_fn",
           "mamba2_split_conv1d_scan_combined": "mamba_split_conv1d_scan_combined",
           "mamba_inner_fn": "mamba_inner_fn", "causal_conv1d_fn": "causal_conv1d_fn"}
WHOLE = ("mamba_split_conv1d_scan_combined", "mamba_inner_fn")
MODEL_FILES = ("bamba", "falcon_h1", "falcon_mamba", "granitemoehybrid", "jamba", "mamba", "mamba2", "nemotron_h",
               "zamba", "zamba2")
_undo = []                                     # (object, name, what it had)
_active = False


def _replace(owner, name, ours):
    _undo.append((owner, name, getattr(owner, name)))
    setattr(owner, name, ours)


def _choose(name, theirs, drop_unknown=False):
    """Our function, or theirs for what ours cannot do and after uninstall(). drop_unknown: transformers hands on what a
    model was called with."""
    ours = getattr(functions, name)
    known = frozenset(inspect.signature(ours).parameters)

    def chosen(*args, **kwargs):
        if not _active:
            return theirs(*args, **kwargs)
        try:
            given = {k: v for k, v in kwargs.items() if k in known} if drop_unknown else kwargs
            if not known.issuperset(given):
                raise NotImplementedError(f"mambascope: {name} with {', '.join(sorted(set(given) - known))}")
            return ours(*args, **given)
        except NotImplementedError as why:
            if theirs is None:
                raise
            say_once(f"{name} runs as it was before install() for a call: {why}")
            return theirs(*args, **kwargs)
    return functools.wraps(theirs or ours)(chosen)


def _import(path):
    """None if it is not there, or cannot be imported as it is there."""
    try:
        return importlib.import_module(path)
    except Exception:
        return None


def _holders(name, value):
    return [m for m in list(sys.modules.values()) if m is not None and vars(m).get(name, _undo) is value]


def _install_functions():
    """In their own packages, and in every module that took them from there. Without causal_conv1d, modules of mamba_ssm
    hold None in its place."""
    for name, home in HOMES.items():
        module = _import(home)
        theirs = getattr(module, name, None)
        if theirs is None and name != "causal_conv1d_fn":
            continue
        ours = _choose(name, theirs)
        for holder in _holders(name, theirs):
            if theirs is not None or holder.__name__.startswith("mamba_ssm."):
                _replace(holder, name, ours)


def _stub(name):
    """Whether transformers' function of that name is an empty one: where mamba_ssm is missing its layers go through the
    separate functions instead, which also looks at masks."""
    return name in WHOLE and not hasattr(_import(HOMES[name]), name)


def _gated_norm(theirs):
    """For a class of transformers that norms what a gate has multiplied, in groups as its fields have them."""
    def forward(self, hidden_states, gate=None):
        before = getattr(self, "norm_before_gate", False)
        if not _active or gate is None or before:
            return theirs(self, hidden_states, gate)
        size = hidden_states.shape[-1]
        group = getattr(self, "group_size", size // getattr(self, "n_groups", 1))
        return functions.rmsnorm_fn(hidden_states, self.weight, None, gate, self.variance_epsilon, group, False)
    return functools.wraps(theirs)(forward)


def _install_model_file(module):
    """What a model file of transformers defines."""
    for alias, name in ALIASES.items():
        theirs = vars(module).get(alias)
        if callable(theirs) and not _stub(name):
            _replace(module, alias, _choose(name, theirs, drop_unknown=True))
    for name, cls in vars(module).items():
        if name.endswith("RMSNormGated") and inspect.isclass(cls) and cls.__module__ == module.__name__:
            _replace(cls, "forward", _gated_norm(cls.forward))


def install():
    """Replaces the functions of mamba_ssm, causal_conv1d and transformers, whichever are installed, and returns the
    places. Modules that take them from there later have ours too."""
    global _active
    uninstall()
    _active = True
    _install_functions()
    if importlib.util.find_spec("transformers") is not None:
        for model in MODEL_FILES:
            _import(f"transformers.models.{model}.modeling_{model}")
        for path, module in list(sys.modules.items()):
            if path.startswith("transformers.models.") and ".modeling_" in path:
                _install_model_file(module)
    return [".".join(filter(None, (getattr(owner, "__module__", ""), owner.__name__, name)))
            for owner, name, _ in _undo]


def uninstall():
    """Puts the original functions back."""
    global _active
    _active = False
    while _undo:
        setattr(*_undo.pop())
