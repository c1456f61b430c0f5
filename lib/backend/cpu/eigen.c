/* Eigenvalues and eigenvectors of a symmetric matrix (n, n), as LAPACK's dsyevd finds them.
 *
 *     A = H T H' (tridiagonal.c),   T = Z diag(w) Z' by divide and conquer,   V = H Z      about 4 n^3 operations
 *
 * The row-major lower triangle is Fortran's upper one, and Fortran's columns of eigenvectors are rows here. LAPACK
 * computes small matrices, and those whose elements are so large or small that they need scaling, on one thread. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "backend/cpu/algebra.h"
#include "backend/cpu/lapack.h"
#include "backend/cpu/merge.h"
#include "backend/cpu/tridiagonal.h"
#include "core/core.h"

enum {
    SERIAL = 320,       /* rows up to which the threads would meet too often */
    SERIAL_ALONE = 1536 /* and up to which one thread leaves it to LAPACK, which cannot be stopped */
};

static int eigen_alone(const char *job, int64_t n, double *a, double *w, double *work, int *iwork) {
    int order = (int)n, lwork = (int)circe__min(1 + 6 * n + 2 * n * n, INT32_MAX), liwork = 3 + 5 * order, info = 0;
    dsyevd_(job, "U", &order, a, &order, w, work, &lwork, iwork, &liwork, &info);
    return info;
}

/* Whether no number of the lower triangle is so large or so small that its square would be lost. False if one is
 * NaN. */
typedef struct scan {
    int64_t n, parts;
    const double *a;
    double *largest; /* (parts) */
} scan;

static void run_scan(void *user, int64_t part) {
    const scan *s = user;
    double largest = 0.0;
    for (int64_t i = part; i < s->n; i += s->parts)
        for (int64_t j = 0; j <= i; j++)
            if (!(fabs(s->a[i * s->n + j]) <= largest)) largest = fabs(s->a[i * s->n + j]);
    s->largest[part] = largest;
}

static bool is_ordinary(int64_t n, const double *a, double *scratch, int threads) {
    scan s = {n, threads, a, scratch};
    double largest = 0.0;
    circe__run_on(threads, threads, run_scan, &s);
    for (int64_t part = 0; part < threads; part++)
        if (!(scratch[part] <= largest)) largest = scratch[part];
    return largest > 1e-120 && largest < 1e120;
}

/* The vectors in the order of their eigenvalues. */
typedef struct sorting {
    int64_t n;
    const double *from;
    double *to;
    const int *order;
} sorting;

static void run_sort(void *user, int64_t first, int64_t end) {
    const sorting *s = user;
    for (int64_t i = first; i < end; i++)
        memcpy(s->to + i * s->n, s->from + s->order[i] * s->n, (size_t)s->n * sizeof *s->to);
}

static bool is_for_one(int64_t n, int threads) { return n <= SERIAL || (threads == 1 && n <= SERIAL_ALONE); }

int circe__eigenvalues(int64_t n, double *a, double *w, double *work, int *iwork) {
    if (!is_for_one(n, circe__threads_bracketed())) return circe__eigen(n, a, w, work, iwork);
    return eigen_alone("N", n, a, w, work, iwork);
}

int circe__eigen(int64_t n, double *a, double *w, double *work, int *iwork) {
    int threads = (int)circe__min(circe__threads_bracketed(), n / 4), *order = iwork + 4 * n;
    double *e = work, *tau = e + n, *Z = tau + n, *rest = Z + n * n;
    if (is_for_one(n, threads) || !is_ordinary(n, a, work, threads)) return eigen_alone("V", n, a, w, work, iwork);
    int info = circe__tridiagonal(n, a, w, e, tau, Z, threads);
    if (info == 0) info = circe__tridiagonal_eigen(n, w, e, Z, rest, iwork, order, threads);
    if (info != 0) return info;
    circe__apply_reflections(n, a, tau, Z, rest, threads);
    for (int64_t i = 0; i < n; i++) e[i] = w[order[i]];
    memcpy(w, e, (size_t)n * sizeof *w);
    sorting s = {n, Z, a, order};
    circe__run_ranges(threads, n, 16, run_sort, &s);
    return 0;
}
