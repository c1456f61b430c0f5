/* Tables of an experiment: what those of all kinds have in common, the one for programs, and printing. */
#include "cli/experiment/experiment_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/experiment/experiment_kind.h"
#include "cli/experiment/experiment_model.h"

/* ---- building ---------------------------------------------------------------------------------------------------- */

table_builder table_begin(arena *owner, int64_t rows) {
    size_t cells = (size_t)(rows > 0 ? rows : 1) * TABLE_MOST_COLUMNS;
    return (table_builder){.owner = owner,
                           .columns = arena_alloc(owner, TABLE_MOST_COLUMNS * sizeof(char *)),
                           .numeric = arena_alloc(owner, TABLE_MOST_COLUMNS * sizeof(bool)),
                           .cells = arena_alloc(owner, cells * sizeof(char *))};
}

void table_column(table_builder *b, const char *name, bool numeric) {
    b->columns[b->n_columns] = name;
    b->numeric[b->n_columns++] = numeric;
}

void table_cell(table_builder *b, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    b->cells[b->n_cells++] = arena_text(b->owner, text);
}

report_table table_end(const table_builder *b) {
    return (report_table){.caption = "",
                          .columns = b->columns,
                          .n_columns = b->n_columns,
                          .n_rows = b->n_cells / b->n_columns,
                          .cells = b->cells,
                          .numeric = b->numeric,
                          .marked = -1};
}

/* ---- for people -------------------------------------------------------------------------------------------------- */

const char *table_digits(double value, int n, char *text, size_t size) {
    double magnitude = fabs(value);
    if (isnan(value)) return "";
    if (magnitude == 0)
        snprintf(text, size, "0");
    else if (magnitude < 1e-3)
        snprintf(text, size, "%.*e", n - 1, value);
    else if (magnitude < 100)
        snprintf(text, size, "%#.*g", n, value);
    else
        snprintf(text, size, "%.0f", value);
    return text;
}

void table_cell_three(table_builder *b, double value) {
    char text[32];
    table_cell(b, "%s", table_digits(value, 3, text, sizeof text));
}

void table_cell_range(table_builder *b, const summary_number *number, int64_t n) {
    char median[32], low[32], high[32];
    if (n > 1 && !isnan(number->median))
        table_cell(b, "%s\n[%s–%s]", table_digits(number->median, 3, median, sizeof median),
                   table_digits(number->low, 2, low, sizeof low), table_digits(number->high, 2, high, sizeof high));
    else
        table_cell_three(b, number->median);
}

static bool has_rates(const experiment_config *config) {
    for (int64_t m = 0; m < config->methods.n; m++)
        if (experiment_method_at(config, m)->rate.n > 0 || experiment_method_at(config, m)->decay.n > 0) return true;
    return false;
}

void table_columns_of_choice(table_builder *b, const experiment_config *config) {
    table_column(b, "model", false);
    table_column(b, "method", false);
    table_column(b, "gamma", true);
    if (!has_rates(config)) return;
    table_column(b, "rate", true);
    table_column(b, "decay", true);
}

void table_cells_of_choice(table_builder *b, const experiment_config *config, const summary_row *row) {
    const experiment_method *method = experiment_method_at(config, row->method);
    char text[96];
    table_cell(b, "%s", experiment_model_text(row->model, row->d, text, sizeof text));
    table_cell(b, "%s", method->name);
    if (method->gamma.n > 0)
        table_cell(b, "%.4g", row->choice.gamma);
    else
        table_cell(b, "%s", "");
    if (!has_rates(config)) return;
    table_cell(b, "%.4g", row->choice.rate);
    table_cell(b, "%.4g", row->choice.decay);
}

/* ---- for programs ------------------------------------------------------------------------------------------------ */

static void cell_exact(table_builder *b, double value) {
    if (isfinite(value))
        table_cell(b, "%.17g", value);
    else
        table_cell(b, "%s", "");
}

