/* Kernel objects: a list of factors. */
#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "kernels/kernels.h"

#include "core/settings.h"

enum { MAX_FACTORS = 1024 };

bool circe__has_width(circe_kernel_kind kind) { return kind == CIRCE_KERNEL_GAUSSIAN || kind == CIRCE_KERNEL_LAPLACE; }

bool circe__is_linear(const circe_kernel_factor *factors, int64_t n_factors) {
    return n_factors == 1 && factors->kind == CIRCE_KERNEL_LINEAR;
}

const char *circe__kernel_name(circe_kernel_kind kind) {
    return CIRCE__NAME(kind, [CIRCE_KERNEL_GAUSSIAN] = "gaussian", [CIRCE_KERNEL_LAPLACE] = "laplace",
                       [CIRCE_KERNEL_LINEAR] = "linear", [CIRCE_KERNEL_DELTA] = "delta");
}

static circe_status check_factor(const circe_kernel_factor *factor) {
    if (factor->kind < CIRCE_KERNEL_GAUSSIAN || factor->kind > CIRCE_KERNEL_DELTA)
        return circe_fail(CIRCE_ERR_ARGUMENT, "kernel kind %d is not one of gaussian, laplace, linear, delta",
                          (int)factor->kind);
    if (circe__has_width(factor->kind) && (!isfinite(factor->sigma2) || factor->sigma2 < 0.0))
        return circe_fail(CIRCE_ERR_ARGUMENT, "sigma2 of the %s kernel is %g; it must be positive",
                          circe__kernel_name(factor->kind), factor->sigma2);
    if (factor->first_col < 0 || factor->n_cols < -1 || factor->n_cols == 0)
        return circe_fail(
            CIRCE_ERR_ARGUMENT,
            "a kernel cannot have %lld columns from column %lld; columns count from 0, and -1 means all that follow",
            (long long)factor->n_cols, (long long)factor->first_col);
    return CIRCE_OK;
}

circe_status circe_kernel_create(circe_context *context, circe_kernel_kind kind, double sigma2, circe_kernel **kernel) {
    CIRCE_OWN_SETTINGS;
    circe_kernel_factor factor = {.kind = kind, .sigma2 = sigma2, .first_col = 0, .n_cols = -1};
    if (context == NULL || kernel == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "context and kernel must not be NULL");
    *kernel = NULL;
    circe_kernel *made = circe__calloc(context, 1, sizeof *made);
    if (made == NULL) return CIRCE_ERR_MEMORY;
    made->context = context;
    circe_status status = circe_kernel_multiply(made, &factor);
    if (status == CIRCE_OK)
        *kernel = made;
    else
        circe_kernel_destroy(made);
    return status;
}

static void forget_text(circe_kernel *kernel) {
    circe__free(kernel->context, kernel->text);
    kernel->text = NULL;
}

circe_status circe_kernel_multiply(circe_kernel *kernel, const circe_kernel_factor *factor) {
    if (kernel == NULL || factor == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "kernel and factor must not be NULL");
    circe_status status = check_factor(factor);
    if (status != CIRCE_OK) return status;
    if (kernel->n_factors >= MAX_FACTORS)
        return circe_fail(CIRCE_ERR_ARGUMENT, "a kernel has at most %d factors", MAX_FACTORS);
    circe_kernel_factor *grown = circe__alloc(kernel->context, kernel->n_factors + 1, sizeof *grown);
    if (grown == NULL) return CIRCE_ERR_MEMORY;
    if (kernel->n_factors > 0) memcpy(grown, kernel->factors, (size_t)kernel->n_factors * sizeof *grown);
    grown[kernel->n_factors] = *factor;
    if (!circe__has_width(factor->kind)) grown[kernel->n_factors].sigma2 = 0.0;
    circe__free(kernel->context, kernel->factors);
    kernel->factors = grown;
    kernel->n_factors++;
    forget_text(kernel);
    return CIRCE_OK;
}

circe_status circe_kernel_copy(const circe_kernel *kernel, circe_kernel **copy) {
    if (kernel == NULL || copy == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "kernel and copy must not be NULL");
    return circe__kernel_copy(kernel->context, kernel, copy);
}

