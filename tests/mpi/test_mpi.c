/* Several processes: run alone, and by mpirun with 2 and 4 (tests/CMakeLists.txt). What launchers leave in the
 * environment; sums, gathers, messages and agreement, in shared memory and by MPI alone; fits over ranks against those
 * of one process; what is refused, by all and with one text.
 *
 * Collective calls come first in a test and comparisons after them, at rank 0: a failure leaves no rank waiting. */
#include <time.h>

#include "core/hash.h"
#include "mpi/mpi_fit.h"
#include "mpi/ranks.h"
#include "tests/support.h"

/* ---- launchers --------------------------------------------------------------------------------------------------- */

static const char *const launcher_names[] = {
    "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE",     "PMI_RANK", "PMIX_RANK",
    "SLURM_STEP_NUM_TASKS", "SLURM_PROCID",         "CIRCE_CLUSTER"};

static void launchers_are_seen(void **state) {
    static const struct {
        const char *environment[6]; /* names and values */
        const char *by;
        int rank, size;
        bool without;
    } cases[] = {
        {{NULL}, NULL, 0, 0, false},
        {{"OMPI_COMM_WORLD_SIZE", "4", "OMPI_COMM_WORLD_RANK", "3"}, "mpirun", 3, 4, false},
        {{"PMI_SIZE", "8", "PMI_RANK", "0"}, "mpiexec", 0, 8, false},
        {{"PMI_SIZE", "eight", "PMI_RANK", "0"}, NULL, 0, 0, false},
        {{"PMIX_RANK", "2", "SLURM_STEP_NUM_TASKS", "5", "SLURM_PROCID", "2"}, "srun", 2, 5, false},
        {{"PMIX_RANK", "1"}, "mpirun", 1, 0, false},
        {{"SLURM_STEP_NUM_TASKS", "3", "SLURM_PROCID", "1"}, "srun", 1, 3, true},
        {{"SLURM_STEP_NUM_TASKS", "1", "SLURM_PROCID", "0"}, NULL, 0, 0, false}, /* one task is one process */
        {{"SLURM_PROCID", "0"}, NULL, 0, 0, false},                              /* a batch script */
        {{"OMPI_COMM_WORLD_SIZE", "4", "OMPI_COMM_WORLD_RANK", "3", "CIRCE_CLUSTER", "off"}, NULL, 0, 0, false},
    };
    char *saved[COUNT(launcher_names)];
    (void)state;
    for (int64_t i = 0; i < COUNT(launcher_names); i++) {
        const char *value = getenv(launcher_names[i]);
        saved[i] = value != NULL ? strdup(value) : NULL;
    }
    for (int64_t k = 0; k < COUNT(cases); k++) {
        for (int64_t i = 0; i < COUNT(launcher_names); i++) unsetenv(launcher_names[i]);
        for (int i = 0; i < 6 && cases[k].environment[i] != NULL; i += 2)
            setenv(cases[k].environment[i], cases[k].environment[i + 1], 1);
        ranks_launch launch = ranks_launched();
        assert_int_equal(launch.by == NULL, cases[k].by == NULL);
        if (launch.by != NULL) assert_string_equal(launch.by, cases[k].by);
        assert_int_equal(launch.rank, cases[k].rank);
        assert_int_equal(launch.size, cases[k].size);
        assert_int_equal(launch.without, cases[k].without);
    }
    for (int64_t i = 0; i < COUNT(launcher_names); i++) {
        unsetenv(launcher_names[i]);
        if (saved[i] != NULL) setenv(launcher_names[i], saved[i], 1);
        free(saved[i]);
    }
}

/* ---- together ---------------------------------------------------------------------------------------------------- */

static void ranks_add_up(void **state) {
    int size = ranks_size(), rank = ranks_rank(), numbers[64] = {0}, own = 10 * rank;
    double values[] = {1.0, rank, 0.5 * rank};
    char word[] = "rank-";
    (void)state;
    assert_true(size <= 64);
    word[4] = (char)('0' + rank);
    ranks_sum(values, 3);
    ranks_gather(&own, sizeof own, numbers);
    ranks_broadcast(size - 1, word, sizeof word);
    assert_true(values[0] == size && values[1] == size * (size - 1) / 2 && values[2] == 0.25 * size * (size - 1));
    for (int i = 0; i < size; i++) assert_int_equal(numbers[i], 10 * i);
    assert_int_equal(word[4], '0' + size - 1);
    assert_true(ranks_neighbours() >= 1 && ranks_neighbours() <= size && ranks_cores() >= 1);
}

