# SPDX-License-Identifier: Apache-2.0
"""claims_store.py -- a store as tools/claims_sql reads it: its raw tables by SQL, the counters of each kernel, and what
follows from them. Nothing here is shared with our C code."""
import functools
import os
import sys

try:
    import sqlite3
except ImportError:
    sys.exit(77)

ALL_COLUMNS = {"event": ("id", "what", "start_ns", "duration_ns", "stream", "step", "node", "launch", "kernel"),
               "node": ("id", "op", "kind", "variant", "tensor_flops", "vector_flops", "special_ops", "read_bytes",
                        "write_bytes", "filled"),
               "launch": ("id", "node", "kernel", "tensor_flops", "fma_ops", "half2_ops", "special_ops", "load_bytes",
                          "store_bytes", "least_bytes"),
               "kernel": ("id", "name", "symbol", "op", "kind", "class", "limiter", "smem_static_bytes",
                          "smem_dynamic_bytes", "blocks_per_sm", "waves"),
               "counter": ("kernel", "metric", "value", "metric_set"), "sheet": ("key", "text", "number"),
               "parameter": ("name", "value"), "ceiling": ("name", "rate", "how")}

METRICS = {"t": "gpu__time_duration.sum", "clock": "sm__cycles_elapsed.avg.per_second",
           "cycles": "sm__cycles_active.avg", "rd": "dram__bytes_read.sum", "wr": "dram__bytes_write.sum",
           "cold": "settled__dram_bytes_read.sum", "l2": "lts__t_bytes.sum", "l2_sectors": "lts__t_sectors.sum",
           "dram_pct": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
           "l1_pct": "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed",
           "issue_pct": "smsp__issue_active.avg.pct_of_peak_sustained_active",
           "xu_pct": "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",
           "tensor_pct": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
           "fma_pct": "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",
           "alu_pct": "sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_active",
           "l1_hit": "l1tex__t_sector_hit_rate.pct", "xu": "sm__inst_executed_pipe_xu.sum",
           "active": "sm__ctas_active.sum", "blocks": "sm__ctas_launched.sum",
           **{op: f"sm__sass_thread_inst_executed_op_{op}_pred_on.sum"
              for op in ("ffma", "fadd", "fmul", "hfma", "hadd", "hmul")}}

# What a library calls a matrix product; those of our head are in the class of the loss.
PRODUCT = " or ".join(f"q.symbol like '%{w}%'" for w in ("nvjet", "splitKreduce", "cutlass", "gemm", "cublas", "xmma"))

TABLES = [
    """create temp table c as select kernel, metric, value from (select kernel, metric, value, row_number() over
       (partition by kernel, metric order by ifnull(metric_set, '')) as place from counter_) where place = 1""",
    "create index c_at on c (kernel, metric)",
    # Events of steps. A program whose loop was found has events outside of it; a copy on a stream without kernels runs
    # beside the step.
    """create temp table e as select * from event_ where
       not (step is null and exists (select 1 from sheet_ where key = 'run.loop' and text = 'found'))
       and not (kernel is null and what = 'copy' and exists (select 1 from event_ where kernel is not null)
                and stream not in (select stream from event_ where kernel is not null))""",
    "create temp table steps as select max(1, ifnull(max(ifnull(step, 0)) + 1, 1)) * 1.0 as n from e",
    "create temp table planned as select node, count(*) as n from launch_ group by node",
    "create temp table ran as select node, count(*) as n from e where kernel is not null group by node",
    "match",
    # The least work of an event: its node's if the plan has one launch, else that of the launch; nothing if a library
    # ran more kernels than planned and this is none of them.
    """create temp table w as select e.kernel, {least} from e left join node_ n on e.node = n.id
       left join matched m on m.node = e.node and m.kernel = e.kernel
       left join launch_ l on l.id = case when m.node is null then e.launch else m.launch end left join planned p
       on p.node = n.id left join ran on ran.node = n.id
       where e.kernel is not null""",
    """create temp table k as select q.*, (select count(*) from e where e.kernel = q.id) / (select n from steps) as n,
       (select sum(duration_ns) from e where e.kernel = q.id) / (select n from steps) as ns,
       q.kind = 'gemm' or (q.kind = 'embedding/loss' and ({product})) as product,
       (select sum(value) from c where c.kernel = q.id and metric glob 'sm__ops_path_tensor_src_*') as tensor,
       (select nullif(count(*), count(least_b)) from w where w.kernel = q.id) is null as planned,
       {metrics} from (select id, name, ifnull(symbol, name) as symbol, op, kind, class, limiter,
       smem_static_bytes + smem_dynamic_bytes as smem, blocks_per_sm, waves from kernel_) q
       where exists (select 1 from e where e.kernel = q.id)""",
    """create temp table lanes as select id, 2 * ffma + fadd + fmul + 4 * hfma + 2 * hadd + 2 * hmul as vector,
       2 * (ffma + fadd + fmul) + 4 * (hfma + hadd + hmul) as lane_flops, 32 * xu as special from k""",
    # No more work is least than was counted; a product without tensor instructions ran on the FMA lanes.
    """update w set v = v + t where t > 0 and (select tensor from k where id = w.kernel) <= 0""",
    """update w set t = min(t, ifnull((select tensor from k where id = w.kernel), t)),
       v = min(v, ifnull((select lane_flops from lanes where id = w.kernel), v)),
       s = min(s, ifnull((select special from lanes where id = w.kernel), s))""",
    """create temp table least as select kernel as id, avg(least_b) as b, avg(t) as t, avg(v) as v, avg(s) as s from w
       group by kernel having count(least_b) = count(*)""",
]


