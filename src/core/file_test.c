// SPDX-License-Identifier: Apache-2.0
/* file_test.c -- file.h, lock.h, temporary.h and xxh64.h: files are read and written completely or not at all, also on
 * a full disk; locks keep others out and end with their process. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "tests/test.h"
#include "tests/scratch.h"
#include "core/file.h"
#include "core/lock.h"
#include "core/temporary.h"
#include "core/xxh64.h"

/* The first four values are published with the algorithm and its bindings; the last, of bytes 1 .. 101, is from
 * Python. */
static void xxh64_gives_the_published_values(void **state)
{
    unsigned char bytes[101];
    (void)state;
    static const struct {
        const char *text;
        uint64_t    sum;
    } table[] = {
        { "", 0xef46db3751d8e999u },
        { "a", 0xd24ec4f1a98c6e5bu },
        { "abc", 0x44bc2cf5ad770999u },
        { "Nobody inspects the spammish repetition", 0xfbcea83c8a378bf1u },
    };
    for (int i = 0; i < 4; i++) assert_true(mba_xxh64(table[i].text, strlen(table[i].text)) == table[i].sum);
    for (int i = 0; i < 101; i++) bytes[i] = (unsigned char)(i + 1);
    assert_true(mba_xxh64(bytes, sizeof bytes) == 0x0799195e8c8b14c7u);
    assert_true(mba_xxh64(NULL, 0) == table[0].sum);
}

static mba_status write_file(const char *path, const char *text)
{
    mba_writer *w = NULL;
    mba_status  st = mba_writer_create(&w, path);
    if (st == MBA_OK) st = mba_writer_put(w, text, strlen(text));
    if (st == MBA_OK) st = mba_writer_commit(w);
    mba_writer_destroy(w);
    return st;
}

static void assert_holds(const char *path, const char *text)
{
    char  *got;
    size_t n;
    assert_ok(mba_file_read(&got, &n, path, 1 << 20));
    assert_int_equal(n, strlen(text));
    assert_string_equal(got, text);
    free(got);
}

/* Writes 1 MiB, `piece` bytes at a time, to a disk of 64 KiB, which must fail with MBA_E_IO. */
static mba_status write_much(const char *path, size_t piece)
{
    static char bytes[1 << 20];
    mba_writer *w = NULL;
    mba_status  st = mba_writer_create(&w, path);
    for (size_t i = 0; st == MBA_OK && i < sizeof bytes; i += piece) st = mba_writer_put(w, bytes + i, piece);
    if (st == MBA_OK) st = mba_writer_commit(w);
    mba_writer_destroy(w);
    return st;
}

/* ---- reading ---- */

static void reading_gives_the_bytes_and_a_nul(void **state)
{
    (void)state;
    assert_ok(write_file(scratch("a"), "hello\n"));
    assert_holds(scratch("a"), "hello\n");
    assert_ok(write_file(scratch("a"), ""));
    assert_holds(scratch("a"), "");
}

static void reading_obeys_the_limit(void **state)
{
    (void)state;
    char  *got;
    size_t n;
    assert_ok(write_file(scratch("a"), "12345"));
    assert_ok(mba_file_read(&got, &n, scratch("a"), 5));
    free(got);
    assert_fails(mba_file_read(&got, &n, scratch("a"), 4), MBA_E_FORMAT, "larger than the 4 bytes");
    // A file that says it has 0 bytes and has more: only reading can tell.
    assert_ok(mba_file_read(&got, &n, "/proc/self/status", 1 << 20));
    assert_non_null(strstr(got, "Name:"));
    assert_int_equal(strlen(got), n);
    free(got);
    assert_fails(mba_file_read(&got, &n, "/proc/self/status", 10), MBA_E_FORMAT, "larger than the 10 bytes");
}

static void reading_refuses_what_is_no_file(void **state)
{
    (void)state;
    char   *got;
    size_t  n;
    mba_map map;
    assert_fails(mba_file_read(&got, &n, scratch("none"), 9), MBA_E_IO, "No such file");
    assert_fails(mba_file_read(&got, &n, scratch(""), 9), MBA_E_IO, "name a file, not a directory");
    assert_fails(mba_file_map(&map, scratch("none")), MBA_E_IO, "cannot open");
    assert_fails(mba_file_map(&map, scratch("")), MBA_E_IO, "Is a directory");
    assert_fails(mba_file_read(&got, &n, "/dev/zero", 9), MBA_E_IO, "a device or a pipe");
    assert_fails(mba_file_read(&got, &n, "/proc/self/mem", 9), MBA_E_IO,
                 "Input/output error");                 // nothing is mapped at 0
    assert_int_equal(mkfifo(scratch("pipe"), 0600), 0); // nobody writes: opening it would hang
    assert_fails(mba_file_map(&map, scratch("pipe")), MBA_E_IO, "a device or a pipe");
    unlink(scratch("pipe"));
}