/* Every rank sends a message to the next, one of a length that MPI does not send eagerly; all send before any reads. */
static void messages_arrive(void **state) {
    enum { LONG = 1 << 20 };
    const ranks_engine *engine = ranks_engine_used();
    int size = ranks_size(), rank = ranks_rank(), from = -1;
    size_t bytes = 0;
    (void)state;
    if (engine == NULL) test_skip("one process, not started by mpirun");
    char *sent = test_memory(LONG), *got = test_memory(LONG);
    for (int i = 0; i < LONG; i++) sent[i] = (char)(i * 7 + rank);
    engine->send((rank + 1) % size, sent, LONG);
    memset(sent, 0, LONG); /* it was copied */
    while (!engine->waiting(&from, &bytes)) continue;
    engine->receive(from, got, bytes);
    assert_int_equal(from, (rank + size - 1) % size);
    assert_int_equal(bytes, LONG);
    for (int i = 0; i < LONG; i++) assert_int_equal(got[i], (char)(i * 7 + from));
}

/* ---- sums of the training loop ------------------------------------------------------------------------------------
 */

/* Ranks come at different times, in another order in every call. */
static void dawdle(int64_t call) {
    struct timespec time = {0, 100000 + 50000 * ranks_rank()};
    if ((call * 7 + ranks_rank() * 3) % 5 == 0) nanosleep(&time, NULL);
}

/* Number i of a rank's part in a call: of many digits, so that the order of a sum is seen in its bits. */
static double part(int rank, int64_t call, int64_t i) {
    return 1.0 / (1.0 + (double)((i * 31 + call * 17 + rank * 1009) % 7919)) - 0.01 * rank;
}

static double weight_of(int rank, int64_t call) { return call % 3 == 0 ? 1.0 : 0.25 + 0.3 * rank; }

/* Rank 0 plus rank 1 plus rank 2 ..., each step rounded. */
static double sum_in_order(int64_t call, int64_t i, bool floats) {
    volatile float low = 0.0f, low_part;
    volatile double high = 0.0, high_part;
    for (int k = 0; k < ranks_size(); k++) {
        low_part = (float)weight_of(k, call) * (float)part(k, call, i);
        high_part = weight_of(k, call) * part(k, call, i);
        low = k == 0 ? low_part : low + low_part;
        high = k == 0 ? high_part : high + high_part;
    }
    return floats ? low : high;
}

static bool same_machine(void) {
    const char *how = getenv("CIRCE_CLUSTER");
    return ranks_neighbours() == ranks_size() && (how == NULL || strcmp(how, "messages") != 0);
}

/* Numbers that are not the sum: on one machine to the bit, else, where the order is MPI's, to rounding. */
static int64_t wrong_sums(int64_t call, int64_t n, bool floats, const void *values) {
    int64_t wrong = 0;
    for (int64_t i = 0; i < n; i++) {
        double due = sum_in_order(call, i, floats);
        double got = floats ? ((const float *)values)[i] : ((const double *)values)[i];
        double error = fabs(got - due), allowed = same_machine() ? 0.0 : (floats ? 1e-6 : 1e-14);
        wrong += !(error <= allowed * 4.0);
    }
    return wrong;
}

static void *parts_of(int64_t call, int64_t n, bool floats) {
    double *values = test_zeros(n, 1, CIRCE_FLOAT64).data;
    for (int64_t i = 0; i < n; i++) {
        double value = part(ranks_rank(), call, i);
        if (floats)
            ((float *)values)[i] = (float)value;
        else
            values[i] = value;
    }
    return values;
}

/* Of every length around what goes at a time, and of one beyond all that is shared; three at once, and in the middle a
 * gather, which must not overtake them. */
static void sums_under_way_arrive(void **state) {
    static const int64_t lengths[] = {1, 7, 1000, 2048, 2049, 8192, 16384, 16385, 40001, 300007};
    const ranks_engine *engine = ranks_engine_used();
    size_t bytes[64];
    int64_t wrong = 0;
    (void)state;
    if (engine == NULL) test_skip("one process, not started by mpirun");
    for (int k = 0; k < ranks_size(); k++) bytes[k] = sizeof(int64_t);
    for (int64_t l = 0, call = 0; l < COUNT(lengths); l++, call += 3) {
        bool floats[3] = {l % 2 == 0, l % 2 != 0, true};
        int64_t n[3] = {lengths[l], lengths[(l + 3) % COUNT(lengths)], 64 + l}, everyones[64];
        void *values[3];
        for (int s = 0; s < 3; s++) {
            values[s] = parts_of(call + s, n[s], floats[s]);
            dawdle(call + s);
            engine->sum_begin(values[s], n[s], floats[s], weight_of(ranks_rank(), call + s));
            engine->sums_move();
            if (s == 1) engine->gather_parts(&call, bytes, everyones);
        }
        engine->sums_end();
        for (int s = 0; s < 3; s++) wrong += wrong_sums(call + s, n[s], floats[s], values[s]);
        for (int k = 0; k < ranks_size(); k++) wrong += everyones[k] != call;
    }
    assert_int_equal(wrong, 0);
}

