// SPDX-License-Identifier: Apache-2.0
/* notes.c -- see notes.h. */
#include "cli/notes.h"

#include <stdio.h>
#include <string.h>

#include "cli/say.h"
#include "train/checkpoint.h"

mba_status mba_notes_print(const char *checkpoint)
{
    mba_hf_notes notes;
    MBA_TRY(mba_checkpoint_notes(&notes, checkpoint));
    for (char *line = strtok(notes.text, "\n"); line; line = strtok(NULL, "\n"))
        mba_say(stderr, "note: '%s': %s\n", checkpoint, line);
    return MBA_OK;
}
