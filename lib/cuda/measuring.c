/* A circe_measure whose rows are evaluated on the GPU: what it needs of its data set is copied there once, as float32.
 *
 *     circe   residual features y (N, d_y), zeta (N, q)
 *     hsic    z (N, d_z), the batch's rows gathered
 *     hscic   y and z (N, .); with z's mean from the holdout, residual features instead of z
 *     kci     y and z
 *     gcm     y and z, z_hat (N, d_z) where z is regressed on the holdout; the batch before, x and y of each place
 *
 * The host computes the other kinds, circe by random features or with a z of high rank, a width of x that is not known
 * yet, and everything in float64. */
#include "cuda/measuring.h"

#include <math.h>

/* ---- memory of the GPU ------------------------------------------------------------------------------------------- */

enum { BLOCKS = 10, BLOCKS_OF_PLACE = 3 };

static circe_status own(circe__on_cuda *s, int64_t count, size_t size, void *block) {
    void *data = NULL;
    circe_status status = circe__cuda_alloc((size_t)circe__max(count, 1) * size, "a measure", &data);
    if (status == CIRCE_OK) s->blocks[s->n_blocks++] = *(void **)block = data;
    return status;
}

static circe_status upload(const circe__on_cuda *s, void *to, const void *from, size_t bytes) {
    return circe__cuda_upload(s->cuda, to, bytes, from, bytes, bytes, 1, "bringing a measure's data to the GPU");
}

/* A copy on the GPU, as float32, as points of the kernel if one is given. */
static circe_status bring(circe_measure *m, const circe_kernel *kernel, double *from, int64_t cols, circe_mat *to) {
    circe__on_cuda *s = circe__on_cuda_of(m);
    int64_t count = circe__max(m->n_rows * cols, 1);
    float *copy = circe__alloc(m->context, count, sizeof *copy), *block = NULL;
    if (copy == NULL) return CIRCE_ERR_MEMORY;
    circe_mat wide = circe_mat_f64(from, m->n_rows, cols), narrow = circe_mat_f32(copy, m->n_rows, cols);
    if (kernel != NULL)
        circe__copy_points(kernel, &wide, &narrow);
    else
        circe__copy_mat(&wide, &narrow);
    circe_status status = own(s, count, sizeof *copy, &block);
    if (status == CIRCE_OK) status = upload(s, block, copy, (size_t)(m->n_rows * cols) * sizeof *copy);
    circe__free(m->context, copy);
    *to = circe_mat_f32(block, m->n_rows, cols);
    return status;
}

static circe_status bring_rows(circe_measure *m) {
    circe_status status = m->cols_y > 0 ? bring(m, m->kernel_y, m->y, m->cols_y, &circe__on_cuda_of(m)->y) : CIRCE_OK;
    return status == CIRCE_OK ? bring(m, m->kernel_z, m->z, m->cols_z, &circe__on_cuda_of(m)->z) : status;
}

circe_status circe__on_cuda_features(circe_measure *m, const circe_features *features) {
    circe__on_cuda *s = circe__on_cuda_of(m);
    circe_mat views[2];
    circe_status status = circe_features_get(features, &views[0], &views[1]);
    if (status == CIRCE_ERR_RANK) return circe_fail(CIRCE_ERR_UNSUPPORTED, "%s", circe_last_error());
    if (status == CIRCE_OK) status = circe_cuda_features_create(s->cuda, features, &s->features);
    return status == CIRCE_OK ? circe_cuda_features_get(s->features, &s->y, &s->z) : status;
}

/* E[z | y] of every row. */
static circe_status bring_mean(circe_measure *m) {
    circe_mat y = circe_mat_f64(m->y, m->n_rows, m->cols_y);
    CIRCE__OWNED double *mean = circe__alloc(m->context, m->n_rows * m->cols_z, sizeof *mean);
    if (mean == NULL) return CIRCE_ERR_MEMORY;
    circe_mat z_hat = circe_mat_f64(mean, m->n_rows, m->cols_z);
    circe_status status = circe_cme_mean(m->workspace, m->mean, &y, &z_hat);
    if (status == CIRCE_OK) status = bring(m, NULL, mean, m->cols_z, &circe__on_cuda_of(m)->z_hat);
    return status;
}

