// SPDX-License-Identifier: Apache-2.0
/* train.c -- the training loop (train.h): prepares a run, takes steps, validates, and decides when to save.
 * train_state.c saves, restores and logs. While the device computes, the loop fills the inputs of the next
 * micro-batch. */
#include "train/train.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "train/checkpoint.h"
#include "train/text_data.h"
#include "train/train_run.h"
#include "train/watchdog.h"

enum { BAD_STEPS_MAX = 8 }; // so many skipped steps in a row end a run

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- preparing ---- */

/* Plans a second session for validation. Models with a training mode, averaged models and models that carry states need
 * one; carried states then stay as training left them. So does a run whose ranks share sequences: rank 0 validates
 * whole ones, alone. It is planned before any memory is allocated. */
static mba_status plan_judge(mba__run *r, const mba_session_options *training)
{
    mba_session_options so = *training;
    so.backward = so.update = so.accumulate = false;
    so.place = (mba_place){ 0, 1 };
    so.world = NULL;
    if (so.model.task == MBA_TASK_TEXT) so.model.lm.carry = false, so.model.lm.sequence = (mba_place){ 0, 1 };
    mba_model_outputs(&so.model, true, mba_feed_scores(so.model.task));
    return mba_session_plan(&r->judge, &so);
}

static mba_status open_feeds(mba__run *r, const mba_feed_options *data)
{
    mba_feed_options fo = *data;
    fo.seed = r->o->seed;
    fo.micros = r->micros;
    fo.slots = r->slots;
    fo.first = r->world ? r->world->rank / r->parts * r->micros : 0;
    fo.means = r->world || r->o->tree;
    fo.held_out = false;
    MBA_TRY(mba_feed_open(&r->train, &r->s.model, &fo));
    fo.micros = fo.slots = 1;
    fo.first = 0;
    fo.held_out = true;
    mba_model whole = r->s.model;
    if (whole.task == MBA_TASK_TEXT) whole.lm.sequence = (mba_place){ 0, 1 };
    return mba_feed_open(&r->valid, &whole, &fo);
}

/* What several ranks, or sums as of several, cannot do. */
static mba_status check_slots(const mba__run *r)
{
    if (r->o->carry && r->world)
        return mba_fail(MBA_E_UNSUPPORTED,
                        "--carry with several ranks\nwhy: a micro-batch continues the one before it, so "
                        "they cannot be computed at once\nfix: leave it out, or start one process");
    return MBA_OK;
}

/* Plans and binds the sessions and opens the data. Takes the lock before it looks into the folder: two runs in one
 * folder would write into each other's log and take each other's checkpoints for their own. */
