/* See support.h. */
#include "tests/support.h"

#include <unistd.h>

#include "io/io.h"

/* ---- objects ---------------------------------------------------------------------------------------------------- */

typedef struct owned {
    void *object;
    void (*destroy)(void *object);
    struct owned *before;
} owned;

static owned *last_owned;

static void own(void *object, void (*destroy)(void *object)) {
    owned *entry = malloc(sizeof *entry);
    assert_non_null(entry);
    *entry = (owned){object, destroy, last_owned};
    last_owned = entry;
}

int test_clean(void **state) {
    (void)state;
    while (last_owned != NULL) {
        owned *entry = last_owned;
        last_owned = entry->before;
        entry->destroy(entry->object);
        free(entry);
    }
    return 0;
}

/* Reasons that tests were skipped for, each once. */
static struct {
    char text[512];
    int tests;
} reasons[32];

void test_skip_at(const char *file, int line, const char *reason, ...) {
    char text[sizeof reasons->text];
    va_list arguments;
    int64_t at = 0;
    va_start(arguments, reason);
    vsnprintf(text, sizeof text, reason, arguments);
    va_end(arguments);
    while (at < COUNT(reasons) - 1 && reasons[at].tests > 0 && strcmp(reasons[at].text, text) != 0) at++;
    memcpy(reasons[at].text, text, sizeof text);
    reasons[at].tests++;
    _skip(file, line);
}

static void print_margins(void);

/* The lines that scripts/summary.py reads. */
int test_end(int failed, int64_t n_tests) {
    int64_t skipped = 0;
    print_margins();
    for (int64_t at = 0; at < COUNT(reasons) && reasons[at].tests > 0; at++) {
        printf("skipped: %d of %lld: %s\n", reasons[at].tests, (long long)n_tests, reasons[at].text);
        skipped += reasons[at].tests;
    }
    if (failed != 0) return 1;
    return skipped == n_tests ? TEST_SKIPPED : 0;
}

static void destroy_context(void *object) { circe_context_destroy(object); }
static void destroy_workspace(void *object) { circe_workspace_destroy(object); }
static void destroy_kernel(void *object) { circe_kernel_destroy(object); }
static void destroy_cme(void *object) { circe_cme_destroy(object); }
static void destroy_features(void *object) { circe_features_destroy(object); }

void *test_memory(size_t bytes) {
    void *block = calloc(1, bytes > 0 ? bytes : 1);
    assert_non_null(block);
    own(block, free);
    return block;
}

circe_context *test_context_with(const circe_context_options *options) {
    circe_context *context = NULL;
    assert_ok(circe_context_create(options, &context));
    own(context, destroy_context);
    return context;
}

circe_context *test_context(int threads) {
    circe_context_options options;
    circe_context_options_init(&options);
    options.threads = threads;
    return test_context_with(&options);
}

circe_workspace *test_workspace(circe_context *context) {
    circe_workspace *workspace = NULL;
    assert_ok(circe_workspace_create(context, &workspace));
    own(workspace, destroy_workspace);
    return workspace;
}

circe_kernel *test_kernel(circe_context *context, const char *text) {
    circe_kernel *kernel = NULL;
    assert_ok(circe_kernel_parse(context, text, &kernel));
    own(kernel, destroy_kernel);
    return kernel;
}

circe_cme *test_fit(circe_context *context, const circe_mat *y, const circe_mat *z, const char *kernel_y,
                    const char *kernel_z, const circe_cme_options *options) {
    circe_cme *cme = NULL;
    circe_kernel *ky = test_kernel(context, kernel_y), *kz = test_kernel(context, kernel_z);
    assert_ok(circe_cme_fit(context, y, z, ky, kz, options, &cme));
    own(cme, destroy_cme);
    return cme;
}

circe_cme *test_load(circe_context *context, const char *path) {
    circe_cme *cme = NULL;
    assert_ok(circe_cme_load(context, path, &cme));
    own(cme, destroy_cme);
    return cme;
}

