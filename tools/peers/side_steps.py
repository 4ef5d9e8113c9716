# SPDX-License-Identifier: Apache-2.0
"""Training steps of ours and of the peers in turns, on one GPU in one call, each beside the other:

    tools/peers/extensions ROOT                                                    # once: what mamba_ssm needs compiled
    PEERS_ROOT=ROOT PEERS_SCRIPTS=FOLDER python3 tools/peers/side_steps.py OUT     # all rows
    ... side_steps.py OUT mamba2-1.3b peptides voc                                 # some of them
    ... side_steps.py OUT --program build/mambascope --repeats 7 --short           # ours once, before the peer

ROOT holds the checkouts (src/) and the extensions (extbuild/); FOLDER the scripts that run them: d_train.py (language
models, here with a compiled loss, median of 10), e_vision.py (vision_step.py builds on it), f_graph.py (Graph-Mamba,
as it is and with its layers compiled; graphs differ in shape, so no CUDA graph), median of 24. Peers have fused AdamW
and, but for graphs, the whole step as a CUDA graph; "bf16" has parameters and optimizer states in bf16 too, which ours
has not. Ours is the median of --repeats before the peer and again after it; times ahead are those of the slower one,
`ahead_of_busy` beside the sum of the peer's kernels. Images are copied to the GPU within a step on both sides.

OUT gets side.csv, whose lines are printed as they come, ours.txt (what our steps print), results.jsonl and peers.log
(what the peers' scripts say). Ends with 1 if a step is missing or slower than what was asked of it."""
import argparse
import csv
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CHUNKED = "--op ssd=chunked,ssd_bwd=chunked"
TILES = "--op selective_scan=tiles,selective_scan_bwd=tiles"
FULL = "--edges 180000 --precision fp32"                     # of the peer's batches, which are in fp32 without TF32


def language(ours, theirs, modes, baseline, default, limit=""):
    """A language model at 8 x 2048: its steps by kernels, each with what is asked beside the peer, and the peer's
    modes."""
    size = f"--model {ours} --batch 8 --length 2048"
    kernels = TILES if ours.startswith("mamba-") else CHUNKED
    # not in torch.nn.functional itself: a compiled function that finds itself there is traced twice, an error
    code = ("import types, d_train as d; d.torch.backends.cuda.matmul.allow_tf32 = True; "
            "d.F = types.SimpleNamespace(cross_entropy=d.torch.compile(d.F.cross_entropy)); "
            "d.run({!r}, 8, 2048, {!r}, 'graph', 10)")
    return dict(ours=[("baseline", f"{size} {kernels} {limit}", baseline), ("default", size, default)],
                peers=[(["-c", code.format(theirs, mode)], dict(sec="D", model=theirs, mode=mode, variant="graph"))
                       for mode in modes])


def graphs(title, **match):
    """One of f_graph.py's models, as it is and compiled. GatedGCN's update deletes an attribute that a compiled layer
    never sets."""
    begin = ("import f_graph as f; f.stubs(); adamw, emit = f.torch.optim.AdamW, f.emit; "
             "f.torch.optim.AdamW = lambda p, **k: adamw(p, **k, fused=True); ")
    compiled = ("from graphgps.layer.gps_layer import GPSLayer; "
                "from graphgps.layer.gatedgcn_layer import GatedGCNLayer; "
                "update = lambda self, aggr_out, Ax: (Ax + aggr_out, self.e); update.__name__ = 'update'; "
                "GatedGCNLayer.update = update; "
                "GPSLayer.forward = f.torch.compile(GPSLayer.forward, dynamic=True); ")
    end = (f"f.guard = lambda title, *go: title == {title!r} and go[0](*go[1:]); "
           "f.emit = lambda sec, **k: emit(sec, variant={!r}, **k); f.main()")
    return [(["-c", begin + code + end.format(way)], dict(sec="F", variant=way, **match))
            for way, code in (("eager", ""), ("compiled", compiled))]


def whole(peers, *ours, busy=0):
    """A model that a peer's script runs by itself; `busy`: what is asked beside the sum of the peer's kernels."""
    return dict(ours=ours, peers=peers, busy=busy)


ROWS = {
    "mamba2-1.3b": language("mamba2-1.3b", "mamba2-1.3b", ["bf16", "amp"], 1.15, 1.5, "--memory 54.5GiB"),
    "mamba2-130m": language("mamba2-130m", "mamba2-130m", ["bf16", "amp"], 1.4, 2.1),
    "mamba2-370m": language("mamba2-370m", "mamba2-370m", ["bf16", "amp"], 1.3, 1.9, "--memory 28.2GiB"),
    "hybrid-370m": language("hybrid-peer-370m", "hybrid-370m", ["bf16", "amp"], 1.3, 1.8),
    "mamba-130m": language("mamba-130m", "mamba-130m", ["bf16", "amp"], 1.2, 2.1),
    "mambavision-t": whole([([os.path.join(HERE, "vision_step.py"), mode],
                             dict(sec="E", batch=128, mode=mode, variant="compiled")) for mode in ("bf16", "amp")],
                           ("default", "--model mambavision-t --batch 128", 1.8)),
    "peptides": whole(graphs("F pep128", tag="peptides", graphs=128),
                      ("default", "--model graphmamba-peptides-func --graphs 128", 3),
                      ("fp32", "--model graphmamba-peptides-func --graphs 128 --precision fp32", None), busy=3),
    "voc": whole(graphs("F voc", tag="voc", kind="Mamba_Hybrid_Degree_Noise_Bucket"),
                 ("default", "--model graphmamba-voc --graphs 32", 3),
                 ("fp32, their edges", f"--model graphmamba-voc --graphs 32 {FULL}", None), busy=3),
}


