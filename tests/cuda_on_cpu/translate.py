#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""translate.py -- CUDA C as C++ for the host, beside emulated.h, which says what the result runs on.

    translate.py KERNELS.cu OUT.cpp -- g++ -I src -I /usr/local/cuda/include

The compiler preprocesses; then launches, shared memory and PTX become calls. Every other line stays as it is, with its
number. PTX is read instruction by instruction: `mma.sync.x {%0,%1}, [%2];` calls ptx_mma_sync_x(a, b, at(c)), which
emulated.h or ptx.h defines. An instruction that neither defines becomes an error of the run, not of the build: kernels
of later GPUs stand in the same files."""
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TYPES = {"pred": "bool", "b32": "uint32_t", "u32": "uint32_t", "b64": "uint64_t", "u64": "uint64_t"}


def close_of(text, at):
    """Index behind the bracket that closes the one at `at`; strings may hold any."""
    depth = 0
    for m in re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[][(){}]').finditer(text, at):
        if m[0] in ("(", "[", "{"):
            depth += 1
        elif m[0] in (")", "]", "}"):
            depth -= 1
            if depth == 0:
                return m.end()
    sys.exit(f"translate.py: no end of {text[at:at + 60]!r}")


def split_at(text, mark):
    """The parts between the marks that stand in no bracket and no string."""
    parts, begin, at = [], 0, 0
    while at < len(text):
        if text[at] == '"':
            at = re.compile(r'"(?:\\.|[^"\\])*"').match(text, at).end()
        elif text[at] in "([{":
            at = close_of(text, at)
        elif text[at] == mark:
            parts.append(text[begin:at])
            at = begin = at + 1
        else:
            at += 1
    return parts + [text[begin:]]


def operands_of(part):
    """("r", expression) of each operand of an asm statement."""
    found = []
    for one in split_at(part, ","):
        m = re.match(r'\s*"([^"]*)"\s*\(', one)
        if m:
            found.append((m[1], one[m.end():one.rindex(")")]))
    return found


def argument(word, operands):
    """One operand of an instruction: %0 is an expression, [..] an address, %%tid.x a special register."""
    word = word.strip()
    if word.startswith("["):
        return "emulated_at(" + argument(word[1:-1], operands) + ")"
    if word.startswith("%%tid."):
        return "emulated_now->index." + word[-1]
    if word.startswith("%%"):
        return f'emulated_register("{word[2:]}")'
    if word == "_":
        return "emulated_sink"
    m = re.fullmatch(r"%(\d+)", word)
    return "(" + operands[int(m[1])][1] + ")" if m else word


def instruction(text, operands, known):
    m = re.match(r"(?:@(!?\w+)\s+)?(\S+)\s*(.*)", text, re.S)
    condition, name, rest = m[1], m[2], m[3]
    if name == ".reg":
        kind, names = rest[1:].split(None, 1)
        return f"{TYPES[kind]} {names};"
    words = [w for part in split_at(rest, ",") for w in (split_at(part.strip()[1:-1], ",")
                                                         if part.strip().startswith("{") else [part])]
    call = "ptx_" + re.sub(r"[.:]+", "_", name)
    arguments = ", ".join(argument(w, operands) for w in words if w.strip())
    statement = f"{call}({arguments});" if call in known else f'emulated_unknown("{name}");'
    return f"if ({condition}) {statement}" if condition else statement


def assembly(body, known):
    """What stands between the parentheses of an asm statement, as a block of calls."""
    parts = split_at(body.replace("::", ": :"), ":")
    code = "".join(re.findall(r'"((?:\\.|[^"\\])*)"', parts[0])).replace("\\n", " ").replace("\\t", " ")
    operands = [o for part in parts[1:3] for o in operands_of(part)]
    code = code.strip()
    if code.startswith("{") and code.endswith("}"):
        code = code[1:-1]
    calls = [instruction(one.strip(), operands, known) for one in code.split(";") if one.strip()]
    return "{ " + " ".join(calls) + " }"


def assemblies(text, known):
    out, at = [], 0
    for m in re.finditer(r"\basm\s*(?:volatile\s*)?\(", text):
        if m.start() < at:
            continue
        end = close_of(text, m.end() - 1)
        lost = text.count("\n", m.start(), end)
        out += [text[at:m.start()], assembly(text[m.end():end - 1], known), "\n" * lost]
        at = text.index(";", end) + 1 if text[end:].lstrip().startswith(";") else end
    return "".join(out) + text[at:]


def shared(text):
    """extern __shared__ T x[]; is the launch's memory; __shared__ T x[4], y; a struct of the block."""
    def dynamic(m):
        return f"{m[1]} *const {m[2]} = ({m[1]} *)emulated_dynamic();" + "\n" * m[0].count("\n")

    attribute = r"(?:__attribute__\s*\(\(\w+\s*\([^()]*\)\s*\)\)\s*)?"
    text = re.sub(r"\bextern\s+__shared__\s+" + attribute + r"(\w[\w ]*?)\s*\b(\w+)\s*\[\s*\]\s*;", dynamic, text)

    def static(m):
        static.count += 1
        names = [re.match(r"[\s\S]*?(\w+)\s*(?:\[|$)", d.strip())[1] for d in split_at(m[2], ",")]
        kind = f"emulated_{static.count}"
        aliases = " ".join(f"auto &{n} = {kind}_of_block.{n};" for n in names)
        return (f"static emulated_place {kind}_place; struct {kind} {{ {m[1]} {m[2]}; }}; "
                f"{kind} &{kind}_of_block = *({kind} *)emulated_shared(&{kind}_place, sizeof({kind})); {aliases}")
    static.count = 0
    return re.sub(r"\b__shared__\s+(" + attribute + r"\w+)\s+([^;]+);", static, text)