/* ---- kinds: what they bring, and a batch of theirs --------------------------------------------------------------- */

static circe_status open_circe(circe_measure *m) {
    if (m->features == NULL) return circe_fail(CIRCE_ERR_UNSUPPORTED, "there are no residual features");
    return circe__on_cuda_features(m, m->features);
}

static circe_status batch_circe(circe_measure *m, const circe_kernels *kernels, const int64_t *rows, const circe_mat *x,
                                const circe__cuda_previous *before, double *value, circe_mat *grad) {
    const circe__on_cuda *s = circe__on_cuda_of(m);
    (void)before;
    return circe_cuda_measure_circe(s->cuda, kernels->y, &s->y, &s->z, rows, x->rows, kernels->x, x,
                                    m->options.estimator, value, grad);
}

static circe_status open_hsic(circe_measure *m) {
    circe__on_cuda *s = circe__on_cuda_of(m);
    circe_status status = bring_rows(m);
    return status == CIRCE_OK ? own(s, s->most * m->cols_z, sizeof *s->batch_z, &s->batch_z) : status;
}

static circe_status batch_hsic(circe_measure *m, const circe_kernels *kernels, const int64_t *rows, const circe_mat *x,
                               const circe__cuda_previous *before, double *value, circe_mat *grad) {
    const circe__on_cuda *s = circe__on_cuda_of(m);
    circe_mat z = rows != NULL ? circe_mat_f32(s->batch_z, x->rows, m->cols_z) : s->z;
    (void)before;
    circe_status status = rows != NULL ? circe_cuda_gather(s->cuda, &s->z, rows, &z) : CIRCE_OK;
    if (status != CIRCE_OK) return status;
    return circe_cuda_measure_hsic(s->cuda, kernels, x, &z, circe__measure_hsic_estimator(m), value, grad);
}

/* Low rank where the rows, or as many of them as are looked at, need no more than three quarters of the pivots that a
 * batch may have: a batch is a part of them, and what is left out of it is counted against its own trace. */
static circe_status choose_method(circe_measure *m) {
    enum { MOST_ROWS = 16384, MOST_RANK = 72 };
    circe__on_cuda *s = circe__on_cuda_of(m);
    circe_batch_options options = circe__measure_batch_options(m);
    int64_t step = (s->y.rows + MOST_ROWS - 1) / MOST_ROWS, rank = -1;
    circe_mat some = {s->y.data, s->y.rows / step, s->y.cols, s->y.ld * step, s->y.dtype};
    s->method = CIRCE_METHOD_DENSE;
    if (options.method == CIRCE_METHOD_DENSE || !circe__measure_smooths(m)) return CIRCE_OK;
    options.tolerance = circe__batch_tolerance(options.tolerance, CIRCE_FLOAT32);
    options.tolerance = fmax(options.tolerance * fmin(1.0, (double)s->most / (double)some.rows), 1e-15);
    circe_status status = circe_cuda_batch_rank(s->cuda, m->kernel_y, &some, &options, &rank);
    if (rank >= 0 && rank <= MOST_RANK) s->method = CIRCE_METHOD_LOWRANK;
    return status;
}

static circe_status reserve_batch(circe_measure *m) {
    circe__on_cuda *s = circe__on_cuda_of(m);
    circe_status status = choose_method(m);
    if (status != CIRCE_OK) return status;
    return circe_cuda_reserve_batch(s->cuda, s->most, s->widest, s->y.cols, s->z.cols, CIRCE_FLOAT32);
}