/* Thousands of calls one after the other, each with other numbers: nothing of an earlier one is left, and nobody is
 * overtaken. */
static void small_sums_follow_each_other(void **state) {
    enum { CALLS = 3000, MOST = 5 };
    const ranks_engine *engine = ranks_engine_used();
    int64_t wrong = 0;
    (void)state;
    if (engine == NULL) test_skip("one process, not started by mpirun");
    for (int64_t call = 0; call < CALLS; call++) {
        double values[MOST], due[MOST] = {0};
        int64_t n = 1 + call % MOST;
        for (int64_t i = 0; i < n; i++) values[i] = (double)(call * (i + 1) * (ranks_rank() + 1));
        for (int k = 0; k < ranks_size(); k++)
            for (int64_t i = 0; i < n; i++) due[i] += (double)(call * (i + 1) * (k + 1));
        if (call % 97 == 0) dawdle(call / 97);
        engine->sum_quickly(values, n, false);
        for (int64_t i = 0; i < n; i++) wrong += values[i] != due[i];
    }
    assert_int_equal(wrong, 0);
}

/* Parts of different lengths: none of the first rank, a little, more than goes at a time; then one rank's to all. */
static void parts_are_put_together(void **state) {
    static const size_t units[] = {1, 1000, 70001, 300000};
    const ranks_engine *engine = ranks_engine_used();
    size_t bytes[64], wrong = 0;
    (void)state;
    if (engine == NULL) test_skip("one process, not started by mpirun");
    for (int64_t u = 0; u < COUNT(units); u++) {
        size_t all = 0, at = 0;
        for (int k = 0; k < ranks_size(); k++) all += bytes[k] = (size_t)k * units[u];
        size_t mine = bytes[ranks_rank()];
        char *own = test_memory(mine + 1), *got = test_memory(all + 1);
        for (size_t i = 0; i < mine; i++) own[i] = (char)(i * 7 + (size_t)ranks_rank() * 31 + (size_t)u);
        dawdle(u);
        engine->gather_parts(own, bytes, got);
        memset(own, 0, mine); /* it was copied */
        for (int k = 0; k < ranks_size(); at += bytes[k++])
            for (size_t i = 0; i < bytes[k]; i++) wrong += got[at + i] != (char)(i * 7 + (size_t)k * 31 + (size_t)u);
        for (size_t i = 0; i < all; i++) got[i] = (char)(ranks_rank() == 1 ? i * 11 : 0);
        engine->broadcast(1, got, all);
        for (size_t i = 0; i < all; i++) wrong += got[i] != (char)(i * 11);
    }
    assert_int_equal(wrong, 0);
}

/* The first rank that fails decides, and all have its words. */
static void together_agree(void **state) {
    int last = ranks_size() - 1;
    double one = 1.0, other = ranks_rank() == last && last > 0 ? 2.0 : 1.0;
    (void)state;
    assert_ok(ranks_agree(CIRCE_OK));
    assert_ok(ranks_same(&one, sizeof one, "the number"));
    circe_status status = ranks_same(&other, sizeof other, "the number");
    if (last == 0) {
        assert_int_equal(status, CIRCE_OK);
        return;
    }
    char begin[32];
    snprintf(begin, sizeof begin, "rank %d on ", last);
    assert_refused(status, CIRCE_ERR_VALUE, "the number differs from that of rank 0");
    assert_int_equal(strncmp(circe_last_error(), begin, strlen(begin)), 0);
}

static void hashes_tell_apart(void **state) {
    char a[40] = {0}, b[40] = {0};
    (void)state;
    uint64_t all = circe__hash_bytes(0, a, sizeof a);
    assert_true(circe__hash_bytes(0, b, sizeof b) == all);
    for (size_t i = 0; i < sizeof b; i++) {
        b[i] = 1;
        assert_false(circe__hash_bytes(0, b, sizeof b) == all);
        b[i] = 0;
        assert_false(circe__hash_bytes(0, a, i) == all); /* zeros count */
    }
}

