/* Several ranks train one network, each with a share of the rows, and end with what one alone ends with: on the CPU
 * and, where there is one, with all of them on one GPU. The ranks are threads here, which meet in shared memory; over
 * MPI, tests/cli has them.
 *
 * Sums over ranks are rounded otherwise: some 1e-7 in each of 20 steps, more where AdamW divides by a small number. */
#include <pthread.h>

#include "tests/train/trainer_support.h"

enum { RANKS = 2 };

/* ---- ranks that are threads -------------------------------------------------------------------------------------- */

static pthread_barrier_t meeting;
static _Thread_local int me;
static const void *shown[RANKS], *more[RANKS];

/* What all show, until `part`. */
static void show(const void *first, const void *second) {
    shown[me] = first;
    more[me] = second;
    pthread_barrier_wait(&meeting);
}

static void part(void) { pthread_barrier_wait(&meeting); }

static circe_status agree(circe_status status, char *text) {
    circe_status first = CIRCE_OK;
    char words[TRAIN_RANKS_TEXT] = "";
    show(&status, text);
    for (int k = RANKS - 1; k >= 0; k--) {
        circe_status its = *(const circe_status *)shown[k];
        if (its == CIRCE_OK) continue;
        first = its;
        snprintf(words, sizeof words, "%s", (const char *)more[k]);
    }
    part();
    memcpy(text, words, sizeof words);
    return first;
}

static void give_up(circe_status status, const char *text) {
    print_error("a rank gave up: %s (%d)\n", text, (int)status);
    abort();
}

static void broadcast(void *data, size_t bytes) {
    show(data, NULL);
    if (me > 0) memcpy(data, shown[0], bytes);
    part();
}

static double number_of(const void *values, int64_t i, int floats) {
    return floats ? (double)((const float *)values)[i] : ((const double *)values)[i];
}

static void sum_weighted(void *values, int64_t n, int floats, double weight) {
    double *sums = calloc((size_t)n + 1, sizeof *sums);
    show(values, &weight);
    for (int k = 0; k < RANKS; k++)
        for (int64_t i = 0; i < n; i++) sums[i] += *(const double *)more[k] * number_of(shown[k], i, floats);
    part();
    for (int64_t i = 0; i < n; i++)
        if (floats)
            ((float *)values)[i] = (float)sums[i];
        else
            ((double *)values)[i] = sums[i];
    free(sums);
}

static void sum(double *values, int64_t n) { sum_weighted(values, n, 0, 1.0); }

static void sum_of(void *unused, void *values, int64_t n, int floats) {
    (void)unused;
    sum_weighted(values, n, floats, 1.0);
}

static void sum_integers(uint64_t *values, int64_t n) {
    uint64_t sums[8] = {0};
    show(values, NULL);
    for (int k = 0; k < RANKS; k++)
        for (int64_t i = 0; i < n; i++) sums[i] += ((const uint64_t *)shown[k])[i];
    part();
    memcpy(values, sums, (size_t)n * sizeof *sums);
}

static void gather(const void *own, const size_t *bytes, void *everyones) {
    char *to = everyones;
    show(own, NULL);
    for (int k = 0; k < RANKS; to += bytes[k], k++) memcpy(to, shown[k], bytes[k]);
    part();
}

static void exchange(const void *out, const size_t *out_bytes, void *in, const size_t *in_bytes) {
    char *to = in;
    show(out, out_bytes);
    for (int k = 0; k < RANKS; to += in_bytes[k], k++) {
        const char *from = shown[k];
        for (int before = 0; before < me; before++) from += ((const size_t *)more[k])[before];
        memcpy(to, from, in_bytes[k]);
    }
    part();
}

static void nothing(void) {}

