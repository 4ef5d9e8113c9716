// SPDX-License-Identifier: Apache-2.0
/* environment.c -- checks the environment variables of the CPU path (environment.h). */
#include "device/cpu/environment.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/device.h"

enum { VALUES_MAX = 2 };

mba_status mba_cpu_check_environment(void)
{
    static const struct {
        const char *name, *value[VALUES_MAX + 1], *words;
    } known[] = {
        { "MBA_GEMM", { "packed", "openblas" }, "packed or openblas" }, // gemm.c
    };
    MBA_TRY(mba_cpu_isa_check());
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const char *is = getenv(known[i].name);
        bool        found = !is || !*is;
        for (int k = 0; !found && known[i].value[k]; k++) found = !strcmp(is, known[i].value[k]);
        if (!found)
            return mba_fail(MBA_E_ARG, "the environment has %s=%s\nwhy: it is %s\nfix: correct it, or unset %s",
                            known[i].name, is, known[i].words, known[i].name);
    }
    return MBA_OK;
}
