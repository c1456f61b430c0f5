/* The conditional mean embedding: low rank against dense, leave-one-out against refitting, the choice of method, ridges
 * below what the arithmetic supports, degenerate data, categories (where the answer is a frequency), cached features,
 * files, refusals for want of memory, progress and cancelling. */
#include "tests/support.h"

/* y uniform or normal, z a smooth function of it with noise: what the paper's synthetic models look like. */
typedef struct data {
    circe_mat y, z;
} data;

static data smooth_data(uint64_t stream, int64_t rows, int64_t dim_y, int64_t dim_z) {
    data d = {test_normal(stream, rows, dim_y), test_normal(stream + 1, rows, dim_z)};
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < dim_z; c++)
            test_set(&d.z, i, c, sin(1.5 * test_at(&d.y, i, c % dim_y)) + 0.3 * (double)c + 0.5 * test_at(&d.z, i, c));
    return d;
}

static circe_mat residual_gram(circe_context *context, const circe_cme *cme, const data *batch) {
    circe_mat gram = test_zeros(batch->y.rows, batch->y.rows, CIRCE_FLOAT64);
    assert_ok(circe_residual_gram(test_workspace(context), cme, &batch->y, &batch->z, &gram));
    return gram;
}

static circe_cme_info info_of(const circe_cme *cme) {
    circe_cme_info info;
    assert_ok(circe_cme_get_info(cme, &info));
    return info;
}

static double measure(circe_context *context, const circe_cme *cme, const char *kernel_x, const circe_mat *x,
                      const data *batch, circe_estimator estimator, circe_mat *grad) {
    double value = NAN;
    assert_ok(circe_measure_circe(test_workspace(context), cme, test_kernel(context, kernel_x), x, &batch->y, &batch->z,
                                  estimator, &value, grad));
    return value;
}

/* ---- low rank against dense -------------------------------------------------------------------------------------- */

/* The low-rank kernel leaves out 1e-12 of the trace, M * 1e-12 in all; against a ridge that moves the regression by at
 * most sqrt(1e-12 M / ridge) (1e-5 to 1e-4 here) in single elements of K^c, and far less in the measure, a sum over
 * the batch. */
static void lowrank_equals_dense(void **state) {
    static const struct {
        const char *kernel_y, *kernel_z;
        int64_t rows, dim_y, dim_z;
        double ridge;
    } cases[] = {
        {"gaussian(0.5)", "gaussian(0.5)", 600, 1, 1, 0.1},
        {"gaussian(1)", "gaussian(0.3)", 1500, 1, 1, 1.0},
        {"gaussian(2)", "gaussian(2)", 700, 2, 2, 0.1},
        {"linear", "gaussian(1)", 600, 3, 1, 1.0},
        {"0:delta*1:gaussian(1)", "gaussian(1)", 700, 2, 1, 0.1},
        {"gaussian(1)", "laplace(1)", 600, 1, 1, 0.1}, /* z of full rank */
    };
    (void)state;
    circe_context *context = test_context(0);
    for (int64_t k = 0; k < COUNT(cases); k++) {
        int64_t rows = test_few(cases[k].rows, 500);
        data holdout = smooth_data(10 * (uint64_t)k, rows, cases[k].dim_y, cases[k].dim_z);
        data batch = smooth_data(10 * (uint64_t)k + 5, 80, cases[k].dim_y, cases[k].dim_z);
        circe_mat x = test_normal(99, 80, 2);
        if (strncmp(cases[k].kernel_y, "0:delta", 7) == 0)
            for (int64_t i = 0; i < rows; i++) {
                test_set(&holdout.y, i, 0, (double)(i % 3));
                if (i < 80) test_set(&batch.y, i, 0, (double)(i % 4)); /* a category the holdout lacks */
            }
        circe_cme_options lowrank = test_options(CIRCE_METHOD_LOWRANK, &cases[k].ridge);
        circe_cme_options dense = test_options(CIRCE_METHOD_DENSE, &cases[k].ridge);
        circe_cme *a = test_fit(context, &holdout.y, &holdout.z, cases[k].kernel_y, cases[k].kernel_z, &lowrank);
        circe_cme *b = test_fit(context, &holdout.y, &holdout.z, cases[k].kernel_y, cases[k].kernel_z, &dense);
        assert_int_equal(info_of(a).method, CIRCE_METHOD_LOWRANK);
        assert_int_equal(info_of(b).method, CIRCE_METHOD_DENSE);
        assert_true(info_of(a).rank_y < rows / 3);
        assert_int_equal(info_of(b).rank_y, rows);
        assert_true(info_of(a).trace_residual_y <= 1e-11 && info_of(a).trace_residual_z <= 1e-11);
        circe_mat gram_a = residual_gram(context, a, &batch), gram_b = residual_gram(context, b, &batch);
        assert_mat_near(&gram_a, &gram_b, sqrt(1e-12 * (double)rows / cases[k].ridge));
        assert_near(info_of(a).loo_error, info_of(b).loo_error, 1e-6, info_of(b).loo_error);
        for (circe_estimator e = CIRCE_BIASED; e <= CIRCE_USTAT; e++) {
            double value_a = measure(context, a, "gaussian(1)", &x, &batch, e, NULL);
            double value_b = measure(context, b, "gaussian(1)", &x, &batch, e, NULL);
            double size = measure(context, b, "gaussian(1)", &x, &batch, CIRCE_BIASED, NULL);
            assert_near(value_a, value_b, 1e-6, size);
        }
    }
}

/* More rows than are pivoted on at once: candidates, a sample, outliers. Against the same fit by a tighter tolerance,
 * since a dense fit of this size takes minutes. */
static void lowrank_of_many_rows(void **state) {
    (void)state;
    static const double ridge = 1.0;
    circe_context *context = test_context(0);
    data holdout = smooth_data(1, 20000, 1, 1), batch = smooth_data(3, 60, 1, 1);
    circe_cme_options options = test_options(CIRCE_METHOD_AUTO, &ridge);
    circe_cme *cme = test_fit(context, &holdout.y, &holdout.z, "gaussian(0.5)", "gaussian(0.5)", &options);
    options.tolerance = 1e-15;
    options.seed = 17; /* other candidates */
    circe_cme *tight = test_fit(context, &holdout.y, &holdout.z, "gaussian(0.5)", "gaussian(0.5)", &options);
    assert_int_equal(info_of(cme).method, CIRCE_METHOD_LOWRANK);
    assert_true(info_of(cme).rank_y < 100 && info_of(cme).trace_residual_y < 1e-10);
    assert_int_equal(circe_cme_n_warnings(cme), 0);
    circe_mat gram = residual_gram(context, cme, &batch), tight_gram = residual_gram(context, tight, &batch);
    assert_mat_near(&gram, &tight_gram, sqrt(1e-12 * 20000 / ridge));
    assert_near(info_of(cme).loo_error, info_of(tight).loo_error, 1e-6, info_of(tight).loo_error);
}

/* ---- leave-one-out ----------------------------------------------------------------------------------------------- */

/* |psi(z_i) - mu_(without i)(y_i)|^2, averaged, by fitting M times. */
static double refit_error(circe_context *context, const data *d, const char *kernel_y, const char *kernel_z,
                          circe_method method, double ridge) {
    int64_t rows = d->y.rows, *others = test_memory((size_t)rows * sizeof *others);
    circe_cme_options options = test_options(method, &ridge);
    double total = 0.0;
    for (int64_t i = 0; i < rows; i++) {
        int64_t n = 0;
        for (int64_t j = 0; j < rows; j++)
            if (j != i) others[n++] = j;
        data rest = {test_rows(&d->y, others, n), test_rows(&d->z, others, n)};
        data one = {test_rows(&d->y, &i, 1), test_rows(&d->z, &i, 1)};
        circe_cme *cme = test_fit(context, &rest.y, &rest.z, kernel_y, kernel_z, &options);
        circe_mat square = residual_gram(context, cme, &one);
        total += test_at(&square, 0, 0);
    }
    return total / (double)rows;
}

