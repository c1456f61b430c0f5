/* What must hold for any data: symmetries, permutations, scaling, translation, the constants that an estimator does not
 * see, positive semi-definiteness; and that precision, instruction set and thread count change rounding only. */
#include "tests/support.h"

#include "backend/cpu/loops.h"
#include "backend/cpu/processor.h"

enum { HOLDOUT = 60, BATCH = 75 };

typedef struct bench {
    circe_context *context;
    circe_workspace *workspace;
    circe_cme *cme;
    circe_mat x, y, z;
} bench;

static bench make_bench(int threads, circe_method method, int64_t dim_x) {
    static const double ridge = 0.1;
    bench b = {.context = test_context(threads)};
    circe_mat y = test_normal(1, HOLDOUT, 1), z = test_normal(2, HOLDOUT, 1);
    for (int64_t i = 0; i < HOLDOUT; i++) test_set(&z, i, 0, sin(test_at(&y, i, 0)) + 0.5 * test_at(&z, i, 0));
    circe_cme_options options = test_options(method, &ridge);
    options.rff_pool = options.rff_batch = 32;
    b.workspace = test_workspace(b.context);
    b.cme = test_fit(b.context, &y, &z, "gaussian(0.5)", "gaussian(0.5)", &options);
    b.x = test_normal(3, BATCH, dim_x);
    b.y = test_normal(4, BATCH, 1);
    b.z = test_normal(5, BATCH, 1);
    return b;
}

static double measure(const bench *b, const char *kernel, const circe_mat *x, circe_estimator estimator,
                      circe_mat *grad) {
    double value = NAN;
    assert_ok(circe_measure_circe(b->workspace, b->cme, test_kernel(b->context, kernel), x, &b->y, &b->z, estimator,
                                  &value, grad));
    return value;
}

/* sum |G o K|, the scale of rounding in a value. */
static double size_of(const bench *b, const char *kernel, const circe_mat *x, circe_estimator estimator) {
    circe_mat witness = test_zeros(BATCH, BATCH, CIRCE_FLOAT64), x64 = test_copy(x, CIRCE_FLOAT64);
    circe_kernel *k = test_kernel(b->context, kernel);
    double sum = 0.0;
    assert_ok(circe_witness_circe(b->workspace, b->cme, &b->y, &b->z, estimator, &witness));
    for (int64_t i = 0; i < BATCH; i++)
        for (int64_t j = 0; j < BATCH; j++)
            sum +=
                fabs(test_lower(&witness, i, j) * test_kernel_value(k, (const double *)x64.data + i * x64.ld,
                                                                    (const double *)x64.data + j * x64.ld, x64.cols));
    return sum;
}

static const circe_method methods[] = {CIRCE_METHOD_DENSE, CIRCE_METHOD_LOWRANK, CIRCE_METHOD_RFF};

/* ---- invariances ------------------------------------------------------------------------------------------------- */

/* The order of the points does not matter. 1e-12: other roundings of the same sums; low rank 1e-9, since points outside
 * the holdout's range are factored in another order. */
static void permutation(void **state) {
    (void)state;
    int64_t order[BATCH];
    circe_random_permutation((circe_random){1, 2}, BATCH, order);
    for (int64_t m = 0; m < COUNT(methods); m++) {
        bench b = make_bench(2, methods[m], 3), p = b;
        p.x = test_rows(&b.x, order, BATCH);
        p.y = test_rows(&b.y, order, BATCH);
        p.z = test_rows(&b.z, order, BATCH);
        double tolerance = methods[m] == CIRCE_METHOD_LOWRANK ? 1e-9 : 1e-12;
        for (circe_estimator e = CIRCE_BIASED; e <= CIRCE_USTAT; e++) {
            circe_mat grad = test_zeros(BATCH, 3, CIRCE_FLOAT64), moved = test_zeros(BATCH, 3, CIRCE_FLOAT64);
            double value = measure(&b, "gaussian(2)", &b.x, e, &grad);
            assert_near(measure(&p, "gaussian(2)", &p.x, e, &moved), value, tolerance,
                        size_of(&b, "gaussian(2)", &b.x, e));
            circe_mat expected = test_rows(&grad, order, BATCH);
            assert_mat_near(&moved, &expected, 100.0 * tolerance);
        }
        if (methods[m] == CIRCE_METHOD_RFF) continue;
        circe_kernel *kernel = test_kernel(b.context, "gaussian(2)");
        double one = NAN, other = NAN;
        assert_ok(circe_measure_circe_spectral(b.workspace, b.cme, kernel, &b.x, &b.y, &b.z, &one, NULL));
        assert_ok(circe_measure_circe_spectral(b.workspace, b.cme, kernel, &p.x, &p.y, &p.z, &other, NULL));
        assert_near(one, other, tolerance, one);
    }
}

