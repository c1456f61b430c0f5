/* A measure on a CUDA device, from its features to its gradient, without a matrix of pairs in memory.
 *
 *     y (n, d_y), zeta (n, q), x (n, d)    device memory, of a data set behind an index if there is one
 *     Q_ij = k(y_i, y_j) zeta_i.zeta_j,  G from Q by its row sums (device.h),  P = G o K_xx
 *     value = sum P,   grad_i = rate sum_j P_ij (x_i - x_j)
 *
 * Up to four launches:
 *     sums       the row sums of Q, by pairs of tiles (I, J <= I), each into a slot of its own
 *     settle     their sum over the slots, and the sum of all
 *     contract   Q again, now shifted to G; K_xx; P in shared memory; what it gives to the gradients of the rows of I
 *                and of J, into slots
 *     collect    the sum over the slots: gradient and value
 *
 * Why slots and not atomic additions: the same inputs give the same bits. Tiles are grouped into at most SLOTS strips
 * and a block takes a pair of strips, so scratch is SLOTS times x. Why Q twice: q + d_y of its 2q + 2d_y + 4d
 * operations per pair cost less than writing and reading a matrix. Distances are sums of squared differences, never
 * |a|^2
 * + |b|^2 - 2ab, which would lose what float32 has. sum_j P_ij (x_i - x_j) is taken as x_i sum_j P_ij - sum_j P_ij x_j
 * with x less its mean over the tile, so that nothing cancels but what must. */
#include "backend/cuda/gradient.cuh"
#include "backend/cuda/witness.cuh"

