// SPDX-License-Identifier: Apache-2.0
/* browser_test.c -- the report in headless Chromium, from file://: what browser_check.js looks at, at widths from 320
 * to 3840 px, in light, dark and print; no console message, no request; Tab as a person presses it; the accessibility
 * tree; the first paint of the largest committed page.
 *
 * Skipped, and counted as skipped, where Debian's package `chromium` is not installed ($MBA_CHROMIUM names another). */
#include "tests/browser.h"
#include "tests/formulas.h"

#include "cli/store_files.h"
#include "core/file.h"
#include "report/report.h"
#include "report/training.h"
#include "tests/scratch.h"

enum { SKIPPED = 77 };
static const char REAL_STORE[] = "tests/data/stores/h200_graphmamba.db", OTHER_STORE[] = "tests/data/stores/v1.db";
static const char NEW_STORE[] = "tests/data/stores/suite/graphmamba.db"; // of the workload of REAL_STORE
static const char LARGEST_PAGE[] = "docs/results/h200.html", CPU_PAGE[] = "docs/results/cpu.html";
static const char *const suite_stores[] = {
    "tests/data/stores/h200_mamba2.db",        "tests/data/stores/h200_mamba1.db",
    "tests/data/stores/h200_chunked.db",       "tests/data/stores/h200_persistent.db",
    "tests/data/stores/h200_chunked_small.db", "tests/data/stores/h200_peer.db"
};
static const char *program;
static browser     chrome;
static char        one[600], two[600]; /* addresses of the page of one store, and of two */
static char        suite[600];         /* of several models, with what they are compared with */
static char        before[600];        /* of one store with an earlier one behind */
static char        runs[600];          /* of two training runs, compared */

static bool can_run(const char *name)
{
    char command[512];
    snprintf(command, sizeof command, "%s --version >/dev/null 2>&1", name);
    return system(command) == 0;
}

static void make_page_behind(const char *path, const char *const *store, int n, int shown, const char *earlier)
{
    mba_stores  r;
    mba_whatif *whatif;
    assert_ok(mba_stores_open(&r, store, n));
    mba_stores_show(&r, shown);
    if (earlier) assert_ok(mba_stores_baseline(&r, earlier));
    assert_ok(mba_stores_simulate(&r, &whatif, true));
    r.study = true;
    assert_ok(mba_report_write(&r, path));
    free(whatif);
    assert_ok(mba_stores_close(&r));
}

static void make_page(const char *path, const char *const *store, int n, int shown)
{
    make_page_behind(path, store, n, shown, NULL);
}

/* A training run as `train --out` leaves it: 700 steps, of which some are skipped, validated every 50. */
static void make_run(const char *folder, double end, int bad)
{
    char path[600];
    assert_ok(mba_mkdirs(folder));
    snprintf(path, sizeof path, "%s/log.jsonl", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 1; i <= 700; i++) {
        const double loss = end + 9 / (1 + 0.05 * i) + 0.2 * sin(7 * i);
        fprintf(f,
                "{\"step\": %d, \"tokens\": %d, \"loss\": %.6f, \"grad_norm\": %.6f, \"lr\": %.8f, \"seconds\": %.3f, "
                "\"tokens_per_s\": %.1f",
                i, 16384 * i, loss, 0.4 + 6 / (1 + 0.1 * i) + 0.1 * cos(5 * i), 3e-4 * (701 - i) / 700, 0.05 * i,
                320000 + 9000 * sin(3 * i));
        if (i % 50 == 0)
            fprintf(f, ", \"valid_loss\": %.6f, \"valid_accuracy\": %.4f", loss + 0.1, 1 - 1 / (1 + 0.01 * i));
        fprintf(f, ", \"skipped\": %s}\n", bad && i % bad == 0 ? "true" : "false");
    }
    fputs("{\"step\": 701, \"tok", f); // it goes on
    fclose(f);
    snprintf(path, sizeof path, "%s/samples.jsonl", folder);
    f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 100; i <= 700; i += 100)
        fprintf(f,
                "{\"step\": %d, \"prompt\": \"In the beginning\", \"text\": \" was the word and the word was with the "
                "sea\"}\n",
                i);
    fclose(f);
    snprintf(path, sizeof path, "%s/options.json", folder);
    f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f,
            "{\"options\": {\"--model\": \"mamba2-130m\", \"--lr\": 0.0003, \"--data\": "
            "\"a/long/path/without/any/space/in/it/to/"
            "shards-of-tokens\", \"--clip\": %g}}",
            end);
    fclose(f);
}

