// SPDX-License-Identifier: Apache-2.0
/* fake_nccl.c -- a libnccl.so.2 for tests without several GPUs: ranks are processes, messages are files in the folder
 * FAKE_NCCL_DIR. Memory is that of the host; streams are ignored: a call has ended when it returns, a group when it
 * ends.
 *
 * With FAKE_NCCL_GPU set, memory is that of a GPU, which all ranks may share (fake_nccl_gpu.c).
 *
 * FAKE_NCCL_VERSION is what ncclGetVersion says [23007]; FAKE_NCCL_FAILS names a function that fails, with the error
 * FAKE_NCCL_ERROR [2]; FAKE_NCCL_ASYNC is the error that ncclCommGetAsyncError finds. Calls are noted in
 * fake_nccl_calls. */
#include "tests/fake_nccl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct id {
    char bytes[128];
} id;

typedef struct fake_comm {
    id  of;
    int rank, ranks, sent[64], received[64], gathered;
} comm;

typedef fake_message message;

#define PUBLIC __attribute__((visibility("default")))
PUBLIC char fake_nccl_calls[4096];

static message group[FAKE_GROUP_MOST];
static int     depth, waiting;
static void   *of_stream;

static int said(const char *name)
{
    const char  *fails = getenv("FAKE_NCCL_FAILS"), *error = getenv("FAKE_NCCL_ERROR");
    const size_t at = strlen(fake_nccl_calls), room = sizeof fake_nccl_calls - at;
    if (strlen(name) + 2 <= room) snprintf(fake_nccl_calls + at, room, "%s ", name); // the first ones
    return !fails || strcmp(fails, name) ? 0 : error ? atoi(error) : 2;
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
    if (getenv("FAKE_NCCL_GPU")) fake_gpu_open();
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

static int enqueue(comm *c, message m, void *stream)
{
    if (!depth || waiting == FAKE_GROUP_MOST) abort();
    of_group = c;
    of_stream = stream;
    group[waiting++] = m;
    return 0;
}

PUBLIC int ncclSend(void *x, size_t n, int type, int peer, comm *c, void *stream)
{
    (void)type;
    const int e = said("send");
    return e ? e : enqueue(c, (message){ x, n, peer, 1 }, stream);
}

PUBLIC int ncclRecv(void *x, size_t n, int type, int peer, comm *c, void *stream)
{
    (void)type;
    const int e = said("receive");
    return e ? e : enqueue(c, (message){ x, n, peer, 0 }, stream);
}

void fake_exchange(comm *c, const message *m, int n)
{
    for (int k = 0; k < n; k++)
        if (m[k].sends) put(c, "m", c->rank, m[k].peer, c->sent[m[k].peer]++, m[k].at, m[k].n);
    for (int k = 0; k < n; k++)
        if (!m[k].sends) take(c, "m", m[k].peer, c->rank, c->received[m[k].peer]++, m[k].at, m[k].n);
}

PUBLIC int ncclGroupEnd(void)
{
    depth--;
    if (fake_gpu_is_open()) fake_gpu_exchange(of_group, group, waiting, of_stream);
    else fake_exchange(of_group, group, waiting);
    waiting = 0;
    return said("end");
}

void fake_gather(comm *c, void *x, size_t n)
{
    put(c, "g", c->rank, 0, c->gathered, (char *)x + n * (size_t)c->rank, n);
    for (int r = 0; r < c->ranks; r++)
        if (r != c->rank) take(c, "g", r, 0, c->gathered, (char *)x + n * (size_t)r, n);
    c->gathered++;
}

PUBLIC int ncclAllGather(const void *from, void *to, size_t n, int type, comm *c, void *stream)
{
    (void)type;
    if ((const char *)from != (char *)to + n * (size_t)c->rank) abort(); // in place
    if (fake_gpu_is_open()) fake_gpu_gather(c, to, n, n * (size_t)c->ranks, stream);
    else fake_gather(c, to, n);
    return said("gather");
}

PUBLIC int ncclReduceScatter(const void *from, void *to, size_t n, int type, int op, comm *c, void *stream)
{
    (void)n, (void)type, (void)op, (void)stream;
    if (c->ranks != 1 || from != to) abort();
    return said("scatter");
}

PUBLIC const char *ncclGetErrorString(int error) { return error == 6 ? "a peer is gone" : "unhandled system error"; }
