/* The algebra table against plain loops and LAPACK on one thread, divided for 1, 2, 3, 5 and 16 threads, whatever the
 * machine has; and the same bits whether other threads come or not.
 *
 * Tolerances: a sum of k products of numbers about 1 has an error of at most k eps, and about sqrt(k) eps; tests allow
 * 64 (sqrt(k) + 1) eps. An inverse, 64 n eps times its condition. Eigenvalues, 64 n eps times the largest; residuals
 * and orthogonality likewise, which is the size of dsyevd's own. */
#include <float.h>
#include <omp.h>

#include "backend/backend.h"
#include "core/core.h"
#include "tests/support.h"

static const int team[] = {1, 2, 3, 5, 16};

static const circe__algebra *algebra(void) {
    const circe__backend *backend = NULL;
    assert_ok(circe__backend_cpu(&backend));
    return backend->algebra;
}

/* A number that is no multiple of anything, for what must not be read or written. */
static const double guard = 12345.678;

static double *numbers(uint64_t stream, int64_t n) {
    circe_mat m = test_normal(stream, n, 1);
    return m.data;
}

static double *copy_of(const double *from, int64_t n) {
    double *to = test_memory((size_t)n * sizeof *to);
    memcpy(to, from, (size_t)n * sizeof *to);
    return to;
}

/* ---- products -----------------------------------------------------------------------------------------------------
 */

typedef struct product_case {
    int trans_a, trans_b;
    int64_t m, n, k;
    double alpha, beta;
} product_case;

/* What goes in, with the leading dimensions, and every step-th element of what must come out. */
typedef struct product_data {
    int64_t rows_a, lda, rows_b, ldb, ldc, step;
    double *a, *b, *before, *expected;
} product_data;

static product_data product_of(const product_case *p) {
    product_data d = {.rows_a = p->trans_a ? p->k : p->m, .rows_b = p->trans_b ? p->n : p->k};
    d.lda = (p->trans_a ? p->m : p->k) + 3, d.ldb = (p->trans_b ? p->k : p->n) + 1, d.ldc = p->n + 5;
    d.step = p->m * p->n > 500000 ? 97 : p->m * p->n > 5000 ? 7 : 1;
    d.a = numbers(1, d.rows_a * d.lda + 1);
    d.b = numbers(2, d.rows_b * d.ldb + 1);
    d.before = numbers(3, p->m * d.ldc);
    d.expected = test_memory((size_t)(p->m * p->n + 1) * sizeof *d.expected);
    for (int64_t e = 0; e < p->m * p->n; e += d.step) {
        int64_t i = e / p->n, j = e % p->n;
        double sum = 0.0;
        for (int64_t l = 0; l < p->k; l++)
            sum += (p->trans_a ? d.a[l * d.lda + i] : d.a[i * d.lda + l]) *
                   (p->trans_b ? d.b[j * d.ldb + l] : d.b[l * d.ldb + j]);
        d.expected[e] = p->alpha * sum + (p->beta == 0.0 ? 0.0 : p->beta * d.before[i * d.ldc + j]);
    }
    return d;
}

static void check_product(const product_case *p, const product_data *d, int threads, bool single) {
    int64_t lda = d->lda, ldb = d->ldb, ldc = d->ldc;
    double *c = copy_of(d->before, p->m * ldc), eps = single ? (double)FLT_EPSILON : DBL_EPSILON;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < ldc; j++) {
            if (j >= p->n) c[i * ldc + j] = guard;
            if (j < p->n && p->beta == 0.0) c[i * ldc + j] = NAN;
        }
    int previous = circe__threads_begin(test_context(threads));
    if (single) {
        circe_mat A = circe_mat_f64(d->a, d->rows_a, lda), B = circe_mat_f64(d->b, d->rows_b, ldb);
        circe_mat C = circe_mat_f64(c, p->m, ldc);
        circe_mat a32 = test_copy(&A, CIRCE_FLOAT32), b32 = test_copy(&B, CIRCE_FLOAT32),
                  c32 = test_copy(&C, CIRCE_FLOAT32);
        algebra()->gemm_f32(p->trans_a, p->trans_b, p->m, p->n, p->k, (float)p->alpha, a32.data, lda, b32.data, ldb,
                            (float)p->beta, c32.data, ldc);
        for (int64_t e = 0; e < p->m * ldc; e++) c[e] = (double)((float *)c32.data)[e];
    } else {
        algebra()->gemm(p->trans_a, p->trans_b, p->m, p->n, p->k, p->alpha, d->a, lda, d->b, ldb, p->beta, c, ldc);
    }
    circe__threads_finish(previous, CIRCE_OK);
    double allowed = 64.0 * eps * (sqrt((double)p->k) + 2.0) * (fabs(p->alpha) + fabs(p->beta));
    for (int64_t e = 0; e < p->m * p->n; e += d->step)
        assert_true(fabs(c[e / p->n * ldc + e % p->n] - d->expected[e]) <= allowed);
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = p->n; j < ldc; j++) assert_true(fabs(c[i * ldc + j] - guard) <= 1e-3 * single);
}

