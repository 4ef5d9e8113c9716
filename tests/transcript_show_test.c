// SPDX-License-Identifier: Apache-2.0
/* transcript_show_test.c -- tests/transcripts/show.tsv: see transcript.h. */
#include "tests/transcript.h"

TRANSCRIPT_MAIN("show")
