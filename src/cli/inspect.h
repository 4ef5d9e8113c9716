// SPDX-License-Identifier: Apache-2.0
/* inspect.h -- shows what a data set holds: recognises it by content, counts, prints text or JSON.
 *
 *     MBA_TRY(mba_inspect("cifar-10-batches-bin", &(mba_inspect_options){ .json = false }));        // prints
 *
 * Every format fills one report: facts in the order of printing (a JSON object, so that both ways out say the same)
 * and a few small pictures. Reading a set is what training does: damage gives the reader's own error. */
#ifndef MBA_INSPECT_H
#define MBA_INSPECT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/file.h"
#include "data/image_set.h"

typedef struct mba_inspect_options {
    bool        json;
    const char *field; /* the key of the text in JSON lines; NULL: "text" */
    json_t     *into;  /* with json: an array that takes the object; NULL: it is printed */
} mba_inspect_options;

MBA_MUST mba_status mba_inspect(const char *path, const mba_inspect_options *o);

/* ---- what the files of this command share ---- */

enum { MBA_PICTURES = 3, MBA_PICTURE_SIDE = 24 };

typedef struct mba_report {
    const char *path, *field;
    int64_t     bytes; /* of a file; 0: a folder */
    json_t     *facts;
    mba_image   picture[MBA_PICTURES]; /* at most MBA_PICTURE_SIDE a side */
    char        caption[MBA_PICTURES][MBA_PICTURE_SIDE + 1];
    int         pictures;
} mba_report;

/* Facts. Text that is not UTF-8 is shown as ASCII. */
void mba__fact_int(json_t *to, const char *key, int64_t value);
void mba__fact_text(json_t *to, const char *key, const char *text);
/* The stable name of the format and a sentence for people. */
void mba__fact_format(mba_report *r, const char *format, const char *about);

/* Least, mean and largest of many numbers, and how many lie in 0, 1, 2..3, 4..7, .. */
enum { MBA_SPREAD_BINS = 65 };
typedef struct mba_value_range {
    int64_t n, bin[MBA_SPREAD_BINS];
    double  low, high, sum;
} mba_value_range;

void mba__spread_add(mba_value_range *s, double value);
void mba__fact_spread(json_t *to, const char *key, const mba_value_range *s, bool histogram); /* nothing where n is 0 */

/* A count as one row of a list of bars: {"class": name, "count": count}. */
void mba__fact_count(json_t *list, const char *name, int64_t count);

/* A list of counts by class; of very many classes only those that occur. `names` may be NULL. */
void mba__fact_classes(json_t *to, const int64_t *count, int64_t classes, const mba_image_set *names);

/* Keeps a small copy of an image while there is room. */
MBA_MUST mba_status mba__report_picture(mba_report *r, const mba_image *m, const char *caption);

/* As people read it; `colour` draws the pictures in 24-bit colour. */
void mba__report_print(const mba_report *r, FILE *f, bool colour);

/* Files of one kind (data/recognise.h). `m`: the file as it lies on disk, perhaps compressed. */
MBA_MUST mba_status mba__inspect_npy(mba_report *r, const mba_map *m);
MBA_MUST mba_status mba__inspect_safetensors(mba_report *r, const mba_map *m);
MBA_MUST mba_status mba__inspect_tokenizer(mba_report *r, const mba_map *m);
MBA_MUST mba_status mba__inspect_json_lines(mba_report *r, const mba_map *m);
MBA_MUST mba_status mba__inspect_json(mba_report *r, const mba_map *m);
MBA_MUST mba_status mba__inspect_text(mba_report *r, const mba_map *m);
MBA_MUST mba_status mba__inspect_edge_list(mba_report *r, const mba_map *m);
MBA_MUST mba_status mba__inspect_tokens(mba_report *r, const mba_map *m);

/* True if the path is such a file or folder; then *st is the result. */
bool                mba__inspect_image_file(mba_status *st, mba_report *r, const mba_map *m);
bool                mba__inspect_graph_file(mba_status *st, mba_report *r, const mba_map *m);
bool                mba__inspect_graph_folder(mba_status *st, mba_report *r);
bool                mba__inspect_made_graphs(mba_status *st, mba_report *r);
bool                mba__inspect_token_folder(mba_status *st, mba_report *r);
bool                mba__inspect_checkpoint(mba_status *st, mba_report *r);
MBA_MUST mba_status mba__inspect_image_folder(mba_report *r);

#endif