static mba_status begin(mba__run *r)
{
    mba_session_options so = r->o->session;
    r->world = r->o->world;
    const bool writes = r->o->out && mba__run_writes(r);
    if (writes && !r->o->lock) MBA_TRY(mba_lock_folder(&r->lock, r->o->out));
    if (writes && !r->o->resume) MBA_TRY(mba_checkpoint_require_empty(r->o->out));
    r->micros = r->o->micros > 0 ? r->o->micros : 1;
    r->parts = so.model.task == MBA_TASK_TEXT && so.model.lm.sequence.ranks > 1 ? so.model.lm.sequence.ranks : 1;
    mba_assert(r->parts == 1 || (r->world && r->world->ranks % r->parts == 0));
    r->slots = r->micros * (r->world ? r->world->ranks / r->parts : 1);
    MBA_TRY(check_slots(r));
    r->step = (mba_step){ .seed = r->o->seed };
    r->guard = (mba_guard){ .factor = r->o->guard };
    so.backward = so.update = true;
    so.accumulate = r->slots * r->parts > 1;
    so.world = r->world;
    if (r->world) so.place = (mba_place){ r->world->rank, r->world->ranks };
    if (so.model.task == MBA_TASK_TEXT) so.model.lm.carry = r->o->carry;
    MBA_TRY(mba_feed_fit(&so.model, &r->o->feed));
    MBA_TRY(mba_session_plan(&r->s, &so));
    MBA_TRY(open_feeds(r, &r->o->feed));
    if (so.model.task == MBA_TASK_TEXT)
        MBA_TRY(
            mba_run_tokenizer(&r->tokenizer, r->train, r->o->feed.tokenizer, r->o->resume ? r->o->resume : r->o->init));
    r->s.tokenizer = &r->tokenizer;
    if (r->o->valid_every > 0 && !r->valid)
        return mba_fail(MBA_E_ARG, "--valid-every is set, but the data has no validation part\nfix: add "
                                   "--valid-fraction 0.1 to hold out a tenth of it");
    if (r->valid && mba__run_writes(r)
        && (mba_task_has_modes(so.model.task) || r->o->carry || so.ema > 0 || r->parts > 1))
        MBA_TRY(plan_judge(r, &so));
    mba_world_mark(r->world, -1, MBA_WORLD_ASIDE); // GPUs meet when they are bound: a rank may sleep until others come
    if (r->o->planned) r->o->planned(r->o->ctx, &r->s, r->judge.program ? &r->judge : NULL, r->train);
    if (r->judge.program) MBA_TRY(mba_session_bind(&r->judge, r->o->seed));
    MBA_TRY(mba_session_bind(&r->s, r->o->seed));
    mba_world_mark(r->world, -1, MBA_WORLD_WORKS);
    r->loss = mba_session_at(&r->s, "loss"); // looked up once: between two steps the device waits for the host
    r->norm = mba_session_at(&r->s, "grad_norm");
    if (r->slots * r->parts == 1 || !(r->world || r->o->tree)) return MBA_OK;
    return mba__slots_create(&r->sums, &r->s, r->slots, r->train->first, r->micros, so.model.task == MBA_TASK_GRAPHS);
}

static void finish(mba__run *r)
{
    if (r->log) fclose(r->log);
    mba__slots_destroy(r->sums);
    mba_feed_close(r->train);
    mba_feed_close(r->valid);
    mba_session_end(&r->judge);
    mba_session_end(&r->s);
    mba_tokenizer_files_free(&r->tokenizer);
    mba_lock_release(r->lock);
}

/* ---- one step ---- */

static bool due(int64_t every, int64_t step) { return every > 0 && step % every == 0; }

/* True if a signal ends the run. Several ranks agree on it when they stage a step, and end after that step. */
static bool stopped(const mba__run *r) { return r->world ? r->told_to_stop : r->o->stop && *r->o->stop; }

/* True if the run ends after n steps. */
static bool ends_at(const mba__run *r, int64_t n)
{
    return n >= r->o->schedule.steps || stopped(r) || (r->o->stop_after > 0 && n - r->began_at >= r->o->stop_after);
}

/* Notes the failure to read a batch. The steps before it are still taken and saved: the run ends where it would read
 * that batch. */
static mba_status unread(mba__run *r, mba_status st)
{
    if (st != MBA_OK) snprintf(r->story, sizeof r->story, "%s", mba_message());
    return r->unread = st;
}

/* True if several ranks take a step by one run of all passes, in which buckets of gradients go out beside the backward
 * pass: on GPUs, with one micro-batch each, and sums over slots that need nothing else. */
static bool joint_step(const mba__run *r)
{
    return r->world && r->s.device->alloc_host && r->micros == 1 && r->s.model.task == MBA_TASK_TEXT;
}

/* In a joint step nobody can stay away: a rank that cannot read its batch says so here. */
static mba_status stage(mba__run *r, mba_step *step)
{
    r->at = r->train->at;
    mba_world_mark(r->world, -1, MBA_WORLD_WORKS);
    mba_status st = mba_feed_stage(r->train, step);
    if (st == MBA_OK && joint_step(r)) st = mba_feed_bind(r->train, &r->s, 0, step);
    if (r->world) st = mba__run_agree_staged(r, step, st);
    return unread(r, st);
}