circe_features *test_features(circe_context *context, const circe_cme *cme, const circe_mat *y, const circe_mat *z,
                              circe_dtype dtype) {
    circe_features *features = NULL;
    assert_ok(circe_features_create(context, cme, y, z, dtype, &features));
    own(features, destroy_features);
    return features;
}

static char directory[64];

static void remove_directory(void *object) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", (const char *)object);
    if (system(command) != 0) fprintf(stderr, "%s stays behind\n", (const char *)object);
    directory[0] = '\0';
}

int64_t test_few(int64_t all, int64_t few) { return getenv("CIRCE_TEST_SLOW_MACHINE") == NULL ? all : few; }

const char *test_directory(void) {
    if (directory[0] != '\0') return directory;
    strcpy(directory, "/tmp/circe-test-XXXXXX");
    assert_non_null(mkdtemp(directory));
    own(directory, remove_directory);
    return directory;
}

const char *test_path(const char *name) {
    size_t bytes = strlen(test_directory()) + strlen(name) + 2;
    char *path = test_memory(bytes);
    snprintf(path, bytes, "%s/%s", test_directory(), name);
    return path;
}

circe_cme_options test_options(circe_method method, const double *ridge) {
    circe_cme_options options;
    circe_cme_options_init(&options);
    options.method = method;
    options.ridge = ridge;
    options.n_ridge = ridge == NULL ? 0 : 1;
    return options;
}

/* ---- matrices --------------------------------------------------------------------------------------------------- */

circe_mat test_zeros(int64_t rows, int64_t cols, circe_dtype dtype) {
    void *data = test_memory((size_t)(rows * cols) * circe_dtype_size(dtype));
    return dtype == CIRCE_FLOAT32 ? circe_mat_f32(data, rows, cols) : circe_mat_f64(data, rows, cols);
}

circe_mat test_normal(uint64_t stream, int64_t rows, int64_t cols) {
    circe_mat m = test_zeros(rows, cols, CIRCE_FLOAT64);
    circe_random_normal((circe_random){.seed = 2023, .stream = stream}, 0, rows * cols, m.data);
    return m;
}

circe_mat test_uniform(uint64_t stream, int64_t rows, int64_t cols) {
    circe_mat m = test_zeros(rows, cols, CIRCE_FLOAT64);
    circe_random_uniform((circe_random){.seed = 2023, .stream = stream}, 0, rows * cols, m.data);
    return m;
}

circe_mat test_categories(uint64_t stream, int64_t rows, int64_t cols, int64_t categories) {
    circe_mat m = test_uniform(stream, rows, cols);
    double *v = m.data;
    for (int64_t e = 0; e < rows * cols; e++) v[e] = floor(v[e] * (double)categories);
    return m;
}

double test_at(const circe_mat *m, int64_t i, int64_t j) {
    if (m->dtype == CIRCE_FLOAT32) return (double)((const float *)m->data)[i * m->ld + j];
    return ((const double *)m->data)[i * m->ld + j];
}

void test_set(circe_mat *m, int64_t i, int64_t j, double value) {
    if (m->dtype == CIRCE_FLOAT32)
        ((float *)m->data)[i * m->ld + j] = (float)value;
    else
        ((double *)m->data)[i * m->ld + j] = value;
}

circe_mat test_copy(const circe_mat *from, circe_dtype dtype) {
    circe_mat m = test_zeros(from->rows, from->cols, dtype);
    for (int64_t i = 0; i < m.rows; i++)
        for (int64_t j = 0; j < m.cols; j++) test_set(&m, i, j, test_at(from, i, j));
    return m;
}

circe_mat test_rows(const circe_mat *from, const int64_t *index, int64_t n) {
    circe_mat m = test_zeros(n, from->cols, from->dtype);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < m.cols; j++) test_set(&m, i, j, test_at(from, index[i], j));
    return m;
}

double test_max(const circe_mat *m) {
    double most = 0.0;
    for (int64_t i = 0; i < m->rows; i++)
        for (int64_t j = 0; j < m->cols; j++) most = fmax(most, fabs(test_at(m, i, j)));
    return most;
}

double test_lower(const circe_mat *m, int64_t i, int64_t j) { return i >= j ? test_at(m, i, j) : test_at(m, j, i); }