def least_columns():
    case = ("case when n.id is null then null when l.id is null and p.n >= 1 and ran.n > p.n * (select n from steps) "
            "then 0 when ifnull(p.n, 0) <= 1 then {} else {} end * ifnull(n.filled, 1) as {}")
    return ", ".join(case.format(node, launch, name) for node, launch, name in (
        ("n.read_bytes + n.write_bytes", "ifnull(l.least_bytes, l.load_bytes + l.store_bytes)", "least_b"),
        ("n.tensor_flops", "l.tensor_flops", "t"), ("n.vector_flops", "2 * l.fma_ops + 4 * l.half2_ops", "v"),
        ("n.special_ops", "l.special_ops", "s")))


class Store:
    def __init__(self, path):
        self.path = path
        self.db = db = sqlite3.connect(f"file:{os.path.abspath(path)}?immutable=1", uri=True)
        db.row_factory = sqlite3.Row
        for table, columns in ALL_COLUMNS.items():       # an older store lacks some: they read as absent
            has = {r[1] for r in db.execute(f"pragma table_info({table})")}
            chosen = ", ".join(f'"{c}"' if c in has else f'null as "{c}"' for c in columns)
            source = f"from {table}" if has else "limit 0"
            db.execute(f"create temp view {table}_ as select {chosen} {source}")
        metrics = ", ".join(f"(select value from c where c.kernel = q.id and metric = '{m}') as {name}"
                            for name, m in METRICS.items())
        for sql in TABLES:
            if sql == "match":
                self.match()
                continue
            db.execute(sql.format(least=least_columns(), product=PRODUCT, metrics=metrics) if "{" in sql else sql)
        self.sheet = {r["key"]: r for r in db.execute("select * from sheet_")}
        self.parameter = {r["name"]: r["value"] for r in db.execute("select * from parameter_")}
        rates = list(db.execute("select name, rate, how from ceiling_ where rate > 0"))
        self.measured = {r["name"]: r["rate"] for r in rates if r["how"] == "measured"}
        self.data_sheet = {r["name"]: r["rate"] for r in rates if r["how"] != "measured"}
        self.best = {**self.data_sheet, **self.measured}
        self.busy = self.one("select sum(duration_ns) / (select n from steps) from e") or 0
        self.kernels = [self.kernel(dict(r)) for r in db.execute("select k.*, vector, lane_flops, special from k "
                                                                 "join lanes using (id) order by id")]
        self.ssm = [k for k in self.kernels if k["kind"] == "ssm"]
        self.units = self.number("run.units")

    def match(self):
        """Where a library ran more kernels than the plan of a node has launches, the store may number them by their
        place. Ours match by name; between two of them, launches belong to the longest of the other kernels."""
        self.db.execute("create temp table matched (node, kernel, launch)")
        more = "select r.node from ran r join planned p using (node), steps where r.n > steps.n * p.n"
        for node, in self.db.execute(more).fetchall():
            events = self.db.execute("select e.kernel as kernel, name, duration_ns from e join kernel_ q on q.id = "
                                     "e.kernel where e.node = ? and ifnull(step, 0) = 0 order by start_ns",
                                     (node,)).fetchall()
            again = [i for i, e in enumerate(events) if i and e["kernel"] == events[0]["kernel"]]
            events = events[:again[0]] if again else events    # small stores merge equal nodes
            plan = self.db.execute("select id, kernel from launch_ where node = ? order by id", (node,)).fetchall()
            if len({e["kernel"] for e in events}) < len(events) or len(events) < len(plan):
                continue
            self.db.executemany("insert into matched values (?, ?, ?)",
                                [(node, e["kernel"], launch) for e, launch in zip(events, assign(events, plan))])

    def one(self, sql, *values):
        row = self.db.execute(sql, values).fetchone()
        return row[0] if row else None

    def text(self, key):
        return self.sheet[key]["text"] if key in self.sheet else None

    def number(self, key):
        return self.sheet[key]["number"] if key in self.sheet else None

    def kernel(self, k):
        """Adds what follows from the counters and the plan of a kernel."""
        k["dram"] = add(k["rd"], k["wr"])
        row = self.db.execute("select * from least where id = ?", (k["id"],)).fetchone()
        k["least"] = dict(row) if row and row["b"] is not None else None
        k["counted_class"] = k["tensor"] is not None and (k["vector"] is not None or k["fma_pct"] is not None)
        if k["counted_class"]:
            mixed = (k["fma_pct"] >= 0.5 * k["tensor_pct"] if None not in (k["fma_pct"], k["tensor_pct"])
                     else 16 * (k["vector"] or 0) >= 0.1 * k["tensor"])
            k["class"] = "vector" if not k["tensor"] > 0 else "mixed" if mixed else "tensor"
        k["bound"] = self.bound(k)
        life = k["active"] / k["blocks"] / k["clock"] if k["blocks"] and k["clock"] and k["active"] else None
        k["life"] = life
        sms = self.number("gpu.sms")
        pipes = (k["fma_pct"], k["alu_pct"], k["xu_pct"])
        k["slots"] = (None if None in pipes or None in (sms, k["cycles"])
                      else 0.32 * k["cycles"] * sms * (4 * pipes[0] + 2 * pipes[1] + 0.5 * pipes[2]))
        return k

    def bound(self, k):
        """The resource with the highest floor: of least work, or of executed work of an external program."""
        work = ((k["least"]["b"], k["least"]["t"], k["least"]["v"], k["least"]["s"]) if k["least"] else
                (k["dram"], k["tensor"] or 0, k["vector"] or 0, k["special"] or 0))
        if work[0] is None or "dram" not in self.best:
            return None
        if "tensor" not in self.best:                    # a CPU: products, vectors and functions share its lanes
            lanes = [w / self.best[n] for w, n in zip(work[1:], ("fma", "fma", "special"))]
            by_lane = ("tensor", "vector", "special")[lanes.index(max(lanes))]
            return by_lane if sum(lanes) > work[0] / self.best["dram"] else "memory"
        names = ("dram", "tensor", "fma", "special")
        floors = [w / self.best[n] if n in self.best and w is not None else -1 for w, n in zip(work, names)]
        return ("memory", "tensor", "vector", "special")[floors.index(max(floors))]

    @functools.lru_cache
    def share(self, kind):
        return 100 * (self.one("select sum(ns) from k where kind = ?", kind) or 0) / self.busy if self.busy else 0

    @functools.lru_cache
    def has(self, op):
        return self.one("select 1 from (select n.op from e join node_ n on e.node = n.id union select op from k where "
                        "not exists (select 1 from e join node_ on e.node = node_.id where e.kernel = k.id)) where op "
                        "like ? || '%'", op)

    @functools.lru_cache
    def named(self, name):
        return self.one("select id from kernel_ where instr(name, ?) order by id", name)


def assign(events, plan):
    """The launch of each event, or None."""
    out, start, first = [None] * len(events), 0, 0

    def share(events_from, events_to, launches):
        """The longest of these events, in their order."""
        longest = sorted(range(events_from, events_to), key=lambda i: (-events[i]["duration_ns"], i))
        for i, launch in zip(sorted(longest[:len(launches)]), launches):
            out[i] = launch["id"]

    for n, launch in enumerate(plan):
        at = next((i for i in range(start, len(events)) if events[i]["name"] == launch["kernel"]), None)
        if at is not None:
            share(start, at, plan[first:n])
            out[at], start, first = launch["id"], at + 1, n + 1
    share(start, len(events), plan[first:])
    return out


def add(*values):
    return None if None in values else sum(values)


def by_time(kernels, key):
    """Sum of time of kernels that have `key`, and their mean of it weighted by time."""
    known = [(k["ns"], k[key]) for k in kernels if k[key] is not None]
    s = sum(ns for ns, _ in known)
    return s, sum(ns * v for ns, v in known) / s if s else None


def percent(kernels, test, whole=None):
    s = sum(k["ns"] for k in kernels if test(k))
    whole = sum(k["ns"] for k in kernels) if whole is None else whole
    return 100 * s / whole if whole else None
