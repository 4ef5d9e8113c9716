// SPDX-License-Identifier: Apache-2.0
/* disk.c -- see disk.h. */
#include "tests/crash/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/xxh64.h"

enum { BLOCK = 4096, NAME = 128, DEPTH = 8 };

typedef enum { OP_NAMES, OP_WRITE, OP_SIZE, OP_SYNC, OP_SAID } op_kind;

typedef struct setting {
    int  folder, to;
    char name[NAME];
} setting; /* to -1: the name goes */

typedef struct op {
    op_kind        kind;
    int            node, sets;
    setting        set[2];
    size_t         at, n;
    int64_t        said;
    unsigned char *bytes;
} op;

typedef struct node {
    bool  folder;
    ino_t ino;
} node;
typedef struct entry {
    int  folder, to;
    char name[NAME];
} entry;

struct disk {
    char       root[TRACER_PATH];
    op        *op;
    node      *node;
    entry     *now, *then; /* the names as they are, and as a state has them */
    uint64_t  *seen;
    int        nops, nnodes, nnow, nthen, first;
    int64_t    nseen;
    disk_files files;
};

static void broken(const char *what, const char *path)
{
    fprintf(stderr, "disk: %s: %s (%s)\n", what, path, strerror(errno));
    abort();
}

static void *grown(void *p, int64_t n, size_t each)
{
    if (n & (n - 1) || !each) return p; // room for the next power of two
    p = realloc(p, (size_t)(n ? 2 * n : 1) * each);
    if (!p) abort();
    return p;
}

static op *add(disk *d, op_kind kind, int of)
{
    d->op = grown(d->op, d->nops, sizeof *d->op);
    d->op[d->nops] = (op){ .kind = kind, .node = of };
    return &d->op[d->nops++];
}

static int add_node(disk *d, bool folder, ino_t ino)
{
    d->node = grown(d->node, d->nnodes, sizeof *d->node);
    d->node[d->nnodes] = (node){ folder, ino };
    return d->nnodes++;
}

/* ---- names ---- */

static int lookup(const entry *e, int n, int folder, const char *name)
{
    for (int i = 0; i < n; i++)
        if (e[i].folder == folder && !strcmp(e[i].name, name)) return i;
    return -1;
}

static entry *apply(entry *e, int *n, const setting *s)
{
    const int at = lookup(e, *n, s->folder, s->name);
    if (at >= 0 && s->to < 0) e[at] = e[--*n];
    else if (at >= 0) e[at].to = s->to;
    else if (s->to >= 0) {
        e = grown(e, *n, sizeof *e);
        e[*n] = (entry){ .folder = s->folder, .to = s->to };
        memcpy(e[(*n)++].name, s->name, NAME);
    }
    return e;
}

/* The folder that a path ends in, into `folder`, and its last part; false: not below the root. */
static bool split(const disk *d, const char *path, int *folder, const char **name)
{
    const size_t root = strlen(d->root);
    const char  *at = path + root;
    if (strncmp(path, d->root, root) || *at != '/') return false;
    *folder = 0;
    for (at++; strchr(at, '/'); at += strcspn(at, "/") + 1) {
        char part[NAME];
        snprintf(part, sizeof part, "%.*s", (int)strcspn(at, "/"), at);
        const int i = lookup(d->now, d->nnow, *folder, part);
        if (i < 0) broken("a folder that nobody made", path);
        *folder = d->now[i].to;
    }
    if (strlen(at) >= NAME) broken("a long name", path);
    *name = at;
    return true;
}

static void set(disk *d, op *o, const char *path, int to)
{
    const char *name;
    setting    *s = &o->set[o->sets];
    if (!split(d, path, &s->folder, &name)) return;
    s->to = to;
    snprintf(s->name, sizeof s->name, "%s", name);
    o->sets++;
    d->now = apply(d->now, &d->nnow, s);
}

static int node_at(const disk *d, const char *path)
{
    int         folder;
    const char *name;
    if (!strcmp(path, d->root)) return 0;
    if (!split(d, path, &folder, &name)) return -1;
    const int i = lookup(d->now, d->nnow, folder, name);
    return i < 0 ? -1 : d->now[i].to;
}

