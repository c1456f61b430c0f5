/* What the kernels share for convolutions that halve images: 3 by 3, stride 2, a border of 1.
 *
 *     out (n, o, h/2, w/2)    y, x    = sum over c, ky, kx of W (o, c, ky, kx) in (c, 2y + ky - 1, 2x + kx - 1)
 *
 * All of them are limited by multiplications and by reading shared memory, so a thread has four points side by side (a
 * quad) and several channels, and reads four numbers at once. A line of input lies in shared memory as its odd columns
 * and its even ones: then the factors of a quad for kx = 0, 1, 2 are four neighbours each, odd[x-1 ..], even[x ..] and
 * odd[x ..]. A block has a tile of quads: whole lines of one image, or whole images. */
#pragma once

#include "train/cuda/common.cuh"

enum { TAPS = 9, LANES = 32, WARPS = 4, BLOCK = WARPS * LANES, QUAD = 4 };
enum { MOST_SHARED = 55 * 1024 }; /* bytes: four blocks on a multiprocessor of sm_90 */

/* Quads of output that a block has at once; quads of a line are a power of two, so that a warp has whole lines. */
struct tiling {
    int in_line, in_image; /* quads of a line, of an image in the tile */
    int rows, images;      /* lines of output, whole images if all of them */
    int strips;            /* tiles of an image */
    int64_t tiles;
    divider by_line, by_image; /* quads */
};

static tiling tile_quads(cuda_window w, int quads) {
    tiling t = {};
    t.in_line = w.out_width / QUAD;
    t.rows = quads / t.in_line < w.out_height ? quads / t.in_line : w.out_height;
    t.in_image = t.rows * t.in_line;
    t.images = t.rows == w.out_height ? quads / t.in_image : 1;
    t.strips = (w.out_height + t.rows - 1) / t.rows;
    t.tiles = t.strips > 1 ? w.rows * t.strips : (w.rows + t.images - 1) / t.images;
    t.by_line = divide_by(t.in_line);
    t.by_image = divide_by(t.in_image);
    return t;
}

/* Where a tile begins, and how much of it there is. */
struct corner {
    int64_t image;
    int row, images;
};

static __device__ inline corner corner_of(const cuda_window &w, const tiling &t, int64_t tile) {
    corner c;
    c.image = t.strips > 1 ? tile / t.strips : tile * t.images;
    c.row = t.strips > 1 ? (int)(tile % t.strips) * t.rows : 0;
    c.images = (int)(w.rows - c.image < t.images ? w.rows - c.image : t.images);
    return c;
}

/* A quad of the tile. Of those that are not there, `valid` is false and the rest is that of the first. */
struct place {
    int image, row, column; /* column: in quads */
    bool valid;
};

static __device__ inline place place_of(const cuda_window &w, const tiling &t, const corner &at, int quad) {
    place p;
    p.valid = quad < t.images * t.in_image;
    if (!p.valid) quad = 0;
    p.image = t.by_image.quotient(quad);
    quad -= p.image * t.in_image;
    p.row = t.by_line.quotient(quad);
    p.column = quad - p.row * t.in_line;
    p.valid = p.valid && p.image < at.images && at.row + p.row < w.out_height;
    return p;
}

/* Lines of input in shared memory: numbers from line to line, channel to channel, image to image, and where in a line
 * its odd and even columns begin. */
struct lines {
    int line, plane, image, odd, even;
};

/* put(fetch(e)) for the block's e below n, AT_ONCE a thread: all of them are on their way from memory before the first
 * is put. Left to itself the compiler waits for each, since each may be outside of the image. */
template <int AT_ONCE, typename F, typename P>
static __device__ inline void bring_at_once(int n, F fetch, P put) {
    for (int e = threadIdx.x; e < n; e += AT_ONCE * BLOCK) {
        decltype(fetch(0)) items[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) items[k] = fetch(e + k * BLOCK < n ? e + k * BLOCK : e);
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
            if (e + k * BLOCK < n) put(items[k]);
    }
}