static circe_status open_batch(circe_measure *m) {
    circe_features *features = NULL;
    circe_status status;
    if (circe__measure_holds_out(m)) {
        circe_mat y = circe_mat_f64(m->y, m->n_rows, m->cols_y), z = circe_mat_f64(m->z, m->n_rows, m->cols_z);
        status = circe_features_create(m->context, m->mean, &y, &z, CIRCE_FLOAT32, &features);
        if (status == CIRCE_OK) status = circe__on_cuda_features(m, features);
        circe_features_destroy(features);
    } else {
        status = bring_rows(m);
    }
    return status == CIRCE_OK ? reserve_batch(m) : status;
}

static circe_status batch_hscic(circe_measure *m, const circe_kernels *kernels, const int64_t *rows, const circe_mat *x,
                                const circe__cuda_previous *before, double *value, circe_mat *grad) {
    const circe__on_cuda *s = circe__on_cuda_of(m);
    circe_batch_options options = circe__measure_batch_options(m);
    (void)before;
    options.method = s->method;
    if (circe__measure_holds_out(m))
        return circe_cuda_measure_hscic_holdout(s->cuda, kernels->y, &s->y, &s->z, rows, kernels->x, x, &options, value,
                                                grad);
    return circe_cuda_measure_hscic(s->cuda, kernels, x, &s->y, &s->z, rows, &options, value, grad);
}

static circe_status batch_kci(circe_measure *m, const circe_kernels *kernels, const int64_t *rows, const circe_mat *x,
                              const circe__cuda_previous *before, double *value, circe_mat *grad) {
    const circe__on_cuda *s = circe__on_cuda_of(m);
    circe_batch_options options = circe__measure_batch_options(m);
    (void)before;
    options.method = s->method;
    return circe_cuda_measure_kci(s->cuda, kernels, x, &s->y, &s->z, rows, &options, value, grad);
}

static circe_status open_places(circe_measure *m) {
    circe__on_cuda *s = circe__on_cuda_of(m);
    s->places = circe__calloc(m->context, s->n_places, sizeof *s->places);
    circe_status status = s->places == NULL ? CIRCE_ERR_MEMORY : CIRCE_OK;
    for (int64_t k = 0; k < s->n_places && status == CIRCE_OK; k++) {
        circe__cuda_previous *p = &s->places[k];
        status = own(s, s->most * s->widest, sizeof *p->x, &p->x);
        if (status == CIRCE_OK) status = own(s, s->most * m->cols_y, sizeof *p->y, &p->y);
        if (status == CIRCE_OK) status = own(s, s->most, sizeof *p->rows, &p->rows);
    }
    return status;
}

static circe_status open_gcm(circe_measure *m) {
    circe_status status = bring_rows(m);
    if (status == CIRCE_OK && circe__measure_holds_out(m)) status = bring_mean(m);
    if (status == CIRCE_OK && circe__measure_carries(m)) status = open_places(m);
    return status == CIRCE_OK ? reserve_batch(m) : status;
}

static circe_status batch_gcm(circe_measure *m, const circe_kernels *kernels, const int64_t *rows, const circe_mat *x,
                              const circe__cuda_previous *before, double *value, circe_mat *grad) {
    const circe__on_cuda *s = circe__on_cuda_of(m);
    circe_gcm_options options = circe__measure_gcm_options(m);
    circe_mat before_x, before_y;
    options.batch.method = s->method;
    if (before != NULL && before->n > 0) {
        before_x = circe_mat_f32(before->x, before->n, before->cols);
        before_y = circe_mat_f32(before->y, before->n, m->cols_y);
        options.previous_x = &before_x;
        options.previous_y = &before_y;
    }
    return circe_cuda_measure_gcm(s->cuda, kernels->y, x, &s->y, &s->z, s->z_hat.rows > 0 ? &s->z_hat : NULL, rows,
                                  &options, value, grad);
}

