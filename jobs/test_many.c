/* Many tests on one table. Tests with the same conditions run one after the other, so that what they have in common is
 * computed once (circe_test_memory). Threads take tests from one list, each with its own context and memory. A test
 * gives the same numbers alone and among others, on any number of threads. */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/small.h"
#include "circe/test_job.h"
#include "core/core.h"
#include "core/settings.h"
#include "io/column_table.h"
#include "io/paths.h"
#include "jobs/notes.h"
#include "jobs/test_cache.h"
#include "jobs/test_gpu.h"
#include "jobs/test_pairs.h"
#include "jobs/test_rows.h"
#include "jobs/tests.h"

enum { LEAST_ROWS = 8, MOST_THREADS = 256, CHUNK = 64 };

/* A question by the columns of the table. */
typedef struct asked {
    int64_t *x, *y, *z, n_x, n_y, n_z;
} asked;

typedef struct many {
    circe_context *context;
    const circe_test_job_options *options;
    const circe_watch *watch;
    const test_kind *what;
    const circe_question *questions;
    circe_question *read; /* from a file; owned */
    int64_t *lines;       /* of the file; NULL: none */
    int64_t n;
    column_table table;
    double *of_rows[N_ROW_COLUMNS]; /* (rows): weights, groups, times; NULL: none */
    asked *asked;                   /* (n) */
    int64_t *order;                 /* (n): by conditions */
    int64_t *chunk;                 /* (chunks + 1): of the order */
    int64_t chunks;
    atomic_llong next, done;
    atomic_bool stopping;
    notes warnings;
    circe_tests_result *result;
} many;

/* ---- questions --------------------------------------------------------------------------------------------------- */

/* "pairs.csv: line 3, column 'y'"; or the number of a question that no file has. */
static circe_status about(const many *m, int64_t i, const char *role, circe_status status) {
    if (m->lines != NULL)
        return job_about(status, "%s: line %" PRId64 ", column '%s'", m->options->pairs, m->lines[i], role);
    return job_about(status, "question %" PRId64 ", %s", i, role);
}

static circe_status split(const many *m, int64_t i, const char *role, const char *text, name_list *names) {
    *names = (name_list){0};
    if (text == NULL || text[0] == '\0') return CIRCE_OK;
    circe_status status = name_list_split(role, text, names);
    return status == CIRCE_OK ? CIRCE_OK : about(m, i, role, status);
}

/* Every column that some question names, once. */
static circe_status collect(const many *m, name_list *wanted) {
    circe_status status = CIRCE_OK;
    for (int64_t i = 0; i < m->n && status == CIRCE_OK; i++) {
        const char *const texts[] = {m->questions[i].x, m->questions[i].y, m->questions[i].z};
        const char *const roles[] = {"x", "y", "z"};
        for (int r = 0; r < 3 && status == CIRCE_OK; r++) {
            name_list names;
            status = split(m, i, roles[r], texts[r], &names);
            if (status == CIRCE_OK && names.n == 0 && r != 1)
                status = about(m, i, roles[r], circe_fail(CIRCE_ERR_ARGUMENT, "at least one column is needed"));
            for (int64_t k = 0; status == CIRCE_OK && k < names.n; k++)
                if (name_list_find(wanted, names.names[k]) < 0) name_list_add(wanted, names.names[k]);
            name_list_free(&names);
        }
    }
    const char *const rows[] = {m->options->weights, m->options->groups, m->options->time};
    for (int k = 0; k < 3 && status == CIRCE_OK; k++)
        if (rows[k] != NULL && name_list_find(wanted, rows[k]) < 0) name_list_add(wanted, rows[k]);
    return status;
}