static train_ranks rank_of(int rank) {
    return (train_ranks){.rank = rank,
                         .size = RANKS,
                         .agree = agree,
                         .give_up = give_up,
                         .broadcast = broadcast,
                         .sum = sum,
                         .sum_of = sum_of,
                         .sum_integers = sum_integers,
                         .gather = gather,
                         .exchange = exchange,
                         .sum_begin = sum_weighted,
                         .sum_move = nothing,
                         .sum_end = nothing};
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

typedef struct runner {
    int rank;
    objects o;
    train_options options;
    circe_status status;
    char text[256];
    train_result result;
} runner;

static void *run_rank(void *user) {
    runner *r = user;
    me = r->rank;
    r->status = train_run(r->o.network, r->o.regularizer, &r->o.data, &r->o.validation, &r->options, &r->result);
    snprintf(r->text, sizeof r->text, "%s", r->status != CIRCE_OK ? circe_last_error() : "");
    return NULL;
}

/* The objects of make(), with the network on a GPU. */
static objects make_on(const problem *p, bool gpu) {
    objects o = make(p);
    train_layer_spec *specs = NULL;
    int64_t n = 0;
    if (!gpu) return o;
    train_network_destroy(o.network);
    train_device_destroy(o.device);
    train_ok(train_device_cuda(o.context, 0, &o.device));
    train_ok(train_network_parse(p->net, p->activation, p->outputs, &specs, &n));
    train_ok(train_network_create(o.device, (train_shape){1, {INPUTS}}, specs, n, p->options.batch, &o.network));
    train_ok(train_network_initialise(o.network, TRAIN_START_HE, 7));
    free(specs);
    return o;
}

static void slice(train_data *data, int rank) {
    int64_t n = 0, first = train_ranks_slice(data->target.rows, rank, RANKS, &n);
    circe_mat features = circe_mat_f32(features_of(data) + first * INPUTS, n, INPUTS);
    circe_mat *const mats[] = {&data->target, &data->y, &data->z};
    data->features = train_source_floats(&features);
    for (int m = 0; m < 3; m++) {
        mats[m]->data = (char *)mats[m]->data + (size_t)(first * mats[m]->ld) * circe_dtype_size(mats[m]->dtype);
        mats[m]->rows = n;
    }
}

static void run_together(const problem *p, bool gpu, runner runs[RANKS]) {
    static train_ranks ranks[RANKS];
    pthread_t threads[RANKS];
    assert_int_equal(pthread_barrier_init(&meeting, NULL, RANKS), 0);
    for (int k = 0; k < RANKS; k++) {
        runs[k] = (runner){.rank = k, .o = make_on(p, gpu), .options = p->options};
        ranks[k] = rank_of(k);
        runs[k].options.ranks = &ranks[k];
        slice(&runs[k].o.data, k);
    }
    for (int k = 0; k < RANKS; k++) assert_int_equal(pthread_create(&threads[k], NULL, run_rank, &runs[k]), 0);
    for (int k = 0; k < RANKS; k++) pthread_join(threads[k], NULL);
    pthread_barrier_destroy(&meeting);
}

static void assert_like(const float *got, const float *wanted, int64_t n) {
    double most = 0.0, off = 0.0;
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)wanted[i]));
        off = fmax(off, fabs((double)got[i] - (double)wanted[i]));
    }
    if (off > 2e-4 * most) fail_msg("parameters are off by %.2g of the largest", off / most);
}

static void together_as_alone(bool gpu) {
    static const circe_measure_kind kinds[] = {CIRCE_MEASURE_NONE, CIRCE_MEASURE_CIRCE, CIRCE_MEASURE_HSCIC};
    for (int64_t c = 0; c < COUNT(kinds); c++) {
        problem p = small_problem(kinds[c]);
        runner runs[RANKS];
        objects alone = make_on(&p, gpu);
        train_result result = {0};
        train_ok(train_run(alone.network, alone.regularizer, &alone.data, &alone.validation, &p.options, &result));
        int64_t n = train_network_n_params(alone.network);
        float *wanted = params_of(&alone), *first = NULL;
        run_together(&p, gpu, runs);
        for (int k = 0; k < RANKS; k++) {
            if (runs[k].status != CIRCE_OK) fail_msg("rank %d: %s", k, runs[k].text);
            float *got = params_of(&runs[k].o);
            assert_like(got, wanted, n);
            assert_int_equal(runs[k].result.steps_done, result.steps_done);
            for (int64_t e = 0; e < result.epochs_done; e++) {
                double loss = runs[k].result.history[e].loss, checked = runs[k].result.history[e].validation_loss;
                assert_true(fabs(loss - result.history[e].loss) <= 1e-4 * fabs(result.history[e].loss));
                assert_true(fabs(checked - result.history[e].validation_loss) <= 1e-3 * fabs(checked));
            }
            if (k == 0) first = got;
            assert_true(same_bits(got, first, (size_t)n * sizeof *got));
            train_result_free(&runs[k].result);
            drop(&runs[k].o);
        }
        train_result_free(&result);
        drop(&alone);
    }
}

static void on_cpus(void **state) {
    (void)state;
    together_as_alone(false);
}

static void on_a_gpu(void **state) {
    train_device *device = NULL;
    (void)state;
    if (train_device_cuda(test_context(1), 0, &device) != CIRCE_OK) test_skip("no NVIDIA GPU (%s)", circe_last_error());
    train_device_destroy(device);
    together_as_alone(true);
}

TEST_MAIN("gpu_ranks", cmocka_unit_test(on_cpus), cmocka_unit_test(on_a_gpu))