/* x and its width together: the value stays, the gradient is divided. A power of two changes no rounding at all. */
static void scaling(void **state) {
    (void)state;
    bench b = make_bench(2, CIRCE_METHOD_DENSE, 5);
    static const struct {
        const char *kernel, *scaled;
        double by;
    } cases[] = {{"gaussian(2)", "gaussian(128)", 8.0},
                 {"laplace(2)", "laplace(128)", 8.0},
                 {"gaussian(2)", "gaussian(18)", 3.0},
                 {"0:laplace(1)*1-:gaussian(2)", "0:laplace(0.0625)*1-:gaussian(0.125)", 0.25}};
    for (int64_t c = 0; c < COUNT(cases); c++)
        for (circe_estimator e = CIRCE_BIASED; e <= CIRCE_USTAT; e++) {
            circe_mat x = test_copy(&b.x, CIRCE_FLOAT64), grad = test_zeros(BATCH, 5, CIRCE_FLOAT64);
            circe_mat scaled_grad = test_zeros(BATCH, 5, CIRCE_FLOAT64);
            for (int64_t k = 0; k < BATCH * 5; k++) ((double *)x.data)[k] *= cases[c].by;
            double value = measure(&b, cases[c].kernel, &b.x, e, &grad);
            double scaled = measure(&b, cases[c].scaled, &x, e, &scaled_grad);
            assert_near(scaled, value, 1e-13, size_of(&b, cases[c].kernel, &b.x, e));
            for (int64_t k = 0; k < BATCH * 5; k++) ((double *)scaled_grad.data)[k] *= cases[c].by;
            assert_mat_near(&scaled_grad, &grad, 1e-11);
        }
}

/* Gaussian and laplace see differences only. The shift, 1024, costs 10 of 53 bits of x: 1e-12 in the value. In float32
 * the points are first rounded to what survives the shift exactly. */
static void translation(void **state) {
    (void)state;
    bench b = make_bench(2, CIRCE_METHOD_DENSE, 5);
    const char *const kernels[] = {"gaussian(2)", "laplace(2)", "0-2:gaussian(2)*3-:laplace(2)"};
    for (int64_t c = 0; c < COUNT(kernels); c++)
        for (circe_dtype dtype = CIRCE_FLOAT32; dtype <= CIRCE_FLOAT64; dtype++) {
            circe_mat x = test_zeros(BATCH, 5, dtype), moved = test_zeros(BATCH, 5, dtype);
            circe_mat grad = test_zeros(BATCH, 5, dtype), moved_grad = test_zeros(BATCH, 5, dtype);
            for (int64_t i = 0; i < BATCH; i++)
                for (int64_t j = 0; j < 5; j++) {
                    double v = nearbyint(1024.0 * test_at(&b.x, i, j)) / 1024.0;
                    test_set(&x, i, j, v);
                    test_set(&moved, i, j, v + 1024.0);
                }
            double value = measure(&b, kernels[c], &x, CIRCE_DEBIASED, &grad);
            double shifted = measure(&b, kernels[c], &moved, CIRCE_DEBIASED, &moved_grad);
            double size = size_of(&b, kernels[c], &x, CIRCE_DEBIASED);
            assert_near(shifted, value, dtype == CIRCE_FLOAT64 ? 1e-12 : 1e-6, size);
            assert_mat_near(&moved_grad, &grad, dtype == CIRCE_FLOAT64 ? 1e-10 : 1e-4);
        }
}

/* Translation again: a value that does not change when all points move has a gradient that sums to nothing. */
static void gradient_sums_to_zero(void **state) {
    (void)state;
    bench b = make_bench(2, CIRCE_METHOD_DENSE, 17);
    for (circe_estimator e = CIRCE_BIASED; e <= CIRCE_USTAT; e++) {
        circe_mat grad = test_zeros(BATCH, 17, CIRCE_FLOAT64);
        measure(&b, "gaussian(10)", &b.x, e, &grad);
        for (int64_t c = 0; c < 17; c++) {
            double sum = 0.0, size = 0.0;
            for (int64_t i = 0; i < BATCH; i++) sum += test_at(&grad, i, c), size += fabs(test_at(&grad, i, c));
            assert_near(sum, 0.0, 1e-12, size);
        }
    }
}

/* Centered and ustat do not see what depends on one point only: the rows of G sum to zero, so a constant added to the
 * kernel of x changes nothing, nor, for the linear kernel, does moving x. */
static void constants_do_not_count(void **state) {
    (void)state;
    bench b = make_bench(2, CIRCE_METHOD_DENSE, 3);
    const circe_estimator blind[] = {CIRCE_CENTERED, CIRCE_USTAT};
    for (int64_t k = 0; k < COUNT(blind); k++) {
        circe_mat witness = test_zeros(BATCH, BATCH, CIRCE_FLOAT64), moved = test_copy(&b.x, CIRCE_FLOAT64);
        assert_ok(circe_witness_circe(b.workspace, b.cme, &b.y, &b.z, blind[k], &witness));
        double size = 0.0;
        for (int64_t i = 0; i < BATCH; i++)
            for (int64_t j = 0; j < BATCH; j++) size += fabs(test_lower(&witness, i, j));
        for (int64_t i = 0; i < BATCH; i++) {
            double sum = 0.0;
            for (int64_t j = 0; j < BATCH; j++) sum += test_lower(&witness, i, j);
            assert_near(sum, 0.0, 1e-13, size);
            if (blind[k] == CIRCE_USTAT) assert_true(test_at(&witness, i, i) == 0.0);
        }
        for (int64_t i = 0; i < BATCH; i++)
            for (int64_t j = 0; j < 3; j++) test_set(&moved, i, j, test_at(&b.x, i, j) + 10.0 * (double)(j + 1));
        double value = measure(&b, "linear", &b.x, blind[k], NULL),
               shifted = measure(&b, "linear", &moved, blind[k], NULL);
        assert_near(shifted, value, 1e-12, size_of(&b, "linear", &moved, blind[k]));
        assert_true(fabs(measure(&b, "linear", &moved, CIRCE_BIASED, NULL) -
                         measure(&b, "linear", &b.x, CIRCE_BIASED, NULL)) > 1e-6);
    }
    circe_mat witness = test_zeros(BATCH, BATCH, CIRCE_FLOAT64);
    assert_ok(circe_witness_circe(b.workspace, b.cme, &b.y, &b.z, CIRCE_DEBIASED, &witness));
    for (int64_t i = 0; i < BATCH; i++) assert_true(test_at(&witness, i, i) == 0.0);
}

