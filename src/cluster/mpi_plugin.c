// SPDX-License-Identifier: Apache-2.0
/* mpi_plugin.c -- libmambascope_mpi.so: the only code that is compiled and linked against MPI, whose types and
 * constants differ between libraries. mpi.c opens it when a launcher has started several ranks (mpi.h says what the
 * functions do). */
#include <mpi.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cluster/mpi_functions.h"

enum { TAG = 35, PART = 1 << 30 }; // counts of MPI are ints

__attribute__((visibility("default"))) int mba_mpi_join(int *rank, int *ranks, char *library, int room)
{
    int  thread, n = 0;
    char name[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int  e = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &thread);
    if (e == MPI_SUCCESS) e = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (e == MPI_SUCCESS) e = MPI_Comm_rank(MPI_COMM_WORLD, rank);
    if (e == MPI_SUCCESS) e = MPI_Comm_size(MPI_COMM_WORLD, ranks);
    if (e == MPI_SUCCESS) e = MPI_Get_library_version(name, &n);
    name[strcspn(name, ",\n")] = 0;
    snprintf(library, (size_t)room, "%s", name);
    return e;
}

__attribute__((visibility("default"))) int mba_mpi_broadcast(void *data, int bytes)
{
    return MPI_Bcast(data, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

/* Copies of posted messages that are on their way. Eight let a rank be two layers ahead of the next one (a halo and a
 * state each, forward and backward): more would only hold memory, for the slowest rank sets the pace. */
enum { POSTS = 8 };
static struct {
    void       *copy; /* NULL: free */
    MPI_Request q;
} posted[POSTS];

/* Frees the copies that have arrived. */
static int sweep(int *free_place)
{
    *free_place = -1;
    for (int k = 0; k < POSTS; k++) {
        int done = 1;
        if (posted[k].copy) {
            const int e = MPI_Test(&posted[k].q, &done, MPI_STATUS_IGNORE);
            if (e != MPI_SUCCESS) return e;
            if (done) free(posted[k].copy), posted[k].copy = NULL;
        }
        if (done) *free_place = k;
    }
    return MPI_SUCCESS;
}

/* Waits without keeping a core busy for long: threads of the other ranks may need it. */
static int wait_both(MPI_Request *q)
{
    const struct timespec nap = { 0, 20000 };
    for (int tries = 0, done = 0, e;; tries++) {
        if ((e = MPI_Testall(2, q, &done, MPI_STATUSES_IGNORE)) != MPI_SUCCESS || done) return e;
        if (tries > 200) nanosleep(&nap, NULL);
    }
}

__attribute__((visibility("default"))) int mba_mpi_exchange(const void *send, int to, void *recv, int from,
                                                            size_t bytes)
{
    int e = MPI_SUCCESS;
    for (size_t at = 0; at < bytes && e == MPI_SUCCESS; at += PART) {
        MPI_Request q[2] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL };
        const int   n = (int)(bytes - at < PART ? bytes - at : PART);
        if (from >= 0) e = MPI_Irecv((char *)recv + at, n, MPI_BYTE, from, TAG, MPI_COMM_WORLD, &q[0]);
        if (to >= 0 && e == MPI_SUCCESS)
            e = MPI_Isend((const char *)send + at, n, MPI_BYTE, to, TAG, MPI_COMM_WORLD, &q[1]);
        if (e == MPI_SUCCESS) e = wait_both(q);
    }
    return e;
}

__attribute__((visibility("default"))) int mba_mpi_post(const void *send, int to, size_t bytes)
{
    const struct timespec nap = { 0, 20000 };
    int                   e = MPI_SUCCESS, at;
    for (size_t from = 0; from < bytes && e == MPI_SUCCESS; from += PART) {
        const int n = (int)(bytes - from < PART ? bytes - from : PART);
        while ((e = sweep(&at)) == MPI_SUCCESS && at < 0) nanosleep(&nap, NULL);
        if (e != MPI_SUCCESS) return e;
        if (!(posted[at].copy = malloc((size_t)n))) return MPI_ERR_NO_MEM;
        memcpy(posted[at].copy, (const char *)send + from, (size_t)n);
        e = MPI_Isend(posted[at].copy, n, MPI_BYTE, to, TAG, MPI_COMM_WORLD, &posted[at].q);
    }
    if (e == MPI_SUCCESS) e = sweep(&at); // a receiver that waits already has it
    return e;
}

/* A transport may move a large message only inside calls of MPI by its sender (a rendezvous over TCP, for one): whoever
 * goes to wait for something else lets its messages arrive first. */
__attribute__((visibility("default"))) int mba_mpi_flush(void)
{
    const struct timespec nap = { 0, 20000 };
    for (int tries = 0, left = 1; left; tries++) {
        int       at;
        const int e = sweep(&at);
        if (e != MPI_SUCCESS) return e;
        left = 0;
        for (int k = 0; k < POSTS; k++) left += posted[k].copy != NULL;
        if (left && tries > 200) nanosleep(&nap, NULL);
    }
    return MPI_SUCCESS;
}

__attribute__((visibility("default"))) void mba_mpi_leave(void)
{
    for (int k = 0; k < POSTS; k++) {
        if (posted[k].copy) (void)!MPI_Wait(&posted[k].q, MPI_STATUS_IGNORE);
        free(posted[k].copy);
        posted[k].copy = NULL;
    }
    (void)!MPI_Finalize();
}

__attribute__((visibility("default"))) void mba_mpi_words(int error, char *text, int room)
{
    char words[MPI_MAX_ERROR_STRING] = "";
    int  n = 0;
    if (MPI_Error_string(error, words, &n) != MPI_SUCCESS) snprintf(words, sizeof words, "error %d of MPI", error);
    snprintf(text, (size_t)room, "%s", words);
}
