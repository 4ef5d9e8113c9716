#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""transformers_step.py -- seconds of one training step of transformers on this CPU, at its fastest setting here.

    python3 tools/peers/transformers_step.py                          all models (needs torch and transformers)
    python3 tools/peers/transformers_step.py mamba2-130m --steps 5    one of them
    python3 tools/peers/transformers_step.py >> OUT.jsonl        # seconds go to bench/results/cpu/peers.csv
                                                                 (docs/results.md)

A step is forward, mean next-token loss, backward and torch's fused AdamW, in float32, batch 1 x length 1024 of random
tokens, random weights. First every setting (threads, torch.compile, attention) is tried on the model cut to a few
layers; those within 1.25 times the fastest are then timed on the whole model, and the fastest of these is reported.
Each trial is a process of its own, stopped when it passes --limit seconds or leaves the machine less than 1.5 GB of
memory; one that is stopped counts as not working.

stdout: one JSON line per model. seconds_min and seconds_median are over the timed steps; gflops_before and gflops_after
are a float32 matrix product of torch, with the same threads, just around them; cpu_s is the processor time of all
threads in one step, the least over the steps. On a machine that others use, seconds_min lies above what an idle machine
would show, and cpu_s / threads not far below it (threads that wait spin). `tried` lists the trials; `loss` must be the
same for all settings of one size, or the script stops."""
import os
import sys

import trials

sys.path.pop(0)  # else kernels.py beside this is taken for the package of that name, which transformers asks for

LENGTH = 1024
HYBRID = "M-M-M-M*-M-M-M-M*-M-M-M-"

# name: layers of the trials, layers in all, attention implementations to try
MODELS = {
    "mamba-130m": (1, 24, ["eager"]),
    "mamba2-130m": (3, 24, ["eager"]),
    "hybrid-130m": (9, 24, ["sdpa", "eager"]),
}


def build(name, layers, attention):
    import torch
    import transformers
    ids = dict(pad_token_id=0, bos_token_id=0, eos_token_id=0)
    if name == "mamba-130m":
        config = transformers.MambaConfig(
            hidden_size=768, num_hidden_layers=layers, vocab_size=50280, state_size=16, **ids)
    elif name == "mamba2-130m":
        config = transformers.Mamba2Config(
            hidden_size=768, num_hidden_layers=layers, vocab_size=50288, num_heads=24, head_dim=64, state_size=128,
            n_groups=1, chunk_size=256, tie_word_embeddings=True, **ids)
    else:
        kinds = {"M": "linear_attention", "*": "full_attention", "-": "mlp"}
        config = transformers.NemotronHConfig(
            hidden_size=768, layers_block_type=[kinds[s] for s in HYBRID[:layers]], vocab_size=50288,
            mamba_num_heads=24, mamba_head_dim=64, ssm_state_size=128, n_groups=1, chunk_size=128,
            num_attention_heads=12, num_key_value_heads=4, head_dim=64, intermediate_size=3072, mlp_hidden_act="relu2",
            tie_word_embeddings=True, **ids)
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention)
    if name == "hybrid-130m":               # its class ignores tie_word_embeddings (transformers 5.22)
        model.lm_head.weight = model.model.embeddings.weight
    return model.train()


def trial(setting):
    """One setting in this process; the result is the last line of stdout."""
    import torch
    torch.set_num_threads(setting["threads"])
    model = build(setting["model"], setting["layers"], setting["attention"])
    blocks = (model.backbone if hasattr(model, "backbone") else model.model).layers
    if setting["compile"]:                  # block by block: one compilation serves all layers of a kind
        torch._dynamo.config.cache_size_limit = 64
        for block in blocks:
            block.compile()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, 50277, (1, LENGTH), generator=generator)
    trials.time_steps(model, optimizer, lambda: model(input_ids=tokens, labels=tokens, use_cache=False).loss,
                      setting["steps"])


def measure(name, arguments):
    import torch
    import transformers
    few, layers, attentions = MODELS[name]
    settings = [dict(layers=few, threads=threads, compile=compiled, attention=attention)
                for attention in attentions for compiled in (False, True)
                for threads in sorted({1, os.cpu_count()}, reverse=True)]
    script = os.path.abspath(__file__)
    return {"model": name, "batch": 1, "length": LENGTH, "dtype": "float32",
            **trials.search(script, name, settings, dict(layers=layers), arguments),
            **trials.provenance(script, name, arguments, torch, transformers)}


if __name__ == "__main__":
    trials.main(__doc__, MODELS, trial, measure)
