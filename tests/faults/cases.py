# SPDX-License-Identifier: Apache-2.0
"""The commands that tests/faults/faults.py fails calls of: what they need, what they print, what of it is never the
same twice."""
import re

TEXT = "--model mamba2-130m --set width=32,layers=1,vocab=264,state=8,head_dim=16,chunk=16 --batch 2 --length 32"
IMAGES = ("--model mambavision-t --set "
          "dim=8,in_dim=8,depths=1:1:1:1,heads=1:1:2:4,windows=0:0:2:1,image=24,drop_path=0.1 "
          "--batch 2 --data shapes")
GRAPHS = "--model graphmamba-peptides-func --set layers=1,width=16,pe_count=4,pe_width=4 --graphs 4"
RUN = f"train {TEXT} --data tokens --valid-fraction 0.2 --valid-every 1 --valid-batches 1 --save-every 1 --out run"
PREPARE = "data prepare --out tokens text.txt"
SIMULATE = "simulate --machine h200 " + TEXT.replace("--set", "--model-set")

# Rates and times of a training.
CLOCK = [(rb'"(seconds|tokens_per_s|images_per_s|graphs_per_s)": [-+.e0-9]+', rb'"\1": #'),
         (rb'"peak_bytes": [0-9]+', b'"peak_bytes": #'), (rb"in [.0-9]+ s \([.0-9]+ ", b"in # s (# ")]


class Case:
    """A command of the program in a folder of its own.

    make     commands that make its inputs, run once; `copy`: files of tests/data that lie there too
    run      the command itself; `stdin`: what it reads there
    again    what must end well, with the same files, after it has failed; None: nothing
    volatile patterns that are replaced before outputs are compared
    measures its results are measured: stores and pages are compared by their outline
    weight   seconds of one run, roughly: fewer points are tried of what takes long
    """
    def __init__(self, name, run, make=(), copy=(), stdin=b"", again=None, volatile=CLOCK, measures=False, weight=0.03,
                 threads=1):
        self.name, self.run, self.make, self.copy, self.stdin = name, run, make, copy, stdin
        self.again, self.volatile, self.measures, self.weight, self.threads = again, volatile, measures, weight, threads

    def plain(self, data):
        for pattern, by in self.volatile:
            data = re.sub(pattern, by, data)
        return data


# A store of a GPU, and one of this machine, which is made once and is the same for all points.
GPU = ["tests/data/stores/h200_peer_small.db"]
PROFILE = f"profile {TEXT} --steps 1 --warmup 1 --metric-sets overview --out"

ON_GPU = "--device cuda"

CUDA_CASES = [
    # All checkpoints stay, so that the best one is known whichever step it is of.
    Case("train", f"{RUN} --keep-checkpoints 9 --steps 4 {ON_GPU}", make=[PREPARE],
         again=f"{RUN} --keep-checkpoints 9 --steps 4 {ON_GPU} --resume auto"),
    Case("train --resume", f"train --resume run --steps 6 {ON_GPU}",
         make=[PREPARE, f"{RUN} --keep-checkpoints 9 --steps 4 {ON_GPU}"],
         again=f"train --resume run --steps 6 {ON_GPU}"),
    Case("train images", f"train {IMAGES} --workers 1 --steps 3 --out run {ON_GPU}",
         again=f"train {IMAGES} --workers 1 --steps 3 --out run --resume auto {ON_GPU}"),
    Case("train graphs", f"train {GRAPHS} --steps 3 --out run {ON_GPU}",
         again=f"train {GRAPHS} --steps 3 --out run --resume auto {ON_GPU}"),
    Case("train attention",
         "train --model hybrid-130m --set width=64,layers=2,vocab=264,state=16,head_dim=32,chunk=16 --batch 2 "
         "--length 64 "
         f"--op attention=cudnn --steps 3 --json {ON_GPU}"),
    Case("eval", f"eval --checkpoint run --data tokens --valid-fraction 0.2 --batch 2 --length 32 --json {ON_GPU}",
         make=[PREPARE, f"{RUN} --steps 1"]),
    Case("profile", f"profile {TEXT} --steps 1 --warmup 1 --out p.db {ON_GPU}", measures=True, weight=5),
    Case("profile --source",
         f"profile {TEXT} --steps 1 --warmup 1 --metric-sets roofline --blocks --source conv1d --out p.db {ON_GPU}",
         measures=True,
         weight=8),
    Case("suite", f"suite --tiny --only mamba2 --steps 2 --repeats 1 --out s {ON_GPU}", measures=True, weight=9),
]

