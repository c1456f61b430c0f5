/* The measures on an NVIDIA GPU, for training loops whose features never leave it.
 *
 * A handle (circe_cuda) is a device, a stream and scratch memory on that device. Matrix views hold device pointers
 * here, values are written to device memory, and every call only queues work on the handle's stream: it does not wait
 * for the device and can be captured in a CUDA graph. Scratch grows to what a call needs and stays: after the first
 * call of a size, or after circe_cuda_reserve, nothing is allocated. A host pointer, or memory of another GPU, is
 * refused.
 *
 * What cannot be seen without waiting is not checked: NaN in the data gives NaN, an index out of range makes value and
 * gradient NaN. The same inputs give the same bits. docs/gpu.md has accuracy and speed.
 *
 * Calls on one handle must not overlap, nor may their work on the device: one handle per stream. In a build without
 * CUDA (CIRCE_CUDA=OFF), and on a machine without a GPU or driver, circe_cuda_open says so with CIRCE_ERR_UNSUPPORTED.
 */
#ifndef CIRCE_CUDA_H
#define CIRCE_CUDA_H

#include "circe/cme.h"
#include "circe/measure.h"
#include "circe/measuring.h"

CIRCE_BEGIN_DECLS

typedef struct circe_cuda circe_cuda;

/* `device` counts from 0; `stream` is a cudaStream_t of it, NULL the default stream. Does not change the caller's
 * current device. */
CIRCE_API circe_status circe_cuda_open(circe_context *context, int device, void *stream, circe_cuda **cuda);
/* Waits for the device, then frees. Graphs captured through the handle end their life here: they use its scratch. */
CIRCE_API void circe_cuda_close(circe_cuda *cuda);

/* Work goes to this stream from now on. Whether it may run beside what was queued before is the caller's to order. */
CIRCE_API circe_status circe_cuda_set_stream(circe_cuda *cuda, void *stream);

/* Scratch for measures and contractions of n points with x of `cols` columns, so that the first call, too, allocates
 * nothing. */
CIRCE_API circe_status circe_cuda_reserve(circe_cuda *cuda, int64_t n, int64_t cols, circe_dtype dtype);

/* Bytes of device memory the handle holds. */
CIRCE_API size_t circe_cuda_bytes(const circe_cuda *cuda);

/* ---- features as their kernel sees them -------------------------------------------------------------------- */

/* As circe_scale and circe_scale_gradient; widths, figures and scratch, of circe_cuda_scale_bytes, are device memory.
 * The scratch of a batch serves its gradient: nothing may write to it in between. The width stays on the device. */
CIRCE_API size_t circe_cuda_scale_bytes(int64_t n, int64_t cols);
CIRCE_API circe_status circe_cuda_scale(circe_cuda *cuda, const circe_kernel *kernel, const circe_scaling *scaling,
                                        const circe_mat *x, double *widths, double *figures, void *scratch,
                                        circe_mat *out);
CIRCE_API circe_status circe_cuda_scale_gradient(circe_cuda *cuda, const circe_kernel *kernel,
                                                 const circe_scaling *scaling, const circe_mat *x, double *widths,
                                                 void *scratch, circe_mat *grad);

/* ---- measures -------------------------------------------------------------------------------------------- */

/* CIRCE of n points from residual features: as circe_measure_circe_cached. y (N, d_y) and zeta (N, q) are of a data set
 * of which the points are the rows index[0..n) (device memory), or the points themselves where index is NULL and N = n.
 * x (n, d_x), y, zeta and grad (n, d_x; may be NULL) are of one dtype; value is one double in device memory. No matrix
 * of n by n is formed. */
CIRCE_API circe_status circe_cuda_measure_circe(circe_cuda *cuda, const circe_kernel *kernel_y, const circe_mat *y,
                                                const circe_mat *zeta, const int64_t *index, int64_t n,
                                                const circe_kernel *kernel_x, const circe_mat *x,
                                                circe_estimator estimator, double *value, circe_mat *grad);

/* As circe_measure_hsic. No matrix of n by n is formed. */
CIRCE_API circe_status circe_cuda_measure_hsic(circe_cuda *cuda, const circe_kernels *kernels, const circe_mat *x,
                                               const circe_mat *z, circe_hsic_estimator estimator, double *value,
                                               circe_mat *grad);

