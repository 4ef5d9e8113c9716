// SPDX-License-Identifier: Apache-2.0
/* mpi_functions.h -- what libmambascope_mpi.so exports (mpi_plugin.c); mpi.c opens it. Functions return 0 or an error
 * of MPI, of which mba_mpi_words makes a sentence. */
#ifndef MBA_MPI_FUNCTIONS_H
#define MBA_MPI_FUNCTIONS_H

#include <stddef.h>

int  mba_mpi_join(int *rank, int *ranks, char *library, int room);                   /* library: "Open MPI v4.1.4" */
int  mba_mpi_broadcast(void *data, int bytes);                                       /* from rank 0 */
int  mba_mpi_exchange(const void *send, int to, void *recv, int from, size_t bytes); /* world.h */
int  mba_mpi_post(const void *send, int to, size_t bytes);                           /* world.h */
int  mba_mpi_flush(void); /* returns when all posted messages are on their way without this rank's help */
void mba_mpi_leave(void);
void mba_mpi_words(int error, char *text, int room);

#endif
