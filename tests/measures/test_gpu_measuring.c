/* circe_measure on the GPU against the same on the host: rows, what is carried from batch to batch, graphs, what is the
 * host's alone. Where there is no GPU the tests say so and are skipped.
 *
 * Tolerances: the host is asked in float32, as the GPU works. Values 2e-4 of the largest of a run and gradients 2e-3 of
 * the largest element: features and sums of either are rounded to float32 on the way, in another order, and the
 * GPU's regressions of low rank leave out 1e-10 of the trace, which the ridge of .05 magnifies. */
#include "tests/support.h"

#ifndef CIRCE_TEST_CUDA

static void says_so(void **state) {
    (void)state;
    circe_measure_options o;
    circe_measure *m = NULL;
    circe_measure_options_init(&o, CIRCE_MEASURE_HSIC);
    assert_ok(circe_measure_create(test_context(0), &o, &m));
    assert_refused(circe_measure_to_cuda(m, (circe_cuda *)m, 1, 1, 1), CIRCE_ERR_UNSUPPORTED, "has no CUDA");
    assert_ok(circe_measure_to_cuda(m, NULL, 0, 0, 0));
    circe_measure_destroy(m);
}

static void on_a_gpu(void **state) {
    (void)state;
    test_skip("built without CUDA (cmake --preset cuda)");
}

TEST_MAIN("gpu_measuring", TEST(says_so), TEST(on_a_gpu))

#else

#include "tests/measures/gpu_support.h"

enum { N = 400, M = 300, B = 128, DX = 5, STEPS = 3 };

typedef struct points {
    circe_context *context;
    circe_cuda *cuda;
    circe_mat x, y, z, holdout_y, holdout_z;
} points;

static circe_mat follow(uint64_t stream, const circe_mat *y, int64_t cols) {
    circe_mat m = test_normal(stream, y->rows, cols);
    for (int64_t i = 0; i < y->rows; i++)
        for (int64_t j = 0; j < cols; j++)
            test_set(&m, i, j, test_at(&m, i, j) + sin(2.0 * test_at(y, i, j % y->cols)));
    return m;
}

static points make_points(void *stream) {
    points p = {.context = test_context(2)};
    p.cuda = open_on(p.context, stream);
    p.y = test_normal(1, N, 1);
    p.z = follow(2, &p.y, 2);
    circe_mat x = follow(3, &p.z, DX);
    p.x = test_copy(&x, CIRCE_FLOAT32);
    p.holdout_y = test_normal(4, M, 1);
    p.holdout_z = follow(5, &p.holdout_y, 2);
    return p;
}

static const double one_sigma2[] = {0.7}, one_ridge[] = {0.05};

static circe_measure_options options_of(circe_measure_kind kind) {
    circe_measure_options o;
    circe_measure_options_init(&o, kind);
    o.sigma2_x = 1.0;
    o.sigma2_y = one_sigma2;
    o.ridge = one_ridge;
    o.n_sigma2_y = o.n_ridge = 1;
    o.gcm_combine = CIRCE_GCM_SUM_OF_SQUARES; /* without the jumps of a maximum */
    return o;
}

static circe_measure *make(const points *p, const circe_measure_options *o) {
    circe_measure *m = NULL;
    assert_ok(circe_measure_create(p->context, o, &m));
    assert_ok(circe_measure_fit(m, &p->holdout_y, &p->holdout_z));
    assert_ok(circe_measure_bind(m, &p->y, &p->z));
    return m;
}

/* A batch on either side. */
typedef struct batch {
    int64_t rows[B];
    int64_t *device_rows;
    circe_mat x, grad, device_x, device_grad;
    double value, *device_value;
} batch;

