/* Internals of the kernels layer, for the layers above it. */
#pragma once

#include "backend/backend.h"
#include "circe/kernel.h"
#include "core/core.h"
#include "core/rooms.h"

struct circe_kernel {
    circe_context *context;
    circe_kernel_factor *factors;
    int64_t n_factors;
    _Atomic(char *) text; /* cache of circe_kernel_text, which threads may call at once; NULL when stale */
};

/* A copy that belongs to `context`. What an object keeps of a kernel must live as long as the object, and the kernel's
 * own context may end earlier. */
CIRCE_ROOMS circe_status circe__kernel_copy(circe_context *context, const circe_kernel *kernel, circe_kernel **copy);

/* A kernel's factors with their columns resolved against points of `cols` columns, in memory of `context` that the
 * caller frees. Refuses free widths and columns outside. `name` is the variable's, for the text. */
CIRCE_ROOMS circe_status circe__resolve(const circe_context *context, const circe_kernel *kernel, int64_t cols,
                                        const char *name, circe_kernel_factor **factors);

/* The same without an allocation of its own: in the workspace's slot FACTORS, valid until the next such call. */
circe_status circe__resolve_into(circe_workspace *workspace, const circe_kernel *kernel, int64_t cols, const char *name,
                                 circe_kernel_factor **factors);

/* The factors of two kernels, one after the other in the slot. */
circe_status circe__resolve_pair(circe_workspace *workspace, const circe_kernel *kernel_a, int64_t cols_a,
                                 const char *name_a, const circe_kernel *kernel_b, int64_t cols_b, const char *name_b,
                                 circe__factors pair[2]);

/* The product k_a k_b on points that hold the columns of a, then those of b; in the same slot. */
circe_status circe__resolve_joint(circe_workspace *workspace, const circe_kernel *kernel_a, int64_t cols_a,
                                  const char *name_a, const circe_kernel *kernel_b, int64_t cols_b, const char *name_b,
                                  circe__factors *joint);

/* Refuses a kernel with a width whose square the loops of this dtype cannot hold: in float32, squared distances of
 * 1e-40 are 0 and those of 1e40 infinite, whatever the units of the points. */
circe_status circe__check_widths(const circe_kernel *kernel, circe_dtype dtype, const char *name);

/* k(p, p) of one point and k(p, q) of two (float64), where a Gram block would be too much. */
double circe__kernel_diagonal(circe__factors kernel, const double *point);
CIRCE_ROOMS double circe__kernel_value(circe__factors kernel, const double *p, const double *q);

/* Points of this kernel, copied. Where they become float32, a column far from 0 (a time in seconds since 1970) loses
 * its smallest value first if the kernel reads only differences of it: float32 would keep the distance from 0 and
 * little of what tells the rows apart. */
void circe__copy_points(const circe_kernel *kernel, const circe_mat *from, circe_mat *to);

/* Gram block with the loops of out's dtype; `scratch` of circe__gram_bytes. */
CIRCE_ROOMS size_t circe__gram_bytes(const circe_context *context, circe_dtype dtype, int64_t rows_b, int64_t cols);
CIRCE_ROOMS void circe__gram(const circe_context *context, circe__factors kernel, const circe_mat *a,
                             const circe_mat *b, circe_mat *out, void *scratch);

/* The median of v[0..n), numbers of at least 0, which it reorders; where more than half are 0, of the others; 0: all
 * are. */
double circe__median_of_squares(double *v, int64_t n);

bool circe__has_width(circe_kernel_kind kind);

/* The inner product of columns and nothing else. */
bool circe__is_linear(const circe_kernel_factor *factors, int64_t n_factors);
const char *circe__kernel_name(circe_kernel_kind kind);