/* ---- spectra ------------------------------------------------------------------------------------------------------
 */

typedef double entry_fn(int64_t i, int64_t j);

static double smooth_entry(int64_t i, int64_t j) { return exp(-1e-4 * (double)((i - j) * (i - j))); }
static double rough_entry(int64_t i, int64_t j) { return sin((double)(i * j + i + j)); }
static double groups_entry(int64_t i, int64_t j) { return i / 9 == j / 9 ? 1.0 : 0.0; }
/* Off the diagonal, squares are not normal numbers, then zeros. */
static double faint_entry(int64_t i, int64_t j) {
    return i == j ? 1.0 + (double)(i % 3) : 1e-161 * (double)(1 + (i + j) % 7);
}
static double nothing_entry(int64_t i, int64_t j) { return 0.0 * (double)(i + j); }

static double *numbers(int64_t n) { return test_zeros(n + 1, 1, CIRCE_FLOAT64).data; }

static int64_t dealt_to(int64_t n, int64_t block, int mine, int all) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) count += i / block % all == mine;
    return count;
}

static ranks_matrix spread(const ranks_grid *grid, int64_t n, int64_t block, entry_fn *entry) {
    ranks_matrix m = {.rows = n, .cols = n, .block = block};
    m.local_rows = dealt_to(n, block, grid->row, grid->rows);
    m.local_cols = dealt_to(n, block, grid->col, grid->cols);
    m.data = numbers(m.local_rows * m.local_cols);
    for (int64_t k = 0; k < m.local_rows * m.local_cols; k++) {
        int64_t r = k % m.local_rows, c = k / m.local_rows;
        int64_t i = (r / block * grid->rows + grid->row) * block + r % block;
        int64_t j = (c / block * grid->cols + grid->col) * block + c % block;
        m.data[k] = entry(i, j);
    }
    return m;
}

static void run_parts(const void *user, int64_t parts, circe_part_fn run, void *argument) {
    circe_context_run(user, parts, run, argument);
}

/* Over all ranks: the largest of |A U - U diag(s)|, of |U'U - I|, and of s where it descends. */
static double spectrum_error(int grid_rows, int64_t n, int64_t block, entry_fn *entry) {
    const ranks_engine *engine = ranks_engine_used();
    const ranks_workers workers = {.threads = 3, .run = run_parts, .user = test_context(3)};
    ranks_grid grid;
    engine->grid_open(grid_rows, ranks_size() / grid_rows, &grid);
    ranks_matrix A = spread(&grid, n, block, entry), lost = spread(&grid, n, block, entry);
    ranks_matrix U = spread(&grid, n, block, nothing_entry), AU = spread(&grid, n, block, nothing_entry);
    ranks_matrix UU = spread(&grid, n, block, nothing_entry);
    int64_t doubles = 0, ints = 0;
    double *s = numbers(n), worst = 0.0, everyones[64] = {0};
    int problem = engine->eigen_work(&grid, &workers, &lost, &U, &doubles, &ints);
    double *work = numbers(doubles);
    int *iwork = (int *)numbers(ints);
    if (problem == 0) problem = engine->eigen(&grid, &workers, &lost, s, &U, work, doubles, iwork, ints);
    engine->multiply(&grid, false, &A, &U, &AU);
    engine->multiply(&grid, true, &U, &U, &UU);
    for (int64_t k = 0; k < U.local_rows * U.local_cols; k++) {
        int64_t r = k % U.local_rows, c = k / U.local_rows;
        int64_t i = (r / block * grid.rows + grid.row) * block + r % block;
        int64_t j = (c / block * grid.cols + grid.col) * block + c % block;
        worst = fmax(worst, fabs(AU.data[k] - s[j] * U.data[k]));
        worst = fmax(worst, fabs(UU.data[k] - (i == j)));
    }
    for (int64_t k = 1; k < n; k++) worst = fmax(worst, s[k - 1] - s[k]);
    if (problem != 0) worst = 1e300;
    engine->grid_close(&grid);
    engine->gather(&worst, sizeof worst, everyones);
    for (int k = 0; k < ranks_size(); k++) worst = fmax(worst, everyones[k]);
    return worst;
}

/* Sizes around the panels of 32 and blocks that leave a rest, on every grid there is; matrices that need reflections,
 * that have pieces which need none, and that are all but diagonal. Rounding is 1e-16 times n and a norm below 200. */