namespace circe {

/* ---- the row sums of Q ----------------------------------------------------------------------------------- */

template <typename real, int TILE, bool PLAIN, int BLOCK, int BLOCKS>
__global__ __launch_bounds__(BLOCK, BLOCKS) void sums_kernel(const __grid_constant__ args<real> a) {
    using S = shape<real, TILE, BLOCK>;
    extern __shared__ __align__(16) char shared[];
    auto &m = *reinterpret_cast<memory<real, TILE, 1, BLOCK> *>(shared);
    int2 strip = pair_of(blockIdx.x);
    real Q[S::MI][S::MJ];
    for (int I = strip.x * a.per_strip; I < min(a.tiles, (strip.x + 1) * a.per_strip); I++)
        for (int J = strip.y * a.per_strip; J < min(I + 1, (strip.y + 1) * a.per_strip); J++) {
            int64_t i0 = (int64_t)I * TILE, j0 = (int64_t)J * TILE;
            __syncthreads();
            set_rows<TILE>(m.rows_i, m.rows_j, i0, j0, a.n, a.index, a.rows);
            __syncthreads();
            if (PLAIN) {
                int zeta = fetch_features<S>(a, m);
                arrived();
                product_plain<S>(a, m, zeta, Q);
            } else {
                product_any<S>(a, m, Q);
            }
            mask<S>(a, i0, j0, a.zero_diagonal, Q);
            tile_sums<S>(Q, m.rho_i, m.rho_j, m.parts);
            for (int r = threadIdx.x; r < TILE; r += BLOCK) {
                double *to_i = a.sums + strip.y * a.n + i0 + r, *to_j = a.sums + strip.x * a.n + j0 + r;
                if (i0 + r < a.n) *to_i = (J == strip.y * a.per_strip ? 0 : *to_i) + (double)m.rho_i[r];
                bool first = strip.x != strip.y && I == strip.x * a.per_strip;
                if (I != J && j0 + r < a.n) *to_j = (first ? 0 : *to_j) + (double)m.rho_j[r];
            }
        }
}

template <typename real>
__global__ __launch_bounds__(SETTLE_THREADS) void settle_kernel(const __grid_constant__ args<real> a) {
    int64_t i = (int64_t)blockIdx.x * SETTLE_THREADS + threadIdx.x;
    double sum = 0;
    await_previous();
    if (i < a.n) {
#pragma unroll 8
        for (int s = 0; s < a.sum_strips; s++) sum += a.sums[s * a.n + i];
        a.row_shift[i] = -sum / a.over_rows;
    }
    double total = block_sum(sum);
    if (threadIdx.x == 0) a.totals[blockIdx.x] = total;
}

/* ---- the contraction ------------------------------------------------------------------------------------- */

/* D := |x_i - x_j|^2; the first columns lie in m.xa and m.xb. */
template <typename S, int CHUNK, typename real, typename M>
__device__ __forceinline__ void distances(const args<real> &a, M &m, int64_t i0, int64_t j0, real (&D)[S::MI][S::MJ]) {
    in_order own_i = {i0, a.n}, own_j = {j0, a.n};
    fill<S>(D, (real)0);
    pair_sums<S, true>(m.xa, m.xb, min(CHUNK, a.x.cols), D);
    for (int c = CHUNK; c < a.x.cols; c += CHUNK) {
        int cols = min(CHUNK, a.x.cols - c);
        __syncthreads();
        fetch<S>(m.xa, a.x, own_i, c, cols);
        fetch<S>(m.xb, a.x, own_j, c, cols);
        arrived();
        pair_sums<S, true>(m.xa, m.xb, cols, D);
    }
}

/* Kernels of x and y that are one gaussian over all columns. */
template <typename real, int TILE, int CHUNK, int BLOCK, int BLOCKS>
__global__ __launch_bounds__(BLOCK, BLOCKS) void contract_kernel(const __grid_constant__ args<real> a) {
    using S = shape<real, TILE, BLOCK>;
    extern __shared__ __align__(16) char shared[];
    auto &m = *reinterpret_cast<memory<real, TILE, CHUNK, BLOCK> *>(shared);
    int2 strip = pair_of(blockIdx.x);
    int d = a.x.cols, head = min(CHUNK, d);
    real rate = gaussian_rate<real>(a.kernel_x.items[0].sigma2);
    double value = 0;
    bool settled = false;
    for (int I = strip.x * a.per_strip; I < min(a.tiles, (strip.x + 1) * a.per_strip); I++)
        for (int J = strip.y * a.per_strip; J < min(I + 1, (strip.y + 1) * a.per_strip); J++) {
            int64_t i0 = (int64_t)I * TILE, j0 = (int64_t)J * TILE;
            real G[S::MI][S::MJ], D[S::MI][S::MJ];
            int zeta = 0;
            __syncthreads();
            in_order own_i = {i0, a.n}, own_j = {j0, a.n};
            set_rows<TILE>(m.rows_i, m.rows_j, i0, j0, a.n, a.index, a.rows);
            __syncthreads();
            if (a.witness == nullptr) zeta = fetch_features<S>(a, m);
            __pipeline_commit();
            fetch<S>(m.xa, a.x, own_i, 0, head);
            fetch<S>(m.xb, a.x, own_j, 0, head);
            __pipeline_commit();
            __pipeline_wait_prior(1);
            __syncthreads();
            if (a.witness == nullptr)
                product_plain<S>(a, m, zeta, G);
            else
                read_witness<S>(a, i0, j0, G);
            if (!settled) {
                await_previous();
                load_constant(a, m);
                settled = true;
            }
            if (a.witness == nullptr) settle_tile<S>(a, m, i0, j0, G);
            __pipeline_wait_prior(0);
            __syncthreads();
            distances<S, CHUNK>(a, m, i0, j0, D);
#pragma unroll
            for (int i = 0; i < S::MI; i++)
#pragma unroll
                for (int j = 0; j < S::MJ; j++) G[i][j] *= gaussian(rate, D[i][j]);
            if (I == J) value += take_diagonal<S>(G);
            put_weights<S>(m, G);
            value += tile_value<S, real>(m, I == J);
            if (a.slots == nullptr) continue;
            target t = target_of(a, strip, I, J, TILE);
            t.rate = -2.0 / a.kernel_x.items[0].sigma2;
            spread_columns_of<S, CHUNK>(a, m, t, 0, d, d > CHUNK);
        }
    value = block_sum(value);
    if (threadIdx.x == 0) a.values[blockIdx.x] = value;
}

/* The weights of factor f's gradient from G and P = G o K. */
template <typename S, int CHUNK, typename real, typename M>
__device__ void factor_weights(const args<real> &a, M &m, const target &t, int f, const real (&G)[S::MI][S::MJ],
                               const real (&P)[S::MI][S::MJ], real (&W)[S::MI][S::MJ]) {
    const circe__cuda_factor &factor = a.kernel_x.items[f];
    in_order own_i = {t.i0, a.n}, own_j = {t.j0, a.n};
    if (factor.kind == LAPLACE) factor_sums<S, CHUNK>(factor, a.x, own_i, own_j, m.xa, m.xb, W);
    if (factor.kind == LINEAR) kernel_tile<S, CHUNK>(a.kernel_x, f, a.x, own_i, own_j, m.xa, m.xb, W);
#pragma unroll
    for (int i = 0; i < S::MI; i++)
#pragma unroll
        for (int j = 0; j < S::MJ; j++) {
            if (factor.kind == GAUSSIAN) W[i][j] = P[i][j];
            if (factor.kind == LAPLACE) W[i][j] = W[i][j] > 0 ? P[i][j] / sqrt(W[i][j]) : 0;
            if (factor.kind == LINEAR) W[i][j] *= G[i][j];
        }
}

template <typename real>
__device__ __forceinline__ double gradient_rate(const circe__cuda_factor &f) {
    if (f.kind == GAUSSIAN) return -2.0 / f.sigma2;
    return f.kind == LAPLACE ? -2.0 / sqrt(f.sigma2) : 2.0;
}

/* Both sides' slots to zero, all columns; factors add to them. */
template <typename S, typename real>
__device__ void clear_slots(const args<real> &a, const target &t) {
    int d = a.x.cols;
    for (int e = threadIdx.x; e < S::TILE * d; e += THREADS) {
        int r = e / d, c = e % d;
        if (t.first_i && t.i0 + r < a.n) a.slots[(t.slot_i * a.n + t.i0 + r) * d + c] = 0;
        if (t.first_j && t.i0 != t.j0 && t.j0 + r < a.n) a.slots[(t.slot_j * a.n + t.j0 + r) * d + c] = 0;
    }
    __syncthreads();
}

/* Any kernels: one evaluation of the kernel of x for each of its factors. */
template <typename real, int TILE, int CHUNK>
__global__ __launch_bounds__(THREADS) void contract_any(const __grid_constant__ args<real> a) {
    using S = shape<real, TILE>;
    extern __shared__ __align__(16) char shared[];
    auto &m = *reinterpret_cast<memory<real, TILE, CHUNK> *>(shared);
    int2 strip = pair_of(blockIdx.x);
    double value = 0;
    await_previous();
    load_constant(a, m);
    for (int I = strip.x * a.per_strip; I < min(a.tiles, (strip.x + 1) * a.per_strip); I++)
        for (int J = strip.y * a.per_strip; J < min(I + 1, (strip.y + 1) * a.per_strip); J++) {
            int64_t i0 = (int64_t)I * TILE, j0 = (int64_t)J * TILE;
            real G[S::MI][S::MJ], P[S::MI][S::MJ];
            __syncthreads();
            in_order own_i = {i0, a.n}, own_j = {j0, a.n};
            set_rows<TILE>(m.rows_i, m.rows_j, i0, j0, a.n, a.index, a.rows);
            __syncthreads();
            if (a.witness != nullptr) {
                read_witness<S>(a, i0, j0, G);
            } else {
                product_any<S>(a, m, G);
                settle_tile<S>(a, m, i0, j0, G);
            }
            kernel_tile<S, CHUNK>(a.kernel_x, -1, a.x, own_i, own_j, m.xa, m.xb, P);
#pragma unroll
            for (int i = 0; i < S::MI; i++)
#pragma unroll
                for (int j = 0; j < S::MJ; j++) P[i][j] *= G[i][j];
            if (I == J) value += take_diagonal<S>(P);
            put_weights<S>(m, P);
            value += tile_value<S, real>(m, I == J);
            if (a.slots == nullptr) continue;
            target t = target_of(a, strip, I, J, TILE);
            clear_slots<S>(a, t);
            t.first_i = t.first_j = false;
            for (int f = 0; f < a.kernel_x.n; f++) {
                const circe__cuda_factor &factor = a.kernel_x.items[f];
                real W[S::MI][S::MJ];
                if (factor.kind == DELTA) continue;
                factor_weights<S, CHUNK>(a, m, t, f, G, P, W);
                __syncthreads();
                put_weights<S>(m, W);
                t.rate = gradient_rate<real>(factor);
                t.linear = factor.kind == LINEAR;
                spread_columns_of<S, CHUNK>(a, m, t, factor.first_col, factor.n_cols, true);
                __syncthreads();
            }
        }
    value = block_sum(value);
    if (threadIdx.x == 0) a.values[blockIdx.x] = value;
}

/* ---- the end --------------------------------------------------------------------------------------------- */

template <typename real>
__global__ __launch_bounds__(THREADS) void collect_kernel(const __grid_constant__ args<real> a) {
    await_previous();
    int64_t d = a.x.cols, all = a.n * d;
    if (blockIdx.x == 0) {
        int pairs = a.strips * (a.strips + 1) / 2;
        double sum = 0;
        for (int p = threadIdx.x; p < pairs; p += THREADS) sum += a.values[p];
        sum = block_sum(sum);
        if (threadIdx.x == 0) *a.value = sum;
    }
    if (a.slots == nullptr) return;
    int64_t e = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (e >= all) return;
    double sum = 0;
#pragma unroll 8
    for (int s = 0; s < a.strips; s++) sum += (double)a.slots[s * all + e];
    a.grad[e / d * a.ld_grad + e % d] = (real)sum;
}

/* ---- launches -------------------------------------------------------------------------------------------- */

bool covers(const circe__cuda_kernel &k, int cols) {
    return k.n == 1 && k.items[0].kind == GAUSSIAN && k.items[0].first_col == 0 && k.items[0].n_cols == cols;
}

/* Whether the fast kernels serve: for the sums, and for the contraction. */
bool plain_sums(const circe__cuda_job &job) { return covers(job.kernel, job.points.cols); }
bool plain_contraction(const circe__cuda_job &job) {
    return (job.witness != nullptr || plain_sums(job)) && covers(job.kernel_x, job.x.cols);
}

/* Tiles that were measured to suit a size (docs/gpu.md): small ones fill the device, large ones do more with what they
 * fetch. The kernels for any kernel, and float64, have tiles of 32. */
int sums_tile(const circe__cuda_job &job) {
    if (job.double_precision || !plain_sums(job) || job.n <= 1024) return 32;
    return job.n <= 2048 || !job.large_tiles ? 64 : 128;
}
int contraction_tile(const circe__cuda_job &job) {
    if (job.double_precision || !plain_contraction(job) || job.n <= 512) return 32;
    return job.n <= 2048 || job.x.cols <= 16 || !job.large_tiles ? 64 : 128;
}

/* Pairs of tiles, and of strips of tiles. */
struct grid {
    int tile, tiles, per_strip, strips;
    int64_t pairs;
};

grid make_grid(int64_t n, int tile) {
    grid g = {};
    g.tile = tile;
    g.tiles = (int)((n + tile - 1) / tile);
    g.per_strip = (g.tiles + SLOTS - 1) / SLOTS;
    g.strips = (g.tiles + g.per_strip - 1) / g.per_strip;
    g.pairs = (int64_t)g.strips * (g.strips + 1) / 2;
    return g;
}

/* ---- columns less their means ------------------------------------------------------------------------------------ */

enum { EDGE = 32 };

/* A block has EDGE columns for itself. Means so large that they overflow are left alone. */
template <typename real>
__global__ __launch_bounds__(EDGE *EDGE) void center_kernel(points<real> from, int64_t n, real *to) {
    __shared__ double parts[EDGE][EDGE + 1];
    int x = threadIdx.x % EDGE, y = threadIdx.x / EDGE;
    int64_t c = (int64_t)blockIdx.x * EDGE + x;
    double mean = 0;
    for (int64_t i = y; i < n && c < from.cols; i += EDGE) mean += (double)from.data[i * from.ld + c];
    parts[y][x] = mean;
    __syncthreads();
    mean = 0;
    for (int k = 0; k < EDGE; k++) mean += parts[k][x];
    mean = isfinite(mean) ? mean / (double)n : 0;
    for (int64_t i = y; i < n && c < from.cols; i += EDGE)
        to[i * from.cols + c] = (real)((double)from.data[i * from.ld + c] - mean);
}

bool is_linear(const circe__cuda_kernel &kernel) { return kernel.n == 1 && kernel.items[0].kind == LINEAR; }

/* With sums the witness has no constants, so that it does not see the mean of a linear kernel's columns, whose squares
 * would take the digits of their spread (docs/math.md, 4). Of the points that holds where nothing but K is centred. */
bool centers_x(const circe__cuda_job &job) {
    return job.witness == nullptr && job.over_rows != 0 && is_linear(job.kernel_x);
}
bool centers_points(const circe__cuda_job &job) {
    return job.witness == nullptr && job.over_rows != 0 && job.zeta.cols == 0 && is_linear(job.kernel);
}

template <typename real>
cudaError_t center(points<real> *p, int64_t n, char *scratch, cudaStream_t stream) {
    real *to = reinterpret_cast<real *>(scratch);
    center_kernel<real><<<(unsigned)((p->cols + EDGE - 1) / EDGE), EDGE * EDGE, 0, stream>>>(*p, n, to);
    *p = {to, p->cols, p->cols};
    return cudaGetLastError();
}

/* Pieces of the scratch. */
struct layout {
    grid sum_grid, grid;
    int n_totals;
    size_t sums, row_shift, totals, values, slots, x, points, bytes;
};

size_t piece(layout *l, size_t bytes) {
    size_t at = l->bytes;
    l->bytes += (bytes + 255) / 256 * 256;
    return at;
}

template <typename real>
layout lay_out(const circe__cuda_job &job) {
    layout l = {};
    l.sum_grid = make_grid(job.n, sums_tile(job));
    l.grid = make_grid(job.n, contraction_tile(job));
    l.n_totals = (int)((job.n + SETTLE_THREADS - 1) / SETTLE_THREADS);
    if (job.over_rows != 0) {
        l.sums = piece(&l, (size_t)l.sum_grid.strips * job.n * sizeof(double));
        l.row_shift = piece(&l, job.n * sizeof(double));
        l.totals = piece(&l, l.n_totals * sizeof(double));
    }
    l.values = piece(&l, l.grid.pairs * sizeof(double));
    if (job.grad != nullptr) l.slots = piece(&l, (size_t)l.grid.strips * job.n * job.x.cols * sizeof(real));
    if (centers_x(job)) l.x = piece(&l, (size_t)job.n * job.x.cols * sizeof(real));
    if (centers_points(job)) l.points = piece(&l, (size_t)job.n * job.points.cols * sizeof(real));
    return l;
}

template <typename real>
points<real> as(const circe__cuda_points &p) {
    return {static_cast<const real *>(p.data), p.ld, p.cols};
}

template <typename real>
args<real> make_args(const circe__cuda_job &job, const layout &l, char *scratch) {
    args<real> a = {};
    a.n = job.n;
    a.tiles = l.grid.tiles;
    a.per_strip = l.grid.per_strip;
    a.strips = l.grid.strips;
    a.sum_strips = l.sum_grid.strips;
    a.witness = static_cast<const real *>(job.witness);
    a.ld_witness = job.ld_witness;
    a.kernel = job.kernel;
    a.y = as<real>(job.points);
    a.zeta = as<real>(job.zeta);
    a.index = job.index;
    a.rows = job.rows;
    a.scale = job.scale;
    a.over_rows = job.witness != nullptr ? 0 : job.over_rows;
    a.over_total = job.over_total;
    a.zero_diagonal = job.zero_diagonal;
    a.sums = reinterpret_cast<double *>(scratch + l.sums);
    a.row_shift = reinterpret_cast<double *>(scratch + l.row_shift);
    a.totals = reinterpret_cast<double *>(scratch + l.totals);
    a.n_totals = l.n_totals;
    a.kernel_x = job.kernel_x;
    a.x = as<real>(job.x);
    a.values = reinterpret_cast<double *>(scratch + l.values);
    a.slots = job.grad == nullptr ? nullptr : reinterpret_cast<real *>(scratch + l.slots);
    a.value = job.value;
    a.grad = static_cast<real *>(job.grad);
    a.ld_grad = job.ld_grad;
    return a;
}

/* `overlap`: may begin while the kernel before it ends; it waits itself. */
template <typename real>
cudaError_t launch(void (*kernel)(args<real>), int64_t blocks, int threads, size_t bytes, bool overlap,
                   const args<real> &a, cudaStream_t stream) {
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)blocks);
    config.blockDim = dim3((unsigned)threads);
    config.dynamicSmemBytes = bytes;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = overlap ? 1 : 0;
    return cudaLaunchKernelEx(&config, kernel, a);
}