circe_status circe__kernel_copy(circe_context *context, const circe_kernel *kernel, circe_kernel **copy) {
    *copy = NULL;
    circe_kernel *made = circe__calloc(context, 1, sizeof *made);
    if (made == NULL) return CIRCE_ERR_MEMORY;
    made->context = context;
    made->factors = circe__alloc(context, kernel->n_factors, sizeof *made->factors);
    if (made->factors == NULL) {
        circe_kernel_destroy(made);
        return CIRCE_ERR_MEMORY;
    }
    memcpy(made->factors, kernel->factors, (size_t)kernel->n_factors * sizeof *made->factors);
    made->n_factors = kernel->n_factors;
    *copy = made;
    return CIRCE_OK;
}

void circe_kernel_destroy(circe_kernel *kernel) {
    if (kernel == NULL) return;
    circe__free(kernel->context, kernel->factors);
    circe__free(kernel->context, kernel->text);
    circe__free(kernel->context, kernel);
}

int64_t circe_kernel_n_factors(const circe_kernel *kernel) { return kernel == NULL ? 0 : kernel->n_factors; }

circe_status circe_kernel_get_factor(const circe_kernel *kernel, int64_t index, circe_kernel_factor *factor) {
    if (kernel == NULL || factor == NULL || index < 0 || index >= kernel->n_factors)
        return circe_fail(CIRCE_ERR_ARGUMENT, "there is no factor %lld", (long long)index);
    *factor = kernel->factors[index];
    return CIRCE_OK;
}

static bool is_free(const circe_kernel_factor *factor) {
    return circe__has_width(factor->kind) && factor->sigma2 == 0.0;
}

int64_t circe_kernel_n_free(const circe_kernel *kernel) {
    int64_t n = 0;
    for (int64_t f = 0; f < circe_kernel_n_factors(kernel); f++) n += is_free(&kernel->factors[f]);
    return n;
}

circe_status circe_kernel_bind(circe_kernel *kernel, double sigma2) {
    CIRCE_OWN_SETTINGS;
    if (kernel == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "kernel must not be NULL");
    if (!isfinite(sigma2) || sigma2 <= 0.0)
        return circe_fail(CIRCE_ERR_ARGUMENT, "sigma2 is %g; it must be positive", sigma2);
    for (int64_t f = 0; f < kernel->n_factors; f++)
        if (is_free(&kernel->factors[f])) kernel->factors[f].sigma2 = sigma2;
    forget_text(kernel);
    return CIRCE_OK;
}

circe_status circe_kernel_bind_median(circe_kernel *kernel, const circe_mat *points) {
    CIRCE_OWN_SETTINGS;
    if (kernel == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "kernel must not be NULL");
    for (int64_t f = 0; f < kernel->n_factors; f++) {
        circe_kernel_factor *factor = &kernel->factors[f];
        double sigma2;
        if (!is_free(factor)) continue;
        circe_status status = circe_median_sigma2(kernel->context, points, factor->first_col, factor->n_cols, &sigma2);
        if (status != CIRCE_OK) return status;
        factor->sigma2 = sigma2;
    }
    forget_text(kernel);
    return CIRCE_OK;
}

static int print_factor(char *to, size_t size, const circe_kernel_factor *factor) {
    char columns[64] = "", width[40] = "";
    long long first = (long long)factor->first_col, last = first + (long long)factor->n_cols - 1;
    if (factor->n_cols == 1)
        snprintf(columns, sizeof columns, "%lld:", first);
    else if (factor->n_cols > 1)
        snprintf(columns, sizeof columns, "%lld-%lld:", first, last);
    else if (first > 0)
        snprintf(columns, sizeof columns, "%lld-:", first);
    if (factor->sigma2 > 0.0) snprintf(width, sizeof width, "(%.17g)", factor->sigma2);
    return snprintf(to, size, "%s%s%s", columns, circe__kernel_name(factor->kind), width);
}

const char *circe_kernel_text(const circe_kernel *kernel) {
    CIRCE_OWN_SETTINGS;
    enum { FACTOR_CHARS = 128 };
    if (kernel == NULL) return "";
    char *text = atomic_load(&kernel->text), *theirs = NULL;
    if (text != NULL) return text;
    int64_t size = kernel->n_factors * FACTOR_CHARS + 1, used = 0;
    text = circe__alloc(kernel->context, size, 1);
    if (text == NULL) return "";
    text[0] = '\0';
    for (int64_t f = 0; f < kernel->n_factors; f++) {
        if (f > 0) text[used++] = '*';
        used += print_factor(text + used, FACTOR_CHARS, &kernel->factors[f]);
    }
    circe_kernel *cache = (circe_kernel *)(uintptr_t)kernel; /* the kernel itself does not change */
    if (atomic_compare_exchange_strong(&cache->text, &theirs, text)) return text;
    circe__free(kernel->context, text); /* another thread was first */
    return theirs;
}