static void spectra_are_right(void **state) {
    static entry_fn *const entries[] = {smooth_entry, rough_entry, groups_entry, faint_entry};
    static const int64_t sizes[][2] = {{8, 1},   {64, 16},  {131, 32},
                                       {200, 7}, {333, 64}, {640, 64}}; /* the last on several threads */
    double errors[COUNT(entries) * COUNT(sizes)] = {0};
    (void)state;
    if (ranks_engine_used() == NULL || ranks_size() == 1) return;
    for (int rows = 1; rows <= ranks_size(); rows++)
        for (int64_t k = 0; ranks_size() % rows == 0 && k < COUNT(errors); k++)
            errors[k] = fmax(errors[k], spectrum_error(rows, sizes[k / COUNT(entries)][0], sizes[k / COUNT(entries)][1],
                                                       entries[k % COUNT(entries)]));
    for (int64_t k = 0; k < COUNT(errors); k++)
        if (ranks_rank() == 0) assert_near(errors[k], 0.0, 1e-11, 1.0);
}

/* ---- fits -------------------------------------------------------------------------------------------------------- */

typedef struct data {
    circe_mat y, z;
} data;

static data smooth_data(uint64_t stream, int64_t rows, int64_t dim_y, int64_t dim_z) {
    data d = {test_normal(stream, rows, dim_y), test_normal(stream + 1, rows, dim_z)};
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < dim_z; c++)
            test_set(&d.z, i, c, sin(1.5 * test_at(&d.y, i, c % dim_y)) + 0.5 * test_at(&d.z, i, c));
    return d;
}

typedef struct fit_case {
    circe_method method;
    const char *kernel_y, *kernel_z;
    int64_t rows, dim_y, dim_z;
    double ridge;     /* 0: the grid */
    double tolerance; /* of the results */
    circe_method solver;
} fit_case;

/* Models that describe themselves alike and give the same residuals on other points. Both work in float64 with the same
 * pivots; what they sum in another order differs by 1e-16 a term, times the condition of K + ridge I, below 1e6 here.
 */
static void assert_same_model(circe_context *context, const circe_cme *ours, const circe_cme *alone, const data *batch,
                              double tolerance) {
    circe_cme_info a, b;
    circe_loo_table table_a, table_b;
    assert_ok(circe_cme_get_info(ours, &a));
    assert_ok(circe_cme_get_info(alone, &b));
    assert_ok(circe_cme_get_loo(ours, &table_a));
    assert_ok(circe_cme_get_loo(alone, &table_b));
    assert_int_equal(a.method, b.method);
    assert_int_equal(a.solver, b.solver);
    assert_int_equal(a.rank_y, b.rank_y);
    assert_int_equal(a.rank_z, b.rank_z);
    assert_true(a.sigma2_y == b.sigma2_y);
    assert_near(a.ridge, b.ridge, 1e-8, b.ridge);
    assert_near(a.ridge_safe, b.ridge_safe, 1e-8, b.ridge_safe);
    assert_near(a.loo_error, b.loo_error, tolerance, b.loo_error);
    /* what is left of the trace is a difference of close numbers, of which the last digits are rounding */
    assert_near(a.trace_residual_y, b.trace_residual_y, 1e-3, b.trace_residual_y + 1e-13);
    assert_near(a.trace_residual_z, b.trace_residual_z, 1e-3, b.trace_residual_z + 1e-13);
    assert_int_equal(a.ridge_raised, b.ridge_raised);
    assert_int_equal(table_a.n_sigma2_y, table_b.n_sigma2_y);
    for (int64_t i = 0; i < table_b.n_sigma2_y * table_b.n_ridge; i++)
        assert_near(table_a.error[i], table_b.error[i], tolerance, table_b.error[i]);
    assert_string_equal(circe_kernel_text(circe_cme_kernel_y(ours)), circe_kernel_text(circe_cme_kernel_y(alone)));
    circe_workspace *workspace = test_workspace(context);
    circe_mat K_a = test_zeros(batch->y.rows, batch->y.rows, CIRCE_FLOAT64);
    circe_mat K_b = test_zeros(batch->y.rows, batch->y.rows, CIRCE_FLOAT64);
    assert_ok(circe_residual_gram(workspace, ours, &batch->y, &batch->z, &K_a));
    assert_ok(circe_residual_gram(workspace, alone, &batch->y, &batch->z, &K_b));
    assert_mat_near(&K_a, &K_b, tolerance);
}