static mba_status bind_micro(mba__run *r, int64_t micro, mba_step *step)
{
    return unread(r, mba_feed_bind(r->train, &r->s, micro, step));
}

/* Binds and uploads the first micro-batch of the next step, unless a validation uses the inputs before it. */
static mba_status next_step_ahead(mba__run *r)
{
    const int64_t n = r->step.index + 1;
    if (ends_at(r, n) || (r->valid && due(r->o->valid_every, n))) return MBA_OK;
    if (!mba_program_swap_inputs(r->s.program)) return MBA_OK;
    r->ahead = true;
    r->next = r->step;
    r->next.index = n;
    if (stage(r, &r->next) != MBA_OK || bind_micro(r, 0, &r->next) != MBA_OK) return MBA_OK; // see unread()
    return mba_program_upload_inputs(r->s.program);
}

static mba_status next_micro_ahead(mba__run *r, int64_t micro)
{
    if (!mba_program_swap_inputs(r->s.program)) return MBA_OK;
    r->ahead = true;
    r->next = r->step;
    MBA_TRY(bind_micro(r, micro, &r->next));
    return mba_program_upload_inputs(r->s.program);
}

/* Prepares what follows micro-batch `micro` while the device computes that. Carried states do not allow it: they are
 * results of the current step and inputs of the next. */
static mba_status look_ahead(mba__run *r, int64_t micro)
{
    if (r->o->carry) return MBA_OK;
    return micro + 1 < r->micros ? next_micro_ahead(r, micro + 1) : next_step_ahead(r);
}

/* Drops the micro-batch ahead: the inputs are those of the current one again. */
static void drop_ahead(mba__run *r)
{
    if (r->ahead) mba_program_swap_inputs(r->s.program);
    r->ahead = false;
}

/* Runs the passes of a step. With a single micro-batch this is one run of all passes: the device decides by itself
 * whether to update, and nobody waits for the loss in between. The loss of several micro-batches is known only to the
 * host. */
static mba_status run_passes(mba__run *r, double *loss)
{
    const bool at_once = r->micros == 1;
    r->step.norm_max = mba_guard_norm_max(&r->guard);
    r->step.loss_max = at_once ? mba_guard_loss_max(&r->guard) : 0;
    *loss = 0;
    for (int64_t m = 0; m < r->micros; m++) {
        if (!r->ahead) MBA_TRY(bind_micro(r, m, &r->step));
        else if (m > 0) r->step = r->next;
        r->ahead = false;
        MBA_TRY(mba_program_run(r->s.program, at_once ? MBA_STEP : MBA_FORWARD | MBA_BACKWARD, &r->step, NULL));
        MBA_TRY(look_ahead(r, m));
        MBA_TRY(mba_program_wait(r->s.program));
        *loss += (double)*r->loss;
        if (!isfinite(*loss)) { // explain() runs this micro-batch again, with its initial states
            if (m + 1 < r->micros) drop_ahead(r);
            break;
        }
        if (r->o->carry) mba_session_carry(&r->s);
    }
    if (at_once) return MBA_OK;
    if (mba_guard_skips(&r->guard, *loss, 0)) r->step.norm_max = FLT_MIN;
    MBA_TRY(mba_program_run(r->s.program, MBA_UPDATE, &r->step, NULL));
    return mba_program_wait(r->s.program);
}

/* The passes of a step whose gradients are added over slots (slots.h). A rank that cannot read a batch tells the others
 * when they add their losses: all of them end before the update. */