static const product_case products[] = {
    {0, 0, 1, 1, 1, 1.0, 0.0},        {0, 1, 130, 259, 77, -2.0, 0.0},  {1, 0, 259, 130, 65, 1.0, 1.0},
    {1, 1, 200, 201, 130, 0.5, -0.5}, {0, 0, 3, 1000, 500, 1.0, 0.0},   {1, 0, 20, 20, 5001, 1.0, 0.0},
    {0, 1, 5, 7, 20000, 2.0, 1.5},    {1, 1, 12, 30, 3000, 1.0, 0.0},   {0, 0, 2001, 9, 300, 1.0, 1.0},
    {1, 0, 400, 21, 1024, 1.0, 0.0},  {0, 0, 300, 300, 0, 1.0, 0.0},    {0, 0, 64, 64, 64, 1.0, 0.0},
    {0, 0, 0, 64, 64, 1.0, 0.0},      {0, 0, 513, 511, 700, 1.0, 0.25}, {0, 0, 1, 4000, 300, 1.0, 0.0},
};

/* In several steps on few threads. */
static const product_case long_products[] = {{0, 1, 1100, 1300, 1200, 2.0, 0.5}, {1, 0, 1500, 1200, 900, 1.0, 0.0}};

static void products_are_right(void **state) {
    (void)state;
    for (int64_t i = 0; i < COUNT(products); i++) {
        product_data data = product_of(&products[i]);
        for (int64_t t = 0; t < COUNT(team); t++) {
            check_product(&products[i], &data, team[t], false);
            check_product(&products[i], &data, team[t], true);
        }
        test_clean(NULL);
    }
    for (int64_t i = 0; i < COUNT(long_products); i++) {
        product_data data = product_of(&long_products[i]);
        check_product(&long_products[i], &data, 1, false);
    }
}

static void grams_are_right(void **state) {
    (void)state;
    static const int64_t sizes[][2] = {{1, 1}, {3, 40000}, {31, 5000}, {100, 3000}, {65, 64}, {333, 200}, {257, 0}};
    for (int64_t s = 0; s < COUNT(sizes); s++)
        for (int64_t t = 0; t < COUNT(team); t++)
            for (double beta = 0.0; beta < 2.0; beta += 1.5) {
                int64_t n = sizes[s][0], k = sizes[s][1], lda = n + 2, ldc = n + 1;
                double *a = numbers(1, k * lda + 1), *c = numbers(2, n * ldc), *before = copy_of(c, n * ldc);
                for (int64_t e = 0; beta == 0.0 && e < n * ldc; e++)
                    if (e % ldc <= e / ldc) c[e] = NAN;
                int previous = circe__threads_begin(test_context(team[t]));
                algebra()->gram_update(n, k, a, lda, beta, c, ldc);
                circe__threads_finish(previous, CIRCE_OK);
                /* On the diagonal k squares add up: k roundings of sums as large as k, which add like random ones. */
                double allowed = 8.0 * DBL_EPSILON * ((double)k + 2.0) * sqrt((double)k + 1.0);
                for (int64_t i = 0; i < n; i++)
                    for (int64_t j = 0; j < ldc; j++) {
                        double sum = beta == 0.0 ? 0.0 : beta * before[i * ldc + j];
                        if (j > i) {
                            assert_true(c[i * ldc + j] == before[i * ldc + j]);
                            continue;
                        }
                        for (int64_t l = 0; l < k; l++) sum += a[l * lda + i] * a[l * lda + j];
                        assert_true(fabs(c[i * ldc + j] - sum) <= allowed);
                    }
            }
}