/* Writes the factors with their columns resolved. */
static circe_status resolve(const circe_kernel *kernel, int64_t cols, const char *name, circe_kernel_factor *resolved) {
    for (int64_t f = 0; f < kernel->n_factors; f++) {
        circe_kernel_factor factor = kernel->factors[f];
        if (factor.n_cols == -1) factor.n_cols = cols - factor.first_col;
        if (factor.n_cols < 1 || factor.n_cols > cols - factor.first_col)
            return circe_fail(CIRCE_ERR_SHAPE,
                              "the kernel of %s (%s) names columns that %s does not have: it has %lld, counted from 0",
                              name, circe_kernel_text(kernel), name, (long long)cols);
        resolved[f] = factor;
    }
    return CIRCE_OK;
}

static circe_status check_bound(const circe_kernel *kernel, const char *name) {
    if (kernel == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "the kernel of %s must not be NULL", name);
    if (circe_kernel_n_free(kernel) == 0) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_ARGUMENT, "the kernel of %s (%s) has no width yet; bind its sigma2 first", name,
                      circe_kernel_text(kernel));
}

/* A millionth of a squared width must be a normal number, and a hundred times it finite. */
circe_status circe__check_widths(const circe_kernel *kernel, circe_dtype dtype, const char *name) {
    const double least = (double)FLT_MIN * 1e6, most = (double)FLT_MAX * 1e-2;
    for (int64_t f = 0; kernel != NULL && dtype == CIRCE_FLOAT32 && f < kernel->n_factors; f++) {
        const circe_kernel_factor *factor = &kernel->factors[f];
        if (!circe__has_width(factor->kind) || is_free(factor)) continue;
        if (factor->sigma2 < least || factor->sigma2 > most)
            return circe_fail(CIRCE_ERR_VALUE,
                              "the kernel of %s (%s) has a sigma2 outside of %.0e to %.0e: float32 cannot hold such "
                              "squared distances; work in float64, or change the units of %s",
                              name, circe_kernel_text(kernel), least, most, name);
    }
    return CIRCE_OK;
}

circe_status circe__resolve(const circe_context *context, const circe_kernel *kernel, int64_t cols, const char *name,
                            circe_kernel_factor **factors) {
    *factors = NULL;
    circe_status status = check_bound(kernel, name);
    if (status != CIRCE_OK) return status;
    circe_kernel_factor *resolved = circe__alloc(context, kernel->n_factors, sizeof *resolved);
    if (resolved == NULL) return CIRCE_ERR_MEMORY;
    status = resolve(kernel, cols, name, resolved);
    if (status == CIRCE_OK)
        *factors = resolved;
    else
        circe__free(context, resolved);
    return status;
}

circe_status circe__resolve_into(circe_workspace *workspace, const circe_kernel *kernel, int64_t cols, const char *name,
                                 circe_kernel_factor **factors) {
    circe_status status = check_bound(kernel, name);
    if (status != CIRCE_OK) return status;
    *factors = circe__take(workspace, CIRCE__SLOT_FACTORS, kernel->n_factors, sizeof **factors);
    if (*factors == NULL) return CIRCE_ERR_MEMORY;
    return resolve(kernel, cols, name, *factors);
}

circe_status circe__resolve_pair(circe_workspace *workspace, const circe_kernel *kernel_a, int64_t cols_a,
                                 const char *name_a, const circe_kernel *kernel_b, int64_t cols_b, const char *name_b,
                                 circe__factors pair[2]) {
    circe_status status = check_bound(kernel_a, name_a);
    if (status == CIRCE_OK) status = check_bound(kernel_b, name_b);
    if (status != CIRCE_OK) return status;
    int64_t n_a = kernel_a->n_factors, n_b = kernel_b->n_factors;
    circe_kernel_factor *factors = circe__take(workspace, CIRCE__SLOT_FACTORS, n_a + n_b, sizeof *factors);
    if (factors == NULL) return CIRCE_ERR_MEMORY;
    status = resolve(kernel_a, cols_a, name_a, factors);
    if (status == CIRCE_OK) status = resolve(kernel_b, cols_b, name_b, factors + n_a);
    pair[0] = (circe__factors){factors, n_a};
    pair[1] = (circe__factors){factors + n_a, n_b};
    return status;
}

