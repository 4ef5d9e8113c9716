# SPDX-License-Identifier: Apache-2.0
"""mutate_build.py -- for tools/mutate: builds the library and the tests, other objects in place of the library's own,
and a library that reports which of its lines run."""
import concurrent.futures
import hashlib
import os
import re
import shlex
import subprocess
import sys

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
BUILD = os.path.join(ROOT, "build-mutants")


def build(jobs):
    options = ["-DMBA_CUDA=OFF", "-DMBA_TESTS=ON", "-DMBA_SHARED_LIBRARY=ON", "-DMBA_OPTIMIZE=-O1",
               "-DMBA_OPTIMIZE_KERNELS=-O2",
               "-DMBA_DEBUG=-g0"]
    subprocess.run(["cmake", "-S", ROOT, "-B", BUILD, "-G", "Ninja", *options], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["nice", "ninja", "-C", BUILD, "-j", str(jobs)], check=True, stdout=subprocess.DEVNULL)


def compile_to(command, source, out, *more):
    """Compiles `source` as `command` compiles the original."""
    words = shlex.split(command)
    at = words.index("-o")
    words[at + 1] = out
    words[words.index("-c") + 1] = source
    return subprocess.run(words + list(more), cwd=BUILD, capture_output=True).returncode == 0


def link_words():
    out = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", "libmba.so"], check=True, capture_output=True,
                         text=True).stdout
    words = shlex.split(out.strip().splitlines()[-1])
    return [w for w in words if w not in (":", "&&")]


def link(words, objects, out):
    """Links libmba with `objects` (of path -> another object) in place of its own."""
    own = {f"CMakeFiles/mba.dir/{path}.o": new for path, new in objects.items()}
    words = [own.get(w, w) for w in words]
    words[words.index("-o") + 1] = out
    return subprocess.run(words, cwd=BUILD, capture_output=True, text=True)


# ---- which lines run ----

# Every basic block calls this function; the byte of its address is set in a file that all processes of a test share.
HITS_SOURCE = r"""
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
enum { SIZE = 64 << 20 };
static unsigned char *hits;
__attribute__((constructor(101))) static void open_hits(void)
{
    const char *path = getenv("MUTATE_HITS");
    const int   fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (p != MAP_FAILED) hits = p;
}
void __sanitizer_cov_trace_pc(void)
{
    const uintptr_t at = (uintptr_t)__builtin_return_address(0) - (uintptr_t)__ehdr_start;
    if (hits && at < SIZE) hits[at] = 1;
}
"""
HITS_SIZE = 64 << 20


def stamp_of_sources():
    sums = hashlib.sha256()
    for folder, _, names in sorted(os.walk(os.path.join(ROOT, "src"))):
        for name in sorted(n for n in names if not n.endswith("_test.c")):
            sums.update(name.encode() + open(os.path.join(folder, name), "rb").read())
    return sums.hexdigest()


def build_hits(commands, jobs):
    """A libmba whose blocks report that they ran; returns its folder. Made again when a source has changed."""
    folder = os.path.join(BUILD, "hits")
    out, of = os.path.join(folder, "libmba.so"), os.path.join(folder, "sources")
    if os.path.exists(out) and os.path.exists(of) and open(of).read() == stamp_of_sources():
        return folder
    os.makedirs(folder, exist_ok=True)
    open(os.path.join(folder, "hits.c"), "w").write(HITS_SOURCE)
    subprocess.run(["gcc", "-O2", "-fPIC", "-c", "hits.c", "-o", "hits.o"], cwd=folder, check=True)

    def one(path):
        new = os.path.join(folder, path.replace("/", "_") + ".o")
        if not compile_to(commands[path], os.path.join(ROOT, path), new, "-fsanitize-coverage=trace-pc", "-g1"):
            sys.exit(f"error: {path} does not compile")
        return path, new
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        objects = dict(pool.map(one, commands))
    words = link_words()
    done = link(words + [os.path.join(folder, "hits.o")], objects, out)
    if done.returncode:
        sys.exit(done.stderr)
    open(of, "w").write(stamp_of_sources())
    return folder


def block_lines(library):
    """return address of a block's report -> the lines (path:line) of that block."""
    calls, call = [], None                              # (address of the call, of what follows)
    with subprocess.Popen(["objdump", "-d", "--no-show-raw-insn", library], stdout=subprocess.PIPE, text=True) as p:
        for line in p.stdout:
            m = re.match(r"\s*([0-9a-f]+):\s", line)
            if m and call is not None:
                calls.append((call, int(m[1], 16)))
            call = int(m[1], 16) if m and "<__sanitizer_cov_trace_pc" in line and not line.endswith(">:\n") else None
    table = subprocess.run(["objdump", "-WL", library], capture_output=True, text=True).stdout
    starts = sorted({int(x, 16) for x in re.findall(r"\s0x([0-9a-f]+)", table)})
    places = subprocess.run(["addr2line", "-e", library], input="".join(f"{x:#x}\n" for x in starts),
                            capture_output=True,
                            text=True, check=True).stdout.splitlines()
    rows = []
    for at, place in zip(starts, places):
        m = re.match(r".*?(src/[^:]*:\d+)", place)
        if m:
            rows.append((at, m[1]))
    calls.sort()
    blocks, i = {}, 0
    for k, (call, after) in enumerate(calls):
        end = calls[k + 1][0] if k + 1 < len(calls) else after + 4096
        while i < len(rows) and rows[i][0] <= call:
            i += 1
        lines, j = {rows[i - 1][1]} if i else set(), i  # the row that the call lies in, and those until the next call
        while j < len(rows) and rows[j][0] < end:
            lines.add(rows[j][1])
            j += 1
        blocks[after] = sorted(lines)
    return blocks
