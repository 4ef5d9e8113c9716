// SPDX-License-Identifier: Apache-2.0
/* temporary.h -- a folder for what lies on the disk while a process runs: $TMPDIR/mambascope-XXXXXX, else in /tmp.
 *
 *     mba_temporary t = { 0 };
 *     MBA_TRY(mba_temporary_create(&t, "synthetic data", "give --data"));
 *     mba_temporary_remove(&t);                         // zeroed ones are fine
 *
 * A lock in the folder says that its process lives. Whoever makes one first removes those of this user whose process
 * was killed; a folder without a lock is somebody else's and stays. */
#ifndef MBA_TEMPORARY_H
#define MBA_TEMPORARY_H

#include "core/lock.h"

typedef struct mba_temporary {
    char      path[256]; /* "": none */
    mba_lock *lock;
} mba_temporary;

/* `what` it is for and what else the user can do ("or .."), for the message where there is no place. */
MBA_MUST mba_status mba_temporary_create(mba_temporary *out, const char *what, const char *instead);

/* With the files and folders of files in it. */
void mba_temporary_remove(mba_temporary *t);

#endif
