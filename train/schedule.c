#include "train/schedule.h"

#include <math.h>

double train_schedule_at(const train_schedule *schedule, int64_t step) {
    const double pi = 3.14159265358979323846;
    if (step < schedule->warmup) return (double)(step + 1) / (double)schedule->warmup;
    if (!schedule->cosine || schedule->total <= schedule->warmup) return 1.0;
    double done = (double)(step - schedule->warmup) / (double)(schedule->total - schedule->warmup);
    double wave = 0.5 * (1.0 + cos(pi * fmin(done, 1.0)));
    return schedule->last + (1.0 - schedule->last) * wave;
}