/* Columns of the table by names; an array may have several. */
static circe_status columns_of(const many *m, int64_t i, const char *role, const char *text, const name_list *wanted,
                               int64_t **columns, int64_t *n) {
    name_list names;
    circe_status status = split(m, i, role, text, &names);
    *n = 0;
    *columns = small_alloc(((size_t)m->table.in.values.cols + 1) * sizeof **columns);
    for (int64_t k = 0; status == CIRCE_OK && k < names.n; k++) {
        int64_t at = name_list_find(wanted, names.names[k]);
        for (int64_t c = 0; c < m->table.count[at]; c++) (*columns)[(*n)++] = m->table.first[at] + c;
    }
    name_list_free(&names);
    return status;
}

static circe_status refuse_twice(const many *m, int64_t i) {
    const asked *a = &m->asked[i];
    const struct {
        const int64_t *columns;
        int64_t n;
        const char *role;
    } roles[] = {{a->x, a->n_x, "x"}, {a->y, a->n_y, "y"}, {a->z, a->n_z, "z"}};
    for (int r = 0; r < 3; r++)
        for (int s = r + 1; s < 3; s++)
            for (int64_t k = 0; k < roles[r].n; k++)
                for (int64_t l = 0; l < roles[s].n; l++)
                    if (roles[r].columns[k] == roles[s].columns[l])
                        return about(m, i, roles[s].role,
                                     circe_fail(CIRCE_ERR_ARGUMENT, "'%s' is also in %s",
                                                column_name(&m->table, roles[r].columns[k]), roles[r].role));
    return CIRCE_OK;
}

static circe_status resolve(many *m, const name_list *wanted) {
    circe_status status = CIRCE_OK;
    m->asked = small_alloc((size_t)m->n * sizeof *m->asked);
    for (int64_t i = 0; i < m->n && status == CIRCE_OK; i++) {
        asked *a = &m->asked[i];
        const circe_question *q = &m->questions[i];
        status = columns_of(m, i, "x", q->x, wanted, &a->x, &a->n_x);
        if (status == CIRCE_OK) status = columns_of(m, i, "y", q->y, wanted, &a->y, &a->n_y);
        if (status == CIRCE_OK) status = columns_of(m, i, "z", q->z, wanted, &a->z, &a->n_z);
        if (status == CIRCE_OK) status = refuse_twice(m, i);
        if (status == CIRCE_OK && a->n_y > 0 && !(m->what->uses & TEST_CONDITIONS)) a->n_y = 0;
    }
    return status;
}