static void rows_times_a_triangle_are_right(void **state) {
    (void)state;
    static const int64_t sizes[][2] = {{1, 1}, {1000, 70}, {333, 129}, {5, 300}};
    for (int64_t s = 0; s < COUNT(sizes); s++)
        for (int64_t t = 0; t < COUNT(team); t++) {
            int64_t m = sizes[s][0], n = sizes[s][1], ldt = n + 1, ldb = n + 2;
            double *T = numbers(1, n * ldt), *b = numbers(2, m * ldb), *before = copy_of(b, m * ldb);
            int previous = circe__threads_begin(test_context(team[t]));
            algebra()->multiply_rows(m, n, T, ldt, b, ldb);
            circe__threads_finish(previous, CIRCE_OK);
            for (int64_t i = 0; i < m; i++)
                for (int64_t j = 0; j < ldb; j++) {
                    double sum = 0.0;
                    for (int64_t l = 0; l <= j && j < n; l++) sum += T[j * ldt + l] * before[i * ldb + l];
                    if (j >= n) sum = before[i * ldb + j];
                    assert_true(fabs(b[i * ldb + j] - sum) <= 64.0 * DBL_EPSILON * (sqrt((double)n) + 1.0));
                }
        }
}

/* ---- inverses -----------------------------------------------------------------------------------------------------
 */

/* I + F F' / k, of condition about 10. */
static double *positive(int64_t n) {
    int64_t k = n / 2 + 1;
    double *F = numbers(7, n * k), *a = test_memory((size_t)(n * n) * sizeof *a);
    algebra()->gemm(0, 1, n, n, k, 1.0 / (double)k, F, k, F, k, 0.0, a, n);
    for (int64_t i = 0; i < n; i++) a[i * n + i] += 1.0;
    return a;
}

/* |a b - 1|, largest element; b with distance ldb. */
static double distance_from_one(int64_t n, const double *a, const double *b, int64_t ldb) {
    double *one = test_memory((size_t)(n * n) * sizeof *one), largest = 0.0;
    algebra()->gemm(0, 0, n, n, n, 1.0, a, n, b, ldb, 0.0, one, n);
    for (int64_t e = 0; e < n * n; e++) largest = fmax(largest, fabs(one[e] - (e % n == e / n)));
    return largest;
}

static const int64_t orders[] = {1, 2, 63, 64, 65, 257, 320, 449, 700};

static void inverses_are_right(void **state) {
    (void)state;
    for (int64_t o = 0; o < COUNT(orders); o++)
        for (int64_t t = 0; t < COUNT(team); t++) {
            int64_t n = orders[o];
            double *a = positive(n), *inverse = copy_of(a, n * n);
            for (int64_t e = 0; e < n * n; e++)
                if (e % n > e / n) inverse[e] = NAN; /* the upper triangle is not read */
            int previous = circe__threads_begin(test_context(team[t]));
            assert_int_equal(algebra()->invert_spd(n, inverse), 0);
            circe__threads_finish(previous, CIRCE_OK);
            assert_true(distance_from_one(n, a, inverse, n) <= 640.0 * (double)n * DBL_EPSILON);
            for (int64_t e = 0; e < n * n; e++) assert_true(inverse[e] == inverse[e % n * n + e / n]);
        }
}

static void what_is_not_positive_is_refused(void **state) {
    (void)state;
    static const int64_t bad[] = {0, 10, 64, 255, 300, 511, 599};
    for (int64_t b = 0; b < COUNT(bad); b++)
        for (int64_t t = 0; t < COUNT(team); t++) {
            int64_t n = 600;
            double *a = positive(n);
            a[bad[b] * n + bad[b]] = -1.0;
            int previous = circe__threads_begin(test_context(team[t]));
            assert_int_equal(algebra()->invert_spd(n, a), bad[b] + 1);
            circe__threads_finish(previous, CIRCE_OK);
        }
}

