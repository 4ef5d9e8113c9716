/* expected.h -- written by tools/refresh_h200: what src/scope/h200_test.c asks of the committed stores. */

static const struct {
    const char *name;
    double      busy_ms, gemm_pct, ssm_pct, mean_gb_s, weighted_gb_s, block_us;
} sums[] = {
    { "mamba2", 116.9034, 49.538, 21.419, 2034.35, 2784.35, 103.219 },
    { "mamba1", 120.5556, 39.534, 42.943, 1790.69, 1468.55, 516.284 },
    { "hybrid", 99.2366, 54.496, 10.182, 2038.53, 2760.58, 104.372 },
    { "vision", 17.7544, 22.320, 3.624, 370.78, 531.25, 48.375 },
    { "graph", 3.8817, 21.339, 29.970, 229.73, 264.50, 47.312 },
    { "chunked", 158.8179, 33.482, 45.880, 1652.80, 1767.65, 16.958 },
    { "chunked_small", 21.2402, 21.387, 46.176, 235.14, 222.91, 11.254 },
    { "peer", 209.0433, 28.137, 36.363, 2381.01, 2195.11, 12.905 },
    { "peer_small", 3.9313, 19.521, 17.611, 744.34, 790.91, NAN },
    { "peer_mamba1", 226.8872, 23.467, 62.162, 424.71, 330.17, NAN },
};

/* o open, r reproduced, x refuted, d depends: F1 .. F11 of a store with others beside it. */
static const struct { const char *name, *beside[3], *verdicts; } judged[] = {
    { "mamba2", { "chunked", "chunked_small", "mamba1" }, "rrddrrxrrrr" },
    { "chunked", { "mamba2", "chunked_small", "mamba1" }, "xxrxrddxrdr" },
    { "mamba1", { "mamba2" }, "xxddodrrord" },
    { "peer", { "mamba2", "peer_small", "peer_mamba1" }, "xxrxrrdrrrr" },
    { "peer", { "mamba2" }, "xxrxrrdroor" },
    { "peer_mamba1", { "peer" }, "xxdxoxoxorr" },
    { "mamba2", { NULL }, "rrddorxroor" },
    { "hybrid", { NULL }, "rrddorxroor" },
    { "vision", { NULL }, "xrrxoxodood" },
    { "graph", { NULL }, "xxrxodrxoox" },
};

/* Percent by which a step is longer: recorded as a whole, event by event in a row (NAN: not run so). */
static const struct { const char *name; double whole, row; } watched[] = {
    { "mamba2", -0.0101, 1.6261 },
    { "mamba1", 0.3890, 0.4987 },
    { "hybrid", -0.6694, -2.7715 },
    { "vision", 0.0590, 1.3751 },
    { "graph", 0.2314, 2.6349 },
};

/* Kernels of ours: tensor FLOPs equal, at most, other; DRAM bytes beyond twice the L2 between sweeps: within
 * 5 %, again, other; in a step: the same. */
static const struct { const char *name; int tensor[3], settled[3], step[3]; } plans[] = {
    { "mamba2", { 6, 0, 0 }, { 20, 0, 0 }, { 15, 0, 0 } },
    { "mamba1", { 1, 0, 0 }, { 18, 0, 0 }, { 14, 0, 0 } },
    { "hybrid", { 9, 0, 0 }, { 24, 0, 0 }, { 21, 0, 0 } },
    { "vision", { 4, 0, 0 }, { 18, 0, 0 }, { 8, 0, 0 } },
    { "graph", { 1, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 } },
    { "chunked", { 12, 0, 0 }, { 28, 0, 0 }, { 20, 0, 0 } },
};
