// SPDX-License-Identifier: Apache-2.0
/* checksums.c -- see checksums.h: writes and verifies checksums.json. */
#include "train/checksums.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "core/xxh64.h"
#include "data/array.h"
#include "data/json.h"
#include "data/listing.h"
#include "train/checkpoint_dirs.h"

enum { PATH_ROOM = 4096 };
static const char side_file[] = "checksums.json", algorithm[] = "xxh64";

#define FIX "fix: fetch or copy it again; where it was changed on purpose, remove checksums.json"

typedef struct sum {
    size_t bytes;
    char   value[17];
} sum;

static mba_status join(char out[PATH_ROOM], const char *folder, const char *name)
{
    return snprintf(out, PATH_ROOM, "%s/%s", folder, name) < PATH_ROOM
               ? MBA_OK
               : mba_fail(MBA_E_ARG, "the path '%s/%s' is too long\nfix: choose a shorter path", folder, name);
}

static mba_status sum_of(sum *out, const char *path)
{
    mba_map map;
    MBA_TRY(mba_file_map(&map, path));
    out->bytes = map.bytes;
    snprintf(out->value, sizeof out->value, "%016" PRIx64, mba_xxh64(map.data, map.bytes));
    mba_file_unmap(&map);
    return MBA_OK;
}

/* ---- writing ---- */

static bool is_summed(const char *name) { return strcmp(name, side_file) != 0; }

static mba_status add_file(json_t *files, const char *folder, const char *name)
{
    char path[PATH_ROOM];
    sum  s;
    MBA_TRY(join(path, folder, name));
    MBA_TRY(sum_of(&s, path));
    json_t *entry = json_pack("{s:I, s:s, s:s}", "bytes", (json_int_t)s.bytes, "algorithm", algorithm, "value",
                              s.value);
    return !json_object_set_new(files, name, entry) ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory for %s", side_file);
}

mba_status mba_checksums_write(const char *folder, int64_t step)
{
    char        path[PATH_ROOM];
    mba_listing names = { 0 };
    mba__json_begin();
    json_t *files = json_object(), *all = json_object();
    bool    made = files && all && (step < 0 || !json_object_set_new(all, "step", json_integer((json_int_t)step)))
                && !json_object_set(all, "files", files);
    mba_status st = made ? join(path, folder, side_file) : mba_fail(MBA_E_NOMEM, "no memory for %s", side_file);
    if (st == MBA_OK) st = mba_listing_read(&names, folder, is_summed);
    for (int64_t i = 0; i < names.n && st == MBA_OK; i++) st = add_file(files, folder, names.name[i]);
    if (st == MBA_OK) st = mba_json_whole(all, side_file);
    if (st == MBA_OK) st = mba_json_save(all, path);
    mba_listing_free(&names);
    json_decref(files);
    json_decref(all);
    return st;
}

/* ---- verifying ---- */

static mba_status unclear(const char *folder, const char *why)
{
    return mba_fail(MBA_E_FORMAT, "'%s/%s' is damaged: %s\n" FIX, folder, side_file, why);
}

static mba_status verify_file(const char *folder, const char *name, const json_t *entry)
{
    char        path[PATH_ROOM];
    const char *by, *value;
    int64_t     bytes;
    sum         s;
    if (strchr(name, '/') || strcmp(mba_quote(name).text, name) || !mba_json_get(entry, "bytes"))
        return unclear(folder, "its entries have another form");
    mba_status st = mba_json_int(entry, "bytes", 0, 0, INT64_MAX, &bytes);
    if (st == MBA_OK) st = mba_json_text(entry, "algorithm", "", &by);
    if (st == MBA_OK) st = mba_json_text(entry, "value", "", &value);
    if (st != MBA_OK) return mba_where(st, "reading '%s/%s'", folder, side_file);
    if (strcmp(by, algorithm)) return unclear(folder, "it names an algorithm that this program does not know");
    MBA_TRY(join(path, folder, name));
    if (access(path, F_OK))
        return mba_fail(MBA_E_FORMAT, "'%s' is missing: %s has its checksum\n" FIX, path, side_file);
    MBA_TRY(sum_of(&s, path));
    if (s.bytes != (size_t)bytes)
        return mba_fail(MBA_E_FORMAT, "'%s' is damaged: it has %zu bytes, %s says %lld\n" FIX, path, s.bytes, side_file,
                        (long long)bytes);
    if (strcmp(s.value, value))
        return mba_fail(MBA_E_FORMAT, "'%s' is damaged: its %s is %s, %s says %s\n" FIX, path, algorithm, s.value,
                        side_file, mba_quote(value).text);
    return MBA_OK;
}

/* Detects a complete folder with the name of another step: "step-000006" with step 4 in it. */
static mba_status verify_step(const char *folder, const json_t *all)
{
    const int64_t named = mba__step_named(folder);
    int64_t       step;
    if (named < 0) return MBA_OK;
    const mba_status st = mba_json_int(all, "step", -1, -1, INT64_MAX, &step);
    if (st != MBA_OK) return mba_where(st, "reading '%s/%s'", folder, side_file);
    if (step < 0 || step == named) return MBA_OK;
    return mba_fail(MBA_E_FORMAT,
                    "'%s' is the checkpoint of step %lld, but its name says %lld\nfix: rename it after its step",
                    folder, (long long)step, (long long)named);
}

mba_status mba_checksums_verify(const char *folder, bool resumes)
{
    char        path[PATH_ROOM];
    json_t     *all = NULL, *entry;
    const char *name;
    MBA_TRY(join(path, folder, side_file));
    if (access(path, F_OK)) return MBA_OK;
    MBA_TRY(mba_json_load(&all, path, NULL));
    json_t    *files = json_object_get(all, "files");
    mba_status st = files ? verify_step(folder, all) : MBA_OK; // no "files": another program's checksums
    if (files && !json_is_object(files) && st == MBA_OK) st = unclear(folder, "it has no table of files");
    json_object_foreach(files, name, entry)
    {
        const bool training = !strcmp(name, "optimizer.safetensors") || !strcmp(name, "trainer.json");
        if (st == MBA_OK && (resumes || !training)) st = verify_file(folder, name, entry);
    }
    json_decref(all);
    return st;
}
