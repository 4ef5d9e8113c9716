// SPDX-License-Identifier: Apache-2.0
/* verify.c -- `mambascope verify FILE.db`: launch plans against counters, kernel by kernel. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/options.h"
#include "cli/table.h"
#include "study/verify.h"

static const mba_column columns[] = { { "kernel", "kernel", NULL },
                                      { "op", "operator", NULL },
                                      { "whose", "whose", NULL },
                                      { "per_step", "launches", "%.0f" },
                                      { "us", "us", "%.1f" },
                                      { "tensor_expected", "GFLOP expected", "%.6g" },
                                      { "tensor_measured", "measured", "%.6g" },
                                      { "tensor_ratio", "ratio", "%.5f" },
                                      { "tensor", "tensor", NULL },
                                      { "padding", "padding", "%.3f" },
                                      { "bytes_expected", "compulsory MB", "%.2f" },
                                      { "bytes_measured", "DRAM MB", "%.2f" },
                                      { "bytes_ratio", "ratio", "%.3f" },
                                      { "read_excess", "read MB +", "%+.1f" },
                                      { "write_excess", "written MB +", "%+.1f" },
                                      { "recent", "L2 candidate MB", "%.1f" },
                                      { "loads", "loads MB", "%.0f" },
                                      { "bytes", "in a step", NULL },
                                      { "settled_bytes", "cold-L2 MB", "%.2f" },
                                      { "settled_ratio", "ratio", "%.3f" },
                                      { "settled", "cold L2", NULL },
                                      { 0 } };

static const char *const word[MBA_AGREEMENTS] = { "-",       "agrees",  "at most", "late writes",
                                                  "L2 hits", "rereads", "DIFFERS" };

static void put_row(mba_table *t, const mba_verification *v)
{
    mba_table_text(t, "%s", v->kernel->row->name ? v->kernel->row->name : "?");
    mba_table_text(t, "%s", v->kernel->row->op ? v->kernel->row->op : "-");
    mba_table_text(t, "%s", v->ours ? "ours" : "library");
    mba_table_number(t, v->kernel->per_step);
    mba_table_number(t, 1e6 * v->kernel->median_s);
    mba_table_number(t, 1e-9 * v->tensor_expected);
    mba_table_number(t, 1e-9 * v->tensor_measured);
    mba_table_number(t, v->tensor_ratio);
    mba_table_text(t, "%s%s", word[v->tensor], v->shared ? " (both)" : v->by_data ? " (data)" : "");
    mba_table_number(t, v->padding);
    mba_table_number(t, 1e-6 * v->bytes_expected);
    mba_table_number(t, 1e-6 * v->bytes_measured);
    mba_table_number(t, v->bytes_ratio);
    mba_table_number(t, 1e-6 * (v->bytes_measured - v->write_measured - v->bytes_expected + v->write_expected));
    mba_table_number(t, 1e-6 * (v->write_measured - v->write_expected));
    mba_table_number(t, 1e-6 * v->recent);
    mba_table_number(t, 1e-6 * v->loads);
    mba_table_text(t, "%s", word[v->bytes]);
    mba_table_number(t, 1e-6 * v->settled_bytes);
    mba_table_number(t, v->settled_ratio);
    mba_table_text(t, "%s", word[v->settled]);
}

static void sum_up(const mba_verification *v, int64_t n, double writes)
{
    int64_t tensor[MBA_AGREEMENTS] = { 0 }, bytes[MBA_AGREEMENTS] = { 0 }, settled[MBA_AGREEMENTS] = { 0 }, by_data = 0;
    double  least = INFINITY, most = 0;
    for (int64_t i = 0; i < n; i++) {
        tensor[v[i].tensor]++;
        by_data += v[i].by_data && v[i].tensor == MBA_AGREES;
        bytes[v[i].bytes]++;
        settled[v[i].settled]++;
        if (v[i].ours || !(v[i].tensor_ratio > 0) || isinf(v[i].tensor_ratio)) continue;
        if (v[i].tensor_ratio < least) least = v[i].tensor_ratio;
        if (v[i].tensor_ratio > most) most = v[i].tensor_ratio;
    }
    fprintf(stderr,
            "tensor FLOPs of our kernels: %lld agree exactly (%lld as counted from the data), %lld at most, %lld "
            "differ; kernels that move more than twice the L2, in a step: bytes of %lld within 5 %%, %lld with late "
            "writes, %lld "
            "with L2 hits, %lld with rereads, %lld differ\n",
            (long long)tensor[MBA_AGREES], (long long)by_data, (long long)tensor[MBA_AT_MOST],
            (long long)tensor[MBA_DIFFERS], (long long)bytes[MBA_AGREES], (long long)bytes[MBA_LAGS],
            (long long)bytes[MBA_KEPT], (long long)bytes[MBA_AGAIN], (long long)bytes[MBA_DIFFERS]);
    if (n > settled[MBA_NOT_JUDGED])
        fprintf(stderr, "the same with a cold L2: %lld within 5 %%, %lld with rereads, %lld differ\n",
                (long long)settled[MBA_AGREES], (long long)settled[MBA_AGAIN], (long long)settled[MBA_DIFFERS]);
    if (!isnan(writes))
        fprintf(stderr, "DRAM writes of the whole step: %.3f times those of launch plans and nodes\n", writes);
    if (most > 0)
        fprintf(stderr, "matrix products of libraries execute %.3f to %.3f times the least FLOPs\n", least, most);
}

static mba_status print(mba_store *s, mba_table_form form)
{
    mba_analysis     *a = NULL;
    mba_verification *v = NULL;
    mba_table        *t = NULL;
    int64_t           n = 0;
    mba_status        st = mba_analysis_create(&a, s);
    if (st == MBA_OK) st = mba_verify(&v, &n, a);
    if (st == MBA_OK && n == 0)
        st = mba_fail(MBA_E_FORMAT, "the store has no counters\nwhy: it was recorded without a GPU, or without "
                                    "permission\nfix: mambascope profile --device cuda --metric-sets roofline");
    if (st == MBA_OK) st = mba_table_create(&t, columns);
    if (st == MBA_OK) {
        for (int64_t i = 0; i < n; i++) put_row(t, &v[i]);
        st = mba_table_print(t, stdout, form);
        if (st == MBA_OK && form == MBA_TABLE_TEXT) sum_up(v, n, mba_verified_writes(a));
    }
    mba_table_destroy(t);
    free(v);
    mba_analysis_destroy(a);
    return st;
}

mba_status mba_command_verify(int argc, char **argv)
{
    bool             json = false, csv = false, help;
    const mba_option options[] = { MBA_TABLE_OPTIONS(&json, &csv), { 0 } };
    const mba_usage  usage = { "verify", "FILE.db [options]",
                               "Compares the launch plan of every kernel with its counters. Tensor FLOPs of our\n"
                                "kernels must be equal; for a library the ratio is its padding. DRAM bytes are\n"
                                "compared with compulsory bytes (each operand read or written once) if these\n"
                                "exceed twice the L2.\n"
                                "\n"
                                "(both)       two launches divide their work as the data requires\n"
                                "(data)       the part of the plan that the data of the step needs, counted from it\n"
                                "padding      our kernels: issued work over least work, with padded and masked\n"
                                "             tiles and recomputed products\n"
                                "\n"
                                "If bytes differ by more than 5 %, the verdict names the reason:\n"
                                "\n"
                                "late writes  reads agree; writes differ by up to half the L2, which delays them\n"
                                "L2 hits      reads are missing that one of the two previous launches touched\n"
                                "             (`L2 candidate`), at most half the L2\n"
                                "rereads      blocks read operands more than once (`loads`, as planned), and some\n"
                                "             of these reads missed L2\n"
                                "cold L2      the same launch between two flushes of the L2: nothing is cached\n"
                                "             before it, and its writes reach DRAM",
                               options,
                               "mambascope profile --model mamba2-130m --device cuda --metric-sets roofline --out "
                                "run.db\nmambascope verify run.db\n" };
    mba_operands     words = { 0 };
    mba_store       *s;
    MBA_TRY(mba_options_parse(&usage, argc, argv, &words, &help));
    if (help) return MBA_OK;
    if (words.n != 1) return mba_fail(MBA_E_ARG, "verify which store?\nfix: mambascope verify FILE.db");
    MBA_TRY(mba_store_open(&s, words.word[0]));
    mba_status       st = print(s, mba_table_form_of(json, csv));
    const mba_status closed = mba_store_close(s);
    return st == MBA_OK ? closed : st;
}
