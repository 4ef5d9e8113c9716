#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails the n-th call of a class, for each of the program's commands, and judges what becomes of it.

    tests/faults/faults.py --program build/mambascope --library build/tests/libfail.so           a sample, half a minute
    .. --few                     a point of each class, and no command that measures
    .. --all                     every n of the first 300 of a class, and 300 more over the rest; half an hour
    .. --only show,report        these commands; --classes alloc,read: these calls
    .. --cuda --program build/tests/mambascope_faults       calls of CUDA and its libraries, on a GPU (tests/faults/gpu)
    .. --only show --point 'alloc 17 once 12'       one point; its folder is left and named

A point is good where the program ends with an error that it tells, leaves what was there before, and nothing half-made
under a final name; or where it ends well with the very output of an undisturbed run; or where a measurement ends well
without a part and tells so. Needs no more of Python than python3-minimal has."""
import argparse
import hashlib
import os
import re
import signal
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cases import CASES, CUDA_CASES  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EINTR, EIO, EAGAIN, ENOMEM, EMFILE, ENOSPC = 4, 5, 11, 12, 24, 28
# In the order of fail.c: how each class of calls fails.
CLASSES = {
    "alloc": [("once", ENOMEM), ("on", ENOMEM)],
    "open": [("once", EIO), ("on", EMFILE)],
    "read": [("once", EIO), ("on", EIO), ("once", EINTR), ("short", 0)],
    "write": [("once", ENOSPC), ("on", ENOSPC), ("once", EINTR), ("short", 0)],
    "sync": [("once", EIO), ("on", EIO)],
    "name": [("once", EIO), ("on", ENOSPC)],
    "map": [("once", ENOMEM), ("on", ENOMEM)],
    "size": [("once", EIO), ("on", EIO)],
    "thread": [("once", EAGAIN), ("on", EAGAIN)],
    "process": [("once", EAGAIN), ("on", EAGAIN)],
}
# In the order of cuda.c, with what each of them says of a failure.
CUDA_CLASSES = {
    "cudart": [("once", 999), ("on", 719), ("once", 2)],
    "cublaslt": [("once", 13), ("on", 3)],
    "cudnn": [("once", 5000), ("on", 4000)],
    "cupti": [("once", 999), ("on", 15)],
    "nvml": [("once", 999), ("on", 3)],
    "driver": [("once", 999), ("on", 2)],
    "library": [("once", 1), ("on", 1)],
}
# What a command may leave under names that nobody takes for a result; the next run removes it, or it does not matter.
LITTER = re.compile(r"(\.unfinished|\.gone(/|$)|\.partial(-\w+)?(/|$)|\.tmp$|\.old(/|$)|"
                    r"-journal$|\.new$|\.lock$|\.\d+\.new|(^|/)\.[^/]+\.part\.db|^tmp/)")
SANITIZER = re.compile(rb"AddressSanitizer|LeakSanitizer|runtime error:")


def read(path):
    with open(path, "rb") as f:
        return f.read()


def tree(top):
    """The files below a folder, by their names there."""
    found = {}
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, top)] = path
    return found


def remove(top):
    for folder, folders, names in os.walk(top, topdown=False):
        for name in names:
            os.unlink(os.path.join(folder, name))
        for name in folders:
            path = os.path.join(folder, name)
            os.unlink(path) if os.path.islink(path) else os.rmdir(path)
    if os.path.isdir(top):
        os.rmdir(top)


def copy(source, target):
    for folder, _, names in os.walk(source):
        to = os.path.join(target, os.path.relpath(folder, source))
        os.makedirs(to, exist_ok=True)
        for name in names:
            path, made = os.path.join(folder, name), os.path.join(to, name)
            with open(made, "wb") as f:
                f.write(read(path))
            os.utime(made, ns=(os.stat(path).st_atime_ns, os.stat(path).st_mtime_ns))


class Ended:
    """How a process ended."""
    def __init__(self, code, out, err, hung):
        self.code, self.out, self.err, self.hung = code, out, err, hung


class Rig:
    """The program, the library, and a folder for all of it."""
    def __init__(self, program, library, top, patience, classes, thorough):
        self.program, self.library = os.path.abspath(program), library and os.path.abspath(library)
        self.top, self.patience, self.classes, self.thorough = top, patience, classes, thorough
        self.env = {}                            # what the program finds in its environment besides

    def start(self, case, args, folder, fault=None, counts=None, trace=None):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("MBA_", "OMP_", "LD_PRELOAD"))}
        os.makedirs(os.path.join(folder, "tmp"), exist_ok=True)
        env.update(OMP_NUM_THREADS=str(case.threads), OMP_WAIT_POLICY="passive", TMPDIR=os.path.join(folder, "tmp"),
                   TERM="dumb")
        env["ASAN_OPTIONS"] = ("detect_leaks=0:verify_asan_link_order=0:detect_stack_use_after_return=0:"
                               "allocator_may_return_null=1")
        if counts:
            env.update(MBA_FAULT_COUNTS=counts)
            if self.library:
                env.update(LD_PRELOAD=self.library)
        if fault:
            env.update(MBA_FAULT=fault, MBA_FAULT_TRACE=trace)
        env.update(self.env)
        p = subprocess.Popen([self.program] + args.split(), cwd=folder, env=env, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, start_new_session=True)
        try:
            out, err = p.communicate(case.stdin, timeout=max(self.patience, 10 * case.weight))
            return Ended(p.returncode, out, err, False)
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            out, err = p.communicate()
            return Ended(p.returncode, out, err, True)


class Subject:
    """A case with its inputs made and its undisturbed result known."""
    def __init__(self, rig, case):
        self.rig, self.case = rig, case
        self.stem = os.path.join(rig.top, re.sub(r"\W+", "-", case.name))
        self.make_inputs()
        first, second = self.undisturbed("a"), self.undisturbed("b")
        if first[:2] != second[:2]:
            differ = [k for k in first[1] if first[1][k] != second[1].get(k)]
            raise SystemExit(f"{case.name}: two undisturbed runs differ: {differ or 'in what they print'}")
        self.out, self.after, self.counts, told = first
        self.told = told | second[3]
        self.before = self.files(self.stem)
        self.parts = {}
        for files in (self.before, self.after):
            for name, digest in files.items():
                self.parts.setdefault(os.path.basename(name), set()).add(digest)
        self.logs = {n: self.case.plain(read(os.path.join(self.stem + ".a", n))) for n in self.after
                     if n.endswith(".jsonl")}
        remove(self.stem + ".a")
        remove(self.stem + ".b")

    def make_inputs(self):
        os.makedirs(self.stem)
        with open(os.path.join(self.stem, "text.txt"), "w") as f:
            f.write("the quick brown fox\njumps over the lazy dog\n" * 120)
        with open(os.path.join(self.stem, "lines.jsonl"), "w") as f:
            f.write('{"text": "the quick brown fox"}\n' * 60)
        with open(os.path.join(self.stem, "t.npy"), "wb") as f:
            head = b"{'descr': '<i4', 'fortran_order': False, 'shape': (2, 16), }".ljust(117) + b"\n"
            f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + struct.pack("<32i", *range(60, 92)))
        for name in self.case.copy:
            with open(os.path.join(self.stem, os.path.basename(name)), "wb") as f:
                f.write(read(os.path.join(ROOT, name)))
        for args in self.case.make:
            e = self.rig.start(self.case, args, self.stem)
            if e.code:
                raise SystemExit(f"{self.case.name}: its input cannot be made by `{args}`: "
                                 f"{e.err.decode(errors='replace')}")

    def outline(self, folder, name):
        """What a measured store or page is made of, without its numbers."""
        if name.endswith(".db"):
            e = self.rig.start(self.case, f"show {name} --json", folder)
            return has_values(e.out) if e.code == 0 else b"damaged"
        if name.endswith(".html"):
            return b"\n".join(re.findall(rb"<h[1-4][^>]*>|</html>|[nN]o data[^<]*", read(os.path.join(folder, name))))
        if name.endswith(".json"):
            return b"\n".join(sorted(set(re.findall(rb'"\w+": (?:null|.)',
                                                    re.sub(rb"-?[0-9]+", b"#", read(os.path.join(folder, name)))))))
        return None

    def digest(self, folder, name):
        data = self.outline(folder, name) if self.case.measures else None
        if data is None:
            data = self.case.plain(read(os.path.join(folder, name)))
        return hashlib.sha256(data).hexdigest()

    def files(self, folder):
        return {n: self.digest(folder, n) for n in tree(folder) if not LITTER.search(n)}

    def printed(self, out):
        """What was printed; of measured tables how their rows begin, which come in the order of their times."""
        return sorted(re.findall(rb"^[a-zA-Z]+", out, re.M)) if self.case.measures else self.case.plain(out)

    def undisturbed(self, mark):
        folder, counts = f"{self.stem}.{mark}", f"{self.stem}.{mark}.counts"
        copy(self.stem, folder)
        e = self.rig.start(self.case, self.case.run, folder, counts=counts)
        if e.code or not os.path.exists(counts):
            raise SystemExit(f"{self.case.name}: fails undisturbed, {e.code}: {e.err.decode(errors='replace')}")
        counted = struct.unpack(f"{len(self.rig.classes) + 1}Q", read(counts))
        return self.printed(e.out), self.files(folder), counted, self.says(folder, e)

    def says(self, folder, e):
        """What a measurement says about itself: on stderr, and in the notes of its stores on what is missing."""
        said = lines_of(e.err)
        for name in tree(folder) if self.case.measures else ():
            if name.endswith(".db"):
                said |= lines_of(self.rig.start(self.case, f"show {name} notes", folder).out)
        return said

    # ---- judging ----

    # What is no reason to end a run, by the words that say so.
    soft = {"run/samples.jsonl": b": no sample: ", "report.html": b"error: the page is without "}

    def half(self, folder, name):
        """A line that the undisturbed run does not have; of a page: that it has no end."""
        if name.endswith(".html"):
            return not read(os.path.join(folder, name)).rstrip().endswith(b"</html>")
        path = os.path.join(folder, name)
        return (os.path.exists(path) and
                set(self.case.plain(read(path)).splitlines(True)) - set(self.logs[name].splitlines(True)))

    @staticmethod
    def recover(folder):
        """Does what the next --resume does first: a best.old without a best gets its name back."""
        best = os.path.join(folder, "run", "best")
        if os.path.isdir(best + ".old") and not os.path.exists(best):
            os.rename(best + ".old", best)

    def damage(self, folder, e):
        """What a failed run has left that it should not; None: nothing."""
        self.recover(folder)
        left = {n: p for n, p in tree(folder).items() if not LITTER.search(n)}
        for name in self.before:
            if name in self.after and name not in left:
                return f"{name} is lost"
        for name in left:
            if name in self.soft and (name not in self.before or self.soft[name] in e.err):
                if self.half(folder, name):
                    return f"half of {name} is there"
                continue
            if self.case.measures and name in self.before and read(left[name]) == read(os.path.join(self.stem, name)):
                continue
            if name in self.logs:                # a log grows line by line
                if not self.logs[name].startswith(self.case.plain(read(left[name]))):
                    return f"{name} is no beginning of the whole log"
            elif self.digest(folder, name) not in self.parts.get(os.path.basename(name), ()):
                return f"{name} is neither the old one nor the new one"
        return self.incomplete(left)

    def incomplete(self, left):
        """A checkpoint or a set of tokens that lacks files; None: there is none."""
        for folder in {os.path.dirname(n) for n in left}:
            whole = [{os.path.basename(n) for n in f if os.path.dirname(n) == folder}
                     for f in (self.before, self.after)]
            have = {os.path.basename(n) for n in left if os.path.dirname(n) == folder}
            if re.search(r"step-\d+$|best$|tokens$", folder) and have not in whole:
                return f"{folder} is incomplete"
        return None

    def degraded(self, folder, e):
        """A measurement that ended well without a part, and says what an undisturbed one does not say."""
        return self.case.measures and self.says(folder, e) - self.told and not self.incomplete(self.files(folder)) \
            and not any(n.endswith(".html") and self.half(folder, n) for n in tree(folder))

    def other(self, folder, e):
        """What a run that ended well has made otherwise; None: nothing."""
        if self.printed(e.out) != self.out:
            return "ends well and prints something else"
        files = self.files(folder)
        names = sorted(n for n in set(files) | set(self.after) if files.get(n) != self.after.get(n))
        if not self.incomplete(files):           # an old checkpoint that could not be removed
            names = [n for n in names if n in self.after or files.get(n) != self.before.get(n)]
        for name, told in self.soft.items():
            if name in names and told in e.err and not self.half(folder, name):
                names.remove(name)
        return f"ends well with other files: {' '.join(names)}" if names else None

    def recovers(self, folder):
        e = self.rig.start(self.case, self.case.again, folder)
        if e.code:
            return f"cannot go on after it: {e.err.decode(errors='replace').strip()}"
        files = self.files(folder)
        names = sorted(n for n in self.after if files.get(n) != self.after[n] and n not in self.soft)
        return f"goes on after it and ends with other files: {' '.join(names)}" if names else None

    def judge(self, folder, e):
        """'error', 'same', or what is bad about it."""
        if e.hung:
            return "hangs"
        if e.code < 0:
            last = e.err.decode(errors="replace").strip().split("\n")[-1]
            return f"ends by {signal.Signals(-e.code).name}: {last}"
        if SANITIZER.search(e.err):
            return "the sanitizer says: " + \
                SANITIZER.search(e.err.replace(b"\n", b" ")).string.decode(errors="replace")[:400]
        if e.code == 0:
            other = self.other(folder, e)
            return "told" if other and self.degraded(folder, e) else other or "same"
        if not e.err.strip():
            return f"exit {e.code} without a word"
        return self.damage(folder, e) or (self.case.again and (self.rig.thorough or self.case.weight < 1)
                                          and self.recovers(folder)) or "error"

    def point(self, fault, worker, keep=False):
        folder, counts, trace = (f"{self.stem}.{worker}{x}" for x in ("", ".counts", ".trace"))
        remove(folder)
        for path in (counts, trace):
            if os.path.exists(path):
                os.unlink(path)
        copy(self.stem, folder)
        e = self.rig.start(self.case, self.case.run, folder, fault, counts, trace)
        struck = struct.unpack(f"{len(self.rig.classes) + 1}Q", read(counts))[-1] if os.path.exists(counts) else 0
        verdict = self.judge(folder, e) if struck else "missed"
        if keep:
            print(f"exit {e.code}, {struck} failed: {verdict}\n{e.err.decode(errors='replace')}\nin {folder}")
        if verdict not in ("error", "told", "same", "missed") or keep:
            verdict += where(self.rig.program, trace) + "".join(f"\n    {x.decode(errors='replace')}"
                                                                for x in e.err.splitlines()[-6:])
        return verdict


def has_values(printed):
    """Of `show --json`: which columns of which tables hold a value; not of those that tell how good a measurement
    was."""
    table, found = b"", set()
    for line in printed.splitlines():
        begins, holds = re.match(rb'[{,]?"(\w+)": \[', line), re.match(rb'\s+"(\w+)": (?!null)', line)
        table = begins[1] if begins else table
        if holds and table not in (b"doubts", b"notes", b"claims"):
            found.add(table + b"." + holds[1])
    return b"\n".join(sorted(found))


def lines_of(err):
    """The lines of a program's stderr, without their numbers."""
    return {re.sub(rb"[0-9.]+", b"#", line) for line in err.splitlines() if line.strip()}