static mba_status run_slots(mba__run *r, double *loss)
{
    const bool joint = joint_step(r);
    float     *each = calloc((size_t)r->micros, sizeof *each);
    mba_status st = each ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory for the losses of a step");
    int64_t    good;
    r->step.norm_max = mba_guard_norm_max(&r->guard);
    r->step.loss_max = joint ? mba_guard_loss_max(&r->guard) : 0;
    for (int64_t m = 0; m < r->micros && st == MBA_OK; m++) {
        mba_world_mark(r->world, r->step.index, MBA_WORLD_COMPUTES);
        bool away = !joint && (st = bind_micro(r, m, &r->step)) != MBA_OK;
        if (r->parts > 1 && mba__run_agree_flag(r, &away, true) != MBA_OK) away = true; // nobody waits in the step
        if (away) break;
        st = mba__slots_begin(r->sums, m);
        if (st == MBA_OK)
            st = mba_program_run(r->s.program, joint ? MBA_STEP : MBA_FORWARD | MBA_BACKWARD, &r->step, NULL);
        if (st == MBA_OK) st = mba_program_wait(r->s.program);
        if (st == MBA_OK) st = mba__slots_end(r->sums, m);
        if (st != MBA_OK && (joint || r->parts > 1)) {
            free(each);
            return st; // the others wait in the step, not for losses: this rank ends the run (mba_cluster_fail)
        }
        each[m] = st == MBA_OK ? *(const float *)mba_session_at(&r->s, "loss") : 0;
        bool bad = !isfinite(each[m]);
        if (r->parts > 1 && st == MBA_OK) st = mba__run_agree_flag(r, &bad, true); // its other parts end there too
        if (bad) break; // explain() runs this micro-batch again
    }
    r->own_loss = 0;
    for (int64_t m = 0; m < r->micros && each; m++) r->own_loss += (double)each[m];
    if (each) st = mba__run_agree_losses(r, each, loss, &good, st);
    free(each);
    if (st != MBA_OK && r->world) (void)!unread(r, st); // on all ranks: see end_unread
    MBA_TRY(st);
    mba_world_mark(r->world, r->step.index, MBA_WORLD_COMPUTES);
    if (r->s.model.task == MBA_TASK_GRAPHS) *loss /= (double)r->slots;
    MBA_TRY(mba__slots_finish(r->sums, good));
    if (joint) return MBA_OK;
    if (mba_guard_skips(&r->guard, *loss, 0)) r->step.norm_max = FLT_MIN;
    MBA_TRY(mba_program_run(r->s.program, MBA_UPDATE, &r->step, NULL));
    return mba_program_wait(r->s.program);
}

/* Sets all parameter gradients to zero, as an update leaves them: micro-batches add to them. */
static mba_status clear_gradients(const mba_program *p)
{
    mba_status st = MBA_OK;
    for (int k = 0; k < MBA_GROUPS && st == MBA_OK; k++) {
        const mba_storage *g = p->graph->params[k] ? p->graph->params[k]->grad : NULL;
        if (!g || p->layout.first[g->id] < 0) continue;
        void *zeros = calloc((size_t)g->elems, mba_dtype_bytes(g->dtype));
        if (!zeros) return mba_fail(MBA_E_NOMEM, "no memory to clear gradients");
        const mba_tensor whole = { .st = (mba_storage *)g };
        st = p->device->put(mba_program_counterpart(p, g, &whole), zeros, (size_t)g->elems * mba_dtype_bytes(g->dtype));
        if (st == MBA_OK) st = mba_program_wait(p);
        free(zeros);
    }
    return st;
}

/* Finds the operator that first computed a NaN or an infinity: runs the last micro-batch again, node by node. */
static mba_status explain(mba__run *r, const char **note)
{
    mba_finding f;
    if (r->ahead) mba_program_swap_inputs(r->s.program); // to the inputs of this step
    const mba_status st = mba_watchdog(&f, &r->s, MBA_FORWARD | MBA_BACKWARD, &r->step);
    if (r->ahead) mba_program_swap_inputs(r->s.program);
    MBA_TRY(st);
    if (r->slots * r->parts > 1) MBA_TRY(clear_gradients(r->s.program));
    if (r->sums) MBA_TRY(mba__slots_restore(r->sums));
    if (f.node)
        snprintf(r->note, sizeof r->note, "%s in %s: output '%s' has %g at element %lld", f.node->op->name,
                 *f.node->scope ? f.node->scope : "the model", f.output, f.value, (long long)f.element);
    else snprintf(r->note, sizeof r->note, "all operator outputs are finite; the gradient norm is not");
    *note = r->note;
    return MBA_OK;
}

