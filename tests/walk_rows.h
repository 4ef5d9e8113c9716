// SPDX-License-Identifier: Apache-2.0
/* walk_rows.h -- the side of the database in walk_test.c: views over the rows of a store, and questions to them in SQL.
 * Nothing of the analysis is used here. */
#ifndef MBA_TEST_WALK_ROWS_H
#define MBA_TEST_WALK_ROWS_H

#include <sqlite3.h>

#include "core/aliases.h"
#include "tests/test.h"

#define DONE(what)  "(select " what " from done where done.kernel = e.kernel)"
#define MEAN(least) "(select avg(" least ") from e where e.kernel = id) as " least
// clang-format off
#define BEST(name) \
    "(select rate from s.ceiling where name = '" name "' order by how = 'measured' desc limit 1)"
// clang-format on
#define WORK(least, executed) "case when least_b is null then ifnull(" executed ", 0) else " least " end"
/* The counters once each (in two sets, the first by name), and what a step has of every kernel. */
static const char *const views[] = {
    "create temp table c as select kernel, metric, value from (select kernel, metric, value, row_number() over"
    " (partition by kernel, metric order by ifnull(metric_set, '')) as place from s.counter) where place = 1;",
    "create index c_at on c (kernel, metric);",
    "create temp table steps as select count(distinct step) as n from s.event where step is not null;",
    /* beside: a copy on a stream without kernels, which is no part of the step's time; planned: launches of the node by
     * its plan; ran: kernels of the node that the timeline has */
    "create temp table planned as select node, count(*) as n from s.launch group by node;",
    "create temp table ran as select node, count(*) as n from s.event where kernel is not null group by node;",
    "create temp table e0 as select v.kernel, v.step, v.start_ns, v.duration_ns, v.what, ifnull(v.what = 'copy' and"
    " v.stream not in (select stream from s.event where kernel is not null), 0) as beside, coalesce(v.phase, n.phase, "
    "q.phase) as"
    " phase,"
    " coalesce(n.op, q.op, v.what) as op, LEAST(n.read_bytes + n.write_bytes, ifnull(l.least_bytes, l.load_bytes +"
    " l.store_bytes)) as least_b, LEAST(n.tensor_flops, l.tensor_flops) as least_t, LEAST(n.vector_flops, 2 *"
    " l.fma_ops +"
    " 4 * l.half2_ops) as least_v, LEAST(n.special_ops, l.special_ops) as least_s from s.event v"
    " left join s.node n on v.node = n.id left join s.kernel q on v.kernel = q.id left join s.launch l on v.launch ="
    " l.id"
    " left join planned p on p.node = n.id left join ran on ran.node = n.id where step is not null;",
    "create temp table e as select * from e0 where not beside;",
    /* what counters saw a launch of a kernel do: its least work is no more than that (lanes: two FLOPs an
     * instruction) */
    "create temp table done as select id as kernel,"
    " (select sum(value) from c where c.kernel = id and metric glob 'sm__ops_path_tensor_src_*') as tensor,"
    " 2 * (SASS('ffma') + SASS('fadd') + SASS('fmul')) + 4 * (SASS('hfma') + SASS('hadd') + SASS('hmul')) as lanes,"
    " 32 * M('sm__inst_executed_pipe_xu.sum') as special from s.kernel;",
    "update e set least_v = least_v + least_t where least_t > 0 and " DONE("tensor") " <= 0;",
    "update e set least_t = min(least_t, ifnull(" DONE("tensor") ", least_t)),"
                                                                 " least_v = min(least_v, ifnull(" DONE(
                                                                     "lanes") ", least_v)),"
                                                                              " least_s = min(least_s, ifnull(" DONE(
                                                                                  "special") ", least_s));",
    "create temp view sms as select number as n from s.sheet where key = 'gpu.sms';",
    "create temp table k as select id, kind, name, ifnull(op, '') as op,"
    " (select count(*) from e where e.kernel = id) * 1.0 / (select n from steps) as n,"
    " (select sum(duration_ns) from e where e.kernel = id) * 1.0 / (select n from steps) as ns,"
    " M('gpu__time_duration.sum') as c_ns, M('dram__bytes_read.sum') + M('dram__bytes_write.sum') as dram,"
    " M('lts__t_bytes.sum') as l2,"
    " ifnull(M('l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed') / 100"
    "  * M('sm__cycles_elapsed.max') * (select n from sms) * 128, M('l1tex__t_bytes.sum')) as l1,"
    " (select sum(value) from c where c.kernel = id and metric glob 'sm__ops_path_tensor_src_*') as tensor,"
    " 2 * SASS('ffma') + SASS('fadd') + SASS('fmul') as fp32,"
    " 4 * SASS('hfma') + 2 * SASS('hadd') + 2 * SASS('hmul') as half,"
    " 32 * M('sm__inst_executed_pipe_xu.sum') as special,"
    " M('sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active') as tensor_pct,"
    " M('sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active') as fma_pct,"
    " M('sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_active') as alu_pct,"
    " M('sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active') as xu_pct,"
    " M('sm__ctas_launched.sum') as blocks,"
    " M('sm__ctas_active.sum') / M('sm__ctas_launched.sum') / M('sm__cycles_elapsed.avg.per_second') as block_s,"
    " M('sm__cycles_active.avg') as cycles, " MEAN("least_b") ", " MEAN("least_t") ", " MEAN("least_v") ", " MEAN(
        "least_s") " from s.kernel where exists (select 1 from e where e.kernel = id);",
    /* the four floors, ns: of least work, of executed work where that is not known (programs that are not ours) */
    "create temp view f as select k.*, 1e9 * ifnull(least_b, dram) / " BEST(
        "dram") " as by_memory,"
                " 1e9 * " WORK("least_t", "tensor") " / " BEST(
                    "tensor") " as by_tensor,"
                              " 1e9 * " WORK("least_v", "fp32 + half") " / " BEST(
                                  "fma") " as by_vector,"
                                         " 1e9 * " WORK("least_s",
                                                        "special") " / " BEST("special") " as by_special from k;",
    "create temp table floors as select *, max(by_memory, by_tensor, by_vector, by_special) as floor, case"
    " max(by_memory, by_tensor, by_vector, by_special) when by_memory then 'by_memory' when by_tensor then 'by_tensor'"
    " when by_vector then 'by_vector' else 'by_special' end as bound from f;",
    "create temp view busy as select sum(duration_ns) * 1.0 / (select n from steps) as ns from e;",
    "create temp view ceil as select (select rate from s.ceiling where name = 'dram' and how = 'measured') as dram,"
    " (select rate from s.ceiling where name = 'dram' and how = 'data sheet') as sheet;",
    NULL
};

