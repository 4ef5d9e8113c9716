// SPDX-License-Identifier: Apache-2.0
/* timeline.h -- the events of one step as JSON, for the script that zooms into the timeline (fig_timeline.c). */
#ifndef MBA_REPORT_TIMELINE_H
#define MBA_REPORT_TIMELINE_H

#include "report/buf.h"
#include "scope/analysis.h"

MBA_MUST mba_status mba_timeline_json(mba_buf *b, const mba_analysis *a);

#endif