static const struct {
    circe_status (*open)(circe_measure *m);
    circe_status (*batch)(circe_measure *m, const circe_kernels *kernels, const int64_t *rows, const circe_mat *x,
                          const circe__cuda_previous *before, double *value, circe_mat *grad);
} kinds[CIRCE_MEASURE_KINDS] = {
    [CIRCE_MEASURE_CIRCE] = {open_circe, batch_circe}, [CIRCE_MEASURE_HSIC] = {open_hsic, batch_hsic},
    [CIRCE_MEASURE_HSCIC] = {open_batch, batch_hscic}, [CIRCE_MEASURE_KCI] = {open_batch, batch_kci},
    [CIRCE_MEASURE_GCM] = {open_gcm, batch_gcm},
};

/* ---- x as its kernel sees it ------------------------------------------------------------------------------------- */

static double *widths_of(const circe__on_cuda *s, int64_t place) { return s->widths + place * (s->n_widths + 1); }
static double *figures_of(const circe__on_cuda *s, int64_t place) { return s->figures + place * CIRCE_N_FIGURES; }

static circe_status open_scaling(circe_measure *m) {
    circe__on_cuda *s = circe__on_cuda_of(m);
    int64_t room = s->n_places * (s->n_widths + 1 + CIRCE_N_FIGURES);
    if (m->asked_x == NULL) return CIRCE_OK;
    circe_status status = own(s, room, sizeof *s->widths, &s->widths);
    if (status == CIRCE_OK) status = own(s, (int64_t)circe_cuda_scale_bytes(s->most, s->widest), 1, &s->scaling);
    if (status == CIRCE_OK && circe__measure_scales(m)) status = own(s, s->most * s->widest, sizeof(float), &s->scaled);
    if (status != CIRCE_OK) return status;
    s->figures = s->widths + s->n_places * (s->n_widths + 1);
    return circe__cuda_status(cudaMemsetAsync(s->widths, 0, (size_t)room * sizeof *s->widths, s->cuda->stream),
                              "opening a measure");
}

/* The widths in use. If this measure follows another one on the same device, it uses that measure's running widths. */
static double *widths_in_use(const circe_measure *m, int64_t place) {
    const circe__on_cuda *own_state = circe__on_cuda_of(m);
    const circe__on_cuda *other = m->leader != NULL && m->leader->device == m->device ? m->leader->on_device : NULL;
    bool follows = circe__measure_runs(m) && other != NULL && place < other->n_places;
    return widths_of(follows ? other : own_state, follows || place < own_state->n_places ? place : 0);
}

/* The kernel whose factors without a width follow x, or, for the figures alone, the one in use. */
static circe_status scale(circe_measure *m, int64_t place, const circe_kernel *kernel, const circe_mat *x,
                          circe_mat *seen) {
    const circe__on_cuda *s = circe__on_cuda_of(m);
    bool steps = m->leader == NULL && place < s->n_places, follows = circe__measure_follows(m);
    circe_scaling scaling = circe__measure_scaling(m, !steps);
    *seen = s->scaled != NULL ? circe__mat(s->scaled, x->rows, x->cols, x->dtype) : *x;
    if (s->scaling == NULL || (s->scaled == NULL && !steps)) return CIRCE_OK;
    return circe_cuda_scale(s->cuda, follows ? m->asked_x : kernel, &scaling, x, widths_in_use(m, place),
                            steps ? figures_of(s, place) : NULL, s->scaling, s->scaled != NULL ? seen : NULL);
}