/* The least work of an event: of its node where the plan has one launch, else of its launch; none where a library ran
 * more kernels than planned and this is not one of them. */
static const char least[] =
    "(case when v.kernel is null or n.id is null then null when l.id is null and p.n >= 1 and"
    " ran.n > p.n * (select n from steps) then 0 when ifnull(p.n, 0) <= 1 then %.*s else %.*s end * ifnull(n.filled,"
    " 1))";

/* M('metric'): of the kernel `id`; SASS('op'): executed by threads; LEAST(of the node, of the launch). */
static void expand(char *out, size_t room, const char *sql)
{
    size_t n = 0;
    while (*sql && n + 600 < room) {
        const bool metric = !strncmp(sql, "M('", 3), sass = !strncmp(sql, "SASS('", 6);
        if (!strncmp(sql, "LEAST(", 6)) {
            const char *of_node = sql + 6, *comma = strchr(of_node, ','), *of_launch = comma + 1;
            const char *end = strstr(of_launch, ") as ");
            n += (size_t)snprintf(out + n, room - n, least, (int)(comma - of_node), of_node, (int)(end - of_launch),
                                  of_launch);
            sql = end + 1;
            continue;
        }
        if (!metric && !sass) {
            out[n++] = *sql++;
            continue;
        }
        sql += metric ? 3 : 6;
        const int word = (int)strcspn(sql, "'");
        n += (size_t)snprintf(out + n, room - n, "(select value from c where c.kernel = id and metric = '%s%.*s%s')",
                              sass ? "sm__sass_thread_inst_executed_op_" : "", word, sql, sass ? "_pred_on.sum" : "");
        sql += word + 2;
    }
    out[n] = 0;
    if (*sql) fail_msg("too long: %.60s", sql);
}

