// SPDX-License-Identifier: Apache-2.0
/* machine.c -- see machine.h: the words of a machine file, files and their includes, changes by --set. */
#include "sim/machine.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/nearest.h"
#include "sim/machine_names.h"
#include "sim/machines_built_in.h" /* made by CMake from machines/ */

enum { FILE_BYTES_MAX = 1 << 16, INCLUDES_MAX = 8, WORD_MAX = 64 };

const mba_gpu_key_info mba_gpu_keys[MBA_GPU_KEYS] = {
#define KEY(name, unit, least, most, meaning) { #name, unit, meaning, least, most },
#include "sim/machine_keys.def"
#undef KEY
};

const mba_gpu_key mba_gpu_powers[MBA_GPU_POWERS] = { MBA_GPU_power_limit, MBA_GPU_p_idle, MBA_GPU_e_vector,
                                                     MBA_GPU_e_tensor,    MBA_GPU_e_dram, MBA_GPU_v_floor };

/* ---- keys by name ---- */

typedef struct renamed {
    const char *old;
    int         key;
} renamed;
static const renamed old_names[] = {
#define RENAMED(old, new) { #old, MBA_GPU_##new },
#include "sim/machine_renamed.def"
#undef RENAMED
};
enum { OLD_NAMES = sizeof old_names / sizeof *old_names };
static atomic_bool old_used[OLD_NAMES]; /* machines may be read by several threads */

int mba_gpu_key_find(const char *name)
{
    for (int k = 0; k < MBA_GPU_KEYS; k++)
        if (!strcmp(mba_gpu_keys[k].name, name)) return k;
    for (int i = 0; i < OLD_NAMES; i++)
        if (!strcmp(old_names[i].old, name)) {
            atomic_store(&old_used[i], true);
            return old_names[i].key;
        }
    return -1;
}

bool mba_gpu_keys_renamed(char *text, size_t space)
{
    size_t n = 0;
    mba_assert(space > 0);
    *text = '\0';
    for (int i = 0; i < OLD_NAMES && n < space; i++)
        if (atomic_load(&old_used[i]))
            n += (size_t)snprintf(text + n, space - n, "%s%s is now %s", n ? ", " : "", old_names[i].old,
                                  mba_gpu_keys[old_names[i].key].name);
    return n > 0;
}

const char *mba_gpu_key_seed(int key)
{
    for (int i = 0; i < OLD_NAMES; i++)
        if (old_names[i].key == key) return old_names[i].old;
    return mba_gpu_keys[key].name;
}

const char *mba_gpu_name(int i) { return i >= 0 && i < MBA_BUILT_IN_MACHINES ? mba_built_in_machine[i].name : NULL; }

/* ---- words ---- */

typedef struct text {
    const char *at, *end;
    int         line;
    const char *where;
} text;

static mba_status bad(const text *t, const char *what, const char *why, const char *fix)
{
    return mba_fail(MBA_E_FORMAT, "%s, line %d: %s\nwhy: %s\nfix: %s", t->where, t->line, what, why, fix);
}

static void skip_blank(text *t)
{
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\t')) t->at++;
}
static bool at_end_of_line(const text *t)
{
    return t->at == t->end || *t->at == '\n' || *t->at == '\r' || *t->at == '#';
}

static void skip_line(text *t)
{
    while (t->at < t->end && *t->at != '\n') t->at++;
    if (t->at < t->end) t->at++;
    t->line++;
}

/* The next word of the line; false: there is none, it is WORD_MAX characters or longer, or it is not printable. */
static bool take_word(text *t, char *out)
{
    size_t n = 0;
    skip_blank(t);
    while (!at_end_of_line(t) && *t->at != ' ' && *t->at != '\t' && *t->at != '=') {
        if (n + 1 == WORD_MAX) return false;
        if (!isprint((unsigned char)*t->at) && (unsigned char)*t->at < 0x80) return false;
        out[n++] = *t->at++;
    }
    out[n] = '\0';
    return n > 0;
}

static mba_hint key_like(const char *word)
{
    mba_nearest near = mba_nearest_to(word, strlen(word));
    for (int k = 0; k < MBA_GPU_KEYS; k++) mba_nearest_try(&near, mba_gpu_keys[k].name, mba_gpu_keys[k].meaning);
    return mba_did_you_mean(&near);
}

