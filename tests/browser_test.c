/* browser_test.c -- the report in headless Chromium, from file://, at widths from 320 to 3840 px: see browser_check.js.
 *
 * Skipped, and counted as skipped, where Debian's package `chromium` is not installed ($MBA_CHROMIUM names another). */
#include <sys/wait.h>

#include "cli/whatif.h"
#include "core/file.h"
#include "report/report.h"
#include "tests/scratch.h"
#include "tests/test.h"

enum { SKIPPED = 77, NARROWEST_WINDOW = 500 };
static const char REAL_STORE[] = "tests/data/stores/h200_graphmamba.db";
static const char *browser;

static bool can_run(const char *program)
{
    char command[512];
    snprintf(command, sizeof command, "%s --version >/dev/null 2>&1", program);
    return system(command) == 0;
}

static void write_text(const char *path, const char *const *part)
{
    mba_writer *w = NULL;
    assert_ok(mba_writer_create(&w, path));
    for (; *part; part++) assert_ok(mba_writer_put(w, *part, strlen(*part)));
    assert_ok(mba_writer_commit(w));
    mba_writer_destroy(w);
}

/* The page with a trap for errors in front and the check behind. */
static void make_page(const char *path, const char *const *store, int n)
{
    mba_stores r;
    mba_buf    page = { 0 };
    mba_whatif *whatif = calloc(1, sizeof *whatif);
    char      *check;
    size_t     bytes;
    assert_ok(mba_file_read(&check, &bytes, "tests/browser_check.js", 1 << 20));
    assert_ok(mba_stores_open(&r, store, n));
    r.study  = true;
    r.whatif = whatif;
    assert_ok(mba_whatif_make(whatif, &r));
    assert_ok(mba_report_page(&page, &r));
    free(whatif);
    assert_ok(mba_stores_close(&r));
    char *head = strstr(page.s, "<style>"), *end = strstr(page.s, "</body>");
    assert_true(head && end);
    *end = 0;
    head[-1] = 0;
    const char *const part[] = { page.s, "\n<script>window.pageFaults=[];for(const w of ['error','warn','log']){console[w]=(...a)=>pageFaults.push('console: '+a)};"
        "window.onerror=m=>{pageFaults.push('error: '+m)};new PerformanceObserver(l=>l.getEntries().forEach(e=>pageFaults.push('request: '+e.name))).observe({type:'resource',buffered:true})</script>",
        head, "<script>", check, "</script></body></html>", NULL };
    write_text(path, part);
    free(check);
    mba_buf_free(&page);
}

/* What the check says at this width. Windows have a least width: narrower pages stand in a frame. */
static char *verdict_at(const char *page, int width)
{
    char command[2048], frame[1024];
    snprintf(frame, sizeof frame, "<!doctype html><body style='margin:0'><iframe id=f src='%s' style='border:0;width:%dpx;height:900px'></iframe><pre id=layout></pre>"
             "<script>f.onload=()=>{document.getElementById('layout').textContent=f.contentDocument.getElementById('layout').textContent}</script>", strrchr(page, '/') + 1, width);
    const char *const part[] = { frame, NULL };
    write_text(scratch("frame.html"), part);
    snprintf(command, sizeof command, "%s --headless --no-sandbox --disable-gpu --no-first-run --user-data-dir=%s --allow-file-access-from-files --virtual-time-budget=8000 "
             "--window-size=%d,900 --dump-dom file://%s 2>/dev/null", browser, scratch("profile"), width < NARROWEST_WINDOW ? 900 : width,
             width < NARROWEST_WINDOW ? scratch("frame.html") : page);
    FILE  *f = popen(command, "r");
    size_t n = 0, room = 1 << 24;
    char  *dom = malloc(room);
    assert_true(f && dom);
    n = fread(dom, 1, room - 1, f);
    dom[n] = 0;
    pclose(f);
    char *at = strstr(dom, "<pre id=\"layout\">");
    char *text = at ? strndup(at + 17, strcspn(at + 17, "<")) : strdup("the browser said nothing");
    free(dom);
    return text;
}

static void the_page_works_at_every_width(void **state)
{
    const char *store[] = { REAL_STORE, "tests/data/stores/v1.db" };
    const char *page = scratch("page.html");
    char        kept[512];
    (void)state;
    snprintf(kept, sizeof kept, "%s", page);
    for (int n = 1; n <= 2; n++) {
        make_page(kept, store, n);
        for (const int *w = (const int[]){ 320, 360, 600, 768, 1024, 1440, 1920, 3840, 0 }; *w; w++) {
            if (n == 2 && *w != 360 && *w != 1440) continue;           // two runs: the switch between them
            char *text = verdict_at(kept, *w);
            if (strcmp(text, "ok")) fail_msg("%d px, %d stores: %s", *w, n, text);
            free(text);
        }
    }
}

static void it_prints_on_few_pages(void **state)
{
    char        command[2048], page[512], *pdf;
    const char *store[] = { REAL_STORE };
    size_t      n;
    int         pages = 0;
    (void)state;
    snprintf(page, sizeof page, "%s", scratch("page.html"));
    make_page(page, store, 1);
    snprintf(command, sizeof command, "%s --headless --no-sandbox --disable-gpu --no-first-run --user-data-dir=%s "
             "--virtual-time-budget=8000 --print-to-pdf='%s' file://%s 2>/dev/null", browser, scratch("profile"),
             scratch("page.pdf"), page);
    assert_int_equal(system(command), 0);
    assert_ok(mba_file_read(&pdf, &n, scratch("page.pdf"), 1 << 26));
    for (const char *at = pdf; (at = memmem(at, n - (size_t)(at - pdf), "/Type /Page", 11)) != NULL; at += 11)
        pages += at[11] != 's';
    free(pdf);
    if (pages < 4 || pages > 25) fail_msg("%d pages of paper", pages);
}

int main(void)
{
    const char *own = getenv("MBA_CHROMIUM");
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_page_works_at_every_width),
                                        cmocka_unit_test(it_prints_on_few_pages) };
    for (const char *const *name = (const char *const[]){ own && *own ? own : "chromium", "chromium-browser", NULL }; *name && !browser; name++)
        if (can_run(*name)) browser = *name;
    if (!browser) {
        puts("skipped: no Chromium here (Debian package `chromium`)");
        return SKIPPED;
    }
    scratch_make();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove();
    return failed;
}
