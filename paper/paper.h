/* The paper's experiments: grids of runs that a file describes (experiments/NAME.yaml), done as a sweep, summarised as
 * tables, figures and a page. */
#ifndef PAPER_H
#define PAPER_H

#include "report/report.h"
#include "sweep/sweep.h"

typedef struct paper_options {
    const char *name;   /* of an experiment; NULL: that of the file */
    const char *config; /* a file in its place; NULL: none */
    bool quick;
    int64_t seeds;         /* -1: what the file says */
    const char *dtype;     /* NULL: what the file says */
    const char *precision; /* NULL: what the file says */
    const char *device;    /* by its name: device.h; NULL: the CPU */
    const char *output;    /* folder; NULL: results/NAME, or results/NAME-quick */
    int64_t jobs;          /* side by side, of each rank; -1: as many as the cores have room for, on a GPU 8 at most */
    int64_t threads;       /* of each run */
} paper_options;

typedef struct paper_result {
    const char *title, *footer; /* of the table; "" where there is none */
    report_table table;         /* for people */
    const char *json;           /* as in results.json */
    const char *folder;
    const char *command; /* that repeats it, and goes on where it stopped */
    int64_t n_runs, n_failed;
    struct paper *inside;
} paper_result;

/* Does what is not done yet, and writes results.csv, results.json, figures and report.html into the folder. Runs that
 * fail are no failure of the whole. Under several ranks the others call paper_serve. */
circe_status paper_run(const paper_options *options, const circe_watch *watch, paper_result *result);
void paper_result_free(paper_result *result);
circe_status paper_serve(const paper_options *options, const circe_watch *watch);

/* In the process of a run, which the words "experiment-run --device NAME -o PATH" start: sweep_work. */
circe_status paper_work(const char *path, const char *device, bool (*stop)(void));

/* Every experiment there is. */
typedef struct paper_entry {
    const char *name, *path;
    const char *title; /* NULL: the file cannot be read */
    const char *error;
} paper_entry;

enum { PAPER_MOST_ENTRIES = 200 };
int64_t paper_list(arena *owner, paper_entry entries[PAPER_MOST_ENTRIES]);

#endif
