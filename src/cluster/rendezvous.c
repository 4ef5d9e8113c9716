// SPDX-License-Identifier: Apache-2.0
/* rendezvous.c -- see rendezvous.h. */
#include "cluster/rendezvous.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/xxh64.h"

enum { PORT_FIRST = 20000, PORT_RANGE = 20000 };

static bool set(const char *text) { return text && *text; }

bool mba_rendezvous_wanted(const mba_launcher *l, bool has_mpi, char *(*get)(const char *name))
{
    const bool slurm = l->launcher && !strcmp(l->launcher, "srun");
    return !l->mpi || (slurm && (!has_mpi || set(get("MASTER_ADDR"))));
}

/* The first host of "gpu[07-12,15],login": gpu07; of "rack[0-1]n[0-3]": rack0n0. */
static void first_host(char *out, size_t room, const char *list)
{
    size_t n = 0;
    while (*list && *list != ',' && n + 1 < room) {
        if (*list != '[') {
            out[n++] = *list++;
            continue;
        }
        for (list++; *list >= '0' && *list <= '9' && n + 1 < room;) out[n++] = *list++;
        list += strcspn(list, "]");
        if (*list) list++;
    }
    out[n] = 0;
}

/* Sixteen bytes of what all ranks of the job know. */
static void make_secret(unsigned char out[MBA_SECRET_BYTES], const mba_rendezvous *at, char *(*get)(const char *))
{
    static const char *const names[] = { "MBA_SECRET", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "SLURM_STEP_ID" };
    char                     text[2048];
    int                      n = snprintf(text, sizeof text, "%s:%d", at->address, at->port);
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        const char *v = get(names[k]);
        if (v && n < (int)sizeof text) n += snprintf(text + n, sizeof text - (size_t)n, "|%s=%.400s", names[k], v);
    }
    for (int k = 0; k < MBA_SECRET_BYTES / 8; k++) {
        text[0] = (char)(text[0] + k);
        const uint64_t h = mba_xxh64(text, strlen(text));
        memcpy(out + 8 * k, &h, sizeof h);
    }
}

static mba_status not_told(const mba_launcher *l)
{
    return mba_fail(MBA_E_ARG,
                    "%s started %d ranks, but nothing says where rank 0 is\nwhy: MASTER_ADDR and MASTER_PORT are not "
                    "both set\nfix: set them on all ranks: a host name that all reach, and a free port of that host",
                    l->launcher, l->ranks);
}

mba_status mba_rendezvous_find(mba_rendezvous *out, const mba_launcher *l, char *(*get)(const char *name))
{
    const char *address = get("MASTER_ADDR"), *port = get("MASTER_PORT"), *step = get("SLURM_STEP_NODELIST"),
               *nodes = set(step) ? step : get("SLURM_JOB_NODELIST"), // a step may have other nodes than its job
                   *job = get("SLURM_JOB_ID"), *store = get("TORCHELASTIC_USE_AGENT_STORE");
    const bool slurm = l->mpi && set(nodes) && set(job);
    char      *end = NULL;
    *out = (mba_rendezvous){ .port = 0 };
    if (set(address)) snprintf(out->address, sizeof out->address, "%s", address);
    else if (slurm) first_host(out->address, sizeof out->address, nodes);
    if (set(port)) {
        const long n = strtol(port, &end, 10);
        if (*end || n < 1 || n > 65534)
            return mba_fail(MBA_E_ARG, "MASTER_PORT is '%.40s'\nwhy: a port is a number of 1 to 65534", port);
        out->port = (int)n + (store && !strcmp(store, "True"));
    } else if (slurm) {
        out->port = PORT_FIRST + (int)(strtoul(job, NULL, 10) % PORT_RANGE);
    }
    if (!*out->address || !out->port) return not_told(l);
    make_secret(out->secret, out, get);
    return MBA_OK;
}
