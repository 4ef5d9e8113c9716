/* expected.h -- written by tools/refresh_h200: what src/scope/h200_test.c asks of the committed stores. */

static const struct {
    const char *name;
    double      busy_ms, gemm_pct, ssm_pct, mean_gb_s, weighted_gb_s, block_us;
} sums[] = {
    { "mamba2", 117.0685, 50.140, 20.996, 2040.54, 2812.43, 99.279 },
    { "mamba1", 119.5863, 39.627, 43.055, 1777.85, 1462.58, 518.477 },
    { "hybrid", 100.8487, 55.038, 9.856, 2053.35, 2813.45, 99.571 },
    { "vision", 17.7432, 22.375, 3.629, 372.47, 528.38, 48.758 },
    { "graph", 3.8745, 21.362, 29.953, 229.02, 262.82, 47.204 },
    { "chunked", 158.1625, 33.527, 45.860, 1654.60, 1773.19, 16.844 },
    { "chunked_small", 21.0235, 21.239, 46.550, 237.27, 223.10, 11.241 },
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
    { "mamba2", 0.5005, 0.8988 },
    { "mamba1", 0.2493, -0.4735 },
    { "hybrid", -0.6157, -2.6735 },
    { "vision", -0.0858, 1.3622 },
    { "graph", -0.1707, 2.2756 },
};

/* Kernels of ours: tensor FLOPs equal, at most, other; DRAM bytes beyond twice the L2 between sweeps: within
 * 5 %, again, other; in a step: the same. */
static const struct { const char *name; int tensor[3], settled[3], step[3]; } plans[] = {
    { "mamba2", { 6, 0, 0 }, { 20, 0, 0 }, { 15, 0, 0 } },
    { "mamba1", { 1, 0, 0 }, { 18, 0, 0 }, { 14, 0, 0 } },
    { "hybrid", { 9, 0, 0 }, { 24, 0, 0 }, { 20, 0, 0 } },
    { "vision", { 4, 0, 0 }, { 18, 0, 0 }, { 8, 0, 0 } },
    { "graph", { 1, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 } },
    { "chunked", { 12, 0, 0 }, { 28, 0, 0 }, { 20, 0, 0 } },
};