static void quiet(const char *where)
{
    if (chrome.nfaults) fail_msg("%s: %s (and %d more)", where, chrome.fault[0], chrome.nfaults - 1);
}

/* ---- layout, switches, filters, sliders, keys ---- */

static void check_at(const char *url, int width, const char *media, const char *colours)
{
    static char *check;
    char         where[128];
    size_t       bytes;
    if (!check) assert_ok(mba_file_read(&check, &bytes, "tests/browser_check.js", 1 << 20));
    snprintf(where, sizeof where, "%d px, %s, %s", width, media, colours);
    browser_size(&chrome, width, 900);
    browser_media(&chrome, media, colours);
    browser_go(&chrome, url);
    char *said = browser_eval(&chrome, check);
    if (strcmp(said, "ok")) fail_msg("%s: %s", where, said);
    free(said);
    quiet(where);
}

static void the_page_works_at_every_width(void **state)
{
    (void)state;
    for (const int *w = (const int[]){ 320, 360, 600, 768, 1024, 1440, 1920, 3840, 0 }; *w; w++)
        check_at(one, *w, "screen", "light");
    check_at(one, 360, "screen", "dark");
    check_at(one, 1440, "screen", "dark");
    check_at(two, 360, "screen", "light"); // two runs: the switch between them
    check_at(two, 1440, "screen", "dark");
    assert_true(browser_number(&chrome, "document.querySelectorAll('#wi-part option').length") == 2);
}

/* The page of a suite on telephones, laptops and a 4K screen. */
static void the_page_of_a_suite_works(void **state)
{
    (void)state;
    for (const int *w = (const int[]){ 360, 390, 1280, 1440, 3840, 0 }; *w; w++) check_at(suite, *w, "screen", "light");
}

/* The same of a page with --baseline: the earlier store is in the roofline, the table of kernels and their cards. */
static void the_page_with_a_baseline_works(void **state)
{
    (void)state;
    for (const int *w = (const int[]){ 360, 390, 1280, 1440, 3840, 0 }; *w; w++)
        check_at(before, *w, "screen", "light");
    char *said =
        browser_eval(&chrome,
                     "(() => { const rows = [...document.querySelectorAll('#kt tr.row')].slice(0, 8);"
                     " for (const r of rows) if (r.nextElementSibling.hidden) r.querySelector('button').click();"
                     " const tips = JSON.parse(document.querySelector('#data').textContent).tips;"
                     " return tips.filter(t => /· baseline/.test(t)).length + ' ' + rows.filter(r =>"
                     " r.nextElementSibling.querySelector('.hb i[style*=\"--w\"]')).length; })()");
    int marks = 0, ticked = 0;
    sscanf(said, "%d %d", &marks, &ticked);
    if (marks < 4 || ticked < 3) fail_msg("marks of the roofline, and cards with a tick of the baseline: %s", said);
    free(said);
    quiet("baseline");
}

/* What limits each model, which claims hold, do persistent blocks help, which ratio, what to fix first: the first
 * section has all of it, and a click leads to the figure, the rule or the kernels. */