static void mapping_takes_empty_and_huge_files(void **state)
{
    (void)state;
    const size_t huge = ((size_t)5 << 30) + 3; // sparse: needs no space
    mba_map      map;
    assert_ok(write_file(scratch("a"), ""));
    assert_ok(mba_file_map(&map, scratch("a")));
    assert_non_null(map.data);
    assert_int_equal(map.bytes, 0);
    mba_file_unmap(&map);
    mba_file_unmap(&map); // twice is fine
    assert_null(map.data);
    int fd = open(scratch("a"), O_WRONLY);
    assert_int_equal(ftruncate(fd, (off_t)huge), 0);
    assert_int_equal(pwrite(fd, "z", 1, (off_t)huge - 1), 1);
    close(fd);
    assert_ok(mba_file_map(&map, scratch("a")));
    assert_int_equal(map.bytes, huge);
    assert_int_equal(((const char *)map.data)[huge - 1], 'z');
    mba_file_unmap(&map);
    assert_true(!map.data && !map.bytes);
    unlink(scratch("a"));
}

/* ---- writing ---- */

static void nothing_is_seen_before_commit(void **state)
{
    (void)state;
    mba_writer *w;
    assert_ok(write_file(scratch("a"), "old"));
    assert_ok(mba_writer_create(&w, scratch("a")));
    assert_ok(mba_writer_put(w, "new", 3));
    assert_holds(scratch("a"), "old");
    assert_ok(mba_writer_commit(w));
    assert_holds(scratch("a"), "new");
    mba_writer_destroy(w);
    assert_holds(scratch("a"), "new");
    assert_int_equal(scratch_entries(""), 1);
}

/* Bytes that nobody writes are zero and take no space; others are put there later. */
static void room_for_later_is_zero(void **state)
{
    (void)state;
    enum { MANY = 64 << 20 };
    mba_writer *w = NULL;
    struct stat s;
    char       *text;
    size_t      n;
    int         fd;
    assert_ok(mba_writer_create(&w, scratch("room")));
    assert_ok(mba_writer_put(w, "begin", 5));
    assert_ok(mba_writer_skip(w, MANY));
    assert_ok(mba_writer_put(w, "end", 3));
    assert_ok(mba_writer_skip(w, 2));
    assert_ok(mba_writer_commit(w));
    mba_writer_destroy(w);
    assert_int_equal(stat(scratch("room"), &s), 0);
    assert_int_equal(s.st_size, MANY + 10);
    assert_true(s.st_blocks * 512 < MANY / 2);
    assert_ok(mba_file_open_inside(&fd, scratch("room")));
    assert_ok(mba_file_put_at(fd, "room", "middle", 6, 5 + MANY / 2));
    close(fd);
    assert_ok(mba_file_read(&text, &n, scratch("room"), 2 * MANY));
    assert_int_equal(n, MANY + 10);
    assert_memory_equal(text, "begin", 6);
    assert_memory_equal(text + 5 + MANY / 2 - 1, "\0middle", 8);
    assert_memory_equal(text + 5 + MANY - 1, "\0end\0", 6);
    free(text);
    unlink(scratch("room"));
    assert_fails(mba_file_open_inside(&fd, scratch("nowhere")), MBA_E_IO, "cannot write");
}

static void giving_up_leaves_the_old_file(void **state)
{
    (void)state;
    mba_writer *w;
    assert_ok(write_file(scratch("a"), "old"));
    assert_ok(mba_writer_create(&w, scratch("a")));
    assert_ok(mba_writer_put(w, "new", 3));
    assert_int_equal(scratch_entries(""), 2);
    mba_writer_destroy(w);
    assert_holds(scratch("a"), "old");
    assert_int_equal(scratch_entries(""), 1);
    unlink(scratch("a"));
}

