# SPDX-License-Identifier: Apache-2.0
"""tidy_layout -- the checks of tools/tidy that look at one file at a time or at names: width and length of lines,
functions and files, size of blobs, licence lines, names that two headers declare, tools without a line in
tools/README.md.

Each check yields (path, line, what). `files` are the paths of the tree; none of them is read twice in a check."""
import collections
import os
import re
import subprocess
import sys

COLUMNS, FUNCTION, KERNEL, FILE, BLOB = 120, 70, 110, 600, 256 << 10
GENERATED = ("tests/data/", "tests/fuzz/corpus/", "src/data/unicode_tables.")      # tools/format has the same
DATA = GENERATED + ("tests/golden", "docs/results/", "bench/results/", "machines/", "clusters/")
C, SCRIPTS = (".c", ".h", ".cu", ".cuh"), (".py", ".sh")
LICENSED = C + (".def", ".in", ".js", ".css", ".cmake")
LICENCE = "SPDX-License-Identifier: Apache-2.0"
# What is longer than it may be: a line `path`, or `path:function`, each with the reason behind a #.
EXCEPTIONS = "tools/tidy.exceptions"


def text(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def is_script(path):
    """Python and shell, by name or by first line."""
    if path.startswith(GENERATED):
        return False
    if path.endswith(SCRIPTS):
        return True
    if "." in os.path.basename(path):
        return False
    with open(path, "rb") as file:
        return re.match(rb"#!.*\b(python3?|bash|sh)\b", file.readline(80)) is not None


def is_code(path):
    return path.endswith(C) and not path.startswith(GENERATED)


def check_columns(files):
    for path in files:
        if is_code(path) or is_script(path):
            for number, line in enumerate(text(path).split("\n"), 1):
                if len(line) > COLUMNS:
                    yield path, number, f"{len(line)} columns; a line has at most {COLUMNS}"


def exceptions():
    if not os.path.exists(EXCEPTIONS):
        return set()
    return {line.split("#")[0].strip() for line in text(EXCEPTIONS).split("\n")} - {""}


def check_files(files):
    left_alone = exceptions()
    for path in files:
        if is_code(path) or is_script(path):
            lines = text(path).count("\n")
            if lines > FILE and path not in left_alone:
                yield path, FILE + 1, f"{lines} lines; a file has at most {FILE}"


# what may stand in front of a name and have parentheses
BEFORE_NAMES = ("__launch_bounds__", "__attribute__", "sizeof")


def functions(lines):
    """(first line of the declaration, name, whether a GPU runs it, lines of the body) of functions laid out by
    tools/format."""
    opened = None
    for number, line in enumerate(lines):
        if line == "{":
            opened = number
        elif line.startswith("}") and opened is not None:
            first = opened - 1
            while first > 0 and lines[first - 1] and not re.search(r"^[}#/]|^ \*|[;}]$|\*/$|^namespace",
                                                                   lines[first - 1]):
                first -= 1
            head = " ".join(lines[first:opened])
            names = [n for n in re.findall(r"(\w+)\s*\(", head) if n not in BEFORE_NAMES]
            on_gpu = "__global__" in head or "__device__" in head
            yield first + 1, names[0] if names else "?", on_gpu, number - opened + 1
            opened = None


def check_functions(files):
    left_alone = exceptions()
    for path in files:
        if is_code(path):
            for number, name, on_gpu, length in functions(text(path).split("\n")):
                limit = KERNEL if on_gpu else FUNCTION
                what = "a kernel" if on_gpu else "a function"
                if length > limit and f"{path}:{name}" not in left_alone:
                    yield path, number, f"{name} has {length} lines; {what} has at most {limit}"


def check_exceptions(files):
    """An exception that is none any more."""
    for entry in exceptions():
        path, _, name = entry.partition(":")
        if path not in files:
            yield path, 1, "has a line in tools/tidy.exceptions and is not there"
        elif not name and text(path).count("\n") <= FILE:
            yield path, 1, f"has a line in tools/tidy.exceptions and at most {FILE} lines"
        elif name and not any(n == name and length > (KERNEL if on_gpu else FUNCTION)
                              for _, n, on_gpu, length in functions(text(path).split("\n"))):
            yield path, 1, f"{name} has a line in tools/tidy.exceptions and needs none"


def check_blobs(files):
    for path in files:
        size = os.path.getsize(path)
        if size > BLOB and not path.startswith(("tests/data/", "docs/results/")):
            yield path, 1, f"{size >> 10} KB; a file has at most {BLOB >> 10} KB outside tests/data and docs/results"


def check_licences(files):
    for path in files:
        if path.startswith(DATA):
            continue
        if path.endswith(LICENSED) and not path.endswith(".pc.in") or is_script(path):
            if LICENCE not in "\n".join(text(path).split("\n", 2)[:2]):
                yield path, 1, f"no {LICENCE} in its first two lines"


DECLARED = re.compile(r"^(?!static|typedef|return|else|#)[A-Za-z_][\w ]*?[\w*] \**(mba_\w+)\(", re.M)
TYPED = re.compile(r"^typedef (?:struct|enum|union) (mba_\w+) \{|^(?:struct|enum|union) (mba_\w+) \{|"
                   r"^\} (mba_\w+);|^typedef [^;{]*?\b(mba_\w+)(?:\(|;)", re.M)


def without_comments(source):
    """The source with comments blanked out; lines stay where they are."""
    return re.sub(r"/\*.*?\*/|//[^\n]*", lambda m: re.sub(r"[^\n]", " ", m[0]), source, flags=re.S)


def check_names(files):
    """Functions and types of ours that two headers declare."""
    where = collections.defaultdict(dict)
    for path in sorted(files):
        if not path.endswith((".h", ".cuh")) or path.startswith(GENERATED):
            continue
        source = without_comments(text(path))
        for pattern in (DECLARED, TYPED):
            for match in pattern.finditer(source):
                name = next(filter(None, match.groups()))
                # opaque, anywhere
                forward = re.match(r"typedef (?:struct|enum|union) (\w+) +\1;", source[match.start():])
                if not forward:
                    where[name].setdefault(path, source.count("\n", 0, match.start()) + 1)
    for name, found in sorted(where.items()):
        for path, line in list(found.items())[1:]:
            yield path, line, f"{name} is declared in {next(iter(found))}, too"


def check_tools(files):
    """Every tool has a line in tools/README.md, and every line there has a tool."""
    page = "tools/README.md"
    if page not in files:
        return
    listed = {name: number for number, line in enumerate(text(page).split("\n"), 1)
              for name in re.findall(r"^\| `([\w./-]+)`", line)}
    there = {path[len("tools/"):] for path in files if path.startswith("tools/") and path != page}
    folders = {name.split("/")[0] + "/" for name in there if "/" in name}
    for name in sorted(there):
        if name not in listed and not any(name.startswith(f) and f in listed for f in folders):
            yield page, 1, f"has no line for tools/{name}"
    for name, number in listed.items():
        if name not in there and name not in folders:
            yield page, number, f"names tools/{name}, which is not there"


CHECKS = (check_columns, check_files, check_functions, check_exceptions, check_blobs, check_licences, check_names,
          check_tools)


def main():
    """Prints the findings of the tree: tools/tidy does the same among others."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True,
                            check=True)
    files = [path for path in listed.stdout.splitlines() if os.path.isfile(path)]
    found = [f"{path}:{line}: {what}" for check in CHECKS for path, line, what in check(files)]
    print("\n".join(found), end="\n" if found else "")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