static void the_questions_are_answered_on_the_first_screen(void **state)
{
    (void)state;
    browser_size(&chrome, 1280, 900);
    browser_media(&chrome, "screen", "light");
    browser_go(&chrome, suite);
    char *said = browser_eval(
        &chrome,
        "(() => { const first = document.querySelector('#answer'), faults = [];"
        "const lands = (a, what) => { if (!a) return faults.push(what); a.click();"
        " const to = document.querySelector(a.hash)?.getBoundingClientRect();"
        " if (!to || to.top < -5 || to.top > innerHeight || !to.height) faults.push(what + ' ' + a.hash); };"
        "if (!/limit/.test(first.querySelector('.fcard h2')?.textContent)) faults.push('limits');"
        "const links = [...first.querySelectorAll('.fcard .foot a')];"
        "if (links.length !== 3) faults.push('links of cards');"
        "links.forEach(a => lands(a, 'card'));"
        "const rules = [...first.querySelectorAll('.matrix tbody th a')];"
        "if (rules.length !== 11) faults.push('rules'); rules.forEach(a => lands(a, 'rule'));"
        "const asked = [...first.querySelectorAll('#questions .q')];"
        "if (asked.map(a => a.firstChild.textContent).join() !== 'Q1,Q2,Q3,N1,N2') faults.push('questions');"
        "for (const a of asked) { const to = document.querySelector(a.hash), answer = "
        "a.querySelector('.qa').textContent;"
        " if (answer.length < 30 || !answer.startsWith(to.querySelector('h2').textContent)) faults.push(answer);"
        " if (!to.querySelector('.sure') || !to.querySelector('svg') || !to.querySelector('td')) faults.push(a.hash);"
        " lands(a, 'question'); }"
        "return faults.join('; '); })()");
    if (*said) fail_msg("%s", said);
    free(said);
    quiet("questions");
}

static void the_page_of_training_runs_works(void **state)
{
    (void)state;
    for (const int *w = (const int[]){ 320, 390, 600, 1024, 1440, 3840, 0 }; *w; w++)
        check_at(runs, *w, "screen", "light");
    check_at(runs, 390, "screen", "dark");
    check_at(runs, 1440, "screen", "dark");
    // both runs are in one drawing, and pointing at it tells the values of both
    char *said =
        browser_eval(&chrome,
                     "document.querySelector('#loss svg.wide .area:nth-of-type(3n)').getAttribute('aria-label')");
    if (!strstr(said, "first") || !strstr(said, "second") || !strstr(said, "smoothed"))
        fail_msg("values under the pointer: %s", said);
    free(said);
    assert_true(browser_number(&chrome, "document.querySelectorAll('#loss .legend li').length") == 2);
    assert_true(
        browser_number(&chrome, "document.querySelectorAll('#loss div[data-view=\"0\"] svg.wide path.curve').length")
        == 6);
    quiet("training runs");
}

/* What people come for stands above the fold of a laptop's window, whatever the run: five questions, each with an
 * answer; on a page of several kinds of models the verdicts on the study's claims. */
static void five_answers_stand_on_the_first_screen(void **state)
{
    (void)state;
    browser_size(&chrome, 1440, 900);
    browser_media(&chrome, "screen", "light");
    for (const char *const *url = (const char *const[]){ one, two, suite, NULL }; *url; url++) {
        browser_go(&chrome, *url);
        char *said = browser_eval(
            &chrome,
            "[...document.querySelectorAll('.seg[data-key=run] button')].concat([null]).map(b => { b?.click();"
            " const all = [...document.querySelectorAll('#answers .find')].filter(e => e.checkVisibility());"
            " const table = document.querySelector('.matrix tbody');"
            " if (table) return table.rows.length === 11 && table.getBoundingClientRect().bottom < innerHeight ?"
            " '' : 'matrix!';"
            " const gpu = all.some(e => /What helps most/.test(e.textContent));" // a CPU has the two that need no GPU
            " return all.length === (gpu ? 5 : 2) && all.every(e => e.querySelector('h3') && "
            "e.querySelector('p').textContent.length"
            " > 20 && e.getBoundingClientRect().bottom < innerHeight) ? '' : all.map(e => "
            "e.textContent).join('; ') + '!';"
            " }).join('')");
        if (*said) fail_msg("%s", said);
        free(said);
    }
    quiet("answers");
}

/* Even if a name came into the page as it is, no script of its own would run: the policy of the page says which one
 * may. */
