// SPDX-License-Identifier: Apache-2.0
/* checkpoint_dirs_test.c -- the order in which a checkpoint reaches the disk, and runs whose directory cannot be
 * listed.
 *
 * This file defines fsync, rename, write, unlinkat and rmdir in place of the library's and records their calls. */
#include "train/checkpoint_dirs.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/file.h"
#include "tests/starve.h"
#include "tests/training.h"
#include "train/checkpoint.h"

enum { EVENTS_MAX = 4096 };
typedef enum doing { WRITES, SYNCS, RENAMES, REMOVES } doing;
typedef struct event {
    doing what;
    char  path[600], to[600];
} event;

static event log_of[EVENTS_MAX];
static int   events, syncs_left = -1; // until a sync fails; -1: none does
static bool  recording;

static void note(doing what, const char *path, const char *to)
{
    if (!recording || strncmp(path, scratch_dir, strlen(scratch_dir))) return;
    assert_true(events < EVENTS_MAX);
    event *e = &log_of[events++];
    e->what = what;
    snprintf(e->path, sizeof e->path, "%s", path);
    snprintf(e->to, sizeof e->to, "%s", to);
    for (size_t n = strlen(e->path); n && e->path[n - 1] == '/'; n--) e->path[n - 1] = 0;
}

static void note_descriptor(doing what, int fd, const char *name)
{
    char link[64], path[512], all[600];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = recording ? readlink(link, path, sizeof path - 1) : -1;
    if (n < 0) return;
    path[n] = 0;
    snprintf(all, sizeof all, "%s%s%.64s", path, *name ? "/" : "", name);
    note(what, all, "");
}

int fsync(int fd)
{
    note_descriptor(SYNCS, fd, "");
    if (syncs_left >= 0 && syncs_left-- == 0) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fsync, fd);
}

ssize_t write(int fd, const void *bytes, size_t n)
{
    note_descriptor(WRITES, fd, "");
    return syscall(SYS_write, fd, bytes, n);
}