static mba_hint machine_like(const char *word)
{
    mba_nearest near = mba_nearest_to(word, strlen(word));
    for (int i = 0; i < MBA_BUILT_IN_MACHINES; i++) mba_nearest_try(&near, mba_built_in_machine[i].name, NULL);
    return mba_did_you_mean(&near);
}

/* A plain decimal number and nothing else: no hex, no infinities, no locale. */
static bool number_of(const char *word, double *out)
{
    char *end;
    if (strspn(word, "0123456789.eE+-") != strlen(word)) return false;
    *out = strtod(word, &end);
    return end != word && !*end && isfinite(*out);
}

static bool is_count(int k)
{
    mba_assert(k >= 0 && k < MBA_GPU_KEYS);
    return !strcmp(mba_gpu_keys[k].unit, "count");
}

static mba_status check_value(const char *where, int line, int k, double v)
{
    mba_assert(k >= 0 && k < MBA_GPU_KEYS);
    const mba_gpu_key_info *i = &mba_gpu_keys[k];
    if (!(v >= i->least && v <= i->most))
        return mba_fail(MBA_E_FORMAT, "%s, line %d: %s = %g %s is out of range\nwhy: it must be from %g to %g\nfix: %s",
                        where, line, i->name, v, i->unit, i->least, i->most,
                        v < 0 ? "write a number that is not negative" : "check the unit");
    if (is_count(k) && v != floor(v))
        return mba_fail(
            MBA_E_FORMAT,
            "%s, line %d: %s = %g is not a whole number\nwhy: the key is a count\nfix: write a whole number", where,
            line, i->name, v);
    if (k == MBA_GPU_l2_slope && v * 2 != floor(v * 2))
        return mba_fail(MBA_E_FORMAT,
                        "%s, line %d: l2_slope = %g cannot be used\nwhy: the L2 hit curve takes multiples of 0.5\nfix: "
                        "write 6 or 6.5",
                        where, line, v);
    return MBA_OK;
}

/* ---- files ---- */

static mba_status load(mba_gpu *out, const char *name, const char *const *chain, int depth);

static bool is_path(const char *name)
{
    const size_t n = strlen(name);
    return strchr(name, '/') || (n > 4 && !strcmp(name + n - 4, ".ini"));
}

static mba_status outside(const text *t)
{
    return bad(t, "the included file is outside of this file's folder",
               "a machine file may come from anyone and must not read other files",
               "include a machine by its name (include = h200), or a file in this folder or below it");
}

/* True if a component of the path is "..". */
static bool climbs(const char *path)
{
    for (const char *p = path; p; p = strchr(p, '/')) {
        p += *p == '/';
        if (!strncmp(p, "..", 2) && (!p[2] || p[2] == '/')) return true;
    }
    return false;
}

/* Sets `path` to that of a file that `t` includes: relative to the folder of `t` and, symbolic links resolved, in it or
 * below. */
static mba_status beside(char *path, size_t room, const text *t, const char *name)
{
    const char *slash = strrchr(t->where, '/');
    const int   end = slash ? (int)(slash - t->where) + 1 : 0;
    char        folder[PATH_MAX], real[PATH_MAX];
    if (*name == '/' || climbs(name)) return outside(t);
    snprintf(path, room, "%.*s", end ? end : 2, end ? t->where : "./");
    if (!realpath(path, folder) || snprintf(path, room, "%.*s%s", end, t->where, name) >= (int)room
        || !realpath(path, real))
        return mba_fail(
            MBA_E_IO, "%s, line %d: cannot find '%s'\nwhy: %s\nfix: paths are relative to the file that includes them",
            t->where, t->line, path, strerror(errno));
    const size_t n = strlen(folder);
    return !strncmp(real, folder, n) && (real[n] == '/' || folder[n - 1] == '/') ? MBA_OK : outside(t);
}

/* Takes all numbers of the included machine; later lines may override them. */
static mba_status include(mba_gpu *m, text *t, const char *const *chain, int depth)
{
    char    name[WORD_MAX], path[PATH_MAX];
    mba_gpu base = { 0 };
    if (!take_word(t, name))
        return bad(t, "include names no machine", "a line is `include = machine`", "include = h200");
    for (int k = 0; k < MBA_GPU_KEYS; k++)
        if (m->known[k])
            return bad(t, "include comes after other keys", "the included machine would override them",
                       "put include first");
    if (is_path(name)) MBA_TRY(beside(path, sizeof path, t, name));
    MBA_TRY(load(&base, is_path(name) ? path : name, chain, depth));
    memcpy(m->v, base.v, sizeof m->v);
    memcpy(m->sigma, base.sigma, sizeof m->sigma);
    memcpy(m->known, base.known, sizeof m->known);
    memcpy(m->clocks_on, base.clocks_on, sizeof m->clocks_on);
    m->card = base.card;
    return MBA_OK;
}