/* A kernel that wants more shared memory than it gets by default says so once for each device. */
template <typename K>
cudaError_t allow(K *kernel, size_t bytes) {
    return cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                (int)bytes);
}

template <typename real>
struct chosen {
    void (*kernel)(args<real>);
    int threads;
    size_t bytes;
};

template <typename real, int TILE, int CHUNK, int BLOCK, int BLOCKS>
chosen<real> plain() {
    return {contract_kernel<real, TILE, CHUNK, BLOCK, BLOCKS>, BLOCK, sizeof(memory<real, TILE, CHUNK, BLOCK>)};
}

template <typename real, int TILE, bool PLAIN, int BLOCK, int BLOCKS>
chosen<real> sums() {
    return {sums_kernel<real, TILE, PLAIN, BLOCK, BLOCKS>, BLOCK, sizeof(memory<real, TILE, 1, BLOCK>)};
}

template <typename real>
chosen<real> sums_for(int tile, bool is_plain);
template <>
chosen<float> sums_for<float>(int tile, bool is_plain) {
    if (!is_plain) return sums<float, 32, false, 256, 4>();
    if (tile == 32) return sums<float, 32, true, 256, 4>();
    return tile == 64 ? sums<float, 64, true, 256, 4>() : sums<float, 128, true, 512, 1>();
}
template <>
chosen<double> sums_for<double>(int, bool is_plain) {
    return is_plain ? sums<double, 32, true, 256, 2>() : sums<double, 32, false, 256, 1>();
}