/* Explains a step of several ranks: each looks at its own micro-batches if its own loss, or the norm of all, is not
 * finite. Ranks that share sequences cannot compute alone: all of them look. */
static mba_status explain_all(mba__run *r, const char **note, bool norm)
{
    r->note[0] = 0;
    if (!r->world || norm || r->parts > 1 || !isfinite(r->own_loss)) MBA_TRY(explain(r, note));
    MBA_TRY(mba__run_agree_note(r));
    *note = r->note;
    return MBA_OK;
}

static mba_status one_step(mba__run *r, mba_train_report *p)
{
    const double began = seconds();
    double       loss;
    if (r->ahead) r->step = r->next;
    else MBA_TRY(stage(r, &r->step));
    const int64_t units = r->world ? r->all_units : r->train->units;
    r->step.lr = (float)mba_schedule_lr(&r->o->schedule, r->step.index);
    MBA_TRY(r->sums ? run_slots(r, &loss) : run_passes(r, &loss));
    r->units += units;
    if (!isfinite(loss)) {
        MBA_TRY(explain_all(r, &p->note, false));
        if (r->o->carry) mba_session_reset_state(&r->s, NULL); // the states may be the cause
    }
    const double norm = (double)*r->norm;
    p->skipped = mba_guard_skips(&r->guard, loss, norm);
    if (p->skipped && !p->note && !isfinite(norm)) MBA_TRY(explain_all(r, &p->note, true));
    if (p->skipped && !p->note) p->note = "loss or gradient norm far above its median";
    mba_guard_note(&r->guard, loss, norm);
    r->step.index++;
    p->step = r->step.index;
    p->loss = loss;
    p->grad_norm = norm;
    p->lr = (double)r->step.lr;
    p->step_s = seconds() - began;
    p->units_per_s = (double)units / p->step_s;
    return MBA_OK;
}

/* Rank 0 validates: the parameters are the same on all ranks. */
static mba_status validate_here(mba__run *r, mba_train_report *p)
{
    mba_session *s = r->judge.program ? &r->judge : &r->s;
    if (r->judge.program) MBA_TRY(mba_session_copy(&r->judge, &r->s, r->s.averages));
    MBA_TRY(mba_feed_evaluate(&p->valid, r->valid, s, r->o->valid_batches, r->o->seed));
    p->best = r->o->valid_every > 0 && isfinite(p->valid.loss) && (!r->best_step || p->valid.loss < r->best_loss);
    if (!p->best) return MBA_OK;
    r->best_step = r->step.index;
    r->best_loss = p->valid.loss;
    return MBA_OK;
}

/* The other ranks wait, and learn whether the best is saved. */
static mba_status validate(mba__run *r, mba_train_report *p)
{
    mba_status st = mba__run_writes(r) ? validate_here(r, p) : MBA_OK;
    return st == MBA_OK ? mba__run_agree_flag(r, &p->best, false) : st;
}

/* Ends a run with too many skipped steps. They changed nothing, so what was learned before them is saved. */
static mba_status give_up(mba__run *r, const char *note)
{
    const bool kept = r->o->out && r->step.index > r->began_at + BAD_STEPS_MAX;
    if (kept) MBA_TRY(mba__run_save(r));
    MBA_TRY(mba_world_barrier(r->world)); // nobody leaves while rank 0 saves
    return mba_fail(MBA_E_DEVICE,
                    "%d steps in a row were skipped\nwhy: %s\nfix: use a lower --lr or a longer --warmup%s",
                    BAD_STEPS_MAX, note ? note : "the loss does not recover",
                    kept ? "; the state before them is saved" : "");
}