/* A constant x carries nothing: ustat and centered are zero, and so is every gradient. */
static void constant_x(void **state) {
    (void)state;
    bench b = make_bench(2, CIRCE_METHOD_DENSE, 3);
    circe_mat x = test_zeros(BATCH, 3, CIRCE_FLOAT64), grad = test_normal(9, BATCH, 3);
    for (circe_estimator e = CIRCE_BIASED; e <= CIRCE_USTAT; e++) {
        double value = measure(&b, "gaussian(1)", &x, e, &grad);
        assert_true(test_max(&grad) == 0.0);
        if (e >= CIRCE_CENTERED) assert_near(value, 0.0, 1e-13, size_of(&b, "gaussian(1)", &x, e));
    }
}

/* K^c is a Gram matrix: symmetric, no eigenvalue below rounding. The biased and centered values, inner products of
 * such matrices, are then not negative. */
static void residual_gram_is_psd(void **state) {
    (void)state;
    for (int64_t m = 0; m < 2; m++) {
        bench b = make_bench(2, methods[m], 3);
        circe_mat gram = test_zeros(BATCH, BATCH, CIRCE_FLOAT64);
        assert_ok(circe_residual_gram(b.workspace, b.cme, &b.y, &b.z, &gram));
        for (int64_t i = 0; i < BATCH; i++)
            for (int64_t j = 0; j < i; j++)
                assert_near(test_at(&gram, i, j), test_at(&gram, j, i), 1e-14, test_max(&gram));
        assert_true(test_is_psd(&gram, 1e-12 * BATCH));
        assert_true(measure(&b, "gaussian(1)", &b.x, CIRCE_BIASED, NULL) > 0.0);
        assert_true(measure(&b, "gaussian(1)", &b.x, CIRCE_CENTERED, NULL) > 0.0);
    }
}

/* The spectral norm is at most the Hilbert-Schmidt norm, whose square is <Q, K_xx> / B^2. */
static void spectral_below_frobenius(void **state) {
    (void)state;
    bench b = make_bench(2, CIRCE_METHOD_DENSE, 2);
    double spectral = NAN, square = measure(&b, "gaussian(1)", &b.x, CIRCE_BIASED, NULL) * (BATCH - 1.0) / BATCH;
    assert_ok(circe_measure_circe_spectral(b.workspace, b.cme, test_kernel(b.context, "gaussian(1)"), &b.x, &b.y, &b.z,
                                           &spectral, NULL));
    assert_true(spectral > 0.0 && spectral <= sqrt(square) * (1.0 + 1e-12));
    assert_true(spectral >= sqrt(square / BATCH));
}

/* ---- precision, instruction set, threads ------------------------------------------------------------------------- */

/* float32 agrees with float64 to 1e-5 of sum |G o K|. */
static void float32_agrees(void **state) {
    (void)state;
    const char *const kernels[] = {"gaussian(3)", "laplace(3)", "linear", "0:gaussian(1)*1:laplace(1)*2-:linear"};
    for (int64_t m = 0; m < 2; m++) {
        bench b = make_bench(2, methods[m], 5);
        for (int64_t c = 0; c < COUNT(kernels); c++)
            for (circe_estimator e = CIRCE_BIASED; e <= CIRCE_USTAT; e++) {
                circe_mat x32 = test_copy(&b.x, CIRCE_FLOAT32), x = test_copy(&x32, CIRCE_FLOAT64);
                circe_mat grad32 = test_zeros(BATCH, 5, CIRCE_FLOAT32), grad = test_zeros(BATCH, 5, CIRCE_FLOAT64);
                double value = measure(&b, kernels[c], &x, e, &grad);
                double value32 = measure(&b, kernels[c], &x32, e, &grad32);
                assert_near(value32, value, 1e-5, size_of(&b, kernels[c], &x, e));
                assert_mat_near(&grad32, &grad, 1e-4);
            }
    }
}

typedef struct loops_case {
    const char *name;
    const circe__loops *f32, *f64;
} loops_case;

