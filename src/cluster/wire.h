// SPDX-License-Identifier: Apache-2.0
/* wire.h -- the sockets of channel.c: messages with a head, how ranks find and greet rank 0. */
#ifndef MBA_WIRE_H
#define MBA_WIRE_H

#include <stdint.h>

#include "cluster/channel.h"

enum { MBA_WIRE_HOST = 64 };

typedef enum mba_wire_type {
    MBA_WIRE_HELLO = 1,
    MBA_WIRE_WELCOME, /* with the host of rank 0 */
    MBA_WIRE_REFUSED, /* with the reason */
    MBA_WIRE_PULSE,
    MBA_WIRE_PIECE,  /* of gather_all, to rank 0 */
    MBA_WIRE_ALL,    /* its result */
    MBA_WIRE_FAILED, /* to rank 0: this rank ends with an error of its own */
    MBA_WIRE_REPORT, /* to rank 0: the links of this rank have failed */
    MBA_WIRE_END,    /* from rank 0: the run ends */
    MBA_WIRE_BYE
} mba_wire_type;

typedef struct mba_wire_head {
    uint32_t magic, type;
    uint64_t serial, bytes;
} mba_wire_head;

typedef struct mba_wire_hello {
    int32_t       rank, ranks, pid, unused;
    unsigned char secret[MBA_SECRET_BYTES];
    char          host[MBA_WIRE_HOST], version[64];
} mba_wire_hello;

typedef struct mba_wire_end {
    int32_t rank, code;
    char    text[1400];
} mba_wire_end;

double mba_wire_seconds(void);
void   mba_wire_host(char host[MBA_WIRE_HOST]);

/* A message of at most MBA_RANKS_MAX small pieces. The receiver frees *data, NULL for an empty message. Fails with
 * MBA_E_DEVICE if the limit passes in the middle of a message or the network is gone, else with MBA_E_IO. */
MBA_MUST mba_status mba_wire_send(int fd, mba_wire_type type, uint64_t serial, const void *data, size_t bytes);
MBA_MUST mba_status mba_wire_receive(int fd, mba_wire_head *head, char **data);

/* Bounds how long a send or a half received message may take. */
void mba_wire_limit(int fd, double seconds);
void mba_wire_hang_up(int fd); /* wakes the thread that reads; close it afterwards */

/* Rank 0: accepts the others until `until` (mba_wire_seconds). Strangers are sent away. */
MBA_MUST mba_status mba_wire_accept_all(int *fd, char (*host)[MBA_WIRE_HOST], int listener, const mba_wire_hello *me,
                                        double until);
/* The others: tries the addresses in turn until one of them answers as rank 0. */
MBA_MUST mba_status mba_wire_join(int *fd, char host[MBA_WIRE_HOST], const char *contacts, const mba_wire_hello *me,
                                  double until);

#endif
