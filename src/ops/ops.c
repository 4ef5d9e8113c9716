/* ops.c -- the table made from ops.def. */
#include <string.h>

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
    for (int i = 0; mba_ops[i]; i++) if (!strcmp(mba_ops[i]->name, name)) return mba_ops[i];
    return NULL;
}
