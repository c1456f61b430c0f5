/* The questions of many tests as columns of their table. What is wrong is said of the line that names it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/small.h"
#include "jobs/notes.h"
#include "jobs/test_parts.h"

/* "pairs.csv: line 3, column 'y'"; or the number of a question that no file has. */
static circe_status about(const question_set *qs, int64_t i, const char *role, circe_status status) {
    if (qs->lines != NULL)
        return job_about(status, "%s: line %" PRId64 ", column '%s'", qs->options->pairs, qs->lines[i], role);
    return job_about(status, "question %" PRId64 ", %s", i, role);
}

static circe_status split(const question_set *qs, int64_t i, const char *role, const char *text, name_list *names) {
    *names = (name_list){0};
    if (text == NULL || text[0] == '\0') return CIRCE_OK;
    circe_status status = name_list_split(role, text, names);
    return status == CIRCE_OK ? CIRCE_OK : about(qs, i, role, status);
}

/* Every column that some question names, once. */
static circe_status collect(const question_set *qs, name_list *wanted) {
    circe_status status = CIRCE_OK;
    for (int64_t i = 0; i < qs->n && status == CIRCE_OK; i++) {
        const char *const texts[] = {qs->list[i].x, qs->list[i].y, qs->list[i].z};
        const char *const roles[] = {"x", "y", "z"};
        for (int r = 0; r < 3 && status == CIRCE_OK; r++) {
            name_list names;
            status = split(qs, i, roles[r], texts[r], &names);
            if (status == CIRCE_OK && names.n == 0 && r != 1)
                status = about(qs, i, roles[r], circe_fail(CIRCE_ERR_ARGUMENT, "at least one column is needed"));
            for (int64_t k = 0; status == CIRCE_OK && k < names.n; k++)
                if (name_list_find(wanted, names.names[k]) < 0) name_list_add(wanted, names.names[k]);
            name_list_free(&names);
        }
    }
    const char *const rows[] = {qs->options->weights, qs->options->groups, qs->options->time};
    for (int k = 0; k < 3 && status == CIRCE_OK; k++)
        if (rows[k] != NULL && name_list_find(wanted, rows[k]) < 0) name_list_add(wanted, rows[k]);
    return status;
}

/* Columns of the table by names; an array may have several. */
static circe_status columns_of(const question_set *qs, int64_t i, const char *role, const char *text,
                               const name_list *wanted, int64_t **columns, int64_t *n) {
    name_list names;
    circe_status status = split(qs, i, role, text, &names);
    *n = 0;
    *columns = small_alloc(((size_t)qs->table.in.values.cols + 1) * sizeof **columns);
    for (int64_t k = 0; status == CIRCE_OK && k < names.n; k++) {
        int64_t at = name_list_find(wanted, names.names[k]);
        for (int64_t c = 0; c < qs->table.count[at]; c++) (*columns)[(*n)++] = qs->table.first[at] + c;
    }
    name_list_free(&names);
    return status;
}

static circe_status refuse_twice(const question_set *qs, int64_t i) {
    const question_columns *a = &qs->columns[i];
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
                        return about(qs, i, roles[s].role,
                                     circe_fail(CIRCE_ERR_ARGUMENT, "'%s' is also in %s",
                                                column_name(&qs->table, roles[r].columns[k]), roles[r].role));
    return CIRCE_OK;
}

static circe_status resolve(question_set *qs, bool conditions, const name_list *wanted) {
    circe_status status = CIRCE_OK;
    qs->columns = small_alloc((size_t)qs->n * sizeof *qs->columns);
    for (int64_t i = 0; i < qs->n && status == CIRCE_OK; i++) {
        question_columns *a = &qs->columns[i];
        const circe_question *q = &qs->list[i];
        status = columns_of(qs, i, "x", q->x, wanted, &a->x, &a->n_x);
        if (status == CIRCE_OK) status = columns_of(qs, i, "y", q->y, wanted, &a->y, &a->n_y);
        if (status == CIRCE_OK) status = columns_of(qs, i, "z", q->z, wanted, &a->z, &a->n_z);
        if (status == CIRCE_OK) status = refuse_twice(qs, i);
        if (!conditions) a->n_y = 0;
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
        double *values = qs->of_rows[k] = malloc((size_t)rows * sizeof *values);
        if (values == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %" PRId64 " rows", rows);
        for (int64_t i = 0; i < rows; i++) values[i] = column_value(&qs->table, i, column);
        status =
            row_values_settle(k, sources[k], qs->table.count[at], column_categories(&qs->table, column), values, rows);
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
            const char *const texts[] = {qs->list[i].x, qs->list[i].y, qs->list[i].z};
            const char *const roles[] = {"x", "y", "z"};
            for (int r = 0; r < 3; r++) {
                OWNED_BY(name_list_free) name_list names = {0};
                if (texts[r] == NULL || name_list_split(roles[r], texts[r], &names) != CIRCE_OK) continue;
                bool here = name_list_find(&names, wanted->names[k]) >= 0;
                if (here) return about(qs, i, roles[r], failed);
            }
        }
        if (failed != CIRCE_OK) return failed;
    }
    return status;
}

circe_status questions_read(const circe_table *table, bool conditions, question_set *qs) {
    if (qs->list == NULL) {
        circe_status status = pairs_read(qs->options->pairs, &qs->read, &qs->lines, &qs->n);
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
    for (int64_t i = 0; qs->columns != NULL && i < qs->n; i++) {
        free(qs->columns[i].x);
        free(qs->columns[i].y);
        free(qs->columns[i].z);
    }
    for (int k = 0; k < N_ROW_COLUMNS; k++) free(qs->of_rows[k]);
    free(qs->columns);
    free(qs->lines);
    if (qs->read != NULL) pairs_free(qs->read, qs->n);
    column_table_free(&qs->table);
}