static void triangular_inverses_are_right(void **state) {
    (void)state;
    for (int64_t o = 0; o < COUNT(orders); o++)
        for (int64_t t = 0; t < COUNT(team); t++) {
            int64_t n = orders[o], ld = n + 3;
            double *L = test_memory((size_t)(n * n) * sizeof *L), *inverse = numbers(8, n * ld);
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = 0; j < n; j++) {
                    if (j < i) inverse[i * ld + j] *= 1.0 / sqrt((double)n);
                    if (j == i) inverse[i * ld + j] = 1.0 + fabs(inverse[i * ld + j]);
                    if (j > i) inverse[i * ld + j] = 0.0;
                    L[i * n + j] = inverse[i * ld + j];
                }
            double after = inverse[n];
            int previous = circe__threads_begin(test_context(team[t]));
            assert_int_equal(algebra()->invert_lower(n, inverse, ld), 0);
            circe__threads_finish(previous, CIRCE_OK);
            assert_true(distance_from_one(n, L, inverse, ld) <= 640.0 * (double)n * DBL_EPSILON);
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = i + 1; j < n; j++) assert_true(inverse[i * ld + j] == 0.0);
            assert_true(inverse[n] == after);
        }
}

static void a_singular_triangle_is_refused(void **state) {
    (void)state;
    for (int64_t t = 0; t < COUNT(team); t++) {
        int64_t n = 400;
        double *L = test_memory((size_t)(n * n) * sizeof *L);
        for (int64_t i = 0; i < n; i++) L[i * n + i] = i == 333 ? 0.0 : 1.0;
        int previous = circe__threads_begin(test_context(team[t]));
        assert_int_equal(algebra()->invert_lower(n, L, n), 334);
        circe__threads_finish(previous, CIRCE_OK);
    }
}

/* ---- eigenvalues --------------------------------------------------------------------------------------------------
 */

static double *eigen_work(int64_t n) { return test_memory((size_t)(1 + 6 * n + 2 * n * n) * sizeof(double)); }

static int decompose(int threads, int64_t n, double *a, double *w, bool vectors) {
    int *iwork = test_memory((size_t)(3 + 5 * n) * sizeof *iwork);
    int previous = circe__threads_begin(test_context(threads));
    int info = (vectors ? algebra()->eigen : algebra()->eigenvalues)(n, a, w, eigen_work(n), iwork);
    circe__threads_finish(previous, CIRCE_OK);
    return info;
}

/* A = V' diag(w) V with rows of V orthonormal, and w the eigenvalues that one thread finds, or any without vectors. */
static void check_eigen(int64_t n, const double *A, int threads) {
    double *alone = copy_of(A, n * n), *V = copy_of(A, n * n), *w = test_memory((size_t)(3 * n) * sizeof *w);
    double *lost = copy_of(A, n * n);
    double *product = test_memory((size_t)(n * n) * sizeof *product), size = 0.0;
    for (int64_t e = 0; e < n * n; e++)
        if (e % n > e / n) V[e] = NAN; /* the upper triangle is not read */
    assert_int_equal(decompose(threads, n, V, w, true), 0);
    if (threads > 1)
        assert_int_equal(decompose(1, n, alone, w + n, true), 0);
    else
        memcpy(w + n, w, (size_t)n * sizeof *w);
    assert_int_equal(decompose(threads, n, lost, w + 2 * n, false), 0);
    for (int64_t k = 0; k < n; k++) size = fmax(size, fabs(w[n + k]));
    double allowed = 64.0 * (double)n * DBL_EPSILON * size;
    for (int64_t k = 0; k < n; k++) {
        assert_true(fabs(w[k] - w[n + k]) <= allowed && fabs(w[k] - w[2 * n + k]) <= allowed);
        assert_true(k == 0 || w[k] >= w[k - 1]);
    }
    algebra()->gemm(0, 0, n, n, n, 1.0, V, n, A, n, 0.0, product, n);
    for (int64_t e = 0; e < n * n; e++) assert_true(fabs(product[e] - w[e / n] * V[e]) <= allowed);
    algebra()->gemm(0, 1, n, n, n, 1.0, V, n, V, n, 0.0, product, n);
    for (int64_t e = 0; e < n * n; e++)
        assert_true(fabs(product[e] - (e % n == e / n)) <= 64.0 * (double)n * DBL_EPSILON);
}

