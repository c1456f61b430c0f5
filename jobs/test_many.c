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
#include "io/paths.h"
#include "jobs/kernel_choice.h"
#include "jobs/notes.h"
#include "jobs/test_gpu.h"
#include "jobs/test_parts.h"
#include "jobs/tests.h"

enum { MOST_THREADS = 256, CHUNK = 64 };

/* The result, with all that it points to. */
typedef struct answered {
    circe_tests_result result; /* first: what the caller holds */
    arena owner;
} answered;

typedef struct many {
    circe_context *context;
    const circe_test_job_options *options;
    const circe_watch *watch;
    const test_kind *what;
    question_set all;
    int64_t *order; /* (n): by conditions; this and the next of the questions */
    int64_t *chunk; /* (chunks + 1): of the order */
    int64_t chunks;
    atomic_llong next, done;
    atomic_bool stopping;
    notes warnings;
    circe_tests_result *result;
    arena *owner; /* of what the result points to */
} many;

/* ---- order ------------------------------------------------------------------------------------------------------- */

typedef struct place {
    const question_columns *columns;
    int64_t i;
} place;

static int compare(const column_set *a, const column_set *b) {
    if (a->n != b->n) return a->n < b->n ? -1 : 1;
    for (int64_t k = 0; k < a->n; k++)
        if (a->at[k] != b->at[k]) return a->at[k] < b->at[k] ? -1 : 1;
    return 0;
}

static int by_conditions(const void *a, const void *b) {
    const place *p = a, *q = b;
    int order = compare(&p->columns->of[OF_Y], &q->columns->of[OF_Y]);
    return order != 0 ? order : p->i < q->i ? -1 : p->i > q->i;
}

static int by_columns(const void *a, const void *b) {
    const place *p = a, *q = b;
    int order = 0;
    for (int r = 0; r < QUESTION_ROLES && order == 0; r++) order = compare(&p->columns->of[r], &q->columns->of[r]);
    return order != 0 ? order : p->i < q->i ? -1 : p->i > q->i;
}

static bool same_conditions(const question_columns *a, const question_columns *b) {
    return compare(&a->of[OF_Y], &b->of[OF_Y]) == 0;
}

static place *places_of(const many *m, int (*order)(const void *, const void *)) {
    place *places = small_alloc((size_t)m->all.n * sizeof *places);
    for (int64_t i = 0; i < m->all.n; i++) places[i] = (place){&m->all.columns[i], i};
    qsort(places, (size_t)m->all.n, sizeof *places, order);
    return places;
}

/* Chunks of questions on the same conditions. */
static void arrange(many *m) {
    OWNED place *places = places_of(m, by_conditions);
    m->order = arena_alloc(&m->all.owner, (size_t)m->all.n * sizeof *m->order);
    m->chunk = arena_alloc(&m->all.owner, (size_t)(m->all.n + 1) * sizeof *m->chunk);
    for (int64_t i = 0, from = 0; i < m->all.n; i++) {
        m->order[i] = places[i].i;
        if (i > from && i - from < CHUNK && same_conditions(places[i].columns, places[i - 1].columns)) continue;
        m->chunk[m->chunks++] = from = i;
    }
    m->chunk[m->chunks] = m->all.n;
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

static bool complete(const many *m, int64_t row, const column_set *set) {
    for (int64_t k = 0; k < set->n; k++)
        if (isnan(column_value(&m->all.table, row, set->at[k]))) return false;
    return true;
}

/* Rows without a missing cell in this question's columns. */
static int64_t take_rows(const worker *w, const question_columns *a) {
    const many *m = w->m;
    int64_t n = 0;
    for (int64_t i = 0; i < m->all.table.in.values.rows; i++) {
        bool whole = complete(m, i, &a->of[OF_X]) && complete(m, i, &a->of[OF_Y]) && complete(m, i, &a->of[OF_Z]);
        for (int k = 0; k < N_ROW_COLUMNS && whole; k++)
            whole = m->all.of_rows[k] == NULL || !isnan(m->all.of_rows[k][i]);
        if (whole) w->rows[n++] = i;
    }
    return n;
}

static double *take_columns(const worker *w, const column_set *set, int64_t n, double *to) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < set->n; k++) *to++ = column_value(&w->m->all.table, w->rows[i], set->at[k]);
    return to;
}

/* Weights, groups or times of the worker's rows; NULL: there are none. */
static const double *take_of_row(const worker *w, int kind, int64_t n, double **to) {
    const double *from = w->m->all.of_rows[kind];
    double *taken = *to;
    if (from == NULL) return NULL;
    for (int64_t i = 0; i < n; i++) *(*to)++ = from[w->rows[i]];
    return taken;
}

