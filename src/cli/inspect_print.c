// SPDX-License-Identifier: Apache-2.0
/* inspect_print.c -- prints a report as text: facts, bars and small pictures; see inspect.h. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/inspect.h"
#include "cli/say.h"
#include "data/array.h"
#include "data/json.h"
#include "data/unicode.h"

enum { ROWS_MAX = 12, BAR = 32, NAME = 20 };

/* ---- facts ---- */

void mba__fact_int(json_t *to, const char *key, int64_t value) { json_object_set_new(to, key, json_integer(value)); }

static json_t *harmless(const char *text)
{
    return json_string(mba_utf8_valid(text, strlen(text)) ? text : mba_quote(text).text);
}

void mba__fact_text(json_t *to, const char *key, const char *text) { json_object_set_new(to, key, harmless(text)); }

void mba__fact_format(mba_report *r, const char *format, const char *about)
{
    mba__fact_text(r->facts, "format", format);
    mba__fact_text(r->facts, "about", about);
    if (r->bytes) mba__fact_int(r->facts, "bytes", r->bytes);
}

void mba__fact_count(json_t *list, const char *name, int64_t count)
{
    json_t *row = json_object();
    json_object_set_new(row, "class", harmless(name));
    mba__fact_int(row, "count", count);
    json_array_append_new(list, row);
}

void mba__spread_add(mba_value_range *s, double value)
{
    int bin = 0;
    if (value >= 1) (void)frexp(value, &bin);
    if (!s->n || value < s->low) s->low = value;
    if (!s->n || value > s->high) s->high = value;
    s->sum += value;
    s->n++;
    s->bin[bin < MBA_SPREAD_BINS ? bin : MBA_SPREAD_BINS - 1]++;
}

static json_t *number(double v)
{
    return v == floor(v) && fabs(v) < 9e15 ? json_integer((json_int_t)v) : mba_json_finite(v);
}

static json_t *histogram_of(const mba_value_range *s)
{
    json_t *list = json_array();
    int     first = 0, last = MBA_SPREAD_BINS - 1;
    while (!s->bin[first]) first++;
    while (!s->bin[last]) last--;
    for (int k = first; k <= last; k++) {
        json_t *row = json_object();
        json_object_set_new(row, "from", number(k ? ldexp(1, k - 1) : 0));
        json_object_set_new(row, "to", number(k ? ldexp(1, k) - 1 : 0));
        mba__fact_int(row, "count", s->bin[k]);
        json_array_append_new(list, row);
    }
    return list;
}

void mba__fact_spread(json_t *to, const char *key, const mba_value_range *s, bool histogram)
{
    if (!s->n) return;
    json_t *o = json_object();
    json_object_set_new(o, "min", number(s->low));
    json_object_set_new(o, "mean", number(s->sum / (double)s->n));
    json_object_set_new(o, "max", number(s->high));
    if (histogram) json_object_set_new(o, "histogram", histogram_of(s));
    json_object_set_new(to, key, o);
}

/* ---- text ---- */

static void print_scalar(FILE *f, const json_t *v)
{
    if (json_is_integer(v)) fprintf(f, "%" PRId64, (int64_t)json_integer_value(v));
    else if (json_is_real(v)) fprintf(f, "%.6g", json_real_value(v));
    else if (json_is_boolean(v)) fputs(json_is_true(v) ? "yes" : "no", f);
    else if (json_is_string(v)) fputs(mba_quote(json_string_value(v)).text, f);
}

/* Writes the name of a bar: a class, or a range of values. */
static void name_row(char *to, size_t room, const json_t *row)
{
    const json_t *from = json_object_get(row, "from");
    const int64_t low = (int64_t)json_number_value(from), high = (int64_t)json_number_value(json_object_get(row, "to"));
    if (!from) snprintf(to, room, "%s", mba_quote(json_string_value(json_object_get(row, "class"))).text);
    else if (low == high) snprintf(to, room, "%" PRId64, low);
    else snprintf(to, room, "%" PRId64 " .. %" PRId64, low, high);
}

static int64_t count_of(const json_t *list, size_t i)
{
    return json_integer_value(json_object_get(json_array_get(list, i), "count"));
}

