// SPDX-License-Identifier: Apache-2.0
/* transcript_train_test.c -- tests/transcripts/train.tsv: see transcript.h. */
#include "tests/transcript.h"

TRANSCRIPT_MAIN("train")