/* A number, and four, on their way to a place in shared memory. */
struct one_number {
    float v;
    int to;
};
struct four_numbers {
    float4 v;
    int to;
};
/* The gradient at an output and the output. */
struct four_pairs {
    float4 g, out;
    int to;
};

/* Divisions for bringing (images, channels, lines, width / 4). */
struct bring_by {
    divider fours, lines, channels;
};

/* Factors as the tensor units take them: rounded to 11 bits, ties away from zero; NaN stays NaN. */
static __device__ inline float to_tf32(float x) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return __uint_as_float(bits);
}
static __device__ inline float4 to_tf32(float4 v) { return {to_tf32(v.x), to_tf32(v.y), to_tf32(v.z), to_tf32(v.w)}; }

/* to := the lines of input that a tile needs, of channels [first, first + channels); zeros where there are none. */
template <bool TF32 = false>
static __device__ inline void bring_lines(const cuda_window &w, const tiling &t, const corner &at, const lines &l,
                                          const bring_by &by, int first, int channels, const float *in, float *to) {
    int fours = w.width / 4, n_lines = 2 * t.rows + 1, top = 2 * at.row - 1, n = t.images * channels * n_lines * fours;
    int there = w.channels - first;
    const float *from = in + (at.image * w.channels + first) * w.height * w.width;
    auto fetch = [&](int e) {
        int line = by.fours.quotient(e), k = e - line * fours, plane = by.lines.quotient(line);
        line -= plane * n_lines;
        int image = by.channels.quotient(plane), channel = plane - image * channels, y = top + line;
        four_numbers item = {{0.0f, 0.0f, 0.0f, 0.0f}, image * l.image + channel * l.plane + line * l.line + 2 * k};
        if (image < at.images && channel < there && y >= 0 && y < w.height)
            item.v = *(const float4 *)(from + ((int64_t)image * w.channels + channel) * w.height * w.width +
                                       y * w.width + 4 * k);
        return item;
    };
    bring_at_once<TF32 ? 8 : 4>(n, fetch, [&](const four_numbers &item) {
        float4 v = item.v;
        if (TF32) v = to_tf32(v);
        *(float2 *)(to + item.to + l.odd) = {v.y, v.w};
        *(float2 *)(to + item.to + l.even) = {v.x, v.z};
    });
}

static inline bring_by bring_divisions(cuda_window w, tiling t, int channels) {
    return {divide_by(w.width / 4), divide_by(2 * t.rows + 1), divide_by(channels)};
}

/* The first number not below this one that lies in this of the 32 banks. */
static inline int up_to_bank(int numbers, int bank) { return numbers + (bank - numbers % 32 + 32) % 32; }

/* ---- the gradient before the activation, g ----------------------------------------------------------------------- */

/* A quad of g, (row, 4 quad ..) of a plane; zeros where it is not there. */
static __device__ inline four_pairs pairs_at(const cuda_window &w, const cuda_shown &s, bool there, int64_t plane,
                                             int row, int quad, int to) {
    four_pairs p = {{0.0f, 0.0f, 0.0f, 0.0f}, {0.0f, 0.0f, 0.0f, 0.0f}, to};
    int64_t at = (plane * w.out_height + row) * w.out_width + QUAD * quad;
    if (there) p.g = *(const float4 *)(s.grad + at);
    if (there && s.f.kind != 0) p.out = *(const float4 *)(s.out + at);
    return p;
}

static __device__ inline float4 unbent(cuda_bend f, const four_pairs &p) {
    if (f.kind == 0) return p.g;
    return {bend_back(f, p.out.x, p.g.x), bend_back(f, p.out.y, p.g.y), bend_back(f, p.out.z, p.g.z),
            bend_back(f, p.out.w, p.g.w)};
}