int rename(const char *from, const char *to)
{
    note(RENAMES, from, to);
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

int unlinkat(int fd, const char *name, int flags)
{
    const int failed = (int)syscall(SYS_unlinkat, fd, name, flags);
    if (!failed) note_descriptor(REMOVES, fd, name);
    return failed;
}

int rmdir(const char *path)
{
    const int failed = (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
    if (!failed) note(REMOVES, path, "");
    return failed;
}

/* The last event of this kind and path before `at`; -1: none. */
static int last(doing what, const char *path, int at)
{
    while (--at >= 0 && (log_of[at].what != what || strcmp(log_of[at].path, path))) continue;
    return at;
}

static bool is_in(const char *path, const char *folder)
{
    const size_t n = strlen(folder);
    return !strncmp(path, folder, n) && path[n] == '/';
}

static void demand(bool fact, const event *e, const char *words)
{
    if (!fact) print_error("%s -> '%s': %s\n", e->path, e->to, words);
    assert_true(fact);
}

/* A file is on the disk before it gets its name. */
static int check_files(void)
{
    int files = 0;
    for (int i = 0; i < events; i++) {
        const event *e = &log_of[i];
        const int    wrote = last(WRITES, e->path, i);
        if (e->what != RENAMES || wrote < 0) continue;
        demand(last(SYNCS, e->path, i) > wrote, e, "a file is renamed before its bytes are synced");
        files++;
    }
    return files;
}

/* The names of a checkpoint's files are on the disk before the checkpoint gets its own. */
static int check_folders(void)
{
    int folders = 0;
    for (int i = 0; i < events; i++) {
        const event *e = &log_of[i];
        int          named = -1;
        if (e->what != RENAMES || !strstr(e->path, ".partial") || strstr(strstr(e->path, ".partial"), "/")) continue;
        for (int k = 0; k < i; k++)
            if (log_of[k].what == RENAMES && is_in(log_of[k].to, e->path)) named = k;
        demand(named >= 0 && last(SYNCS, e->path, i) > named, e,
               "a folder is renamed before the names in it are synced");
        folders++;
    }
    return folders;
}

/* The name of the newest checkpoint is on the disk before an older one is touched. */
static int check_removals(const char *run)
{
    int removed = 0;
    for (int i = 0; i < events; i++) {
        const event *e = &log_of[i];
        int          named = -1;
        if (e->what != REMOVES || strstr(e->path, ".partial")) continue;
        for (int k = 0; k < i; k++)
            if (log_of[k].what == RENAMES && strstr(log_of[k].path, ".partial") && is_in(log_of[k].to, run)
                && !is_in(log_of[k].path, log_of[k].to) && !strstr(log_of[k].to, ".partial"))
                named = k;
        demand(named >= 0 && last(SYNCS, run, i) > named, e, "an older checkpoint goes before the newest is synced");
        removed++;
    }
    return removed;
}

static void what_is_new_is_on_the_disk_before_what_is_old_goes(void **state)
{
    (void)state;
    char              run[300];
    mba_train_options o = options("M", 5);
    snprintf(run, sizeof run, "%s", scratch("run"));
    o.out = run;
    o.save_every = 1;
    o.keep = 1;
    events = 0;
    recording = true;
    assert_ok(mba_train(&o));
    recording = false;
    assert_true(check_files() >= 5 * 4); // config, model, optimizer, trainer and their checksums
    assert_int_equal(check_folders(), 5);
    assert_true(check_removals(run) >= 4 * 5);
}

/* A checkpoint of the same name is renamed, and removed once the new one is on the disk. */
static void a_replaced_checkpoint_goes_last(void **state)
{
    (void)state;
    char        run[300], path[320];
    mba_session s = { 0 };
    snprintf(run, sizeof run, "%s", scratch("again"));
    snprintf(path, sizeof path, "%s/step-000001", run);
    assert_ok(mba_session_plan(&s, &(mba_session_options){ .model.lm = small("M") }));
    assert_ok(mba_session_bind(&s, 1));
    assert_ok(mba_checkpoint_save(&s, path, NULL, NULL));
    events = 0;
    recording = true;
    assert_ok(mba_checkpoint_save(&s, path, NULL, NULL));
    recording = false;
    mba_session_end(&s);
    assert_true(check_files() >= 3);
    assert_int_equal(check_folders(), 1);
    assert_true(check_removals(run) >= 4);
}

/* Whichever sync fails, the failure is returned, and one of the two checkpoints is complete. */
static void a_sync_that_fails_is_told(void **state)
{
    (void)state;
    char        path[320], old[330];
    int         n = 0;
    mba_session s = { 0 };
    mba_status  st = MBA_E_IO;
    json_t     *trainer = json_pack("{s:i}", "step", 1);
    snprintf(path, sizeof path, "%s", scratch("synced/step-000001"));
    snprintf(old, sizeof old, "%s.old", path);
    assert_ok(mba_session_plan(&s, &(mba_session_options){ .model.lm = small("M"),
                                                           .backward = true,
                                                           .update = true,
                                                           .adamw = mba_adamw_defaults() }));
    assert_ok(mba_session_bind(&s, 1));
    assert_ok(mba_checkpoint_save(&s, path, trainer, NULL));
    for (; st != MBA_OK; n++) {
        syncs_left = n;
        st = mba_checkpoint_save(&s, path, trainer, NULL);
        const bool failed = syncs_left < 0;
        syncs_left = -1;
        if (failed) assert_fails(st, MBA_E_IO, "cannot ");
        else assert_ok(st);
        if (mba_checkpoint_check(path) != MBA_OK) assert_ok(mba_checkpoint_check(old));
    }
    assert_true(n > 8); // four files and their names, and the checkpoint's
    assert_int_not_equal(access(old, F_OK), 0);
    json_decref(trainer);
    mba_session_end(&s);
}

/* `best` is valid if it is sound and of the step. If that step is gone, it cannot be linked again. */
static void a_best_that_is_damaged_is_missing(void **state)
{
    (void)state;
    char        run[300], path[340];
    bool        missing;
    mba_session s = { 0 };
    json_t     *trainer = json_pack("{s:i}", "step", 7);
    snprintf(run, sizeof run, "%s", scratch("judged"));
    assert_ok(mba_session_plan(&s, &(mba_session_options){ .model.lm = small("M"),
                                                           .backward = true,
                                                           .update = true,
                                                           .adamw = mba_adamw_defaults() }));
    assert_ok(mba_session_bind(&s, 1));
    snprintf(path, sizeof path, "%s/step-000007", run);
    assert_ok(mba_checkpoint_save(&s, path, trainer, NULL));
    assert_ok(mba_checkpoint_best_missing(&missing, run, 7));
    assert_true(missing);
    snprintf(path, sizeof path, "%s/best", run);
    assert_ok(mba_checkpoint_save(&s, path, trainer, NULL));
    assert_ok(mba_checkpoint_best_missing(&missing, run, 7));
    assert_false(missing);
    assert_ok(mba_checkpoint_best_missing(&missing, run, 8)); // there is no step-000008
    assert_false(missing);
    snprintf(path, sizeof path, "%s/best/model.safetensors", run);
    assert_int_equal(truncate(path, 100), 0);
    assert_ok(mba_checkpoint_best_missing(&missing, run, 7));
    assert_true(missing);
    json_decref(trainer);
    mba_session_end(&s);
}

/* Files that cannot be removed would become part of the new checkpoint. */
static void what_is_left_of_a_killed_save_gets_into_no_checkpoint(void **state)
{
    (void)state;
    assert_int_equal(mkdir(scratch("from"), 0777), 0);
    scratch_put(scratch("from/config.json"), "{}", 2);
    assert_ok(mba_mkdirs(scratch("left.partial/inner"))); // a directory stays, as all does that cannot be listed
    assert_fails(mba_checkpoint_link(scratch("left"), scratch("from")), MBA_E_IO, "left.partial'");
    assert_int_equal(access(scratch("left"), F_OK), -1);
    assert_int_equal(rmdir(scratch("left.partial/inner")), 0);
    scratch_put(scratch("left.partial/old.json"), "{}", 2); // a file goes
    assert_ok(mba_checkpoint_link(scratch("left"), scratch("from")));
    assert_int_equal(access(scratch("left/old.json"), F_OK), -1);
    assert_int_equal(access(scratch("left/config.json"), F_OK), 0);
}

static void an_unreadable_run_is_not_one_without_checkpoints(void **state)
{
    (void)state;
    char newest[512];
    assert_ok(mba_checkpoint_require_empty(scratch("nowhere")));
    assert_int_equal(symlink("loop", scratch("loop")), 0); // nobody opens it, root neither
    assert_int_equal(mkdir(scratch("open"), 0777), 0);
    assert_ok(mba_checkpoint_require_empty(scratch("open")));
    assert_fails(mba_checkpoint_latest(newest, sizeof newest, scratch("open")), MBA_E_IO, "no checkpoint in");
    assert_fails(mba_checkpoint_require_empty(scratch("loop")), MBA_E_IO, "cannot read the directory");
    assert_fails(mba_checkpoint_require_successor(scratch("loop"), "a", 1), MBA_E_IO, "cannot read the directory");
    assert_fails(mba_checkpoint_prune(scratch("loop"), 1, 1), MBA_E_IO, "cannot read the directory");
}

static void only_step_and_a_number_names_a_checkpoint(void **state)
{
    static const char *const others[] = { "step-", "step-99999999999999999999", "step- 7", "step-+7", "step-7x",
                                          "Step-7" };
    char                     name[64];
    (void)state;
    assert_int_equal(mkdir(scratch("names"), 0777), 0);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(name, sizeof name, "names/%s", others[i]);
        assert_int_equal(mba__step_named(name), -1);
        assert_int_equal(mkdir(scratch(name), 0777), 0);
    }
    assert_ok(mba_checkpoint_require_empty(scratch("names")));
    assert_int_equal(mba__step_named("run/step-000012//"), 12);
    assert_int_equal(mkdir(scratch("names/step-000007.gone"), 0777), 0);
    assert_ok(mba_checkpoint_prune(scratch("names"), 1, 1));
    assert_int_equal(access(scratch("names/step-000007.gone"), F_OK), -1);
    assert_int_equal(access(scratch("names/step-99999999999999999999"), F_OK), 0);
}

/* As `suite` names its stores. */
static void a_renamed_file_has_its_name_on_the_disk(void **state)
{
    (void)state;
    assert_int_equal(mkdir(scratch("stores"), 0777), 0);
    scratch_put(scratch("stores/.a.part"), "x", 1);
    events = 0;
    recording = true;
    const mba_status st = mba_file_rename(scratch("stores/.a.part"), scratch("stores/a"));
    recording = false;
    assert_ok(st);
    assert_int_equal(events, 2);
    assert_true(log_of[0].what == RENAMES && log_of[1].what == SYNCS);
    assert_string_equal(log_of[1].path, scratch("stores"));
    assert_fails(mba_file_rename(scratch("stores/.a.part"), scratch("stores/b")), MBA_E_IO, "cannot write");
}

#if MBA_STARVE
static char found[512];

static mba_status look(void)
{
    MBA_TRY(mba_checkpoint_prune(scratch("many"), 100, 100));
    const mba_status none = mba_checkpoint_require_empty(scratch("many"));
    if (none != MBA_E_ARG) return none == MBA_OK ? MBA_E_FORMAT : none; // they are there
    MBA_TRY(mba_checkpoint_require_successor(scratch("many"), scratch("many/step-000012"), 12));
    return mba_checkpoint_latest(found, sizeof found, scratch("many"));
}

static void see(void) { assert_string_equal(found, scratch("many/step-000012")); }

static void checkpoints_without_memory_to_list_them_are_an_error(void **state)
{
    char name[64];
    (void)state;
    assert_int_equal(mkdir(scratch("many"), 0777), 0);
    for (int i = 1; i <= 12; i++) {
        snprintf(name, sizeof name, "many/step-%06d", i);
        assert_int_equal(mkdir(scratch(name), 0777), 0);
    }
    scratch_put(scratch("many/step-000012/config.json"), "{}", 2);
    starve(look, see, NULL);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_new_is_on_the_disk_before_what_is_old_goes),
        cmocka_unit_test(a_replaced_checkpoint_goes_last),
        cmocka_unit_test(a_sync_that_fails_is_told),
        cmocka_unit_test(a_best_that_is_damaged_is_missing),
        cmocka_unit_test(what_is_left_of_a_killed_save_gets_into_no_checkpoint),
        cmocka_unit_test(an_unreadable_run_is_not_one_without_checkpoints),
        cmocka_unit_test(only_step_and_a_number_names_a_checkpoint),
        cmocka_unit_test(a_renamed_file_has_its_name_on_the_disk),
#if MBA_STARVE
        cmocka_unit_test(checkpoints_without_memory_to_list_them_are_an_error),
#endif
    };
    return cmocka_run_group_tests(tests, prepare_data, remove_data);
}
