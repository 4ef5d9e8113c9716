// SPDX-License-Identifier: Apache-2.0
/* suite_peers.c -- see suite_peers.h and mba_suite_part_possible in suite.h. */
#include "cli/suite_peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/say.h"
#include "scope/power_limit.h"

enum { PATH_ROOM = 4096 };
static const char RANGE[] = "step"; // the NVTX range of a step in train_nvtx.py

/* The interpreter, and the script in the repository that the program was built in, or below the current folder. */
typedef struct script {
    const char *python;
    char        path[PATH_ROOM];
} script;

static bool find_script(script *s)
{
    static const char *const from[] = { "../tools/peers", "tools/peers", "../../tools/peers" };
    char                     program[PATH_ROOM];
    const ssize_t            n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = 0;
    char *end = strrchr(program, '/');
    s->python = getenv("PYTHON") ? getenv("PYTHON") : "python3";
    snprintf(s->path, sizeof s->path, "tools/peers/train_nvtx.py");
    if (!access(s->path, R_OK)) return true;
    for (size_t i = 0; end && i < sizeof from / sizeof *from; i++)
        if (snprintf(s->path, sizeof s->path, "%.*s/%s/train_nvtx.py", (int)(end - program), program, from[i])
                < (int)sizeof s->path
            && !access(s->path, R_OK))
            return true;
    return false;
}

/* Tries it: who may set a limit is for the driver to say. */
static bool may_limit_power(double watts, char *why, size_t room)
{
    mba_power_limit limit;
    const bool      may = mba_power_limit_set(&limit, watts) == MBA_OK;
    if (!may) snprintf(why, room, "%.*s", (int)strcspn(mba_message(), "\n"), mba_message());
    mba_power_limit_restore(&limit);
    return may;
}

/* The script says in a line what it misses; an empty answer: nothing. Names of models need no quotes. */
bool mba_suite_part_possible(const mba_suite_part *p, char *why, size_t room)
{
    script s;
    char   line[2 * PATH_ROOM];
    *why = 0;
    if (p->power_limit_w > 0) return may_limit_power(p->power_limit_w, why, room);
    if (!p->peer) return true;
    if (!find_script(&s)) {
        snprintf(why, room, "tools/peers/train_nvtx.py is not here; run the suite in the repository");
        return false;
    }
    snprintf(line, sizeof line, "'%s' '%s' --check --model %s 2>&1", s.python, s.path, p->model.name);
    FILE *f = popen(line, "r");
    if (!f || !fgets(why, (int)room, f)) *why = 0;
    const int status = f ? pclose(f) : -1;
    why[strcspn(why, "\n")] = 0;
    if (status == 0) return true;
    if (!*why) snprintf(why, room, "%s does not run", s.python);
    return false;
}

int64_t mba_suite_peer_units(const mba_suite_part *p) { return p->model.shape.batch * p->model.shape.length; }
int64_t mba_suite_peer_launches(const mba_suite_part *p) { return p->layers ? 800 : 0; }

/* Steps for the timeline, for each group of counters, and for 3 s of energy; the script ends after them. */
int64_t mba_suite_peer_steps(const mba_suite_part *p)
{
    return p->layers ? 40 : p->sets && strstr(p->sets, "pipes") ? 34 : 24;
}

mba_status mba_suite_peer_make(const mba_suite_part *p, const char *command, const char *path,
                               mba_profile_more_fn *more, void *ctx)
{
    script s;
    char   batch[24], length[24], layers[24], steps[24];
    if (!find_script(&s))
        return mba_fail(MBA_E_UNSUPPORTED,
                        "tools/peers/train_nvtx.py is not here\nfix: run the suite in the repository");
    snprintf(batch, sizeof batch, "%lld", (long long)p->model.shape.batch);
    snprintf(length, sizeof length, "%lld", (long long)p->model.shape.length);
    snprintf(layers, sizeof layers, "%lld", (long long)p->layers);
    snprintf(steps, sizeof steps, "%lld", (long long)mba_suite_peer_steps(p));
    char                     *argv[] = { (char *)s.python,
                                         s.path,
                                         "--model",
                                         (char *)p->model.name,
                                         "--batch",
                                         batch,
                                         "--length",
                                         length,
                                         "--layers",
                                         layers,
                                         "--steps",
                                         steps,
                                         NULL };
    const mba_foreign_options f = { .argv = argv,
                                    .range = RANGE,
                                    .sets = p->sets,
                                    .launches = mba_suite_peer_launches(p),
                                    .workload = p->model.name,
                                    .units = (double)mba_suite_peer_units(p),
                                    .command = command };
    return mba_profile_program(&f, path, more, ctx);
}