static double *random_symmetric(int64_t n) {
    double *a = numbers(21, n * n);
    for (int64_t e = 0; e < n * n; e++)
        if (e % n > e / n) a[e] = a[e % n * n + e / n];
    return a;
}

/* Gaussian kernel of points on a line, eigenvalues from n down to rounding; of points in five dimensions. */
static double *kernel_matrix(int64_t n, int64_t d) {
    double *x = numbers(22, n * d), *a = test_memory((size_t)(n * n) * sizeof *a);
    for (int64_t e = 0; e < n * n; e++) {
        double square = 0.0;
        for (int64_t c = 0; c < d; c++)
            square += (x[e / n * d + c] - x[e % n * d + c]) * (x[e / n * d + c] - x[e % n * d + c]);
        a[e] = exp(-0.5 * square / (double)d);
    }
    return a;
}

/* Three eigenvalues: a reflection of diag(1, .., 1, 2, .., 2, 5, ..). */
static double *clustered(int64_t n) {
    double *v = numbers(23, n), *a = test_memory((size_t)(n * n) * sizeof *a), square = 0.0;
    for (int64_t i = 0; i < n; i++) square += v[i] * v[i];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            for (int64_t k = 0; k < n; k++) {
                double left = (i == k) - 2.0 * v[i] * v[k] / square, right = (j == k) - 2.0 * v[j] * v[k] / square;
                a[i * n + j] += left * right * (k % 3 == 0 ? 1.0 : k % 3 == 1 ? 2.0 : 5.0);
            }
    return a;
}

static void eigenvectors_are_right(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 63, 64, 65, 200, 321, 500};
    for (int64_t s = 0; s < COUNT(sizes); s++)
        for (int64_t t = 0; t < COUNT(team); t++) {
            check_eigen(sizes[s], random_symmetric(sizes[s]), team[t]);
            check_eigen(sizes[s], kernel_matrix(sizes[s], 1), team[t]);
            test_clean(NULL);
        }
    check_eigen(400, kernel_matrix(400, 5), 16);
    check_eigen(350, clustered(350), 16);
}

static void large_eigenvectors_are_right(void **state) {
    (void)state;
    check_eigen(1000, random_symmetric(1000), 16);
    check_eigen(1000, kernel_matrix(1000, 1), 3);
    check_eigen(1000, kernel_matrix(1000, 5), 16);
    check_eigen(1540, kernel_matrix(1540, 1), 1); /* on one thread, too, it is no longer LAPACK's */
}

/* Zero, one, huge and tiny elements. */
static void eigenvectors_of_odd_matrices_are_right(void **state) {
    (void)state;
    int64_t n = 400;
    double *a = random_symmetric(n), *diagonal = test_memory((size_t)(n * n) * sizeof *diagonal);
    check_eigen(n, diagonal, 16);
    for (int64_t i = 0; i < n; i++) diagonal[i * n + i] = (double)(i % 7);
    check_eigen(n, diagonal, 16);
    double *huge = copy_of(a, n * n), *tiny = copy_of(a, n * n);
    for (int64_t e = 0; e < n * n; e++) {
        huge[e] *= 1e200;
        tiny[e] *= 1e-200;
    }
    check_eigen(n, huge, 16);
    check_eigen(n, tiny, 16);
}

/* ---- the rest -----------------------------------------------------------------------------------------------------
 */