static void no_other_script_runs(void **state)
{
    static const char foreign[] =
        "<script>window.ran = 1</script><button id=\"foreign\" onclick=\"window.ran = 1\">x</button>";
    char  *page, url[600];
    size_t n;
    (void)state;
    assert_ok(mba_file_read(&page, &n, scratch("one.html"), 64 << 20));
    char *body = strstr(page, "<main");
    assert_non_null(body);
    FILE *f = fopen(scratch("foreign.html"), "w");
    assert_non_null(f);
    fprintf(f, "%.*s%s%s", (int)(body - page), page, foreign, body);
    fclose(f);
    free(page);
    snprintf(url, sizeof url, "file://%s", scratch("foreign.html"));
    browser_go(&chrome, url);
    assert_true(browser_number(&chrome, "document.querySelector('#foreign').click(), window.ran ? 1 : 0") == 0);
    assert_true(browser_number(&chrome, "document.querySelectorAll('#raw-view td').length") > 0); // ours has run
    assert_true(chrome.nfaults > 0);                                                              // and it was told
    chrome.nfaults = 0;
}

/* Pictures differ where they should: colours, and paper is white whatever the screen is. */
static void light_dark_and_print_look_different(void **state)
{
    char *picture[4];
    (void)state;
    browser_size(&chrome, 1440, 900);
    for (int i = 0; i < 4; i++) {
        browser_media(&chrome, i < 2 ? "screen" : "print", i % 2 ? "dark" : "light");
        browser_go(&chrome, one);
        picture[i] = browser_picture(&chrome);
        assert_true(strlen(picture[i]) > 20000); // not an empty window
        char *paper = browser_eval(&chrome, "getComputedStyle(document.body).backgroundColor");
        if (i >= 2) assert_string_equal(paper, "rgb(255, 255, 255)");
        free(paper);
    }
    assert_true(strcmp(picture[0], picture[1]) != 0);
    assert_true(strcmp(picture[0], picture[2]) != 0);
    assert_string_equal(picture[2], picture[3]);
    for (int i = 0; i < 4; i++) free(picture[i]);
    browser_media(&chrome, "screen", "light");
    quiet("pictures");
}

/* A link to a figure shows that figure at once: nothing is scrolled through on the way, at any width. */
static void links_land_at_their_figure(void **state)
{
    (void)state;
    for (const int *w = (const int[]){ 360, 1440, 0 }; *w; w++)
        for (const char *const *name = (const char *const[]){ "fig4", "fig7", "fig13", "raw", NULL }; *name; name++) {
            char url[640], top[128];
            snprintf(url, sizeof url, "%s#%s", one, *name);
            snprintf(top, sizeof top, "document.getElementById('%s').getBoundingClientRect().top", *name);
            browser_size(&chrome, *w, 900);
            browser_go(&chrome, two); // another document: the next one is loaded, not scrolled
            browser_go(&chrome, url);
            const double at = browser_number(&chrome, top);
            const double end = browser_number(&chrome, "document.documentElement.scrollHeight - innerHeight - scrollY");
            if (at < 0 || (at > 80 && end > 1)) fail_msg("%d px: #%s stands %g px below the top", *w, *name, at);
        }
    quiet("links");
}

/* ---- keyboard and names ---- */

/* Everything that can be used and is to be seen; a drawing is one stop, its first mark. */
#define STOPS \
    "[...document.querySelectorAll('a[href], button, select, input, summary, [tabindex=\"0\"]')]" \
    ".filter(e => e.checkVisibility())"

static void tab_reaches_everything(void **state)
{
    (void)state;
    browser_size(&chrome, 1440, 900);
    browser_go(&chrome, one);
    free(browser_eval(&chrome, "window.reached = new Set();"
                               "addEventListener('focusin', e => reached.add(e.target)); 1"));
    const int stops = (int)browser_number(&chrome, STOPS ".length");
    assert_true(stops > 100);
    for (int i = 0; i < stops + 2; i++) browser_key(&chrome, "Tab", 9);
    char *missed = browser_eval(&chrome, STOPS ".filter(e => !reached.has(e))"
                                               ".map(e => e.outerHTML.slice(0, 80)).join('\\n')");
    if (*missed) fail_msg("Tab never comes to: %.600s", missed);
    free(missed);
    quiet("Tab");
}