/* By the number of its inode, which a later file may have once more. */
static int node_of_fd(const disk *d, pid_t thread, int fd)
{
    char        proc[64];
    struct stat s;
    snprintf(proc, sizeof proc, "/proc/%d/fd/%d", (int)thread, fd);
    if (stat(proc, &s)) return -1;
    for (int i = d->nnodes - 1; i >= 0; i--)
        if (d->node[i].ino == s.st_ino) return i;
    return -1;
}

/* ---- the record ---- */

static unsigned char *bytes_of(const char *path, size_t at, size_t n)
{
    unsigned char *b = malloc(n ? n : 1);
    const int      fd = open(path, O_RDONLY | O_CLOEXEC);
    if (!b || fd < 0 || pread(fd, b, n, (off_t)at) != (ssize_t)n) broken("what was written cannot be read", path);
    close(fd);
    return b;
}

static void note_write(disk *d, const call *c)
{
    char      proc[64], line[64];
    const int of = node_of_fd(d, c->thread, c->fd);
    long long pos = c->number;
    if (of < 0) broken("a write to a file that nobody made", c->path);
    if (pos < 0) {
        snprintf(proc, sizeof proc, "/proc/%d/fdinfo/%d", (int)c->thread, c->fd);
        FILE *f = fopen(proc, "r");
        if (!f || !fgets(line, sizeof line, f) || sscanf(line, "pos: %lld", &pos) != 1) broken("no position", c->path);
        fclose(f);
        pos -= c->result;
    }
    snprintf(proc, sizeof proc, "/proc/%d/fd/%d", (int)c->thread, c->fd);
    op *o = add(d, OP_WRITE, of);
    o->at = (size_t)pos;
    o->n = (size_t)c->result;
    o->bytes = bytes_of(proc, o->at, o->n);
}

static void note_open(disk *d, const call *c)
{
    char        proc[64];
    struct stat s;
    if ((c->flags & O_ACCMODE) == O_RDONLY && !(c->flags & O_CREAT)) return;
    snprintf(proc, sizeof proc, "/proc/%d/fd/%d", (int)c->thread, (int)c->result);
    if (stat(proc, &s)) broken("no such file", c->path);
    if (!c->existed) {
        const int of = add_node(d, false, s.st_ino);
        set(d, add(d, OP_NAMES, of), c->path, of);
    } else if (c->flags & O_TRUNC) {
        add(d, OP_SIZE, node_at(d, c->path));
    }
}

static void note_names(disk *d, const call *c)
{
    struct stat s;
    const int   of = c->kind == CALL_MKDIR ? -1 : node_at(d, c->path);
    op         *o = add(d, OP_NAMES, of);
    if (c->kind == CALL_MKDIR) {
        if (lstat(c->path, &s)) broken("no folder", c->path);
        set(d, o, c->path, add_node(d, true, s.st_ino));
        return;
    }
    if (of < 0) broken("a file that nobody made", c->path);
    if (c->kind != CALL_LINK) set(d, o, c->path, -1);
    if (*c->to) set(d, o, c->to, of);
}

void disk_note(disk *d, const call *c)
{
    if (!c->done || c->result < 0 || c->kind == CALL_LOOK) return;
    switch (c->kind) {
    case CALL_OPEN: note_open(d, c); return;
    case CALL_WRITE:
        if (c->result) note_write(d, c);
        return;
    case CALL_SIZE:
        add(d, OP_SIZE, c->fd >= 0 ? node_of_fd(d, c->thread, c->fd) : node_at(d, c->path))->n = (size_t)c->number;
        return;
    case CALL_SYNC: add(d, OP_SYNC, node_of_fd(d, c->thread, c->fd)); return;
    case CALL_RENAME:
    case CALL_LINK:
    case CALL_UNLINK:
    case CALL_MKDIR:
    case CALL_RMDIR: note_names(d, c); return;
    default: broken("not modelled", tracer_words(c));
    }
}

void disk_say(disk *d, int64_t said) { add(d, OP_SAID, -1)->said = said; }

