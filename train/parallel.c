#include "parallel.h"

#include <omp.h>

int64_t train_parts(const circe_context *context, int64_t total, int64_t least) {
    int64_t threads = circe_context_threads(context), most = total / least;
    if (most < 1) return 1;
    return most < threads ? most : threads;
}

/* Near-equal parts, in order. */
static void run_part(int64_t parts, int64_t part, int64_t total, train_part_fn run, void *user) {
    int64_t share = total / parts, rest = total % parts;
    int64_t first = part * share + (part < rest ? part : rest);
    run(user, part, first, share + (part < rest ? 1 : 0));
}

/* The team is always that of the context, even where there are fewer parts: OpenMP's runtime ends the threads that a
 * smaller team leaves over, and starts new ones for the next. */
void train_parallel(const circe_context *context, int64_t parts, int64_t total, train_part_fn run, void *user) {
    if (parts == 1 || omp_in_parallel()) { /* a team inside a team would be one thread, and an allocation */
        for (int64_t part = 0; part < parts; part++) run_part(parts, part, total, run, user);
        return;
    }
#pragma omp parallel num_threads(circe_context_threads(context))
    for (int64_t part = omp_get_thread_num(); part < parts; part += omp_get_num_threads())
        run_part(parts, part, total, run, user);
}