static void check_fit_with(const fit_case *c, uint64_t stream, const double *weights) {
    circe_context *context = test_context(1);
    data holdout = smooth_data(stream, c->rows, c->dim_y, c->dim_z),
         batch = smooth_data(stream + 50, 40, c->dim_y, c->dim_z);
    circe_cme_options options;
    circe_cme *ours = NULL;
    circe_cme_options_init(&options);
    options.method = c->method;
    if (c->ridge > 0) options.ridge = &c->ridge, options.n_ridge = 1;
    options.weights = weights;
    circe_status status = ranks_fit(context, &holdout.y, &holdout.z, test_kernel(context, c->kernel_y),
                                    test_kernel(context, c->kernel_z), &options, &ours);
    assert_ok(status);
    if (ranks_rank() > 0) {
        assert_null(ours);
        return;
    }
    circe_cme *alone = test_fit(context, &holdout.y, &holdout.z, c->kernel_y, c->kernel_z, &options);
    circe_cme_info info;
    assert_ok(circe_cme_get_info(ours, &info));
    assert_int_equal(info.solver, c->solver);
    assert_same_model(context, ours, alone, &batch, c->tolerance);
    circe_cme_destroy(ours);
}

static void check_fit(const fit_case *c, uint64_t stream) { check_fit_with(c, stream, NULL); }

#define FIT_TEST(name, ...)                      \
    static void name(void **state) {             \
        static const fit_case c = {__VA_ARGS__}; \
        (void)state;                             \
        check_fit(&c, (uint64_t)(__LINE__)*100); \
    }

FIT_TEST(dense_grid_is_the_same, CIRCE_METHOD_DENSE, "gaussian", "gaussian(0.5)", 700, 2, 1, 0, 1e-8,
         CIRCE_METHOD_DENSE)
FIT_TEST(dense_many_features_are_the_same, CIRCE_METHOD_DENSE, "laplace(1)", "gaussian(2)", 650, 3, 2, 0, 1e-8,
         CIRCE_METHOD_DENSE)
FIT_TEST(one_ridge_is_the_same, CIRCE_METHOD_DENSE, "gaussian(0.5)", "gaussian(0.5)", 777, 2, 1, 0.1, 1e-8,
         CIRCE_METHOD_DENSE)
FIT_TEST(one_ridge_over_widths_is_the_same, CIRCE_METHOD_DENSE, "gaussian", "gaussian(0.5)", 600, 1, 1, 1.0, 1e-8,
         CIRCE_METHOD_DENSE)
FIT_TEST(an_unsafe_ridge_is_raised_alike, CIRCE_METHOD_DENSE, "gaussian(5)", "gaussian(0.5)", 600, 1, 1, 1e-11, 1e-3,
         CIRCE_METHOD_DENSE)
FIT_TEST(low_rank_is_the_same, CIRCE_METHOD_LOWRANK, "gaussian(0.5)", "gaussian(0.5)", 3000, 1, 1, 0, 1e-8,
         CIRCE_METHOD_LOWRANK)
FIT_TEST(low_rank_beyond_candidates_is_the_same, CIRCE_METHOD_LOWRANK, "gaussian(1)", "gaussian(1)", 20000, 1, 1, 0,
         1e-8, CIRCE_METHOD_LOWRANK)
FIT_TEST(full_rank_of_z_is_the_same, CIRCE_METHOD_LOWRANK, "gaussian(1)", "laplace(1)", 900, 1, 2, 0, 1e-8,
         CIRCE_METHOD_LOWRANK)
FIT_TEST(auto_falls_back_alike, CIRCE_METHOD_AUTO, "laplace(1)", "gaussian(2)", 800, 2, 1, 1.0, 1e-8,
         CIRCE_METHOD_DENSE)
FIT_TEST(small_fits_are_the_same, CIRCE_METHOD_AUTO, "gaussian", "gaussian(0.5)", 300, 1, 1, 0, 1e-8,
         CIRCE_METHOD_DENSE)
FIT_TEST(random_features_are_the_same, CIRCE_METHOD_RFF, "gaussian(1)", "gaussian(1)", 1200, 1, 1, 0.5, 1e-8,
         CIRCE_METHOD_LOWRANK)