template <typename real>
chosen<real> contract_for(int tile, int cols, bool is_plain);
template <>
chosen<float> contract_for<float>(int tile, int cols, bool is_plain) {
    if (!is_plain) return {contract_any<float, 32, 64>, THREADS, sizeof(memory<float, 32, 64>)};
    if (tile == 32) return cols <= 16 ? plain<float, 32, 16, 256, 3>() : plain<float, 32, 64, 256, 3>();
    if (tile == 128) return plain<float, 128, 64, 512, 1>();
    return cols <= 16 ? plain<float, 64, 16, 256, 3>() : plain<float, 64, 64, 256, 3>();
}
template <>
chosen<double> contract_for<double>(int, int cols, bool is_plain) {
    if (!is_plain) return {contract_any<double, 32, 64>, THREADS, sizeof(memory<double, 32, 64>)};
    return cols <= 16 ? plain<double, 32, 16, 256, 2>() : plain<double, 32, 64, 256, 2>();
}

template <typename real>
cudaError_t run_sums(const circe__cuda_job &job, const layout &l, args<real> a, cudaStream_t stream, bool can_overlap) {
    chosen<real> kernel = sums_for<real>(l.sum_grid.tile, plain_sums(job));
    a.tiles = l.sum_grid.tiles;
    a.per_strip = l.sum_grid.per_strip;
    cudaError_t error = launch(kernel.kernel, l.sum_grid.pairs, kernel.threads, kernel.bytes, false, a, stream);
    return error != cudaSuccess ? error
                                : launch(settle_kernel<real>, l.n_totals, SETTLE_THREADS, 0, can_overlap, a, stream);
}

