// SPDX-License-Identifier: Apache-2.0
/* transcript_data_test.c -- tests/transcripts/data.tsv: see transcript.h. */
#include "tests/transcript.h"

TRANSCRIPT_MAIN("data")