/* The tables this machine can run, the baseline first. */
static int64_t runnable(loops_case *cases) {
    int64_t n = 0;
    cases[n++] = (loops_case){"baseline", &circe__loops_baseline_f32, &circe__loops_baseline_f64};
#ifdef __x86_64__
    if (circe__processor_level() >= CIRCE__AVX2)
        cases[n++] = (loops_case){"avx2", &circe__loops_avx2_f32, &circe__loops_avx2_f64};
    if (circe__processor_level() >= CIRCE__AVX512)
        cases[n++] = (loops_case){"avx512", &circe__loops_avx512_f32, &circe__loops_avx512_f64};
#endif
    return n;
}

typedef struct loop_results {
    circe_mat gram, product, grad;
    double *sums, value;
    double shifted, settled,
        terms; /* the product contracted with its shift on the way, and after it; how large its terms are */
} loop_results;

static void *aligned_scratch(size_t bytes) {
    uintptr_t raw = (uintptr_t)test_memory(bytes + 64);
    return (void *)((raw + 63) & ~(uintptr_t)63);
}

static loop_results run_loops(const circe__loops *loops, circe__factors kernel, const circe_mat *x,
                              const circe_mat *zeta, const circe_mat *witness, int threads) {
    int64_t n = x->rows;
    loop_results r = {.gram = test_zeros(n, n, x->dtype),
                      .product = test_zeros(n, n, x->dtype),
                      .grad = test_zeros(n, x->cols, x->dtype),
                      .sums = test_memory((size_t)n * sizeof(double))};
    loops->gram(kernel, x, x, &r.gram, threads, aligned_scratch(loops->gram_bytes(n, x->cols, threads)));
    loops->product(kernel, x, zeta, NULL, 0.5, &r.product, r.sums, threads,
                   aligned_scratch(loops->product_bytes(n, x->cols, zeta->cols, 0, threads)));
    circe__shift shift = {.rows = r.sums, .constant = 0.25, .scale = 2.0, .zero_diagonal = 1};
    loops->contract(kernel, x, &r.product, &shift, &r.shifted, NULL, threads,
                    aligned_scratch(loops->contract_bytes(kernel, n, x->cols, 0, threads)));
    loops->shift(&r.product, &shift, threads);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++)
            r.terms += 2.0 * fabs(test_at(&r.product, i, j) * test_at(&r.gram, i, j)) + 4.0 * fabs(r.sums[i]);
    loops->contract(kernel, x, &r.product, NULL, &r.settled, NULL, threads,
                    aligned_scratch(loops->contract_bytes(kernel, n, x->cols, 0, threads)));
    loops->contract(kernel, x, witness, NULL, &r.value, &r.grad, threads,
                    aligned_scratch(loops->contract_bytes(kernel, n, x->cols, 1, threads)));
    return r;
}

static void assert_same_results(const loop_results *a, const loop_results *b, circe_dtype dtype, double size) {
    double tolerance = dtype == CIRCE_FLOAT64 ? 1e-13 : 2e-6; /* a few hundred roundings, more in exp of float32 */
    assert_mat_near(&a->gram, &b->gram, tolerance);
    assert_mat_near(&a->product, &b->product, 10.0 * tolerance);
    assert_near(a->value, b->value, tolerance, size);
    assert_near(a->shifted, a->settled, 10.0 * tolerance, a->terms);
    assert_mat_near(&a->grad, &b->grad, 20.0 * tolerance);
    double largest = 0.0;
    for (int64_t i = 0; i < a->gram.rows; i++) largest = fmax(largest, fabs(b->sums[i]));
    for (int64_t i = 0; i < a->gram.rows; i++) assert_near(a->sums[i], b->sums[i], 20.0 * tolerance, largest);
}

static void instruction_sets_agree(void **state) {
    static const int64_t sizes[] = {1, 7, 64, 65, 150}, dims[] = {1, 4, 5, 23, 64};
    (void)state;
    loops_case cases[4];
    int64_t n_cases = runnable(cases);
    for (int64_t s = 0; s < COUNT(sizes); s++)
        for (int64_t d = 0; d < COUNT(dims); d++)
            for (circe_dtype dtype = CIRCE_FLOAT32; dtype <= CIRCE_FLOAT64; dtype++) {
                int64_t n = sizes[s], half = (dims[d] + 1) / 2;
                circe_kernel_factor factors[] = {
                    {CIRCE_KERNEL_GAUSSIAN, 2.0 * (double)dims[d], 0, dims[d]},
                    {CIRCE_KERNEL_LAPLACE, (double)dims[d], 0, half},
                    {CIRCE_KERNEL_LINEAR, 0.0, dims[d] - half, half},
                };
                circe_mat x64 = test_normal(1, n, dims[d]), zeta64 = test_normal(2, n, 9), g64 = test_normal(3, n, n);
                circe_mat x = test_copy(&x64, dtype), zeta = test_copy(&zeta64, dtype), g = test_copy(&g64, dtype);
                for (int64_t f = 0; f < 4; f++) { /* each factor alone, then all */
                    circe__factors kernel = {f < 3 ? &factors[f] : factors, f < 3 ? 1 : 3};
                    loop_results baseline = {0};
                    double size = 0.0;
                    for (int64_t c = 0; c < n_cases; c++) {
                        const circe__loops *loops = dtype == CIRCE_FLOAT32 ? cases[c].f32 : cases[c].f64;
                        loop_results r = run_loops(loops, kernel, &x, &zeta, &g, 2);
                        if (c == 0) {
                            baseline = r;
                            for (int64_t i = 0; i < n; i++)
                                for (int64_t j = 0; j < n; j++)
                                    size += fabs(test_lower(&g, i, j) * test_at(&r.gram, i, j));
                        }
                        assert_same_results(&r, &baseline, dtype, size);
                    }
                }
            }
}