static void scan(disk *d, const char *folder)
{
    char path[TRACER_PATH];
    DIR *f = opendir(folder);
    if (!f) broken("cannot be listed", folder);
    for (const struct dirent *e; (e = readdir(f));) {
        struct stat s;
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        if (snprintf(path, sizeof path, "%s/%s", folder, e->d_name) >= (int)sizeof path || lstat(path, &s))
            broken("what is it", path);
        const int of = add_node(d, S_ISDIR(s.st_mode), s.st_ino);
        set(d, add(d, OP_NAMES, of), path, of);
        if (S_ISDIR(s.st_mode)) scan(d, path);
        else if (s.st_size) {
            op *o = add(d, OP_WRITE, of);
            o->n = (size_t)s.st_size;
            o->bytes = bytes_of(path, 0, o->n);
        }
    }
    closedir(f);
}

disk *disk_create(const char *folder)
{
    struct stat s;
    disk       *d = calloc(1, sizeof *d);
    if (!d || stat(folder, &s)) abort();
    snprintf(d->root, sizeof d->root, "%s", folder);
    add_node(d, true, s.st_ino);
    scan(d, folder);
    for (int i = 0; i < d->nnodes; i++) add(d, OP_SYNC, i);
    d->first = d->nops;
    return d;
}

static void forget_files(disk *d)
{
    for (int i = 0; i < d->files.n; i++) free(d->files.file[i].bytes);
    d->files.n = 0;
}

void disk_destroy(disk *d)
{
    if (!d) return;
    forget_files(d);
    for (int i = 0; i < d->nops; i++) free(d->op[i].bytes);
    free(d->files.file);
    free(d->op);
    free(d->node);
    free(d->now);
    free(d->then);
    free(d->seen);
    free(d);
}

int disk_begin(const disk *d) { return d->first; }
int disk_changes(const disk *d) { return d->nops; }

int64_t disk_said(const disk *d, int changes)
{
    while (changes-- > 0)
        if (d->op[changes].kind == OP_SAID) return d->op[changes].said;
    return -1;
}

/* ---- states ---- */

typedef struct cut {
    const disk *d;
    int         changes;
    disk_how    how;
    uint64_t    seed;
    int        *synced;
} cut; /* synced: by node */

static bool coin(const cut *c, uint64_t a, uint64_t b)
{
    const uint64_t all[3] = { c->seed, a, b };
    return mba_xxh64(all, sizeof all) & 1;
}

/* Of names that may be lost a state has each by itself, or all up to some moment. */
static bool has_names(const cut *c, int i)
{
    const op *o = &c->d->op[i];
    bool      durable = true;
    for (int k = 0; k < o->sets; k++) durable &= c->synced[o->set[k].folder] > i;
    if (durable || c->how != DISK_ANY) return durable || (c->how != DISK_DURABLE && c->how != DISK_DATA);
    if (c->seed % 3) return coin(c, (uint64_t)i, 1);
    return i < c->d->first + (int)(mba_xxh64(&c->seed, sizeof c->seed) % (uint64_t)(c->changes - c->d->first + 1));
}

static void resize(disk_file *f, size_t n)
{
    unsigned char *b = calloc(n ? n : 1, 1);
    if (!b) abort();
    if (f->bytes) memcpy(b, f->bytes, n < f->n ? n : f->n);
    free(f->bytes);
    f->bytes = b;
    f->n = n;
}

/* Data that is not durable: whole, or block by block, what is missing reads as it was or as zeros. */
static void put_some(disk_file *f, const cut *c, int i)
{
    const op *o = &c->d->op[i];
    const int way = (int)(coin(c, (uint64_t)o->node, 2)) * 2 + (int)coin(c, (uint64_t)o->node, 3);
    if (way == 0 || (way == 2 && coin(c, (uint64_t)i, 4))) return;
    if (o->kind == OP_SIZE || o->at + o->n > f->n) resize(f, o->kind == OP_SIZE ? o->n : o->at + o->n);
    for (size_t at = 0, n; o->kind == OP_WRITE && at < o->n; at += n) {
        n = BLOCK - (o->at + at) % BLOCK < o->n - at ? BLOCK - (o->at + at) % BLOCK : o->n - at;
        if (way != 3 || coin(c, (uint64_t)i, 5 + at)) memcpy(f->bytes + o->at + at, o->bytes + at, n);
    }
}

