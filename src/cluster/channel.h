// SPDX-License-Identifier: Apache-2.0
/* channel.h -- small messages between the ranks of a run, and who notices that one of them is gone: a TCP star, rank 0
 * in its middle, with a thread of its own in every rank.
 *
 *     MBA_TRY(mba_channel_listen(&listener, contacts, 0));                  // rank 0; others are told `contacts`
 *     MBA_TRY(mba_channel_open(&c, &(mba_channel_options){ .rank = r, .ranks = R, .listener = listener,
 *                                                          .contacts = contacts, .secret = secret, .lost = end }));
 *     MBA_TRY(mba_channel_gather_all(c, all, &mine, sizeof mine));
 *     mba_channel_close(c);                                                 // waits for all ranks; NULL is fine
 *
 * Every rank sends a pulse every two seconds, with its step, whether it moves and its processor time. A rank is lost
 *
 *   - whose connection closes, or whose pulse stays away for `timeout_s`: it was killed, it is stopped;
 *   - that works or computes (world.h) and uses no processor for as long: it waits for a disk or for itself;
 *   - that computes, after its first step, without moving for as long, and 20 times longer than any rank has taken for
 *     one move: it turns in a circle.
 *
 * Rank 0 tells all others, and each calls `lost`, which ends the process: the main thread may sit in a collective that
 * never ends. */
#ifndef MBA_CHANNEL_H
#define MBA_CHANNEL_H

#include "core/world.h"

enum {
    MBA_SECRET_BYTES = 16,
    MBA_CONTACTS_MAX = 512,
    MBA_LOST_CODE = 75 /* exit code of a run that lost a rank: EX_TEMPFAIL, start it again */
};

/* How a run ends before its time. */
typedef struct mba_channel_end {
    int  rank;       /* whose fault it is; -1: nobody's alone */
    int  code;       /* exit code: MBA_LOST_CODE, or that of a rank that failed by itself */
    bool prints;     /* this rank prints the text: rank 0, or a rank that lost rank 0 */
    char text[1400]; /* "rank 3 (host) is lost\nwhy: ..." */
} mba_channel_end;

typedef struct mba_channel_options {
    int                  rank, ranks;
    int                  listener;                       /* rank 0: of mba_channel_listen; the channel closes it */
    const char          *contacts;                       /* of rank 0: "PORT address address ..", or names */
    const char          *version;                        /* all ranks run the same program; NULL: not compared */
    const unsigned char *secret;                         /* MBA_SECRET_BYTES that keep strangers out */
    double               timeout_s;                      /* until a silent rank is lost; 0: 20 */
    double               start_s;                        /* until all ranks must have come; 0: 60 */
    void (*lost)(void *ctx, const mba_channel_end *end); /* called once, by another thread; must not return */
    void *ctx;
    /* Asked every two seconds, by that thread: a failure of this rank's links ends the run. The message names a rank
     * that is lost, or this rank if all answer. NULL: none. */
    mba_status (*check)(void);
} mba_channel_options;

typedef struct mba_channel mba_channel;

/* Opens a port for the others; 0: any that is free. `contacts` names it and the addresses of this host. */
MBA_MUST mba_status mba_channel_listen(int *listener, char contacts[MBA_CONTACTS_MAX], int port);

/* Connects all ranks. Fails if one does not come, runs another version or has the number of another. */
MBA_MUST mba_status mba_channel_open(mba_channel **out, const mba_channel_options *o);
void                mba_channel_close(mba_channel *c);

/* See world.h. At most MBA_WORLD_SMALL bytes a rank. */
MBA_MUST mba_status mba_channel_gather_all(mba_channel *c, void *all, const void *mine, size_t bytes);
/* Notes that this rank moves; returns its state before. A negative step: the last one. */
mba_world_state mba_channel_mark(mba_channel *c, int64_t step, mba_world_state state);
void            mba_channel_set_timeout(mba_channel *c, double seconds);

/* This rank ends with an error of its own. Returns true if rank 0 has been told and prints it; not at all if `check`
 * fails or `lost` has been called, whose matter the end is then. */
bool mba_channel_fail(mba_channel *c, int code, const char *text);

const char *mba_channel_host(const mba_channel *c); /* of this rank */

#endif