/* Thread counts agree to rounding; the same count gives the same bits. */
static void thread_counts_agree(void **state) {
    (void)state;
    for (circe_dtype dtype = CIRCE_FLOAT32; dtype <= CIRCE_FLOAT64; dtype++)
        for (int64_t m = 0; m < COUNT(methods); m++)
            for (circe_estimator e = CIRCE_BIASED; e <= CIRCE_USTAT; e++) {
                circe_mat first_grad = {0};
                double first = NAN, size = NAN;
                for (int threads = 1; threads <= 3; threads++) {
                    circe_mat grads[2];
                    double values[2];
                    for (int repeat = 0; repeat < 2; repeat++) { /* from the fit on, each time */
                        bench b = make_bench(threads, methods[m], 6);
                        circe_mat x = test_copy(&b.x, dtype);
                        grads[repeat] = test_zeros(BATCH, 6, dtype);
                        values[repeat] = measure(&b, "gaussian(4)*0:laplace(2)", &x, e, &grads[repeat]);
                        if (threads == 1) size = size_of(&b, "gaussian(4)*0:laplace(2)", &x, e);
                    }
                    assert_true(values[0] == values[1]);
                    assert_mat_equal(&grads[0], &grads[1]);
                    if (threads == 1) first = values[0], first_grad = grads[0];
                    assert_near(values[0], first, dtype == CIRCE_FLOAT64 ? 1e-11 : 1e-5, size);
                    assert_mat_near(&grads[0], &first_grad, dtype == CIRCE_FLOAT64 ? 1e-9 : 1e-4);
                }
            }
}

/* ---- a mean that does not count ---------------------------------------------------------------------------------- */

/* Multiples of 2^-10 below 2^13 in all: float32 holds them with and without the shift. */
static circe_mat on_a_grid(uint64_t stream, int64_t cols, double shift, circe_dtype dtype) {
    circe_mat m = test_normal(stream, 40, cols);
    for (int64_t i = 0; i < m.rows; i++)
        for (int64_t c = 0; c < cols; c++) test_set(&m, i, c, shift + rint(1024.0 * test_at(&m, i, c)) / 1024.0);
    return test_copy(&m, dtype);
}

/* Measures that centre a linear kernel do not see where its columns lie, to the last digits: the squares of the mean
 * are not in the sums that are subtracted from each other. */
static void centred_linear_kernels_ignore_the_mean(void **state) {
    static const circe_dtype dtypes[] = {CIRCE_FLOAT32, CIRCE_FLOAT64};
    static const double shifts[] = {0.0, 6000.0}, tolerance[] = {1e-5, 1e-13}, ridge = 0.1;
    (void)state;
    circe_context *context = test_context(0);
    circe_workspace *workspace = test_workspace(context);
    circe_kernels kernels = {.x = test_kernel(context, "linear"),
                             .y = test_kernel(context, "gaussian(1)"),
                             .z = test_kernel(context, "linear")};
    circe_mat y = test_normal(71, 40, 1), z = test_normal(72, 40, 1);
    circe_cme_options options = test_options(CIRCE_METHOD_AUTO, &ridge);
    circe_cme *cme = test_fit(context, &y, &z, "gaussian(1)", "gaussian(1)", &options);
    for (int64_t t = 0; t < COUNT(dtypes); t++) {
        double value[2][6];
        circe_mat grad[2][6];
        for (int64_t s = 0; s < 2; s++) {
            circe_mat x = on_a_grid(73, 3, shifts[s], dtypes[t]), other = on_a_grid(74, 2, shifts[s], dtypes[t]);
            for (int64_t k = 0; k < 6; k++) grad[s][k] = test_zeros(40, 3, dtypes[t]);
            assert_ok(
                circe_measure_hsic(workspace, &kernels, &x, &other, CIRCE_HSIC_BIASED, &value[s][0], &grad[s][0]));
            assert_ok(
                circe_measure_hsic(workspace, &kernels, &x, &other, CIRCE_HSIC_UNBIASED, &value[s][1], &grad[s][1]));
            assert_ok(
                circe_measure_circe(workspace, cme, kernels.x, &x, &y, &z, CIRCE_CENTERED, &value[s][2], &grad[s][2]));
            assert_ok(
                circe_measure_circe(workspace, cme, kernels.x, &x, &y, &z, CIRCE_USTAT, &value[s][3], &grad[s][3]));
            circe_mat plain = on_a_grid(73, 3, 0.0, dtypes[t]); /* K_xx o K_yy is centred, not K_xx */
            assert_ok(circe_measure_kci(workspace, &kernels, &plain, &y, &other, NULL, &value[s][4], &grad[s][4]));
            assert_ok(circe_measure_kpc(workspace, &kernels, &x, &y, &z, NULL, &value[s][5], &grad[s][5]));
        }
        for (int64_t k = 0; k < 6; k++) {
            assert_near(value[1][k], value[0][k], tolerance[t], 1.0);
            assert_mat_near(&grad[1][k], &grad[0][k], tolerance[t]);
        }
    }
}