static mba_status take_sigma(text *t, double *sigma)
{
    char word[WORD_MAX];
    *sigma = 0;
    skip_blank(t);
    if (at_end_of_line(t)) return MBA_OK;
    if (!take_word(t, word) || strcmp(word, "+-"))
        return bad(t, "there are words after the unit", "only +- and a standard deviation may follow",
                   "1.98 GHz +- 0.02");
    if (!take_word(t, word) || !number_of(word, sigma) || *sigma < 0)
        return bad(t, "no number follows +-", "it is one standard deviation", "1.98 GHz +- 0.02");
    return MBA_OK;
}

static mba_status take_line(mba_gpu *m, text *t, bool *here, const char *const *chain, int depth)
{
    char   key[WORD_MAX], word[WORD_MAX], unit[WORD_MAX];
    double v, sigma;
    if (!take_word(t, key))
        return bad(t, "there is no key", "a line is `key = value unit # source`", "begin a comment with #");
    skip_blank(t);
    if (t->at == t->end || *t->at != '=')
        return bad(t, "no = follows the key", "a line is `key = value unit # source`", "hbm = 4800 GB/s");
    t->at++;
    if (!strcmp(key, "include")) {
        MBA_TRY(include(m, t, chain, depth));
        skip_blank(t);
        return at_end_of_line(t)
                   ? MBA_OK
                   : bad(t, "there are words after the included machine", "only its name may follow", "include = h200");
    }
    const int k = mba_gpu_key_find(key);
    if (k < 0)
        return mba_fail(MBA_E_FORMAT,
                        "%s, line %d: unknown key '%s'\nwhy: a misspelt key would have no effect\n"
                        "fix: %smambascope simulate --keys lists them",
                        t->where, t->line, key, key_like(key).text);
    if (here[k]) return bad(t, key, "the key is given twice", "keep one of them");
    if (!take_word(t, word) || !number_of(word, &v)) return bad(t, key, "no number follows the =", "hbm = 4800 GB/s");
    if (!take_word(t, unit) || !strcmp(unit, "+-"))
        return mba_fail(MBA_E_FORMAT,
                        "%s, line %d: %s has no unit\nwhy: a number without a unit cannot be checked\nfix: %s = %s %s",
                        t->where, t->line, key, key, word, mba_gpu_keys[k].unit);
    if (strcmp(unit, mba_gpu_keys[k].unit))
        return mba_fail(MBA_E_FORMAT, "%s, line %d: %s is given in %s\nwhy: its unit is %s\nfix: %s = .. %s", t->where,
                        t->line, key, unit, mba_gpu_keys[k].unit, key, mba_gpu_keys[k].unit);
    MBA_TRY(take_sigma(t, &sigma));
    MBA_TRY(check_value(t->where, t->line, k, v));
    m->v[k] = v;
    m->sigma[k] = sigma;
    m->known[k] = here[k] = true;
    return MBA_OK;
}

/* Scales the half point of the hit curve with the size of L2, unless it is given too. The L2 model uses only the half
 * point, so a change of the size alone would do nothing. */
static void move_half_point(mba_gpu *m, double l2_before, const bool *given)
{
    if (!given[MBA_GPU_l2] || given[MBA_GPU_l2_half_reuse] || !(l2_before > 0)) return;
    m->v[MBA_GPU_l2_half_reuse] *= m->v[MBA_GPU_l2] / l2_before;
    m->sigma[MBA_GPU_l2_half_reuse] *= m->v[MBA_GPU_l2] / l2_before;
}

const mba_gpu_key mba_gpu_clocks[MBA_GPU_CLOCKS] = { MBA_GPU_clk, MBA_GPU_clk_tc, MBA_GPU_clk_busy, MBA_GPU_clk_mma };

