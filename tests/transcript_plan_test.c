// SPDX-License-Identifier: Apache-2.0
/* transcript_plan_test.c -- tests/transcripts/plan.tsv: see transcript.h. */
#include "tests/transcript.h"

TRANSCRIPT_MAIN("plan")
