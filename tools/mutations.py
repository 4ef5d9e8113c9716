# SPDX-License-Identifier: Apache-2.0
"""mutations.py -- what tools/mutate can change in a file of C: mutants_of(path, text) yields every Mutant."""
import collections
import re

SILENT = r"\b(?:mba_fail|mba_where|mba_assert|mba_debug_assert|static_assert|_Static_assert)\s*\("
SWAPS = {"==": ["!="], "!=": ["=="], "<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"],
         "&&": ["||"], "||": ["&&"], "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"],
         "+=": ["-="], "-=": ["+="], "*=": ["/="], "/=": ["*="]}
KEYWORDS = {"return", "case", "sizeof", "else", "if", "while", "for", "do", "goto", "switch", "default", "break",
            "continue",
            "typedef", "static", "const", "extern", "struct", "union", "enum", "unsigned", "signed", "int", "char",
            "float",
            "double", "long", "short", "bool", "void"}

Mutant = collections.namedtuple("Mutant", "path line kind start end text")      # text replaces [start, end) of the file


def blank(text, spans):
    out = list(text)
    for start, end in spans:
        for i in range(start, end):
            if out[i] != "\n":
                out[i] = " "
    return "".join(out)


def closing(text, at):
    """Where the bracket that opens at `at` is closed; -1: nowhere."""
    depth = 0
    for i in range(at, len(text)):
        if text[i] in "([{":
            depth += 1
        elif text[i] in ")]}":
            depth -= 1
            if depth == 0:
                return i
    return -1


def code_of(text):
    """The text with everything that is not code as spaces, at the same positions."""
    noise = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:\\\n|[^\n])*'
    code = blank(text, [m.span() for m in re.finditer(noise, text, re.M | re.S)])
    silent = []
    for m in re.finditer(SILENT, code):
        end = closing(code, m.end() - 1)
        silent.append((m.end(), end if end > 0 else m.end()))
    return blank(code, silent)


def bodies(code):
    """The spans of function bodies: in this project their braces stand in column 0."""
    spans, start = [], None
    for m in re.finditer(r"^[{}]", code, re.M):
        if m[0] == "{":
            start = m.start()
        elif start is not None:
            spans.append((start, m.start()))
            start = None
    return spans


def in_char_buffer(code, at):
    """Whether it is in the size of a char array: room for a text."""
    return re.search(r"\bchar\s+[\w, \[\]*]*\[[^\]]*$", code[code.rfind("\n", 0, at) + 1:at])


def constants(code):
    for m in re.finditer(r"(?<![\w.])(0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][+-]?\d+)?)([uUlLfF]*)(?![\w.])", code):
        if in_char_buffer(code, m.start()):
            continue
        number, suffix = m[1], m[2]
        whole = re.fullmatch(r"0[xX][0-9a-fA-F]+|\d+", number)
        value = int(number, 0 if number[:2] in ("0x", "0X") else 10) if whole else float(number)
        for change in (1, -1):
            if value + change >= 0:
                other = f"{value + change:d}{suffix}" if whole else f"{value + change!r}{suffix}"
                yield m.start(), m.end(), other, "constant"


def operators(code):
    for m in re.finditer(r"(?<= )(==|!=|<=|>=|<|>|&&|\|\||\+=|-=|\*=|/=|[-+*/])(?=[ \n])|(?<=[\w)\]])[-+*/](?=[\w(])",
                         code):
        before = re.search(r"([\w)\]]+)\s*$", code[max(0, m.start() - 80):m.start()])
        exponent = re.search(r"(?<![\w.])\d+\.?\d*[eE]$", code[:m.start()][-24:])
        if not before or before[1] in KEYWORDS or exponent or in_char_buffer(code, m.start()):
            continue
        for swap in SWAPS[m[0]]:
            yield m.start(), m.end(), swap, "operator"


def conditions(code):
    for m in re.finditer(r"\b(?:if|while)\s*\(", code):
        end = closing(code, m.end() - 1)
        if end > 0:
            yield m.end() - 1, end + 1, ("(!", code[m.end() - 1:end + 1], ")"), "condition"
    for m in re.finditer(r"\bfor\s*\(", code):
        parts = code[m.end():closing(code, m.end() - 1)].split(";")
        bound = len(parts) == 3 and re.search(r"( <=? | >=? )([^<>=&|]*[\w)\]])\s*$", parts[1])
        if bound:
            at = m.end() + len(parts[0]) + 1 + bound.end(2)
            for change in (" + 1", " - 1"):
                yield at, at, change, "loop bound"


def statements(code):
    for m in re.finditer(r"\b(break|continue);", code):
        yield m.start(1), m.end(1), {"break": "continue", "continue": "break"}[m[1]], "break"
    for m in re.finditer(r"(?<=[;{})])(\s+)(?=[A-Za-z_*(])|\belse(\s+)(?=[A-Za-z_*(])", code):
        start, end, depth = m.end(), m.end(), 0
        while end < len(code) and (code[end] != ";" or depth):
            depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(code[end], 0)
            if depth < 0 or code[end] == "{" and depth == 1 and code[start:end].count("(") == 0:
                break
            end += 1
        text = code[start:end]
        word = re.match(r"[A-Za-z_]\w*", text)
        in_head = re.search(r"\bfor \([^;]*;[^;]*$", code[code.rfind("\n", 0, start) + 1:start])
        if end >= len(code) or code[end] != ";" or re.match(SILENT, text) or in_head:
            continue
        if word and word[0] == "return":
            if not re.match(r"\s*\n\}", code[end + 1:] + "\n}" if end + 1 >= len(code.rstrip()) else code[end + 1:]):
                yield start, end, "", "return removed"
        elif word and word[0] == "MBA_TRY":
            yield start, start + len("MBA_TRY"), "(void)", "error ignored"
        elif (word and word[0] in KEYWORDS) or re.match(r"\w+ +\**\w+\s*(=[^=]|;|\[|,|$)|\w+ +\*", text):
            continue                                    # a declaration, or the head of a statement
        elif re.search(r"[\w)\]]\s*\(|=|\+\+|--", text):
            yield start, end, "", "statement deleted"


def mutants_of(path, text):
    code = code_of(text)
    for first, last in bodies(code):
        body = code[first:last]
        for finder in (constants, operators, conditions, statements):
            for start, end, new, kind in finder(body):
                start, end = start + first, end + first
                new = new[0] + text[start:end] + new[2] if isinstance(new, tuple) else new
                yield Mutant(path, text.count("\n", 0, start) + 1, kind, start, end, new)
