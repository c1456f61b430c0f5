/* Weights, groups and times of the rows of a test. */
#include "jobs/test_parts.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/owned.h"
#include "core/core.h"
#include "core/sort.h"

static const char *const option_names[N_ROW_COLUMNS] = {"weights", "groups", "time"};
static const variable kinds[N_ROW_COLUMNS] = {VARIABLE_WEIGHTS, VARIABLE_GROUPS, VARIABLE_TIME};

void row_columns_of(const circe_test_job_options *options, row_column columns[N_ROW_COLUMNS]) {
    columns[ROW_WEIGHTS].source = options->weights;
    columns[ROW_GROUPS].source = options->groups;
    columns[ROW_TIME].source = options->time;
}

void row_columns_free(row_column columns[N_ROW_COLUMNS]) {
    for (int k = 0; k < N_ROW_COLUMNS; k++) {
        input_free(&columns[k].in);
        free(columns[k].values);
    }
}

int row_columns_join(row_column columns[N_ROW_COLUMNS], variable *variables, input **group, int n) {
    for (int k = 0; k < N_ROW_COLUMNS; k++) {
        if (columns[k].source == NULL) continue;
        variables[n] = kinds[k];
        group[n++] = &columns[k].in;
    }
    return n;
}

static circe_status check_weights(const char *source, const input *from, const double *values) {
    double sum = 0;
    for (int64_t i = 0; i < from->values.rows; i++) {
        if (values[i] < 0)
            return circe_fail(CIRCE_ERR_VALUE, "--weights %s: row %" PRId64 " is %g; a weight must be at least 0",
                              source, io_table_row(&from->table, i), values[i]);
        if (!isnan(values[i])) sum += values[i];
    }
    return sum > 0 ? CIRCE_OK : circe_fail(CIRCE_ERR_VALUE, "--weights: all weights are 0, so no rows are left");
}

/* Two digits, or one before a colon; -1: none. *at goes past them. */
static int two_digits(const char **at) {
    const char *c = *at;
    if (!isdigit((unsigned char)c[0])) return -1;
    bool one = c[1] == ':';
    if (!one && !isdigit((unsigned char)c[1])) return -1;
    *at += one ? 1 : 2;
    return one ? c[0] - '0' : 10 * (c[0] - '0') + c[1] - '0';
}

/* Days since 1 March of the year 0. */
static double day_number(int year, int month, int day) {
    int y = month > 2 ? year : year - 1, m = (month + 9) % 12;
    return 365.0 * y + floor(y / 4.0) - floor(y / 100.0) + floor(y / 400.0) + floor((153.0 * m + 2.0) / 5.0) + day;
}

/* A zone as Z, +02:00, +0200 or +02, in seconds. */
static bool read_zone(const char *at, double *seconds) {
    double sign = at[0] == '-' ? -1.0 : 1.0;
    *seconds = 0.0;
    if (strcmp(at, "Z") == 0 || strcmp(at, "z") == 0) return true;
    if (*at != '+' && *at != '-') return false;
    at++;
    int hours = two_digits(&at), minutes = 0;
    if (hours >= 0 && *at != '\0') {
        at += *at == ':';
        minutes = two_digits(&at);
    }
    *seconds = sign * (3600.0 * hours + 60.0 * minutes);
    return hours >= 0 && hours < 24 && minutes >= 0 && minutes < 60 && *at == '\0';
}

/* A time as 18:05, 18:05:30 or 18:05:30.25, in seconds. */
static bool read_time(const char **at, double *seconds) {
    int hour = two_digits(at), minute = -1;
    double second = 0.0;
    if (hour < 0 || *(*at)++ != ':') return false;
    minute = two_digits(at);
    if (**at == ':') {
        (*at)++;
        int whole = two_digits(at);
        second = whole;
        if (whole < 0 || whole > 60) return false;
        double place = 0.1;
        for (bool fraction = **at == '.' || **at == ','; fraction && isdigit((unsigned char)*++*at); place /= 10)
            second += place * (**at - '0');
    }
    *seconds = 3600.0 * hour + 60.0 * minute + second;
    return hour < 24 && minute >= 0 && minute < 60;
}

typedef enum clock_zone { NO_CLOCK, WITHOUT_ZONE, WITH_ZONE } clock_zone;