static void orthonormal_rows_are_right(void **state) {
    (void)state;
    static const int64_t sizes[][2] = {{1, 1}, {5, 40}, {40, 5}, {300, 700}};
    for (int64_t s = 0; s < COUNT(sizes); s++)
        for (int64_t t = 0; t < COUNT(team); t++) {
            int64_t m = sizes[s][0], n = sizes[s][1], r = circe__min(m, n);
            double *a = numbers(31, m * n), *Q = copy_of(a, m * n), *in = test_memory((size_t)(m * n) * 8);
            double *QQ = test_memory((size_t)(r * r) * 8), *back = test_memory((size_t)(m * n) * 8);
            int previous = circe__threads_begin(test_context(team[t]));
            algebra()->orthonormal_rows(m, n, Q, test_memory((size_t)(65 * circe__max(m, n)) * 8));
            circe__threads_finish(previous, CIRCE_OK);
            algebra()->gemm(0, 1, r, r, n, 1.0, Q, n, Q, n, 0.0, QQ, r);
            for (int64_t e = 0; e < r * r; e++) assert_true(fabs(QQ[e] - (e % r == e / r)) <= 1e-12);
            algebra()->gemm(0, 1, m, r, n, 1.0, a, n, Q, n, 0.0, in, r);
            algebra()->gemm(0, 0, m, n, r, 1.0, in, r, Q, n, 0.0, back, n);
            for (int64_t e = 0; e < m * n; e++) assert_true(fabs(back[e] - a[e]) <= 1e-11);
        }
}

/* R'R is the matrix with its rows and columns in the order of the pivots, up to what was left out; each pivot is the
 * largest that was left. */
static void check_pivoted(int64_t n, const double *A, double tolerance, int threads, int64_t least, int64_t most) {
    double *R = copy_of(A, n * n), *product = test_memory((size_t)(n * n) * 8);
    int *pivots = test_memory((size_t)n * sizeof *pivots);
    bool *seen = test_memory((size_t)n * sizeof *seen);
    int previous = circe__threads_begin(test_context(threads));
    int64_t rank = algebra()->pivoted_cholesky(n, R, tolerance, pivots, test_memory((size_t)(2 * n) * 8));
    circe__threads_finish(previous, CIRCE_OK);
    assert_in_range(rank, least, most);
    for (int64_t i = 0; i < n; i++) {
        assert_in_range(pivots[i], 0, n - 1);
        assert_false(seen[pivots[i]]);
        seen[pivots[i]] = true;
        for (int64_t j = 0; j < circe__min(i, n); j++) R[i * n + j] = 0.0;
        if (i > 0 && i < rank) assert_true(R[i * n + i] <= R[(i - 1) * n + i - 1] * (1.0 + 1e-6));
    }
    algebra()->gemm(1, 0, n, n, rank, 1.0, R, n, R, n, 0.0, product, n);
    double allowed = tolerance + 64.0 * (double)n * DBL_EPSILON * 10.0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) assert_true(fabs(product[i * n + j] - A[pivots[i] * n + pivots[j]]) <= allowed);
}

static void pivoted_factors_are_right(void **state) {
    (void)state;
    for (int64_t o = 0; o < COUNT(orders); o++)
        for (int64_t t = 0; t < COUNT(team); t++) {
            check_pivoted(orders[o], positive(orders[o]), 1e-12, team[t], orders[o], orders[o]);
            test_clean(NULL);
        }
    for (int64_t t = 0; t < COUNT(team); t++) {
        check_pivoted(900, kernel_matrix(900, 1), 1e-10, team[t], 10, 40);
        check_pivoted(900, kernel_matrix(900, 5), 1e-8, team[t], 300, 900);
    }
}

/* ---- the same bits whoever runs the parts
 * ----------------------------------------------------------------------------- */

typedef struct outcome {
    double *products, *gram, *inverse, *vectors, *pivoted;
} outcome;

enum { N = 450 };

static outcome run_all(int threads) {
    outcome o;
    double *a = numbers(41, N * N), w[N];
    int outside = circe__threads_begin(test_context(1)); /* outside of it, BLAS has threads of its own */
    int *iwork = test_memory((3 + 5 * N) * sizeof *iwork), *pivots = iwork;
    o.products = test_memory(N * N * 8);
    o.gram = test_memory(N * N * 8);
    o.inverse = positive(N);
    o.vectors = positive(N);
    o.pivoted = positive(N);
    circe__threads_finish(outside, CIRCE_OK);
    int previous = circe__threads_begin(test_context(threads));
    algebra()->gemm(0, 0, N, N, N, 1.0, a, N, a, N, 0.0, o.products, N);
    algebra()->gemm(1, 0, 15, 15, N * 15, 1.0, a, 15, a, 15, 0.0, o.products, 15);
    algebra()->gram_update(N, N, a, N, 0.0, o.gram, N);
    assert_int_equal(algebra()->invert_spd(N, o.inverse), 0);
    assert_int_equal(algebra()->eigen(N, o.vectors, w, eigen_work(N), iwork), 0);
    assert_int_equal(algebra()->pivoted_cholesky(N, o.pivoted, 1e-12, pivots, test_memory(2 * N * 8)), N);
    circe__threads_finish(previous, CIRCE_OK);
    return o;
}

