/* Tests on a device, without one: a device of this file, whose operations are plain loops and whose memory nobody else
 * may touch. It is protected except while an operation runs, so an access by the host ends the program. What the
 * operations are asked for is what a GPU is asked for (tests/measures/test_gpu_inference.c); the results must be those
 * of a test without a device.
 *
 * Tolerance: the order of sums differs, by 1e-15 of them. The smoother magnifies that by its largest eigenvalue over
 * its ridge, up to 1e8 here, and a p-value its statistic's error by its distance into the tail, up to 10: 1e-6. Most
 * agree to 1e-9. */
#include <sys/mman.h>

#include "cme/rows.h"
#include "tests/inference/inference_support.h"

/* ---- memory that is closed --------------------------------------------------------------------------------------- */

enum { BLOCKS = 512 };
typedef struct plain_device {
    circe_test_device device; /* first */
    void *block[BLOCKS];
    size_t bytes[BLOCKS];
    int live, most, calls, begun;
    int fails_at; /* the call, from 1 on, that fails; 0: none */
} plain_device;

static plain_device *of(circe_test_device *d) { return (plain_device *)(void *)d; }

static void protect(plain_device *p, int how) {
    for (int k = 0; k < BLOCKS; k++)
        if (p->block[k] != NULL) assert_int_equal(mprotect(p->block[k], p->bytes[k], how), 0);
}

static void open_memory(circe_test_device *d) {
    plain_device *p = of(d);
    assert_int_equal(p->begun, 1); /* no operation outside a test */
    p->calls++;
    protect(p, PROT_READ | PROT_WRITE);
}

static circe_status close_memory(circe_test_device *d) {
    protect(of(d), PROT_NONE);
    return of(d)->calls == of(d)->fails_at ? circe_fail(CIRCE_ERR_DEVICE, "the device is gone") : CIRCE_OK;
}

static circe_status plain_begin(circe_test_device *d) {
    of(d)->begun++;
    return CIRCE_OK;
}

static void plain_end(circe_test_device *d) {
    assert_int_equal(of(d)->live, 0); /* a test frees what it allocates */
    of(d)->begun--;
}

static void plain_destroy(circe_test_device *d) { (void)d; }

static circe_status plain_alloc(circe_test_device *d, int64_t doubles, double **data) {
    plain_device *p = of(d);
    int k = 0;
    *data = NULL;
    if (++p->calls == p->fails_at) return circe_fail(CIRCE_ERR_MEMORY, "the device is full");
    while (k < BLOCKS && p->block[k] != NULL) k++;
    assert_true(k < BLOCKS && doubles > 0);
    p->bytes[k] = (size_t)doubles * sizeof(double);
    p->block[k] = mmap(NULL, p->bytes[k], PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p->block[k] != MAP_FAILED);
    p->live++;
    if (p->live > p->most) p->most = p->live;
    *data = p->block[k];
    return CIRCE_OK;
}

static void plain_free(circe_test_device *d, double *data) {
    plain_device *p = of(d);
    int k = 0;
    if (data == NULL) return;
    while (k < BLOCKS && p->block[k] != data) k++;
    assert_true(k < BLOCKS);
    assert_int_equal(munmap(p->block[k], p->bytes[k]), 0);
    p->block[k] = NULL;
    p->live--;
}

static circe_status plain_copy(circe_test_device *d, double *to, const double *from, int64_t doubles) {
    open_memory(d);
    memcpy(to, from, (size_t)doubles * sizeof *to);
    return close_memory(d);
}

/* ---- operations ---------------------------------------------------------------------------------------------------
 */

static circe_status plain_features(circe_test_device *d, const circe__basis *basis, const double *points, int64_t n,
                                   double *features, double *trace, double *left) {
    double *residual = test_memory((size_t)(2 * n) * sizeof *residual),
           *own = test_memory((size_t)(n * basis->rank + 1) * sizeof *own);
    circe__basis_features(basis, basis->rank, points, n, own, basis->rank, residual + n, residual,
                          test_memory(circe__basis_bytes(basis)));
    for (int64_t i = 0; i < n; i++) {
        *left += residual[i];
        *trace += residual[n + i];
    }
    return plain_copy(d, features, own, n * basis->rank);
}

