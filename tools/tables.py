# SPDX-License-Identifier: Apache-2.0
"""tables.py -- turns a query over bench/results into the lines of a Markdown table, for tools/docs.

A query says where the rows of a table come from, in clauses on lines of their own or parted by ` | `:

    <!-- generated: h200/steps.csv what=step date=2026-11-17
    rows    model = shape; beside = {peer}, {setting} where peer!=""       what tells rows apart, with headings
    column  theirs, ms = metric=time as {:.1f}         a cell: the value of the one result that fits
    column  ours, ms = metric=time peer="" setting=""  the same with other fields than those of the row
    column  limit = metric=floor show setting          another field than the value
    column  all = range metric=time as {:.1f}          least to most of all results that fit
    column  faster = range {theirs, ms} / {ours, ms}   the same of a quotient, computed for each shape of the row
    hidden  rate = metric=rate                         a column that is only computed with
    column  speed-up = {theirs, ms} / {ours, ms} as {:.2f}×
    columns metric                                     or: one column for each value of a field, in the order of the
                                                       file
    note                                               a line below with machine, date and commit of the rows
    -->
    <!-- end -->

Where several results fit a cell, the one of the latest date counts; two of one date are an error.

Two tables that need no query of their own:

    <!-- generated: operator NAME | SHAPE | SHAPE ..      an operator's time and percent of the copy rate, forward and
                                                          backward; several names: a column each
    <!-- generated: src/scope/store.def                   the tables of a store and their columns"""
import ast
import operator
import re

import results

OPERATORS = "h200/operators.csv"
SCHEMA = "src/scope/store.def"


class Bad(Exception):
    pass


# ---- queries ----

loaded = {}


def rows_of(names):
    found = []
    for name in names.split("+"):
        if name not in loaded:
            try:
                loaded[name] = results.read(name)
            except OSError:
                raise Bad(f"no file {results.FOLDER}/{name}")
            except results.Bad as bad:
                raise Bad(str(bad))
        found += loaded[name]
    return found


def words_of(text):
    """Words parted by blanks; between quotes blanks are part of a word."""
    if text.count('"') % 2:
        raise Bad(f"a quote is not closed in '{text}'")
    return [word.replace('"', "") for word in re.findall(r'(?:[^\s"]|"[^"]*")+', text)]


def conditions(words):
    """field=value, field=one|other, field!=value -> [(field, equal?, {values})]"""
    found = []
    for word in words:
        match = re.match(r"(\w+)(!?=)(.*)$", word, re.S)
        if not match or match[1] not in results.FIELDS:
            raise Bad(f"'{word}' is no condition on a field of the results ({', '.join(results.FIELDS)})")
        found.append((match[1], match[2] == "=", set(match[3].split("|"))))
    return found


def part(row, name):
    """A field of a row; `shape:0` is the first word of one."""
    field, colon, place = name.partition(":")
    words = row[field].split()
    return row[field] if not colon else words[int(place)] if int(place) < len(words) else ""


def fits(row, wanted):
    return all((row[field] in values) == equal for field, equal, values in wanted)


def newest(rows, what):
    if not rows:
        return None
    last = max(r["date"] for r in rows)
    rows = [r for r in rows if r["date"] == last]
    if len(rows) > 1 and any(r != rows[0] for r in rows):
        raise Bad(f"{len(rows)} results of {last} fit {what}: name more fields")
    return rows[0]


def shown(text, form):
    if not form:
        return text
    try:
        return form.format(float(text.replace(",", "")))
    except ValueError:
        raise Bad(f"'{text}' is not a number that {form} can show")


OPERATIONS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def computed(text):
    """The value of numbers with + - * / between them."""
    def value(node):
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
            return OPERATIONS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return node.value
        raise Bad(f"cannot compute '{text}'")
    try:
        return value(ast.parse(text, mode="eval").body)
    except SyntaxError:
        raise Bad(f"cannot compute '{text}'")


def with_format(clause):
    """`CONDITIONS as {:.1f}%` -> `CONDITIONS`, `{:.1f}%`"""
    match = re.match(r"(.*) as (\S*\{:[^}]*\}.*)$", clause)
    return (match[1].strip(), match[2].strip()) if match else (clause, "")


