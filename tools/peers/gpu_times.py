# SPDX-License-Identifier: Apache-2.0
"""How peers' kernels and ours are timed in one process: GPU time by events around every call, the median of 24 in 3
turns, one call after the other within a turn; the host runs ahead behind a spinning kernel, so launches cost nobody
anything. Calls take the number of an input set: who has several that together exceed the L2 measures no cache."""
import math

import torch

CALLS, TURNS, HZ = 8, 3, 1.9e9


def times(calls):
    """Median GPU time in us of each of `calls`, which take the number of an input set."""
    took = [[] for _ in calls]
    for call in calls:
        call(0)
        call(1)
    for _ in range(TURNS):
        for call, to in zip(calls, took):
            torch.cuda.synchronize()
            torch.cuda._sleep(int(0.012 * HZ))
            marks = [torch.cuda.Event(enable_timing=True) for _ in range(CALLS + 1)]
            marks[0].record()
            for i in range(CALLS):
                call(i)
                marks[i + 1].record()
            torch.cuda.synchronize()
            to += [1e3 * a.elapsed_time(b) for a, b in zip(marks, marks[1:])]
    return [sorted(t)[len(t) // 2] for t in took]


def sets_of(make, one_bytes, most=5):
    """Input sets that together exceed the L2 several times, `one_bytes` each."""
    return [make() for _ in range(max(2, min(most, math.ceil(3e8 / one_bytes))))]