void test_symmetrise(circe_mat *m) {
    for (int64_t i = 0; i < m->rows; i++)
        for (int64_t j = 0; j < i; j++) test_set(m, j, i, test_at(m, i, j));
}

bool test_is_psd(const circe_mat *m, double slack) {
    int64_t n = m->rows;
    circe_mat factor = test_copy(m, CIRCE_FLOAT64);
    double *L = factor.data;
    for (int64_t j = 0; j < n; j++) {
        double pivot = L[j * n + j] + slack;
        for (int64_t k = 0; k < j; k++) pivot -= L[j * n + k] * L[j * n + k];
        if (!(pivot > 0.0)) return false;
        L[j * n + j] = sqrt(pivot);
        for (int64_t i = j + 1; i < n; i++) {
            for (int64_t k = 0; k < j; k++) L[i * n + j] -= L[i * n + k] * L[j * n + k];
            L[i * n + j] /= L[j * n + j];
        }
    }
    return true;
}

double test_factor(const circe_kernel_factor *factor, const double *a, const double *b, int64_t cols) {
    int64_t last = factor->n_cols == -1 ? cols : factor->first_col + factor->n_cols;
    double square = 0.0, dot = 0.0;
    for (int64_t c = factor->first_col; c < last; c++) {
        square += (a[c] - b[c]) * (a[c] - b[c]);
        dot += a[c] * b[c];
    }
    switch (factor->kind) {
        case CIRCE_KERNEL_GAUSSIAN:
            return exp(-square / (2.0 * factor->sigma2));
        case CIRCE_KERNEL_LAPLACE:
            return exp(-sqrt(square) / sqrt(factor->sigma2));
        case CIRCE_KERNEL_LINEAR:
            return dot;
        case CIRCE_KERNEL_DELTA:
            return square == 0.0 ? 1.0 : 0.0;
    }
    return NAN;
}

double test_kernel_value(const circe_kernel *kernel, const double *a, const double *b, int64_t cols) {
    double value = 1.0;
    for (int64_t f = 0; f < circe_kernel_n_factors(kernel); f++) {
        circe_kernel_factor factor;
        assert_ok(circe_kernel_get_factor(kernel, f, &factor));
        value *= test_factor(&factor, a, b, cols);
    }
    return value;
}

/* ---- comparisons ------------------------------------------------------------------------------------------------ */

void test_assert_status(circe_status status, circe_status expected, const char *call, const char *file, int line) {
    if (status == expected) return;
    print_error("%s\n  gives %s, not %s; the last error is: %s\n", call, circe_status_name(status),
                circe_status_name(expected), circe_last_error());
    _fail(file, line);
}

void test_assert_refused(circe_status status, circe_status expected, const char *part, const char *call,
                         const char *file, int line) {
    test_assert_status(status, expected, call, file, line);
    if (strstr(circe_last_error(), part) != NULL) return;
    print_error("%s\n  the error text lacks '%s': %s\n", call, part, circe_last_error());
    _fail(file, line);
}

/* How much of its tolerance a comparison used, at most; printed at the end where CIRCE_TEST_MARGINS names a least
 * share: a bound that one machine nearly reaches fails on another. */
static struct {
    const char *file;
    int line;
    double share;
} margins[256];

static void note_margin(double difference, double bound, const char *file, int line) {
    int64_t at = 0;
    while (at < COUNT(margins) && margins[at].file != NULL && (margins[at].file != file || margins[at].line != line))
        at++;
    if (at == COUNT(margins)) return;
    margins[at].file = file;
    margins[at].line = line;
    if (difference > margins[at].share * bound) margins[at].share = difference / bound;
}

static void print_margins(void) {
    const char *least = getenv("CIRCE_TEST_MARGINS");
    for (int64_t at = 0; least != NULL && at < COUNT(margins) && margins[at].file != NULL; at++)
        if (margins[at].share > atof(least))
            printf("margin: %s:%d uses %.2g of its tolerance\n", margins[at].file, margins[at].line, margins[at].share);
}

