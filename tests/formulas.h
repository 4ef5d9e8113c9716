// SPDX-License-Identifier: Apache-2.0
/* formulas.h -- for tests: a store whose kernels are named like formulas of a spreadsheet, and CSV that may have none.
 *
 *     formula_store(scratch("f.db"), "tests/data/stores/h200_mamba1.db");
 *     assert_true(cells_guarded(text) > 0);    // fails where a cell is a formula; counts cells that begin with ' */
#ifndef MBA_TESTS_FORMULAS_H
#define MBA_TESTS_FORMULAS_H

#include <sqlite3.h>
#include <stdbool.h>

#include "core/file.h"
#include "tests/scratch.h"
#include "tests/test.h"

static inline void formula_store(const char *path, const char *from)
{
    static const char rename_all[] = "UPDATE kernel SET name = substr('=+-@', 1 + id % 4, 1) || name, "
                                     "symbol = substr('=+-@', 1 + id % 4, 1) || coalesce(symbol, name)";
    char             *bytes;
    size_t            n;
    sqlite3          *db;
    assert_ok(mba_file_read(&bytes, &n, from, 1 << 28));
    scratch_put(path, bytes, n);
    free(bytes);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, rename_all, NULL, NULL, NULL), SQLITE_OK);
    assert_true(sqlite3_changes(db) >= 4);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* Numbers may begin with a sign, and a dash stands for none. */
static inline void no_formula(const char *cell)
{
    char *end;
    if (!strchr("=+-@", *cell) || !*cell || strchr(",\n\"", cell[1]) || !cell[1]) return;
    (void)strtod(cell, &end);
    if (end == cell || !strchr(",\n\"", *end)) fail_msg("a spreadsheet computes the cell %.60s", cell);
}

static inline int cells_guarded(const char *csv)
{
    int  guarded = 0;
    bool quoted = false, begins = true;
    for (const char *s = csv; *s; s++) {
        if (begins) {
            const char *cell = s + (*s == '"');
            no_formula(cell);
            guarded += *cell == '\'' && cell[1] && strchr("=+-@", cell[1]);
        }
        if (*s == '"') quoted = !quoted;
        begins = !quoted && (*s == ',' || *s == '\n');
    }
    return guarded;
}

#endif
