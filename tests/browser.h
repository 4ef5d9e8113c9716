// SPDX-License-Identifier: Apache-2.0
/* browser.h -- a headless Chromium for tests, driven over a pipe by its DevTools protocol: no port, no network.
 *
 *     browser b;
 *     browser_open(&b, "chromium", scratch("profile"));
 *     browser_size(&b, 360, 900);
 *     browser_go(&b, "file:///tmp/page.html");             // waits until it is loaded
 *     char *said = browser_eval(&b, "document.title");     // the value as text; free it
 *     assert_int_equal(b.nfaults, 0);                      // console messages, exceptions, requests so far
 *     browser_close(&b);
 *
 * Whatever goes wrong with the browser itself fails the test. */
#ifndef MBA_TEST_BROWSER_H
#define MBA_TEST_BROWSER_H

#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

enum { BROWSER_FAULTS = 32, BROWSER_WAIT_MS = 120000 };

typedef struct browser {
    pid_t  child;
    int    to, from, calls;
    char  *text; /* what was read and is not yet a whole message */
    size_t n, room;
    char   session[96], url[1024];
    bool   loaded;
    char   fault[BROWSER_FAULTS][256];
    int    nfaults;
} browser;

static inline void browser_fault(browser *b, const char *what, const char *text)
{
    if (b->nfaults < BROWSER_FAULTS)
        snprintf(b->fault[b->nfaults], sizeof b->fault[0], "%s: %.200s", what, text ? text : "?");
    b->nfaults++;
}

/* ---- messages: JSON with a NUL behind it ---- */

static inline void browser_send(browser *b, json_t *message)
{
    char  *text = json_dumps(message, JSON_COMPACT);
    size_t left = strlen(text) + 1;
    for (const char *at = text; left;) {
        const ssize_t n = write(b->to, at, left);
        if (n <= 0) fail_msg("the browser does not listen");
        at += n;
        left -= (size_t)n;
    }
    free(text);
    json_decref(message);
}

static inline json_t *browser_receive(browser *b)
{
    for (;;) {
        char *end = b->n ? memchr(b->text, 0, b->n) : NULL;
        if (end) {
            json_t      *message = json_loads(b->text, 0, NULL);
            const size_t used = (size_t)(end + 1 - b->text);
            memmove(b->text, end + 1, b->n - used);
            b->n -= used;
            if (!message) fail_msg("the browser sent something that is no JSON");
            return message;
        }
        if (b->room - b->n < 1 << 16) b->text = realloc(b->text, b->room = 2 * b->room + (1 << 17));
        assert_non_null(b->text);
        struct pollfd p = { .fd = b->from, .events = POLLIN };
        if (poll(&p, 1, BROWSER_WAIT_MS) <= 0) fail_msg("the browser says nothing for %d s", BROWSER_WAIT_MS / 1000);
        const ssize_t n = read(b->from, b->text + b->n, b->room - b->n);
        if (n <= 0) fail_msg("the browser has ended");
        b->n += (size_t)n;
    }
}

static inline const char *browser_text(const json_t *o, const char *a, const char *b, const char *c)
{
    for (const char *const *key = (const char *const[]){ a, b, c, NULL }; *key && o; key++)
        o = json_object_get(o, *key);
    return json_string_value(o);
}

/* What nobody asked for: loads, requests, noise. */
static inline void browser_event(browser *b, const json_t *message)
{
    const char   *method = json_string_value(json_object_get(message, "method"));
    const json_t *p = json_object_get(message, "params");
    if (!method) return;
    if (!strcmp(method, "Page.loadEventFired")) b->loaded = true;
    if (!strcmp(method, "Runtime.exceptionThrown"))
        browser_fault(b, "exception", browser_text(p, "exceptionDetails", "exception", "description"));
    if (!strcmp(method, "Runtime.consoleAPICalled"))
        browser_fault(b, "console",
                      json_string_value(json_object_get(json_array_get(json_object_get(p, "args"), 0), "value")));
    if (!strcmp(method, "Log.entryAdded")) browser_fault(b, "log", browser_text(p, "entry", "text", NULL));
    const char *url = browser_text(p, "request", "url", NULL);
    if (!strcmp(method, "Network.requestWillBeSent") && url && strcmp(url, b->url)) browser_fault(b, "request", url);
}

/* The answer's result; the caller's. `params` is taken; NULL is fine. */
static inline json_t *browser_call(browser *b, const char *method, json_t *params)
{
    const int id = ++b->calls;
    json_t   *call = json_pack("{s:i, s:s}", "id", id, "method", method);
    if (params) json_object_set_new(call, "params", params);
    if (*b->session) json_object_set_new(call, "sessionId", json_string(b->session));
    browser_send(b, call);
    for (;;) {
        json_t *m = browser_receive(b);
        if (json_integer_value(json_object_get(m, "id")) != id) {
            browser_event(b, m);
            json_decref(m);
            continue;
        }
        json_t *result = json_incref(json_object_get(m, "result"));
        if (!result) fail_msg("%s: %s", method, browser_text(m, "error", "message", NULL));
        json_decref(m);
        return result;
    }
}

