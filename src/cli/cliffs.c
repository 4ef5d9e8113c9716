// SPDX-License-Identifier: Apache-2.0
/* cliffs.c -- see cliffs.h. */
#include "cli/cliffs.h"

#include "cli/say.h"

void mba_cliffs_of(mba_cliffs *out, const mba_session_options *so, const char *machine)
{
    *out = (mba_cliffs){ .n = 0 };
    if (!machine && so->device) machine = mba_cliffs_machine(so->device->machine);
    if (machine && mba_cliffs_find(out, so, machine) != MBA_OK) out->n = 0;
}

void mba_cliffs_print(FILE *f, const mba_cliffs *c)
{
    for (int i = 0; i < c->n; i++) {
        const mba_cliff *k = &c->of[i];
        mba_say(f,
                "slow: %s runs '%s', %.1f times slower than '%s' for the same work (%.0f %% of the step; SIMULATED)\n"
                "  why: '%s' does not take %s\n  fix: %s\n",
                k->op, k->variant, k->slower, k->best, 100 * k->step_part, k->best, k->why, k->mend);
    }
}

void mba_cliffs_tell(const mba_session_options *so)
{
    mba_cliffs c;
    mba_cliffs_of(&c, so, NULL);
    mba_cliffs_print(stderr, &c);
}