static void pieces_of_any_size_come_out_in_order(void **state)
{
    (void)state;
    const size_t sizes[] = { 1, 0, 262144, 262143, 700000, 3, 262145, 0, 5 };
    static char  all[2000000];
    size_t       n = 0;
    mba_writer  *w;
    for (size_t i = 0; i < sizeof all; i++) all[i] = (char)(i * 2654435761u >> 13);
    assert_ok(mba_writer_create(&w, scratch("a")));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; n += sizes[i++])
        assert_ok(mba_writer_put(w, all + n, sizes[i]));
    assert_ok(mba_writer_commit(w));
    mba_writer_destroy(w);
    mba_map map;
    assert_ok(mba_file_map(&map, scratch("a")));
    assert_int_equal(map.bytes, n);
    assert_memory_equal(map.data, all, n);
    mba_file_unmap(&map);
    unlink(scratch("a"));
}

static void new_files_have_the_usual_permissions(void **state)
{
    (void)state;
    struct stat  s;
    const mode_t mask = umask(027);
    assert_ok(write_file(scratch("a"), "x"));
    umask(mask);
    assert_int_equal(stat(scratch("a"), &s), 0);
    assert_int_equal(s.st_mode & 0777, 0640);
    unlink(scratch("a"));
}

static void wrong_targets_are_refused_at_once(void **state)
{
    (void)state;
    mba_writer *w = NULL;
    assert_fails(mba_writer_create(&w, scratch("no/a")), MBA_E_IO, "the directory must exist");
    assert_fails(mba_writer_create(&w, scratch_dir), MBA_E_IO, "name a file, not a directory");
    assert_fails(mba_writer_create(&w, scratch("")), MBA_E_IO, "name a file, not a directory");
    assert_fails(mba_writer_create(&w, ""), MBA_E_IO, "cannot write ''");
    assert_fails(mba_writer_create(&w, "/dev/null"), MBA_E_IO, "would be replaced by a file");
    assert_ok(write_file(scratch("a"), "x"));
    assert_fails(mba_writer_create(&w, scratch("a/b")), MBA_E_IO, "a part of it is a file");
    unlink(scratch("a"));
    assert_null(w);
    assert_int_equal(scratch_entries(""), 0);
}

static void a_link_stays_and_its_file_is_replaced(void **state)
{
    (void)state;
    struct stat s;
    mba_writer *w = NULL;
    assert_int_equal(mkdir(scratch("there"), 0777), 0);
    assert_ok(write_file(scratch("there/a"), "old"));
    assert_int_equal(symlink("there/a", scratch("link")), 0);
    assert_ok(write_file(scratch("link"), "new"));
    assert_int_equal(lstat(scratch("link"), &s), 0);
    assert_true(S_ISLNK(s.st_mode));
    assert_holds(scratch("there/a"), "new");
    unlink(scratch("there/a"));
    assert_fails(mba_writer_create(&w, scratch("link")), MBA_E_IO, "cannot write"); // it leads nowhere now
    assert_null(w);
    assert_int_equal(scratch_entries("there"), 0);
    unlink(scratch("link"));
    rmdir(scratch("there"));
}

static void an_unwritable_directory_is_refused(void **state)
{
    (void)state;
    mba_writer *w = NULL;
    assert_int_equal(mkdir(scratch("locked"), 0555), 0);
    const bool root = geteuid() == 0; // root may write anywhere: be nobody
    if (root) assert_int_equal(seteuid(65534), 0);
    mba_status st = mba_writer_create(&w, scratch("locked/a"));
    if (root) assert_int_equal(seteuid(0), 0);
    assert_fails(st, MBA_E_IO, "check the permissions");
    assert_int_equal(scratch_entries("locked"), 0);
    rmdir(scratch("locked"));
}

static void a_file_size_limit_leaves_nothing_behind(void **state)
{
    (void)state;
    struct rlimit old;
    assert_ok(write_file(scratch("a"), "old"));
    getrlimit(RLIMIT_FSIZE, &old);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 65536, old.rlim_max });
    for (size_t piece = 1 << 10; piece <= 1 << 20; piece <<= 5) // small pieces fail late, large ones at once
        assert_fails(write_much(scratch("a"), piece), MBA_E_IO, "limit on file sizes");
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, handler);
    assert_holds(scratch("a"), "old");
    assert_int_equal(scratch_entries(""), 1);
    unlink(scratch("a"));
}