/* As circe_contract, circe_witness_features and circe_witness_hsic: of a witness (n, n) the lower triangle is read, and
 * written. With circe_contract's counterpart any witness that was made on the CPU serves on the GPU. */
CIRCE_API circe_status circe_cuda_contract(circe_cuda *cuda, const circe_kernel *kernel_x, const circe_mat *x,
                                           const circe_mat *witness, double *value, circe_mat *grad);
CIRCE_API circe_status circe_cuda_witness_features(circe_cuda *cuda, const circe_kernel *kernel_y, const circe_mat *y,
                                                   const circe_mat *zeta, circe_estimator estimator,
                                                   circe_mat *witness);
CIRCE_API circe_status circe_cuda_witness_hsic(circe_cuda *cuda, const circe_kernel *kernel_z, const circe_mat *z,
                                               circe_hsic_estimator estimator, circe_mat *witness);

/* ---- measures that regress the batch on its own y -------------------------------------------------------- */

/* HSCIC, KCI and GCM by dense algebra in float64, O(n^3), whatever the dtype of the points: cuBLAS and cuSOLVER are
 * opened at the first of these calls (CIRCE_ERR_UNSUPPORTED with what to install where they are missing). Of
 * circe_batch_options the ridge counts, and with method lowrank the tolerance: HSCIC and GCM of more than 96 points are
 * then of low rank, several times as fast, and NaN where the kernel matrix of y needs more than 96 pivots, which the
 * host could only see by waiting. Otherwise the regression is dense. A ridge that the CPU would refuse as lost in
 * rounding, and a matrix that is not positive definite, give NaN.
 *
 * y and z (N, .) are of a data set of which the points are the rows index[0..n), n the rows of x (device memory), or
 * the points themselves where index is NULL and N = n; an index out of range gives NaN. All matrices of a call are of
 * one dtype; value is one double in device memory; grad may be NULL. */

/* Scratch for any of these measures of n points, z_hat and a previous batch of n rows included. */
CIRCE_API circe_status circe_cuda_reserve_batch(circe_cuda *cuda, int64_t n, int64_t cols_x, int64_t cols_y,
                                                int64_t cols_z, circe_dtype dtype);

/* *rank := the pivots that a regression of low rank on these points has; -1: more than the 96 that it may have. Batches
 * of a data set have hardly more than the whole, where the tolerance is made smaller by their share of it. Waits. */
CIRCE_API circe_status circe_cuda_batch_rank(circe_cuda *cuda, const circe_kernel *kernel_y, const circe_mat *y,
                                             const circe_batch_options *options, int64_t *rank);

/* As circe_measure_hscic and circe_witness_hscic. */
CIRCE_API circe_status circe_cuda_measure_hscic(circe_cuda *cuda, const circe_kernels *kernels, const circe_mat *x,
                                                const circe_mat *y, const circe_mat *z, const int64_t *index,
                                                const circe_batch_options *options, double *value, circe_mat *grad);
CIRCE_API circe_status circe_cuda_witness_hscic(circe_cuda *cuda, const circe_kernels *kernels, const circe_mat *y,
                                                const circe_mat *z, const circe_batch_options *options,
                                                circe_mat *witness);

/* As circe_measure_hscic_holdout, from residual features zeta (N, q) in the place of z: of circe_cuda_features, or of
 * circe_cuda_residual_features. kernel_y is the model's. */
CIRCE_API circe_status circe_cuda_measure_hscic_holdout(circe_cuda *cuda, const circe_kernel *kernel_y,
                                                        const circe_mat *y, const circe_mat *zeta, const int64_t *index,
                                                        const circe_kernel *kernel_x, const circe_mat *x,
                                                        const circe_batch_options *options, double *value,
                                                        circe_mat *grad);

/* As circe_measure_kci and circe_witness_kci. */
CIRCE_API circe_status circe_cuda_measure_kci(circe_cuda *cuda, const circe_kernels *kernels, const circe_mat *x,
                                              const circe_mat *y, const circe_mat *z, const int64_t *index,
                                              const circe_batch_options *options, double *value, circe_mat *grad);
CIRCE_API circe_status circe_cuda_witness_kci(circe_cuda *cuda, const circe_kernels *kernels, const circe_mat *y,
                                              const circe_mat *z, const circe_batch_options *options,
                                              circe_mat *witness);

/* As circe_measure_gcm; options->previous_x and previous_y are points in device memory. In the place of
 * options->holdout, which must be NULL here, z_hat (N, d_z) = E[z | y], made once for a data set by circe_cme_mean, row
 * by row beside z; or NULL: z is regressed on the batch. */
