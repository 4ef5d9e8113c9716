// SPDX-License-Identifier: Apache-2.0
/* train_resume.c -- `mambascope train --resume`: which checkpoint a run continues from, and with which options. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/kept_options.h"
#include "cli/say.h"
#include "cli/train_options.h"
#include "core/device.h"
#include "data/listing.h"
#include "train/checkpoint.h"
#include "train/run_folder.h"

mba_status mba__train_lock(mba__train_cli *c, const char *folder)
{
    if (c->rank) return MBA_OK; // rank 0 holds it for all
    if (!c->lock && !c->dry_run) MBA_TRY(mba_lock_folder(&c->lock, folder));
    c->o.lock = c->lock;
    return MBA_OK;
}

/* Puts the newest undamaged checkpoint of a run into c->from. Names damaged ones that are newer, even with --quiet. */
static mba_status choose_sound(mba__train_cli *c, const char *run)
{
    char broken[2048];
    MBA_TRY(mba_checkpoint_newest_sound(c->from, sizeof c->from, broken, sizeof broken, run));
    for (char *line = broken, *end; (end = strchr(line, '\n')); line = end + 1)
        mba_say(stderr, "a damaged checkpoint is skipped and renamed step-*.broken: %.*s\n", (int)(end - line), line);
    if (*broken && *c->from) mba_say(stderr, "the run continues from '%s'\n", c->from);
    return MBA_OK;
}

/* --resume CHECKPOINT takes that checkpoint or fails. --resume RUN takes the newest undamaged one of the run. --resume
 * auto continues the run in --out if it has a checkpoint and starts it otherwise: for scripts that are started
 * repeatedly. */
static mba_status choose_newest(mba__train_cli *c)
{
    const bool either = !strcmp(c->o.resume, "auto");
    if (either && !c->o.out)
        return mba_fail(MBA_E_ARG,
                        "--resume auto needs an output folder\nwhy: it continues the run in --out, or starts it "
                        "there\nfix: add --out DIR");
    if (c->told) {
        snprintf(c->from, sizeof c->from, "%s", c->told);
        if (either) c->o.resume = *c->from ? c->o.out : NULL;
        return MBA_OK;
    }
    if (!either) MBA_TRY(mba_checkpoint_find(c->from, sizeof c->from, c->o.resume));
    if (!either && c->dry_run) return MBA_OK; // which renames nothing
    if (!either && !strcmp(c->from, c->o.resume)) return mba_checkpoint_verify(c->from, true);
    MBA_TRY(choose_sound(c, either ? c->o.out : c->o.resume));
    if (!either && !*c->from)
        return mba_fail(MBA_E_FORMAT,
                        "every checkpoint of '%s' is damaged\nwhy: the lines above name the files\nfix: restore "
                        "a copy of the run, or start it again with another --out",
                        c->o.resume);
    if (either) c->o.resume = *c->from ? c->o.out : NULL;
    return MBA_OK;
}

static bool same_folder(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Locks the folder before the newest checkpoint is chosen: another run in the folder would write newer ones and remove
 * older ones that this run still reads. A missing folder and one without a checkpoint are not locked. */
static mba_status lock_resumed(mba__train_cli *c)
{
    const bool automatic = !strcmp(c->o.resume, "auto");
    if (!automatic) {
        MBA_TRY(mba_checkpoint_find(c->from, sizeof c->from, c->o.resume));
        MBA_TRY(mba_run_folder(c->folder, sizeof c->folder, c->o.resume));
    }
    const char *folder = c->o.out ? c->o.out : c->folder;
    if (mba_is_folder(folder)) MBA_TRY(mba__train_lock(c, folder));
    const bool others = !automatic && !c->rank && !c->dry_run && *c->folder && !same_folder(folder, c->folder);
    return others ? mba_lock_shared(&c->read, c->folder) : MBA_OK;
}

static bool is_changed(const mba__train_cli *c, const char *name)
{
    size_t        i;
    const json_t *line;
    const size_t  n = strlen(name);
    json_array_foreach(c->changes, i, line) if (!strncmp(json_string_value(line), name, n)
                                                && json_string_value(line)[n] == ' ') return true;
    return false;
}

static void tell_changes(const mba__train_cli *c)
{
    size_t        i;
    const json_t *line;
    json_array_foreach(c->changes, i, line) mba_say(stderr, "changed: %s\n", json_string_value(line));
}

/* Notes other CPU kernels than the run started with (another machine, MBA_ISA, MBA_GEMM or OPENBLAS_CORETYPE): the run
 * continues, but its results differ in the last bits. */
static mba_status note_kernels(mba__train_cli *c)
{
    char                    was[256], line[512];
    const mba_kernels_words is = mba_cpu_kernels();
    MBA_TRY(mba_checkpoint_kernels(was, sizeof was, c->from));
    if ((c->model.device && strcmp(c->model.device, "cpu")) || !*was || !strcmp(was, is.text)) return MBA_OK;
    snprintf(line, sizeof line, "CPU kernels %s -> %s", was, is.text);
    return !json_array_append_new(c->changes, json_string(line))
               ? MBA_OK
               : mba_fail(MBA_E_NOMEM, "no memory for what has changed");
}

/* Options that are not given keep their values: --resume RUN takes those of the last start of the run, --resume
 * CHECKPOINT those of the checkpoint. The run continues in its own folder. */
mba_status mba__train_resume(mba__train_cli *c, const mba_usage *u, int argc, char **argv)
{
    if (c->o.resume && c->o.init && strcmp(c->o.resume, "auto"))
        return mba_fail(MBA_E_ARG,
                        "--resume and --init cannot be combined\nfix: use --resume to continue a run, --init to "
                        "start one from its weights, or --resume auto with --init to do either");
    if (c->o.resume) MBA_TRY(lock_resumed(c));
    if (c->o.resume) MBA_TRY(choose_newest(c));
    if (!c->o.resume) return MBA_OK;
    c->o.init = NULL; // the run has started already
    MBA_TRY(mba_run_folder(c->folder, sizeof c->folder, c->o.resume));
    MBA_TRY(mba_checkpoint_options(&c->saved, c->from));
    if (!c->saved) {
        if (!c->quiet)
            mba_say(stderr,
                    "'%s' does not hold the options of its run: options that are not given have their defaults\n",
                    c->from);
        return MBA_OK;
    }
    if (!strcmp(c->folder, c->o.resume)) MBA_TRY(mba_run_options_load(&c->kept, c->folder));
    if (!c->kept) c->kept = json_incref(c->saved);
    MBA_TRY(mba_kept_options_resume(u, argc, argv, c->kept, c->saved, c->changes));
    MBA_TRY(note_kernels(c));
    c->o.other_data = is_changed(c, "--data") || is_changed(c, "--valid-fraction");
    if (!c->o.out && *c->folder) c->o.out = c->folder;
    if (!c->quiet) tell_changes(c);
    return MBA_OK;
}
