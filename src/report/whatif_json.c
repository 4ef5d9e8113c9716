// SPDX-License-Identifier: Apache-2.0
/* whatif_json.c -- what the simulator says, as JSON for the script of the page: the sliders of Fig. 13 choose among
 * it. */
#include <math.h>

#include "report/parts.h"

static const char *const bound_paints[MBA_WI_BOUNDS] = { "conv", "msg", "tensor", "vector", "sfu", "red", "mem" };

/* For each part its time and per mille by what binds. */
static void step_json(mba_buf *b, const mba_wi_step *s)
{
    for (int part = 0; part < MBA_WI_PARTS; part++) {
        const mba_wi_time *t = &s->of[part];
        mba_buf_put(b, part ? "," : "[");
        if (isfinite(t->ms)) mba_buf_add(b, "%.4g", t->ms);
        else mba_buf_put(b, "null");
        for (int k = 0; k < MBA_WI_BOUNDS; k++) mba_buf_add(b, ",%.0f", 1000 * t->share[k]);
    }
    mba_buf_put(b, "]");
}

static void model_json(mba_buf *b, const mba_stores *r, int model)
{
    const mba_whatif   *w = r->whatif;
    const mba_wi_model *m = &w->model[model];
    const int           n = mba_wi_grid_size(w);
    mba_buf_put(b, "{\"name\":");
    mba_buf_json(b, m->name);
    mba_buf_put(b, ",\"label\":");
    mba_buf_json(b, mba_model_label(r, model));
    mba_buf_put(b, ",\"batch\":");
    mba_buf_json(b, m->batch);
    mba_buf_put(b, ",\"unit\":");
    mba_buf_json(b, m->unit);
    mba_buf_put(b, ",\"units\":");
    mba_buf_json_number(b, m->units);
    mba_buf_put(b, ",\"measured\":[");
    for (int part = 0; part < MBA_WI_PARTS; part++) {
        if (part) mba_buf_put(b, ",");
        mba_buf_json_number(b, m->measured_ms[part]);
    }
    mba_buf_put(b, "],\"grid\":[");
    for (int i = 0; i < n; i++) {
        if (i) mba_buf_put(b, ",");
        step_json(b, &m->grid[i]);
    }
    mba_buf_put(b, "],\"ops\":{");
    for (int i = 0; i < m->nops; i++) {
        if (i) mba_buf_put(b, ",");
        mba_buf_json(b, m->op[i].name);
        mba_buf_put(b, ":[");
        for (int k = 0; k < w->nmachines; k++) mba_buf_add(b, "%s%.4g", k ? "," : "", m->op[i].ms[k]);
        mba_buf_put(b, "]");
    }
    mba_buf_put(b, "}}");
}

void mba_part_whatif_json(mba_buf *b, const mba_stores *r)
{
    const mba_whatif *w = r->whatif;
    if (!w) {
        mba_buf_put(b, "null");
        return;
    }
    mba_buf_add(b, "{\"machine\":\"%s\",\"band\":[%.4g,%.4g],\"held\":%.4g,\"bounds\":[", w->machine, w->low, w->high,
                w->score[0].mean);
    for (int k = 0; k < MBA_WI_BOUNDS; k++)
        mba_buf_add(b, "%s[\"%s\",\"%s\"]", k ? "," : "", mba_wi_bounds[k], bound_paints[k]);
    mba_buf_put(b, "],\"machines\":[");
    for (int k = 0; k < w->nmachines; k++) mba_buf_add(b, "%s\"%s\"", k ? "," : "", w->machines[k]);
    mba_buf_put(b, "],\"sliders\":[");
    for (int k = 0; k < MBA_WI_SLIDERS; k++) {
        mba_buf_add(b, "%s{\"key\":\"%s\",\"name\":\"%s\",\"values\":[", k ? "," : "", w->slider[k].key,
                    w->slider[k].name);
        for (int i = 0; i < w->slider[k].n; i++) mba_buf_add(b, "%s%g", i ? "," : "", w->slider[k].value[i]);
        mba_buf_put(b, "]}");
    }
    mba_buf_put(b, "],\"models\":[");
    for (int i = 0; i < w->nmodels; i++) {
        if (i) mba_buf_put(b, ",\n");
        model_json(b, r, i);
    }
    mba_buf_put(b, "]}");
}
