/* The paper's experiments: grids of runs that a file describes (experiments/NAME.yaml), done as a sweep, summarised as
 * tables, figures and a page. circe/experiment.h has what is asked of them; this is what the command needs beside. */
#ifndef PAPER_H
#define PAPER_H

#include "circe/experiment.h"
#include "report/report.h"
#include "sweep/sweep.h"

/* In the process of a run, which the words "experiment-run --device NAME -o PATH" start: sweep_work. */
circe_status paper_work(const char *path, const char *device, bool (*stop)(void));

#endif
