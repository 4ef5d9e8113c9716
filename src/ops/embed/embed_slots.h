/* embed_slots.h -- what the files of this folder share. */
#ifndef MBA_EMBED_SLOTS_H
#define MBA_EMBED_SLOTS_H

#include "core/op.h"

enum { TOKEN, TABLE };                            /* forward: in, out */
enum { Y };
enum { TOKENB, DY };                              /* backward: in, out */
enum { DTABLE };
typedef struct embed_attr { mba_dtype out; } embed_attr;
typedef struct embed_bwd_attr { mba_type table; } embed_bwd_attr;

/* Where element i of a window lies. Tokens may be columns of a wider batch, and rows a window's rows. */
static inline int64_t embed_at(const mba_tensor *t, int64_t i)
{
    return i < t->run ? i : i / t->run * t->pitch + i % t->run;      // dense: no division
}

void embed_ref(const mba_ref_call *c);
void embed_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(embed_fwd);
MBA_CPU_DECLARE(embed_bwd);

#endif