/* Gaussian for numbers and delta for categories, where there are any; NULL: the library's own choice. */
static circe_status kernel_of(const worker *w, const column_set *set, circe_kernel **kernel) {
    OWNED bool *categories = small_alloc((size_t)set->n * sizeof *categories);
    bool any = false;
    *kernel = NULL;
    for (int64_t k = 0; k < set->n; k++) {
        categories[k] = column_categories(&w->m->all.table, set->at[k]) != NULL;
        any = any || categories[k];
    }
    if (!any) return CIRCE_OK;
    OWNED char *text = kernel_of_columns(categories, set->n, false);
    return circe_kernel_parse(w->context, text, kernel);
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
    const question_columns *a = &m->all.columns[i];
    circe_kernel *kernels[QUESTION_ROLES] = {NULL, NULL, NULL};
    int64_t n = take_rows(w, a);
    double *rest = w->cells;
    circe_mat mats[QUESTION_ROLES];
    for (int r = 0; r < QUESTION_ROLES; r++) {
        mats[r] = circe_mat_f64(rest, n, a->of[r].n);
        rest = take_columns(w, &a->of[r], n, rest);
    }
    circe_test_options o = test_options_of(m->options, m->what);
    o.memory = w->memory;
    o.device = w->gpu.device;
    circe_answer *answer = &m->result->answers[i];
    answer->dropped = m->all.table.in.values.rows - n;
    o.weights = take_of_row(w, ROW_WEIGHTS, n, &rest);
    o.groups = take_of_row(w, ROW_GROUPS, n, &rest);
    o.time = take_of_row(w, ROW_TIME, n, &rest);
    if (n < TEST_LEAST_ROWS)
        return circe_fail(CIRCE_ERR_VALUE, "%" PRId64 " rows without missing cells; at least %d are needed", n,
                          TEST_LEAST_ROWS);
    circe_status status = CIRCE_OK;
    for (int r = 0; r < QUESTION_ROLES && status == CIRCE_OK; r++) status = kernel_of(w, &a->of[r], &kernels[r]);
    o.kernel_x = kernels[OF_X];
    o.kernel_y = kernels[OF_Y];
    o.kernel_z = kernels[OF_Z];
    if (status == CIRCE_OK)
        status = find_result(w, &mats[OF_X], a->of[OF_Y].n > 0 ? &mats[OF_Y] : NULL, &mats[OF_Z], &o, answer);
    for (int r = 0; r < QUESTION_ROLES; r++) circe_kernel_destroy(kernels[r]);
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
                w->status = job_progress(m->watch, (double)done / (double)m->all.n, "%" PRId64 " of %" PRId64 " tests",
                                         done, m->all.n);
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
    int64_t rows = m->all.table.in.values.rows, cols = m->all.table.in.values.cols;
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
    OWNED worker *workers = small_alloc((size_t)threads * sizeof *workers);
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
    return status;
}

/* ---- several p-values -------------------------------------------------------------------------------------------- */

static int by_p(const void *a, const void *b) {
    const circe_answer *const *p = a, *const *q = b;
    double x = (*p)->result.p_value, y = (*q)->result.p_value;
    return x < y ? -1 : x > y;
}

/* first[i]: the first question on the same columns as question i. How many are not the first. */
static int64_t find_repeated(const many *m, int64_t *first) {
    OWNED place *places = places_of(m, by_columns);
    int64_t repeated = 0;
    for (int64_t k = 0, at = 0; k < m->all.n; k++) {
        bool same = k > 0;
        for (int r = 0; r < QUESTION_ROLES && same; r++)
            same = compare(&places[k].columns->of[r], &places[at].columns->of[r]) == 0;
        if (!same) at = k;
        first[places[k].i] = places[at].i;
        repeated += same;
    }
    return repeated;
}

/* Holm (1979): the chance of any false rejection; Benjamini and Hochberg (1995): the share of false ones. The same test
 * asked again is no further one. */