static batch take(const points *p, uint64_t which) {
    batch b = {.value = NAN};
    int64_t order[N];
    circe_random_permutation((circe_random){.seed = 5, .stream = which}, N, order);
    memcpy(b.rows, order, sizeof b.rows);
    b.x = test_rows(&p->x, b.rows, B);
    b.grad = test_zeros(B, DX, CIRCE_FLOAT32);
    b.device_rows = device_block(sizeof b.rows);
    assert_cuda(cudaMemcpy(b.device_rows, b.rows, sizeof b.rows, cudaMemcpyHostToDevice));
    b.device_x = device_copy(&b.x, CIRCE_FLOAT32, 0);
    b.device_grad = device_empty(B, DX, CIRCE_FLOAT32, 0);
    b.device_value = device_block(sizeof *b.device_value);
    return b;
}

static void on_host(circe_measure *m, batch *b) {
    assert_ok(circe_measure_evaluate(m, b->rows, B, &b->x, &b->value, &b->grad));
}

static void on_gpu(circe_measure *m, batch *b) {
    assert_ok(circe_measure_evaluate(m, b->device_rows, B, &b->device_x, b->device_value, &b->device_grad));
}

static void assert_agree(const batch *b, double scale) {
    circe_mat wanted = test_copy(&b->grad, CIRCE_FLOAT64), got = host_copy(&b->device_grad);
    assert_near(host_value(b->device_value), b->value, 2e-4, scale);
    assert_mat_near(&got, &wanted, 2e-3);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static void check_kind(const points *p, const circe_measure_options *o) {
    circe_measure *host = make(p, o), *gpu = make(p, o);
    assert_ok(circe_measure_to_cuda(gpu, p->cuda, B, DX, 1));
    for (uint64_t step = 0; step < STEPS; step++) {
        batch b = take(p, step);
        on_host(host, &b);
        on_gpu(gpu, &b);
        assert_agree(&b, fmax(fabs(b.value), o->kind == CIRCE_MEASURE_GCM ? 1.0 : 1e-2));
    }
    batch last = take(p, STEPS), again = take(p, STEPS);
    circe_measure_destroy(host);
    assert_ok(circe_measure_to_cuda(gpu, NULL, 0, 0, 0)); /* back to the host, with nothing carried or all of it */
    host = make(p, o);
    assert_ok(circe_measure_set_state(gpu, NULL, 0));
    on_host(gpu, &last);
    on_host(host, &again);
    assert_true(last.value == again.value);
    circe_measure_destroy(host);
    circe_measure_destroy(gpu);
}

static void every_kind(void **state) {
    (void)state;
    static const circe_measure_kind kinds[] = {CIRCE_MEASURE_CIRCE, CIRCE_MEASURE_HSIC, CIRCE_MEASURE_HSCIC,
                                               CIRCE_MEASURE_KCI, CIRCE_MEASURE_GCM};
    points p = make_points(NULL);
    for (int64_t k = 0; k < COUNT(kinds); k++)
        for (int holdout = 0; holdout < 2; holdout++) {
            circe_measure_options o = options_of(kinds[k]);
            o.regress_z_on_holdout = holdout;
            check_kind(&p, &o);
            o.method = CIRCE_METHOD_DENSE;
            check_kind(&p, &o);
        }
}

/* Widths that follow x, and x normalised: as on the host, and with its figures. */
static void following(void **state) {
    (void)state;
    static const circe_measure_kind kinds[] = {CIRCE_MEASURE_CIRCE, CIRCE_MEASURE_HSIC, CIRCE_MEASURE_HSCIC,
                                               CIRCE_MEASURE_KCI};
    static const double widths[] = {CIRCE_SIGMA2_MEDIAN, CIRCE_SIGMA2_RUNNING, 2.0};
    points p = make_points(NULL);
    for (int64_t k = 0; k < COUNT(kinds); k++)
        for (int64_t w = 0; w < COUNT(widths); w++)
            for (int normalize = CIRCE_NORMALIZE_NONE; normalize <= CIRCE_NORMALIZE_BATCH; normalize++) {
                circe_measure_options o = options_of(kinds[k]);
                o.sigma2_x = widths[w];
                o.normalize_x = (circe_normalize)normalize;
                check_kind(&p, &o);
            }
}

static void figures(void **state) {
    (void)state;
    points p = make_points(NULL);
    for (int normalize = CIRCE_NORMALIZE_NONE; normalize <= CIRCE_NORMALIZE_BATCH; normalize++) {
        circe_measure_options o = options_of(CIRCE_MEASURE_CIRCE);
        o.sigma2_x = CIRCE_SIGMA2_RUNNING;
        o.normalize_x = (circe_normalize)normalize;
        circe_measure *host = make(&p, &o), *gpu = make(&p, &o);
        circe_x_figures wanted, got;
        assert_ok(circe_measure_to_cuda(gpu, p.cuda, B, DX, 1));
        for (uint64_t step = 0; step < STEPS; step++) {
            batch b = take(&p, step);
            on_host(host, &b);
            on_gpu(gpu, &b);
        }
        assert_ok(circe_measure_figures(host, 0, &wanted));
        assert_ok(circe_measure_figures(gpu, 0, &got));
        assert_int_equal(got.batches, STEPS);
        assert_near(got.mean_kernel, wanted.mean_kernel, 1e-6, 1.0);
        assert_near(got.spread, wanted.spread, 1e-6, wanted.spread);
        assert_near(got.sigma2, wanted.sigma2, 1e-6, wanted.sigma2);
        assert_ok(circe_measure_figures(gpu, 0, &got));
        assert_int_equal(got.batches, 0);
        circe_measure_destroy(host);
        circe_measure_destroy(gpu);
    }
}

/* The state of a running width goes from the GPU to the host, and a measure like it uses the width as it is. */
static void running(void **unused) {
    (void)unused;
    points p = make_points(NULL);
    circe_measure_options o = options_of(CIRCE_MEASURE_CIRCE);
    o.sigma2_x = CIRCE_SIGMA2_RUNNING;
    circe_measure *gpu = make(&p, &o), *host = make(&p, &o), *like = NULL;
    assert_ok(circe_measure_to_cuda(gpu, p.cuda, B, DX, 1));
    batch first = take(&p, 0), second = take(&p, 1);
    for (int64_t i = 0; i < B; i++) test_set(&first.x, i, 0, 3.0 * test_at(&first.x, i, 0));
    first.device_x = device_copy(&first.x, CIRCE_FLOAT32, 0);
    on_gpu(gpu, &first);
    size_t bytes;
    assert_ok(circe_measure_state_bytes(gpu, &bytes));
    assert_int_equal(bytes, sizeof(int64_t) + sizeof(double));
    void *state = test_memory(bytes);
    assert_ok(circe_measure_get_state(gpu, state));
    assert_ok(circe_measure_set_state(host, state, bytes));
    assert_ok(circe_measure_like(gpu, &like));
    assert_ok(circe_measure_bind(like, &p.y, &p.z));
    assert_ok(circe_measure_to_cuda(like, p.cuda, B, DX, 1));
    on_gpu(like, &second);
    circe_mat y = test_rows(&p.y, second.rows, B), z = test_rows(&p.z, second.rows, B);
    assert_ok(circe_measure_points(host, &second.x, &y, &z, &second.value, NULL));
    assert_near(host_value(second.device_value), second.value, 2e-4, fmax(fabs(second.value), 1e-2));
    on_host(host, &second);
    on_gpu(gpu, &second);
    assert_agree(&second, fmax(fabs(second.value), 1e-2));
    assert_ok(circe_measure_set_state(gpu, state, bytes)); /* and back: the same batch once more */
    batch again = take(&p, 1);
    on_gpu(gpu, &again);
    assert_near(host_value(again.device_value), second.value, 2e-4, fmax(fabs(second.value), 1e-2));
    circe_measure_destroy(like);
    circe_measure_destroy(host);
    circe_measure_destroy(gpu);
}

/* Of a data set: all rows, and another data set by a measure like the first. */
static void all_rows(void **state) {
    (void)state;
    points p = make_points(NULL);
    circe_measure_options o = options_of(CIRCE_MEASURE_CIRCE);
    circe_measure *host = make(&p, &o), *gpu = NULL;
    circe_mat x = device_copy(&p.x, CIRCE_FLOAT32, 0);
    double wanted, *value = device_block(sizeof *value);
    assert_ok(circe_measure_evaluate(host, NULL, N, &p.x, &wanted, NULL));
    assert_ok(circe_measure_like(host, &gpu));
    assert_ok(circe_measure_bind(gpu, &p.y, &p.z));
    assert_ok(circe_measure_to_cuda(gpu, p.cuda, N, DX, 1));
    assert_ok(circe_measure_evaluate(gpu, NULL, N, &x, value, NULL));
    assert_near(host_value(value), wanted, 2e-4, 1e-2);
    circe_measure_destroy(gpu);
    circe_measure_destroy(host);
}

/* ---- points that are handed over --------------------------------------------------------------------------------- */

/* The kernels of y and z with their widths, as a measure needs them that sees no data set. */
static circe_measure *make_unbound(const points *p, circe_measure_options o, const circe_cme *mean) {
    circe_measure *m = NULL;
    o.kernel_y = "gaussian(0.7)";
    o.kernel_z = "gaussian(2)";
    assert_ok(circe_measure_create(p->context, &o, &m));
    if (mean != NULL) assert_ok(circe_measure_set_mean(m, mean));
    return m;
}

/* Of the host and of the GPU, where nothing is bound: value and gradient of one batch. 2e-4 and 2e-3 as above in
 * float32; in float64 the same algebra in another order, and what low rank leaves out: 1e-6 and 1e-5. */
static void check_points(const points *p, const circe_measure_options *o, const circe_cme *mean, circe_dtype dtype) {
    circe_measure *host = make_unbound(p, *o, mean), *gpu = make_unbound(p, *o, mean);
    double near = dtype == CIRCE_FLOAT32 ? 1.0 : 5e-3, wanted;
    assert_ok(circe_measure_to_cuda(gpu, p->cuda, 0, 0, 0));
    for (uint64_t step = 0; step < STEPS; step++) {
        batch b = take(p, step);
        int64_t n = B - (int64_t)step; /* sizes may change */
        circe_mat y = test_rows(&p->y, b.rows, n), z = test_rows(&p->z, b.rows, n), x = test_rows(&p->x, b.rows, n);
        y = test_copy(&y, dtype), z = test_copy(&z, dtype), x = test_copy(&x, dtype);
        circe_mat grad = test_zeros(n, DX, dtype), on_x = device_copy(&x, dtype, 1), on_y = device_copy(&y, dtype, 0);
        circe_mat on_z = device_copy(&z, dtype, 2), on_grad = device_empty(n, DX, dtype, 0);
        assert_ok(circe_measure_points(host, &x, &y, &z, &wanted, &grad));
        assert_ok(circe_measure_points(gpu, &on_x, &on_y, &on_z, b.device_value, &on_grad));
        circe_mat exact = test_copy(&grad, CIRCE_FLOAT64), got = host_copy(&on_grad);
        assert_near(host_value(b.device_value), wanted, near * 2e-4, fmax(fabs(wanted), 1e-2));
        assert_mat_near(&got, &exact, near * 2e-3);
    }
    circe_measure_destroy(host);
    circe_measure_destroy(gpu);
}

static circe_cme *fitted(const points *p) {
    circe_cme *mean = NULL;
    circe_kernel *kernel_y = NULL, *kernel_z = NULL;
    circe_cme_options options;
    circe_cme_options_init(&options);
    options.ridge = one_ridge;
    options.n_ridge = 1;
    assert_ok(circe_kernel_parse(p->context, "gaussian(0.7)", &kernel_y));
    assert_ok(circe_kernel_parse(p->context, "gaussian(4)", &kernel_z)); /* smooth: few z are outside the span */
    assert_ok(circe_cme_fit(p->context, &p->holdout_y, &p->holdout_z, kernel_y, kernel_z, &options, &mean));
    circe_kernel_destroy(kernel_y);
    circe_kernel_destroy(kernel_z);
    return mean;
}

static void handed_points(void **state) {
    (void)state;
    static const circe_measure_kind kinds[] = {CIRCE_MEASURE_CIRCE, CIRCE_MEASURE_HSIC, CIRCE_MEASURE_HSCIC,
                                               CIRCE_MEASURE_KCI, CIRCE_MEASURE_GCM};
    points p = make_points(NULL);
    circe_cme *mean = fitted(&p);
    for (int64_t k = 0; k < COUNT(kinds); k++)
        for (int d = 0; d < COUNT(dtypes); d++)
            for (int follows = 0; follows < 2; follows++) {
                circe_measure_options o = options_of(kinds[k]);
                if (follows) o.sigma2_x = CIRCE_SIGMA2_MEDIAN;
                check_points(&p, &o, kinds[k] == CIRCE_MEASURE_CIRCE ? mean : NULL, dtypes[d]);
                o.regress_z_on_holdout = 1;
                if (kinds[k] == CIRCE_MEASURE_HSCIC) check_points(&p, &o, mean, dtypes[d]);
            }
    circe_cme_destroy(mean);
}

/* Rows of residual features, of a measure that was told no sizes. */
static void handed_rows(void **state) {
    (void)state;
    points p = make_points(NULL);
    circe_cme *mean = fitted(&p);
    for (int d = 0; d < COUNT(dtypes); d++) {
        circe_measure_options o = options_of(CIRCE_MEASURE_CIRCE);
        circe_measure *host = make_unbound(&p, o, mean), *gpu = NULL;
        circe_features *features = NULL;
        batch b = take(&p, 0);
        circe_mat x = test_copy(&b.x, dtypes[d]), grad = test_zeros(B, DX, dtypes[d]);
        circe_mat on_x = device_copy(&x, dtypes[d], 0), on_grad = device_empty(B, DX, dtypes[d], 0);
        double near = dtypes[d] == CIRCE_FLOAT32 ? 1.0 : 5e-3;
        assert_ok(circe_features_create(p.context, mean, &p.y, &p.z, dtypes[d], &features));
        assert_ok(circe_measure_like(host, &gpu));
        assert_ok(circe_measure_bind_features(host, features));
        assert_ok(circe_measure_bind_features(gpu, features));
        assert_ok(circe_measure_to_cuda(gpu, p.cuda, 0, 0, 0));
        assert_ok(circe_measure_evaluate(host, b.rows, B, &x, &b.value, &grad));
        assert_ok(circe_measure_evaluate(gpu, b.device_rows, B, &on_x, b.device_value, &on_grad));
        circe_mat exact = test_copy(&grad, CIRCE_FLOAT64), got = host_copy(&on_grad);
        assert_near(host_value(b.device_value), b.value, near * 2e-4, fmax(fabs(b.value), 1e-2));
        assert_mat_near(&got, &exact, near * 2e-3);
        circe_measure_destroy(gpu);
        circe_measure_destroy(host);
        circe_features_destroy(features);
    }
    circe_cme_destroy(mean);
}

typedef struct handed {
    circe_measure *measure;
    circe_mat x, y, z, grad;
    double *value;
} handed;

static circe_status run_handed(void *own) {
    handed *h = own;
    return circe_measure_points(h->measure, &h->x, &h->y, &h->z, h->value, &h->grad);
}

/* The same bits again and again, and a replayed graph: with residual features and a width that follows x, whose
 * memory is the handle's second scratch. */
static void handed_graph(void **state) {
    (void)state;
    cudaStream_t stream;
    cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    points p = make_points(error == cudaSuccess ? stream : NULL);
    circe_cme *mean = fitted(&p);
    circe_measure_options o = options_of(CIRCE_MEASURE_CIRCE);
    o.sigma2_x = CIRCE_SIGMA2_MEDIAN;
    batch b = take(&p, 0);
    circe_mat y = test_rows(&p.y, b.rows, B), z = test_rows(&p.z, b.rows, B);
    handed h = {.measure = make_unbound(&p, o, mean),
                .x = b.device_x,
                .y = device_copy(&y, CIRCE_FLOAT32, 0),
                .z = device_copy(&z, CIRCE_FLOAT32, 0),
                .grad = b.device_grad,
                .value = b.device_value};
    assert_ok(circe_measure_to_cuda(h.measure, p.cuda, 0, 0, 0));
    gpu_step step = {run_handed, &h, p.cuda, h.x, h.grad, h.value};
    check_not_captured(&step, stream, "cannot be allocated during capture");
    check_same_bits(&step);
    check_replay(&step, stream);
    circe_measure_destroy(h.measure);
    circe_cme_destroy(mean);
}

static void handed_refusals(void **state) {
    (void)state;
    points p = make_points(NULL);
    circe_cme *mean = fitted(&p);
    batch b = take(&p, 0);
    circe_measure *m = NULL;
    circe_measure_options o = options_of(CIRCE_MEASURE_HSIC);
    assert_ok(circe_measure_create(p.context, &o, &m));
    assert_refused(circe_measure_to_cuda(m, p.cuda, 0, 0, 0), CIRCE_ERR_UNSUPPORTED, "must be given");
    circe_measure_destroy(m);
    o.sigma2_x = CIRCE_SIGMA2_RUNNING;
    m = make_unbound(&p, o, NULL);
    assert_refused(circe_measure_to_cuda(m, p.cuda, 0, 0, 0), CIRCE_ERR_UNSUPPORTED, "running width");
    circe_measure_destroy(m);
    o = options_of(CIRCE_MEASURE_GCM);
    o.regress_z_on_holdout = 1;
    m = make_unbound(&p, o, mean);
    assert_refused(circe_measure_to_cuda(m, p.cuda, 0, 0, 0), CIRCE_ERR_UNSUPPORTED, "in host memory only");
    circe_measure_destroy(m);
    m = make_unbound(&p, options_of(CIRCE_MEASURE_CIRCE), NULL);
    assert_refused(circe_measure_to_cuda(m, p.cuda, 0, 0, 0), CIRCE_ERR_ARGUMENT, "needs a holdout");
    circe_measure_destroy(m);
    m = make_unbound(&p, options_of(CIRCE_MEASURE_HSIC), NULL);
    assert_ok(circe_measure_to_cuda(m, p.cuda, 0, 0, 0));
    circe_mat host = test_rows(&p.z, b.rows, B);
    assert_refused(circe_measure_points(m, &b.device_x, &host, &host, b.device_value, NULL), CIRCE_ERR_ARGUMENT,
                   "host's memory");
    double weights[B] = {1.0, 2.0};
    assert_ok(circe_measure_set_weights(m, weights, B));
    assert_refused(circe_measure_points(m, &b.device_x, &host, &host, b.device_value, NULL), CIRCE_ERR_UNSUPPORTED,
                   "no weights");
    circe_measure_destroy(m);
    circe_cme_destroy(mean);
}

/* ---- what is carried --------------------------------------------------------------------------------------------- */

/* From the GPU to the host and to another GPU's measure: the next batch is the same. */
static void carried(void **unused) {
    (void)unused;
    points p = make_points(NULL);
    circe_measure_options o = options_of(CIRCE_MEASURE_GCM);
    circe_measure *whole = make(&p, &o), *resumed = make(&p, &o), *host = make(&p, &o);
    assert_ok(circe_measure_to_cuda(whole, p.cuda, B, DX, 2));
    assert_ok(circe_measure_to_cuda(resumed, p.cuda, B, DX, 2));
    batch first = take(&p, 0), a = take(&p, 1), b = take(&p, 1);
    size_t bytes;
    on_gpu(whole, &first);
    assert_ok(circe_measure_state_bytes(whole, &bytes));
    void *state = test_memory(bytes);
    assert_ok(circe_measure_get_state(whole, state));
    assert_ok(circe_measure_set_state(resumed, state, bytes));
    assert_ok(circe_measure_set_state(host, state, bytes));
    on_gpu(whole, &a);
    on_gpu(resumed, &b);
    assert_true(host_value(a.device_value) == host_value(b.device_value));
    on_host(host, &a);
    assert_agree(&a, fmax(a.value, 1.0));
    assert_refused(circe_measure_evaluate_at(whole, 2, 0, a.device_rows, B, &a.device_x, a.device_value, NULL),
                   CIRCE_ERR_ARGUMENT, "at 2 places");
    circe_measure_destroy(host);
    circe_measure_destroy(resumed);
    circe_measure_destroy(whole);
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

typedef struct captured {
    circe_measure *measure;
    batch b;
} captured;

static circe_status run_captured(void *own) {
    captured *c = own;
    return circe_measure_evaluate(c->measure, c->b.device_rows, B, &c->b.device_x, c->b.device_value,
                                  &c->b.device_grad);
}

static void graph(void **state) {
    (void)state;
    static const circe_measure_kind kinds[] = {CIRCE_MEASURE_CIRCE, CIRCE_MEASURE_HSIC, CIRCE_MEASURE_HSCIC,
                                               CIRCE_MEASURE_KCI};
    cudaStream_t stream;
    cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    points p = make_points(error == cudaSuccess ? stream : NULL);
    for (int64_t k = 0; k < COUNT(kinds); k++) {
        circe_measure_options o = options_of(kinds[k]);
        o.sigma2_x = k % 2 == 0 ? CIRCE_SIGMA2_MEDIAN : 1.0;
        o.normalize_x = k < 2 ? CIRCE_NORMALIZE_BATCH : CIRCE_NORMALIZE_NONE;
        captured c = {make(&p, &o), take(&p, 0)};
        assert_ok(circe_measure_to_cuda(c.measure, p.cuda, B, DX, 1));
        gpu_step step = {run_captured, &c, p.cuda, c.b.device_x, c.b.device_grad, c.b.device_value};
        check_replay(&step, stream);
        circe_measure_destroy(c.measure);
    }
}

/* ---- what is the host's alone ------------------------------------------------------------------------------------ */

static void refused(const points *p, const circe_measure_options *o, const char *part) {
    circe_measure *m = make(p, o);
    batch b = take(p, 0);
    assert_refused(circe_measure_to_cuda(m, p->cuda, B, DX, 1), CIRCE_ERR_UNSUPPORTED, part);
    on_host(m, &b); /* where it stays */
    circe_measure_destroy(m);
}

static void of_the_host(void **state) {
    (void)state;
    points p = make_points(NULL);
    circe_measure_options o = options_of(CIRCE_MEASURE_NOCCO);
    refused(&p, &o, "nocco can be measured on the host only");
    o = options_of(CIRCE_MEASURE_CIRCE_SPECTRAL);
    refused(&p, &o, "circe-spectral can be measured on the host only");
    o = options_of(CIRCE_MEASURE_CIRCE);
    o.dtype = CIRCE_FLOAT64;
    refused(&p, &o, "in float64");
    o = options_of(CIRCE_MEASURE_CIRCE);
    o.method = CIRCE_METHOD_RFF;
    refused(&p, &o, "no residual features");
    o = options_of(CIRCE_MEASURE_HSIC);
    o.sigma2_x = 0.0;
    refused(&p, &o, "width of x's kernel must be given");
    o = options_of(CIRCE_MEASURE_HSIC);
    circe_measure *m = make(&p, &o);
    batch b = take(&p, 0);
    assert_ok(circe_measure_to_cuda(m, p.cuda, B - 1, DX, 1));
    assert_refused(circe_measure_evaluate(m, b.device_rows, B, &b.device_x, b.device_value, NULL), CIRCE_ERR_SHAPE,
                   "at most the 127 rows");
    circe_measure_destroy(m);
}

TEST_MAIN("gpu_measuring", TEST(every_kind), TEST(following), TEST(figures), TEST(running), TEST(all_rows),
          TEST(handed_points), TEST(handed_rows), TEST(handed_graph), TEST(handed_refusals), TEST(carried), TEST(graph),
          TEST(of_the_host))

#endif
