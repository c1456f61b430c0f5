/* AdamW, operation for operation that of torch.optim.AdamW:
 *
 *     p := p - rate decay p
 *     m := m + (1 - beta1) (g - m)                 v := beta2 v + (1 - beta2) g^2
 *     p := p - rate / (1 - beta1^step)  m / (sqrt(v) / sqrt(1 - beta2^step) + epsilon)
 *
 * Every parameter decays, biases too. The time goes into the square root and the division, not into memory. */
#include <math.h>

#include "train/cpu/cpu.h"
#include "train/parallel.h"

enum { LEAST = 8192 }; /* parameters that are worth a thread */

typedef struct update {
    const float *grads;
    float *params, *m, *v;
    float keep, pull, beta2, square, size, scale, epsilon;
} update;

TRAIN_LOOP static void advance(const update *u, int64_t first, int64_t n) {
    const float *restrict g = u->grads + first;
    float *restrict p = u->params + first, *restrict m = u->m + first, *restrict v = u->v + first;
    float keep = u->keep, pull = u->pull, beta2 = u->beta2, square = u->square, size = u->size, scale = u->scale,
          epsilon = u->epsilon;
    for (int64_t i = 0; i < n; i++) {
        float mean = m[i] + pull * (g[i] - m[i]);
        float power = beta2 * v[i] + square * g[i] * g[i];
        m[i] = mean;
        v[i] = power;
        p[i] = keep * p[i] - size * mean / (sqrtf(power) * scale + epsilon);
    }
}

static void advance_part(void *user, int64_t first, int64_t n) {
    unsigned before = train_cpu_flush_begin(); /* m of a dead unit decays to denormal numbers and stays there */
    advance(user, first, n);
    train_cpu_flush_end(before);
}

void train_cpu_adamw(train_device *device, const train_adamw *how, int64_t n, const float *grads, float *params,
                     float *m, float *v) {
    double step = (double)how->step;
    for (int64_t i = 0; i < how->n_values; i++)
        if (!isfinite(how->values[i])) return;
    update u = {.grads = grads,
                .params = params,
                .m = m,
                .v = v,
                .keep = (float)(1.0 - how->rate * how->decay),
                .pull = (float)(1.0 - how->beta1),
                .beta2 = (float)how->beta2,
                .square = (float)(1.0 - how->beta2),
                .size = (float)(how->rate / (1.0 - pow(how->beta1, step))),
                .scale = (float)(1.0 / sqrt(1.0 - pow(how->beta2, step))),
                .epsilon = (float)how->epsilon};
    train_ranges(device->context, n, LEAST, advance_part, &u);
}