static void bits_do_not_depend_on_who_runs_the_parts(void **state) {
    (void)state;
    for (int64_t t = 0; t < COUNT(team); t++) {
        int before = omp_get_max_threads();
        outcome together = run_all(team[t]);
        omp_set_num_threads(1); /* which the library takes as a limit */
        outcome alone = run_all(team[t]);
        omp_set_num_threads(before);
        assert_memory_equal(together.products, alone.products, N * N * 8);
        assert_memory_equal(together.gram, alone.gram, N * N * 8);
        assert_memory_equal(together.inverse, alone.inverse, N * N * 8);
        assert_memory_equal(together.vectors, alone.vectors, N * N * 8);
        assert_memory_equal(together.pivoted, alone.pivoted, N * N * 8);
        test_clean(NULL);
    }
}

/* ---- stopping -----------------------------------------------------------------------------------------------------
 */

static int stop_at_once(void *user, const char *stage, int64_t done, int64_t total) {
    (void)stage, (void)done;
    ++*(int *)user;
    return total == 0;
}

/* What takes a second or more ends soon after the caller says so, and the bracket says why. */
static void long_work_is_stopped(void **state) {
    (void)state;
    enum { ROWS = 2500 };
    for (int t = 1; t <= 2; t++) {
        int asked = 0;
        circe_context_options options;
        circe_context_options_init(&options);
        options.threads = t;
        options.progress = stop_at_once;
        options.progress_user = &asked;
        circe_context *context = test_context_with(&options);
        double *a = numbers(51, ROWS * ROWS), *c = numbers(52, ROWS * ROWS), *w = numbers(53, ROWS);
        int *iwork = test_memory((3 + 5 * ROWS) * sizeof *iwork);
        for (int64_t i = 0; i < ROWS; i++) c[i * ROWS + i] += 4.0 * ROWS;
        int previous = circe__threads_begin(context), inner = circe__threads_begin(context);
        double start = circe__seconds();
        while (circe__seconds() - start < 0.06) {
        }
        assert_int_not_equal(algebra()->invert_spd(ROWS, c), 0);
        assert_int_not_equal(algebra()->eigen(ROWS, a, w, eigen_work(ROWS), iwork), 0);
        algebra()->gemm(0, 0, ROWS, ROWS, ROWS, 1.0, a, ROWS, a, ROWS, 0.0, c, ROWS);
        assert_int_equal(circe__threads_finish(inner, CIRCE_OK), CIRCE_OK); /* it is the outer one's */
        assert_int_equal(circe__threads_finish(previous, CIRCE_ERR_NUMERIC), CIRCE_ERR_CANCELLED);
        assert_int_equal(asked, 1);
        previous = circe__threads_begin(context); /* and the next one begins anew */
        assert_false(circe__stopped());
        assert_int_equal(circe__threads_finish(previous, CIRCE_OK), CIRCE_OK);
        test_clean(NULL);
    }
}

TEST_MAIN("algebra", TEST(products_are_right), TEST(grams_are_right), TEST(rows_times_a_triangle_are_right),
          TEST(inverses_are_right), TEST(what_is_not_positive_is_refused), TEST(triangular_inverses_are_right),
          TEST(a_singular_triangle_is_refused), TEST(eigenvectors_are_right), TEST(large_eigenvectors_are_right),
          TEST(eigenvectors_of_odd_matrices_are_right), TEST(orthonormal_rows_are_right),
          TEST(pivoted_factors_are_right), TEST(bits_do_not_depend_on_who_runs_the_parts), TEST(long_work_is_stopped))