/* Rows of weight 0 are left out first, and leave as few as one process fits alone in the last case but one. */
static void weighted_fits_are_the_same(void **state) {
    static const fit_case cases[] = {
        {CIRCE_METHOD_DENSE, "gaussian", "gaussian(0.5)", 800, 2, 1, 0, 1e-8, CIRCE_METHOD_DENSE},
        {CIRCE_METHOD_DENSE, "gaussian(0.5)", "gaussian(0.5)", 777, 2, 1, 0.1, 1e-8, CIRCE_METHOD_DENSE},
        {CIRCE_METHOD_LOWRANK, "gaussian(0.5)", "gaussian(0.5)", 3000, 1, 1, 0, 1e-8, CIRCE_METHOD_LOWRANK},
        {CIRCE_METHOD_AUTO, "gaussian", "gaussian(0.5)", 600, 1, 1, 0, 1e-8, CIRCE_METHOD_DENSE},
        {CIRCE_METHOD_RFF, "gaussian(1)", "gaussian(1)", 1200, 1, 1, 0.5, 1e-8, CIRCE_METHOD_LOWRANK}};
    (void)state;
    for (int64_t k = 0; k < COUNT(cases); k++) {
        double *weights = test_memory((size_t)cases[k].rows * sizeof *weights);
        for (int64_t i = 0; i < cases[k].rows; i++) weights[i] = i % 5 == 2 ? 0.0 : 0.1 + (double)(i * i % 7);
        check_fit_with(&cases[k], 900 + (uint64_t)k, weights);
    }
}

