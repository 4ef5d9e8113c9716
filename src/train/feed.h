// SPDX-License-Identifier: Apache-2.0
/* feed.h -- what a model is trained and judged on, batch by batch: text, images or graphs behind one face.
 *
 *     mba_feed *f;
 *     MBA_TRY(mba_feed_open(&f, &model, &(mba_feed_options){ .data = "shards", .seed = 1 }));
 *     MBA_TRY(mba_feed_stage(f, &step));                   // chooses the micro-batches of the next step
 *     MBA_TRY(mba_feed_bind(f, &session, 0, &step));       // writes the first into the inputs of a session
 *     mba_feed_close(f);                                   // NULL is fine
 *
 * What is staged depends on the options and on f->at alone, so a run resumes exactly from it. text_feed.c,
 * image_feed.c and graph_feed.c implement it; the loop (train.c) knows only this. */
#ifndef MBA_FEED_H
#define MBA_FEED_H

#include "data/loader.h"
#include "train/session.h"

typedef struct mba_feed_options {
    const char *data;       /* files, or the name of a made-up set; NULL: made up, labelled so */
    const char *tokenizer;  /* text: of the data, to be kept with the model; NULL: what lies beside the data */
    bool        held_out;   /* the part that is not trained on */
    double      validation; /* how much that is, of data without a part of its own */
    bool        in_order;   /* not shuffled */
    bool        targets_within_documents;
    int64_t     end_of_text; /* text: 1 + the token between documents; 0: what the data says */
    uint64_t    seed;
    int64_t     micros;                   /* micro-batches of a step; 0: 1 */
    bool        plain;                    /* images: judged, not trained on: no augmentation, none left out */
    double      smoothing, mixup, cutmix; /* images: instead of the recipe's; negative: as it is */
    bool        whole;                    /* graphs: all parts, as stored, in one batch; `fit` makes room for it */
    int64_t     made;                     /* graphs: how many are made up where there is no data; 0: five batches */
    int64_t     workers;                  /* images: threads that decode ahead; 0: as many as cores, less one */
} mba_feed_options;

/* How good predictions are. */
enum { MBA_SCORES_MAX = 3 };
typedef struct mba_task_score {
    const char *name;
    double      value;
} mba_task_score;

typedef struct mba_feed mba_feed;

typedef struct mba_feed_type {
    /* Fills what the model leaves open and the data knows: classes, the side of the images. NULL: nothing. */
    mba_status (*fit)(mba_model *m, const mba_feed_options *o);
    /* *out stays NULL where a held-out part is asked for and there is none. */
    mba_status (*open)(mba_feed **out, const mba_model *m, const mba_feed_options *o);
    mba_status (*stage)(mba_feed *f, mba_step *step);
    mba_status (*bind)(mba_feed *f, mba_session *s, int64_t micro, mba_step *step);
    mba_status (*score)(mba_feed *f, const mba_session *s); /* NULL: there is only the loss */
    mba_status (*scores)(mba_feed *f, mba_task_score out[MBA_SCORES_MAX], int *n);
    void (*describe)(const mba_feed *f, char *text, size_t room);
    void (*close)(mba_feed *f);
} mba_feed_type;

/* What every feed begins with. */
struct mba_feed {
    const mba_feed_type *type;
    mba_position         at;   /* of the next step */
    int64_t              size; /* tokens, images or graphs of this part */
    int64_t              micros;
    int64_t              units;    /* of what is staged: tokens, images, graphs */
    int64_t              targets;  /* of the micro-batch that was bound last: what its mean loss is a mean of */
    int64_t              left_out; /* damaged items that others stand in for, so far */
    const char          *story;    /* of the last of them; "" or NULL: none */
};

MBA_MUST mba_status mba_feed_fit(mba_model *m, const mba_feed_options *o);
MBA_MUST mba_status mba_feed_open(mba_feed **out, const mba_model *complete, const mba_feed_options *o);
void                mba_feed_close(mba_feed *f);

/* Sets step->loss_scale, f->units, and moves f->at on. */
MBA_MUST mba_status mba_feed_stage(mba_feed *f, mba_step *step);

/* Fills the inputs and sets step->micro and step->count. */
MBA_MUST mba_status mba_feed_bind(mba_feed *f, mba_session *s, int64_t micro, mba_step *step);

/* Runs a whole pass (at most `batches` where that is > 0) forward over the feed from its beginning: the mean loss and
 * the scores of its task. The session must keep its logits where there are scores. */
typedef struct mba_validation_result {
    double         loss;
    int64_t        targets, units;
    mba_task_score score[MBA_SCORES_MAX];
    int            scores;
} mba_validation_result;
MBA_MUST mba_status mba_feed_evaluate(mba_validation_result *out, mba_feed *f, mba_session *s, int64_t batches,
                                      uint64_t seed);

/* True of a model whose feed has scores: its sessions of evaluation must keep the logits. */
bool mba_feed_scores(mba_task task);

/* The tokenizer of the tokens of a feed of text: `given` ("bytes", a tokenizer.json), or what lies beside them; n 0: it
 * is not known. MBA_E_ARG where the data says that it was made with another one. */
MBA_MUST mba_status mba_feed_tokenizer(mba_tokenizer_files *out, const mba_feed *text, const char *given);

/* "4194304 tokens in 1 file (SYNTHETIC text)" */
typedef struct mba_feed_text {
    char text[320];
} mba_feed_text;
mba_feed_text mba_feed_words(const mba_feed *f);

/* Fills the inputs of a session as a benchmark wants them: random values, or a made-up batch where values mean
 * something together. */
MBA_MUST mba_status mba_feed_example(mba_session *s, mba_step *step);

extern const mba_feed_type mba_text_feed, mba_image_feed, mba_graph_feed;

#endif