static bool needs_a_name(const char *role)
{
    static const char *const roles[] = { "button",    "link",        "combobox",   "slider",
                                         "searchbox", "textbox",     "checkbox",   "DisclosureTriangle",
                                         "region",    "application", "navigation", "img",
                                         "image",     NULL };
    for (int i = 0; roles[i]; i++)
        if (role && !strcmp(role, roles[i])) return true;
    return false;
}

static void the_accessibility_tree_names_every_control(void **state)
{
    int     named = 0;
    size_t  i;
    json_t *node;
    (void)state;
    browser_size(&chrome, 1440, 900);
    browser_go(&chrome, one);
    browser_do(&chrome, "Accessibility.enable", NULL);
    json_t *tree = browser_call(&chrome, "Accessibility.getFullAXTree", NULL);
    json_array_foreach(json_object_get(tree, "nodes"), i, node)
    {
        const char *role = browser_text(node, "role", "value", NULL), *name = browser_text(node, "name", "value", NULL);
        if (json_is_true(json_object_get(node, "ignored")) || !needs_a_name(role)) continue;
        if (!name || !*name) fail_msg("a %s without a name, number %zu of the tree", role, i);
        named++;
    }
    json_decref(tree);
    print_message("%d controls and marks with names\n", named);
    assert_true(named > 300);
    browser_do(&chrome, "Accessibility.disable", NULL);
    quiet("names");
}

/* ---- the largest page ---- */

/* The address of a committed page. */
static const char *committed(const char *path)
{
    static char url[600];
    char       *folder = getcwd(NULL, 0);
    snprintf(url, sizeof url, "file://%s/%s", folder, path);
    free(folder);
    return url;
}

static void committed_pages_work(void **state)
{
    (void)state;
    check_at(committed(LARGEST_PAGE), 1440, "screen", "light");
    check_at(committed(LARGEST_PAGE), 360, "screen", "dark");
    check_at(committed(CPU_PAGE), 360, "screen", "light");
}

static void the_largest_page_paints_within_a_second(void **state)
{
    const char *url = committed(LARGEST_PAGE);
    double      least = INFINITY;
    (void)state;
    browser_size(&chrome, 1440, 900);
    for (int i = 0; i < 3; i++) { // a machine may be busy for a moment
        browser_go(&chrome, url);
        const double ms = browser_number(&chrome,
                                         "performance.getEntriesByName('first-contentful-paint')[0].startTime");
        if (ms > 0 && ms < least) least = ms;
    }
    print_message("first contentful paint of %s after %.0f ms\n", LARGEST_PAGE, least);
    if (!(least < 1000)) fail_msg("first paint after %.0f ms", least);
    quiet(LARGEST_PAGE);
}

static void it_prints_on_few_pages(void **state)
{
    int pages = 0;
    (void)state;
    browser_media(&chrome, "print", "light");
    browser_go(&chrome, one);
    json_t           *r = browser_call(&chrome, "Page.printToPDF",
                                       json_pack("{s:f, s:f}", "paperWidth", 8.27, "paperHeight", 11.7));
    const char       *base64 = browser_text(r, "data", NULL, NULL);
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t      n = strlen(base64);
    char             *pdf = calloc(1, n), *out = pdf;
    unsigned          bits = 0;
    for (size_t i = 0; i < n && base64[i] != '='; i++) {
        bits = bits << 6 | (unsigned)(strchr(digits, base64[i]) - digits);
        if (i % 4) *out++ = (char)(bits >> (6 - 2 * (i % 4)));
    }
    for (const char *at = pdf; (at = memmem(at, (size_t)(out - at), "/Type /Page", 11)) != NULL; at += 11)
        pages += at[11] != 's';
    free(pdf);
    json_decref(r);
    if (pages < 4 || pages > 25) fail_msg("%d pages of paper", pages);
}