/* 1e-9 dense: rounding through a condition of 1e4. Low rank: as above, sqrt(1e-12 M / ridge) at most. */
static void loo_equals_refitting(void **state) {
    static const struct {
        const char *kernel_y, *kernel_z;
        circe_method method;
        double tolerance;
    } cases[] = {
        {"gaussian(0.5)", "gaussian(1)", CIRCE_METHOD_DENSE, 1e-9},
        {"gaussian(0.5)", "gaussian(1)", CIRCE_METHOD_LOWRANK, 1e-5},
        {"laplace(1)", "linear", CIRCE_METHOD_DENSE, 1e-9},
        {"linear", "laplace(1)", CIRCE_METHOD_LOWRANK, 1e-9}, /* a rank of two: nothing is left out */
    };
    static const double ridge[] = {0.01, 1.0, 30.0};
    (void)state;
    circe_context *context = test_context(1);
    data d = smooth_data(21, 40, 2, 1);
    for (int64_t k = 0; k < COUNT(cases); k++) {
        circe_cme_options options = test_options(cases[k].method, NULL);
        options.ridge = ridge;
        options.n_ridge = COUNT(ridge);
        circe_cme *cme = test_fit(context, &d.y, &d.z, cases[k].kernel_y, cases[k].kernel_z, &options);
        circe_loo_table table;
        assert_ok(circe_cme_get_loo(cme, &table));
        assert_int_equal(table.n_sigma2_y, 1);
        assert_null(table.sigma2_y);
        int64_t best = 0;
        for (int64_t l = 0; l < COUNT(ridge); l++) {
            double expected = refit_error(context, &d, cases[k].kernel_y, cases[k].kernel_z, cases[k].method, ridge[l]);
            assert_near(table.error[l], expected, cases[k].tolerance, expected);
            if (table.error[l] < table.error[best]) best = l;
        }
        assert_true(info_of(cme).ridge == ridge[best]);
        assert_true(info_of(cme).loo_error == table.error[best]);
    }
}

/* Every row is a class of its own, so that nothing predicts it: the error is k(z, z) = 1, although 1 - A_ii = 1e-9
 * here. 1e-5: rounding of A_ii, some 1e-15, by 1e-9, twice over. Left-out parts of z, 1e-14, divided by 1e-18 would be
 * 1e4. */
static void rows_without_neighbours(void **state) {
    static const double ridge = 0.1;
    (void)state;
    circe_context *context = test_context(1);
    data d = smooth_data(41, 30, 2, 1);
    for (int64_t i = 0; i < d.y.rows; i++) {
        test_set(&d.y, i, 0, (double)i);
        test_set(&d.y, i, 1, 1e4);
    }
    for (int64_t m = CIRCE_METHOD_LOWRANK; m <= CIRCE_METHOD_DENSE; m++) {
        circe_cme_options options = test_options((circe_method)m, &ridge);
        circe_cme *cme = test_fit(context, &d.y, &d.z, "0:delta*1:linear", "gaussian(1)", &options);
        assert_near(info_of(cme).loo_error, 1.0, 1e-5, 1.0);
    }
}

