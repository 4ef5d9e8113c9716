// SPDX-License-Identifier: Apache-2.0
/* fake_nccl.c -- a libnccl.so.2 for tests without GPUs: ranks are processes, memory is that of the host, messages are
 * files in the folder FAKE_NCCL_DIR. Streams are ignored: a call has ended when it returns, a group when it ends.
 *
 * FAKE_NCCL_VERSION is what ncclGetVersion says [23007]; FAKE_NCCL_FAILS names a function that fails;
 * FAKE_NCCL_ASYNC is the error that ncclCommGetAsyncError finds. Calls are noted in fake_nccl_calls. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct id {
    char bytes[128];
} id;

typedef struct comm {
    id  of;
    int rank, ranks, sent[64], received[64], gathered;
} comm;

typedef struct message {
    void  *at;
    size_t n;
    int    peer, sends;
} message;

#define PUBLIC __attribute__((visibility("default")))
PUBLIC char fake_nccl_calls[4096];

static message group[16];
static int     depth, waiting;

static int said(const char *name)
{
    const char *fails = getenv("FAKE_NCCL_FAILS");
    strncat(fake_nccl_calls, name, sizeof fake_nccl_calls - strlen(fake_nccl_calls) - 2);
    strcat(fake_nccl_calls, " ");
    return fails && !strcmp(fails, name) ? 2 : 0;
}

static void path(char *out, const comm *c, const char *kind, int a, int b, int serial)
{
    snprintf(out, 512, "%s/%s-%s-%d-%d-%d", getenv("FAKE_NCCL_DIR"), c->of.bytes, kind, a, b, serial);
}

static void put(const comm *c, const char *kind, int a, int b, int serial, const void *x, size_t n)
{
    char to[512], part[520];
    path(to, c, kind, a, b, serial);
    snprintf(part, sizeof part, "%s.part", to);
    FILE *f = fopen(part, "wb");
    if (!f || fwrite(x, 1, n, f) != n || fclose(f) || rename(part, to)) abort();
}

static void take(const comm *c, const char *kind, int a, int b, int serial, void *x, size_t n)
{
    char  from[512];
    FILE *f;
    path(from, c, kind, a, b, serial);
    while (!(f = fopen(from, "rb"))) usleep(1000);
    if (fread(x, 1, n, f) != n || fgetc(f) != EOF) abort();
    fclose(f);
}

PUBLIC int ncclGetVersion(int *out)
{
    const char *v = getenv("FAKE_NCCL_VERSION");
    *out = v ? atoi(v) : 23007;
    return said("version");
}

PUBLIC int ncclGetUniqueId(id *out)
{
    memset(out, 0, sizeof *out);
    snprintf(out->bytes, sizeof out->bytes, "id%d", (int)getpid());
    return said("id");
}

PUBLIC int ncclCommInitRank(comm **out, int ranks, id of, int rank)
{
    *out = calloc(1, sizeof **out);
    **out = (comm){ .of = of, .rank = rank, .ranks = ranks };
    return said("join");
}

PUBLIC int ncclCommDestroy(comm *c)
{
    free(c);
    return said("leave");
}

PUBLIC int ncclCommAbort(comm *c)
{
    free(c);
    return said("abort");
}

PUBLIC int ncclCommGetAsyncError(comm *c, int *error)
{
    const char *e = getenv("FAKE_NCCL_ASYNC");
    *error = e && c ? atoi(e) : 0;
    return 0;
}

PUBLIC int ncclGroupStart(void)
{
    depth++;
    return said("begin");
}

static comm *of_group;

static int enqueue(comm *c, message m)
{
    if (!depth || waiting == 16) abort();
    of_group = c;
    group[waiting++] = m;
    return 0;
}

PUBLIC int ncclSend(void *x, size_t n, int type, int peer, comm *c, void *stream)
{
    (void)type, (void)stream;
    return said("send") ? 2 : enqueue(c, (message){ x, n, peer, 1 });
}

PUBLIC int ncclRecv(void *x, size_t n, int type, int peer, comm *c, void *stream)
{
    (void)type, (void)stream;
    return said("receive") ? 2 : enqueue(c, (message){ x, n, peer, 0 });
}

PUBLIC int ncclGroupEnd(void)
{
    comm *c = of_group;
    depth--;
    for (int k = 0; k < waiting; k++)
        if (group[k].sends) put(c, "m", c->rank, group[k].peer, c->sent[group[k].peer]++, group[k].at, group[k].n);
    for (int k = 0; k < waiting; k++)
        if (!group[k].sends)
            take(c, "m", group[k].peer, c->rank, c->received[group[k].peer]++, group[k].at, group[k].n);
    waiting = 0;
    return said("end");
}

PUBLIC int ncclAllGather(const void *from, void *to, size_t n, int type, comm *c, void *stream)
{
    (void)type, (void)stream;
    if ((const char *)from != (char *)to + n * (size_t)c->rank) abort(); // in place
    put(c, "g", c->rank, 0, c->gathered, from, n);
    for (int r = 0; r < c->ranks; r++)
        if (r != c->rank) take(c, "g", r, 0, c->gathered, (char *)to + n * (size_t)r, n);
    c->gathered++;
    return said("gather");
}

PUBLIC int ncclReduceScatter(const void *from, void *to, size_t n, int type, int op, comm *c, void *stream)
{
    (void)n, (void)type, (void)op, (void)stream;
    if (c->ranks != 1 || from != to) abort();
    return said("scatter");
}

PUBLIC const char *ncclGetErrorString(int error) { return error == 6 ? "a peer is gone" : "unhandled system error"; }