def begin_of_kernel(text, at):
    """Where the expression begins that ends before `at`: a name, with template arguments or without."""
    while text[at - 1].isspace():
        at -= 1
    begins = {">": "<", ")": "("}.get(text[at - 1])
    end, depth = text[at - 1], 0
    while begins:
        at -= 1
        depth += (text[at] == end) - (text[at] == begins)
        if depth == 0:
            break
    while end != ")" and (text[at - 1].isalnum() or text[at - 1] in "_:"):
        at -= 1
    return at


def launches(text):
    """kernel<T><<<grid, block, bytes, stream>>>(..); calls emulated_launch."""
    at = text.find("<<<")
    while at >= 0:
        begin, end = begin_of_kernel(text, at), text.index(">>>", at)
        kernel, setting = text[begin:at].strip(), text[at + 3:end]
        call_end = close_of(text, text.index("(", end))
        arguments = text[text.index("(", end) + 1:call_end - 1]
        chosen = text.rfind(f"auto *{kernel} = ", 0, begin) if kernel.isidentifier() else -1
        named = text[text.index("=", chosen) + 2:text.index(";", chosen)] if chosen >= 0 else kernel
        name = re.sub(r"\s+", " ", named)
        new = f'emulated_launch("{name}", emulated_setting({setting}), {kernel}' + (
            f", {arguments})" if arguments.strip() else ")")
        lost = text.count("\n", begin, call_end) - new.count("\n")
        text = text[:begin] + new + "\n" * lost + text[call_end:]
        at = text.find("<<<", begin + len(new))
    return text


def main():
    source, out, dashes, *compiler = sys.argv[1:]
    assert dashes == "--"
    known = set()
    for name in ("emulated.h", "ptx.h"):
        with open(os.path.join(HERE, name), encoding="utf-8") as f:
            known |= set(re.findall(r"\bptx_\w+", f.read()))
    command = compiler + ["-E", "-x", "c++", "-std=c++17", "-include", os.path.join(HERE, "emulated.h"),
                          "-MD", "-MF", out + ".d", "-MT", out, source]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    ours = text.rindex("ptx.h")
    text = text[:ours] + launches(shared(assemblies(text[ours:], known)))
    with open(out, "w", encoding="utf-8") as f:
        f.write(text)


if __name__ == "__main__":
    main()
