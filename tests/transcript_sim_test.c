// SPDX-License-Identifier: Apache-2.0
/* transcript_sim_test.c -- tests/transcripts/sim.tsv: see transcript.h. */
#include "tests/transcript.h"

TRANSCRIPT_MAIN("sim")