/* Which run it is. */
static void cells_of_run(table_builder *b, const experiment_plan *plan, const planned_run *run) {
    const run_group *group = &plan->groups[run->group];
    bool trained = group->method >= 0;
    experiment_choice choice = experiment_choice_of(run);
    char text[96];
    table_cell(b, "%s", run->id != NULL ? run->id : "");
    table_cell(b, "%s",
               plan->config->kind->pictures ? experiment_model_id(group->model, 1, text, sizeof text)
                                            : experiment_model_name(group->model->word));
    table_cell(b, "%" PRId64, group->d);
    table_cell(b, "%s", trained ? experiment_method_at(plan->config, group->method)->name : "");
    cell_exact(b, trained ? choice.gamma : (double)NAN);
    cell_exact(b, trained ? choice.rate : (double)NAN);
    cell_exact(b, trained ? choice.decay : (double)NAN);
    table_cell(b, "%" PRId64, run->settings.seed);
    table_cell(b, "%s", experiment_role_name(run->role));
    table_cell(b, "%s", run->error != NULL ? run->error : "");
}

void experiment_run_table(const experiment_plan *plan, arena *owner, report_table *table) {
    static const struct {
        const char *name;
        bool numeric;
    } columns[] = {{"run", false}, {"model", false}, {"d", true},    {"method", false}, {"gamma", true},
                   {"rate", true}, {"decay", true},  {"seed", true}, {"role", false},   {"error", false}};
    const experiment_kind *kind = plan->config->kind;
    table_builder b = table_begin(owner, plan->n_runs);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) table_column(&b, columns[i].name, columns[i].numeric);
    for (int64_t i = 0; i < kind->n_numbers; i++) table_column(&b, experiment_number_name(kind->numbers[i]), true);
    for (int64_t i = 0; i < plan->n_runs; i++) {
        const planned_run *run = &plan->runs[i];
        cells_of_run(&b, plan, run);
        for (int64_t k = 0; k < kind->n_numbers; k++)
            cell_exact(&b, run->state == RUN_DONE ? run->result.number[kind->numbers[k]] : (double)NAN);
    }
    *table = table_end(&b);
}

/* ---- on the terminal --------------------------------------------------------------------------------------------- */

/* Columns that a text takes: characters, without combining marks (the circumflex of B̂). */
static int width_of(const char *text) {
    int width = 0;
    for (const unsigned char *c = (const unsigned char *)(text != NULL ? text : ""); *c != '\0'; c++) {
        if ((*c & 0xc0) == 0x80) continue;
        bool combining = (c[0] == 0xcc && c[1] >= 0x80) || (c[0] == 0xcd && c[1] < 0xb0);
        width += !combining;
    }
    return width;
}

static void print_line(const report_table *table, const char *const *cells, const int *widths) {
    for (int64_t c = 0; c < table->n_columns; c++) {
        const char *text = cells[c] != NULL ? cells[c] : "";
        int room = widths[c] - width_of(text);
        bool last = c + 1 == table->n_columns;
        if (table->numeric[c]) printf("%*s", room, "");
        for (const char *t = text; *t != '\0'; t++) putchar(*t == '\n' ? ' ' : *t);
        if (!table->numeric[c] && !last) printf("%*s", room, "");
        fputs(last ? "\n" : "  ", stdout);
    }
}

void experiment_print_table(const report_table *table) {
    int widths[TABLE_MOST_COLUMNS] = {0};
    for (int64_t c = 0; c < table->n_columns; c++) {
        widths[c] = width_of(table->columns[c]);
        for (int64_t r = 0; r < table->n_rows; r++) {
            int width = width_of(table->cells[r * table->n_columns + c]);
            if (width > widths[c]) widths[c] = width;
        }
    }
    print_line(table, table->columns, widths);
    for (int64_t r = 0; r < table->n_rows; r++) print_line(table, table->cells + r * table->n_columns, widths);
}