class Column:
    """heading = CONDITIONS [show FIELD] [as FORMAT], or heading = EXPRESSION [as FORMAT]"""

    def __init__(self, clause, hidden=False):
        self.hidden = hidden
        self.heading, equals, rest = clause.partition(" = ")
        if not equals:
            raise Bad(f"column '{clause}' has no ' = '")
        rest, self.form = with_format(rest)
        self.field, self.is_range = "value", rest.startswith("range ")
        rest = rest.removeprefix("range ")
        self.expression = rest if "{" in rest else None
        words = words_of("" if self.expression else rest)
        if "show" in words:
            self.field = words[words.index("show") + 1]
            words = words[:words.index("show")]
        self.wanted = conditions(words)
        self.heading = self.heading.strip()

    def result(self, rows, of):
        """The result that fits the column and, in all fields that it does not name, the row's labels."""
        labels = [(field, value) for field, value in of.items() if field not in self.named]
        found = [r for r in rows if all(part(r, f) == v for f, v in labels) and fits(r, self.wanted)]
        if found and self.is_range:
            return found[0] | {"value": self.extent([float(r["value"]) for r in found])}
        return newest(found, f"column '{self.heading}'")

    @property
    def named(self):
        return {field for field, _, _ in self.wanted}

    def extent(self, values):
        """least to most of the values; the end of the format, say a ×, stands once."""
        low, high = (shown(str(value), self.form) for value in (min(values), max(values)))
        tail = self.form.partition("}")[2]
        return high if low == high else f"{low.removesuffix(tail)} to {high}"

    def text(self, found):
        if found is None:
            return ""
        text = found["value"] if self.is_range else shown(found[self.field], self.form)
        return text + "×" if self.field == "value" and found["unit"] == "×" and not self.form else text

    @property
    def operands(self):
        return re.findall(r"\{(.*?)\}", self.expression or "")

    def number(self, values):
        """values: of the columns before it, as they are in the file. None where one of them is missing."""
        if unknown := [n for n in self.operands if n not in values]:
            raise Bad(f"column '{self.heading}' names '{unknown[0]}', which is no column before it")
        if any(not values[n] for n in self.operands):
            return None
        return computed(re.sub(r"\{(.*?)\}", lambda m: values[m[1]].replace(",", ""), self.expression))

    def compute(self, values):
        number = self.number(values)
        return "" if number is None else (self.form or "{:.2f}").format(number)


NAMED_FIELD = re.compile(r"\{(\w+(?::\d)?)\}")


class Query:
    def __init__(self, text):
        clauses = [c.strip() for c in re.split(r"\n| \| ", text.strip()) if c.strip()]
        words = words_of(clauses[0])
        self.rows = [r for r in rows_of(words[0]) if fits(r, conditions(words[1:]))]
        if not self.rows:
            raise Bad(f"no result fits '{clauses[0]}'")
        self.labels, self.columns, self.where, self.note, self.used = [], [], [], False, []
        for clause in clauses[1:]:
            word, _, rest = clause.partition(" ")
            rest = rest.strip()
            if word == "rows":
                rest, _, where = rest.partition(" where ")
                self.labels, self.where = [self.label(r.strip()) for r in rest.split(";")], conditions(words_of(where))
            elif word == "column":
                self.columns.append(Column(rest))
            elif word == "hidden":
                self.columns.append(Column(rest, True))
            elif word == "columns":
                self.columns += self.columns_of(rest)
            elif word == "note":
                self.note = True
            else:
                raise Bad(f"'{word}' is no clause: rows, column, hidden, columns, note")
        if not self.labels:
            self.labels = [("", "{shape}")]
        if not self.columns:
            self.columns = self.columns_of("metric")

    @staticmethod
    def label(clause):
        heading, equals, field = clause.partition("=")
        heading, field = (heading.strip(), field.strip()) if equals else ("", clause)
        template = field if "{" in field else "{%s}" % field
        if unknown := [f for f in NAMED_FIELD.findall(template) if f.partition(":")[0] not in results.FIELDS]:
            raise Bad(f"rows by '{unknown[0]}', which is no field")
        return heading, template

    def columns_of(self, clause):
        """A column for each value of a field, in the order of the file; where one unit serves all of it, the heading
        has the unit."""
        field, form = with_format(clause)
        if field not in results.FIELDS:
            raise Bad(f"columns by '{field}', which is no field")
        found, by_unit = [], field == "metric"            # DRAM in MB and DRAM in GB/s are two columns
        for value, unit in dict.fromkeys((r[field], r["unit"] if by_unit else "") for r in self.rows):
            units = {r["unit"] for r in self.rows if r[field] == value and (not by_unit or r["unit"] == unit)}
            one_unit = [("unit", True, {unit})] if by_unit else []
            unit = units.pop() if len(units) == 1 else ""
            column = Column("x = metric=x")
            column.wanted, column.form = [(field, True, {value})] + one_unit, form
            column.heading = value + (f", {unit}" if unit not in ("", "×") and not value.endswith(unit)
                                      and unit not in value.split() else "")
            found.append(column)
        return found

    def lines(self):
        fields = [f for _, template in self.labels for f in NAMED_FIELD.findall(template)]
        groups, keys = {}, {}
        for r in self.rows:
            key = tuple(part(r, f) for f in fields)
            groups.setdefault(key, []).append(r)
            if fits(r, self.where):
                keys[key] = dict(zip(fields, key))
        body = [b for b in (self.line(of, groups[key]) for key, of in keys.items()) if b]
        heads = [h for h, _ in self.labels] + [c.heading for c in self.columns if not c.hidden]
        out = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)] + ["| " + " | ".join(b) + " |" for b in body]
        return out + (["", self.provenance()] if self.note else [])

    def line(self, of, group):
        """The cells of the row whose labels have these fields, `group` its results; None where no column has a
        result."""
        cells = [NAMED_FIELD.sub(lambda m: of[m[1]], template).strip(" ,") for _, template in self.labels]
        values, found_any = {}, False
        single = {n for c in self.columns if not c.is_range for n in c.operands}
        only_ranges = {n for c in self.columns if c.is_range for n in c.operands} - single
        for column in self.columns:
            if column.hidden and column.heading in only_ranges:
                continue
            if column.expression and column.is_range:
                text = self.range_of(column, group)
                found_any |= bool(text)
            elif column.expression:
                text = column.compute(values)
            else:
                found = column.result(self.rows if column.named & set(of) else group, of)
                self.used += [found] if found else []
                found_any |= found is not None
                values[column.heading] = found[column.field] if found else ""
                text = column.text(found)
            if not column.hidden:
                cells.append(text)
        return cells if found_any else None

    def range_of(self, column, group):
        """Least to most of an expression, computed for each shape of the row."""
        operands, numbers = [c for c in self.columns if c.heading in column.operands], []
        for shape in dict.fromkeys(r["shape"] for r in group):
            found = [(c, c.result(group, {"shape": shape})) for c in operands]
            numbers.append(column.number({c.heading: result[c.field] if result else "" for c, result in found}))
        numbers = [n for n in numbers if n is not None]
        return column.extent(numbers) if numbers else ""

    def provenance(self):
        of = lambda field: ", ".join(dict.fromkeys(r[field][:10] if field == "date" else r[field] for r in self.used
                                                   if r[field]))
        return f"*Machine {of('machine')}; {of('date')}; commit {of('commit')}.*"


