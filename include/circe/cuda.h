/* The measures on an NVIDIA GPU, for training loops whose features never leave it.
 *
 * A handle (circe_cuda) is a device, a stream and scratch memory on that device. Matrix views hold device pointers
 * here, values are written to device memory, and every call only queues work on the handle's stream: it does not wait
 * for the device and can be captured in a CUDA graph. Scratch grows to what a call needs and stays: after the first
 * call of a size, or after circe_cuda_reserve, nothing is allocated. A host pointer, or memory of another GPU, is
 * refused.
 *
 * Data and indices are not checked, because that would mean waiting: NaN in the data gives NaN, and an index out of
 * range makes value and gradient NaN. The same inputs give the same bits. docs/gpu.md has accuracy and speed.
 *
 * Calls on one handle must not overlap, and neither may their work on the device: use one handle per stream. In a build
 * without CUDA (CIRCE_CUDA=OFF), and on a machine without a GPU or driver, circe_cuda_open says so with
 * CIRCE_ERR_UNSUPPORTED. */
#ifndef CIRCE_CUDA_H
#define CIRCE_CUDA_H

#include "circe/cme.h"
#include "circe/measure.h"
#include "circe/measuring.h"
#include "circe/test.h"

CIRCE_BEGIN_DECLS

typedef struct circe_cuda circe_cuda;

/* `device` counts from 0; `stream` is a cudaStream_t of it, NULL the default stream. Does not change the caller's
 * current device. */
CIRCE_API circe_status circe_cuda_open(circe_context *context, int device, void *stream, circe_cuda **cuda);
/* Waits for the device, then frees. Graphs captured through the handle use its scratch and must not run afterwards. */
CIRCE_API void circe_cuda_close(circe_cuda *cuda);

/* From now on, work goes to this stream. The caller must order it after work queued on the previous stream. */
CIRCE_API circe_status circe_cuda_set_stream(circe_cuda *cuda, void *stream);

/* Reserves scratch for measures of n points and an x with `cols` columns (z of HSIC: no more of them),
 * so that even the first call allocates nothing. */
CIRCE_API circe_status circe_cuda_reserve(circe_cuda *cuda, int64_t n, int64_t cols, circe_dtype dtype);

/* The device memory of the handle, in bytes. */
CIRCE_API size_t circe_cuda_bytes(const circe_cuda *cuda);

/* ---- features as their kernel sees them -------------------------------------------------------------------- */

/* Like circe_scale and circe_scale_gradient. widths, figures and scratch (circe_cuda_scale_bytes) are device memory.
 * The gradient uses the scratch of its batch, so nothing may write to it in between. The width stays on the device. */
CIRCE_API size_t circe_cuda_scale_bytes(int64_t n, int64_t cols);
/* Scales x (n, cols) on the device, as circe_scale does. */
CIRCE_API circe_status circe_cuda_scale(circe_cuda *cuda, const circe_kernel *kernel, const circe_scaling *scaling,
                                        const circe_mat *x, double *widths, double *figures, void *scratch,
                                        circe_mat *out);
/* Turns the gradient with respect to the scaled x into that with respect to x, in place. */
CIRCE_API circe_status circe_cuda_scale_gradient(circe_cuda *cuda, const circe_kernel *kernel,
                                                 const circe_scaling *scaling, const circe_mat *x, double *widths,
                                                 void *scratch, circe_mat *grad);

/* ---- measures -------------------------------------------------------------------------------------------- */

/* CIRCE of n points from residual features, like circe_measure_circe_cached. y (N, d_y) and zeta (N, q) describe a data
 * set, and the points are its rows index[0..n) (device memory). If index is NULL, N = n and they describe the points. x
 * (n, d_x), y, zeta and grad (n, d_x; may be NULL) have one dtype; value is one double in device memory. Forms no n by
 * n matrix. */
CIRCE_API circe_status circe_cuda_measure_circe(circe_cuda *cuda, const circe_kernel *kernel_y, const circe_mat *y,
                                                const circe_mat *zeta, const int64_t *index, int64_t n,
                                                const circe_kernel *kernel_x, const circe_mat *x,
                                                circe_estimator estimator, double *value, circe_mat *grad);

/* Like circe_measure_hsic. Forms no n by n matrix. */
CIRCE_API circe_status circe_cuda_measure_hsic(circe_cuda *cuda, const circe_kernels *kernels, const circe_mat *x,
                                               const circe_mat *z, circe_hsic_estimator estimator, double *value,
                                               circe_mat *grad);