/* Clocks hold on the machine of the file that gives them. A file with a power limit and no clocks is a card whose
 * clocks follow from those, none above clk_boost. A file with neither changes the machine, and its clocks stay. */
static void keep_clocks(mba_gpu *m, const bool *given)
{
    double powers[MBA_GPU_POWERS];
    bool   clocks = false;
    for (int i = 0; i < MBA_GPU_CLOCKS; i++) clocks |= given[mba_gpu_clocks[i]];
    m->card = !clocks && (m->card || given[MBA_GPU_power_limit]);
    for (int i = 0; i < MBA_GPU_CLOCKS && m->card; i++)
        m->v[mba_gpu_clocks[i]] = fmin(m->clocks_on[mba_gpu_clocks[i]], m->v[MBA_GPU_clk_boost]);
    if (m->card) return;
    for (int i = 0; i < MBA_GPU_POWERS; i++) powers[i] = (clocks ? m->v : m->clocks_on)[mba_gpu_powers[i]];
    memcpy(m->clocks_on, m->v, sizeof m->clocks_on);
    for (int i = 0; i < MBA_GPU_POWERS; i++) m->clocks_on[mba_gpu_powers[i]] = powers[i];
}

static mba_status parse(mba_gpu *m, const char *where, const char *bytes, size_t n, const char *const *chain, int depth)
{
    text   t = { bytes, bytes + n, 1, where };
    bool   here[MBA_GPU_KEYS] = { false };
    double included = 0;
    while (t.at < t.end) {
        skip_blank(&t);
        if (!at_end_of_line(&t)) MBA_TRY(take_line(m, &t, here, chain, depth));
        if (!here[MBA_GPU_l2]) included = m->v[MBA_GPU_l2];
        skip_line(&t);
    }
    move_half_point(m, included, here);
    keep_clocks(m, here);
    for (int k = 0; k < MBA_GPU_KEYS; k++)
        if (!m->known[k])
            return mba_fail(MBA_E_FORMAT,
                            "%s has no %s\nwhy: %s\nfix: add `%s = .. %s`, or begin with `include = h200`", where,
                            mba_gpu_keys[k].name, mba_gpu_keys[k].meaning, mba_gpu_keys[k].name, mba_gpu_keys[k].unit);
    return MBA_OK;
}

static mba_status load_file(mba_gpu *out, const char *path, const char *const *chain, int depth)
{
    char  *bytes;
    size_t n;
    MBA_TRY(mba_file_read(&bytes, &n, path, FILE_BYTES_MAX));
    const mba_status st = parse(out, path, bytes, n, chain, depth);
    free(bytes);
    return st;
}

static mba_status load(mba_gpu *out, const char *name, const char *const *before, int depth)
{
    const char *chain[INCLUDES_MAX + 1];
    mba_assert(depth >= 0 && depth <= INCLUDES_MAX);
    for (int i = 0; i < depth; i++) {
        chain[i] = before[i];
        if (!strcmp(before[i], name))
            return mba_fail(MBA_E_FORMAT, "the machine '%s' includes itself\nfix: include another machine", name);
    }
    if (depth == INCLUDES_MAX)
        return mba_fail(MBA_E_FORMAT, "there are more than %d nested includes, at '%s'\nfix: write the numbers out",
                        depth, name);
    chain[depth] = name;
    if (is_path(name)) return load_file(out, name, chain, depth + 1);
    for (int i = 0; i < MBA_BUILT_IN_MACHINES; i++)
        if (!strcmp(mba_built_in_machine[i].name, name)) {
            out->built_in = true;
            return parse(out, name, (const char *)mba_built_in_machine[i].text, mba_built_in_machine[i].bytes, chain,
                         depth + 1);
        }
    return mba_fail(depth ? MBA_E_FORMAT : MBA_E_ARG,
                    "there is no machine '%s'\nwhy: it does not come with the program\n"
                    "fix: %s" MBA_GPU_NAMES ", or the path of a machine file",
                    name, machine_like(name).text);
}

mba_status mba_gpu_load(mba_gpu *out, const char *name)
{
    *out = (mba_gpu){ 0 };
    MBA_TRY(load(out, name, NULL, 0));
    const char *base = strrchr(name, '/');
    snprintf(out->name, sizeof out->name, "%s", base ? base + 1 : name);
    return MBA_OK;
}

