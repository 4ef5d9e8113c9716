/* generate.h -- which tokenizer belongs to a checkpoint. */
#ifndef MBA_CLI_GENERATE_H
#define MBA_CLI_GENERATE_H

#include "data/tokenizer.h"

/* The one given, the checkpoint's own tokenizer.json, or bytes where the vocabulary is a byte model's. */
MBA_MUST mba_status mba_generate_tokenizer(mba_tokenizer **t, const char *given, const char *checkpoint);

#endif