/* ---- measures that regress the batch on its own y -------------------------------------------------------- */

/* HSCIC, KCI and GCM by dense algebra in float64, O(n^3), for points of either dtype. The first of these calls opens
 * cuBLAS and cuSOLVER; if they are missing, it returns CIRCE_ERR_UNSUPPORTED and says what to install. Of
 * circe_batch_options, the ridge is used, and with method lowrank the tolerance. HSCIC and GCM of more than 96 points
 * then use low rank, which is several times faster, and give NaN if the kernel matrix of y needs more than 96 pivots,
 * because the host could see that only by waiting. Otherwise the regression is dense. A ridge that the CPU would refuse
 * as lost in rounding, or a matrix that is not positive definite, gives NaN.
 *
 * y and z (N, .) describe a data set, and the points are its rows index[0..n) (device memory), where n is the number of
 * rows of x. If index is NULL, N = n and they describe the points. An index out of range gives NaN. All matrices of a
 * call have one dtype; value is one double in device memory; grad may be NULL. */

/* Reserves scratch for any of these measures of n points, including z_hat and a previous batch of n rows. */
CIRCE_API circe_status circe_cuda_reserve_batch(circe_cuda *cuda, int64_t n, int64_t cols_x, int64_t cols_y,
                                                int64_t cols_z, circe_dtype dtype);

/* Sets *rank to the number of pivots of a low-rank regression on these points, or to -1 if there are more than 96.
 * Batches rarely need more pivots than their data set, if the tolerance is scaled by their share of its rows. Waits for
 * the device. */
CIRCE_API circe_status circe_cuda_batch_rank(circe_cuda *cuda, const circe_kernel *kernel_y, const circe_mat *y,
                                             const circe_batch_options *options, int64_t *rank);

/* Like circe_measure_hscic. */
CIRCE_API circe_status circe_cuda_measure_hscic(circe_cuda *cuda, const circe_kernels *kernels, const circe_mat *x,
                                                const circe_mat *y, const circe_mat *z, const int64_t *index,
                                                const circe_batch_options *options, double *value, circe_mat *grad);
/* Like circe_measure_hscic_holdout, with residual features zeta (N, q) instead of z, from circe_cuda_features or
 * circe_cuda_residual_features. kernel_y is the model's. */
CIRCE_API circe_status circe_cuda_measure_hscic_holdout(circe_cuda *cuda, const circe_kernel *kernel_y,
                                                        const circe_mat *y, const circe_mat *zeta, const int64_t *index,
                                                        const circe_kernel *kernel_x, const circe_mat *x,
                                                        const circe_batch_options *options, double *value,
                                                        circe_mat *grad);

/* Like circe_measure_kci. */
CIRCE_API circe_status circe_cuda_measure_kci(circe_cuda *cuda, const circe_kernels *kernels, const circe_mat *x,
                                              const circe_mat *y, const circe_mat *z, const int64_t *index,
                                              const circe_batch_options *options, double *value, circe_mat *grad);
/* Like circe_measure_gcm, with options->previous_x and previous_y in device memory. options->holdout must be NULL.
 * Instead, z_hat (N, d_z) holds E[z | y] for every row of the data set, computed once by circe_cme_mean; z_hat NULL: z
 * is regressed on the batch. */
CIRCE_API circe_status circe_cuda_measure_gcm(circe_cuda *cuda, const circe_kernel *kernel_y, const circe_mat *x,
                                              const circe_mat *y, const circe_mat *z, const circe_mat *z_hat,
                                              const int64_t *index, const circe_gcm_options *options, double *value,
                                              circe_mat *grad);

/* ---- one measure, evaluated many times -------------------------------------------------------------------- */