/* Every block that a fit over ranks takes is given back, in every rank. */
static void fits_give_memory_back(void **state) {
    static const circe_method methods[] = {CIRCE_METHOD_DENSE, CIRCE_METHOD_DENSE, CIRCE_METHOD_LOWRANK};
    static const double ridge = 1.0;
    test_allocator counter = {.fail_at = -1};
    circe_context_options options;
    data d = smooth_data(3, 600, 1, 1);
    (void)state;
    circe_context_options_init(&options);
    options.threads = 1;
    options.allocator = test_counting(&counter);
    circe_context *context = test_context_with(&options);
    circe_kernel *kernel_y = test_kernel(context, "gaussian"), *kernel_z = test_kernel(context, "gaussian(1)");
    int64_t before = counter.live;
    for (int64_t i = 0; i < COUNT(methods); i++) {
        circe_cme_options of;
        circe_cme *cme = NULL;
        circe_cme_options_init(&of);
        of.method = methods[i];
        if (i == 1) of.ridge = &ridge, of.n_ridge = 1;
        assert_ok(ranks_fit(context, &d.y, &d.z, kernel_y, kernel_z, &of, &cme));
        circe_cme_destroy(cme);
        assert_int_equal(counter.live, before);
    }
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */

/* One number of one rank is another. */
static void other_data_are_refused(void **state) {
    circe_context *context = test_context(1);
    data d = smooth_data(1, 600, 1, 1);
    circe_cme *cme = NULL;
    (void)state;
    if (ranks_size() == 1) test_skip("one process, not started by mpirun");
    if (ranks_rank() == 1) test_set(&d.z, 599, 0, 0.25);
    circe_status status = ranks_fit(context, &d.y, &d.z, test_kernel(context, "gaussian"),
                                    test_kernel(context, "gaussian(1)"), NULL, &cme);
    assert_refused(status, CIRCE_ERR_VALUE, "rank 1 on ");
    assert_refused(status, CIRCE_ERR_VALUE, "the data of z differs from that of rank 0");
    assert_null(cme);
}

/* Of one rank another weight, or none at all. */
static void other_weights_are_refused(void **state) {
    circe_context *context = test_context(1);
    data d = smooth_data(1, 600, 1, 1);
    circe_cme *cme = NULL;
    double weights[600];
    (void)state;
    if (ranks_size() == 1) test_skip("one process, not started by mpirun");
    for (int k = 0; k < 2; k++) {
        circe_cme_options options;
        circe_cme_options_init(&options);
        for (int64_t i = 0; i < 600; i++) weights[i] = 1.0 + (double)(i % 3);
        if (ranks_rank() == 1) weights[7] = 5.0;
        options.weights = k == 1 && ranks_rank() == 1 ? NULL : weights;
        circe_status status = ranks_fit(context, &d.y, &d.z, test_kernel(context, "gaussian"),
                                        test_kernel(context, "gaussian(1)"), &options, &cme);
        assert_refused(status, CIRCE_ERR_VALUE, "the data of the weights differs from that of rank 0");
        assert_null(cme);
    }
}

static void more_ranks_than_rows_are_refused(void **state) {
    circe_context *context = test_context(1);
    data d = smooth_data(1, ranks_size() - 1, 1, 1);
    circe_cme *cme = NULL;
    (void)state;
    if (ranks_size() == 1) test_skip("one process, not started by mpirun");
    if (ranks_size() < 4) test_skip("fewer than 4 processes");
    assert_refused(ranks_fit(context, &d.y, &d.z, test_kernel(context, "gaussian"), test_kernel(context, "gaussian(1)"),
                             NULL, &cme),
                   CIRCE_ERR_ARGUMENT, "3 rows cannot be divided among 4 ranks; start at most 3");
}

/* Of one rank alone: all give up, and say why. */
static void one_rank_without_memory_stops_all(void **state) {
    circe_context_options options;
    data d = smooth_data(1, 2000, 1, 1);
    circe_cme_options dense;
    circe_cme *cme = NULL;
    (void)state;
    if (ranks_size() == 1) test_skip("one process, not started by mpirun");
    circe_context_options_init(&options);
    options.threads = 1;
    if (ranks_rank() == 1) options.memory_limit = 40 << 20;
    circe_context *context = test_context_with(&options);
    circe_cme_options_init(&dense);
    dense.method = CIRCE_METHOD_DENSE;
    circe_status status = ranks_fit(context, &d.y, &d.z, test_kernel(context, "gaussian"),
                                    test_kernel(context, "gaussian(1)"), &dense, &cme);
    assert_refused(status, CIRCE_ERR_MEMORY, "rank 1 on ");
    assert_null(cme);
}

static int stop_at_once(void *user, const char *stage, int64_t done, int64_t total) {
    (void)stage, (void)done, (void)total;
    return *(int *)user;
}

/* A signal reaches one rank: all stop, at the same place. */
static void one_rank_cancels_all(void **state) {
    static const circe_method methods[] = {CIRCE_METHOD_DENSE, CIRCE_METHOD_LOWRANK};
    static const int64_t rows[] = {700, 5000}; /* of low rank, a block for every rank */
    int stop = ranks_rank() == ranks_size() - 1;
    circe_context_options options;
    (void)state;
    circe_context_options_init(&options);
    options.threads = 1;
    options.progress = stop_at_once;
    options.progress_user = &stop;
    circe_context *context = test_context_with(&options);
    for (int64_t i = 0; i < COUNT(methods); i++) {
        data d = smooth_data(1, rows[i], 1, 1);
        circe_cme_options of;
        circe_cme *cme = NULL;
        circe_cme_options_init(&of);
        of.method = methods[i];
        assert_int_equal(ranks_fit(context, &d.y, &d.z, test_kernel(context, "gaussian"),
                                   test_kernel(context, "gaussian(1)"), &of, &cme),
                         CIRCE_ERR_CANCELLED);
        assert_null(cme);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(ranks_add_up),
                                       TEST(messages_arrive),
                                       TEST(sums_under_way_arrive),
                                       TEST(small_sums_follow_each_other),
                                       TEST(parts_are_put_together),
                                       TEST(together_agree),
                                       TEST(hashes_tell_apart),
                                       TEST(spectra_are_right),
                                       TEST(dense_grid_is_the_same),
                                       TEST(dense_many_features_are_the_same),
                                       TEST(one_ridge_is_the_same),
                                       TEST(one_ridge_over_widths_is_the_same),
                                       TEST(an_unsafe_ridge_is_raised_alike),
                                       TEST(low_rank_is_the_same),
                                       TEST(low_rank_beyond_candidates_is_the_same),
                                       TEST(full_rank_of_z_is_the_same),
                                       TEST(auto_falls_back_alike),
                                       TEST(small_fits_are_the_same),
                                       TEST(random_features_are_the_same),
                                       TEST(weighted_fits_are_the_same),
                                       TEST(fits_give_memory_back),
                                       TEST(other_data_are_refused),
                                       TEST(other_weights_are_refused),
                                       TEST(more_ranks_than_rows_are_refused),
                                       TEST(one_rank_without_memory_stops_all),
                                       TEST(one_rank_cancels_all),
                                       TEST(launchers_are_seen)};
    if (ranks_open() != CIRCE_OK) {
        fprintf(stderr, "%s\n", circe_last_error());
        return 1;
    }
    const char *expected = getenv("CIRCE_TEST_RANKS");
    if (expected != NULL && atoi(expected) != ranks_size()) {
        fprintf(stderr, "started with %s ranks, and there are %d\n", expected, ranks_size());
        return 1;
    }
    if (ranks_rank() > 0 && freopen("/dev/null", "w", stdout) == NULL) return 1;
    int status = test_run("mpi", tests, NULL, NULL);
    ranks_close();
    return status;
}
