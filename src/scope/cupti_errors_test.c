// SPDX-License-Identifier: Apache-2.0
/* cupti_errors_test.c -- what CUPTI refuses, and what we make of it: a CUPTI of our own that fails where it is told to.
 * No GPU and no CUPTI library is needed (mba_library_open is replaced when this is linked). */
#include "tests/test.h"

#ifdef MBA_WITH_CUPTI
#include "device/cuda/library.h"
#include "scope/cupti_collect.h"

enum { SUCCESS = 0, END = 12, BUSY = 26, PRIVILEGES = 35, SUBSCRIBERS = 39 }; /* cupti_result.h */

/* ---- the CUPTI that fails ---- */

typedef void buffer_fn(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid);
typedef void any_fn(void);
typedef void callback_fn(void *ctx, int domain, uint32_t id, const void *data);

static struct {
    const char  *name; /* which call fails, from the `after`-th on, with what */
    int          after, code;
    int          enabled, disabled, subscribed, flushed;
    buffer_fn   *take;
    callback_fn *called;
} fake;

static int answer(const char *name)
{
    if (!fake.name || strcmp(name, fake.name) || fake.after-- > 0) return SUCCESS;
    fake.after = 0;
    return fake.code;
}

static int succeed(void) { return SUCCESS; }

static int result_string(int code, const char **text)
{
    *text = code == PRIVILEGES ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" : "some error";
    return SUCCESS;
}

static int register_callbacks(void *give, buffer_fn *take)
{
    (void)give;
    fake.take = take;
    return SUCCESS;
}
static int enable(void)
{
    const int r = answer("enable");
    fake.enabled += !r;
    return r;
}
static int disable(void)
{
    const int r = answer("disable");
    fake.disabled += !r;
    return r;
}
static int flush(void)
{
    fake.flushed++;
    return answer("flush");
}

/* A buffer has one record, of a set of memory. */
static int next_record(uint8_t *buffer, size_t valid, void **record)
{
    static _Alignas(64) uint8_t set[512] = { 2 }; // its kind; the rest is zero
    (void)buffer, (void)valid;
    if (*record) return END;
    *record = set;
    return SUCCESS;
}

static int subscribe(void **handle, callback_fn *fn)
{
    const int r = answer("subscribe");
    if (r) return r;
    fake.subscribed++;
    fake.called = fn;
    *handle = &fake;
    return SUCCESS;
}

static int unsubscribe(void)
{
    fake.subscribed--;
    return SUCCESS;
}
static int enable_callback(void) { return answer("callback"); }
static int availability(void) { return answer("availability"); }
static int range_enable(void) { return answer("range"); }
static int context(void **out)
{
    *out = &fake;
    return SUCCESS;
}

mba_status __wrap_mba_library_open(const char *file, const mba_library_name *names, void *table);
mba_status __wrap_mba_library_open(const char *file, const mba_library_name *names, void *table)
{
    static const struct {
        const char *name;
        any_fn     *f;
    } ours[] = { { "cuptiGetResultString", (any_fn *)result_string },
                 { "cuptiActivityEnable", (any_fn *)enable },
                 { "cuptiActivityRegisterCallbacks", (any_fn *)register_callbacks },
                 { "cuptiActivityDisable", (any_fn *)disable },
                 { "cuptiActivityFlushAll", (any_fn *)flush },
                 { "cuptiActivityGetNextRecord", (any_fn *)next_record },
                 { "cuptiSubscribe", (any_fn *)subscribe },
                 { "cuptiUnsubscribe", (any_fn *)unsubscribe },
                 { "cuptiEnableCallback", (any_fn *)enable_callback },
                 { "cuCtxGetCurrent", (any_fn *)context },
                 { "cuptiProfilerGetCounterAvailability", (any_fn *)availability },
                 { "cuptiRangeProfilerEnable", (any_fn *)range_enable } };
    (void)file;
    for (; names->name; names++) {
        any_fn *f = (any_fn *)succeed;
        for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
            if (!strcmp(ours[i].name, names->name)) f = ours[i].f;
        memcpy((char *)table + names->field, &f, sizeof f);
    }
    return MBA_OK;
}

static void fail_at(const char *name, int after, int code)
{
    buffer_fn *take = fake.take; // CUPTI is told of it once
    memset(&fake, 0, sizeof fake);
    fake.take = take;
    fake.name = name, fake.after = after, fake.code = code;
}

/* ---- what we make of it ---- */

static int  seen;
static void on_event(void *ctx, const mba_event *e)
{
    (void)ctx;
    (void)e;
    seen++;
}
static void on_launch(void *ctx, const mba_launch_seen *l)
{
    (void)ctx;
    (void)l;
    seen++;
}