/* Weights, groups and times, of all rows. */
static circe_status take_of_rows(many *m, const name_list *wanted) {
    const char *const sources[N_ROW_COLUMNS] = {m->options->weights, m->options->groups, m->options->time};
    int64_t rows = m->table.in.values.rows;
    circe_status status = CIRCE_OK;
    for (int k = 0; k < N_ROW_COLUMNS && status == CIRCE_OK; k++) {
        if (sources[k] == NULL) continue;
        int64_t at = name_list_find(wanted, sources[k]), column = m->table.first[at];
        double *values = m->of_rows[k] = malloc((size_t)rows * sizeof *values);
        if (values == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %" PRId64 " rows", rows);
        for (int64_t i = 0; i < rows; i++) values[i] = column_value(&m->table, i, column);
        status =
            row_values_settle(k, sources[k], m->table.count[at], column_categories(&m->table, column), values, rows);
    }
    return status;
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

typedef struct place {
    const asked *of;
    int64_t i;
} place;

static int by_conditions(const void *a, const void *b) {
    const place *p = a, *q = b;
    if (p->of->n_y != q->of->n_y) return p->of->n_y < q->of->n_y ? -1 : 1;
    for (int64_t k = 0; k < p->of->n_y; k++)
        if (p->of->y[k] != q->of->y[k]) return p->of->y[k] < q->of->y[k] ? -1 : 1;
    return p->i < q->i ? -1 : p->i > q->i;
}

static bool same_conditions(const asked *a, const asked *b) {
    return a->n_y == b->n_y && memcmp(a->y, b->y, (size_t)a->n_y * sizeof *a->y) == 0;
}

/* Chunks of questions on the same conditions. */
static void arrange(many *m) {
    place *places = small_alloc((size_t)m->n * sizeof *places);
    m->order = small_alloc((size_t)m->n * sizeof *m->order);
    m->chunk = small_alloc((size_t)(m->n + 1) * sizeof *m->chunk);
    for (int64_t i = 0; i < m->n; i++) places[i] = (place){&m->asked[i], i};
    qsort(places, (size_t)m->n, sizeof *places, by_conditions);
    for (int64_t i = 0, from = 0; i < m->n; i++) {
        m->order[i] = places[i].i;
        if (i > from && i - from < CHUNK && same_conditions(places[i].of, places[i - 1].of)) continue;
        m->chunk[m->chunks++] = from = i;
    }
    m->chunk[m->chunks] = m->n;
    free(places);
}

/* ---- one test ---------------------------------------------------------------------------------------------------- */

/* Scratch of a thread: the columns of a question, side by side. */
typedef struct worker {
    many *m;
    circe_context *context;
    circe_test_memory *memory;
    test_gpu gpu;
    double *cells;
    int64_t *rows;
    circe_status status;
    char *why; /* the text of what stopped it; owned, NULL: nothing */
    pthread_t thread;
} worker;

static bool complete(const many *m, int64_t row, const int64_t *columns, int64_t n) {
    for (int64_t k = 0; k < n; k++)
        if (isnan(column_value(&m->table, row, columns[k]))) return false;
    return true;
}

/* Rows without a missing cell in this question's columns. */
static int64_t take_rows(const worker *w, const asked *a) {
    const many *m = w->m;
    int64_t n = 0;
    for (int64_t i = 0; i < m->table.in.values.rows; i++) {
        bool whole = complete(m, i, a->x, a->n_x) && complete(m, i, a->y, a->n_y) && complete(m, i, a->z, a->n_z);
        for (int k = 0; k < N_ROW_COLUMNS && whole; k++) whole = m->of_rows[k] == NULL || !isnan(m->of_rows[k][i]);
        if (whole) w->rows[n++] = i;
    }
    return n;
}

static double *take_columns(const worker *w, const int64_t *columns, int64_t n_columns, int64_t n, double *to) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n_columns; k++) *to++ = column_value(&w->m->table, w->rows[i], columns[k]);
    return to;
}

/* Weights, groups or times of the worker's rows; NULL: there are none. */
static const double *take_of_row(const worker *w, int kind, int64_t n, double **to) {
    const double *from = w->m->of_rows[kind];
    double *taken = *to;
    if (from == NULL) return NULL;
    for (int64_t i = 0; i < n; i++) *(*to)++ = from[w->rows[i]];
    return taken;
}

/* Gaussian for numbers and delta for categories, where there are any; NULL: the library's own choice. */
static circe_status kernel_of(const worker *w, const int64_t *columns, int64_t n, circe_kernel **kernel) {
    bool any = false;
    *kernel = NULL;
    for (int64_t k = 0; k < n; k++) any = any || column_categories(&w->m->table, columns[k]) != NULL;
    if (!any) return CIRCE_OK;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory");
    for (int64_t k = 0; k < n; k++)
        fprintf(out, "%s%" PRId64 ":%s", k > 0 ? "*" : "", k,
                column_categories(&w->m->table, columns[k]) != NULL ? "delta" : "gaussian");
    fclose(out);
    circe_status status = circe_kernel_parse(w->context, text, kernel);
    free(text);
    return status;
}

static circe_test_options options_of(const worker *w) {
    const circe_test_job_options *from = w->m->options;
    circe_test_options o;
    circe_test_options_init(&o);
    o.method = w->m->what->method;
    circe_test_null_parse(from->null, &o.null);
    o.draws = from->draws;
    o.seed = (uint64_t)from->seed;
    o.alpha = from->alpha;
    o.skip_checks = from->no_checks;
    o.memory = w->memory;
    o.device = w->gpu.device;
    circe_transform_parse(from->transform, &o.transform);
    if (w->m->what->uses & TEST_REGRESSION)
        o.regressor =
            (circe_test_regressor)(CIRCE_REGRESSOR_KERNEL + circe_word_index(test_regressors, from->regressor));
    if (from->block != CIRCE_UNSET) o.block = (double)from->block;
    return o;
}