static circe_status scale_back(circe_measure *m, int64_t place, const circe_kernel *kernel, const circe_mat *x,
                               circe_mat *grad) {
    const circe__on_cuda *s = circe__on_cuda_of(m);
    circe_scaling scaling = circe__measure_scaling(m, true);
    if (s->scaled == NULL || grad == NULL) return CIRCE_OK;
    return circe_cuda_scale_gradient(s->cuda, circe__measure_follows(m) ? m->asked_x : kernel, &scaling, x,
                                     widths_in_use(m, place), s->scaling, grad);
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */

static circe_status remember(circe_measure *m, circe__cuda_previous *p, const int64_t *rows, const circe_mat *x) {
    const circe__on_cuda *s = circe__on_cuda_of(m);
    size_t width = (size_t)x->cols * sizeof(float);
    circe_mat y = circe_mat_f32(p->y, x->rows, m->cols_y);
    p->n = x->rows;
    p->cols = x->cols;
    cudaError_t error = cudaMemcpy2DAsync(p->x, width, x->data, (size_t)x->ld * sizeof(float), width, (size_t)x->rows,
                                          cudaMemcpyDeviceToDevice, s->cuda->stream);
    if (error == cudaSuccess)
        error =
            cudaMemcpyAsync(p->rows, rows, (size_t)x->rows * sizeof *rows, cudaMemcpyDeviceToDevice, s->cuda->stream);
    circe_status status = circe__cuda_status(error, "keeping the batch");
    return status == CIRCE_OK ? circe_cuda_gather(s->cuda, &s->y, rows, &y) : status;
}

/* p: the batch before, NULL where nothing is carried. */
circe_status circe__on_cuda_measure(circe_measure *m, int64_t place, const int64_t *rows, const circe_mat *x,
                                    const circe__cuda_previous *p, double *value, circe_mat *grad) {
    circe_kernels kernels = {.y = m->kernel_y, .z = m->kernel_z};
    circe_mat seen;
    circe_status status = circe__measure_kernel_x(m, x, &kernels.x);
    if (status == CIRCE_OK) status = scale(m, place, kernels.x, x, &seen);
    if (status == CIRCE_OK) status = kinds[m->options.kind].batch(m, &kernels, rows, &seen, p, value, grad);
    return status == CIRCE_OK ? scale_back(m, place, kernels.x, x, grad) : status;
}

static circe_status evaluate(circe_measure *m, int64_t place, const int64_t *rows, int64_t n, const circe_mat *x,
                             double *value, circe_mat *grad) {
    const circe__on_cuda *s = circe__on_cuda_of(m);
    if (x->dtype != CIRCE_FLOAT32 || n > s->most || x->cols > s->widest)
        return circe_fail(CIRCE_ERR_SHAPE,
                          "x must be float32, of at most the %lld rows and %lld columns that circe_measure_to_cuda was "
                          "told of",
                          (long long)s->most, (long long)s->widest);
    if (s->places != NULL && (rows == NULL || place >= s->n_places))
        return circe_fail(CIRCE_ERR_ARGUMENT, "the batch before is kept with its row numbers, at %lld places",
                          (long long)s->n_places);
    circe__cuda_previous *p = s->places != NULL ? &s->places[place] : NULL;
    circe_status status = circe__on_cuda_measure(m, place, rows, x, p, value, grad);
    return status == CIRCE_OK && p != NULL ? remember(m, p, rows, x) : status;
}

/* ---- what is carried, there and back ----------------------------------------------------------------------------- */

static circe_status download(const circe__on_cuda *s, void *to, const void *from, size_t bytes) {
    cudaError_t error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, s->cuda->stream);
    if (error == cudaSuccess) error = cudaStreamSynchronize(s->cuda->stream);
    return circe__cuda_status(error, "fetching the batch before");
}

/* The running widths of every place. */
static circe_status collect_widths(circe_measure *m) {
    const circe__on_cuda *s = circe__on_cuda_of(m);
    circe_status status = CIRCE_OK;
    for (int64_t k = 0; circe__measure_runs(m) && m->leader == NULL && k < s->n_places && status == CIRCE_OK; k++) {
        circe__x_place *place = circe__measure_x_place(m, k);
        status = place == NULL ? CIRCE_ERR_MEMORY
                               : download(s, place->widths, widths_of(s, k), (size_t)s->n_widths * sizeof(double));
    }
    return status;
}