CIRCE_API circe_status circe_cuda_measure_gcm(circe_cuda *cuda, const circe_kernel *kernel_y, const circe_mat *x,
                                              const circe_mat *y, const circe_mat *z, const circe_mat *z_hat,
                                              const int64_t *index, const circe_gcm_options *options, double *value,
                                              circe_mat *grad);

/* ---- one measure, evaluated many times -------------------------------------------------------------------- */

/* From now on circe_measure_evaluate takes rows (n), x and grad (n, d; float32) and value in this GPU's memory, and
 * queues its work on the handle's stream, where it can be captured; `step` is not looked at. What the measure needs of
 * its data set is copied here, as float32, and scratch is reserved for batches of n rows, x of up to `cols` columns and
 * `places` of them. Rows that are out of range give NaN. Until the measure is bound anew, or cuda is NULL: back to the
 * host. The handle must outlive that. CIRCE_ERR_UNSUPPORTED, and nothing changed, where the measure is the host's
 * alone: circe-spectral, nocco, kpc, circe by random features or with a z of high rank, and work in float64. */
CIRCE_API circe_status circe_measure_to_cuda(circe_measure *measure, circe_cuda *cuda, int64_t n, int64_t cols,
                                             int64_t places);

/* to (n, d) := the rows index[0..n) of from (N, d), both of one dtype; an index out of range gives a row of NaN. */
CIRCE_API circe_status circe_cuda_gather(circe_cuda *cuda, const circe_mat *from, const int64_t *index, circe_mat *to);

/* ---- fits ------------------------------------------------------------------------------------------------ */

/* As circe_cme_fit, with y (M, d_y) and z (M, d_z) in device memory: pivots, sums over the holdout, decompositions and
 * the leave-one-out errors of the whole grid are the GPU's, in float64. The model is an ordinary one, in the host's
 * memory. Waits for the device, allocates what it needs beside the handle's scratch and frees it. Needs cuBLAS and
 * cuSOLVER. */
CIRCE_API circe_status circe_cuda_cme_fit(circe_cuda *cuda, const circe_mat *y, const circe_mat *z,
                                          const circe_kernel *kernel_y, const circe_kernel *kernel_z,
                                          const circe_cme_options *options, circe_cme **cme);

/* ---- residual features ----------------------------------------------------------------------------------- */

/* What a fitted model needs on the device. The model must outlive it. Methods low rank and dense; not RFF. */
typedef struct circe_cuda_model circe_cuda_model;

CIRCE_API circe_status circe_cuda_model_create(circe_cuda *cuda, const circe_cme *cme, circe_cuda_model **model);
CIRCE_API void circe_cuda_model_destroy(circe_cuda_model *model);
/* The columns of its residual features: the rank of z, and up to 8 for points outside the holdout's span. */
CIRCE_API int64_t circe_cuda_model_columns(const circe_cuda_model *model);

/* zeta (n, columns) of the points y (n, d_y), z (n, d_z), computed in float64; all three of one dtype. First the part
 * of psi(z) - mu(y) in the span of the holdout's z, then columns for what of the batch's z lies outside of it, 0 where
 * nothing does. `left` (one double in device memory, or NULL) becomes the largest share of any k(z, z) that is in
 * neither: below about 1e-8 nothing is missing. Where more is (z far outside by the dozen, or of a rough kernel) it
 * takes circe_features_create, on the CPU, which extends the basis as far as need be. */
CIRCE_API circe_status circe_cuda_residual_features(circe_cuda *cuda, const circe_cuda_model *model, const circe_mat *y,
                                                    const circe_mat *z, circe_mat *zeta, double *left);

/* Residual features of a data set (circe_features_create) copied to the device, once. Waits for the copy. */
typedef struct circe_cuda_features circe_cuda_features;

CIRCE_API circe_status circe_cuda_features_create(circe_cuda *cuda, const circe_features *features,
                                                  circe_cuda_features **copy);
CIRCE_API void circe_cuda_features_destroy(circe_cuda_features *copy);
/* Views of device memory: y (N, d_y) and zeta (N, q). */
CIRCE_API circe_status circe_cuda_features_get(const circe_cuda_features *copy, circe_mat *y, circe_mat *zeta);

CIRCE_END_DECLS

#endif
