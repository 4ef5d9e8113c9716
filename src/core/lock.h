// SPDX-License-Identifier: Apache-2.0
/* lock.h -- one process at a time writes into a folder, or makes a file.
 *
 *     mba_lock *lock = NULL;
 *     MBA_TRY(mba_lock_folder(&lock, "run"));           // run/.lock; the folder is made where it is not there
 *     mba_lock_release(lock);                           // NULL is fine
 *
 * Take it before looking at what is there: what was seen without it may be another's by the time it is written to. The
 * kernel ends a lock with its process, however that ends. The file of a lock says which process holds it; it goes when
 * the lock is released, and what a killed process leaves of it is taken over by the next, which also removes the
 * temporary files of writers (file.h) that the killed one had open. On a file system without
 * locks nobody is kept out. */
#ifndef MBA_LOCK_H
#define MBA_LOCK_H

#include "core/status.h"

typedef struct mba_lock mba_lock;

/* MBA_E_ARG where another process has it, which the message names; MBA_E_IO where the file of the lock cannot be
 * made. */
MBA_MUST mba_status mba_lock_folder(mba_lock **out, const char *folder);

/* For a file or a folder that is yet to be made: .NAME.lock beside it, or beside what a link leads to. */
MBA_MUST mba_status mba_lock_beside(mba_lock **out, const char *path);

/* For who reads from a folder of another: nobody writes there meanwhile, and others may read. MBA_OK and no lock where
 * its file cannot be made: whoever may not write there does not lock it either. */
MBA_MUST mba_status mba_lock_shared(mba_lock **out, const char *folder);

/* A folder that was made for the lock and is still empty goes with it. */
void mba_lock_release(mba_lock *l);

#endif
