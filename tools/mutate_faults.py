# SPDX-License-Identifier: Apache-2.0
"""mutate_faults.py -- what tests/faults says of a mutant: fails the calls that the changed function makes.

A mutant that ignores an error is seen where the error occurs. tests/faults/faults.py fails calls all over a command;
here only those between the begin and the end of the changed statement or function fail, as far as `faults.py --all`
fails them too."""
import os
import re
import struct
import subprocess
import sys
import time

from mutations import bodies, closing, code_of

HEAD = ("extern void fail_mark(int begins) __attribute__((weak));\n"
        "static inline int mark_begin_(void) { if (fail_mark) fail_mark(1); return 0; }\n"
        "static inline void mark_end_(int *p) { (void)p; if (fail_mark) fail_mark(0); }\n")
SCOPE = " __attribute__((cleanup(mark_end_))) int mark_ = mark_begin_(); (void)mark_; "
FAULT_S, POINTS_MOST, CASE_S_MOST = 12, 40, 3           # for one mutant; a command that takes longer has no say
GOOD = ("error", "told", "same", "missed")


def marked(m, text):
    """The file with marks around the statement whose error is ignored, else around the body of the function."""
    code = code_of(text)
    if m.kind == "error ignored":
        end = closing(code, m.end)
        call = text[m.end + 1:end]
        return HEAD, text[:m.start] + "MBA_TRY(({" + SCOPE + "(" + call + "); }))" + text[end + 1:]
    for first, last in bodies(code):
        if first <= m.start < last:
            return HEAD, text[:first + 1] + SCOPE + text[first + 1:]
    return HEAD, text


def spans(path, classes):
    """[(counts at the begin, counts at the end)] of the outermost calls that were marked."""
    size, found, depth, begin = 8 * (classes + 1), [], 0, None
    data = open(path, "rb").read() if os.path.exists(path) else b""
    for at in range(0, len(data) - size + 1, size):
        begins, *counts = struct.unpack(f"{classes + 1}Q", data[at:at + size])
        if begins and not depth:
            begin = counts
        depth += 1 if begins else -1
        if not begins and depth == 0:
            found.append((begin, counts))
    return found


class Faults:
    """The commands of tests/faults for one worker; `libraries` (a search path) is the library without a mutant."""

    def __init__(self, root, build, folder, libraries):
        sys.path.insert(0, os.path.join(root, "tests", "faults"))
        import faults
        self.faults, self.libraries = faults, libraries
        self.top = os.path.join(folder, "faults")
        subprocess.run(["rm", "-rf", self.top], check=True)
        os.makedirs(self.top)
        self.rig = faults.Rig(os.path.join(build, "mambascope"), os.path.join(build, "tests", "libfail.so"), self.top,
                              30, faults.CLASSES, True)
        self.subjects = {}

    def names(self):
        return [c.name for c in self.faults.CASES if c.weight <= CASE_S_MOST]

    def subject(self, name):
        """The case with its inputs made by the library without a mutant; None: it fails on this machine."""
        if name not in self.subjects:
            self.rig.env = {"LD_LIBRARY_PATH": self.libraries}
            try:
                self.subjects[name] = self.faults.Subject(self.rig,
                                                          next(c for c in self.faults.CASES if c.name == name))
            except SystemExit as e:
                print(f"  faults of {name}: {e}", file=sys.stderr, flush=True)
                self.subjects[name] = None
        return self.subjects[name]

    def run_once(self, subject, libraries, **env):
        """An undisturbed run in a folder of its own."""
        folder, counts = subject.stem + ".mark", subject.stem + ".mark.counts"
        self.faults.remove(folder)
        self.faults.copy(subject.stem, folder)
        self.rig.env = dict(env, LD_LIBRARY_PATH=libraries)
        self.rig.start(subject.case, subject.case.run, folder, counts=counts)

    def points(self, subject, libraries):
        """The faults to try: first and last calls of each class first, then what lies between."""
        marks = subject.stem + ".marks"
        if os.path.exists(marks):
            os.unlink(marks)
        self.run_once(subject, libraries, MBA_FAULT_MARKS=marks)
        classes, ranked = self.faults.CLASSES, []
        for turn, (begin, end) in enumerate(spans(marks, len(classes))[:200]):
            for i, (name, ways) in enumerate(classes.items()):
                tried = set(self.faults.sample(subject.counts[i], 300, 300))        # what --all tries
                calls = [n for n in range(begin[i] + 1, min(end[i], begin[i] + 600) + 1) if n in tried]
                for k, n in enumerate(calls):
                    for j, (how, error) in enumerate(ways):
                        rank = min(k, len(calls) - 1 - k) + 2 * turn + (3 + i % 2) * j
                        ranked.append((rank, f"{name} {n} {how} {error}"))
        seen = sorted(ranked, key=lambda r: r[0])
        return list(dict.fromkeys(fault for _, fault in seen))[:POINTS_MOST]

    def kills(self, names, mutant, with_marks):
        """The command and the fault that tell the mutant apart, or ""; both arguments are search paths."""
        began = time.time()
        for name in names:
            subject = self.subject(name)
            if not subject:
                continue
            for fault in self.points(subject, with_marks):
                if time.time() - began > FAULT_S:
                    return ""
                self.rig.env = {"LD_LIBRARY_PATH": mutant}
                verdict = subject.point(fault, "m")
                if verdict in GOOD:
                    continue
                self.rig.env = {"LD_LIBRARY_PATH": self.libraries}
                if subject.point(fault, "m") in GOOD:
                    return f"faults of {name}, '{fault}': " + re.sub(r"\s+", " ", verdict)[:80]
        return ""