/* From the folder of results, or computed and put there. */
static circe_status find_result(const worker *w, const circe_mat *x, const circe_mat *y, const circe_mat *z,
                                const circe_test_options *o, circe_answer *answer) {
    const char *folder = w->m->options->cache;
    test_key key = {{0, 0}};
    if (folder != NULL) {
        key = test_key_of(x, y, z, o);
        answer->cached = test_cache_read(folder, key, &answer->result);
        if (answer->cached) return CIRCE_OK;
    }
    circe_status status = circe_test(w->context, x, y, z, o, &answer->result);
    return status == CIRCE_OK && folder != NULL ? test_cache_write(folder, key, &answer->result) : status;
}

static circe_status test_one(const worker *w, int64_t i) {
    const many *m = w->m;
    const asked *a = &m->asked[i];
    circe_kernel *kernels[3] = {NULL, NULL, NULL};
    int64_t n = take_rows(w, a);
    double *x = w->cells, *y = take_columns(w, a->x, a->n_x, n, x), *z = take_columns(w, a->y, a->n_y, n, y);
    double *rest = take_columns(w, a->z, a->n_z, n, z);
    circe_mat mats[3] = {circe_mat_f64(x, n, a->n_x), circe_mat_f64(y, n, a->n_y), circe_mat_f64(z, n, a->n_z)};
    circe_test_options o = options_of(w);
    circe_answer *answer = &m->result->answers[i];
    answer->dropped = m->table.in.values.rows - n;
    o.weights = take_of_row(w, ROW_WEIGHTS, n, &rest);
    o.groups = take_of_row(w, ROW_GROUPS, n, &rest);
    o.time = take_of_row(w, ROW_TIME, n, &rest);
    if (n < LEAST_ROWS)
        return circe_fail(CIRCE_ERR_VALUE, "%" PRId64 " rows without missing cells; at least %d are needed", n,
                          LEAST_ROWS);
    circe_status status = kernel_of(w, a->x, a->n_x, &kernels[0]);
    if (status == CIRCE_OK) status = kernel_of(w, a->y, a->n_y, &kernels[1]);
    if (status == CIRCE_OK) status = kernel_of(w, a->z, a->n_z, &kernels[2]);
    o.kernel_x = kernels[0];
    o.kernel_y = kernels[1];
    o.kernel_z = kernels[2];
    if (status == CIRCE_OK) status = find_result(w, &mats[0], a->n_y > 0 ? &mats[1] : NULL, &mats[2], &o, answer);
    for (int k = 0; k < 3; k++) circe_kernel_destroy(kernels[k]);
    return status;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static void note_failure(many *m, int64_t i, circe_status status) {
    const char *text = circe_last_error();
    m->result->answers[i].error = small_format("%s", text[0] != '\0' ? text : circe_status_text(status));
}

static void *work(void *user) {
    CIRCE_OWN_SETTINGS;
    worker *w = user;
    many *m = w->m;
    for (int64_t c; w->status == CIRCE_OK && (c = atomic_fetch_add(&m->next, 1)) < m->chunks;)
        for (int64_t k = m->chunk[c]; k < m->chunk[c + 1] && w->status == CIRCE_OK; k++) {
            circe_status status = test_one(w, m->order[k]);
            if (status == CIRCE_ERR_CANCELLED || status == CIRCE_ERR_WRITE) {
                w->status = status;
                w->why = small_format("%s", circe_last_error()); /* an error's text is its thread's */
            } else if (status != CIRCE_OK)
                note_failure(m, m->order[k], status);
            int64_t done = atomic_fetch_add(&m->done, 1) + 1;
            if (w->thread == 0 && w->status == CIRCE_OK) /* the one that was called reports */
                w->status =
                    job_progress(m->watch, (double)done / (double)m->n, "%" PRId64 " of %" PRId64 " tests", done, m->n);
            if (atomic_load(&m->stopping)) return NULL;
        }
    if (w->status != CIRCE_OK) atomic_store(&m->stopping, true);
    return NULL;
}

/* Within a test. The first worker runs on the thread that was called, so it is the one to ask the caller. */
static int is_stopping(void *user, const char *stage, int64_t done, int64_t total) {
    worker *w = user;
    (void)done, (void)total;
    if (w->thread == 0 && circe__progress(w->m->context, stage, 0, 0) != CIRCE_OK) atomic_store(&w->m->stopping, true);
    return atomic_load(&w->m->stopping);
}

static circe_status worker_open(many *m, int64_t threads, worker *w) {
    int64_t rows = m->table.in.values.rows, cols = m->table.in.values.cols;
    *w = (worker){.m = m};
    circe_status status = circe__context_like(m->context, 1, threads, is_stopping, w, &w->context);
    if (status == CIRCE_OK)
        status =
            circe_test_memory_create(w->context, 0.25 * circe_context_memory(m->context) / (double)threads, &w->memory);
    if (status == CIRCE_OK) status = test_gpu_open(w->context, m->options->device, true, &w->gpu);
    w->cells = malloc((size_t)(rows * (cols + N_ROW_COLUMNS)) * sizeof *w->cells);
    w->rows = malloc((size_t)rows * sizeof *w->rows);
    if (status == CIRCE_OK && (w->cells == NULL || w->rows == NULL))
        status = circe_fail(CIRCE_ERR_MEMORY, "out of memory for %" PRId64 " rows", rows);
    return status;
}

static void worker_close(worker *w) {
    test_gpu_close(&w->gpu);
    circe_test_memory_destroy(w->memory);
    circe_context_destroy(w->context);
    free(w->cells);
    free(w->rows);
    free(w->why);
}

static circe_status run_all(many *m) {
    int64_t threads = circe_context_threads(m->context), opened = 0, started = 1;
    if (threads > m->chunks) threads = m->chunks;
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    worker *workers = small_alloc((size_t)threads * sizeof *workers);
    circe_status status = CIRCE_OK;
    for (; opened < threads && status == CIRCE_OK; opened++) status = worker_open(m, threads, &workers[opened]);
    for (; started < threads && status == CIRCE_OK; started++)
        if (pthread_create(&workers[started].thread, NULL, work, &workers[started]) != 0) break; /* fewer do it */
    if (status == CIRCE_OK) work(&workers[0]);
    for (int64_t k = 1; k < started; k++) pthread_join(workers[k].thread, NULL);
    for (int64_t k = 0; k < opened; k++) {
        if (status == CIRCE_OK && workers[k].status != CIRCE_OK)
            status = k == 0 ? workers[k].status : circe_fail(workers[k].status, "%s", workers[k].why);
        worker_close(&workers[k]);
    }
    free(workers);
    return status;
}

/* ---- several p-values -------------------------------------------------------------------------------------------- */

static int by_p(const void *a, const void *b) {
    const circe_answer *const *p = a, *const *q = b;
    double x = (*p)->result.p_value, y = (*q)->result.p_value;
    return x < y ? -1 : x > y;
}

/* Holm (1979): the chance of any false rejection; Benjamini and Hochberg (1995): the share of false ones. */
static void adjust(circe_tests_result *r) {
    circe_answer **sorted = small_alloc((r->n + 1) * sizeof *sorted);
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++) {
        circe_answer *a = &r->answers[i];
        a->p_holm = a->p_bh = NAN;
        r->n_failed += a->error != NULL;
        r->n_cached += a->cached != 0;
        if (a->error == NULL) sorted[n++] = a;
    }
    qsort(sorted, n, sizeof *sorted, by_p);
    double largest = 0.0, least = 1.0;
    for (size_t k = 0; k < n; k++) {
        largest = fmax(largest, (double)(n - k) * sorted[k]->result.p_value);
        sorted[k]->p_holm = fmin(largest, 1.0);
    }
    for (size_t k = n; k-- > 0;) {
        least = fmin(least, (double)n / (double)(k + 1) * sorted[k]->result.p_value);
        sorted[k]->p_bh = least;
    }
    free(sorted);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static circe_status check(many *m, const circe_table *table, const char *method) {
    static const char *const of_one[] = {"x",          "y",         "z",          "columns-x",   "columns-y",
                                         "columns-z",  "calibrate", "effects",    "auxiliary-y", "auxiliary-z",
                                         "rows",       "kernel-x",  "kernel-y",   "kernel-z",    "mean",
                                         "test-share", "seconds",   "imputations"};
    const circe_test_job_options *o = m->options;
    circe_status status = circe_options_check(&circe_test_job_schema, o);
    for (size_t k = 0; k < sizeof of_one / sizeof *of_one && status == CIRCE_OK; k++)
        if (circe_options_given(&circe_test_job_schema, o, of_one[k]))
            status = circe_fail(CIRCE_ERR_ARGUMENT, "--%s is for a single test; with --pairs, leave it out", of_one[k]);
    m->what = method != NULL ? test_find(method) : NULL;
    if (status == CIRCE_OK && m->what == NULL)
        status = circe_fail(CIRCE_ERR_ARGUMENT, "--pairs needs one test, such as kci, not '%s'",
                            method != NULL ? method : "");
    if (status == CIRCE_OK && strcmp(o->missing, "impute") == 0)
        status = circe_fail(CIRCE_ERR_ARGUMENT, "--missing impute is for a single test; with --pairs, use drop");
    if (status == CIRCE_OK && circe_word_index(test_regressors, o->regressor) < 0)
        status = circe_fail(CIRCE_ERR_ARGUMENT, "--pairs takes the regressors kernel, linear and forest, not '%s'",
                            o->regressor);
    if (status == CIRCE_OK && table == NULL && o->data == NULL)
        status = circe_fail(CIRCE_ERR_ARGUMENT, "--pairs needs --data FILE, the table with the columns");
    return status == CIRCE_OK && o->cache != NULL ? path_make_folder(o->cache) : status;
}

/* Finds the question whose column is missing: the first that cannot be read by itself, and where it is named. */
static circe_status blame(const many *m, const circe_table *table, const name_list *wanted, const reading *how,
                          circe_status status) {
    for (int64_t k = 0; k < wanted->n; k++) {
        name_list one = {0};
        column_table alone = {0};
        name_list_add(&one, wanted->names[k]);
        circe_status failed = column_table_read(table, m->options->data, &one, how, false, &alone);
        name_list_free(&one);
        column_table_free(&alone);
        for (int64_t i = 0; failed != CIRCE_OK && i < m->n; i++) {
            const char *const texts[] = {m->questions[i].x, m->questions[i].y, m->questions[i].z};
            const char *const roles[] = {"x", "y", "z"};
            for (int r = 0; r < 3; r++) {
                name_list names = {0};
                if (texts[r] == NULL || name_list_split(roles[r], texts[r], &names) != CIRCE_OK) continue;
                bool here = name_list_find(&names, wanted->names[k]) >= 0;
                name_list_free(&names);
                if (here) return about(m, i, roles[r], failed);
            }
        }
        if (failed != CIRCE_OK) return failed;
    }
    return status;
}

static circe_status read_table(many *m, const circe_table *table) {
    reading_options how = READING_OF(m->options);
    name_list wanted = {0};
    reading r = {0};
    input *group[1] = {&m->table.in};
    circe_status status = collect(m, &wanted);
    if (status == CIRCE_OK) status = reading_open(&how, &r);
    if (status == CIRCE_OK) {
        status = column_table_read(table, m->options->data, &wanted, &r, false, &m->table);
        if (status != CIRCE_OK) status = blame(m, table, &wanted, &r, status);
    }
    if (status == CIRCE_OK) status = inputs_check_categories(&how, group, 1);
    int64_t dropped = 0;
    bool test_wise = strcmp(m->options->missing, "drop") == 0;
    if (status == CIRCE_OK && !test_wise) status = inputs_check(&how, group, 1, LEAST_ROWS, &dropped);
    if (status == CIRCE_OK) status = resolve(m, &wanted);
    if (status == CIRCE_OK) status = take_of_rows(m, &wanted);
    reading_free(&r);
    name_list_free(&wanted);
    return status;
}

/* What had nothing to act on. */
static void note_unused(many *m) {
    bool given = false;
    for (int64_t i = 0; i < m->n; i++) given = given || (m->questions[i].y != NULL && m->questions[i].y[0] != '\0');
    if (given && !(m->what->uses & TEST_CONDITIONS))
        notes_add(&m->warnings, "y was ignored: %s does not look at y", m->what->name);
    if (circe_options_given(&circe_test_job_schema, m->options, "regressor") && !(m->what->uses & TEST_REGRESSION))
        notes_add(&m->warnings, "--regressor was ignored: %s has no such choice", m->what->name);
}

static void describe(const many *m) {
    circe_tests_result *r = m->result;
    r->method = m->what->name;
    r->n = (size_t)m->n;
    r->alpha = m->options->alpha;
    r->seed = m->options->seed;
    r->rows = m->table.in.values.rows;
    r->answers = small_alloc((size_t)m->n * sizeof *r->answers);
    for (int64_t i = 0; i < m->n; i++) {
        const circe_question *q = &m->questions[i];
        r->answers[i].x = small_format("%s", q->x);
        r->answers[i].y = m->asked[i].n_y > 0 ? small_format("%s", q->y) : NULL;
        r->answers[i].z = small_format("%s", q->z);
    }
}

static void free_many(many *m) {
    for (int64_t i = 0; m->asked != NULL && i < m->n; i++) {
        free(m->asked[i].x);
        free(m->asked[i].y);
        free(m->asked[i].z);
    }
    for (int k = 0; k < N_ROW_COLUMNS; k++) free(m->of_rows[k]);
    free(m->asked);
    free(m->order);
    free(m->chunk);
    free(m->lines);
    if (m->read != NULL) pairs_free(m->read, m->n);
    column_table_free(&m->table);
    notes_free(&m->warnings);
}

circe_status circe_tests_run(circe_context *context, const circe_table *table, const char *method,
                             const circe_question *questions, int64_t n, const circe_test_job_options *options,
                             const circe_watch *watch, circe_tests_result **result) {
    CIRCE_OWN_SETTINGS;
    unsigned mark;
    circe_status status = small_begin(&mark);
    many m = {.context = context,
              .options = options,
              .watch = watch,
              .questions = questions,
              .n = n,
              .warnings = {.watch = watch},
              .result = small_alloc(sizeof *m.result)};
    if (status == CIRCE_OK) status = check(&m, table, method);
    if (status == CIRCE_OK && questions == NULL) {
        status = pairs_read(options->pairs, &m.read, &m.lines, &m.n);
        m.questions = m.read;
    }
    if (status == CIRCE_OK) status = read_table(&m, table);
    if (status == CIRCE_OK) {
        note_unused(&m);
        describe(&m);
        arrange(&m);
        status = run_all(&m);
    }
    if (status == CIRCE_OK) adjust(m.result);
    m.result->warnings = notes_hand_over(&m.warnings);
    free_many(&m);
    status = small_end(mark, status);
    if (status != CIRCE_OK) {
        circe_tests_result_free(m.result);
        m.result = NULL;
    }
    *result = m.result;
    return status;
}

void circe_tests_result_free(circe_tests_result *r) {
    if (r == NULL) return;
    for (size_t i = 0; r->answers != NULL && i < r->n; i++) {
        free(r->answers[i].x);
        free(r->answers[i].y);
        free(r->answers[i].z);
        free(r->answers[i].error);
    }
    free(r->answers);
    circe_notes_clear(&r->warnings);
    free(r);
}