/* The best cell of a grid is the model that a fit with that cell alone gives. */
static void best_cell_is_the_model(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    data holdout = smooth_data(31, 700, 1, 1), batch = smooth_data(33, 20, 1, 1);
    circe_cme_options options = test_options(CIRCE_METHOD_LOWRANK, NULL);
    circe_cme *grid = test_fit(context, &holdout.y, &holdout.z, "gaussian", "gaussian(1)", &options);
    circe_loo_table table;
    assert_ok(circe_cme_get_loo(grid, &table));
    assert_int_equal(table.n_sigma2_y, 5); /* multiples of the median */
    assert_int_equal(table.n_ridge, 5);
    int64_t best = 0;
    for (int64_t cell = 0; cell < 25; cell++)
        if (table.error[cell] < table.error[best]) best = cell;
    double sigma2 = table.sigma2_y[best / 5], ridge = table.ridge[best % 5];
    assert_true(info_of(grid).sigma2_y == sigma2 && info_of(grid).ridge == ridge);
    char kernel_y[64];
    snprintf(kernel_y, sizeof kernel_y, "gaussian(%.17g)", sigma2);
    assert_string_equal(circe_kernel_text(circe_cme_kernel_y(grid)), kernel_y);
    assert_string_equal(circe_kernel_text(circe_cme_kernel_z(grid)), "gaussian(1)");
    options.ridge = &ridge;
    options.n_ridge = 1;
    circe_cme *alone = test_fit(context, &holdout.y, &holdout.z, kernel_y, "gaussian(1)", &options);
    circe_mat a = residual_gram(context, grid, &batch), b = residual_gram(context, alone, &batch);
    assert_mat_equal(&a, &b);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void round_trip(void **state) {
    static const struct {
        circe_method method;
        int64_t rows;
        const char *kernel_y, *kernel_z;
    } cases[] = {
        {CIRCE_METHOD_LOWRANK, 700, "gaussian", "gaussian(0.7)"}, {CIRCE_METHOD_DENSE, 60, "gaussian", "gaussian(0.7)"},
        {CIRCE_METHOD_DENSE, 600, "laplace", "0:gaussian(1)"},    {CIRCE_METHOD_RFF, 60, "gaussian", "laplace(0.7)"},
        {CIRCE_METHOD_RFF, 700, "gaussian(1)", "gaussian(0.7)"},
    };
    (void)state;
    circe_context *context = test_context(0);
    for (int64_t k = 0; k < COUNT(cases); k++) {
        data holdout = smooth_data(41, cases[k].rows, 1, 1), batch = smooth_data(43, 50, 1, 1);
        circe_cme_options options = test_options(cases[k].method, NULL);
        options.rff_pool = 24;
        options.rff_batch = 16;
        options.rff_every = 3;
        options.seed = 0xfedcba9876543210u;
        circe_cme *cme = test_fit(context, &holdout.y, &holdout.z, cases[k].kernel_y, cases[k].kernel_z, &options);
        const char *path = test_path("model.safetensors");
        assert_ok(circe_cme_save(cme, path));
        circe_cme *back = test_load(context, path);
        circe_cme_info a = info_of(cme), b = info_of(back);
        assert_int_equal(a.method, b.method);
        assert_int_equal(a.solver, b.solver);
        assert_int_equal(a.rows, b.rows);
        assert_int_equal(a.dim_y, b.dim_y);
        assert_int_equal(a.dim_z, b.dim_z);
        assert_int_equal(a.rank_y, b.rank_y);
        assert_int_equal(a.rank_z, b.rank_z);
        assert_true(a.trace_residual_y == b.trace_residual_y && a.trace_residual_z == b.trace_residual_z);
        assert_true(a.sigma2_y == b.sigma2_y && a.ridge == b.ridge && a.ridge_safe == b.ridge_safe);
        assert_true(a.ridge_raised == b.ridge_raised && a.loo_error == b.loo_error && a.seconds == b.seconds);
        assert_string_equal(circe_kernel_text(circe_cme_kernel_y(cme)), circe_kernel_text(circe_cme_kernel_y(back)));
        assert_string_equal(circe_kernel_text(circe_cme_kernel_z(cme)), circe_kernel_text(circe_cme_kernel_z(back)));
        circe_loo_table s, t;
        assert_ok(circe_cme_get_loo(cme, &s));
        assert_ok(circe_cme_get_loo(back, &t));
        assert_true(s.n_sigma2_y == t.n_sigma2_y && s.n_ridge == t.n_ridge);
        assert_true((s.sigma2_y == NULL) == (t.sigma2_y == NULL));
        size_t cells = (size_t)(s.n_sigma2_y * s.n_ridge);
        assert_memory_equal(s.error, t.error, cells * sizeof(double));
        assert_memory_equal(s.ridge_used, t.ridge_used, cells * sizeof(double));
        assert_memory_equal(s.ridge, t.ridge, (size_t)s.n_ridge * sizeof(double));
        for (int64_t step = 0; step < 5; step++) {
            if (cases[k].method == CIRCE_METHOD_RFF) {
                assert_ok(circe_cme_rff_step(cme, step));
                assert_ok(circe_cme_rff_step(back, step));
            }
            circe_mat gram = residual_gram(context, cme, &batch), gram_back = residual_gram(context, back, &batch);
            assert_mat_equal(&gram, &gram_back);
        }
        assert_ok(circe_cme_save(back, test_path("again.safetensors"))); /* over and over */
    }
}

static void load_refuses(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    circe_cme *cme = (circe_cme *)context; /* must become NULL */
    assert_refused(circe_cme_load(context, test_path("none.safetensors"), &cme), CIRCE_ERR_IO, "none.safetensors");
    assert_null(cme);
    double numbers[6] = {0};
    circe_tensor tensor = {.name = "a", .dtype = "F64", .n_dims = 2, .shape = {2, 3}, .data = numbers, .bytes = 48};
    const char *path = test_path("other.safetensors");
    assert_ok(circe_tensor_file_write(context, path, &tensor, 1, NULL, 0));
    assert_refused(circe_cme_load(context, path, &cme), CIRCE_ERR_FORMAT, "not a usable circe model");
    assert_refused(circe_cme_save(NULL, path), CIRCE_ERR_ARGUMENT, "NULL");
}

/* The bytes of a saved model; its length is returned. */
static size_t model_bytes(circe_context *context, unsigned char *bytes, size_t capacity) {
    data d = smooth_data(61, 30, 1, 1);
    circe_cme *cme = test_fit(context, &d.y, &d.z, "gaussian(0.5)", "gaussian(0.5)", NULL);
    const char *path = test_path("summed.safetensors");
    const circe_metadata own[] = {{"circe_categories", "{\"y\": [null]}"}};
    assert_ok(circe_cme_save_with(cme, path, own, 1));
    FILE *file = fopen(path, "rb");
    size_t length = fread(bytes, 1, capacity, file);
    fclose(file);
    assert_true(length > 1000 && length < capacity);
    return length;
}

static circe_status load_bytes(circe_context *context, const unsigned char *bytes, size_t length, circe_cme **cme) {
    const char *path = test_path("changed.safetensors");
    FILE *file = fopen(path, "wb");
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    fclose(file);
    return circe_cme_load(context, path, cme);
}

/* Not one bit of a model can change without a word. */
static void checksum(void **state) {
    (void)state;
    enum { MOST = 1 << 16 };
    circe_context *context = test_context(1);
    unsigned char *bytes = test_memory(MOST);
    size_t length = model_bytes(context, bytes, MOST);
    circe_cme *cme = NULL;
    assert_ok(load_bytes(context, bytes, length, &cme));
    circe_cme_destroy(cme);
    for (size_t at = 0; at < length; at += 3) {
        bytes[at] ^= (unsigned char)(1 << at % 8);
        assert_int_equal(load_bytes(context, bytes, length, &cme), CIRCE_ERR_FORMAT);
        assert_null(cme);
        bytes[at] ^= (unsigned char)(1 << at % 8);
    }
    bytes[length - 9] ^= 1;
    assert_refused(load_bytes(context, bytes, length, &cme), CIRCE_ERR_FORMAT,
                   "damaged, or was changed after it was written: its checksum is");
    circe_metadata many[17];
    for (int i = 0; i < 17; i++) many[i] = (circe_metadata){"k", "v"};
    data d = smooth_data(61, 30, 1, 1);
    cme = test_fit(context, &d.y, &d.z, "gaussian(0.5)", "gaussian(0.5)", NULL);
    assert_refused(circe_cme_save_with(cme, test_path("many.safetensors"), many, 17), CIRCE_ERR_ARGUMENT, "0 to 16");
}

/* Models of versions without one load. */
static void without_checksum(void **state) {
    (void)state;
    enum { MOST = 1 << 16 };
    static const char key[] = "\"checksum\"", version[] = "\"format_version\":\"2\"";
    circe_context *context = test_context(1);
    unsigned char *bytes = test_memory(MOST);
    size_t length = model_bytes(context, bytes, MOST);
    circe_cme *cme = NULL;
    for (size_t at = 0; at + 32 < length; at++)
        if (memcmp(bytes + at, key, sizeof key - 1) == 0) bytes[at + 1] = 'k';
    assert_refused(load_bytes(context, bytes, length, &cme), CIRCE_ERR_FORMAT, "its checksum is missing");
    for (size_t at = 0; at + 32 < length; at++)
        if (memcmp(bytes + at, version, sizeof version - 1) == 0) bytes[at + sizeof version - 3] = '1';
    assert_ok(load_bytes(context, bytes, length, &cme));
    circe_cme_destroy(cme);
}

/* ---- the choice of method ---------------------------------------------------------------------------------------- */

static void auto_chooses(void **state) {
    (void)state;
    circe_context *context = test_context(0);
    data one = smooth_data(51, 1500, 1, 1), eight = smooth_data(53, 700, 8, 1), few = smooth_data(55, 100, 1, 1);
    static const double ridge = 0.1;
    circe_cme_options options = test_options(CIRCE_METHOD_AUTO, &ridge);
    circe_cme *cme = test_fit(context, &one.y, &one.z, "gaussian(0.5)", "gaussian(0.5)", &options);
    assert_int_equal(info_of(cme).method, CIRCE_METHOD_LOWRANK);
    assert_true(info_of(cme).rank_y < 100);
    cme = test_fit(context, &eight.y, &eight.z, "gaussian(1)", "gaussian(0.5)", &options);
    assert_int_equal(info_of(cme).method, CIRCE_METHOD_DENSE);
    cme = test_fit(context, &few.y, &few.z, "gaussian(0.5)", "gaussian(0.5)", &options);
    assert_int_equal(info_of(cme).method, CIRCE_METHOD_DENSE); /* exact, and at once */
    /* Forced low rank on what has none says so. */
    circe_cme *none = NULL;
    options.method = CIRCE_METHOD_LOWRANK;
    options.max_rank = 50;
    assert_refused(circe_cme_fit(context, &eight.y, &eight.z, test_kernel(context, "gaussian(1)"),
                                 test_kernel(context, "gaussian(1)"), &options, &none),
                   CIRCE_ERR_RANK, "does not have low rank");
    assert_null(none);
}

/* Many rows of what has no low rank are refused from a sample, before the work; a variable of few values is not,
 * however narrow its kernel, and neither is a smooth one. */
static void rank_is_judged_beforehand(void **state) {
    (void)state;
    enum { ROWS = 8500, VALUES = 850 }; /* more than are all candidates, and more values than the sample has pivots */
    circe_context *context = test_context(2);
    double *cloud = malloc(3 * ROWS * sizeof *cloud), *z = malloc(ROWS * sizeof *z),
           *grid = malloc(ROWS * sizeof *grid);
    assert_true(cloud != NULL && z != NULL && grid != NULL);
    circe_random_normal((circe_random){1, 0}, 0, 3 * ROWS, cloud);
    circe_random_uniform((circe_random){1, 1}, 0, ROWS, z);
    for (int i = 0; i < ROWS; i++) grid[i] = i % VALUES;
    circe_mat y3 = circe_mat_f64(cloud, ROWS, 3), y1 = circe_mat_f64(grid, ROWS, 1), z1 = circe_mat_f64(z, ROWS, 1);
    circe_kernel *narrow = test_kernel(context, "gaussian(0.01)"), *smooth = test_kernel(context, "gaussian(1)");
    circe_cme_options options;
    circe_cme_options_init(&options);
    options.method = CIRCE_METHOD_LOWRANK;
    double ridge = 1.0;
    options.ridge = &ridge;
    options.n_ridge = 1;
    circe_cme *cme = NULL;
    assert_refused(circe_cme_fit(context, &y3, &z1, narrow, smooth, &options, &cme), CIRCE_ERR_RANK,
                   "the kernel matrix of y does not have low rank: in a sample, 768 pivots leave");
    assert_refused(circe_cme_fit(context, &z1, &y3, smooth, narrow, &options, &cme), CIRCE_ERR_RANK,
                   "the kernel matrix of z does not have low rank: in a sample");
    if (test_few(1, 0) > 0) { /* so many pivots take minutes under an emulator */
        assert_int_equal(circe_cme_fit(context, &y1, &z1, narrow, smooth, &options, &cme), CIRCE_OK);
        assert_int_equal(info_of(cme).rank_y, VALUES);
        circe_cme_destroy(cme);
    }
    assert_int_equal(circe_cme_fit(context, &z1, &z1, narrow, smooth, &options, &cme), CIRCE_OK);
    assert_true(info_of(cme).rank_y < 100);
    circe_cme_destroy(cme);
    free(cloud);
    free(z);
    free(grid);
}

/* ---- ridges below what is safe ----------------------------------------------------------------------------------- */

typedef struct log_record {
    int warnings;
    char last[512];
} log_record;

static void record_log(void *user, circe_log_level level, const char *text) {
    log_record *record = user;
    if (level != CIRCE_LOG_WARNING) return;
    record->warnings++;
    snprintf(record->last, sizeof record->last, "%s", text);
}

static void unsafe_ridge(void **state) {
    (void)state;
    static const double tiny = 1e-30;
    log_record record = {0};
    circe_context_options context_options;
    circe_context_options_init(&context_options);
    context_options.log = record_log;
    context_options.log_user = &record;
    circe_context *context = test_context_with(&context_options);
    data holdout = smooth_data(61, 700, 1, 1), batch = smooth_data(63, 30, 1, 1);
    const circe_method methods[] = {CIRCE_METHOD_LOWRANK, CIRCE_METHOD_DENSE};
    for (int64_t m = 0; m < COUNT(methods); m++) {
        circe_cme_options options = test_options(methods[m], &tiny);
        record = (log_record){0};
        circe_cme *raised = test_fit(context, &holdout.y, &holdout.z, "gaussian(0.5)", "gaussian(0.5)", &options);
        circe_cme_info info = info_of(raised);
        circe_loo_table table;
        assert_ok(circe_cme_get_loo(raised, &table));
        assert_true(info.ridge_raised && info.ridge == info.ridge_safe && info.ridge > tiny);
        assert_true(table.ridge[0] == tiny && table.ridge_used[0] == info.ridge);
        assert_int_equal(circe_cme_n_warnings(raised), 1);
        assert_non_null(strstr(circe_cme_warning(raised, 0), "used instead"));
        assert_int_equal(record.warnings, 1);
        assert_string_equal(record.last, circe_cme_warning(raised, 0));
        assert_string_equal(circe_cme_warning(raised, 1), "");
        circe_mat gram = residual_gram(context, raised, &batch);
        assert_true(isfinite(test_max(&gram)));

        options.force_ridge = 1;
        circe_cme *forced = test_fit(context, &holdout.y, &holdout.z, "gaussian(0.5)", "gaussian(0.5)", &options);
        info = info_of(forced);
        assert_true(info.ridge == tiny && !info.ridge_raised);
        assert_int_equal(circe_cme_n_warnings(forced), 1);
        assert_non_null(strstr(circe_cme_warning(forced, 0), "rounding dominates"));
    }
    /* A safe one stays as it is, in silence. */
    static const double fine = 0.1;
    circe_cme_options options = test_options(CIRCE_METHOD_AUTO, &fine);
    circe_cme *cme = test_fit(context, &holdout.y, &holdout.z, "gaussian(0.5)", "gaussian(0.5)", &options);
    assert_true(info_of(cme).ridge == fine && !info_of(cme).ridge_raised);
    assert_int_equal(circe_cme_n_warnings(cme), 0);
}

/* ---- degenerate data --------------------------------------------------------------------------------------------- */

/* y constant: K_YY is all ones, mu = (sum of psi(z_i)) / (M + ridge) everywhere. */
static void constant_y(void **state) {
    (void)state;
    static const double ridge = 0.5;
    const circe_method methods[] = {CIRCE_METHOD_DENSE, CIRCE_METHOD_LOWRANK};
    circe_context *context = test_context(1);
    int64_t M = 50, B = 12;
    for (int64_t m = 0; m < COUNT(methods); m++) {
        data holdout = {test_zeros(M, 1, CIRCE_FLOAT64), test_normal(71, M, 1)};
        data batch = {test_zeros(B, 1, CIRCE_FLOAT64), test_normal(72, B, 1)};
        circe_cme_options options = test_options(methods[m], &ridge);
        circe_cme *cme = test_fit(context, &holdout.y, &holdout.z, "gaussian(1)", "gaussian(1)", &options);
        assert_int_equal(circe_cme_n_warnings(cme), 1);
        assert_non_null(strstr(circe_cme_warning(cme, 0), "y is constant"));
        circe_kernel *kernel = test_kernel(context, "gaussian(1)");
        circe_mat zz = test_zeros(B, B, CIRCE_FLOAT64), zZ = test_zeros(B, M, CIRCE_FLOAT64);
        circe_mat ZZ = test_zeros(M, M, CIRCE_FLOAT64), expected = test_zeros(B, B, CIRCE_FLOAT64);
        assert_ok(circe_gram(context, kernel, &batch.z, &batch.z, &zz));
        assert_ok(circe_gram(context, kernel, &batch.z, &holdout.z, &zZ));
        assert_ok(circe_gram(context, kernel, &holdout.z, &holdout.z, &ZZ));
        double total = 0.0, w = 1.0 / ((double)M + ridge);
        for (int64_t e = 0; e < M * M; e++) total += ((const double *)ZZ.data)[e];
        for (int64_t i = 0; i < B; i++)
            for (int64_t j = 0; j < B; j++) {
                double cross = 0.0;
                for (int64_t k = 0; k < M; k++) cross += test_at(&zZ, i, k) + test_at(&zZ, j, k);
                test_set(&expected, i, j, test_at(&zz, i, j) - w * cross + w * w * total);
            }
        circe_mat gram = residual_gram(context, cme, &batch);
        assert_mat_near(&gram, &expected, 1e-8); /* of the basis of z */
    }
}

/* z constant: psi(z) is one vector c, K^c_ij = (1 - a_i)(1 - a_j) with a = K_yY (K_YY + ridge I)^-1 1, which is nearly
 * 1: nothing is left that could depend on anything. 1 - a is about the ridge, at the edges of y a few times that. */
static void constant_z(void **state) {
    (void)state;
    static const double ridge = 1e-3;
    const circe_method methods[] = {CIRCE_METHOD_DENSE, CIRCE_METHOD_LOWRANK};
    circe_context *context = test_context(1);
    for (int64_t m = 0; m < COUNT(methods); m++) {
        data holdout = {test_uniform(73, 60, 1), test_zeros(60, 1, CIRCE_FLOAT64)};
        data batch = {test_uniform(74, 10, 1), test_zeros(10, 1, CIRCE_FLOAT64)};
        circe_cme_options options = test_options(methods[m], &ridge);
        circe_cme *cme = test_fit(context, &holdout.y, &holdout.z, "gaussian(1)", "gaussian(1)", &options);
        assert_int_equal(circe_cme_n_warnings(cme), 1);
        assert_non_null(strstr(circe_cme_warning(cme, 0), "z is constant"));
        circe_mat gram = residual_gram(context, cme, &batch);
        assert_near(test_max(&gram), 0.0, 1e-5, 1.0);
        circe_mat x = test_normal(75, 10, 1);
        assert_true(fabs(measure(context, cme, "gaussian(1)", &x, &batch, CIRCE_BIASED, NULL)) < 1e-5);
    }
}

/* Categories: with delta kernels mu(y) is a table of frequencies, n(y, z) / (n(y) + ridge), so K^c has a closed form,
 * and so has leaving one out. 1e-12: nothing but sums of at most M ones. */
static void categories(void **state) {
    (void)state;
    enum { Y = 3, Z = 4 };
    static const double ridge = 0.7;
    static const struct {
        circe_method method;
        int64_t rows;
    } cases[] = {{CIRCE_METHOD_DENSE, 90}, {CIRCE_METHOD_LOWRANK, 90}, {CIRCE_METHOD_AUTO, 2000}};
    circe_context *context = test_context(0);
    for (int64_t k = 0; k < COUNT(cases); k++) {
        int64_t M = cases[k].rows, B = 40;
        data holdout = {test_categories(81, M, 1, Y), test_categories(82, M, 1, Z)};
        data batch = {test_categories(83, B, 1, Y), test_categories(84, B, 1, Z)};
        double count[Y] = {0}, pairs[Y][Z] = {{0}}, p[Y][Z];
        for (int64_t i = 0; i < M; i++) {
            int y = (int)test_at(&holdout.y, i, 0), z = (int)test_at(&holdout.z, i, 0);
            count[y] += 1.0;
            pairs[y][z] += 1.0;
        }
        for (int y = 0; y < Y; y++)
            for (int z = 0; z < Z; z++) p[y][z] = pairs[y][z] / (count[y] + ridge);
        circe_mat expected = test_zeros(B, B, CIRCE_FLOAT64);
        for (int64_t i = 0; i < B; i++)
            for (int64_t j = 0; j < B; j++) {
                int yi = (int)test_at(&batch.y, i, 0), zi = (int)test_at(&batch.z, i, 0);
                int yj = (int)test_at(&batch.y, j, 0), zj = (int)test_at(&batch.z, j, 0);
                double value = (zi == zj ? 1.0 : 0.0) - p[yi][zj] - p[yj][zi];
                for (int z = 0; z < Z; z++) value += p[yi][z] * p[yj][z];
                test_set(&expected, i, j, value);
            }
        double loo = 0.0;
        for (int64_t i = 0; i < M; i++) {
            int y = (int)test_at(&holdout.y, i, 0), own = (int)test_at(&holdout.z, i, 0);
            for (int z = 0; z < Z; z++) {
                double here = z == own ? 1.0 : 0.0, others = (pairs[y][z] - here) / (count[y] - 1.0 + ridge);
                loo += (here - others) * (here - others) / (double)M;
            }
        }
        circe_cme_options options = test_options(cases[k].method, &ridge);
        circe_cme *cme = test_fit(context, &holdout.y, &holdout.z, "delta", "delta", &options);
        assert_int_equal(info_of(cme).rank_z, Z);
        circe_mat gram = residual_gram(context, cme, &batch);
        assert_mat_near(&gram, &expected, 1e-12);
        assert_near(info_of(cme).loo_error, loo, 1e-11, loo);
    }
}

/* ---- cached features --------------------------------------------------------------------------------------------- */

/* Rows of a data set that reaches beyond the holdout on both sides. In float64 the features are right to 1e-11 of
 * k(z, z), and inner products of what they leave out to its square root; in float32 to 1e-4 (1e-8 by construction,
 * again through a root). */
static void cached_features(void **state) {
    (void)state;
    static const double ridge = 0.1;
    static const struct {
        circe_method method;
        int64_t rows;
        const char *kernel_z;
    } cases[] = {{CIRCE_METHOD_LOWRANK, 700, "gaussian(0.5)"},
                 {CIRCE_METHOD_DENSE, 60, "gaussian(0.5)"},
                 {CIRCE_METHOD_DENSE, 600, "gaussian(0.5)"},
                 {CIRCE_METHOD_DENSE, 60, "laplace(1)"},
                 {CIRCE_METHOD_LOWRANK, 700, "linear"}};
    enum { ROWS = 2500 }; /* more than a block */
    circe_context *context = test_context(0);
    circe_workspace *workspace = test_workspace(context);
    circe_kernel *kernel_x = test_kernel(context, "gaussian(2)");
    for (int64_t k = 0; k < COUNT(cases); k++) {
        bool rough = strncmp(cases[k].kernel_z, "laplace", 7) == 0; /* every row needs a column of its own */
        data holdout = smooth_data(91, cases[k].rows, 1, 1), all = smooth_data(93, rough ? 300 : ROWS, 1, 1);
        for (int64_t i = 0; i < all.z.rows; i++) {
            if (i % 3 == 0) test_set(&all.z, i, 0, 4.0 * test_at(&all.z, i, 0));
            if (i % 5 == 0) test_set(&all.y, i, 0, 2.0 * test_at(&all.y, i, 0));
        }
        circe_cme_options options = test_options(cases[k].method, &ridge);
        circe_cme *cme = test_fit(context, &holdout.y, &holdout.z, "gaussian(0.5)", cases[k].kernel_z, &options);
        for (circe_dtype dtype = CIRCE_FLOAT32; dtype <= CIRCE_FLOAT64; dtype++) {
            enum { BATCH = 65 };
            int64_t index[BATCH];
            circe_features *features = test_features(context, cme, &all.y, &all.z, dtype);
            circe_random_subset((circe_random){3, (uint64_t)k}, all.y.rows, BATCH, index);
            index[1] = index[0] = all.y.rows - 1; /* any order, repeated */
            data batch = {test_rows(&all.y, index, BATCH), test_rows(&all.z, index, BATCH)};
            circe_mat plain = test_normal(95, BATCH, 3), x = test_copy(&plain, dtype);
            circe_mat grad = test_zeros(BATCH, 3, dtype), cached_grad = test_zeros(BATCH, 3, dtype);
            double size = fabs(measure(context, cme, "gaussian(2)", &x, &batch, CIRCE_BIASED, NULL));
            double tolerance = dtype == CIRCE_FLOAT64 ? 1e-6 : 1e-4;
            for (circe_estimator e = CIRCE_BIASED; e <= CIRCE_USTAT; e++) {
                double cached = NAN, value = measure(context, cme, "gaussian(2)", &x, &batch, e, &grad);
                assert_ok(circe_measure_circe_cached(workspace, cme, features, index, BATCH, kernel_x, &x, e, &cached,
                                                     &cached_grad));
                assert_near(cached, value, tolerance, size);
                assert_mat_near(&cached_grad, &grad, 10.0 * tolerance);
            }
            /* The witness from gathered features is the same thing, by hand. */
            circe_mat y, zeta, witness = test_zeros(BATCH, BATCH, dtype);
            assert_ok(circe_features_get(features, &y, &zeta));
            assert_int_equal(zeta.rows, all.y.rows);
            circe_mat own_y = test_zeros(BATCH, y.cols, dtype), own_zeta = test_zeros(BATCH, zeta.cols, dtype);
            assert_ok(circe_features_gather(features, index, BATCH, &own_y, &own_zeta));
            assert_ok(
                circe_witness_features(workspace, circe_cme_kernel_y(cme), &own_y, &own_zeta, CIRCE_USTAT, &witness));
            double by_hand = NAN, cached = NAN;
            assert_ok(circe_contract(workspace, kernel_x, &x, &witness, &by_hand, NULL));
            assert_ok(circe_measure_circe_cached(workspace, cme, features, index, BATCH, kernel_x, &x, CIRCE_USTAT,
                                                 &cached, NULL));
            /* The estimator's shift is applied to the witness there, on the way into the contraction here: rounding. */
            assert_near(by_hand, cached, dtype == CIRCE_FLOAT64 ? 1e-13 : 1e-6, size);
            index[7] = all.y.rows;
            assert_refused(circe_features_gather(features, index, BATCH, &own_y, &own_zeta), CIRCE_ERR_ARGUMENT,
                           rough ? "index[7] is 300" : "index[7] is 2500");
        }
    }
}

/* Where z is of high rank there are no coordinates, and the measure of rows is that of raw points all the same: y of
 * low rank and dense, z of many columns and rough. */
static void implicit_features(void **state) {
    (void)state;
    static const double ridge = 0.1;
    static const struct {
        circe_method method;
        int64_t holdout, rows, dim_y, dim_z;
        const char *kernel_z;
    } cases[] = {{CIRCE_METHOD_LOWRANK, 900, 400, 1, 10, "gaussian(2)"},
                 {CIRCE_METHOD_DENSE, 850, 300, 3, 10, "gaussian(2)"},
                 {CIRCE_METHOD_LOWRANK, 600, 2100, 1, 1, "laplace(0.1)"}}; /* more rows than a block */
    enum { BATCH = 65 };
    circe_context *context = test_context(0);
    circe_workspace *workspace = test_workspace(context);
    circe_kernel *kernel_x = test_kernel(context, "gaussian(2)");
    for (int64_t k = test_few(0, COUNT(cases) - 1); k < COUNT(cases); k++) {
        data holdout = smooth_data(131, cases[k].holdout, cases[k].dim_y, cases[k].dim_z);
        data all = smooth_data(133, cases[k].rows, cases[k].dim_y, cases[k].dim_z);
        circe_cme_options options = test_options(cases[k].method, &ridge);
        circe_cme *cme = test_fit(context, &holdout.y, &holdout.z, "gaussian(0.5)", cases[k].kernel_z, &options);
        int64_t index[BATCH];
        circe_random_subset((circe_random){5, (uint64_t)k}, all.y.rows, BATCH, index);
        index[1] = index[0] = all.y.rows - 1;
        data batch = {test_rows(&all.y, index, BATCH), test_rows(&all.z, index, BATCH)};
        circe_features *features[2]; /* in float32 and float64 */
        for (int kept = 0; kept < 2; kept++)
            features[kept] = test_features(context, cme, &all.y, &all.z, kept == 0 ? CIRCE_FLOAT32 : CIRCE_FLOAT64);
        for (int own = 0; own < 2; own++) { /* x and all else */
            circe_dtype dtype = own == 0 ? CIRCE_FLOAT32 : CIRCE_FLOAT64;
            circe_mat plain = test_normal(135, BATCH, 3), x = test_copy(&plain, dtype);
            circe_mat grad = test_zeros(BATCH, 3, dtype), cached_grad = test_zeros(BATCH, 3, dtype);
            double size = 0.0;
            for (circe_estimator e = CIRCE_BIASED; e <= CIRCE_USTAT; e++) {
                double cached = NAN, value = measure(context, cme, "gaussian(2)", &x, &batch, e, &grad);
                if (e == CIRCE_BIASED) size = fabs(value);
                for (int kept = 0; kept < 2; kept++) {
                    double tolerance = own + kept == 2 ? 1e-11 : 1e-5;
                    assert_ok(circe_measure_circe_cached(workspace, cme, features[kept], index, BATCH, kernel_x, &x, e,
                                                         &cached, &cached_grad));
                    assert_near(cached, value, tolerance, size);
                    assert_mat_near(&cached_grad, &grad, 100.0 * tolerance);
                }
            }
        }
        for (int kept = 0; kept < 2; kept++) {
            circe_mat y, zeta;
            assert_ok(circe_features_get(features[kept], &y, NULL));
            assert_int_equal(y.rows, all.y.rows);
            assert_refused(circe_features_get(features[kept], &y, &zeta), CIRCE_ERR_RANK, "z has a high rank");
            assert_refused(circe_features_gather(features[kept], index, BATCH, &y, &zeta), CIRCE_ERR_RANK,
                           "no coordinates");
        }
    }
}

/* ---- memory of several contexts ---------------------------------------------------------------------------------- */

static circe_context *counting_context(test_allocator *counter) {
    circe_context_options options;
    circe_context_options_init(&options);
    options.allocator = test_counting(counter);
    return test_context_with(&options);
}

/* Kernels, model and features of three contexts: each gives back its own memory, to its own allocator. */
static void every_context_frees_its_own(void **state) {
    (void)state;
    static const double ridge = 0.1;
    static const struct {
        circe_method method;
        int64_t holdout, dim_z;
        const char *kernel_z;
    } cases[] = {{CIRCE_METHOD_LOWRANK, 300, 1, "gaussian(0.5)"},
                 {CIRCE_METHOD_DENSE, 60, 1, "gaussian(0.5)"},
                 {CIRCE_METHOD_RFF, 60, 1, "gaussian(0.5)"},
                 {CIRCE_METHOD_LOWRANK, 900, 10, "gaussian(2)"}}; /* features without coordinates */
    static test_allocator every[COUNT(cases)][3];                 /* outlive the contexts */
    for (int64_t k = 0; k < COUNT(cases); k++) {
        test_allocator *counters = every[k];
        circe_context *contexts[3] = {counting_context(&counters[0]), counting_context(&counters[1]),
                                      counting_context(&counters[2])};
        data holdout = smooth_data(141, cases[k].holdout, 1, cases[k].dim_z),
             all = smooth_data(143, 80, 1, cases[k].dim_z);
        circe_kernel *kernel_y = NULL, *kernel_z = NULL;
        circe_cme *cme = NULL;
        circe_features *features = NULL;
        circe_mat gram = test_zeros(80, 80, CIRCE_FLOAT64);
        circe_cme_options options = test_options(cases[k].method, &ridge);
        assert_ok(circe_kernel_parse(contexts[0], "gaussian(0.5)", &kernel_y));
        assert_ok(circe_kernel_parse(contexts[0], cases[k].kernel_z, &kernel_z));
        assert_ok(circe_gram(contexts[1], kernel_y, &all.y, &all.y, &gram));
        int64_t of_kernels = counters[0].live;
        assert_int_equal(counters[1].live, 1); /* the context itself */
        assert_ok(circe_cme_fit(contexts[1], &holdout.y, &holdout.z, kernel_y, kernel_z, &options, &cme));
        assert_int_equal(counters[0].live, of_kernels);
        if (cases[k].method != CIRCE_METHOD_RFF) {
            int64_t before = counters[1].live;
            assert_ok(circe_features_create(contexts[2], cme, &all.y, &all.z, CIRCE_FLOAT64, &features));
            assert_int_equal(counters[1].live, before);
        }
        circe_kernel_destroy(kernel_y);
        circe_kernel_destroy(kernel_z);
        circe_cme_destroy(cme);
        circe_features_destroy(features);
        for (int c = 0; c < 3; c++) assert_int_equal(counters[c].live, 1);
    }
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static circe_context *small_context(size_t limit) {
    circe_context_options options;
    circe_context_options_init(&options);
    options.threads = 2; /* each has memory of its own in a fit */
    options.memory_limit = limit;
    return test_context_with(&options);
}

static void memory_limit(void **state) {
    (void)state;
    static const double ridge = 0.1;
    circe_cme *cme = NULL;
    circe_cme_options options = test_options(CIRCE_METHOD_DENSE, &ridge);
    data d = smooth_data(101, 2500, 1, 1);

    circe_context *context = small_context(1000000);
    circe_kernel *ky = test_kernel(context, "gaussian(1)"), *kz = test_kernel(context, "gaussian(1)");
    options.method = CIRCE_METHOD_AUTO;
    assert_refused(circe_cme_fit(context, &d.y, &d.z, ky, kz, &options, &cme), CIRCE_ERR_MEMORY,
                   "this fit needs about 32.0 MB, but 1.0 MB are available; use fewer holdout points");
    assert_null(cme);

    context = small_context(150000000);
    ky = test_kernel(context, "gaussian(1)"), kz = test_kernel(context, "gaussian(1)");
    options.method = CIRCE_METHOD_DENSE;
    assert_refused(circe_cme_fit(context, &d.y, &d.z, ky, kz, &options, &cme), CIRCE_ERR_MEMORY,
                   "this dense fit needs about 182.1 MB, but 150.0 MB are available; use method lowrank");
    options.method = CIRCE_METHOD_RFF;
    options.rff_pool = 2048;
    assert_refused(circe_cme_fit(context, &d.y, &d.z, ky, kz, &options, &cme), CIRCE_ERR_MEMORY,
                   "draw fewer features, or use method lowrank");
    assert_null(cme);
    options.method = CIRCE_METHOD_LOWRANK; /* what the text said would fit */
    cme = test_fit(context, &d.y, &d.z, "gaussian(1)", "gaussian(1)", &options);

    data batch = smooth_data(105, 2000, 1, 1);
    double value = NAN;
    assert_refused(
        circe_measure_circe_spectral(test_workspace(context), cme, ky, &batch.y, &batch.y, &batch.z, &value, NULL),
        CIRCE_ERR_MEMORY, "use a smaller batch");

    /* Auto falls back to a dense fit only where that fits. */
    context = small_context(90000000);
    ky = test_kernel(context, "gaussian(1)"), kz = test_kernel(context, "gaussian(1)");
    data eight = smooth_data(103, 2000, 8, 1);
    circe_cme *none = NULL;
    options.method = CIRCE_METHOD_AUTO;
    assert_refused(circe_cme_fit(context, &eight.y, &eight.z, ky, kz, &options, &none), CIRCE_ERR_RANK,
                   "does not have low rank");
    assert_null(none);

    context = small_context(34000000);
    cme = test_fit(context, &d.y, &d.z, "gaussian(1)", "gaussian(0.0005)", &options);
    data many = smooth_data(107, 30000, 1, 1);
    circe_features *features = (circe_features *)context;
    assert_refused(circe_features_create(context, cme, &many.y, &many.z, CIRCE_FLOAT64, &features), CIRCE_ERR_MEMORY,
                   "compute them for each batch instead");
    assert_null(features);
}

static void bad_arguments(void **state) {
    (void)state;
    circe_context *context = test_context(1);
    circe_kernel *bound = test_kernel(context, "gaussian(1)"), *unbound = test_kernel(context, "gaussian");
    circe_cme *cme = NULL;
    data d = smooth_data(111, 30, 1, 1), fewer = smooth_data(113, 29, 1, 1);
    double bad[] = {-1.0, 0.0, NAN, INFINITY};
    for (int64_t i = 0; i < COUNT(bad); i++) {
        circe_cme_options options = test_options(CIRCE_METHOD_AUTO, &bad[i]);
        assert_refused(circe_cme_fit(context, &d.y, &d.z, bound, bound, &options, &cme), CIRCE_ERR_ARGUMENT,
                       "it must be positive");
        options = test_options(CIRCE_METHOD_AUTO, NULL);
        options.sigma2_y = &bad[i];
        options.n_sigma2_y = 1;
        assert_refused(circe_cme_fit(context, &d.y, &d.z, unbound, bound, &options, &cme), CIRCE_ERR_ARGUMENT,
                       "sigma2 of y");
    }
    assert_refused(circe_cme_fit(context, &d.y, &fewer.z, bound, bound, NULL, &cme), CIRCE_ERR_SHAPE,
                   "y has 30 rows and z has 29");
    assert_refused(circe_cme_fit(context, &d.y, &d.z, bound, unbound, NULL, &cme), CIRCE_ERR_ARGUMENT, "no width yet");
    circe_cme_options options = test_options(CIRCE_METHOD_AUTO, NULL);
    options.tolerance = 0.0;
    assert_refused(circe_cme_fit(context, &d.y, &d.z, bound, bound, &options, &cme), CIRCE_ERR_ARGUMENT, "tolerance");
    options = test_options((circe_method)9, NULL);
    assert_refused(circe_cme_fit(context, &d.y, &d.z, bound, bound, &options, &cme), CIRCE_ERR_ARGUMENT, "method 9");
    options = test_options(CIRCE_METHOD_RFF, NULL);
    options.rff_batch = options.rff_pool + 1;
    assert_refused(circe_cme_fit(context, &d.y, &d.z, bound, bound, &options, &cme), CIRCE_ERR_ARGUMENT, "used <=");
    test_set(&d.y, 7, 0, NAN);
    assert_refused(circe_cme_fit(context, &d.y, &d.z, bound, bound, NULL, &cme), CIRCE_ERR_VALUE,
                   "y contains a NaN at row 7, column 0");
    d.y.rows = d.z.rows = 1;
    assert_refused(circe_cme_fit(context, &d.y, &d.z, bound, bound, NULL, &cme), CIRCE_ERR_SHAPE, "at least 2 rows");
    assert_null(cme);

    data good = smooth_data(115, 30, 1, 1), wide = smooth_data(117, 30, 2, 1);
    circe_cme *model = test_fit(context, &good.y, &good.z, "gaussian(1)", "gaussian(1)", NULL);
    circe_workspace *workspace = test_workspace(context);
    circe_mat x = test_normal(119, 30, 1), narrow = test_zeros(30, 29, CIRCE_FLOAT64);
    double value = NAN;
    assert_refused(circe_measure_circe(workspace, model, bound, &x, &wide.y, &good.z, CIRCE_BIASED, &value, NULL),
                   CIRCE_ERR_SHAPE, "y has 2 columns; the model was fitted on 1");
    assert_refused(circe_measure_circe(workspace, model, bound, &x, &good.y, &fewer.z, CIRCE_BIASED, &value, NULL),
                   CIRCE_ERR_SHAPE, "y has 30 rows and z has 29");
    assert_refused(circe_measure_circe(workspace, model, bound, &x, &good.y, &good.z, CIRCE_BIASED, &value, &narrow),
                   CIRCE_ERR_SHAPE, "grad is 30 by 29; it must be 30 by 1");
    circe_mat three_x = x, three_y = good.y, three_z = good.z;
    three_x.rows = three_y.rows = three_z.rows = 3;
    assert_refused(
        circe_measure_circe(workspace, model, bound, &three_x, &three_y, &three_z, CIRCE_USTAT, &value, NULL),
        CIRCE_ERR_SHAPE, "the ustat estimator needs at least 4 rows; there are 3");
    assert_refused(circe_measure_circe(workspace, model, bound, &x, &good.y, &good.z, (circe_estimator)7, &value, NULL),
                   CIRCE_ERR_ARGUMENT, "estimator 7");
    assert_refused(circe_cme_rff_step(model, 1), CIRCE_ERR_ARGUMENT, "only rff has steps");
}

/* ---- progress ---------------------------------------------------------------------------------------------------- */

typedef struct progress_record {
    int64_t calls, stop_at, last;
    char stage[64];
    bool ordered;
} progress_record;

static int record_progress(void *user, const char *stage, int64_t done, int64_t total) {
    progress_record *record = user;
    if (total == 0) return 0; /* it only asks whether to go on: on a slow machine, here and there */
    bool same = strcmp(record->stage, stage) == 0;
    /* A stage counts from 1 up to its total; rff starts it again, to build its features from the best cell. */
    bool follows = !same || done > record->last || done == 1;
    record->ordered = record->ordered && done >= 1 && done <= total && follows;
    snprintf(record->stage, sizeof record->stage, "%s", stage);
    record->last = done;
    return ++record->calls == record->stop_at;
}

static void progress_and_cancel(void **state) {
    (void)state;
    progress_record record;
    circe_context_options context_options;
    circe_context_options_init(&context_options);
    context_options.progress = record_progress;
    context_options.progress_user = &record;
    circe_context *context = test_context_with(&context_options);
    circe_kernel *unbound = test_kernel(context, "gaussian"), *kz = test_kernel(context, "gaussian(1)");
    const circe_method methods[] = {CIRCE_METHOD_LOWRANK, CIRCE_METHOD_DENSE, CIRCE_METHOD_RFF};
    data d = smooth_data(121, 600, 1, 1);
    for (int64_t m = 0; m < COUNT(methods); m++) {
        circe_cme_options options = test_options(methods[m], NULL);
        options.rff_pool = options.rff_batch = 16;
        int64_t calls = 0;
        for (int64_t stop = 0;; stop++) {
            record = (progress_record){.stop_at = stop, .ordered = true};
            circe_cme *cme = NULL;
            circe_status status = circe_cme_fit(context, &d.y, &d.z, unbound, kz, &options, &cme);
            assert_true(record.ordered);
            if (stop == 0) {
                calls = record.calls;
                assert_int_equal(status, CIRCE_OK);
                assert_true(calls >= 4); /* at least once for every width of the grid */
                circe_cme_destroy(cme);
            } else if (stop <= calls) {
                assert_refused(status, CIRCE_ERR_CANCELLED, "cancelled by the caller during: fitting");
                assert_null(cme);
                if (methods[m] == CIRCE_METHOD_DENSE && stop == 2) break; /* the other widths go the same way */
            } else {
                circe_cme_destroy(cme);
                break;
            }
        }
    }
    record = (progress_record){.ordered = true};
    circe_cme *cme = test_fit(context, &d.y, &d.z, "gaussian(1)", "gaussian(1)", NULL);
    data all = smooth_data(123, 5000, 1, 1);
    circe_features *features = (circe_features *)context;
    record = (progress_record){.stop_at = 2, .ordered = true};
    assert_refused(circe_features_create(context, cme, &all.y, &all.z, CIRCE_FLOAT32, &features), CIRCE_ERR_CANCELLED,
                   "cancelled by the caller during: residual features");
    assert_null(features);
    assert_true(record.ordered && record.calls == 2);
}

/* Denormal numbers are flushed inside; the caller's arithmetic has them after as before, whatever an OpenMP runtime
 * does with the mode of the thread that starts a team (LLVM's gives it back when the team ends). */
static void arithmetic_is_given_back(void **state) {
    (void)state;
    static const double ridge = 1.0;
    data d = smooth_data(140, 200, 1, 1);
    circe_mat x = test_normal(141, 200, 1), grad = test_zeros(200, 1, CIRCE_FLOAT64);
    for (int threads = 1; threads <= 4; threads++) {
        circe_context *context = test_context(threads);
        for (circe_method method = CIRCE_METHOD_LOWRANK; method <= CIRCE_METHOD_DENSE; method++) {
            circe_cme_options options = test_options(method, &ridge);
            circe_cme *cme = test_fit(context, &d.y, &d.z, "gaussian(1)", "gaussian(1)", &options);
            measure(context, cme, "gaussian(1)", &x, &d, CIRCE_USTAT, &grad);
            volatile double tiny = 1e-300;
            assert_true(tiny * 1e-10 > 0.0);
        }
    }
}

/* ---- units ------------------------------------------------------------------------------------------------------ */

static circe_cme_info fit_scaled(const circe_mat *y, const circe_mat *z, double factor,
                                 const circe_cme_options *options, int64_t *n_warnings) {
    circe_context *context = test_context(1);
    circe_mat scaled = test_copy(y, CIRCE_FLOAT64);
    for (int64_t i = 0; i < y->rows; i++)
        for (int64_t c = 0; c < y->cols; c++) test_set(&scaled, i, c, factor * test_at(y, i, c));
    circe_cme *cme = test_fit(context, &scaled, z, "gaussian", "gaussian(1)", options);
    circe_cme_info info;
    assert_ok(circe_cme_get_info(cme, &info));
    if (n_warnings != NULL) *n_warnings = circe_cme_n_warnings(cme);
    return info;
}

/* Without a grid the widths are multiples of the median: the units of y do not count. 1e-6: sums in another
 * order; 1e-7: the median is rounded to 24 bits. */
static void units_do_not_count(void **state) {
    (void)state;
    static const double factors[] = {100.0, 1e-3};
    circe_mat y = test_normal(1, 300, 1), z = test_normal(2, 300, 1);
    for (int64_t i = 0; i < 300; i++) test_set(&z, i, 0, 0.3 * test_at(&z, i, 0) + sin(3.0 * test_at(&y, i, 0)));
    circe_cme_options options;
    circe_cme_options_init(&options);
    circe_cme_info own = fit_scaled(&y, &z, 1.0, &options, NULL);
    for (int64_t k = 0; k < COUNT(factors); k++) {
        circe_cme_info other = fit_scaled(&y, &z, factors[k], &options, NULL);
        assert_near(other.loo_error, own.loo_error, 1e-6, own.loo_error);
        assert_near(other.sigma2_y, factors[k] * factors[k] * own.sigma2_y, 1e-7, other.sigma2_y);
        assert_near(other.ridge, own.ridge, 0.0, 1.0);
        assert_int_equal(other.width_at_edge, own.width_at_edge);
    }
}

/* A grid that ends too soon says so, at either end. */
static void the_edge_is_told(void **state) {
    (void)state;
    static const double grid[] = {1.0, 0.1, 0.01}, ridge[] = {0.1};
    circe_mat y = test_normal(1, 300, 1), z = test_normal(2, 300, 1);
    for (int64_t i = 0; i < 300; i++) test_set(&z, i, 0, 0.3 * test_at(&z, i, 0) + sin(3.0 * test_at(&y, i, 0)));
    circe_cme_options options;
    circe_cme_options_init(&options);
    options.sigma2_y = grid;
    options.n_sigma2_y = COUNT(grid);
    options.ridge = ridge;
    options.n_ridge = 1;
    int64_t warnings;
    assert_int_equal(fit_scaled(&y, &z, 1.0, &options, &warnings).width_at_edge, 0);
    assert_int_equal(warnings, 0);
    assert_int_equal(fit_scaled(&y, &z, 100.0, &options, &warnings).width_at_edge, 1);
    assert_int_equal(warnings, 1);
    assert_int_equal(fit_scaled(&y, &z, 0.1, &options, &warnings).width_at_edge, -1);
    assert_int_equal(warnings, 1);
    options.n_sigma2_y = 1; /* nothing was to be chosen */
    assert_int_equal(fit_scaled(&y, &z, 100.0, &options, NULL).width_at_edge, 0);
}

/* ---- linear kernels far from 0 ----------------------------------------------------------------------------------- */

/* zeta(y, z) = z - B'y of the batch, B = (Y'Y + ridge I)^-1 Y'Z for two columns each, in long double. */
static void exact_zeta(const data *holdout, const data *batch, double ridge, long double zeta[][2]) {
    long double S[2][2] = {{(long double)ridge, 0.0L}, {0.0L, (long double)ridge}}, C[2][2] = {{0.0L}}, B[2][2];
    for (int64_t i = 0; i < holdout->y.rows; i++)
        for (int64_t a = 0; a < 2; a++)
            for (int64_t b = 0; b < 2; b++) {
                S[a][b] += (long double)test_at(&holdout->y, i, a) * (long double)test_at(&holdout->y, i, b);
                C[a][b] += (long double)test_at(&holdout->y, i, a) * (long double)test_at(&holdout->z, i, b);
            }
    long double determinant = S[0][0] * S[1][1] - S[0][1] * S[1][0];
    for (int64_t b = 0; b < 2; b++) {
        B[0][b] = (S[1][1] * C[0][b] - S[0][1] * C[1][b]) / determinant;
        B[1][b] = (S[0][0] * C[1][b] - S[1][0] * C[0][b]) / determinant;
    }
    for (int64_t i = 0; i < batch->y.rows; i++)
        for (int64_t b = 0; b < 2; b++)
            zeta[i][b] = (long double)test_at(&batch->z, i, b) - B[0][b] * (long double)test_at(&batch->y, i, 0) -
                         B[1][b] * (long double)test_at(&batch->y, i, 1);
}

static data shifted_data(uint64_t stream, int64_t rows, double shift) {
    data d = smooth_data(stream, rows, 2, 2);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < 2; c++) {
            test_set(&d.y, i, c, shift + test_at(&d.y, i, c));
            test_set(&d.z, i, c, shift + test_at(&d.z, i, c));
        }
    return d;
}

/* Years, temperatures in kelvin: columns whose mean is many times their spread. The normal equations square the ratio,
 * so eps * shift^2 is what float64 can give; k(z, z) - mu(y)(z) of algorithm 1 as printed lost its fourth power. */
static void linear_far_from_zero(void **state) {
    enum { BATCH = 30 };
    static const int64_t rows[] = {60, 500, 700, 5000};
    static const double shifts[] = {0.0, 100.0, 1e4}, ridge = 0.9;
    (void)state;
    circe_context *context = test_context(0);
    circe_cme_options options = test_options(CIRCE_METHOD_AUTO, &ridge);
    for (int64_t r = 0; r < COUNT(rows); r++)
        for (int64_t s = 0; s < COUNT(shifts); s++) {
            data holdout = shifted_data(90, rows[r], shifts[s]), batch = shifted_data(92, BATCH, shifts[s]);
            long double zeta[BATCH][2];
            exact_zeta(&holdout, &batch, ridge, zeta);
            circe_mat gram =
                residual_gram(context, test_fit(context, &holdout.y, &holdout.z, "linear", "linear", &options), &batch);
            for (int64_t i = 0; i < BATCH; i++)
                for (int64_t j = 0; j < BATCH; j++)
                    assert_near(test_at(&gram, i, j), (double)(zeta[i][0] * zeta[j][0] + zeta[i][1] * zeta[j][1]),
                                1e-13 + 64.0 * 2.2e-16 * shifts[s] * shifts[s], 1.0);
        }
}

TEST_MAIN("cme", TEST(linear_far_from_zero), TEST(units_do_not_count), TEST(the_edge_is_told),
          TEST(lowrank_equals_dense), TEST(lowrank_of_many_rows), TEST(loo_equals_refitting),
          TEST(rows_without_neighbours), TEST(best_cell_is_the_model), TEST(round_trip), TEST(load_refuses),
          TEST(checksum), TEST(without_checksum), TEST(auto_chooses), TEST(rank_is_judged_beforehand),
          TEST(unsafe_ridge), TEST(constant_y), TEST(constant_z), TEST(categories), TEST(cached_features),
          TEST(implicit_features), TEST(every_context_frees_its_own), TEST(memory_limit), TEST(bad_arguments),
          TEST(progress_and_cancel), TEST(arithmetic_is_given_back))
