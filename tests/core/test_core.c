/* The ground floor: status codes and texts, contexts, views, Philox numbers against published vectors, their moments
 * and orders, and the promise that a training step allocates nothing. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/cpu/blas_core.h"
#include "core/reuse.h"
#include "core/sort.h"
#include "core/threads.h"
#include "tests/support.h"

/* ---- status ------------------------------------------------------------------------------------------------------ */

static void status_texts(void **state) {
    (void)state;
#define CHECK(name, number, text)                                         \
    assert_int_equal(CIRCE_##name, number);                               \
    assert_string_equal(circe_status_name(CIRCE_##name), "CIRCE_" #name); \
    assert_string_equal(circe_status_text(CIRCE_##name), text);
    CIRCE_STATUS_MAP(CHECK)
#undef CHECK
    assert_string_equal(circe_status_name((circe_status)99), "CIRCE_UNKNOWN");
    assert_string_equal(circe_status_text((circe_status)-1), "unknown status");
    assert_int_equal(CIRCE_ERR_CANCELLED, 10); /* numbers never change their meaning */
}

static void names(void **state) {
    (void)state;
    assert_string_equal(circe_method_name(CIRCE_METHOD_AUTO), "auto");
    assert_string_equal(circe_method_name(CIRCE_METHOD_LOWRANK), "lowrank");
    assert_string_equal(circe_method_name(CIRCE_METHOD_DENSE), "dense");
    assert_string_equal(circe_method_name(CIRCE_METHOD_RFF), "rff");
    assert_string_equal(circe_method_name((circe_method)9), "unknown");
    assert_string_equal(circe_estimator_name(CIRCE_BIASED), "biased");
    assert_string_equal(circe_estimator_name(CIRCE_DEBIASED), "debiased");
    assert_string_equal(circe_estimator_name(CIRCE_CENTERED), "centered");
    assert_string_equal(circe_estimator_name(CIRCE_USTAT), "ustat");
    assert_string_equal(circe_estimator_name((circe_estimator)9), "unknown");
    assert_string_equal(circe_version(), CIRCE_VERSION_STRING);
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", CIRCE_VERSION_MAJOR, CIRCE_VERSION_MINOR, CIRCE_VERSION_PATCH);
    assert_string_equal(version, CIRCE_VERSION_STRING);
    assert_non_null(strstr(circe_build_info(), "BLAS "));
}

/* ---- instructions and BLAS ----------------------------------------------------------------------------------------
 */

static void instruction_sets(void **state) {
    (void)state;
    static const char *const names[] = {"baseline", "avx2", "avx512"};
    static const circe__processor needs[] = {CIRCE__BASELINE, CIRCE__AVX2, CIRCE__AVX512};
    circe_context *context = NULL;
    char *before = getenv("CIRCE_ISA") != NULL ? strdup(getenv("CIRCE_ISA")) : NULL;
    for (int i = 0; i < 3; i++) {
        setenv("CIRCE_ISA", names[i], 1);
        if (needs[i] <= circe__processor_level()) {
            assert_ok(circe_context_create(NULL, &context));
            assert_string_equal(circe_context_isa(context), names[i]);
            circe_context_destroy(context);
        } else if (circe_context_create(NULL, &context) !=
                   CIRCE_ERR_ARGUMENT) { /* no such loops on other architectures */
            assert_refused(circe_context_create(NULL, &context), CIRCE_ERR_UNSUPPORTED, "this processor lacks");
        }
    }
    setenv("CIRCE_ISA", "AVX2", 1);
    assert_refused(circe_context_create(NULL, &context), CIRCE_ERR_ARGUMENT, "CIRCE_ISA is 'AVX2'");
    assert_refused(circe_context_create(NULL, &context), CIRCE_ERR_ARGUMENT, "this machine has baseline");
    assert_null(context);
    setenv("CIRCE_ISA", "", 1); /* as good as unset */
    assert_ok(circe_context_create(NULL, &context));
    circe_context_destroy(context);
    unsetenv("CIRCE_ISA");
    if (before != NULL) setenv("CIRCE_ISA", before, 1);
    free(before);
}

static void blas_cores(void **state) {
    (void)state;
    assert_non_null(strstr(circe_blas_name(), "BL"));
    assert_non_null(circe_blas_core());
    assert_int_equal(circe__blas_core_level("Prescott"), CIRCE__BASELINE);
    assert_int_equal(circe__blas_core_level("Nehalem"), CIRCE__BASELINE);
    assert_int_equal(circe__blas_core_level("Sandybridge"), CIRCE__AVX);
    assert_int_equal(circe__blas_core_level("HASWELL"), CIRCE__AVX2);
    assert_int_equal(circe__blas_core_level("Zen"), CIRCE__AVX2);
    assert_int_equal(circe__blas_core_level("SkylakeX"), CIRCE__AVX512);
    assert_int_equal(circe__blas_core_level("a processor to come"), CIRCE__AVX512);
}

/* ---- contexts and views ------------------------------------------------------------------------------------------ */

static void contexts(void **state) {
    (void)state;
    circe_context *context = test_context(3);
    assert_int_equal(circe_context_threads(context), 3);
    const char *isa = circe_context_isa(context);
    assert_true(strcmp(isa, "avx512") == 0 || strcmp(isa, "avx2") == 0 || strcmp(isa, "baseline") == 0);
    assert_ok(circe_context_create(NULL, &context));
    assert_true(circe_context_threads(context) >= 1);
    circe_context_destroy(context);
    circe_context_destroy(NULL);

    circe_context_options options;
    circe_context_options_init(&options);
    options.threads = -1;
    context = (circe_context *)&options;
    assert_refused(circe_context_create(&options, &context), CIRCE_ERR_ARGUMENT, "threads is -1");
    assert_null(context);
    assert_refused(circe_context_create(NULL, NULL), CIRCE_ERR_ARGUMENT, "NULL");
    static test_allocator counter;
    circe_context_options_init(&options);
    options.allocator = test_counting(&counter);
    options.allocator.release = NULL;
    assert_refused(circe_context_create(&options, &context), CIRCE_ERR_ARGUMENT, "both allocate and release");
    assert_refused(circe_workspace_create(NULL, NULL), CIRCE_ERR_ARGUMENT, "NULL");
    circe_workspace_destroy(NULL);
}

static void views(void **state) {
    (void)state;
    float f[6] = {0};
    double d[6] = {0};
    circe_mat m = circe_mat_f32(f, 2, 3);
    assert_true(m.data == f && m.rows == 2 && m.cols == 3 && m.ld == 3 && m.dtype == CIRCE_FLOAT32);
    m = circe_mat_f64(d, 3, 2);
    assert_true(m.data == d && m.rows == 3 && m.cols == 2 && m.ld == 2 && m.dtype == CIRCE_FLOAT64);
    assert_int_equal(circe_dtype_size(CIRCE_FLOAT32), 4);
    assert_int_equal(circe_dtype_size(CIRCE_FLOAT64), 8);

    /* Views that lie about their size are refused before anything is read. */
    circe_context *context = test_context(1);
    circe_kernel *kernel = test_kernel(context, "gaussian(1)");
    circe_mat good = circe_mat_f64(d, 2, 1), out = circe_mat_f64(d, 2, 2), bad = good;
    bad.rows = INT64_MAX / 4;
    assert_refused(circe_gram(context, kernel, &bad, &good, &out), CIRCE_ERR_SHAPE, "too large");
    bad = good, bad.rows = 0;
    assert_refused(circe_gram(context, kernel, &bad, &good, &out), CIRCE_ERR_SHAPE, "at least 1 row");
    bad = good, bad.cols = -1;
    assert_refused(circe_gram(context, kernel, &bad, &good, &out), CIRCE_ERR_SHAPE, "one column");
    bad = good, bad.data = NULL;
    assert_refused(circe_gram(context, kernel, &bad, &good, &out), CIRCE_ERR_ARGUMENT, "NULL");
}

/* ---- Philox ------------------------------------------------------------------------------------------------------ */

/* Philox 4x32-10, written from the paper (Salmon et al., 2011). */
static void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t k0 = key[0], k1 = key[1], c[4];
    memcpy(c, counter, sizeof c);
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k0, (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ k1, (uint32_t)a};
        memcpy(c, next, sizeof c);
    }
    memcpy(out, c, 4 * sizeof *out);
}

/* The known answers that Random123 publishes, for the function above; then the library against it. */
static void philox_vectors(void **state) {
    static const struct {
        uint32_t counter[4], key[2], answer[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    (void)state;
    for (int64_t k = 0; k < COUNT(known); k++) {
        uint32_t out[4];
        philox(known[k].counter, known[k].key, out);
        assert_memory_equal(out, known[k].answer, sizeof out);
    }
    double pair[2];
    circe_random_uniform((circe_random){0, 0}, 0, 2, pair);
    assert_true(pair[0] == ((double)(0x6627e8d5e169c58du >> 11) + 0.5) * 0x1p-53);
    assert_true(pair[1] == ((double)(0xbc57ac4c9b00dbd8u >> 11) + 0.5) * 0x1p-53);

    static const uint64_t seeds[] = {0, 1, 0xffffffffffffffffu, 0x123456789abcdef0u};
    static const uint64_t positions[] = {0, 1, 2, 77, 0x1ffffffffu, 0x200000000u, 0xfffffffffffffffeu};
    for (int64_t s = 0; s < COUNT(seeds); s++)
        for (int64_t t = 0; t < COUNT(seeds); t++)
            for (int64_t p = 0; p < COUNT(positions); p++) {
                uint64_t block = positions[p] / 2;
                uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)seeds[t],
                                       (uint32_t)(seeds[t] >> 32)};
                uint32_t key[2] = {(uint32_t)seeds[s], (uint32_t)(seeds[s] >> 32)}, out[4];
                double u, normal;
                philox(counter, key, out);
                uint64_t high = (uint64_t)out[0] << 32 | out[1], low = (uint64_t)out[2] << 32 | out[3];
                double first = ((double)(high >> 11) + 0.5) * 0x1p-53, second = ((double)(low >> 11) + 0.5) * 0x1p-53;
                bool even = positions[p] % 2 == 0;
                circe_random_uniform((circe_random){seeds[s], seeds[t]}, positions[p], 1, &u);
                assert_true(u == (even ? first : second));
                circe_random_normal((circe_random){seeds[s], seeds[t]}, positions[p], 1, &normal);
                double radius = sqrt(-2.0 * log(first)), angle = 2.0 * acos(-1.0) * second;
                assert_near(normal, radius * (even ? cos(angle) : sin(angle)), 1e-14, radius);
            }
}

static void any_order(void **state) {
    (void)state;
    enum { N = 1000 };
    static double all[N], part[N];
    circe_random generator = {5, 6};
    circe_random_normal(generator, 0, N, all);
    for (int64_t first = 0; first < N; first += 37) {
        int64_t n = first + 37 < N ? 37 : N - first;
        circe_random_normal(generator, (uint64_t)first, n, part);
        assert_memory_equal(part, all + first, (size_t)n * sizeof *part);
    }
    for (int64_t from = 0; from < 3; from++) { /* by the vector, and one by one */
        circe_random_uniform(generator, (uint64_t)from, N, all);
        for (int64_t i = 0; i < N; i++) {
            circe_random_uniform(generator, (uint64_t)(from + i), 1, part);
            assert_true(part[0] == all[i]);
        }
    }
}

/* 200,000 numbers, fixed seed: each statistic within four standard errors. */
static void moments(void **state) {
    enum { N = 200000 };
    (void)state;
    double root = sqrt((double)N);
    for (uint64_t stream = 0; stream < 3; stream++) {
        circe_mat u = test_zeros(N, 1, CIRCE_FLOAT64), g = test_zeros(N, 1, CIRCE_FLOAT64);
        double *v = u.data, *w = g.data, m[5] = {0}, n[5] = {0}, lag_u = 0.0, lag_n = 0.0;
        circe_random_uniform((circe_random){1, stream}, 0, N, v);
        circe_random_normal((circe_random){1, stream}, 0, N, w);
        for (int64_t i = 0; i < N; i++) {
            assert_true(v[i] > 0.0 && v[i] < 1.0);
            for (int k = 1; k <= 4; k++) {
                m[k] += pow(v[i] - 0.5, k) / N;
                n[k] += pow(w[i], k) / N;
            }
            if (i > 0) lag_u += (v[i] - 0.5) * (v[i - 1] - 0.5) / N, lag_n += w[i] * w[i - 1] / N;
        }
        assert_near(m[1], 0.0, 4.0, sqrt(1.0 / 12.0) / root);
        assert_near(m[2], 1.0 / 12.0, 4.0, sqrt(1.0 / 180.0) / root);
        assert_near(m[4], 1.0 / 80.0, 4.0, sqrt(1.0 / 2304.0 - 1.0 / 6400.0) / root);
        assert_near(lag_u, 0.0, 4.0, 1.0 / 12.0 / root);
        assert_near(n[1], 0.0, 4.0, 1.0 / root);
        assert_near(n[2], 1.0, 4.0, sqrt(2.0) / root);
        assert_near(n[3], 0.0, 4.0, sqrt(15.0) / root);
        assert_near(n[4], 3.0, 4.0, sqrt(96.0) / root);
        assert_near(lag_n, 0.0, 4.0, 1.0 / root);
    }
}

/* Every element is everywhere equally often: counts over 6,000 draws within five standard errors. */
static void permutations_and_subsets(void **state) {
    enum { N = 12, K = 5, DRAWS = 6000 };
    (void)state;
    int64_t at[N][N] = {{0}}, in[N] = {0}, order[N], subset[K];
    for (uint64_t draw = 0; draw < DRAWS; draw++) {
        bool seen[N] = {false};
        circe_random_permutation((circe_random){2, draw}, N, order);
        for (int i = 0; i < N; i++) {
            assert_true(order[i] >= 0 && order[i] < N && !seen[order[i]]);
            seen[order[i]] = true;
            at[i][order[i]]++;
        }
        circe_random_subset((circe_random){3, draw}, N, K, subset);
        for (int i = 0; i < K; i++) {
            assert_true(subset[i] >= 0 && subset[i] < N && (i == 0 || subset[i] > subset[i - 1]));
            in[subset[i]]++;
        }
    }
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            double p = 1.0 / N;
            assert_near((double)at[i][j], DRAWS * p, 5.0, sqrt(DRAWS * p * (1.0 - p)));
        }
        double p = (double)K / N;
        assert_near((double)in[i], DRAWS * p, 5.0, sqrt(DRAWS * p * (1.0 - p)));
    }
    circe_random_subset((circe_random){4, 0}, N, N, order); /* all of them */
    for (int i = 0; i < N; i++) assert_int_equal(order[i], i);
    circe_random_permutation((circe_random){4, 0}, 1, order);
    assert_int_equal(order[0], 0);
}

/* ---- a training step allocates nothing --------------------------------------------------------------------------- */

typedef enum step_kind { RAW, CACHED, SPECTRAL } step_kind;

static void steps_without_allocation(circe_method method, int64_t rows, circe_dtype dtype, step_kind kind,
                                     bool outside) {
    enum { BATCH = 70, STEPS = 10, ALL = 400 };
    static const double ridge = 0.1;
    static test_allocator counter; /* teardown still releases through it */
    circe_context_options options;
    circe_context_options_init(&options);
    options.threads = 2;
    options.allocator = test_counting(&counter);
    circe_context *context = test_context_with(&options);
    circe_workspace *workspace = test_workspace(context);
    circe_mat y = test_normal(1, rows, 1), z = test_normal(2, rows, 1), all_y = test_normal(3, ALL, 1);
    circe_mat all_z = test_normal(4, ALL, 1), plain = test_normal(5, BATCH, 3);
    for (int64_t i = 0; i < ALL && outside; i++) test_set(&all_z, i, 0, 3.0 * test_at(&all_z, i, 0));
    circe_cme_options fit = test_options(method, &ridge);
    fit.rff_pool = fit.rff_batch = 16;
    fit.rff_every = 2;
    circe_cme *cme = test_fit(context, &y, &z, "gaussian(1)", "gaussian(1)", &fit);
    circe_kernel *kernel = test_kernel(context, "gaussian(1)");
    circe_features *features = kind == CACHED ? test_features(context, cme, &all_y, &all_z, dtype) : NULL;
    circe_mat x = test_copy(&plain, dtype), grad = test_zeros(BATCH, 3, dtype);
    int64_t index[STEPS][BATCH];
    circe_mat batch_y[STEPS], batch_z[STEPS];
    for (int64_t step = 0; step < STEPS; step++) { /* the same rows in another order: the same need of memory */
        circe_random_permutation((circe_random){9, (uint64_t)step}, BATCH, index[step]);
        batch_y[step] = test_rows(&all_y, index[step], BATCH);
        batch_z[step] = test_rows(&all_z, index[step], BATCH);
    }
    size_t bytes = 0;
    for (int64_t step = 0; step < STEPS; step++) {
        circe_estimator estimator = CIRCE_USTAT;
        double value = NAN;
        if (step == 1) {
            counter.calls = 0;
            bytes = circe_workspace_bytes(workspace);
            assert_true(bytes > 0);
        }
        if (method == CIRCE_METHOD_RFF) assert_ok(circe_cme_rff_step(cme, step));
        if (kind == CACHED)
            assert_ok(circe_measure_circe_cached(workspace, cme, features, index[step], BATCH, kernel, &x, estimator,
                                                 &value, &grad));
        else if (kind == RAW)
            assert_ok(circe_measure_circe(workspace, cme, kernel, &x, &batch_y[step], &batch_z[step], estimator, &value,
                                          &grad));
        else
            assert_ok(circe_measure_circe_spectral(workspace, cme, kernel, &x, &batch_y[step], &batch_z[step], &value,
                                                   &grad));
        assert_true(isfinite(value));
    }
    assert_int_equal(counter.calls, 0);
    assert_int_equal(circe_workspace_bytes(workspace), bytes);
}

static void training_allocates_nothing(void **state) {
    (void)state;
    for (circe_dtype dtype = CIRCE_FLOAT32; dtype <= CIRCE_FLOAT64; dtype++) {
        steps_without_allocation(CIRCE_METHOD_LOWRANK, 300, dtype, CACHED, false);
        steps_without_allocation(CIRCE_METHOD_LOWRANK, 300, dtype, CACHED, true);
        steps_without_allocation(CIRCE_METHOD_DENSE, 50, dtype, CACHED, true);
        steps_without_allocation(CIRCE_METHOD_LOWRANK, 300, dtype, RAW, false);
        steps_without_allocation(CIRCE_METHOD_LOWRANK, 300, dtype, RAW, true);
        steps_without_allocation(CIRCE_METHOD_DENSE, 50, dtype, RAW, true);
        steps_without_allocation(CIRCE_METHOD_DENSE, 600, dtype, RAW, true);
        steps_without_allocation(CIRCE_METHOD_RFF, 50, dtype, RAW, false);
        steps_without_allocation(CIRCE_METHOD_LOWRANK, 300, dtype, SPECTRAL, true);
    }
}

/* Everything goes through the caller's allocator, and comes back to it. */
static void allocator_is_used(void **state) {
    (void)state;
    static test_allocator counter;
    circe_context_options options;
    circe_context_options_init(&options);
    options.allocator = test_counting(&counter);
    circe_context *context = NULL;
    circe_kernel *kernel = NULL;
    circe_cme *cme = NULL;
    circe_mat y = test_normal(1, 40, 1), z = test_normal(2, 40, 1);
    assert_ok(circe_context_create(&options, &context));
    assert_ok(circe_kernel_create(context, CIRCE_KERNEL_GAUSSIAN, 1.0, &kernel));
    assert_ok(circe_cme_fit(context, &y, &z, kernel, kernel, NULL, &cme));
    assert_true(counter.calls > 20 && counter.live > 5);
    circe_cme_destroy(cme);
    circe_kernel_destroy(kernel);
    circe_context_destroy(context);
    assert_int_equal(counter.live, 0);
}

/* ---- work in parts ------------------------------------------------------------------------------------------------
 */

static circe_context *context_of(int threads) {
    circe_context_options options;
    circe_context *context = NULL;
    circe_context_options_init(&options);
    options.threads = threads;
    assert_ok(circe_context_create(&options, &context));
    return context;
}

/* More threads never change the number downwards, nor does more work. */
static void parts_by_work(void **state) {
    (void)state;
    static const int64_t totals[] = {0, 1, 100, 799, 1000, 10000, 100000, 10000000};
    int64_t before[8] = {0};
    for (int threads = 1; threads <= 64; threads++) {
        circe_context *context = context_of(threads);
        for (int i = 0; i < 8; i++) {
            int64_t parts = circe_context_parts(context, totals[i], 1000);
            assert_in_range(parts, 1, threads);
            assert_true(parts >= before[i]);
            assert_true(i == 0 || parts >= before[i - 1]);
            before[i] = parts;
        }
        assert_int_equal(circe_context_parts(context, 40, 1), threads < 40 ? threads : 40);
        circe_context_destroy(context);
    }
    assert_int_equal(before[3], 1); /* 4 microseconds: what a second thread would cost */
    assert_int_equal(before[4], 3);
    assert_int_equal(before[5], 10);
    assert_int_equal(before[7], 64);
}

static void count_part(void *user, int64_t part) {
    atomic_int *times = user;
    atomic_fetch_add(&times[part], 1);
}

/* Few parts, as many as threads, more than that, and more than the pool hands out one by one. */
static void every_part_once(void **state) {
    (void)state;
    enum { MOST = 20000 };
    static const int64_t counts[] = {1, 2, 3, 7, 64, 1000, 4099, MOST};
    atomic_int *times = calloc(MOST, sizeof *times);
    circe_context *context = context_of(4);
    assert_non_null(times);
    for (int round = 0; round < 50; round++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            circe_context_run(context, counts[i], count_part, times);
            for (int64_t part = 0; part < MOST; part++)
                if (atomic_exchange(&times[part], 0) != (part < counts[i])) fail_msg("part %d", (int)part);
        }
    circe_context_destroy(context);
    free(times);
}

typedef struct nest {
    const circe_context *context;
    atomic_int times[3][64], threads[3];
} nest;

typedef struct nested_part {
    nest *all;
    int64_t part;
} nested_part;

static void count_nested(void *user, int64_t part) {
    nested_part *p = user;
    atomic_fetch_add(&p->all->times[p->part][part], 1);
}

static void long_part(void *user, int64_t part) {
    nest *n = user;
    nested_part p = {n, part};
    atomic_store(&n->threads[part], circe__threads_bracketed());
    for (int k = 0; k < 50; k++) circe_context_run(n->context, 64, count_nested, &p);
}

static void beside_in_part(void *user, int64_t part) {
    (void)part;
    circe__run_beside(((nest *)user)->context, 3, long_part, user);
}

/* Parts beside each other divide their own work as if each were alone, every piece is done once, and within another
 * part they are cut as all work there is. */
static void parts_beside(void **state) {
    (void)state;
    static nest n;
    circe_context *context = test_context(4);
    n.context = context;
    for (int round = 0; round < 40; round++) {
        int previous = circe__threads_begin(context);
        memset(&n.times, 0, sizeof n.times);
        if (round % 2 == 0)
            circe__run_beside(context, 3, long_part, &n);
        else
            circe_context_run(context, 2, beside_in_part, &n);
        circe__threads_finish(previous, CIRCE_OK);
        for (int64_t part = 0; part < 3; part++) {
            assert_int_equal(n.threads[part], round % 2 == 0 ? 4 : 1);
            for (int k = 0; k < 64; k++) assert_int_equal(n.times[part][k], round % 2 == 0 ? 50 : 100);
        }
    }
    assert_false(circe__helping());
}

/* A subset is a function of the generator alone: drawn in stretches or one number at a time, by one thread or four. */
static void subsets_by_threads(void **state) {
    (void)state;
    enum { N = 600011, K = 40000 }; /* several stretches */
    static int64_t alone[K], together[K];
    circe_random generator = {5, 9};
    int64_t taken = 0;
    circe_random_subset(generator, N, K, alone);
    circe__random_subset(4, generator, N, K, together);
    assert_memory_equal(alone, together, sizeof alone);
    for (int64_t i = 0; i < N && taken < K; i++) {
        double u;
        circe_random_uniform(generator, (uint64_t)i, 1, &u);
        if (u * (double)(N - i) < (double)(K - taken)) assert_int_equal(alone[taken++], i);
    }
    assert_int_equal(taken, K);
}

/* Equal values keep their order, 0 and -0 are equal, and no number of digits in common leads astray. */
static void sorted_entries(void **state) {
    (void)state;
    enum { N = 5000 };
    static circe__entry entries[N], spare[N];
    static double values[N];
    const double few[] = {-0.0, 0.0, -HUGE_VAL, HUGE_VAL, 5e-324, -5e-324, 1.0, -1.0, 1e300};
    for (int kind = 0; kind < 3; kind++)
        for (int64_t n = 0; n <= N; n = n < 3 ? n + 1 : 5 * n / 2 + 1) {
            circe_random_normal((circe_random){(uint64_t)kind, 3}, 0, N, values);
            for (int64_t i = 0; i < n; i++) {
                if (kind == 1) values[i] = few[(uint64_t)(fabs(values[i]) * 1e6) % 9];
                if (kind == 2) values[i] = 1.0 + 1e-12 * floor(10.0 * values[i]); /* equal but for their last digits */
                entries[i] = (circe__entry){values[i], i};
            }
            circe__sort_entries(entries, spare, n);
            for (int64_t i = 0; i < n; i++) assert_true(entries[i].value == values[entries[i].row]);
            for (int64_t i = 1; i < n; i++) {
                const circe__entry *a = &entries[i - 1], *b = &entries[i];
                if (!(a->value < b->value || (a->value == b->value && a->row < b->row))) fail_msg("entry %d", (int)i);
            }
        }
}

/* Blocks of the default allocator hold what was asked for, and two that are in use never overlap. */
static void reused_blocks(void **state) {
    (void)state;
    enum { BLOCKS = 40, ROUNDS = 2000 };
    static struct {
        unsigned char *block, mark;
        size_t bytes;
    } held[BLOCKS];
    uint32_t random = 7;
    circe__reuse_begin();
    for (int round = 0; round < ROUNDS; round++) {
        random = random * 1664525u + 1013904223u;
        int k = (int)(random >> 8) % BLOCKS;
        for (size_t e = 0; held[k].block != NULL && e < held[k].bytes; e += 4096)
            assert_int_equal(held[k].block[e], held[k].mark);
        if (held[k].block != NULL) circe__release_default(NULL, held[k].block);
        held[k].bytes = 1 + (size_t)(random >> 10) % 300000;
        held[k].mark = (unsigned char)round;
        held[k].block = circe__allocate_default(NULL, held[k].bytes);
        assert_non_null(held[k].block);
        memset(held[k].block, held[k].mark, held[k].bytes);
        if (round == ROUNDS / 2) { /* what is in use stays when the store shrinks */
            circe__reuse_end();
            circe__reuse_begin();
        }
    }
    for (int k = 0; k < BLOCKS; k++) circe__release_default(NULL, held[k].block);
    circe__reuse_end();
}

/* A child of fork takes nothing from the store, whose list may have been copied in the middle of a change. */
static void a_child_has_no_blocks(void **state) {
    (void)state;
    enum { BYTES = 100000 };
    int status = -1;
    test_context(1); /* from then on forks are seen */
    circe__reuse_begin();
    void *stored = circe__allocate_default(NULL, BYTES);
    circe__release_default(NULL, stored);
    pid_t child = fork();
    if (child == 0) {
        circe__reuse_begin();
        void *block = circe__allocate_default(NULL, BYTES);
        bool own = block != NULL && block != stored;
        circe__release_default(NULL, block);
        circe__reuse_end();
        circe__reuse_end(); /* the parent's, as of a test in which a program forks */
        _exit(own ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    circe__reuse_end();
    assert_int_equal(status, 0);
}

/* Where memory is short, the store gives its blocks back before an allocation fails. */
static void stored_blocks_are_given_back(void **state) {
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    test_skip("a limit of the address space leaves no room for the shadow of a sanitizer");
#else
    enum { MEGABYTE = 1 << 20 };
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        long pages = 0;
        circe__reuse_begin();
        circe__release_default(NULL, circe__allocate_default(NULL, 64 * MEGABYTE));
        FILE *file = fopen("/proc/self/statm", "r");
        bool read = file != NULL && fscanf(file, "%ld", &pages) == 1;
        rlim_t bytes = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + 32 * MEGABYTE;
        if (!read || setrlimit(RLIMIT_AS, &(struct rlimit){bytes, bytes}) != 0) _exit(2);
        _exit(circe__allocate_default(NULL, 80 * MEGABYTE) != NULL ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
#endif
}

TEST_MAIN("core", TEST(a_child_has_no_blocks), TEST(stored_blocks_are_given_back), TEST(status_texts), TEST(names),
          TEST(instruction_sets), TEST(blas_cores), TEST(contexts), TEST(views), TEST(philox_vectors), TEST(any_order),
          TEST(moments), TEST(permutations_and_subsets), TEST(training_allocates_nothing), TEST(allocator_is_used),
          TEST(parts_by_work), TEST(every_part_once), TEST(parts_beside), TEST(subsets_by_threads),
          TEST(sorted_entries), TEST(reused_blocks))