CASES = [
    Case("train", f"{RUN} --steps 2 --sample the", make=[PREPARE], again=f"{RUN} --steps 2 --sample the --resume auto"),
    Case("train --resume", "train --resume run --steps 4", make=[PREPARE, f"{RUN} --steps 2"],
         again="train --resume run --steps 4"),
    Case("train images", f"train {IMAGES} --workers 2 --steps 1 --out run",
         again=f"train {IMAGES} --workers 2 --steps 1 --out run --resume auto"),
    Case("train graphs", f"train {GRAPHS} --steps 1 --out run",
         again=f"train {GRAPHS} --steps 1 --out run --resume auto"),
    Case("train 2 threads", f"train {TEXT} --data tokens --steps 1 --json", make=[PREPARE], threads=2),
    Case("eval", "eval --checkpoint run --data tokens --valid-fraction 0.2 --batch 2 --length 32 --json",
         make=[PREPARE, f"{RUN} --steps 1"]),
    Case("eval --grads", "eval --checkpoint run --tokens t.npy --json --logits l.npy --grads g.safetensors",
         make=[PREPARE, f"{RUN} --steps 1"]),
    Case("generate", "generate --checkpoint run --tokens 6", make=[PREPARE, f"{RUN} --steps 1"], stdin=b"the quick"),
    Case("data prepare", "data prepare --out tokens --tokenizer run/tokenizer.json --shard 4000 text.txt lines.jsonl",
         make=["data prepare --out run text.txt"]),
    Case("data inspect", "data inspect tokens text.txt lines.jsonl run/step-000001 run/tokenizer.json t.npy",
         make=[PREPARE, f"{RUN} --steps 1"]),
    Case("profile", f"{PROFILE} p.db", make=[f"{PROFILE} p.db"], measures=True, weight=2.2),
    Case("suite", "suite --tiny --device cpu --only mamba2 --steps 2 --repeats 1 --length 32 --out s", measures=True,
         weight=3,
         again="suite --tiny --device cpu --only mamba2 --steps 2 --repeats 1 --length 32 --out s --resume"),
    Case("report", "report p.db h200_peer_small.db --no-simulation", make=[f"{PROFILE} p.db"], copy=GPU, weight=0.1),
    Case("report simulated", "report p.db", make=[f"{PROFILE} p.db"], weight=20),
    Case("report of runs", "report run --out page.html", make=[PREPARE, f"{RUN} --steps 2 --sample the"]),
    Case("report --figure", "report h200_peer_small.db --figure fig1 --csv", copy=GPU),
    Case("export --json", "export p.db --json p.json", make=[f"{PROFILE} p.db"]),
    Case("export --csv", "export p.db --csv p --trace p.trace", make=[f"{PROFILE} p.db"]),
    Case("export --figures", "export h200_peer_small.db --figures f --no-simulation", copy=GPU),
    Case("export --store", "export p.db --store q.db", make=[f"{PROFILE} p.db"]),
    Case("export of runs", "export run --tensorboard boards", make=[PREPARE, f"{RUN} --steps 2"]),
    Case("show", "show p.db", make=[f"{PROFILE} p.db"]),
    Case("show --json", "show h200_peer_small.db --json", copy=GPU),
    Case("simulate", SIMULATE),
    Case("simulate --store", "simulate --machine h100 --store h200_chunked.db",
         copy=["tests/data/stores/h200_chunked.db"], weight=0.3),
]
