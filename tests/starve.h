// SPDX-License-Identifier: Apache-2.0
/* starve.h -- the n-th allocation fails, for every n; and whatever happens, nothing is leaked.
 *
 *     static mba_status work(void);                       // leaves what it made where `check` finds it
 *     static void check(void);                            // looks at it and frees it; called where `work` succeeded
 *     starve(work, check, after);                         // `after`: called in any case; NULL: nothing
 *
 * Our own malloc stands before the library's. With the address sanitizer, which has one too, and without glibc there
 * is nothing to test: MBA_STARVE is 0 then. To be included once, by a test program. */
#ifndef MBA_STARVE_H
#define MBA_STARVE_H

#include <errno.h>
#include <stdbool.h>

#include "tests/test.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

#if !defined(__GLIBC__) || defined(__SANITIZE_ADDRESS__)
#define MBA_STARVE 0
#else
#define MBA_STARVE 1

static _Thread_local long left = -1; /* -1: all succeed, k: k succeed and the next one fails */
static _Thread_local long live;      /* blocks taken and not given back */

static bool deny(void)
{
    const bool denied = left >= 0 && left-- == 0;
    if (denied) errno = ENOMEM;
    return denied;
}

static void *taken(void *p)
{
    live += p != NULL;
    return p;
}

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);
void  __libc_free(void *p);

void *malloc(size_t n) { return deny() ? NULL : taken(__libc_malloc(n)); }
void *calloc(size_t n, size_t size) { return deny() ? NULL : taken(__libc_calloc(n, size)); }
void *aligned_alloc(size_t align, size_t n) { return deny() ? NULL : taken(__libc_memalign(align, n)); }

void *realloc(void *p, size_t n)
{
    if (deny()) return NULL;
    void *q = __libc_realloc(p, n);
    live += (q != NULL) - (p != NULL && (q != NULL || !n));
    return q;
}

int posix_memalign(void **out, size_t align, size_t n)
{
    *out = aligned_alloc(align, n);
    return *out ? 0 : ENOMEM;
}

void free(void *p)
{
    live -= p != NULL;
    __libc_free(p);
}

/* Runs `work` with every allocation failing in turn, until one run has none left to fail. Returns how many runs
 * failed. A first run makes what is made once and kept. */
static inline long starve(mba_status (*work)(void), void (*check)(void), void (*after)(void))
{
    long failures = 0;
    assert_ok(work());
    check();
    for (long k = 0;; k++) {
        const long before = live;
        left = k;
        const mba_status st = work();
        const bool       ran_dry = left < 0;
        left = -1;
        if (st != MBA_OK) assert_fails(st, MBA_E_NOMEM, "");
        if (st == MBA_OK) check();
        if (after) after();
        if (live != before) print_error("%ld blocks leaked where allocation %ld failed\n", live - before, k);
        assert_true(live == before);
        if (!ran_dry) break;
        failures += st != MBA_OK;
    }
    assert_true(failures > 2);
    return failures;
}

#endif
#endif