static circe_status plain_cosines(circe_test_device *d, const double *points, int64_t n, int64_t dim,
                                  const double *frequency, const double *offset, int64_t k, const double *root,
                                  double *out, int64_t ld) {
    open_memory(d);
    for (int64_t i = 0; i < n; i++)
        for (int64_t f = 0; f < k; f++) {
            double phase = offset[f];
            for (int64_t c = 0; c < dim; c++) phase += points[i * dim + c] * frequency[c * k + f];
            out[i * ld + f] = M_SQRT2 * root[i] * cos(phase);
        }
    return close_memory(d);
}

static circe_status plain_times(circe_test_device *d, int64_t n, int64_t k, int64_t m, double alpha, const double *a,
                                int64_t lda, int trans, const double *b, double beta, double *c, int64_t ldc) {
    open_memory(d);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < m; j++) c[i * ldc + j] = beta == 0.0 ? 0.0 : beta * c[i * ldc + j];
        for (int64_t e = 0; e < k; e++)
            for (int64_t j = 0; j < m; j++)
                c[i * ldc + j] += alpha * a[i * lda + e] * (trans ? b[j * k + e] : b[e * m + j]);
    }
    return close_memory(d);
}

static double to_power(double v, int power) { return power == 1 ? v : power == 2 ? v * v : v * v * v * v; }

static circe_status plain_cross(circe_test_device *d, int64_t n, const double *a, int64_t p, int64_t lda,
                                const double *b, int64_t q, int64_t ldb, int power, double *out) {
    open_memory(d);
    memset(out, 0, (size_t)(p * q) * sizeof *out);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < p; j++) {
            double left = to_power(a[i * lda + j], power);
            for (int64_t k = 0; k < q; k++) out[j * q + k] += left * to_power(b[i * ldb + k], power);
        }
    return close_memory(d);
}

static circe_status plain_columns(circe_test_device *d, int64_t n, const double *from, int64_t ld, const int64_t *index,
                                  int64_t cols, double *to) {
    open_memory(d);
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < cols; c++) to[i * cols + c] = from[i * ld + index[c]];
    return close_memory(d);
}

static circe_status plain_rows(circe_test_device *d, const double *from, int64_t cols, const int64_t *index, int64_t m,
                               double *to) {
    open_memory(d);
    for (int64_t i = 0; i < m; i++) memcpy(to + i * cols, from + index[i] * cols, (size_t)cols * sizeof *to);
    return close_memory(d);
}

static circe_status plain_squares(circe_test_device *d, int64_t n, const double *a, int64_t cols, int64_t ld,
                                  const double *leverage, double *out) {
    open_memory(d);
    memset(out, 0, (size_t)cols * sizeof *out);
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < cols; c++) {
            double v = a[i * ld + c] * (leverage == NULL ? 1.0 : circe__rest_of(leverage[i]));
            out[c] += v * v;
        }
    return close_memory(d);
}

static circe_status plain_scale(circe_test_device *d, int64_t n, int64_t cols, double *table, const double *by,
                                bool over_rest) {
    open_memory(d);
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < cols; c++) table[i * cols + c] *= over_rest ? 1.0 / circe__rest_of(by[i]) : by[i];
    return close_memory(d);
}

static circe_status plain_leverage(circe_test_device *d, int64_t n, const double *Q, int64_t rank, const double *unit,
                                   const double *inverse, double *out, double *sum) {
    open_memory(d);
    *sum = 0.0;
    for (int64_t i = 0; i < n; i++) {
        out[i] = unit[i] * unit[i];
        for (int64_t k = 0; k < rank; k++) out[i] += Q[i * rank + k] * Q[i * rank + k] * inverse[k];
        *sum += out[i];
    }
    return close_memory(d);
}

static circe_status plain_loo(circe_test_device *d, const circe__rows_loo *j, double *errors) {
    open_memory(d);
    memset(errors, 0, (size_t)(j->ridges + 1) * sizeof *errors);
    for (int64_t i = 0; i < j->n; i++)
        for (int64_t l = 0; l <= j->ridges; l++) {
            double h = j->unit[i] * j->unit[i], square = 0.0;
            for (int64_t k = 0; l < j->ridges && k < j->rank; k++)
                h += j->Q[i * j->rank + k] * j->Q[i * j->rank + k] * j->inverse[l * j->rank + k];
            for (int64_t c = 0; c < j->columns; c++) {
                double left = j->target[i * j->ld + c];
                for (int64_t k = 0; l < j->ridges && k < j->rank; k++)
                    left -= j->Q[i * j->rank + k] * j->scaled[(k * j->ridges + l) * j->columns + c];
                square += left * left;
            }
            double rest = fmax(1.0 - h, 1e-9);
            errors[l] += square / (rest * rest);
        }
    return close_memory(d);
}