circe_status circe__resolve_joint(circe_workspace *workspace, const circe_kernel *kernel_a, int64_t cols_a,
                                  const char *name_a, const circe_kernel *kernel_b, int64_t cols_b, const char *name_b,
                                  circe__factors *joint) {
    circe__factors pair[2];
    circe_status status = circe__resolve_pair(workspace, kernel_a, cols_a, name_a, kernel_b, cols_b, name_b, pair);
    if (status != CIRCE_OK) return status;
    circe_kernel_factor *factors = workspace->blocks[CIRCE__SLOT_FACTORS]; /* where the pair lies */
    for (int64_t f = pair[0].n; f < pair[0].n + pair[1].n; f++) factors[f].first_col += cols_a;
    *joint = (circe__factors){factors, pair[0].n + pair[1].n};
    return CIRCE_OK;
}

double circe__kernel_diagonal(circe__factors kernel, const double *point) {
    double value = 1.0;
    for (int64_t f = 0; f < kernel.n; f++) {
        if (kernel.items[f].kind != CIRCE_KERNEL_LINEAR) continue;
        double square = 0.0;
        for (int64_t c = 0; c < kernel.items[f].n_cols; c++) {
            double v = point[kernel.items[f].first_col + c];
            square += v * v;
        }
        value *= square;
    }
    return value;
}

double circe__kernel_value(circe__factors kernel, const double *p, const double *q) {
    double exponent = 0.0, value = 1.0;
    for (int64_t f = 0; f < kernel.n; f++) {
        const circe_kernel_factor *factor = &kernel.items[f];
        double square = 0.0, dot = 0.0;
        for (int64_t c = factor->first_col; c < factor->first_col + factor->n_cols; c++) {
            square += (p[c] - q[c]) * (p[c] - q[c]);
            dot += p[c] * q[c];
        }
        if (factor->kind == CIRCE_KERNEL_GAUSSIAN) exponent -= 0.5 * square / factor->sigma2;
        if (factor->kind == CIRCE_KERNEL_LAPLACE) exponent -= sqrt(square / factor->sigma2);
        if (factor->kind == CIRCE_KERNEL_LINEAR) value *= dot;
        if (factor->kind == CIRCE_KERNEL_DELTA && square > 0.0) return 0.0;
    }
    return value * exp(exponent);
}

/* ---- points as float32 ------------------------------------------------------------------------------------------- */

enum { COLUMNS_AT_ONCE = 64 };

static bool reads_values(const circe_kernel *kernel, int64_t column) {
    for (int64_t f = 0; f < kernel->n_factors; f++) {
        const circe_kernel_factor *factor = &kernel->factors[f];
        bool from_here = factor->kind == CIRCE_KERNEL_LINEAR && column >= factor->first_col;
        if (from_here && (factor->n_cols == -1 || column < factor->first_col + factor->n_cols)) return true;
    }
    return false;
}

/* `width` columns from `first` on. Up to FAR times as far from 0 as they are wide, they are copied as they are: that
 * costs four bits at most. */
static void narrow_columns(const circe_kernel *kernel, const circe_mat *from, int64_t first, int64_t width,
                           circe_mat *to) {
    enum { FAR = 16 };
    double least[COLUMNS_AT_ONCE], largest[COLUMNS_AT_ONCE];
    for (int64_t c = 0; c < width; c++) least[c] = largest[c] = circe__at(from, 0, first + c);
    for (int64_t i = 1; i < from->rows; i++)
        for (int64_t c = 0; c < width; c++) {
            double v = circe__at(from, i, first + c);
            least[c] = v < least[c] ? v : least[c];
            largest[c] = v > largest[c] ? v : largest[c];
        }
    for (int64_t c = 0; c < width; c++) {
        bool is_far = fmax(fabs(least[c]), fabs(largest[c])) / FAR > largest[c] - least[c];
        if (!is_far || reads_values(kernel, first + c)) least[c] = 0.0;
    }
    for (int64_t i = 0; i < from->rows; i++)
        for (int64_t c = 0; c < width; c++) circe__set(to, i, first + c, circe__at(from, i, first + c) - least[c]);
}

void circe__copy_points(const circe_kernel *kernel, const circe_mat *from, circe_mat *to) {
    if (from->dtype == to->dtype || to->dtype == CIRCE_FLOAT64 || from->rows == 0) {
        circe__copy_mat(from, to);
        return;
    }
    for (int64_t first = 0; first < from->cols; first += COLUMNS_AT_ONCE)
        narrow_columns(kernel, from, first, circe__min(COLUMNS_AT_ONCE, from->cols - first), to);
}
