// SPDX-License-Identifier: Apache-2.0
/* lock.h -- a lock that lets one process at a time write into a folder, or create a file.
 *
 *     mba_lock *lock = NULL;
 *     MBA_TRY(mba_lock_folder(&lock, "run"));           // run/.lock; creates a missing folder
 *     mba_lock_release(lock);                           // NULL is fine
 *
 * Take the lock before you look at what is there: another process may change it before you write. The operating system
 * ends a lock with its process, however that ends. The lock file names the process that holds it and is removed on
 * release. If a process is killed, the next one takes over its lock file and removes the temporary files of writers
 * (file.h) that the killed process had open. On a file system without locks, nobody is kept out. */
#ifndef MBA_LOCK_H
#define MBA_LOCK_H

#include "core/status.h"

typedef struct mba_lock mba_lock;

/* MBA_E_ARG if another process holds the lock (the message names it); MBA_E_IO if the lock file cannot be created. */
MBA_MUST mba_status mba_lock_folder(mba_lock **out, const char *folder);

/* For a file or a folder that does not exist yet: .NAME.lock beside it, or beside the target of a link. */
MBA_MUST mba_status mba_lock_beside(mba_lock **out, const char *path);

/* For readers of a folder: nobody writes there meanwhile, other readers may enter. MBA_OK and no lock if the lock file
 * cannot be created: a reader without write permission does without. */
MBA_MUST mba_status mba_lock_shared(mba_lock **out, const char *folder);

/* Also removes the folder if it was created for the lock and is still empty. */
void mba_lock_release(mba_lock *l);

#endif