mba_status mba_gpu_parse(mba_gpu *out, const char *where, const char *bytes, size_t n)
{
    *out = (mba_gpu){ 0 };
    MBA_TRY(parse(out, where, bytes, n, &where, 1));
    snprintf(out->name, sizeof out->name, "%s", where);
    return MBA_OK;
}

/* ---- changes ---- */

static mba_status bad_change(const char *change, const char *why)
{
    return mba_fail(MBA_E_ARG,
                    "--set %s cannot be used\nwhy: %s\nfix: write --set hbm=6000, or --set hbm=x1.25 for 1.25 times "
                    "the machine's value",
                    change, why);
}

static mba_status set_one(mba_gpu *m, const char *change, bool *given)
{
    char         key[WORD_MAX], word[WORD_MAX];
    const size_t n = strcspn(change, "=");
    double       v;
    if (n >= WORD_MAX || change[n] != '=') return bad_change(change, "a change is key=value");
    snprintf(key, sizeof key, "%.*s", (int)n, change);
    const int k = mba_gpu_key_find(key);
    if (k < 0)
        return mba_fail(
            MBA_E_ARG,
            "--set %s cannot be used\nwhy: there is no key '%s'\nfix: %smambascope simulate --keys lists the keys",
            change, key, key_like(key).text);
    const char  *value = change + n + 1;
    const bool   times = *value == 'x';
    const size_t digits = strspn(value + times, "0123456789.eE+-");
    snprintf(word, sizeof word, "%.*s", (int)digits, value + times);
    if (digits >= WORD_MAX || !number_of(word, &v)) return bad_change(change, "no number follows the =");
    const char *unit = value + times + digits;
    if (*unit && strcmp(unit, mba_gpu_keys[k].unit))
        return bad_change(change, "the unit is not that of the machine file");
    if (times) v *= m->v[k];
    if (times && is_count(k)) v = floor(v + 0.5);
    if (is_count(k) && v != floor(v)) return bad_change(change, "the key is a count: it needs a whole number");
    if (!(v >= mba_gpu_keys[k].least && v <= mba_gpu_keys[k].most))
        return bad_change(change, "the value is outside of the key's range");
    if (k == MBA_GPU_l2_slope && v * 2 != floor(v * 2))
        return bad_change(change, "the L2 hit curve takes multiples of 0.5");
    m->sigma[k] = m->v[k] > 0 ? m->sigma[k] * v / m->v[k] : 0;
    m->v[k] = v;
    m->changed = given[k] = true;
    return MBA_OK;
}

mba_status mba_gpu_set(mba_gpu *m, const char *changes)
{
    const double l2 = m->v[MBA_GPU_l2];
    bool         given[MBA_GPU_KEYS] = { false };
    for (const char *s = changes; s && *s;) {
        char         one[2 * WORD_MAX];
        const size_t n = strcspn(s, ",");
        if (n >= sizeof one) return bad_change("..", "it is too long");
        snprintf(one, sizeof one, "%.*s", (int)n, s);
        MBA_TRY(set_one(m, one, given));
        s += n + (s[n] == ',');
    }
    move_half_point(m, l2, given);
    return MBA_OK;
}

mba_machine mba_gpu_for_plans(const mba_gpu *m)
{
    for (int k = 0; k < MBA_GPU_KEYS; k++) mba_assert(isfinite(m->v[k]));
    const double *v = m->v;
    const double  block = v[MBA_GPU_smem_block] < v[MBA_GPU_smem_sm] ? v[MBA_GPU_smem_block] : v[MBA_GPU_smem_sm];
    return (mba_machine){ .name = m->name,
                          .cc = (int)v[MBA_GPU_plan_cc],
                          .sm = (int)v[MBA_GPU_sm],
                          .warp = 32,
                          .regs_sm = (int)(v[MBA_GPU_rf] * 256),
                          .threads_sm = (int)(v[MBA_GPU_warps_max] * v[MBA_GPU_warp]),
                          .smem_block_bytes = (int64_t)(block * 1024),
                          .smem_sm_bytes = (int64_t)(v[MBA_GPU_smem_sm] * 1024),
                          .l2_bytes = (int64_t)(v[MBA_GPU_l2] * 1e6),
                          .clock_ghz = v[MBA_GPU_clk],
                          .dram_gbs = v[MBA_GPU_hbm],
                          .memory_bytes = (int64_t)(v[MBA_GPU_memory] * 1e9) };
}
