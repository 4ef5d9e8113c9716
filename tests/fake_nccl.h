// SPDX-License-Identifier: Apache-2.0
/* fake_nccl.h -- what the files of the library in the place of NCCL share.
 *
 *     fake_exchange(c, group, n);                         // by files; waits for what the others send
 */
#ifndef MBA_FAKE_NCCL_H
#define MBA_FAKE_NCCL_H

#include <stddef.h>

enum { FAKE_GROUP_MOST = 16 };

typedef struct fake_comm fake_comm;

typedef struct fake_message {
    void  *at;
    size_t n;
    int    peer, sends;
} fake_message;

void fake_exchange(fake_comm *c, const fake_message *m, int n);
void fake_gather(fake_comm *c, void *x, size_t n); /* pieces of n bytes, in place */

/* The same for memory of a GPU, in order of a stream, also while that is captured. */
void fake_gpu_open(void);
int  fake_gpu_is_open(void);
void fake_gpu_exchange(fake_comm *c, const fake_message *m, int n, void *stream);
void fake_gpu_gather(fake_comm *c, void *x, size_t n, size_t all, void *stream);

#endif
