#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Disturbs runs of several ranks at random moments, and judges what becomes of them.

    tests/faults/ranks.py --program build/mambascope           one run of each kind, two minutes
    .. --all                     20 runs with a killed rank, 5 of each other kind
    .. --only stop,link          these kinds; --seed N: other moments; --keep: leaves the folders and names them
    .. --sequence-ranks 2        of ranks that share sequences
    .. --csv MACHINE             prints the outcomes as results (bench/results/cpu/rank_faults.csv)

    kill   a rank gets SIGKILL
    stop   a rank gets SIGSTOP
    link   the link between two hosts goes down: two network namespaces, two ranks in each; needs root. mpirun notices
           it by keepalive (docs/ranks.md) and ends with a code of its own, 205
    disk   the file system of --out is full; needs root, for a small tmpfs

A run is good where all ranks are gone within 30 s, the code and the message say which rank is lost (disk: what is
full), and the same command line, once more, ends with the bytes of an undisturbed run. A rank that is killed before it
has joined the others is mpirun's matter: mpirun names it and ends with 137, which is good, or hangs after all ranks are
gone, which is counted apart. Exit code 77: there is no Open MPI, or a kind cannot run here."""
import argparse
import datetime
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

LIMIT_S, STEPS, LOST, LOST_DAEMON, KILLED = 30, 100, 75, 205, 137
# Open MPI 4.1.4, in 4 of 100 runs of which a rank was killed within half a second of its start, on a busy machine:
# mpirun waits for a thread of its own, with its children dead and not waited for.
MPIRUN_HANGS = "PMIX ERROR: UNREACHABLE"
COUNTS = {"kill": 20, "stop": 5, "link": 5, "disk": 5}
MODEL = ("--model mamba2-130m --set width=32,layers=2,vocab=264,state=8,head_dim=16,chunk=16 --batch 2 --length 32 "
         "--global-batch 8 --quiet").split()
ENV = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMP_NUM_THREADS="1")


def sh(*words):
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def workers(out):
    """{rank: process} of the run that writes to `out`, without the processes that wait for ranks."""
    found = {}
    for name in os.listdir("/proc"):
        try:
            if not name.isdigit() or open(f"/proc/{name}/comm").read() != "mambascope\n":
                continue
            words = open(f"/proc/{name}/cmdline").read().split("\0")
            env = dict(w.split("=", 1) for w in open(f"/proc/{name}/environ").read().split("\0") if "=" in w)
        except (OSError, ValueError):  # it has ended meanwhile
            continue
        if out in words and "OMPI_COMM_WORLD_RANK" in env:
            found[int(env["OMPI_COMM_WORLD_RANK"])] = int(name)
    return found


class Hosts:
    """Two network namespaces as two hosts, joined by a link."""

    def __init__(self, folder):
        self.name = [f"mba{os.getpid()}{k}" for k in "ab"]
        self.agent = f"{folder}/agent"
        a, b = self.name
        for words in ([f"netns add {a}"], [f"netns add {b}"], [f"link add {a} type veth peer name {b}"],
                      [f"link set {a} netns {a}"], [f"link set {b} netns {b}"],
                      [f"-n {a} addr add 10.77.0.1/24 dev {a}"], [f"-n {b} addr add 10.77.0.2/24 dev {b}"],
                      [f"-n {a} link set lo up"], [f"-n {b} link set lo up"], [f"-n {a} link set {a} up"],
                      [f"-n {b} link set {b} up"]):
            done = sh("ip", *words[0].split())
            if done.returncode:
                self.remove()
                raise OSError(f"ip {words[0]}: {done.stdout.strip()}")
        with open(self.agent, "w") as f:
            f.write('#!/bin/sh\nhost=$1; shift\nexec ip netns exec $host unshare --uts sh -c "hostname $host; $*"\n')
        os.chmod(self.agent, 0o755)

    def launcher(self):
        a, b = self.name
        return ["ip", "netns", "exec", a, "unshare", "--uts", "sh", "-c", f'hostname {a}; exec "$@"', "sh", "mpirun",
                "--mca", "plm_rsh_agent", self.agent, "--host", f"{a}:2,{b}:2", "--mca", "oob_tcp_if_include",
                "10.77.0.0/24", "--mca", "btl_tcp_if_include", "10.77.0.0/24", "--mca", "pml", "ob1", "--mca", "btl",
                "tcp,self", "--mca", "oob_tcp_keepalive_time", "5", "--mca", "oob_tcp_keepalive_intvl", "2", "--mca",
                "oob_tcp_keepalive_probes", "3"]

    def link(self, state):
        sh("ip", "-n", self.name[0], "link", "set", self.name[0], state)

    def remove(self):
        for name in self.name:
            for p in sh("ip", "netns", "pids", name).stdout.split():
                os.kill(int(p), signal.SIGKILL)
            sh("ip", "netns", "del", name)


class Trial:
    def __init__(self, kind, args, folder, hosts, rng):
        self.kind, self.folder, self.hosts, self.rng = kind, folder, hosts, rng
        self.out = f"{folder}/run"
        self.starting = self.early = False  # early: before a rank is sure to have joined
        self.took, self.code, self.hung = 0, None, False
        start = hosts.launcher() if kind == "link" else ["mpirun"]
        self.line = start + ["--oversubscribe", "--bind-to", "none", "-np", "4", args.program, "train"] + MODEL + [
            "--sequence-ranks", str(args.sequence_ranks),
            "--data", args.data, "--steps", str(STEPS), "--save-every", "5", "--resume", "auto", "--out", self.out]
        if kind == "stop":
            self.line += ["--timeout", "6"]
        if kind == "disk":
            os.mkdir(self.out)
            sh("mount", "-t", "tmpfs", "-o", "size=12m", "none", self.out)

    def start(self, name):
        return subprocess.Popen(self.line, stdout=open(f"{self.folder}/{name}", "w"), stderr=subprocess.STDOUT, env=ENV)

    def disturb(self):
        """Returns words that the run must print, or None if it has ended before."""
        there = workers(self.out)
        if not there:
            return None
        rank = self.rng.choice(sorted(there))
        self.early = self.kind == "kill" and not os.path.exists(f"{self.out}/log.jsonl")
        if self.kind in ("kill", "stop"):
            os.kill(there[rank], signal.SIGKILL if self.kind == "kill" else signal.SIGSTOP)
            return [f"rank {rank} (", f"rank {rank} was ended by signal", "not all ranks have started"] + (
                [f"process rank {rank} with PID"] if self.early else [])  # mpirun's words
        if self.kind == "link":
            self.hosts.link("down")
            return [f"({self.hosts.name[1]}) is lost", f"({self.hosts.name[0]}) is lost", "does not deliver",
                    "not all ranks have started", "lost communication with a remote daemon"]
        with open(f"{self.out}/filler", "wb") as f:
            try:
                while True:
                    os.write(f.fileno(), bytes(4096))
            except OSError:
                pass
        return ["No space left on device", "the disk may be full"]

    def mend(self):
        if self.kind == "link":
            self.hosts.link("up")
        if self.kind == "disk":
            os.unlink(f"{self.out}/filler")

    def bytes(self):
        return [open(f"{self.out}/step-{STEPS:06d}/{name}", "rb").read()
                for name in ("model.safetensors", "optimizer.safetensors")]

    def end(self, run, since):
        """Seconds until the launcher and all ranks are gone; None: too long."""
        while time.time() - since < LIMIT_S:
            if run.poll() is not None and not workers(self.out):
                return time.time() - since
            time.sleep(0.05)
        return None

    def await_moment(self, run):
        """One in five: while the ranks start. Else: within a step, a save or between them, wherever it is."""
        self.starting, step = self.rng.random() < 0.2, self.rng.randrange(1, STEPS - 15)
        while run.poll() is None:
            if self.starting and workers(self.out) or not self.starting and self.steps() >= step:
                break
            time.sleep(0.005)
        wait = self.rng.uniform(0, 0.5 if self.starting else 0.03)
        time.sleep(wait)
        return f"{wait:.3f} s after {'its start' if self.starting else f'step {step}'}"

    def steps(self):
        try:
            return open(f"{self.out}/log.jsonl").read().count("\n")
        except OSError:
            return 0

    def judge(self, wanted):
        """(good, what became of it); (None, ..): it says nothing about us, as when the run was over before."""
        run = self.start("first")
        moment = self.await_moment(run)
        words, since = self.disturb(), time.time()
        took = self.end(run, since)
        said = open(f"{self.folder}/first").read()
        if words:
            self.mend()
        if run.returncode == 0 and f"{STEPS} steps" in said:
            return None, f"{moment}: it was over"
        saved = sorted(n for n in os.listdir(self.out) if n.startswith("step-")) if os.path.isdir(self.out) else []
        text = f"{moment}, {saved[-1] if saved else 'nothing saved'}, code {run.returncode}"
        if took is None and not workers(self.out) and MPIRUN_HANGS in said:
            run.kill()
            self.hung = True
            return None, f"{text}: all ranks are gone, but mpirun itself hangs ({MPIRUN_HANGS})"
        if took is None:
            run.kill()
            return False, f"{text}: not all gone after {LIMIT_S} s: {workers(self.out)}"
        text += f", gone in {took:4.1f} s"
        self.took, self.code = took, run.returncode
        if not any(w in said for w in words or [""]):
            return False, f"{text}: does not say {words[0]}: {said[:800]}"
        codes = {"disk": (1,), "link": (LOST, LOST_DAEMON)}.get(self.kind, (LOST,)) + (KILLED,) * self.early
        if run.returncode not in codes:
            return False, f"{text}: {said[:800]}"
        again = self.start("again")
        again.wait(timeout=120)
        if again.returncode or self.bytes() != wanted:
            return False, f"{text}: started again: code {again.returncode}, {open(f'{self.folder}/again').read()[:800]}"
        return True, f"{text}; started again: the same bytes"

    def remove(self):
        if self.kind == "disk":
            sh("umount", self.out)
        shutil.rmtree(self.folder, ignore_errors=True)


def outcomes(kind, trials, good, machine):
    """The outcomes of a kind as rows of results."""
    commit = sh("git", "rev-parse", "--short", "HEAD").stdout.strip()
    ended = [t for t in trials if not t.hung and t.code is not None]
    values = [("runs", len(ended), ""), ("good", good, ""),
              ("ended by mpirun with 137, before the rank had joined", sum(t.code == KILLED for t in ended), ""),
              ("mpirun hung after all ranks had gone; not counted", sum(t.hung for t in trials), ""),
              ("longest until all were gone", f"{max((t.took for t in ended), default=0):.1f}", "s")]
    for metric, value, unit in values:
        print(",".join([machine, datetime.date.today().isoformat(), commit, "disturbed ranks", kind, "4 ranks",
                        f'"{metric}"' if "," in metric else metric, str(value), unit, "", ""]), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--program", required=True)
    p.add_argument("--all", action="store_true")
    p.add_argument("--only", default=",".join(COUNTS))
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--sequence-ranks", type=int, default=1)
    p.add_argument("--csv", metavar="MACHINE")
    p.add_argument("--keep", action="store_true")
    args = p.parse_args()
    args.program = os.path.abspath(args.program)
    if not shutil.which("mpirun") or "opened for several ranks" not in sh(args.program, "--version").stdout:
        print("skipped: mpirun, or the plug-in of MPI, is not here")
        return 77
    base = tempfile.mkdtemp(prefix="mba-ranks-")
    with open(f"{base}/text", "w") as f:
        f.writelines(f"Line {i} of a text about ranks that are disturbed.\n" for i in range(4000))
    args.data = f"{base}/shards"
    done = sh(args.program, "data", "prepare", "--out", args.data, f"{base}/text")
    if done.returncode:
        sys.exit(done.stdout)
    if args.csv:
        print("machine,date,commit,what,shape,variant,metric,value,unit,peer,setting")
    rng, bad, hosts, skipped = random.Random(args.seed), 0, None, []
    whole = Trial("kill", args, base, None, rng)
    run = whole.start("whole")
    if run.wait(timeout=120):
        sys.exit(open(f"{base}/whole").read())
    wanted = whole.bytes()
    for kind in args.only.split(","):
        if kind in ("link", "disk") and (os.geteuid() or not shutil.which("ip")):
            print(f"{kind}: skipped: needs root and ip")
            skipped.append(kind)
            continue
        try:
            hosts = Hosts(base) if kind == "link" else None
        except OSError as e:
            print(f"link: skipped: no network namespaces here: {e}")
            skipped.append(kind)
            continue
        good, k, trials = 0, 0, []
        count = COUNTS[kind] if args.all else 1
        while k < count:
            folder = tempfile.mkdtemp(prefix=kind, dir=base)
            trial = Trial(kind, args, folder, hosts, rng)
            fine, text = trial.judge(wanted)
            trials.append(trial)
            print(f"{kind} {k + 1}: {text}", file=sys.stderr if args.csv else sys.stdout, flush=True)
            k += fine is not None  # what says nothing about us does not count
            good += fine is True
            if not args.keep:
                trial.remove()
        if hosts:
            hosts.remove()
        if args.csv:
            outcomes(kind, trials, good, args.csv)
        else:
            print(f"{kind}: {good} of {count} good, mpirun hung {sum(t.hung for t in trials)} times")
        bad += count - good
    if args.keep:
        print(f"folders: {base}")
    else:
        shutil.rmtree(base, ignore_errors=True)
    if skipped:
        print(f"not tested: {', '.join(skipped)}")
    return 1 if bad else 77 if skipped else 0


if __name__ == "__main__":
    sys.exit(main())