static mba_status end_unread(mba__run *r)
{
    const bool learned = r->o->out && r->step.index > r->began_at;
    if (learned && !due(r->o->save_every, r->step.index)) MBA_TRY(mba__run_save(r));
    MBA_TRY(mba_world_barrier(r->world)); // nobody leaves while rank 0 saves
    const mba_status st = mba_fail(r->unread, "%s", r->story);
    return learned
               ? mba_where(st, "the batch after step %lld; the state before it is saved, --resume continues from it",
                           (long long)r->step.index)
               : st;
}

/* True if this step is followed by a validation. A signal suppresses the one at the end of an interrupted run, but not
 * one that the uninterrupted run would have here. */
static bool validates(const mba__run *r, bool last)
{
    const bool interrupted = stopped(r);
    return r->step.index >= r->o->schedule.steps || due(r->o->valid_every, r->step.index) || (last && !interrupted);
}

static mba_status loop(mba__run *r)
{
    mba_status st = MBA_OK;
    bool       last = r->step.index >= r->o->schedule.steps;
    if (last && r->o->report)
        r->o->report(r->o->ctx, &(mba_train_report){ .step = r->step.index,
                                                     .steps = r->o->schedule.steps,
                                                     .loss = NAN,
                                                     .unit = mba_task_unit(r->s.model.task),
                                                     .grad_norm = NAN,
                                                     .valid.loss = NAN });
    while (st == MBA_OK && !last) {
        mba_train_report p = { .valid = { .loss = NAN } };
        st = one_step(r, &p);
        if (st != MBA_OK) return r->unread ? end_unread(r) : st;
        last = ends_at(r, r->step.index);
        mba_world_mark(r->world, r->step.index, MBA_WORLD_WORKS);
        if (r->guard.in_a_row >= BAD_STEPS_MAX) return give_up(r, p.note);
        if (r->valid && validates(r, last)) st = validate(r, &p);
        mba_world_mark(r->world, -1, MBA_WORLD_ASIDE);
        p.run_s = seconds() - r->began_s;
        if (r->step.index == r->began_at + MBA_START_STEPS) r->start_s = p.run_s, r->start_units = r->units;
        if (st == MBA_OK) mba__run_report(r, &p);
        if (st == MBA_OK) st = mba__run_check_log(r);
        const bool saves = last || due(r->o->save_every, r->step.index);
        if (st == MBA_OK && saves) st = mba__run_save(r);
        if (st == MBA_OK && p.best) st = mba__run_save_best(r, saves);
        if (st == MBA_OK && r->unread && !last) return end_unread(r);
    }
    return st;
}

double mba_train_rate(const mba_train_report *r)
{
    const bool more = r->start_units > 0 && r->units > r->start_units;
    return more ? (double)(r->units - r->start_units) / (r->run_s - r->start_s) : (double)r->units / r->run_s;
}

mba_status mba_train(const mba_train_options *o)
{
    mba__run r = { .o = o };
    mba_world_mark(o->world, -1, MBA_WORLD_WORKS);
    mba_status st = begin(&r);
    if (st == MBA_OK) st = mba__run_restore(&r);
    if (st == MBA_OK) st = mba__run_agree_start(&r); // all have read before one writes
    mba_world_mark(o->world, -1, MBA_WORLD_ASIDE);
    if (st == MBA_OK && o->restored) o->restored(o->ctx);
    if (st == MBA_OK) st = mba__run_open_log(&r);
    if (st == MBA_OK) st = mba__run_finish_save(&r);
    r.began_s = seconds();
    r.began_at = r.step.index;
    if (st == MBA_OK) st = loop(&r);
    finish(&r);
    return st;
}
