// SPDX-License-Identifier: Apache-2.0
/* ops.c -- the table of operators, generated from ops.def, and the lookup by name. */
#include <string.h>

#include "core/nearest.h"
#include "core/op.h"

#define OP(name) extern const mba_op mba_op_##name;
#include "ops/ops.def"
#undef OP

const mba_op *const mba_ops[] = {
#define OP(name) &mba_op_##name,
#include "ops/ops.def"
#undef OP
    NULL,
};

const mba_op *mba_op_find(const char *name)
{
    for (int i = 0; mba_ops[i]; i++)
        if (!strcmp(mba_ops[i]->name, name)) return mba_ops[i];
    return NULL;
}

mba_status mba_op_named(const mba_op **out, const char *name)
{
    *out = mba_op_find(name);
    if (*out) return MBA_OK;
    mba_nearest near = mba_nearest_to(name, strlen(name));
    for (int i = 0; mba_ops[i]; i++) mba_nearest_try(&near, mba_ops[i]->name, NULL);
    return mba_fail(MBA_E_ARG, "no operator '%s'\nfix: %smambascope list ops names them", name,
                    mba_did_you_mean(&near).text);
}