/* ---- regressions on linear kernels ------------------------------------------------------------------------------ */

/* W = Y (Y'Y + ridge I)^-1 Y' of two columns. */
static void exact_smoother(const circe_mat *y, long double ridge, long double *W) {
    long double S[2][2] = {{ridge, 0.0L}, {0.0L, ridge}};
    int64_t n = y->rows;
    for (int64_t i = 0; i < n; i++)
        for (int64_t a = 0; a < 2; a++)
            for (int64_t b = 0; b < 2; b++) S[a][b] += (long double)test_at(y, i, a) * (long double)test_at(y, i, b);
    long double determinant = S[0][0] * S[1][1] - S[0][1] * S[1][0];
    for (int64_t i = 0; i < n; i++) {
        long double u = (long double)test_at(y, i, 0), v = (long double)test_at(y, i, 1);
        long double p = (S[1][1] * u - S[0][1] * v) / determinant, q = (S[0][0] * v - S[1][0] * u) / determinant;
        for (int64_t j = 0; j < n; j++)
            W[i * n + j] = p * (long double)test_at(y, j, 0) + q * (long double)test_at(y, j, 1);
    }
}

/* (1/n) sum_k sum_ij W_ik W_jk (z_i - m_k)(z_j - m_k) k(x_i, x_j), m_k = sum_l W_lk z_l, with a gaussian kernel of one
 * column of x, of width 1. */
static double exact_hscic(const circe_mat *x, const circe_mat *z, const long double *W) {
    long double sum = 0.0L;
    int64_t n = x->rows;
    for (int64_t k = 0; k < n; k++) {
        long double mean = 0.0L;
        for (int64_t l = 0; l < n; l++) mean += W[l * n + k] * (long double)test_at(z, l, 0);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) {
                long double apart = (long double)test_at(x, i, 0) - (long double)test_at(x, j, 0);
                sum += W[i * n + k] * W[j * n + k] * ((long double)test_at(z, i, 0) - mean) *
                       ((long double)test_at(z, j, 0) - mean) * expl(-0.5L * apart * apart);
            }
    }
    return (double)(sum / (long double)n);
}

/* gcm of one column of x and z: sqrt(n) mean R / sd R, R the product of the residuals. */
static double exact_gcm(const circe_mat *x, const circe_mat *z, const long double *W) {
    long double mean = 0.0L, square = 0.0L;
    int64_t n = x->rows;
    for (int64_t i = 0; i < n; i++) {
        long double r_x = (long double)test_at(x, i, 0), r_z = (long double)test_at(z, i, 0);
        for (int64_t j = 0; j < n; j++) {
            r_x -= W[i * n + j] * (long double)test_at(x, j, 0);
            r_z -= W[i * n + j] * (long double)test_at(z, j, 0);
        }
        mean += r_x * r_z / (long double)n;
        square += r_x * r_z * r_x * r_z / (long double)n;
    }
    return (double)fabsl(sqrtl((long double)n) * mean / sqrtl(square - mean * mean));
}

/* The regression squares the ratio of mean and spread, eps * 1e8. Kernel matrices lose it once more. */
static void regressions_far_from_zero(void **state) {
    static const int64_t rows[] = {90, 150};
    static const double shifts[] = {0.0, 1e4}, tolerance[] = {1e-13, 2e-7}, ridge = 0.1;
    (void)state;
    circe_context *context = test_context(0);
    circe_workspace *workspace = test_workspace(context);
    circe_kernels kernels = {.x = test_kernel(context, "gaussian(1)"),
                             .y = test_kernel(context, "linear"),
                             .z = test_kernel(context, "linear")};
    circe_gcm_options gcm;
    circe_gcm_options_init(&gcm);
    gcm.batch.ridge = ridge;
    for (int64_t r = 0; r < COUNT(rows); r++)
        for (int64_t s = 0; s < COUNT(shifts); s++) {
            circe_mat x = test_normal(81, rows[r], 1), y = test_normal(82, rows[r], 2), z = test_normal(83, rows[r], 1);
            long double *W = calloc((size_t)(rows[r] * rows[r]), sizeof *W);
            double value, wanted;
            assert_non_null(W);
            for (int64_t i = 0; i < rows[r]; i++) {
                for (int64_t c = 0; c < 2; c++) test_set(&y, i, c, shifts[s] + test_at(&y, i, c));
                test_set(&z, i, 0, test_at(&y, i, 0) + test_at(&z, i, 0));
            }
            exact_smoother(&y, (long double)ridge, W);
            wanted = exact_hscic(&x, &z, W);
            assert_ok(circe_measure_hscic(workspace, &kernels, &x, &y, &z, &gcm.batch, &value, NULL));
            assert_near(value, wanted, tolerance[s], wanted);
            wanted = exact_gcm(&x, &z, W);
            assert_ok(circe_measure_gcm(workspace, kernels.y, &x, &y, &z, &gcm, &value, NULL));
            assert_near(value, wanted, tolerance[s], wanted);
            free(W);
        }
}

