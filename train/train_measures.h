/* A regulariser in the training loop: its value and gradient at features in the device's memory. The measure moves to
 * the device if the device supports it (device.h, `measures`). Otherwise, and on the CPU, the host measures: it
 * downloads features and uploads gradients. */
#pragma once

#include "train/device.h"
#include "train/regularizer.h"
#include "train/train_ranks.h"

typedef struct train_measures train_measures;

/* A batch of training rows at one of the regularised layers. In the device's memory unless it says otherwise. */
typedef struct train_measured {
    int64_t place, step;
    int64_t n, cols;
    const float *x;            /* (n, cols) */
    const int64_t *index;      /* (n) training rows */
    const int64_t *host_index; /* the same in host memory; only where the measures do not queue */
    const double *loss;        /* of the batch: where it is not finite, the value may be NaN without a look at x */
    double *value;
    float *grad; /* (n, cols); NULL: not wanted */
} train_measured;

/* What the measures are opened for. */
typedef struct train_measure_plan {
    const train_ranks *ranks;      /* NULL: one process */
    int64_t batch, places, widest; /* rows of a batch, layers, the most columns of one */
    const circe_mat *y, *z;        /* of the validation rows, in host memory; NULL: there are none */
    const float *weight;           /* of these; NULL: they count alike, as they do if the measure takes no weights */
} train_measure_plan;

/* The regulariser is borrowed. close takes NULL. */
circe_status train_measures_open(train_device *device, circe_measure *regularizer, const train_measure_plan *plan,
                                 train_measures **measures);
void train_measures_close(train_device *device, train_measures *measures);

/* Whether the work of a batch can be queued and recorded: step, host_index and loss of it are not looked at. So it is
 * where there is nothing to measure (NULL). */
bool train_measures_queue(const train_measures *measures);

/* With several processes (plan.ranks), each has a slice of the rows. `batch` takes n and x of the slice, and the index
 * of all rows. `rows` measures validation rows first .. first + n - 1; it takes first and n of all rows and x of the
 * slice, and its value must be summed over the processes. The value is in host memory. */
circe_status train_measures_batch(train_device *device, train_measures *measures, const train_measured *points);
circe_status train_measures_rows(train_device *device, train_measures *measures, int64_t place, int64_t first,
                                 int64_t n, int64_t cols, const float *x, double *value);