static circe_status collect(circe_measure *m) {
    const circe__on_cuda *s = circe__on_cuda_of(m);
    circe_status status = collect_widths(m);
    if (status != CIRCE_OK || s->places == NULL) return status;
    int64_t *rows = circe__take(m->workspace, CIRCE__SLOT_BATCH_ROWS, s->most, sizeof *rows);
    float *x = circe__take(m->workspace, CIRCE__SLOT_X, s->most * s->widest, sizeof *x);
    if (rows == NULL || x == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t k = 0; k < s->n_places && status == CIRCE_OK; k++) {
        const circe__cuda_previous *p = &s->places[k];
        if (p->n == 0) continue;
        circe_mat view = circe_mat_f32(x, p->n, p->cols);
        status = download(s, rows, p->rows, (size_t)p->n * sizeof *rows);
        if (status == CIRCE_OK) status = download(s, x, p->x, (size_t)(p->n * p->cols) * sizeof *x);
        if (status == CIRCE_OK) status = circe__measure_remember(m, k, rows, &view);
    }
    return status;
}

static circe_status adopt_place(circe_measure *m, circe__cuda_previous *p, const circe__previous *from) {
    const circe__on_cuda *s = circe__on_cuda_of(m);
    p->n = 0;
    if (from == NULL || from->n > s->most || from->cols > s->widest || from->dtype != CIRCE_FLOAT32) return CIRCE_OK;
    circe_mat y = circe_mat_f32(p->y, from->n, m->cols_y);
    circe_status status = upload(s, p->x, from->x, (size_t)(from->n * from->cols) * sizeof *p->x);
    if (status == CIRCE_OK) status = upload(s, p->rows, from->rows, (size_t)from->n * sizeof *p->rows);
    if (status == CIRCE_OK) status = circe_cuda_gather(s->cuda, &s->y, p->rows, &y);
    p->n = status == CIRCE_OK ? from->n : 0;
    p->cols = from->cols;
    return status;
}

static circe_status adopt_widths(circe_measure *m) {
    const circe__on_cuda *s = circe__on_cuda_of(m);
    circe_status status = CIRCE_OK;
    for (int64_t k = 0; circe__measure_runs(m) && k < s->n_places && k < m->n_x_places && status == CIRCE_OK; k++)
        status = upload(s, widths_of(s, k), m->x_places[k].widths, (size_t)s->n_widths * sizeof(double));
    return status;
}