/* 2024-03-31, with or without a time and its zone: seconds since some day. */
static bool read_date(const char *text, double *seconds, clock_zone *zone) {
    static const char form[] = "dddd-dd-dd";
    double time = 0.0, offset = 0.0;
    for (size_t i = 0; form[i] != '\0'; i++)
        if (form[i] == 'd' ? !isdigit((unsigned char)text[i]) : text[i] != form[i]) return false;
    int year = (int)strtol(text, NULL, 10), month = (int)strtol(text + 5, NULL, 10),
        day = (int)strtol(text + 8, NULL, 10);
    const char *at = text + sizeof form - 1;
    *zone = *at == '\0' ? NO_CLOCK : WITHOUT_ZONE;
    if (month < 1 || month > 12 || day < 1 || day > 31) return false;
    if (*zone != NO_CLOCK) {
        if (strchr("Tt ", *at++) == NULL || !read_time(&at, &time)) return false;
        if (*at != '\0') *zone = WITH_ZONE;
        if (*zone == WITH_ZONE && !read_zone(at, &offset)) return false;
    }
    *seconds = 86400.0 * day_number(year, month, day) + time - offset;
    return true;
}

/* seconds[k] := of texts[k]. */
static circe_status read_dates(char *const *texts, double *seconds) {
    const char *with = NULL, *without = NULL;
    for (int64_t k = 0; texts[k] != NULL; k++) {
        clock_zone zone;
        if (!read_date(texts[k], &seconds[k], &zone))
            return circe_fail(CIRCE_ERR_VALUE,
                              "--time must contain numbers, or dates such as 2024-03-31 or 2024-03-31T18:05:00+02:00, "
                              "not '%s'",
                              texts[k]);
        if (zone == WITH_ZONE) with = texts[k];
        if (zone == WITHOUT_ZONE) without = texts[k];
    }
    if (with == NULL || without == NULL) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_VALUE, "--time: '%s' has a time zone and '%s' has none; give all or none of them one",
                      with, without);
}

/* Codes of dates become their order. */
static circe_status order_dates(char *const *texts, double *values, int64_t rows) {
    int64_t n = 0, different = 0;
    while (texts[n] != NULL) n++;
    OWNED double *seconds = malloc((size_t)(n + 1) * sizeof *seconds);
    OWNED double *sorted = malloc((size_t)(n + 1) * sizeof *sorted);
    if (seconds == NULL || sorted == NULL)
        return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %" PRId64 " dates", n);
    circe_status status = read_dates(texts, seconds);
    if (status != CIRCE_OK) return status;
    memcpy(sorted, seconds, (size_t)n * sizeof *sorted);
    circe__sort(sorted, n);
    for (int64_t k = 0; k < n; k++)
        if (different == 0 || sorted[k] != sorted[different - 1]) sorted[different++] = sorted[k];
    for (int64_t i = 0; i < rows; i++) {
        if (isnan(values[i])) continue;
        int64_t low = 0, high = different - 1;
        while (low < high) {
            int64_t middle = low + (high - low) / 2;
            if (sorted[middle] < seconds[(int64_t)values[i]])
                low = middle + 1;
            else
                high = middle;
        }
        values[i] = (double)low;
    }
    return CIRCE_OK;
}

circe_status row_values_take(int kind, const char *source, const input *from, int64_t first, int64_t columns,
                             double *values) {
    const circe_mat *m = &from->values;
    char *const *texts = from->described->categories != NULL ? from->described->categories[first] : NULL;
    if (columns != 1 || (texts != NULL && kind == ROW_WEIGHTS))
        return circe_fail(CIRCE_ERR_VALUE, "--%s must be one column%s, not %s", option_names[kind],
                          kind == ROW_WEIGHTS ? " of numbers" : "", source);
    for (int64_t i = 0; i < m->rows; i++) values[i] = circe__at(m, i, first);
    if (kind == ROW_WEIGHTS) return check_weights(source, from, values);
    return kind == ROW_TIME && texts != NULL ? order_dates(texts, values, m->rows) : CIRCE_OK;
}

static circe_status take(row_column *column, int kind) {
    const circe_mat *m = &column->in.values;
    free(column->values);
    column->values = malloc((size_t)m->rows * sizeof *column->values);
    if (column->values == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %" PRId64 " rows", m->rows);
    return row_values_take(kind, column->source, &column->in, 0, m->cols, column->values);
}

circe_status row_columns_take(row_column columns[N_ROW_COLUMNS]) {
    circe_status status = CIRCE_OK;
    for (int k = 0; k < N_ROW_COLUMNS && status == CIRCE_OK; k++)
        if (columns[k].source != NULL) status = take(&columns[k], k);
    return status;
}