def operator_query(names, shapes):
    """The query of an operator's table: time and percent of the copy rate of these shapes; of one name forward and
    backward, where there is one."""
    known = {r["what"] for r in rows_of(OPERATORS)}
    passes = [(name, name) for name in names]
    if len(names) == 1:
        passes = [("forward", names[0])] + [("backward", names[0] + "_bwd")] * (names[0] + "_bwd" in known)
    if unknown := [what for _, what in passes if what not in known]:
        raise Bad(f"{results.FOLDER}/{OPERATORS} has no operator {unknown[0]}")
    clauses = [f'{OPERATORS} what={"|".join(what for _, what in passes)} setting="" shape="{"|".join(shapes)}"',
               "rows H200 = shape"]
    for heading, what in passes:
        clauses += [f"column {heading}, us = what={what} metric=time",
                    f'column % of copy rate = what={what} metric="percent of the copy rate" as {{:.0f}}']
    return Query("\n".join(clauses))


def schema_lines():
    """The tables of a store: what a row is, and the names of its columns."""
    with open(SCHEMA, encoding="utf-8") as file:
        text = file.read()
    out = ["| table | what it holds | columns |", "|---|---|---|"]
    for name, doc, body in re.findall(r'^TABLE\((\w+), \d+, "(.*?)"\)\n(.*?)^END', text, re.M | re.S):
        columns = re.findall(r"^(?:INT|REAL|TEXT)\((\w+),", body, re.M)
        out.append(f"| `{name}` | {doc} | {' '.join(f'`{c}`' for c in columns)} |")
    return out


def block_lines(query):
    """The lines of a generated block."""
    words = query.split()
    if words[:1] == [SCHEMA]:
        return schema_lines()
    if words[:1] == ["operator"]:
        named, *shapes = [part.strip() for part in query.split(" | ")]
        return operator_query(named.split()[1:], shapes).lines()
    return Query(query).lines()


def one_value(text):
    """The value of the one result that fits, or the range of all that do."""
    column = Column("one = " + text.partition(" ")[2])
    found = column.result(rows_of(text.partition(" ")[0]), {})
    if not found:
        raise Bad(f"no result fits '{text}'")
    return column.text(found)