/* The page has current names, a store the names of its release. */
static void alias_in_sql(sqlite3_context *c, int n, sqlite3_value **v)
{
    (void)n;
    sqlite3_result_text(c, mba_alias_kernel((const char *)sqlite3_value_text(v[0])), -1, SQLITE_TRANSIENT);
}

static sqlite3 *attach_rows(const char *path)
{
    char     attach[512], *story = NULL;
    sqlite3 *db;
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_int_equal(sqlite3_create_function(db, "kernel_alias", 1, SQLITE_UTF8, NULL, alias_in_sql, NULL, NULL),
                     SQLITE_OK);
    snprintf(attach, sizeof attach, "attach 'file:%s?immutable=1' as s;", path);
    if (sqlite3_exec(db, attach, NULL, NULL, &story)) {
        snprintf(attach, sizeof attach, "attach '%s' as s;", path);
        if (sqlite3_exec(db, attach, NULL, NULL, &story)) fail_msg("%s: %s", path, story);
    }
    return db;
}

static sqlite3 *open_rows(const char *path)
{
    static char text[32768];
    char       *story = NULL;
    sqlite3    *db = attach_rows(path);
    for (const char *const *sql = views; *sql; sql++) {
        expand(text, sizeof text, *sql);
        if (sqlite3_exec(db, text, NULL, NULL, &story)) fail_msg("%s: %s\n%s", path, story, text);
    }
    return db;
}

/* What a row of the page says of itself. */
typedef struct subject {
    int64_t     kernel;
    const char *a, *b, *c;
} subject;

static double ask(sqlite3 *db, const char *sql, subject at)
{
    static char   text[8192];
    sqlite3_stmt *q;
    double        v = NAN;
    expand(text, sizeof text, sql);
    if (sqlite3_prepare_v2(db, text, -1, &q, NULL)) fail_msg("%s\n%s", sqlite3_errmsg(db), text);
    const int         kernel = sqlite3_bind_parameter_index(q, ":kernel");
    const char *const name[] = { ":a", ":b", ":c" }, *const word[] = { at.a, at.b, at.c };
    if (kernel) sqlite3_bind_int64(q, kernel, at.kernel);
    for (int i = 0; i < 3; i++) {
        const int place = sqlite3_bind_parameter_index(q, name[i]);
        if (place) sqlite3_bind_text(q, place, word[i], -1, SQLITE_STATIC);
    }
    if (sqlite3_step(q) == SQLITE_ROW && sqlite3_column_type(q, 0) != SQLITE_NULL) v = sqlite3_column_double(q, 0);
    sqlite3_finalize(q);
    return v;
}

/* The kernel that a label of the page means: "name", "name #12" where names repeat, "long na…". */
static int64_t kernel_labelled(sqlite3 *db, const char *label)
{
    const char *number = strrchr(label, '#');
    if (number && number > label && number[-1] == ' ') return strtoll(number + 1, NULL, 10);
    const size_t n = strcspn(label, "\xe2"); // the first byte of …
    char         name[256];
    snprintf(name, sizeof name, "%.*s", (int)n, label);
    const char *sql =
        label[n] ? "select id from s.kernel where id in (select id from k) and kernel_alias(name) glob :a || '*'"
                 : "select id from s.kernel where id in (select id from k) and kernel_alias(name) = :a";
    const double id = ask(db, sql, (subject){ .a = name });
    if (isnan(id)) fail_msg("the store has no kernel '%s'", label);
    return (int64_t)id;
}

#endif