static circe_status plain_fitted(circe_test_device *d, int64_t n, int64_t cols, const double *target, int64_t ldt,
                                 const double *noise, int64_t ldn, const double *leverage, double *out) {
    open_memory(d);
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < cols; c++)
            out[i * cols + c] = target[i * ldt + c] - circe__rest_of(leverage[i]) * noise[i * ldn + c];
    return close_memory(d);
}

static circe_status plain_carried(circe_test_device *d, const circe__rows_pair *pair, double sums[2]) {
    open_memory(d);
    sums[0] = sums[1] = 0.0;
    for (int64_t i = 0; i < pair->n; i++) {
        double left = 0.0, noise = 0.0;
        for (int64_t a = 0; a < pair->p; a++) left += pair->left[i * pair->p + a] * pair->left[i * pair->p + a];
        for (int64_t b = 0; b < pair->q; b++) noise += pair->noise[i * pair->q + b] * pair->noise[i * pair->q + b];
        sums[0] += left * noise;
        sums[1] += left * noise * left * noise;
    }
    return close_memory(d);
}

static circe_status plain_product_gram(circe_test_device *d, const circe__rows_pair *pair, double *gram) {
    int64_t p = pair->p, q = pair->q, size = p * q;
    double *product = test_memory((size_t)(size + 1) * sizeof *product);
    open_memory(d);
    memset(gram, 0, (size_t)(size * size) * sizeof *gram);
    for (int64_t i = 0; i < pair->n; i++) {
        for (int64_t e = 0; e < size; e++) product[e] = pair->left[i * p + e / q] * pair->noise[i * q + e % q];
        for (int64_t e = 0; e < size; e++)
            for (int64_t f = 0; f < size; f++) gram[e * size + f] += product[e] * product[f];
    }
    return close_memory(d);
}

static circe_status plain_wild(circe_test_device *d, const circe__rows_pair *pair, const uint32_t *words,
                               const double *inverse, int64_t draws, double *null) {
    int64_t p = pair->p, q = pair->q, size = p * q, each = (pair->n + 31) / 32;
    double *sums = test_memory((size_t)(size + 1) * sizeof *sums);
    open_memory(d);
    for (int64_t r = 0; r < draws; r++) {
        memset(sums, 0, (size_t)size * sizeof *sums);
        for (int64_t i = 0; i < pair->n; i++) {
            double sign = words[r * each + i / 32] >> (i % 32) & 1u ? 1.0 : -1.0;
            for (int64_t a = 0; a < p; a++)
                for (int64_t b = 0; b < q; b++)
                    sums[a * q + b] += sign * pair->left[i * p + a] * pair->noise[i * q + b];
        }
        null[r] = 0.0;
        for (int64_t e = 0; e < size; e++)
            null[r] = inverse == NULL ? null[r] + sums[e] * sums[e] : fmax(null[r], fabs(sums[e]) * inverse[e]);
    }
    return close_memory(d);
}

static const circe__rows_ops plain_ops = {.begin = plain_begin,
                                          .end = plain_end,
                                          .destroy = plain_destroy,
                                          .alloc = plain_alloc,
                                          .free = plain_free,
                                          .upload = plain_copy,
                                          .download = plain_copy,
                                          .copy = plain_copy,
                                          .features = plain_features,
                                          .cosines = plain_cosines,
                                          .times = plain_times,
                                          .cross = plain_cross,
                                          .columns = plain_columns,
                                          .rows = plain_rows,
                                          .squares = plain_squares,
                                          .scale = plain_scale,
                                          .leverage = plain_leverage,
                                          .loo = plain_loo,
                                          .fitted = plain_fitted,
                                          .carried = plain_carried,
                                          .product_gram = plain_product_gram,
                                          .wild = plain_wild};