/* Runs in a child with its own mount namespace, on a disk of 64 KiB. 77: this machine does not allow that. */
static int fill_a_small_disk(void)
{
    if (unshare(geteuid() ? CLONE_NEWUSER | CLONE_NEWNS : CLONE_NEWNS)) return 77;
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL)) return 77;
    if (mount("small", scratch("disk"), "tmpfs", 0, "size=64k")) return 77;
    if (write_file(scratch("disk/a"), "old") != MBA_OK) return 1;
    for (size_t piece = 1 << 10; piece <= 1 << 20; piece <<= 5) {
        if (write_much(scratch("disk/a"), piece) != MBA_E_IO) return 2;
        if (!strstr(mba_message(), "No space left") || !strstr(mba_message(), "free some space")) return 3;
    }
    char  *got;
    size_t n;
    if (mba_file_read(&got, &n, scratch("disk/a"), 9) != MBA_OK || strcmp(got, "old")) return 4;
    free(got);
    return scratch_entries("disk") == 1 ? 0 : 5;
}

static void a_full_disk_leaves_nothing_behind(void **state)
{
    (void)state;
    int code = 0;
    assert_int_equal(mkdir(scratch("disk"), 0700), 0);
    const pid_t child = fork();
    if (child == 0) _exit(fill_a_small_disk());
    assert_int_equal(waitpid(child, &code, 0), child);
    rmdir(scratch("disk"));
    assert_true(WIFEXITED(code));
    if (WEXITSTATUS(code) == 77) skip();
    assert_int_equal(WEXITSTATUS(code), 0);
}

static void a_failed_writer_stays_failed(void **state)
{
    (void)state;
    struct rlimit old;
    mba_writer   *w;
    static char   bytes[1 << 20];
    assert_ok(mba_writer_create(&w, scratch("a")));
    getrlimit(RLIMIT_FSIZE, &old);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 65536, old.rlim_max });
    mba_status st = mba_writer_put(w, bytes, sizeof bytes);
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, handler);
    assert_fails(st, MBA_E_IO, "limit on file sizes");
    // There is room again, but some bytes are missing: such a file must not get its name.
    assert_fails(mba_writer_put(w, "x", 1), MBA_E_IO, "limit on file sizes");
    assert_fails(mba_writer_commit(w), MBA_E_IO, "limit on file sizes");
    mba_writer_destroy(w);
    assert_int_equal(scratch_entries(""), 0);
}

static void a_long_name_can_be_written(void **state)
{
    (void)state;
    char name[256];
    memset(name, 'n', 255);
    name[255] = 0;
    assert_ok(write_file(scratch(name), "x"));
    assert_holds(scratch(name), "x");
    unlink(scratch(name));
}

/* ---- directories ---- */

static void directories_are_made_with_those_above(void **state)
{
    (void)state;
    assert_ok(mba_mkdirs(scratch("x/y//z/")));
    assert_ok(mba_mkdirs(scratch("x/y/z")));
    assert_ok(mba_mkdirs("/"));
    assert_ok(mba_mkdirs("."));
    assert_ok(write_file(scratch("x/y/z/a"), "1"));
    assert_fails(mba_mkdirs(scratch("x/y/z/a")), MBA_E_IO, "a part of it is a file");
    assert_fails(mba_mkdirs(scratch("x/y/z/a/b")), MBA_E_IO, "a part of it is a file");
    assert_fails(mba_mkdirs(""), MBA_E_IO, "cannot make the directory ''");
}

static void a_folder_goes_with_its_files_and_no_further(void **state)
{
    (void)state;
    assert_ok(mba_mkdirs(scratch("f/inner")));
    assert_ok(write_file(scratch("f/a"), "1"));
    assert_ok(write_file(scratch("f/.hidden"), "1"));
    assert_ok(write_file(scratch("f/inner/b"), "1"));
    mba_folder_remove(scratch("f"));
    assert_int_equal(scratch_entries("f"), 1);
    assert_int_equal(scratch_entries("f/inner"), 1);
    mba_folder_remove(scratch("f/inner"));
    mba_folder_remove(scratch("f"));
    assert_int_equal(scratch_entries("f"), -1);
    mba_folder_remove(scratch("f")); // not there: nothing happens
}

/* ---- locks ---- */