def our_step(o, arguments):
    """Median milliseconds of our step, None if it failed; what it printed is added to ours.txt."""
    words = [o.program, "bench", "step", "--device", "cuda", "--repeats", str(o.repeats), "--json", *arguments.split()]
    run = subprocess.run(words, capture_output=True, text=True)
    with open(os.path.join(o.out, "ours.txt"), "a", encoding="utf-8") as f:
        f.write(f"== {arguments}\n{run.stdout}{run.stderr}")
    return json.loads(run.stdout)[0]["median_ms"] if run.returncode == 0 else None


def found(o, match):
    """The last result of the peers' scripts that has all fields of `match`, or None."""
    file = os.path.join(o.out, "results.jsonl")
    rows = [json.loads(line) for line in open(file, encoding="utf-8")] if os.path.exists(file) else []
    return next((r for r in reversed(rows) if all(r.get(k) == v for k, v in match.items())), None)


def peer_step(o, program, match):
    """Runs the peer, unless this call has already (one script may serve several rows)."""
    if found(o, match) is None:
        environment = {k: v for k, v in os.environ.items() if k not in ("CPATH", "LIBRARY_PATH", "LD_LIBRARY_PATH")}
        environment |= dict(OUT=os.path.abspath(o.out), TRITON_CACHE_AUTOTUNING="1", TRITON_STORE_BINARY_ONLY="1",
                            PYTHONPATH=os.pathsep.join([o.scripts, os.environ.get("PYTHONPATH", "")]))
        run = subprocess.run([sys.executable, *program], cwd=o.scripts, env=environment, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
        with open(os.path.join(o.out, "peers.log"), "a", encoding="utf-8") as f:
            f.write(run.stdout)
    return found(o, match) or {}


def side(o, name):
    """Lines of the table for one row: every way that ours is run, beside every mode of the peer."""
    row = ROWS[name]
    before = [our_step(o, a) for _, a, _ in row["ours"]]
    peers = [(match.get("mode") or match["variant"], peer_step(o, program, match)) for program, match in row["peers"]]
    after = before if o.short else [our_step(o, a) for _, a, _ in row["ours"]]
    for (way, _, asked), first, second in zip(row["ours"], before, after):
        for mode, peer in peers:
            missing = None in (first, second) or "ms" not in peer
            ahead = None if missing else peer["ms"] / max(first, second)
            busy = None if missing or "gpu_ms" not in peer else peer["gpu_ms"] / max(first, second)
            yield {"row": name, "ours": way, "before_ms": first, "after_ms": second, "peer": mode,
                   "peer_ms": peer.get("ms"),
                   "peer_busy_ms": peer.get("gpu_ms"), "peer_peak_gib": peer.get("peak_gib"), "times_ahead": ahead,
                   "ahead_of_busy": busy,
                   "asked": asked, "met": not missing and (mode == "bf16" or ahead >= (asked or 0)
                                                           and (not asked or (busy or 0) >= row.get("busy", 0)))}


def text(value):
    return "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("rows", nargs="*", metavar="ROW", help=" ".join(ROWS))
    p.add_argument("--program", default="build/mambascope")
    p.add_argument("--repeats", type=int, default=7)
    p.add_argument("--short", action="store_true", help="ours before the peer only")
    o = p.parse_intermixed_args()
    unknown = [r for r in o.rows if r not in ROWS]
    if unknown:
        p.error(f"no row {' '.join(unknown)}; rows: {' '.join(ROWS)}")
    for variable in ("PEERS_ROOT", "PEERS_SCRIPTS"):
        if variable not in os.environ:
            p.error(f"{variable} is not set: it names the folder of the "
                    f"{'checkouts' if variable == 'PEERS_ROOT' else 'scripts'}, see --help")
    os.environ["PEERS_ROOT"] = os.path.abspath(os.environ["PEERS_ROOT"])
    o.scripts = os.path.abspath(os.environ["PEERS_SCRIPTS"])
    os.makedirs(o.out, exist_ok=True)
    for left in ("ours.txt", "results.jsonl", "peers.log"):  # of an earlier call: nothing of it may count in this one
        if os.path.exists(os.path.join(o.out, left)):
            os.remove(os.path.join(o.out, left))
    table = []
    with open(os.path.join(o.out, "side.csv"), "w", encoding="utf-8", newline="") as f:
        for name in o.rows or ROWS:
            for line in side(o, name):
                if not table:
                    csv.writer(f).writerow(line)
                table.append(line)
                csv.writer(f).writerow(text(v) for v in line.values())
                f.flush()                                    # a lease may end in the next row
                print(*(f"{k} {text(v)}" for k, v in line.items() if v is not None), sep="  ", flush=True)
    sys.exit(0 if all(line["met"] for line in table) else 1)


if __name__ == "__main__":
    main()
