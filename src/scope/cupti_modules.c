// SPDX-License-Identifier: Apache-2.0
/* cupti_modules.c -- source lines of instructions (cupti_collect.h): keeps a copy of the code that the process loads
 * and asks CUPTI for the line of a program counter. */
#include <stdio.h>
#include <stdlib.h>

#include "scope/cupti_api.h"
#include "scope/cupti_collect.h"

#define FUNCTIONS(X) X(cuptiGetSassToSourceCorrelation) X(cuptiGetCubinCrc)
typedef struct functions {
    FUNCTIONS(MBA_LIBRARY_FIELD)
} functions;
#define ENTRY(f) MBA_LIBRARY_ENTRY(functions, f)
static const mba_library_name names[] = { FUNCTIONS(ENTRY){ NULL, 0 } };

enum { CUBINS_MAX = 512 };

/* The code of a module. CUPTI's records identify it by the same checksum. */
typedef struct cubin {
    uint32_t crc;
    void    *bytes;
    size_t   n;
} cubin;

/* A cache of source lines, by a hash of crc and pc: the same instruction comes once per metric. */
typedef struct found {
    uint64_t    pc;
    const char *function;
    uint32_t    crc;
    int         line;
    char        file[256];
} found;
enum { FOUND = 8192 };

static struct {
    const mba_cupti       *c;
    bool                   opened;
    functions              f;
    CUpti_SubscriberHandle subscriber;
    cubin                  cubins[CUBINS_MAX];
    int                    ncubins;
    found                 *found;
} on;

static mba_status open_library(void)
{
    if (on.opened) return MBA_OK;
    MBA_TRY(mba_cupti_open(&on.c));
    MBA_TRY(mba_library_open(mba_cupti_file(), names, &on.f));
    on.opened = true;
    return MBA_OK;
}

mba_status mba_sass_line(const void *code, size_t n, const char *function, uint32_t pc, char *file, size_t room,
                         int *line)
{
    CUpti_GetSassToSourceCorrelationParams p;
    MBA_TRY(open_library());
    memset(&p, 0, sizeof p);
    p.size = CUpti_GetSassToSourceCorrelationParamsSize;
    p.cubin = code;
    p.cubinSize = n;
    p.functionName = function;
    p.pcOffset = pc;
    CUPTI_TRY(on.c, on.f.cuptiGetSassToSourceCorrelation(&p));
    snprintf(file, room, "%s", p.fileName ? p.fileName : "");
    *line = (int)p.lineNumber;
    free(p.fileName); // the caller owns both
    free(p.dirName);
    return MBA_OK;
}

static void CUPTIAPI module_seen(void *ctx, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data)
{
    const CUpti_ModuleResourceData *m = ((const CUpti_ResourceData *)data)->resourceDescriptor;
    CUpti_GetCubinCrcParams         p;
    (void)ctx, (void)domain, (void)id;
    if (!m || !m->pCubin || on.ncubins == CUBINS_MAX) return;
    memset(&p, 0, sizeof p);
    p.size = CUpti_GetCubinCrcParamsSize;
    p.cubinSize = m->cubinSize;
    p.cubin = m->pCubin;
    if (on.f.cuptiGetCubinCrc(&p) != CUPTI_SUCCESS) return;
    for (int i = 0; i < on.ncubins; i++)
        if (on.cubins[i].crc == (uint32_t)p.cubinCrc) return; // CUPTI reports a module dozens of times
    cubin *c = &on.cubins[on.ncubins];
    *c = (cubin){ (uint32_t)p.cubinCrc, malloc(m->cubinSize), m->cubinSize };
    if (!c->bytes) return;
    memcpy(c->bytes, m->pCubin, m->cubinSize);
    on.ncubins++;
}

void mba_modules_watch(void)
{
    if (open_library() != MBA_OK) return;
    if (on.c->cuptiSubscribe(&on.subscriber, (CUpti_CallbackFunc)module_seen, NULL) != CUPTI_SUCCESS) {
        on.subscriber = NULL;
        return;
    }
    on.c->cuptiEnableCallback(1, on.subscriber, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_MODULE_LOADED);
    on.c->cuptiEnableCallback(1, on.subscriber, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_MODULE_PROFILED);
}

static void find_line(uint32_t crc, const char *function, uint64_t pc, char *file, size_t room, int *line)
{
    *file = 0;
    *line = 0;
    for (int i = 0; function && i < on.ncubins; i++)
        if (on.cubins[i].crc == crc
            && mba_sass_line(on.cubins[i].bytes, on.cubins[i].n, function, (uint32_t)pc, file, room, line) == MBA_OK)
            return;
}

/* Records share the names of functions, so equal names have the same address. */
void mba_modules_line(uint64_t crc, const char *function, uint64_t pc, char *file, size_t room, int *line)
{
    if (!on.found) on.found = calloc(FOUND, sizeof *on.found);
    found *f = on.found ? &on.found[(pc / 16 + crc) % FOUND] : NULL;
    if (f && f->function == function && f->pc == pc && f->crc == (uint32_t)crc) {
        snprintf(file, room, "%s", f->file);
        *line = f->line;
        return;
    }
    find_line((uint32_t)crc, function, pc, file, room, line);
    if (!f) return;
    *f = (found){ .pc = pc, .function = function, .crc = (uint32_t)crc, .line = *line };
    snprintf(f->file, sizeof f->file, "%s", file);
}

void mba_modules_forget(void)
{
    if (on.subscriber) on.c->cuptiUnsubscribe(on.subscriber);
    on.subscriber = NULL;
    while (on.ncubins) free(on.cubins[--on.ncubins].bytes);
    free(on.found);
    on.found = NULL;
}
