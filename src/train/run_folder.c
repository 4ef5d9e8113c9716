// SPDX-License-Identifier: Apache-2.0
/* run_folder.c -- see run_folder.h: options.json and the options in trainer.json. */
#include "train/run_folder.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "data/array.h"
#include "data/json.h"

enum { PATH_ROOM = 4096, OPTIONS_VERSION = 1 };

static mba_status join(char out[PATH_ROOM], const char *folder, const char *name)
{
    return snprintf(out, PATH_ROOM, "%s/%s", folder, name) < PATH_ROOM
               ? MBA_OK
               : mba_fail(MBA_E_ARG, "the path '%s' is too long\nfix: choose a shorter path", folder);
}

static bool has(const char *folder, const char *name)
{
    char path[PATH_ROOM];
    return snprintf(path, sizeof path, "%s/%s", folder, name) < PATH_ROOM && access(path, F_OK) == 0;
}

/* Finds the parent folder of a checkpoint by its name alone: "a/step-5/" gives "a", "step-5" gives ".". */
mba_status mba_run_folder(char *out, size_t room, const char *resume)
{
    size_t n = strlen(resume);
    if (n + 2 > room) return mba_fail(MBA_E_ARG, "the path '%s' is too long\nfix: choose a shorter path", resume);
    memcpy(out, resume, n + 1);
    if (!has(resume, "config.json")) return MBA_OK;
    while (n > 1 && out[n - 1] == '/') n--;
    while (n > 0 && out[n - 1] != '/') n--;
    while (n > 1 && out[n - 1] == '/') n--;
    out[n] = 0;
    if (!n) strcpy(out, ".");
    if (!has(out, "options.json") && !has(out, "log.jsonl")) *out = 0;
    return MBA_OK;
}

mba_status mba_run_options_save(const json_t *options, const char *folder)
{
    char path[PATH_ROOM];
    MBA_TRY(join(path, folder, "options.json"));
    mba__json_begin();
    json_t    *o = json_pack("{s:i, s:s, s:O}", "version", OPTIONS_VERSION, "command", "train", "options", options);
    mba_status st = mba_json_whole(o, "options.json");
    if (st == MBA_OK) st = mba_json_save(o, path);
    json_decref(o);
    return st;
}

/* Reads "options" from a file; *out is NULL if it has none. */
static mba_status options_in(json_t **out, const char *path, bool versioned)
{
    json_t *file = NULL;
    int64_t version = 0;
    MBA_TRY(mba_json_load(&file, path, NULL));
    mba_status st = versioned ? mba_json_int(file, "version", 0, 0, INT32_MAX, &version) : MBA_OK;
    json_t    *options = json_object_get(file, "options");
    if (st == MBA_OK && versioned && version != OPTIONS_VERSION)
        st = mba_fail(MBA_E_UNSUPPORTED,
                      "its version is %lld, this program reads %d\nfix: resume with the "
                      "program that started the run",
                      (long long)version, OPTIONS_VERSION);
    if (st == MBA_OK && options && !json_is_object(options))
        st = mba_fail(MBA_E_FORMAT, "its options are %s\nfix: resume from another checkpoint of the run",
                      mba_json_kind(options));
    if (st == MBA_OK) *out = json_incref(options);
    else st = mba_where(st, "reading '%s'", path);
    json_decref(file);
    return st;
}

mba_status mba_run_options_load(json_t **out, const char *folder)
{
    char path[PATH_ROOM];
    *out = NULL;
    MBA_TRY(join(path, folder, "options.json"));
    return access(path, F_OK) ? MBA_OK : options_in(out, path, true);
}

mba_status mba_checkpoint_options(json_t **out, const char *checkpoint)
{
    char path[PATH_ROOM];
    *out = NULL;
    MBA_TRY(join(path, checkpoint, "trainer.json"));
    return options_in(out, path, false);
}

mba_status mba_checkpoint_kernels(char *out, size_t room, const char *checkpoint)
{
    char        path[PATH_ROOM];
    json_t     *trainer = NULL;
    const char *kernels;
    MBA_TRY(join(path, checkpoint, "trainer.json"));
    MBA_TRY(mba_json_load(&trainer, path, NULL));
    const mba_status st = mba_json_text(trainer, "kernels", "", &kernels);
    if (st == MBA_OK) snprintf(out, room, "%s", mba_quote(kernels).text);
    json_decref(trainer);
    return st == MBA_OK ? st : mba_where(st, "reading '%s'", path);
}