def where(program, trace):
    """The functions of the program on the way to the call that failed, innermost first."""
    if not os.path.exists(trace):
        return ""
    frames = re.findall(re.escape(os.path.basename(program)) + r"\(\+?(0x[0-9a-f]+)\)",
                        read(trace).decode(errors="replace"))
    try:
        text = subprocess.run(["addr2line", "-fse", program] + frames[:5], capture_output=True,
                              text=True).stdout.split("\n")
    except FileNotFoundError:
        return f"  [{' '.join(frames)}]"
    return "  [" + " < ".join(f"{a} {b.split(' ')[0]}" for a, b in zip(text[0::2], text[1::2])) + "]"


def sample(count, first, more):
    """Every n up to `first`, and `more` of the rest, evenly; deterministic."""
    some = set(range(1, min(count, first) + 1))
    rest = count - first
    some.update(first + 1 + i * rest // more for i in range(min(more, rest)) if rest > 0)
    if count > 0 and more:
        some.add(count)
    return sorted(some)


def chosen(count, i, j, slow, options):
    """Which of `count` calls fail, of class i in its way j."""
    if options.all:
        return sample(count, options.first // (20 if slow else 1), options.more // (10 if slow else 1))
    if not count or (j and (slow or options.few)):
        return []
    if slow or options.few:                       # by turns early, in the middle and last
        return [max(1, (i % 3) * count // 2)]
    some = 3 if j == 0 else 1
    shift = (7 * i + 3 * j) % 5                   # not always the same places of a way
    return sorted({max(1, (2 * k + 1) * count // (2 * some) - shift) for k in range(some)} | {count if j == 0 else 1})


def points(subject, options):
    """(class, fault) of all that is to be tried."""
    for i, (name, ways) in enumerate(subject.rig.classes.items()):
        if options.classes and name not in options.classes.split(","):
            continue
        for j, (how, error) in enumerate(ways):
            for n in chosen(subject.counts[i], i, j, subject.case.weight > 1, options):
                yield name, f"{name} {n} {how} {error}"


def try_all(subject, options):
    todo, tally, bad, lock = list(points(subject, options)), {}, [], threading.Lock()
    for name, fault in todo:
        tally.setdefault(name, dict(failed=0, error=0, told=0, same=0, bad=0))

    def work(worker):
        while True:
            with lock:
                if not todo:
                    return
                name, fault = todo.pop(0)
            verdict = subject.point(fault, worker)
            with lock:
                if verdict == "missed":
                    continue
                tally[name]["failed"] += 1
                tally[name][verdict if verdict in ("error", "told", "same") else "bad"] += 1
                if verdict not in ("error", "told", "same"):
                    bad.append((fault, verdict))

    workers = [threading.Thread(target=work, args=(i,)) for i in range(options.parallel)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    for i in range(options.parallel):
        remove(f"{subject.stem}.{i}")
    return tally, bad


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--program", default="build/mambascope")
    p.add_argument("--library", default="build/tests/libfail.so")
    p.add_argument("--cuda", action="store_true")
    p.add_argument("--all", action="store_true")
    p.add_argument("--few", action="store_true")
    p.add_argument("--first", type=int, default=300, metavar="N")
    p.add_argument("--more", type=int, default=300, metavar="N")
    p.add_argument("--only", default="", metavar="NAME,..")
    p.add_argument("--classes", default="", metavar="NAME,..")
    p.add_argument("--point", metavar="FAULT")
    p.add_argument("--parallel", type=int, default=2)
    p.add_argument("--patience", type=float, default=30, metavar="SECONDS")
    options = p.parse_args()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else os.environ.get("TMPDIR", "/tmp")
    base = os.environ.get("MBA_FAULT_FOLDER") or memory
    top = os.path.join(base, f"mba-faults-{os.getpid()}")
    os.makedirs(top)
    classes = CUDA_CLASSES if options.cuda else CLASSES
    rig = Rig(options.program, None if options.cuda else options.library, top, options.patience, classes, options.all)
    only, total = [x for x in options.only.split(",") if x], dict(failed=0, error=0, told=0, same=0, bad=0)
    began = time.monotonic()
    cases = [c for c in (CUDA_CASES if options.cuda else CASES)
             if c.name in only or (options.all or c.weight < (1 if options.few else 10))
             and (not only or c.name.split()[0] in only)]
    if not cases:
        raise SystemExit(f"no such command: {options.only}; there are {', '.join(c.name for c in CASES)}")
    print(f"{'command':18} {'class':8} {'calls':>7} {'failed':>7} {'clear error':>12} {'told':>6} {'unaffected':>11} "
          f"{'bad':>5}", flush=True)
    try:
        for case in cases:
            subject = Subject(rig, case)
            if options.point:
                subject.point(options.point, 0, keep=True)
                return
            tally, bad = try_all(subject, options)
            for name, t in tally.items():
                calls = subject.counts[list(classes).index(name)]
                print(f"{case.name:18} {name:8} {calls:7} {t['failed']:7} {t['error']:12} {t['told']:6} "
                      f"{t['same']:11} {t['bad']:5}", flush=True)
                total = {k: total[k] + t[k] for k in total}
            for fault, verdict in bad:
                print(f"BAD {case.name}: '{fault}': {verdict}", flush=True)
            remove(subject.stem)
    finally:
        if not options.point:
            remove(top)
    print(f"{'in all':18} {'':8} {'':7} {total['failed']:7} {total['error']:12} {total['told']:6} {total['same']:11} "
          f"{total['bad']:5}")
    print(f"{time.monotonic() - began:.0f} s")
    sys.exit(1 if total["bad"] or not total["failed"] else 0)


if __name__ == "__main__":
    main()
