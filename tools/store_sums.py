# SPDX-License-Identifier: Apache-2.0
"""Plain sums over the rows of stores, by SQL and without the analysis: what src/scope/h200_test.c expects of them.

    python3 tools/store_sums.py tests/data/stores/h200_*.db

Per store: busy ms, GEMM and SSM in % of it, DRAM GB/s of SSM kernels (mean over launches, and by time), lifetime of
their blocks in us."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import store as store_file


def sums(path):
    db = store_file.open(path)
    rows = lambda q, *a: db.execute(q, a).fetchall()
    counters = {}
    for kernel, metric, value in rows("select kernel, metric, value from counter"):
        counters.setdefault((kernel, metric), value)
    busy = rows("select sum(duration_ns) from event")[0][0]
    share = {k: 100 * v / busy for k,
             v in rows("select k.kind, sum(e.duration_ns) from event e join kernel k on k.id = e.kernel group by "
                       "k.kind")}
    launches = rate = moved = seconds = life = lived = 0
    for k, n, ns in rows("select k.id, count(*), sum(e.duration_ns) from event e join kernel k on k.id = e.kernel "
                         "where k.kind = 'ssm' group by k.id"):
        get = lambda m: counters.get((k, m))
        took = get("gpu__time_duration.sum")
        if took is None:
            continue
        dram = (get("dram__bytes_read.sum") or 0) + (get("dram__bytes_write.sum") or 0)
        launches, rate, moved, seconds = launches + n, rate + n * dram / took, moved + n * dram, seconds + n * took
        active, blocks = get("sm__ctas_active.sum"), get("sm__ctas_launched.sum")
        clock = get("sm__cycles_elapsed.avg.per_second")
        if active and blocks and clock:
            life, lived = life + ns * active / blocks / clock, lived + ns
    nan = float("nan")
    return (1e-6 * busy, share.get("gemm", 0), share.get("ssm", 0), rate / launches if launches else nan,
            moved / seconds if seconds else nan,
            1e6 * life / lived if lived else nan)


for path in sys.argv[1:]:
    print(f"{path}: busy {{:.4f}} ms, gemm {{:.3f}} %, ssm {{:.3f}} %, {{:.2f}} and {{:.2f}} GB/s, blocks {{:.3f}} "
          f"us".format(*sums(path)))