static inline void browser_do(browser *b, const char *method, json_t *params)
{
    json_decref(browser_call(b, method, params));
}

/* ---- pages ---- */

static inline void browser_open(browser *b, const char *program, const char *profile)
{
    int  to[2], from[2];
    char command[1024];
    *b = (browser){ 0 };
    assert_true(pipe(to) == 0 && pipe(from) == 0);
    snprintf(command, sizeof command,
             "exec %s --headless --no-sandbox --disable-gpu --disable-dev-shm-usage "
             "--no-first-run --hide-scrollbars --user-data-dir='%s' --allow-file-access-from-files "
             "--remote-debugging-pipe 2>/dev/null >&2",
             program, profile);
    b->child = fork();
    assert_true(b->child >= 0);
    if (b->child == 0) { // it reads what we say at 3, and answers at 4
        const int in = fcntl(to[0], F_DUPFD, 10), out = fcntl(from[1], F_DUPFD, 10);
        dup2(in, 3);
        dup2(out, 4);
        for (int fd = 5; fd < 64; fd++) close(fd);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    b->to = to[1], b->from = from[0];
    signal(SIGPIPE, SIG_IGN);
    json_t     *made = browser_call(b, "Target.createTarget", json_pack("{s:s}", "url", "about:blank"));
    const char *target = browser_text(made, "targetId", NULL, NULL);
    json_t *at = browser_call(b, "Target.attachToTarget", json_pack("{s:s, s:b}", "targetId", target, "flatten", 1));
    snprintf(b->session, sizeof b->session, "%s", browser_text(at, "sessionId", NULL, NULL));
    json_decref(made);
    json_decref(at);
    for (const char *const *d = (const char *const[]){ "Page", "Runtime", "Log", "Network", NULL }; *d; d++) {
        char enable[32];
        snprintf(enable, sizeof enable, "%s.enable", *d);
        browser_do(b, enable, NULL);
    }
    // Tab past the last stop leaves the page; to the page it stays the window in front
    browser_do(b, "Emulation.setFocusEmulationEnabled", json_pack("{s:b}", "enabled", 1));
}

static inline void browser_close(browser *b)
{
    int status;
    close(b->to);
    close(b->from);
    kill(b->child, SIGTERM);
    waitpid(b->child, &status, 0);
    free(b->text);
}

static inline void browser_size(browser *b, int width, int height)
{
    browser_do(b, "Emulation.setDeviceMetricsOverride",
               json_pack("{s:i, s:i, s:i, s:b}", "width", width, "height", height, "deviceScaleFactor", 1, "mobile",
                         0));
}

/* media: "screen" or "print"; colours: "light" or "dark". */
static inline void browser_media(browser *b, const char *media, const char *colours)
{
    browser_do(b, "Emulation.setEmulatedMedia",
               json_pack("{s:s, s:[{s:s, s:s}]}", "media", media, "features", "name", "prefers-color-scheme", "value",
                         colours));
}

static inline void browser_go(browser *b, const char *url)
{
    snprintf(b->url, sizeof b->url, "%.*s", (int)strcspn(url, "#"), url); // what is asked for has no fragment
    b->loaded = false;
    browser_do(b, "Page.navigate", json_pack("{s:s}", "url", url));
    while (!b->loaded) {
        json_t *m = browser_receive(b);
        browser_event(b, m);
        json_decref(m);
    }
}

static inline char *browser_eval(browser *b, const char *script)
{
    json_t *r = browser_call(b, "Runtime.evaluate", json_pack("{s:s, s:b}", "expression", script, "returnByValue", 1));
    if (json_object_get(r, "exceptionDetails"))
        fail_msg("%.60s: %s", script, browser_text(r, "exceptionDetails", "exception", "description"));
    const json_t *v = json_object_get(json_object_get(r, "result"), "value");
    char         *text = json_is_string(v) ? strdup(json_string_value(v)) : json_dumps(v, JSON_ENCODE_ANY);
    json_decref(r);
    return text ? text : strdup("undefined");
}

static inline double browser_number(browser *b, const char *script)
{
    char        *text = browser_eval(b, script);
    const double v = strtod(text, NULL);
    free(text);
    return v;
}

/* A key as a person presses it: "Tab" with its code 9. */
static inline void browser_key(browser *b, const char *key, int code)
{
    for (const char *const *kind = (const char *const[]){ "rawKeyDown", "keyUp", NULL }; *kind; kind++)
        browser_do(b, "Input.dispatchKeyEvent",
                   json_pack("{s:s, s:s, s:s, s:i}", "type", *kind, "key", key, "code", key, "windowsVirtualKeyCode",
                             code));
}

/* Bytes of a PNG as base64, of what is on the screen; free it. */
static inline char *browser_picture(browser *b)
{
    json_t *r = browser_call(b, "Page.captureScreenshot", NULL);
    char   *text = strdup(browser_text(r, "data", NULL, NULL));
    json_decref(r);
    return text;
}

#endif