/* What the button of the raw data saves, of every table: the page hands it to a Blob. */
#define SAVED \
    "(() => { let all = ''; window.Blob = function (parts) { all += parts[0]; };" \
    "URL.createObjectURL = () => '#'; HTMLAnchorElement.prototype.click = () => {};" \
    "const pick = document.querySelector('#raw-pick');" \
    "for (const o of pick.options) { pick.value = o.value; document.querySelector('#raw-csv').click(); }" \
    "return all; })()"

static void a_saved_table_has_no_formulas(void **state)
{
    char path[600], url[620];
    (void)state;
    snprintf(path, sizeof path, "%s", scratch("formulas.db"));
    formula_store(path, "tests/data/stores/h200_mamba1.db");
    snprintf(url, sizeof url, "%s", scratch("formulas.html"));
    make_page(url, (const char *const[]){ path }, 1, 1);
    snprintf(url, sizeof url, "file://%s", scratch("formulas.html"));
    browser_size(&chrome, 1440, 900);
    browser_go(&chrome, url);
    char *saved = browser_eval(&chrome, SAVED);
    assert_true(cells_guarded(saved) >= 57);
    free(saved);
    quiet("saving tables");
}

static int begin(void **state)
{
    const char *store[] = { REAL_STORE, OTHER_STORE };
    char        path[512];
    (void)state;
    for (int n = 1; n <= 2; n++) {
        snprintf(path, sizeof path, "%s", scratch(n == 1 ? "one.html" : "two.html"));
        make_page(path, store, n, n);
        snprintf(n == 1 ? one : two, sizeof one, "file://%s", path);
    }
    make_page_behind(scratch("before.html"), (const char *const[]){ NEW_STORE }, 1, 1, REAL_STORE);
    snprintf(before, sizeof before, "file://%s", scratch("before.html"));
    make_page(scratch("suite.html"), suite_stores, sizeof suite_stores / sizeof *suite_stores, 2);
    snprintf(suite, sizeof suite, "file://%s", scratch("suite.html"));
    mba_trainings r;
    make_run(scratch("first"), 2.5, 0);
    make_run(scratch("second"), 2.25, 90);
    assert_ok(mba_trainings_open(&r, (const char *const[]){ scratch("first"), scratch("second") }, 2));
    assert_ok(mba_training_page_write(&r, scratch("runs.html")));
    mba_trainings_close(&r);
    snprintf(runs, sizeof runs, "file://%s", scratch("runs.html"));
    browser_open(&chrome, program, scratch("profile"));
    return 0;
}

static int end(void **state)
{
    (void)state;
    browser_close(&chrome);
    return 0;
}

int main(void)
{
    const char             *own = getenv("MBA_CHROMIUM");
    const char *const       names[] = { own && *own ? own : "chromium", "chromium-browser", NULL };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_works_at_every_width),
        cmocka_unit_test(the_page_of_a_suite_works),
        cmocka_unit_test(the_page_with_a_baseline_works),
        cmocka_unit_test(the_questions_are_answered_on_the_first_screen),
        cmocka_unit_test(the_page_of_training_runs_works),
        cmocka_unit_test(light_dark_and_print_look_different),
        cmocka_unit_test(five_answers_stand_on_the_first_screen),
        cmocka_unit_test(no_other_script_runs),
        cmocka_unit_test(links_land_at_their_figure),
        cmocka_unit_test(a_saved_table_has_no_formulas),
        cmocka_unit_test(tab_reaches_everything),
        cmocka_unit_test(the_accessibility_tree_names_every_control),
        cmocka_unit_test(committed_pages_work),
        cmocka_unit_test(the_largest_page_paints_within_a_second),
        cmocka_unit_test(it_prints_on_few_pages),
    };
    if (getenv("MBA_TEST_SANITIZED")) {
        puts("skipped: the page is the same one that the plain build shows");
        return SKIPPED;
    }
    for (const char *const *name = names; *name && !program; name++)
        if (can_run(*name)) program = *name;
    if (!program) {
        puts("skipped: no Chromium here (Debian package `chromium`)");
        return SKIPPED;
    }
    scratch_make();
    const int failed = cmocka_run_group_tests(tests, begin, end);
    scratch_remove();
    return failed;
}