/* ---- the same results -------------------------------------------------------------------------------------------- */

#include "tests/inference/device_cases.h"

static void same_results(void **state) {
    (void)state;
    plain_device plain = {.device = {&plain_ops, NULL}};
    for (int64_t k = 0; k < COUNT(device_cases); k++) {
        circe_context *context = test_context(2);
        int before = plain.calls;
        device_case_check(context, &device_cases[k], device_cases[k].rows, &plain.device, 1e-6);
        assert_true(plain.calls > before + 20);
    }
    assert_int_equal(plain.begun, 0);
}

/* Few rows stay on the host, and give the same bits. */
static void few_rows(void **state) {
    (void)state;
    plain_device plain = {.device = {&plain_ops, NULL}};
    circe_context *context = test_context(1);
    sample s = draw(4, 600, 0.05);
    circe_test_options options = options_of(CIRCE_TEST_KCI);
    circe_test_result host = run(context, &s.x, &s.y, &s.z, &options);
    options.device = &plain.device;
    circe_test_result device = run(context, &s.x, &s.y, &s.z, &options);
    assert_true(device.p_value == host.p_value && !device.on_device);
    assert_int_equal(plain.calls, 0);
}

static void refusals(void **state) {
    (void)state;
    plain_device plain = {.device = {&plain_ops, NULL}};
    circe_context *context = test_context(1);
    sample s = draw(4, 100, 0.05);
    circe_test_result result;
    double group[100];
    for (int i = 0; i < 100; i++) group[i] = i / 5;
    const circe_test_method not_there[] = {CIRCE_TEST_SPLITKCI, CIRCE_TEST_HSIC, CIRCE_TEST_WGCM, CIRCE_TEST_PCM};
    for (int64_t m = 0; m < COUNT(not_there); m++) {
        circe_test_options options = options_of(not_there[m]);
        options.device = &plain.device;
        assert_refused(circe_test(context, &s.x, &s.y, &s.z, &options, &result), CIRCE_ERR_UNSUPPORTED,
                       "kci, circe, gcm and rcot run on a GPU too");
    }
    circe_test_options options = options_of(CIRCE_TEST_KCI);
    options.device = &plain.device;
    options.groups = group;
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &options, &result), CIRCE_ERR_UNSUPPORTED,
                   "groups or time run on the CPU only");
    options = options_of(CIRCE_TEST_GCM);
    options.device = &plain.device;
    options.regressor = CIRCE_REGRESSOR_FOREST;
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &options, &result), CIRCE_ERR_UNSUPPORTED, "forests");
    options = options_of(CIRCE_TEST_CIRCE);
    options.device = &plain.device;
    options.mean = CIRCE_MEAN_SPLIT;
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &options, &result), CIRCE_ERR_UNSUPPORTED, "a split");
    options.mean = CIRCE_MEAN_AUTO;
    options.auxiliary_y = &s.y;
    options.auxiliary_z = &s.z;
    assert_refused(circe_test(context, &s.x, &s.y, &s.z, &options, &result), CIRCE_ERR_UNSUPPORTED, "auxiliary");
}

/* A failure of any call ends the test with its status; the host does not touch the device's memory then either, and
 * everything is freed (plain_end). */
static void failures(void **state) {
    (void)state;
    circe_context *context = test_context(2);
    sample s = draw(4, 8200, 0.02);
    const circe_test_method some[] = {CIRCE_TEST_CIRCE, CIRCE_TEST_GCM};
    for (int64_t m = 0; m < COUNT(some); m++)
        for (int at = 1;; at += at < 5 ? 1 : 7) {
            plain_device plain = {.device = {&plain_ops, NULL}, .fails_at = at};
            circe_test_options options = options_of(some[m]);
            circe_test_result result;
            options.draws = 20;
            options.device = &plain.device;

            circe_status status = circe_test(context, &s.x, &s.y, &s.z, &options, &result);
            assert_int_equal(plain.begun, 0);
            if (plain.calls < at) {
                assert_int_equal(status, CIRCE_OK);
                break;
            }
            assert_true(status == CIRCE_ERR_DEVICE || status == CIRCE_ERR_MEMORY);
        }
}

TEST_MAIN("device", TEST(same_results), TEST(few_rows), TEST(refusals), TEST(failures))
