/* The questions of many tests as columns of their table. What is wrong is said of the line that names it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/owned.h"
#include "jobs/notes.h"
#include "jobs/test_parts.h"

static const char *const roles[QUESTION_ROLES] = {"x", "y", "z"};

static const char *text_of(const circe_question *q, int role) {
    return role == OF_X ? q->x : role == OF_Y ? q->y : q->z;
}

/* "pairs.csv: line 3, column 'y'"; or the number of a question that no file has. */
static circe_status about(const question_set *qs, int64_t i, int role, circe_status status) {
    if (qs->lines != NULL)
        return job_about(status, "%s: line %" PRId64 ", column '%s'", qs->options->pairs, qs->lines[i], roles[role]);
    return job_about(status, "question %" PRId64 ", %s", i, roles[role]);
}

static circe_status split(const question_set *qs, int64_t i, int role, name_list *names) {
    const char *text = text_of(&qs->list[i], role);
    if (text == NULL || text[0] == '\0') return CIRCE_OK;
    circe_status status = name_list_split(roles[role], text, names);
    return status == CIRCE_OK ? CIRCE_OK : about(qs, i, role, status);
}

/* Every column that some question names, once. */
static circe_status collect(const question_set *qs, name_list *wanted) {
    const char *const rows[] = {qs->options->weights, qs->options->groups, qs->options->time};
    for (int64_t i = 0; i < qs->n; i++)
        for (int r = 0; r < QUESTION_ROLES; r++) {
            OWNED_BY(name_list_free) name_list names = {0};
            circe_status status = split(qs, i, r, &names);
            if (status != CIRCE_OK) return status;
            if (names.n == 0 && r != OF_Y)
                return about(qs, i, r, circe_fail(CIRCE_ERR_ARGUMENT, "at least one column is needed"));
            for (int64_t k = 0; k < names.n; k++) name_list_add_once(wanted, names.names[k]);
        }
    for (int k = 0; k < 3; k++)
        if (rows[k] != NULL) name_list_add_once(wanted, rows[k]);
    return CIRCE_OK;
}

/* Columns of the table by names; an array may have several. */
static circe_status columns_of(question_set *qs, int64_t i, int role, const name_list *wanted, column_set *set) {
    OWNED_BY(name_list_free) name_list names = {0};
    circe_status status = split(qs, i, role, &names);
    set->at = arena_alloc(&qs->owner, ((size_t)qs->table.in.values.cols + 1) * sizeof *set->at);
    for (int64_t k = 0; status == CIRCE_OK && k < names.n; k++) {
        int64_t at = name_list_find(wanted, names.names[k]);
        for (int64_t c = 0; c < qs->table.count[at]; c++) set->at[set->n++] = qs->table.first[at] + c;
    }
    return status;
}

/* A column of the first set that is in the second one, too; -1: there is none. */
static int64_t common_column(const column_set *one, const column_set *other) {
    for (int64_t k = 0; k < one->n; k++)
        for (int64_t l = 0; l < other->n; l++)
            if (one->at[k] == other->at[l]) return one->at[k];
    return -1;
}

static circe_status refuse_twice(const question_set *qs, int64_t i) {
    const column_set *of = qs->columns[i].of;
    for (int r = 0; r < QUESTION_ROLES; r++)
        for (int s = r + 1; s < QUESTION_ROLES; s++) {
            int64_t both = common_column(&of[r], &of[s]);
            if (both >= 0)
                return about(
                    qs, i, s,
                    circe_fail(CIRCE_ERR_ARGUMENT, "'%s' is also in %s", column_name(&qs->table, both), roles[r]));
        }
    return CIRCE_OK;
}

static circe_status resolve(question_set *qs, bool conditions, const name_list *wanted) {
    circe_status status = CIRCE_OK;
    qs->columns = arena_alloc(&qs->owner, (size_t)qs->n * sizeof *qs->columns);
    for (int64_t i = 0; i < qs->n && status == CIRCE_OK; i++) {
        column_set *of = qs->columns[i].of;
        for (int r = 0; r < QUESTION_ROLES && status == CIRCE_OK; r++) status = columns_of(qs, i, r, wanted, &of[r]);
        if (status == CIRCE_OK) status = refuse_twice(qs, i);
        if (!conditions) of[OF_Y].n = 0;
    }
    return status;
}

/* Weights, groups and times, of all rows. */
static circe_status take_of_rows(question_set *qs, const name_list *wanted) {
    const char *const sources[N_ROW_COLUMNS] = {qs->options->weights, qs->options->groups, qs->options->time};
    int64_t rows = qs->table.in.values.rows;
    circe_status status = CIRCE_OK;
    for (int k = 0; k < N_ROW_COLUMNS && status == CIRCE_OK; k++) {
        if (sources[k] == NULL) continue;
        int64_t at = name_list_find(wanted, sources[k]), column = qs->table.first[at];
        double *values = qs->of_rows[k] = arena_try(&qs->owner, (size_t)rows * sizeof *values);
        if (values == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %" PRId64 " rows", rows);
        status = row_values_take(k, sources[k], &qs->table.in, column, qs->table.count[at], values);
    }
    return status;
}

/* Finds the question whose column is missing: the first that cannot be read by itself, and where it is named. */
static circe_status blame(const question_set *qs, const circe_table *table, const name_list *wanted, const reading *how,
                          circe_status status) {
    for (int64_t k = 0; k < wanted->n; k++) {
        OWNED_BY(name_list_free) name_list one = {0};
        column_table alone = {0};
        name_list_add(&one, wanted->names[k]);
        circe_status failed = column_table_read(table, qs->options->data, &one, how, false, &alone);
        column_table_free(&alone);
        for (int64_t i = 0; failed != CIRCE_OK && i < qs->n; i++) {
            for (int r = 0; r < QUESTION_ROLES; r++) {
                OWNED_BY(name_list_free) name_list names = {0};
                if (split(qs, i, r, &names) == CIRCE_OK && name_list_find(&names, wanted->names[k]) >= 0)
                    return about(qs, i, r, failed);
            }
        }
        if (failed != CIRCE_OK) return failed;
    }
    return status;
}

circe_status questions_read(const circe_table *table, bool conditions, question_set *qs) {
    if (qs->list == NULL) {
        circe_status status = pairs_read(&qs->owner, qs->options->pairs, &qs->read, &qs->lines, &qs->n);
        if (status != CIRCE_OK) return status;
        qs->list = qs->read;
    }
    reading_options how = READING_OF(qs->options);
    OWNED_BY(name_list_free) name_list wanted = {0};
    OWNED_BY(reading_free) reading r = {0};
    input *group[1] = {&qs->table.in};
    circe_status status = collect(qs, &wanted);
    if (status == CIRCE_OK) status = reading_open(&how, &r);
    if (status == CIRCE_OK) {
        status = column_table_read(table, qs->options->data, &wanted, &r, false, &qs->table);
        if (status != CIRCE_OK) status = blame(qs, table, &wanted, &r, status);
    }
    if (status == CIRCE_OK) status = inputs_check_categories(&how, group, 1);
    int64_t dropped = 0;
    bool test_wise = strcmp(qs->options->missing, "drop") == 0;
    if (status == CIRCE_OK && !test_wise) status = inputs_check(&how, group, 1, TEST_LEAST_ROWS, &dropped);
    if (status == CIRCE_OK) status = resolve(qs, conditions, &wanted);
    return status == CIRCE_OK ? take_of_rows(qs, &wanted) : status;
}

void questions_free(question_set *qs) {
    free(qs->lines);
    free(qs->read);
    column_table_free(&qs->table);
    arena_free(&qs->owner);
}