/* Least squares has a constant in its span: T is the same wherever the columns lie, on the batch and on the one before,
 * to the last digits. */
static void least_squares_ignore_the_mean(void **state) {
    static const double shifts[] = {0.0, 1073741824.0};
    (void)state;
    circe_context *context = test_context(0);
    circe_workspace *workspace = test_workspace(context);
    circe_gcm_options options;
    circe_gcm_options_init(&options);
    options.regression = CIRCE_GCM_LINEAR;
    for (int before = 0; before < 2; before++) {
        double value[2];
        circe_mat grad[2];
        for (int64_t s = 0; s < 2; s++) {
            circe_mat x = on_a_grid(91, 2, shifts[s], CIRCE_FLOAT64), y = on_a_grid(92, 2, shifts[s], CIRCE_FLOAT64),
                      z = on_a_grid(93, 2, shifts[s], CIRCE_FLOAT64);
            circe_mat x_before = on_a_grid(94, 2, shifts[s], CIRCE_FLOAT64),
                      y_before = on_a_grid(95, 2, shifts[s], CIRCE_FLOAT64);
            options.previous_x = before ? &x_before : NULL;
            options.previous_y = before ? &y_before : NULL;
            grad[s] = test_zeros(40, 2, CIRCE_FLOAT64);
            assert_ok(circe_measure_gcm(workspace, NULL, &x, &y, &z, &options, &value[s], &grad[s]));
        }
        assert_near(value[1], value[0], 1e-12, value[0]);
        assert_mat_near(&grad[1], &grad[0], 1e-12);
    }
}

/* ---- kernels that see next to nothing ---------------------------------------------------------------------------- */

/* The U-statistic <G, K> by its definition, from Q off the diagonal. */
static double exact_ustat(const circe_mat *Q, const circe_mat *K, double *size) {
    int64_t n = Q->rows;
    long double pairs = 0.0L, sums = 0.0L, all_q = 0.0L, all_k = 0.0L, N = (long double)n;
    for (int64_t i = 0; i < n; i++) {
        long double q = 0.0L, k = 0.0L;
        for (int64_t j = 0; j < n; j++) {
            if (j == i) continue;
            long double here = (long double)test_lower(Q, i, j), other = (long double)test_at(K, i, j);
            pairs += here * other;
            q += here, k += other;
        }
        sums += q * k, all_q += q, all_k += k;
    }
    *size = (double)(pairs / (N * (N - 3.0L)));
    return (double)((pairs - 2.0L / (N - 2.0L) * sums + all_q * all_k / ((N - 1.0L) * (N - 2.0L))) / (N * (N - 3.0L)));
}

/* k(y_i, y_j) is 1e-11 at most, beside a diagonal of 1 that is no part of the U-statistic. float32 knows the exponent
 * of the kernel to 25 times its rounding. */
static void narrow_kernels_keep_their_digits(void **state) {
    static const circe_dtype dtypes[] = {CIRCE_FLOAT32, CIRCE_FLOAT64};
    static const double tolerance[] = {1e-5, 1e-12}, ridge = 0.1;
    (void)state;
    circe_context *context = test_context(0);
    circe_workspace *workspace = test_workspace(context);
    circe_mat y = test_zeros(90, 1, CIRCE_FLOAT64), z = test_normal(96, 90, 1), x = test_normal(97, 90, 1);
    for (int64_t i = 0; i < 90; i++) test_set(&y, i, 0, (double)i);
    circe_kernel *kernel_x = test_kernel(context, "gaussian(1)");
    circe_mat K = test_zeros(90, 90, CIRCE_FLOAT64), Q = test_zeros(90, 90, CIRCE_FLOAT64);
    assert_ok(circe_gram(context, kernel_x, &x, &x, &K));
    for (int64_t m = 0; m < COUNT(methods); m++) {
        circe_cme_options options = test_options(methods[m], &ridge);
        circe_cme *cme = test_fit(context, &y, &z, "gaussian(0.02)", "gaussian(1)", &options);
        double size, value, wanted;
        assert_ok(circe_witness_circe(workspace, cme, &y, &z, CIRCE_DEBIASED, &Q));
        wanted = exact_ustat(&Q, &K, &size) * 90.0 * 89.0;
        for (int64_t t = 0; t < COUNT(dtypes); t++) {
            circe_mat narrow = test_copy(&x, dtypes[t]);
            assert_ok(circe_measure_circe(workspace, cme, kernel_x, &narrow, &y, &z, CIRCE_USTAT, &value, NULL));
            assert_near(value, wanted, tolerance[t], size * 90.0 * 89.0);
        }
    }
}

/* ---- float64 beside float32 -------------------------------------------------------------------------------------- */

typedef struct narrowed {
    double value[5];
    circe_mat grad[5];
} narrowed;