static mba_status open_counters(void)
{
    static const char *const name = "gpu__time_duration.sum";
    mba_counters            *s;
    const mba_status         st = mba_counters_open(&s, &name, 1, 1);
    if (st != MBA_OK) assert_null(s);
    mba_counters_close(s);
    return st;
}

/* ERR_NVGPUCTRPERM, wherever CUPTI finds out: the line that permits it, every time. */
static void without_permission_the_line_that_enables_counters_is_told(void **state)
{
    static const struct {
        const char *name;
        int         after;
    } where[] = { { "availability", 0 }, { "availability", 1 }, { "range", 0 } };
    (void)state;
    for (size_t i = 0; i < sizeof where / sizeof *where; i++) {
        fail_at(where[i].name, where[i].after, PRIVILEGES);
        assert_fails(open_counters(), MBA_E_UNSUPPORTED, "NVreg_RestrictProfilingToAdminUsers=0");
        assert_non_null(strstr(mba_message(), "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"));
    }
    fail_at(NULL, 0, 0);
    assert_ok(open_counters()); // permitted meanwhile: nothing of the failures is left
}

static void who_else_holds_the_counters_is_told(void **state)
{
    (void)state;
    fail_at("range", 0, BUSY);
    assert_fails(open_counters(), MBA_E_UNSUPPORTED, "another process reads the counters");
    fail_at("subscribe", 0, SUBSCRIBERS);
    assert_fails(mba_launches_begin(on_launch, NULL, NULL, NULL), MBA_E_UNSUPPORTED,
                 "another profiler holds this process");
    assert_int_equal(fake.subscribed, 0);
}

static int seen_of_a_buffer(void)
{
    seen = 0;
    assert_non_null(fake.take);
    fake.take(NULL, 0, malloc(64), 64, 64); // frees it
    return seen;
}

static void a_timeline_hands_over_what_buffers_have(void **state)
{
    int64_t dropped;
    (void)state;
    fail_at(NULL, 0, 0);
    assert_ok(mba_activity_begin(on_event, NULL));
    assert_int_equal(seen_of_a_buffer(), 1);
    assert_ok(mba_activity_end(&dropped));
    assert_int_equal(fake.enabled, 3);
    assert_int_equal(fake.disabled, 3);
    assert_int_equal(seen_of_a_buffer(), 0);
}

/* A buffer that comes after a failure finds nobody, and there is nothing to end. */
static void assert_nobody_listens(void)
{
    int64_t dropped;
    assert_int_equal(seen_of_a_buffer(), 0);
    fake.name = NULL;
    assert_ok(mba_activity_end(&dropped));
}

static void a_timeline_that_does_not_begin_leaves_nothing_on(void **state)
{
    (void)state;
    for (int after = 0; after < 3; after++) {
        fail_at("enable", after, BUSY);
        assert_fails(mba_activity_begin(on_event, NULL), MBA_E_UNSUPPORTED, "cuptiActivityEnable");
        assert_int_equal(fake.enabled, after);
        assert_int_equal(fake.disabled, after);
        assert_nobody_listens();
    }
}

static void a_timeline_that_does_not_end_is_over_all_the_same(void **state)
{
    static const char *const where[] = { "disable", "flush" };
    int64_t                  dropped;
    (void)state;
    for (int i = 0; i < 2; i++) {
        fail_at(where[i], 0, BUSY);
        assert_ok(mba_activity_begin(on_event, NULL));
        assert_fails(mba_activity_end(&dropped), MBA_E_UNSUPPORTED, i ? "FlushAll" : "Disable");
        assert_int_equal(fake.flushed, 1);
        assert_nobody_listens();
    }
}

static void launches_that_cannot_all_be_seen_are_not_watched(void **state)
{
    (void)state;
    for (int after = 0; after < 8; after += 3) {
        fail_at("callback", after, BUSY);
        assert_fails(mba_launches_begin(on_launch, NULL, NULL, NULL), MBA_E_UNSUPPORTED, "cuptiEnableCallback");
        assert_int_equal(fake.subscribed, 0);
        mba_launches_end(); // again is fine
        assert_int_equal(fake.subscribed, 0);
    }
    fail_at(NULL, 0, 0);
    assert_ok(mba_launches_begin(on_launch, NULL, NULL, NULL));
    assert_int_equal(fake.subscribed, 1);
    mba_launches_end();
    assert_int_equal(fake.subscribed, 0);
}

MBA_TEST_MAIN(cmocka_unit_test(without_permission_the_line_that_enables_counters_is_told),
              cmocka_unit_test(who_else_holds_the_counters_is_told),
              cmocka_unit_test(a_timeline_hands_over_what_buffers_have),
              cmocka_unit_test(a_timeline_that_does_not_begin_leaves_nothing_on),
              cmocka_unit_test(a_timeline_that_does_not_end_is_over_all_the_same),
              cmocka_unit_test(launches_that_cannot_all_be_seen_are_not_watched))
#else
int main(void) { return 77; }
#endif