/* Starts a process that calls `hold` and then waits to be killed; returns once it has called it. */
static pid_t start_holder(void (*hold)(void))
{
    int  ready[2];
    char c;
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        hold();
        if (write(ready[1], "x", 1) != 1) _exit(1);
        for (;;) pause();
    }
    assert_int_equal(read(ready[0], &c, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return child;
}

static void kill_holder(pid_t child)
{
    int status;
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
}

static void hold_folder(void)
{
    mba_lock *l = NULL;
    if (mba_lock_folder(&l, scratch("run")) != MBA_OK) _exit(1);
}

static void a_lock_is_of_one_process_and_dies_with_it(void **state)
{
    mba_lock *l = NULL;
    char      who[64];
    (void)state;
    const pid_t child = start_holder(hold_folder);
    snprintf(who, sizeof who, "process %ld holds the lock", (long)child);
    assert_fails(mba_lock_folder(&l, scratch("run")), MBA_E_ARG, who);
    assert_fails(mba_lock_folder(&l, scratch("run/../run")), MBA_E_ARG, who);
    assert_null(l);
    kill_holder(child);
    assert_int_equal(scratch_entries("run"), 1); // what it left
    assert_ok(mba_lock_folder(&l, scratch("run")));
    mba_lock *second = NULL;
    assert_fails(mba_lock_folder(&second, scratch("run")), MBA_E_ARG, "another mambascope");
    mba_lock_release(l);
    assert_int_equal(scratch_entries("run"), 0);
    assert_int_equal(rmdir(scratch("run")), 0);
    assert_ok(mba_lock_folder(&l, scratch("run")));
    mba_lock_release(l); // made for the lock, and nothing else in it
    assert_int_equal(scratch_entries("run"), -1);
    mba_lock_release(NULL);
}

static void a_lock_beside_a_file_touches_nothing_else(void **state)
{
    mba_lock *l = NULL, *second = NULL;
    char      name[251] = "long-";
    const int there = scratch_entries("");
    (void)state;
    assert_ok(write_file(scratch("a.db"), "store"));
    assert_int_equal(symlink("a.db", scratch("link.db")), 0);
    assert_ok(mba_lock_beside(&l, scratch("link.db")));
    assert_fails(mba_lock_beside(&second, scratch("a.db")), MBA_E_ARG, "/.a.db.lock'");
    mba_lock_release(l);
    assert_ok(mba_lock_beside(&l, scratch("a.db")));
    mba_writers_abandon(); // as a signal does it
    assert_int_not_equal(access(scratch(".a.db.lock"), F_OK), 0);
    mba_lock_release(l);
    assert_holds(scratch("a.db"), "store");
    assert_ok(write_file(scratch(".b.lock"), "somebody's own file of this name\n"));
    assert_fails(mba_lock_beside(&l, scratch("b")), MBA_E_IO, "exists and is not a lock");
    assert_holds(scratch(".b.lock"), "somebody's own file of this name\n");
    assert_fails(mba_lock_beside(&l, scratch("nowhere/b")), MBA_E_IO, "cannot write");
    memset(name + 5, 'x', 245);
    assert_ok(mba_lock_beside(&l, scratch(name)));
    mba_lock_release(l);
    unlink(scratch("a.db"));
    unlink(scratch("link.db"));
    unlink(scratch(".b.lock"));
    assert_int_equal(scratch_entries(""), there);
}

/* ---- temporary folders ---- */

static void fill(const mba_temporary *t)
{
    char path[512];
    snprintf(path, sizeof path, "%s/tokens", t->path);
    if (mba_mkdirs(path) != MBA_OK) _exit(1);
    snprintf(path, sizeof path, "%s/tokens/a", t->path);
    if (write_file(path, "x") != MBA_OK) _exit(1);
    snprintf(path, sizeof path, "%s/b", t->path);
    if (symlink("/", path)) _exit(1);
}

static void hold_temporary(void)
{
    static mba_temporary t;
    if (mba_temporary_create(&t, "tests", "none") != MBA_OK) _exit(1);
    fill(&t);
}

static void the_next_one_removes_what_a_killed_process_left(void **state)
{
    mba_temporary mine = { 0 }, next = { 0 };
    const char   *was = getenv("TMPDIR");
    char          before[256] = "", path[512];
    (void)state;
    if (was) snprintf(before, sizeof before, "%s", was);
    assert_ok(mba_mkdirs(scratch("tmp/mambascope-abcdef")));  // no lock: somebody else's
    assert_ok(mba_mkdirs(scratch("tmp/mambascope-abcdefg"))); // another name
    assert_ok(write_file(scratch("tmp/mambascope-abcdefg/.lock"), ""));
    setenv("TMPDIR", scratch("tmp"), 1);
    const pid_t child = start_holder(hold_temporary);
    assert_ok(mba_temporary_create(&mine, "tests", "none"));
    fill(&mine);
    assert_int_equal(scratch_entries("tmp"), 4); // folders of living processes stay
    kill_holder(child);
    assert_ok(mba_temporary_create(&next, "tests", "none"));
    assert_int_equal(scratch_entries("tmp"), 4); // one more, and one of a dead process less
    snprintf(path, sizeof path, "%s/tokens/a", mine.path);
    assert_int_equal(access(path, F_OK), 0);
    mba_temporary_remove(&next);
    mba_temporary_remove(&mine);
    mba_temporary_remove(&mine);
    assert_int_equal(scratch_entries("tmp"), 2);
    assert_int_equal(scratch_entries("tmp/mambascope-abcdefg"), 1);
    setenv("TMPDIR", scratch("nowhere"), 1);
    assert_fails(mba_temporary_create(&mine, "tests", "do without"), MBA_E_IO, "fix: set TMPDIR, or do without");
    if (was) setenv("TMPDIR", before, 1);
    else unsetenv("TMPDIR");
    mba_folder_remove(scratch("tmp/mambascope-abcdef"));
    mba_folder_remove(scratch("tmp/mambascope-abcdefg"));
    mba_folder_remove(scratch("tmp"));
}

/* The program itself is a file beside the program. */
static void a_library_is_found_beside_the_program(void **state)
{
    (void)state;
    char          program[4096], out[4096];
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    assert_true(n > 0);
    program[n] = 0;
    const char *name = strrchr(program, '/') + 1;
    assert_true(mba_library_find(out, sizeof out, "../nowhere", name));
    assert_string_equal(out, program);
    assert_false(mba_library_find(out, 8, "../nowhere", name)); // the path does not fit
    assert_false(mba_library_find(out, sizeof out, "../nowhere", "no library"));
    char folder[4096]; // "..": installed in another folder than the program
    assert_true(snprintf(folder, sizeof folder, "%.*s", (int)(name - 1 - program), program) > 0);
    assert_true(snprintf(out, sizeof out, "%s/%s", strrchr(folder, '/') + 1, name) > 0);
    char inner[4096];
    strcpy(inner, out);
    assert_true(mba_library_find(out, sizeof out, "..", inner) && strstr(out, "/../"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading_gives_the_bytes_and_a_nul),
        cmocka_unit_test(reading_obeys_the_limit),
        cmocka_unit_test(reading_refuses_what_is_no_file),
        cmocka_unit_test(xxh64_gives_the_published_values),
        cmocka_unit_test(mapping_takes_empty_and_huge_files),
        cmocka_unit_test(nothing_is_seen_before_commit),
        cmocka_unit_test(room_for_later_is_zero),
        cmocka_unit_test(giving_up_leaves_the_old_file),
        cmocka_unit_test(pieces_of_any_size_come_out_in_order),
        cmocka_unit_test(new_files_have_the_usual_permissions),
        cmocka_unit_test(wrong_targets_are_refused_at_once),
        cmocka_unit_test(a_link_stays_and_its_file_is_replaced),
        cmocka_unit_test(an_unwritable_directory_is_refused),
        cmocka_unit_test(a_file_size_limit_leaves_nothing_behind),
        cmocka_unit_test(a_full_disk_leaves_nothing_behind),
        cmocka_unit_test(a_failed_writer_stays_failed),
        cmocka_unit_test(a_long_name_can_be_written),
        cmocka_unit_test(directories_are_made_with_those_above),
        cmocka_unit_test(a_folder_goes_with_its_files_and_no_further),
        cmocka_unit_test(a_lock_is_of_one_process_and_dies_with_it),
        cmocka_unit_test(a_lock_beside_a_file_touches_nothing_else),
        cmocka_unit_test(the_next_one_removes_what_a_killed_process_left),
        cmocka_unit_test(a_library_is_found_beside_the_program),
    };
    scratch_make();
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove();
    return failures;
}