/* x as float32 measured against y and z as float64, of which only differences count. */
static narrowed measure_narrowed(circe_context *context, const char *kernel, double shift) {
    const double ridge = 0.1;
    narrowed found;
    circe_workspace *workspace = test_workspace(context);
    circe_kernels kernels = {
        .x = test_kernel(context, "gaussian(1)"), .y = test_kernel(context, kernel), .z = test_kernel(context, kernel)};
    circe_mat x = on_a_grid(75, 3, 0.0, CIRCE_FLOAT32);
    circe_mat y = on_a_grid(76, 1, shift, CIRCE_FLOAT64), z = on_a_grid(77, 2, shift, CIRCE_FLOAT64);
    circe_cme_options options = test_options(CIRCE_METHOD_AUTO, &ridge);
    circe_batch_options batch;
    circe_batch_options_init(&batch);
    batch.ridge = ridge;
    circe_cme *cme = test_fit(context, &y, &z, kernel, kernel, &options);
    circe_features *features = NULL;
    int64_t rows[40];
    for (int64_t i = 0; i < 40; i++) rows[i] = i;
    for (int64_t k = 0; k < 5; k++) found.grad[k] = test_zeros(40, 3, CIRCE_FLOAT32);
    assert_ok(circe_measure_hsic(workspace, &kernels, &x, &z, CIRCE_HSIC_UNBIASED, &found.value[0], &found.grad[0]));
    assert_ok(circe_measure_kci(workspace, &kernels, &x, &y, &z, &batch, &found.value[1], &found.grad[1]));
    assert_ok(circe_measure_hscic(workspace, &kernels, &x, &y, &z, &batch, &found.value[2], &found.grad[2]));
    assert_ok(circe_measure_circe(workspace, cme, kernels.x, &x, &y, &z, CIRCE_USTAT, &found.value[3], &found.grad[3]));
    assert_ok(circe_features_create(context, cme, &y, &z, CIRCE_FLOAT32, &features));
    assert_ok(circe_measure_circe_cached(workspace, cme, features, rows, 40, kernels.x, &x, CIRCE_USTAT,
                                         &found.value[4], &found.grad[4]));
    circe_features_destroy(features);
    return found;
}

/* Seconds since 1970 are 128 apart in float32. */
static void float32_keeps_what_is_far_from_zero(void **state) {
    static const char *const kernels[] = {"gaussian(1)", "laplace(1)", "delta"};
    (void)state;
    circe_context *context = test_context(0);
    for (int64_t k = 0; k < COUNT(kernels); k++) {
        narrowed near = measure_narrowed(context, kernels[k], 0.0);
        narrowed far = measure_narrowed(context, kernels[k], 2147483648.0);
        for (int64_t m = 0; m < 5; m++) {
            assert_near(far.value[m], near.value[m], 1e-5, 1.0);
            assert_mat_near(&far.grad[m], &near.grad[m], 1e-5);
        }
    }
}

/* Units so small or large that float32 cannot square the distances: it may refuse, but not be wrong. 1e-5: rounding. */
static void float32_refuses_what_it_cannot_square(void **state) {
    static const char *const kinds[] = {"gaussian", "laplace"};
    (void)state;
    circe_context *context = test_context(1);
    circe_workspace *workspace = test_workspace(context);
    circe_mat z = test_normal(7, 40, 1), x = test_normal(8, 40, 2);
    double value = NAN, expected = NAN;
    for (int e = -30; e <= 30; e++)
        for (int k = 0; k < 2; k++) {
            double unit = pow(10.0, e);
            char text[64];
            circe_mat far = test_zeros(40, 2, CIRCE_FLOAT64);
            for (int64_t i = 0; i < 80; i++) test_set(&far, i / 2, i % 2, unit * test_at(&x, i / 2, i % 2));
            circe_mat far32 = test_copy(&far, CIRCE_FLOAT32), grad = test_zeros(40, 2, CIRCE_FLOAT32);
            snprintf(text, sizeof text, "%s(%.17g)", kinds[k], unit * unit);
            circe_kernels kernels = {.x = test_kernel(context, text), .z = test_kernel(context, "gaussian(1)")};
            assert_ok(circe_measure_hsic(workspace, &kernels, &far, &z, CIRCE_HSIC_BIASED, &expected, NULL));
            circe_status status = circe_measure_hsic(workspace, &kernels, &far32, &z, CIRCE_HSIC_BIASED, &value, &grad);
            if (e >= -15 && e <= 17) assert_ok(status);
            if (status == CIRCE_OK)
                assert_near(value, expected, 1e-5, expected);
            else
                assert_refused(status, CIRCE_ERR_VALUE, "float32");
            for (int64_t i = 0; status == CIRCE_OK && i < 80; i++) assert_true(isfinite(test_at(&grad, i / 2, i % 2)));
            circe_mat gram = test_zeros(40, 40, CIRCE_FLOAT32);
            assert_int_equal(circe_gram(context, kernels.x, &far32, &far32, &gram), status);
        }
}

TEST_MAIN("properties", TEST(regressions_far_from_zero), TEST(least_squares_ignore_the_mean),
          TEST(narrow_kernels_keep_their_digits), TEST(float32_keeps_what_is_far_from_zero),
          TEST(centred_linear_kernels_ignore_the_mean), TEST(permutation), TEST(scaling), TEST(translation),
          TEST(gradient_sums_to_zero), TEST(constants_do_not_count), TEST(constant_x), TEST(residual_gram_is_psd),
          TEST(spectral_below_frobenius), TEST(float32_agrees), TEST(float32_refuses_what_it_cannot_square),
          TEST(instruction_sets_agree), TEST(thread_counts_agree))