template <typename real>
cudaError_t run(const circe__cuda_job &job, char *scratch, cudaStream_t stream, bool can_overlap) {
    layout l = lay_out<real>(job);
    args<real> a = make_args<real>(job, l, scratch);
    bool summed = a.over_rows != 0;
    cudaError_t error = centers_x(job) ? center(&a.x, job.n, scratch + l.x, stream) : cudaSuccess;
    if (error == cudaSuccess && centers_points(job)) error = center(&a.y, job.n, scratch + l.points, stream);
    if (error == cudaSuccess && summed) error = run_sums(job, l, a, stream, can_overlap);
    chosen<real> contract = contract_for<real>(l.grid.tile, job.x.cols, plain_contraction(job));
    if (error == cudaSuccess)
        error =
            launch(contract.kernel, l.grid.pairs, contract.threads, contract.bytes, summed && can_overlap, a, stream);
    if (error != cudaSuccess) return error;
    int64_t blocks = job.grad == nullptr ? 1 : (job.n * job.x.cols + THREADS - 1) / THREADS;
    return launch(collect_kernel<real>, blocks, THREADS, 0, can_overlap, a, stream);
}

template <typename real>
cudaError_t allow_all(bool large_tiles) {
    cudaError_t error = cudaSuccess;
    for (int tile = 32; tile <= (large_tiles ? 128 : 64); tile *= 2)
        for (int k = 0; k < 4 && error == cudaSuccess; k++) {
            chosen<real> contract = contract_for<real>(tile, k % 2 ? 16 : 64, k / 2), sum = sums_for<real>(tile, k / 2);
            error = allow(contract.kernel, contract.bytes);
            if (error == cudaSuccess) error = allow(sum.kernel, sum.bytes);
        }
    return error;
}

static_assert(sizeof(memory<float, 128, 64, 512>) <= CIRCE__CUDA_LARGE_BYTES,
              "large tiles need more than is asked for");

}  // namespace circe

extern "C" size_t circe__cuda_job_bytes(const circe__cuda_job *job) {
    return job->double_precision ? circe::lay_out<double>(*job).bytes : circe::lay_out<float>(*job).bytes;
}

extern "C" int circe__cuda_job_launch(const circe__cuda_job *job, void *scratch, int overlap, void *stream) {
    char *at = static_cast<char *>(scratch);
    cudaStream_t in = static_cast<cudaStream_t>(stream);
    return (int)(job->double_precision ? circe::run<double>(*job, at, in, overlap)
                                       : circe::run<float>(*job, at, in, overlap));
}

extern "C" int circe__cuda_prepare(int large_tiles) {
    cudaError_t error = circe::allow_all<float>(large_tiles);
    return (int)(error == cudaSuccess ? circe::allow_all<double>(large_tiles) : error);
}
