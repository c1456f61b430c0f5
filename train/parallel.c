#include "train/parallel.h"

int64_t train_parts(const circe_context *context, int64_t total, int64_t least) {
    return circe_context_parts(context, total, least);
}

typedef struct division {
    int64_t parts, total;
    train_part_fn run;
    void *user;
} division;

/* Near-equal parts, in order. */
static void run_part(void *user, int64_t part) {
    const division *d = user;
    int64_t share = d->total / d->parts, rest = d->total % d->parts;
    int64_t first = part * share + (part < rest ? part : rest);
    d->run(d->user, part, first, share + (part < rest ? 1 : 0));
}

void train_parallel(const circe_context *context, int64_t parts, int64_t total, train_part_fn run, void *user) {
    division d = {.parts = parts, .total = total, .run = run, .user = user};
    circe_context_run(context, parts, run_part, &d);
}
