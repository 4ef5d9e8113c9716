// SPDX-License-Identifier: Apache-2.0
/* mpi_plugin.c -- libmambascope_mpi.so: the only code that is compiled and linked against MPI, whose types and
 * constants differ between libraries. mpi.c opens it when a launcher has started several ranks (mpi.h says what the
 * functions do). */
#include <mpi.h>
#include <stddef.h>
#include <stdio.h>
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

__attribute__((visibility("default"))) void mba_mpi_leave(void) { (void)!MPI_Finalize(); }

__attribute__((visibility("default"))) void mba_mpi_words(int error, char *text, int room)
{
    char words[MPI_MAX_ERROR_STRING] = "";
    int  n = 0;
    if (MPI_Error_string(error, words, &n) != MPI_SUCCESS) snprintf(words, sizeof words, "error %d of MPI", error);
    snprintf(text, (size_t)room, "%s", words);
}