/* With a pool behind the activation: its two windows of the quads (2 line, quad) and (2 line + 1, quad). */
struct two_windows {
    float2 g, out;
    uchar2 taken;
    int to;
};

static __device__ inline two_windows windows_at(const cuda_window &w, const cuda_shown &s, bool there, int64_t plane,
                                                int line, int quad, int to) {
    two_windows p = {{0.0f, 0.0f}, {0.0f, 0.0f}, {0, 0}, to};
    if (!there) return p;
    int64_t at = (plane * (w.out_height / 2) + line) * (w.out_width / 2) + 2 * quad;
    p.g = *(const float2 *)(s.grad + at);
    p.out = *(const float2 *)(s.out + at);
    p.taken = *(const uchar2 *)(s.taken + at);
    return p;
}

/* The upper quad and the lower one. */
static __device__ inline void unpool(cuda_bend f, const two_windows &p, float4 &upper, float4 &lower) {
    float left = bend_back(f, p.out.x, p.g.x), right = bend_back(f, p.out.y, p.g.y);
    int a = p.taken.x, b = p.taken.y;
    upper = {a == 0 ? left : 0.0f, a == 1 ? left : 0.0f, b == 0 ? right : 0.0f, b == 1 ? right : 0.0f};
    lower = {a == 2 ? left : 0.0f, a == 3 ? left : 0.0f, b == 2 ? right : 0.0f, b == 3 ? right : 0.0f};
}

/* to (chunk, images, rows + 1, line) := g of outputs [first, ..) of the plan p of a kernel; zeros where there are none.
 * Of `l`, odd and even mean nothing. */
template <bool POOLED, bool TF32, typename P>
static __device__ inline void bring_grad_lines(const P &p, const lines &l, const corner &at, const cuda_shown &s,
                                               int first, float *to) {
    const cuda_window &w = p.w;
    int n_lines = POOLED ? p.t.rows / 2 + 1 : p.t.rows + 1, n = p.chunk * p.t.images * n_lines * p.t.in_line;
    auto fetch = [&](int e) {
        int line = p.by_line.quotient(e), k = e - line * p.t.in_line, part = p.by_rows.quotient(line);
        line -= part * n_lines;
        int output = p.by_images.quotient(part), image = part - output * p.t.images, row = POOLED ? 2 * line : line;
        bool there = image < at.images && first + output < w.outputs && at.row + row < w.out_height;
        int64_t plane = (at.image + image) * w.outputs + first + output;
        int place = output * l.plane + image * l.image + row * l.line + QUAD * k;
        if constexpr (POOLED)
            return windows_at(w, s, there, plane, at.row / 2 + line, k, row < p.t.rows ? place : -1 - place);
        else
            return pairs_at(w, s, there, plane, at.row + row, k, place);
    };
    auto put = [&](int place, float4 v) { *(float4 *)(to + place) = TF32 ? to_tf32(v) : v; };
    bring_at_once<3>(n, fetch, [&](const auto &item) {
        if constexpr (POOLED) { /* of the last line of a tile, the upper quad alone: the sign says so */
            float4 upper, lower;
            unpool(s.f, item, upper, lower);
            put(item.to < 0 ? -1 - item.to : item.to, upper);
            if (item.to >= 0) put(item.to + l.line, lower);
        } else {
            put(item.to, unbent(s.f, item));
        }
    });
}

/* ---- the pool behind the activation ------------------------------------------------------------------------------ */

struct largest {
    float value;
    int at;
};

static __device__ inline void compare(largest &most, float value, int at) {
    if (!(most.value >= value || isnan(most.value))) most = {value, at};
}

/* The first of the largest; NaN is larger than any number. */
static __device__ inline largest largest_of(float a, float b, float c, float d) {
    largest most = {a, 0};
    compare(most, b, 1);
    compare(most, c, 2);
    compare(most, d, 3);
    return most;
}