/* Draws counts as bars. The largest bar is full; every count above 0 has at least one mark. */
static void print_bars(FILE *f, const json_t *list, int indent)
{
    const bool   all = json_array_size(list) <= ROWS_MAX || json_object_get(json_array_get(list, 0), "from");
    const size_t n = json_array_size(list), shown = all ? n : ROWS_MAX - 1;
    int64_t      most = 1;
    for (size_t i = 0; i < n; i++)
        if (count_of(list, i) > most) most = count_of(list, i);
    for (size_t i = 0; i < shown; i++) {
        char          name[192];
        const int64_t count = count_of(list, i);
        const int     bar = (int)((BAR * count + most - 1) / most);
        name_row(name, sizeof name, json_array_get(list, i));
        fprintf(f, "%*s%-*.40s %10" PRId64 "%s%.*s\n", indent, "", NAME, name, count, bar ? " " : "", bar,
                "################################");
    }
    if (shown < n) fprintf(f, "%*s.. and %zu more\n", indent, "", n - shown);
}

static void print_tensors(FILE *f, const json_t *list, int indent)
{
    const size_t n = json_array_size(list), shown = n <= ROWS_MAX ? n : ROWS_MAX - 1;
    for (size_t i = 0; i < shown; i++) {
        const json_t *row = json_array_get(list, i), *dim = json_object_get(row, "shape");
        int64_t       shape[MBA_ARRAY_RANK_MAX] = { 0 };
        const int     rank = (int)json_array_size(dim);
        for (int k = 0; k < rank; k++) shape[k] = json_integer_value(json_array_get(dim, (size_t)k));
        fprintf(f, "%*s%-4s %-18s %s\n", indent, "", json_string_value(json_object_get(row, "dtype")),
                mba_shape_words(rank, shape).text, mba_quote(json_string_value(json_object_get(row, "name"))).text);
    }
    if (shown < n) fprintf(f, "%*s.. and %zu more\n", indent, "", n - shown);
}

static void print_spread(FILE *f, const json_t *v)
{
    static const char *const part[] = { "min", "mean", "max" };
    for (int i = 0; i < 3; i++) {
        fprintf(f, "%s%s ", i ? ", " : "", part[i]);
        print_scalar(f, json_object_get(v, part[i]));
    }
}

static void print_facts(FILE *f, const json_t *facts, int indent);

static void print_row(FILE *f, const json_t *list)
{
    const json_t *v;
    size_t        i;
    json_array_foreach(list, i, v)
    {
        if (i) fputc(' ', f);
        print_scalar(f, v);
    }
}

/* Prints a fact of several lines below its name. */
static void print_block(FILE *f, const json_t *v, int indent)
{
    if (json_is_object(v)) print_facts(f, v, indent);
    else if (json_object_get(json_array_get(v, 0), "shape")) print_tensors(f, v, indent);
    else print_bars(f, v, indent);
}

static void print_fact(FILE *f, const char *key, const json_t *v, int indent)
{
    char name[64];
    snprintf(name, sizeof name, "%s", key);
    for (char *c = name; *c; c++)
        if (*c == '_') *c = ' ';
    const bool spread = json_object_get(v, "min") != NULL;
    if (!spread && (json_is_object(v) || json_is_object(json_array_get(v, 0)))) {
        mba_say(f, "%*s%s\n", indent, "", name);
        print_block(f, v, indent + 2);
        return;
    }
    mba_say(f, "%*s%-*s ", indent, "", NAME, name);
    if (spread) print_spread(f, v);
    else if (json_is_array(v)) print_row(f, v);
    else print_scalar(f, v);
    fputc('\n', f);
    if (json_object_get(v, "histogram")) print_bars(f, json_object_get(v, "histogram"), indent + 2);
}

static void print_facts(FILE *f, const json_t *facts, int indent)
{
    const char *key;
    json_t     *v;
    json_object_foreach((json_t *)(uintptr_t)facts, key, v) if (strcmp(key, "path") && strcmp(key, "about"))
        print_fact(f, key, v, indent);
}

/* ---- pictures ---- */

/* Shrinks an image: each pixel of the copy is the mean of the pixels that it covers. */
static void shrink(mba_image *to, const mba_image *m)
{
    for (int32_t y = 0; y < to->H; y++)
        for (int32_t x = 0; x < to->W; x++) {
            const int64_t x0 = (int64_t)x * m->W / to->W, x1 = (int64_t)(x + 1) * m->W / to->W;
            const int64_t y0 = (int64_t)y * m->H / to->H, y1 = (int64_t)(y + 1) * m->H / to->H;
            for (int k = 0; k < 3; k++) {
                int64_t sum = 0;
                for (int64_t v = y0; v < y1; v++)
                    for (int64_t u = x0; u < x1; u++) sum += m->rgb[3 * (v * m->W + u) + k];
                to->rgb[3 * (y * to->W + x) + k] = (uint8_t)(sum / ((x1 - x0) * (y1 - y0)));
            }
        }
}

