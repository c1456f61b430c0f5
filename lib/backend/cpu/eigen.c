/* Eigenvalues and eigenvectors of a symmetric matrix (n, n), as LAPACK's dsyevd finds them.
 *
 *     A = H T H' (tridiagonal.c),   T = Z diag(w) Z' by divide and conquer,   V = H Z      about 4 n^3 operations
 *
 * Row-major lower is Fortran's upper triangle, and its eigenvectors, in columns, are rows here. LAPACK does all of it
 * on one thread, for small matrices, and where elements are so large or small that it scales them. */
#include <math.h>
#include <string.h>

#include "backend/cpu/algebra.h"
#include "backend/cpu/lapack.h"
#include "backend/cpu/tridiagonal.h"
#include "core/core.h"

enum { SERIAL = 320 }; /* rows up to which the threads would meet too often */

static int eigen_alone(int64_t n, double *a, double *w, double *work, int *iwork) {
    int order = (int)n, lwork = (int)circe__min(1 + 6 * n + 2 * n * n, INT32_MAX), liwork = 3 + 5 * order, info = 0;
    dsyevd_("V", "U", &order, a, &order, w, work, &lwork, iwork, &liwork, &info);
    return info;
}

/* The largest element of the lower triangle; NaN where there is one. */
static double largest_of(int64_t n, const double *a) {
    double largest = 0.0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++)
            if (!(fabs(a[i * n + j]) <= largest)) largest = fabs(a[i * n + j]);
    return largest;
}

typedef struct copy {
    int64_t n, parts;
    const double *from;
    double *to;
} copy;

static void run_copy(void *user, int64_t part) {
    const copy *c = user;
    int64_t first = circe__cut(c->n, c->parts, part), rows = circe__cut(c->n, c->parts, part + 1) - first;
    memcpy(c->to + first * c->n, c->from + first * c->n, (size_t)(rows * c->n) * sizeof *c->to);
}

int circe__eigen(int64_t n, double *a, double *w, double *work, int *iwork) {
    int threads = circe__threads_bracketed();
    if (n <= SERIAL || threads == 1) return eigen_alone(n, a, w, work, iwork);
    double largest = largest_of(n, a), *e = work, *tau = e + n, *Z = tau + n, *rest = Z + n * n;
    if (!(largest > 1e-120 && largest < 1e120)) return eigen_alone(n, a, w, work, iwork);
    int order = (int)n, lwork = (int)circe__min(1 + 4 * n + n * n, INT32_MAX), liwork = 3 + 5 * order, info = 0;
    threads = (int)circe__min(threads, n / 2); /* as many as the scratch has room for */
    info = circe__tridiagonal(n, a, w, e, tau, Z, threads);
    if (info == 0) dstedc_("I", &order, w, e, Z, &order, rest, &lwork, iwork, &liwork, &info);
    if (info != 0) return info;
    circe__apply_reflections(n, a, tau, Z, rest, threads);
    copy c = {n, threads, Z, a};
    circe__run_on(threads, threads, run_copy, &c);
    return 0;
}