static void fill(disk_file *f, const cut *c, int of)
{
    resize(f, 0);
    for (int i = 0; i < c->changes; i++) {
        const op *o = &c->d->op[i];
        if (o->node != of || (o->kind != OP_WRITE && o->kind != OP_SIZE)) continue;
        const bool durable = c->synced[of] > i;
        if (!durable && (c->how == DISK_DURABLE || c->how == DISK_NAMES_EMPTY)) continue;
        if (!durable && c->how == DISK_ANY) {
            put_some(f, c, i);
            continue;
        }
        if (o->kind == OP_SIZE || o->at + o->n > f->n) resize(f, o->kind == OP_SIZE ? o->n : o->at + o->n);
        if (o->kind == OP_WRITE && (durable || c->how != DISK_NAMES_ZERO)) memcpy(f->bytes + o->at, o->bytes, o->n);
    }
}

static void gather(disk *d, const cut *c, int folder, const char *path, int depth)
{
    for (int i = 0; i < d->nthen && depth < DEPTH; i++) {
        if (d->then[i].folder != folder) continue;
        d->files.file = grown(d->files.file, d->files.n, sizeof *d->files.file);
        disk_file *f = &d->files.file[d->files.n++];
        *f = (disk_file){ .bytes = NULL };
        if (snprintf(f->path, sizeof f->path, "%s%s%s", path, *path ? "/" : "", d->then[i].name) >= (int)sizeof f->path)
            broken("a long path", path);
        char name[sizeof f->path];
        memcpy(name, f->path, sizeof name);
        if (d->node[d->then[i].to].folder) gather(d, c, d->then[i].to, name, depth + 1);
        else fill(f, c, d->then[i].to);
    }
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const disk_file *)a)->path, ((const disk_file *)b)->path);
}

const disk_files *disk_after(disk *d, int changes, disk_how how, uint64_t seed)
{
    cut c = { d, changes, how, seed, calloc((size_t)d->nnodes, sizeof *c.synced) };
    if (!c.synced) abort();
    forget_files(d);
    for (int i = 0; i < changes; i++)
        if (d->op[i].kind == OP_SYNC && d->op[i].node >= 0) c.synced[d->op[i].node] = i;
    d->nthen = 0;
    for (int i = 0; i < changes; i++)
        for (int k = 0; d->op[i].kind == OP_NAMES && k < d->op[i].sets && has_names(&c, i); k++)
            d->then = apply(d->then, &d->nthen, &d->op[i].set[k]);
    gather(d, &c, 0, "", 0);
    free(c.synced);
    if (d->files.n) qsort(d->files.file, (size_t)d->files.n, sizeof *d->files.file, by_path);
    d->files.sum = 0;
    for (int i = 0; i < d->files.n; i++) {
        disk_file *f = &d->files.file[i];
        f->sum = f->bytes ? mba_xxh64(f->bytes, f->n) : 1;
        const uint64_t pair[3] = { d->files.sum, mba_xxh64(f->path, strlen(f->path)), f->sum };
        d->files.sum = mba_xxh64(pair, sizeof pair);
    }
    return &d->files;
}

bool disk_is_new(disk *d, const disk_files *f, int64_t said)
{
    const uint64_t pair[2] = { f->sum, (uint64_t)said }, sum = mba_xxh64(pair, sizeof pair);
    for (int64_t i = 0; i < d->nseen; i++)
        if (d->seen[i] == sum) return false;
    d->seen = grown(d->seen, d->nseen, sizeof *d->seen);
    d->seen[d->nseen++] = sum;
    return true;
}

static void put_file(const char *path, const disk_file *f)
{
    FILE *to = fopen(path, "wb");
    if (!to || (f->n && fwrite(f->bytes, 1, f->n, to) != f->n) || fclose(to)) broken("cannot be written", path);
}

void disk_write(const disk_files *f, const char *folder)
{
    char path[TRACER_PATH];
    for (int i = 0; i < f->n; i++) {
        const disk_file *one = &f->file[i];
        if (snprintf(path, sizeof path, "%s/%s", folder, one->path) >= (int)sizeof path)
            broken("a long path", one->path);
        if (!one->bytes) {
            if (mkdir(path, 0777)) broken("cannot be made", path);
        } else {
            put_file(path, one);
        }
    }
}