static circe_status adopt(circe_measure *m) {
    circe__on_cuda *s = circe__on_cuda_of(m);
    circe_status status = adopt_widths(m);
    for (int64_t k = 0; s->places != NULL && k < s->n_places && status == CIRCE_OK; k++)
        status = adopt_place(m, &s->places[k], circe__measure_previous(m, k));
    return status;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void close_cuda(circe_measure *m) {
    circe__on_cuda *s = circe__on_cuda_of(m);
    int before = 0;
    if (s == NULL) return;
    circe_cuda_features_destroy(s->features);
    circe_cuda_model_destroy(s->model);
    if (s->n_blocks > 0 && circe__cuda_begin(s->cuda, &before) == CIRCE_OK) {
        for (int k = 0; k < s->n_blocks; k++) cudaFree(s->blocks[k]);
        circe__cuda_end(s->cuda, before);
    }
    circe__free(m->context, s->blocks);
    circe__free(m->context, s->places);
    circe__free(m->context, s);
    m->on_device = NULL;
}

static circe_status report(circe_measure *m, int64_t place) {
    const circe__on_cuda *s = circe__on_cuda_of(m);
    circe__x_place *to = s->figures != NULL && place < s->n_places ? circe__measure_x_place(m, place) : NULL;
    int before = 0;
    if (s->figures == NULL || place >= s->n_places) return CIRCE_OK;
    circe_status status = to == NULL ? CIRCE_ERR_MEMORY : circe__cuda_begin(s->cuda, &before);
    if (status != CIRCE_OK) return status;
    status = download(s, to->figures, figures_of(s, place), sizeof to->figures);
    if (status == CIRCE_OK) status = download(s, to->widths, widths_of(s, place), (size_t)s->n_widths * sizeof(double));
    if (status == CIRCE_OK)
        status = circe__cuda_status(cudaMemsetAsync(figures_of(s, place), 0, sizeof to->figures, s->cuda->stream),
                                    "forgetting figures");
    circe__cuda_end(s->cuda, before);
    return status;
}

static const circe__measure_device bound_device = {evaluate, NULL, collect, adopt, report, close_cuda};
static const circe__measure_device handed_device = {circe__on_cuda_rows, circe__on_cuda_points, collect, adopt, report,
                                                    close_cuda};

static circe_status refuse(const circe_measure *m) {
    if (kinds[m->options.kind].open == NULL || m->options.dtype != CIRCE_FLOAT32)
        return circe_fail(CIRCE_ERR_UNSUPPORTED, "%s%s can be measured on the host only", m->row->name,
                          m->options.dtype == CIRCE_FLOAT64 ? " in float64" : "");
    if (m->asked_x != NULL && circe_kernel_n_free(m->asked_x) > 0 && m->options.sigma2_x == CIRCE_SIGMA2_FIRST)
        return circe_fail(CIRCE_ERR_UNSUPPORTED, "on a GPU the width of x's kernel must be given, or follow the batch");
    return CIRCE_OK;
}

static circe_status open_cuda(circe_measure *m) {
    circe__on_cuda *s = circe__on_cuda_of(m);
    int before = 0;
    s->blocks = circe__calloc(m->context, BLOCKS + BLOCKS_OF_PLACE * s->n_places, sizeof *s->blocks);
    if (s->blocks == NULL) return CIRCE_ERR_MEMORY;
    if (s->most == 0) return circe__on_cuda_open(m);
    circe_status status = circe__cuda_begin(s->cuda, &before);
    if (status != CIRCE_OK) return status;
    status = kinds[m->options.kind].open(m);
    if (status == CIRCE_OK) status = open_scaling(m);
    if (status == CIRCE_OK) status = circe_cuda_reserve(s->cuda, s->most, s->widest, CIRCE_FLOAT32);
    if (status == CIRCE_OK) status = adopt(m);
    circe__cuda_end(s->cuda, before);
    return status;
}

circe_status circe_measure_to_cuda(circe_measure *m, circe_cuda *cuda, int64_t n, int64_t cols, int64_t places) {
    CIRCE_OWN_SETTINGS;
    bool handed = m != NULL && n == 0 && cols == 0 && places == 0 && (m->n_rows < 0 || m->features != NULL);
    if (m == NULL || (cuda != NULL && !handed && (m->n_rows < 0 || n < 1 || cols < 1 || places < 1)))
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "measure must not be NULL, it must be bound, and n, cols, places be positive");
    if (m->device != NULL) m->device->close(m);
    m->device = NULL;
    if (cuda == NULL) return CIRCE_OK;
    circe_status status = refuse(m);
    if (status == CIRCE_OK && m->weights != NULL)
        status = circe_fail(CIRCE_ERR_UNSUPPORTED,
                            "a measure on a GPU takes no weights of rows; measure on the CPU, or leave them out");
    if (status != CIRCE_OK) return status;
    circe__on_cuda *s = m->on_device = circe__calloc(m->context, 1, sizeof *s);
    if (s == NULL) return CIRCE_ERR_MEMORY;
    *s = (circe__on_cuda){.cuda = cuda, .most = n, .widest = cols, .n_places = places};
    if (m->asked_x != NULL) s->n_widths = circe_kernel_n_factors(m->asked_x);
    status = open_cuda(m);
    if (status == CIRCE_OK)
        m->device = handed ? &handed_device : &bound_device;
    else
        close_cuda(m);
    return status;
}
