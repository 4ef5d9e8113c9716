// SPDX-License-Identifier: Apache-2.0
/* transcript_forms_test.c -- tests/transcripts/forms.tsv: see transcript.h. */
#include "tests/transcript.h"

TRANSCRIPT_MAIN("forms")