/* From now on, circe_measure_evaluate takes rows (n), x and grad (n, d; float32) and value in this GPU's memory, and
 * queues its work on the handle's stream, where it can be captured. It ignores `step`. This call copies what the
 * measure needs of its data set, as float32, and reserves scratch for batches of n rows, x with up to `cols` columns,
 * and `places` places. Rows out of range give NaN. The measure returns to the host when it is bound again, or with cuda
 * = NULL; until then, the handle must exist. Returns CIRCE_ERR_UNSUPPORTED and changes nothing if the measure runs on
 * the host only: circe-spectral, nocco, kpc, circe with random features or a z of high rank, and work in float64.
 *
 * With n = cols = places = 0, the measure is handed points instead: circe_measure_points takes x, y, z, value and grad
 * in this GPU's memory, all of one dtype, and so does circe_measure_evaluate, if the measure is bound to residual
 * features of that dtype. Scratch grows to what a call needs. The widths of y and z must be given, or come from a mean;
 * CIRCE_SIGMA2_RUNNING, and gcm with a mean, are the host's. A mean must outlive the calls. */
CIRCE_API circe_status circe_measure_to_cuda(circe_measure *measure, circe_cuda *cuda, int64_t n, int64_t cols,
                                             int64_t places);

/* Copies the rows index[0..n) of from (N, d) to `to` (n, d), both of one dtype. An index out of range gives a row of
 * NaN. */
CIRCE_API circe_status circe_cuda_gather(circe_cuda *cuda, const circe_mat *from, const int64_t *index, circe_mat *to);

/* ---- fits ------------------------------------------------------------------------------------------------ */

/* Like circe_cme_fit, with y (M, d_y) and z (M, d_z) in device memory. The GPU computes pivots, sums over the holdout,
 * decompositions and the leave-one-out errors of the whole grid, in float64. The model is an ordinary one in host
 * memory. Waits for the device, and allocates and frees memory in addition to the handle's scratch. Needs cuBLAS and
 * cuSOLVER. */
CIRCE_API circe_status circe_cuda_cme_fit(circe_cuda *cuda, const circe_mat *y, const circe_mat *z,
                                          const circe_kernel *kernel_y, const circe_kernel *kernel_z,
                                          const circe_cme_options *options, circe_cme **cme);

/* ---- tests ----------------------------------------------------------------------------------------------- */

/* For options.device of circe_test: passes over the rows on this GPU, on the handle's stream. The points of a test stay
 * in host memory. Destroy it (circe_test_device_destroy) before the handle. Needs cuBLAS and cuSOLVER. */
CIRCE_API circe_status circe_cuda_test_device(circe_cuda *cuda, circe_test_device **device);

/* ---- residual features ----------------------------------------------------------------------------------- */

/* The device's copy of a fitted model, which must outlive it. For the methods low rank and dense, not RFF. */
typedef struct circe_cuda_model circe_cuda_model;

/* Copies what a batch needs of the model to the device. */
CIRCE_API circe_status circe_cuda_model_create(circe_cuda *cuda, const circe_cme *cme, circe_cuda_model **model);
/* Frees it with everything that it owns. NULL is allowed. */
CIRCE_API void circe_cuda_model_destroy(circe_cuda_model *model);
/* The number of columns of its residual features: the rank of z plus up to 8 for points outside the holdout's span. */
CIRCE_API int64_t circe_cuda_model_columns(const circe_cuda_model *model);

/* zeta (n, columns) of the points y (n, d_y), z (n, d_z), computed in float64; all three have one dtype. The first
 * columns hold the part of psi(z) - mu(y) in the span of the holdout's z, the others the part of the batch's z outside
 * that span (0 if there is none). `left` (one double in device memory, or NULL) becomes the largest share of any k(z,
 * z) that all columns miss; below about 1e-8, nothing is missing. If it is larger (dozens of z far outside, or a rough
 * kernel), use circe_features_create on the CPU, which extends the basis as far as needed. */
CIRCE_API circe_status circe_cuda_residual_features(circe_cuda *cuda, const circe_cuda_model *model, const circe_mat *y,
                                                    const circe_mat *z, circe_mat *zeta, double *left);

/* The device's copy of the residual features of a data set (circe_features_create). Waits for the copy. */
typedef struct circe_cuda_features circe_cuda_features;

/* Copies the features to the device. */
CIRCE_API circe_status circe_cuda_features_create(circe_cuda *cuda, const circe_features *features,
                                                  circe_cuda_features **copy);
/* Frees it with everything that it owns. NULL is allowed. */
CIRCE_API void circe_cuda_features_destroy(circe_cuda_features *copy);
/* Views of device memory: y (N, d_y) and zeta (N, q). */
CIRCE_API circe_status circe_cuda_features_get(const circe_cuda_features *copy, circe_mat *y, circe_mat *zeta);

CIRCE_END_DECLS

#endif
