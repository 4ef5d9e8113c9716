// SPDX-License-Identifier: Apache-2.0
/* notes.h -- prints notes about a checkpoint's config.json, as lines "note: .." on stderr. */
#ifndef MBA_NOTES_H
#define MBA_NOTES_H

#include "core/status.h"

MBA_MUST mba_status mba_notes_print(const char *checkpoint);

#endif