void test_assert_near(double a, double b, double tolerance, double scale, const char *what, const char *file,
                      int line) {
    note_margin(fabs(a - b), tolerance * scale, file, line);
    if (fabs(a - b) <= tolerance * scale) return; /* false for NaN */
    print_error("%s = %.17g, not %.17g: off by %.3g of the scale %.3g, tolerance %.3g\n", what, a, b,
                fabs(a - b) / scale, scale, tolerance);
    _fail(file, line);
}

void test_assert_mat_near(const circe_mat *a, const circe_mat *b, double tolerance, const char *what, const char *file,
                          int line) {
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->cols, b->cols);
    double scale = test_max(b);
    for (int64_t i = 0; i < a->rows; i++)
        for (int64_t j = 0; j < a->cols; j++) {
            double difference = fabs(test_at(a, i, j) - test_at(b, i, j));
            note_margin(difference, tolerance * scale, file, line);
            if (difference <= tolerance * scale) continue;
            print_error("%s(%lld, %lld) = %.17g, not %.17g: off by %.3g of the largest element, tolerance %.3g\n", what,
                        (long long)i, (long long)j, test_at(a, i, j), test_at(b, i, j), difference / scale, tolerance);
            _fail(file, line);
        }
}

void test_assert_mat_equal(const circe_mat *a, const circe_mat *b, const char *what, const char *file, int line) {
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->cols, b->cols);
    assert_int_equal(a->dtype, b->dtype);
    size_t size = circe_dtype_size(a->dtype);
    for (int64_t i = 0; i < a->rows; i++) {
        const char *from_a = (const char *)a->data + (size_t)(i * a->ld) * size;
        const char *from_b = (const char *)b->data + (size_t)(i * b->ld) * size;
        if (memcmp(from_a, from_b, (size_t)a->cols * size) == 0) continue;
        print_error("%s: row %lld has other bits\n", what, (long long)i);
        _fail(file, line);
    }
}

double test_difference(const circe_mat *a, const circe_mat *b) {
    double most = 0.0;
    for (int64_t i = 0; i < a->rows; i++)
        for (int64_t j = 0; j < a->cols; j++) most = fmax(most, fabs(test_at(a, i, j) - test_at(b, i, j)));
    return most / test_max(b);
}

/* ---- an allocator that counts, and fails when told --------------------------------------------------------------- */

static void *counting_allocate(void *user, size_t bytes) {
    test_allocator *counter = user;
    if (counter->calls++ == counter->fail_at) {
        counter->failed = true;
        return NULL;
    }
    void *block = malloc(bytes);
    if (block != NULL) counter->live++;
    return block;
}

static void counting_release(void *user, void *block) {
    test_allocator *counter = user;
    if (block != NULL) counter->live--;
    free(block);
}

circe_allocator test_counting(test_allocator *counter) {
    *counter = (test_allocator){.fail_at = -1};
    return (circe_allocator){counting_allocate, counting_release, counter};
}

/* ---- golden files -------------------------------------------------------------------------------------------------
 */

static const char *golden_path(const char *folder, const char *name) {
    size_t bytes = strlen(CIRCE_TEST_GOLDEN) + strlen(folder) + strlen(name) + 3;
    char *path = test_memory(bytes);
    snprintf(path, bytes, "%s/%s/%s", CIRCE_TEST_GOLDEN, folder, name);
    return path;
}

circe_mat test_golden_matrix(const char *folder, const char *name) {
    io_table table = {0};
    if (io_read(golden_path(folder, name), NULL, &table) != CIRCE_OK) fail_msg("%s", circe_last_error());
    circe_mat copy = test_copy(&table.values, CIRCE_FLOAT64);
    io_table_free(&table);
    return copy;
}

char *test_golden_text(const char *folder, const char *name) {
    enum { LARGEST = 1 << 20 };
    char *text = test_memory(LARGEST);
    FILE *file = fopen(golden_path(folder, name), "rb");
    assert_non_null(file);
    size_t bytes = fread(text, 1, LARGEST - 1, file);
    fclose(file);
    assert_true(bytes > 0 && bytes < LARGEST - 1);
    return text;
}
