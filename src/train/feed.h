// SPDX-License-Identifier: Apache-2.0
/* feed.h -- the batches on which a model is trained and evaluated: one interface for text, images and graphs.
 *
 *     mba_feed *f;
 *     MBA_TRY(mba_feed_open(&f, &model, &(mba_feed_options){ .data = "shards", .seed = 1 }));
 *     MBA_TRY(mba_feed_stage(f, &step));                   // chooses the micro-batches of the next step
 *     MBA_TRY(mba_feed_bind(f, &session, 0, &step));       // writes the first into the inputs of a session
 *     mba_feed_close(f);                                   // NULL is fine
 *
 * The batches depend only on the options and on f->at, so a run resumes exactly from that position. text_feed.c,
 * image_feed.c and graph_feed.c implement the interface; the loop (train.c) knows nothing else. */
#ifndef MBA_FEED_H
#define MBA_FEED_H

#include "data/loader.h"
#include "train/session.h"

typedef struct mba_feed_options {
    const char *data;       /* files, or the name of a synthetic set; NULL: synthetic, and labelled so */
    const char *tokenizer;  /* text: of the data, saved with the model; NULL: the one beside the data */
    bool        held_out;   /* the validation part instead of the training part */
    double      validation; /* its fraction, for data without a validation part of its own */
    bool        in_order;   /* not shuffled */
    bool        targets_within_documents;
    int64_t     end_of_text; /* text: 1 + the token between documents; 0: the one that the data names */
    uint64_t    seed;
    int64_t     micros;                   /* micro-batches of a step; 0: 1 */
    int64_t     slots, first;             /* of several ranks: micro-batches of a step over all of them, of which this
                                             feed binds `micros` from `first` on; slots 0: all are its own */
    bool        means;                    /* losses of micro-batches are means of their own: graphs may have several */
    bool        plain;                    /* images for evaluation: no augmentation, all of them */
    double      smoothing, mixup, cutmix; /* images: override the recipe; negative: the recipe's */
    bool        whole;                    /* graphs: all parts, as stored, in one batch; `fit` sets its capacity */
    int64_t     made;                     /* graphs: size of a synthetic collection; 0: five batches */
    int64_t     workers;                  /* images: decoding threads; 0: one per core, less one */
} mba_feed_options;

/* One measure of the quality of predictions. */
enum { MBA_SCORES_MAX = 3 };
typedef struct mba_task_score {
    const char *name;
    double      value;
} mba_task_score;

typedef struct mba_feed mba_feed;

typedef struct mba_feed_type {
    /* Fills fields of the model from the data: number of classes, size of images. NULL: nothing to fill. */
    mba_status (*fit)(mba_model *m, const mba_feed_options *o);
    /* *out stays NULL if the held-out part is asked for and there is none. */
    mba_status (*open)(mba_feed **out, const mba_model *m, const mba_feed_options *o);
    mba_status (*stage)(mba_feed *f, mba_step *step);
    mba_status (*bind)(mba_feed *f, mba_session *s, int64_t micro, mba_step *step);
    mba_status (*score)(mba_feed *f, const mba_session *s); /* counts the last batch; NULL: only the loss */
    mba_status (*scores)(mba_feed *f, mba_task_score out[MBA_SCORES_MAX], int *n);
    void (*describe)(const mba_feed *f, char *text, size_t room);
    void (*close)(mba_feed *f);
} mba_feed_type;

/* The first member of every feed. */
struct mba_feed {
    const mba_feed_type *type;
    mba_position         at;   /* of the next step */
    int64_t              size; /* tokens, images or graphs of this part */
    int64_t              micros, slots, first;
    int64_t              units;    /* tokens, images or graphs of the staged step: of its own micro-batches */
    int64_t              valid;    /* their targets; 0: the loss of a micro-batch is a mean of its own */
    int64_t              targets;  /* over which the loss of the last bound micro-batch is a mean */
    int64_t              left_out; /* damaged items that were replaced so far */
    const char          *story;    /* message about the last of them; "" or NULL: none */
};

MBA_MUST mba_status mba_feed_fit(mba_model *m, const mba_feed_options *o);
MBA_MUST mba_status mba_feed_open(mba_feed **out, const mba_model *complete, const mba_feed_options *o);
void                mba_feed_close(mba_feed *f);

/* Sets step->loss_scale, f->units and f->valid, and advances f->at by the micro-batches of all ranks. The loss scale is
 * that of one rank: several add f->valid. */
MBA_MUST mba_status mba_feed_stage(mba_feed *f, mba_step *step);

/* Fills the inputs and sets step->micro (of all ranks) and step->count. */
MBA_MUST mba_status mba_feed_bind(mba_feed *f, mba_session *s, int64_t micro, mba_step *step);

/* Evaluates the whole feed from its beginning (at most `batches`, if > 0): the mean loss and the scores of its task. If
 * there are scores, the session must have logits as a result. */
typedef struct mba_validation_result {
    double         loss;
    int64_t        targets, units;
    mba_task_score score[MBA_SCORES_MAX];
    int            scores;
} mba_validation_result;
MBA_MUST mba_status mba_feed_evaluate(mba_validation_result *out, mba_feed *f, mba_session *s, int64_t batches,
                                      uint64_t seed);

/* True for tasks whose feed has scores: sessions for evaluation must have logits as a result. */
bool mba_feed_scores(mba_task task);

/* The tokenizer of a text feed: `given` ("bytes", a tokenizer.json), or the one beside the tokens; n 0: unknown. Fails
 * with MBA_E_ARG if the data names another one than `given`. */
MBA_MUST mba_status mba_feed_tokenizer(mba_tokenizer_files *out, const mba_feed *text, const char *given);

/* A description: "4194304 tokens in 1 file (SYNTHETIC text)" */
typedef struct mba_feed_text {
    char text[320];
} mba_feed_text;
mba_feed_text mba_feed_words(const mba_feed *f);

/* Fills the inputs of a session for a benchmark: random values, or a synthetic batch where values must fit together. */
MBA_MUST mba_status mba_feed_example(mba_session *s, mba_step *step);

extern const mba_feed_type mba_text_feed, mba_image_feed, mba_graph_feed;

#endif
