/* The paper's experiments: grids of runs that a file describes (experiments/NAME.yaml). They run as a sweep and are
 * summarised as tables, figures and a page. circe/experiment.h is their interface; this header has what the command
 * needs in addition. */
#pragma once

#include "circe/experiment.h"
#include "report/report.h"
#include "sweep/sweep.h"

/* In the process of a run, which the words "experiment-run --device NAME -o PATH" start: sweep_work. */
circe_status paper_work(const char *path, const char *device, bool (*stop)(void));