static void adjust(many *m) {
    circe_tests_result *r = m->result;
    OWNED int64_t *first = small_alloc((r->n + 1) * sizeof *first);
    int64_t repeated = find_repeated(m, first);
    if (repeated > 0)
        notes_add(&m->warnings,
                  "%" PRId64 " test%s the columns of an earlier one, and %s not count again in the adjustment",
                  repeated, repeated == 1 ? " has" : "s have", repeated == 1 ? "does" : "do");
    OWNED circe_answer **sorted = small_alloc((r->n + 1) * sizeof *sorted);
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++) {
        circe_answer *a = &r->answers[i];
        a->p_holm = a->p_bh = NAN;
        r->n_failed += a->error != NULL;
        r->n_cached += a->cached != 0;
        if (a->error == NULL && first[i] == (int64_t)i) sorted[n++] = a;
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
    for (size_t i = 0; i < r->n; i++) {
        r->answers[i].p_holm = r->answers[first[i]].p_holm;
        r->answers[i].p_bh = r->answers[first[i]].p_bh;
    }
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
    if (status == CIRCE_OK && circe_options_given(&circe_test_job_schema, o, "block") && o->time == NULL)
        status = circe_fail(CIRCE_ERR_ARGUMENT, "--block needs --time: it is a number of consecutive times");
    if (status == CIRCE_OK && strcmp(o->missing, "impute") == 0)
        status = circe_fail(CIRCE_ERR_ARGUMENT, "--missing impute is for a single test; with --pairs, use drop");
    if (status == CIRCE_OK && circe_word_index(test_regressors, o->regressor) < 0)
        status = circe_fail(CIRCE_ERR_ARGUMENT, "--pairs takes the regressors kernel, linear and forest, not '%s'",
                            o->regressor);
    if (status == CIRCE_OK && table == NULL && o->data == NULL)
        status = circe_fail(CIRCE_ERR_ARGUMENT, "--pairs needs --data FILE, the table with the columns");
    return status == CIRCE_OK && o->cache != NULL ? path_make_folder(o->cache) : status;
}

/* What had nothing to act on. */
static void note_unused(many *m) {
    bool given = false;
    for (int64_t i = 0; i < m->all.n; i++) given = given || (m->all.list[i].y != NULL && m->all.list[i].y[0] != '\0');
    if (given && !(m->what->uses & TEST_CONDITIONS))
        notes_add(&m->warnings, "y was ignored: %s does not look at y", m->what->name);
    if (circe_options_given(&circe_test_job_schema, m->options, "regressor") && !(m->what->uses & TEST_REGRESSION))
        notes_add(&m->warnings, "--regressor was ignored: %s has no such choice", m->what->name);
}

static void describe(const many *m) {
    circe_tests_result *r = m->result;
    r->method = m->what->name;
    r->n = (size_t)m->all.n;
    r->alpha = m->options->alpha;
    r->seed = m->options->seed;
    r->rows = m->all.table.in.values.rows;
    r->answers = arena_alloc(m->owner, (size_t)m->all.n * sizeof *r->answers);
    for (int64_t i = 0; i < m->all.n; i++) {
        const circe_question *q = &m->all.list[i];
        r->answers[i].x = arena_text(m->owner, q->x);
        r->answers[i].y = m->all.columns[i].of[OF_Y].n > 0 ? arena_text(m->owner, q->y) : NULL;
        r->answers[i].z = arena_text(m->owner, q->z);
    }
}

circe_status circe_tests_run(circe_context *context, const circe_table *table, const char *method,
                             const circe_question *questions, int64_t n, const circe_test_job_options *options,
                             const circe_watch *watch, circe_tests_result **result) {
    CIRCE_OWN_SETTINGS;
    unsigned mark;
    circe_status status = small_begin(&mark);
    answered *made = small_alloc(sizeof *made);
    many m = {.context = context,
              .options = options,
              .watch = watch,
              .all = {.options = options, .list = questions, .n = n},
              .warnings = {.watch = watch},
              .result = &made->result,
              .owner = &made->owner};
    if (status == CIRCE_OK) status = check(&m, table, method);
    if (status == CIRCE_OK) status = questions_read(table, m.what->uses & TEST_CONDITIONS, &m.all);
    if (status == CIRCE_OK) {
        note_unused(&m);
        describe(&m);
        arrange(&m);
        status = run_all(&m);
    }
    if (status == CIRCE_OK) adjust(&m);
    m.result->warnings = notes_hand_over(&m.warnings);
    questions_free(&m.all);
    notes_free(&m.warnings);
    status = small_end(mark, status);
    if (status != CIRCE_OK) circe_tests_result_free(m.result);
    *result = status == CIRCE_OK ? m.result : NULL;
    return status;
}

void circe_tests_result_free(circe_tests_result *r) {
    if (r == NULL) return;
    answered *made = (answered *)(void *)r;
    for (size_t i = 0; r->answers != NULL && i < r->n; i++) free(r->answers[i].error); /* from any thread */
    arena_free(&made->owner);
    circe_notes_clear(&r->warnings);
    free(made);
}
