#include "train/parallel.h"

#include "core/threads.h"

typedef struct division {
    int64_t parts, total;
    train_part_fn run;
    train_range_fn run_range; /* where there is no `run` */
    void *user;
} division;

/* Near-equal parts, in order. */
static void run_part(void *user, int64_t part) {
    const division *d = user;
    int64_t first = circe__cut(d->total, d->parts, part), n = circe__cut(d->total, d->parts, part + 1) - first;
    if (d->run != NULL)
        d->run(d->user, part, first, n);
    else
        d->run_range(d->user, first, n);
}

void train_parallel(const circe_context *context, int64_t parts, int64_t total, train_part_fn run, void *user) {
    division d = {.parts = parts, .total = total, .run = run, .user = user};
    circe_context_run(context, parts, run_part, &d);
}

void train_ranges(const circe_context *context, int64_t total, int64_t least, train_range_fn run, void *user) {
    division d = {circe_context_parts(context, total, least), total, NULL, run, user};
    circe_context_run(context, d.parts, run_part, &d);
}