mba_status mba__report_picture(mba_report *r, const mba_image *m, const char *caption)
{
    if (r->pictures == MBA_PICTURES) return MBA_OK;
    const int32_t longer = m->W > m->H ? m->W : m->H, side = longer < MBA_PICTURE_SIDE ? longer : MBA_PICTURE_SIDE;
    const int32_t W = (int32_t)((int64_t)m->W * side / longer), H = (int32_t)((int64_t)m->H * side / longer);
    mba_image    *to = &r->picture[r->pictures];
    MBA_TRY(mba_image_reshape(to, W ? W : 1, H ? H : 1));
    shrink(to, m);
    snprintf(r->caption[r->pictures++], sizeof r->caption[0], "%.24s", mba_quote(caption).text);
    return MBA_OK;
}

/* The brightness of a pixel, 0 to 255; -1: outside of the image. */
static int light_of(const mba_image *m, int32_t x, int32_t y)
{
    if (x >= m->W || y >= m->H) return -1;
    const uint8_t *p = m->rgb + 3 * ((int64_t)y * m->W + x);
    return (299 * p[0] + 587 * p[1] + 114 * p[2]) / 1000;
}

static char shade_of(const mba_image *m, int32_t x, int32_t y)
{
    static const char ramp[] = " .:-=+*#%@";
    const int         a = light_of(m, x, y), b = light_of(m, x, y + 1), light = a < 0 ? 0 : b < 0 ? a : (a + b) / 2;
    return ramp[light * 10 / 256];
}

static void print_shades(const mba_report *r, FILE *f, int32_t y)
{
    char line[MBA_PICTURES * (MBA_PICTURE_SIDE + 2)];
    int  n = 0, used = 0;
    for (int i = 0; i < r->pictures; i++)
        for (int32_t x = -2; x < MBA_PICTURE_SIDE; x++) {
            line[n++] = x < 0 ? ' ' : shade_of(&r->picture[i], x, y);
            if (line[n - 1] != ' ') used = n;
        }
    fprintf(f, "%.*s\n", used, line);
}

/* Prints two pixels in one character cell: the upper one as its foreground, the lower one as its background. */
static void print_cell(FILE *f, const mba_image *m, int32_t x, int32_t y)
{
    if (x >= m->W || y >= m->H) {
        fputs("\033[0m ", f);
        return;
    }
    const uint8_t *p = m->rgb + 3 * ((int64_t)y * m->W + x);
    if (y + 1 < m->H) fprintf(f, "\033[48;2;%d;%d;%dm", p[3 * m->W], p[3 * m->W + 1], p[3 * m->W + 2]);
    else fputs("\033[49m", f);
    fprintf(f, "\033[38;2;%d;%d;%dm\u2580", p[0], p[1], p[2]);
}

static void print_colours(const mba_report *r, FILE *f, int32_t y)
{
    for (int i = 0; i < r->pictures; i++) {
        fputs("  ", f);
        for (int32_t x = 0; x < MBA_PICTURE_SIDE; x++) print_cell(f, &r->picture[i], x, y);
        fputs("\033[0m", f);
    }
    fputc('\n', f);
}

static void print_pictures(const mba_report *r, FILE *f, bool colour)
{
    int32_t H = 0;
    for (int i = 0; i < r->pictures; i++)
        if (r->picture[i].H > H) H = r->picture[i].H;
    for (int32_t y = 0; y < H; y += 2) (colour ? print_colours : print_shades)(r, f, y);
    for (int i = 0; i < r->pictures; i++)
        fprintf(f, "  %-*s%s", i + 1 < r->pictures ? MBA_PICTURE_SIDE : 0, r->caption[i],
                i + 1 < r->pictures ? "" : "\n");
}

void mba__report_print(const mba_report *r, FILE *f, bool colour)
{
    mba_say(f, "%s: %s\n", r->path, json_string_value(json_object_get(r->facts, "about")));
    print_facts(f, r->facts, 2);
    print_pictures(r, f, colour);
}
