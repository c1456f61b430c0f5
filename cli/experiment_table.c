/* Tables of an experiment: for people, with three digits, and for programs, with all. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "experiment_output.h"
#include "message.h"

enum { MOST_COLUMNS = 24 };

const char *experiment_model_text(const synthetic_model *model, char *text, size_t size) {
    bool several = model->kind == SYNTHETIC_MULTIVARIATE_1 || model->kind == SYNTHETIC_MULTIVARIATE_2;
    if (several)
        snprintf(text, size, "%s, d = %" PRId64, synthetic_name(model->kind), model->d);
    else
        snprintf(text, size, "%s", synthetic_name(model->kind));
    return text;
}

/* ---- building ---------------------------------------------------------------------------------------------------- */

typedef struct builder {
    arena *owner;
    const char **columns;
    bool *numeric;
    const char **cells;
    int64_t n_columns, n_cells;
} builder;

static builder begin(arena *owner, int64_t rows) {
    return (builder){.owner = owner,
                     .columns = arena_alloc(owner, MOST_COLUMNS * sizeof(char *)),
                     .numeric = arena_alloc(owner, MOST_COLUMNS * sizeof(bool)),
                     .cells = arena_alloc(owner, (size_t)(rows > 0 ? rows : 1) * MOST_COLUMNS * sizeof(char *))};
}

static void column(builder *b, const char *name, bool numeric) {
    b->columns[b->n_columns] = name;
    b->numeric[b->n_columns++] = numeric;
}

PRINTF_LIKE(2, 3)
static void cell(builder *b, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    b->cells[b->n_cells++] = arena_text(b->owner, text);
}

static report_table finish(const builder *b, const char *caption) {
    return (report_table){.caption = caption,
                          .columns = b->columns,
                          .n_columns = b->n_columns,
                          .n_rows = b->n_cells / b->n_columns,
                          .cells = b->cells,
                          .numeric = b->numeric,
                          .marked = -1};
}

/* ---- for people -------------------------------------------------------------------------------------------------- */

/* So many digits, trailing zeros kept: they are known. */
static const char *digits(double value, int n, char *text, size_t size) {
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

static void cell_three(builder *b, double value) {
    char text[32];
    cell(b, "%s", digits(value, 3, text, sizeof text));
}

/* "0.330 [0.33–0.34]", on two lines */
static void cell_range(builder *b, const summary_number *number, int64_t n) {
    char median[32], low[32], high[32];
    if (n > 1 && !isnan(number->median))
        cell(b, "%s\n[%s–%s]", digits(number->median, 3, median, sizeof median),
             digits(number->low, 2, low, sizeof low), digits(number->high, 2, high, sizeof high));
    else
        cell_three(b, number->median);
}

static void cell_collapsed(builder *b, const summary_row *row) {
    if (row->n == 0)
        cell(b, "all failed");
    else if (row->collapsed == 0)
        cell(b, "no");
    else if (row->collapsed == row->n)
        cell(b, row->n == 1 ? "yes" : "yes, all");
    else
        cell(b, "%" PRId64 " of %" PRId64, row->collapsed, row->n);
}

static void cells_of_row(builder *b, const experiment_config *config, const summary_row *row) {
    const experiment_method *method = experiment_method_at(config, row->method);
    char text[64];
    cell(b, "%s", experiment_model_text(&row->model, text, sizeof text));
    cell(b, "%s", method->name);
    if (method->gamma.n > 0)
        cell(b, "%.4g", row->gamma);
    else
        cell(b, "%s", "");
}

/* Columns for rates and decays, where some method has its own. */
static bool has_rates(const experiment_config *config) {
    for (int64_t m = 0; m < config->methods.n; m++)
        if (experiment_method_at(config, m)->rate.n > 0 || experiment_method_at(config, m)->decay.n > 0) return true;
    return false;
}

static void columns_of_rates(builder *b, const experiment_config *config) {
    if (!has_rates(config)) return;
    column(b, "rate", true);
    column(b, "decay", true);
}

static void cells_of_rates(builder *b, const experiment_config *config, const summary_row *row) {
    if (!has_rates(config)) return;
    cell(b, "%.4g", row->rate);
    cell(b, "%.4g", row->decay);
}

static void table_of_training(const experiment_outcome *outcome, bool all, arena *owner, report_table *table) {
    const experiment_config *config = outcome->plan->config;
    const experiment_summary *summary = outcome->summary;
    builder b = begin(owner, summary->n_rows);
    column(&b, "model", false);
    column(&b, "method", false);
    column(&b, "gamma", true);
    columns_of_rates(&b, config);
    column(&b, "MSE", true);
    column(&b, "floor", true);
    column(&b, "vcf", true);
    column(&b, "vcf_support", true);
    column(&b, "Var(B̂)", true);
    column(&b, "collapsed", false);
    if (config->paper.n > 0) column(&b, "paper: MSE, vcf", true);
    column(&b, "seeds", true);
    column(&b, "seconds", true);
    for (int64_t i = 0; i < summary->n_rows; i++) {
        const summary_row *row = &summary->rows[i];
        if (!all && !row->chosen && row->n > 0) continue;
        const experiment_paper *paper = experiment_summary_paper(config, row);
        char mse[32], vcf[32];
        cells_of_row(&b, config, row);
        cells_of_rates(&b, config, row);
        cell_range(&b, &row->mse, row->n);
        cell_three(&b, row->floor.median);
        cell_range(&b, &row->vcf, row->n);
        cell_range(&b, &row->vcf_support, row->n);
        cell_three(&b, row->variance.median);
        cell_collapsed(&b, row);
        if (paper != NULL)
            cell(&b, "%s\n%s", digits(paper->mse, 3, mse, sizeof mse), digits(paper->vcf, 3, vcf, sizeof vcf));
        else if (config->paper.n > 0)
            cell(&b, "%s", "");
        cell(&b, "%" PRId64, row->n);
        cell_three(&b, row->seconds.median);
    }
    *table = finish(&b, "");
}

static void table_of_tuning(const experiment_outcome *outcome, bool all, arena *owner, report_table *table) {
    const experiment_summary *summary = outcome->summary;
    builder b = begin(owner, summary->n_tuning);
    column(&b, "model", false);
    column(&b, "method", false);
    column(&b, "gamma", true);
    columns_of_rates(&b, outcome->plan->config);
    column(&b, "validation MSE", true);
    column(&b, "validation vcf", true);
    column(&b, "score", true);
    column(&b, "chosen", false);
    for (int64_t i = 0; i < summary->n_tuning; i++) {
        const summary_row *row = &summary->tuning[i];
        if (!all && !row->chosen && row->n > 0) continue;
        cells_of_row(&b, outcome->plan->config, row);
        cells_of_rates(&b, outcome->plan->config, row);
        cell_range(&b, &row->validation_mse, row->n);
        cell_range(&b, &row->validation_vcf, row->n);
        cell_three(&b, row->score);
        cell(&b, "%s", row->chosen ? "yes" : row->n == 0 ? "failed" : "");
    }
    *table = finish(&b, "");
}

static void cell_limit(builder *b, double value, double error) {
    char v[32], e[32];
    cell(b, "%s ± %s", digits(value, 3, v, sizeof v), isnan(error) ? "?" : (snprintf(e, sizeof e, "%.1g", error), e));
}

static void table_of_limits(const experiment_outcome *outcome, arena *owner, report_table *table) {
    const experiment_summary *summary = outcome->summary;
    builder b = begin(owner, summary->n_rows);
    column(&b, "model", false);
    column(&b, "floor", true);
    column(&b, "vcf", true);
    column(&b, "vcf_support", true);
    column(&b, "seconds", true);
    for (int64_t i = 0; i < summary->n_rows; i++) {
        const summary_row *row = &summary->rows[i];
        const experiment_result *r = row->first;
        char text[64];
        cell(&b, "%s", experiment_model_text(&row->model, text, sizeof text));
        cell_limit(&b, row->floor.median, r != NULL ? r->floor_error : (double)NAN);
        cell_limit(&b, row->vcf.median, r != NULL ? r->vcf_error : (double)NAN);
        cell_limit(&b, row->vcf_support.median, r != NULL ? r->vcf_support_error : (double)NAN);
        cell_three(&b, row->seconds.median);
    }
    *table = finish(&b, "");
}

void experiment_table(const experiment_outcome *outcome, experiment_rows which, arena *owner, report_table *table) {
    if (outcome->plan->config->limits.samples > 0)
        table_of_limits(outcome, owner, table);
    else if (which == ROWS_TUNING || which == ROWS_TUNING_CHOSEN)
        table_of_tuning(outcome, which == ROWS_TUNING, owner, table);
    else
        table_of_training(outcome, which == ROWS_ALL, owner, table);
}

/* ---- for programs ------------------------------------------------------------------------------------------------ */

static void cell_exact(builder *b, double value) {
    if (isfinite(value))
        cell(b, "%.17g", value);
    else
        cell(b, "%s", "");
}

static void cells_of_result(builder *b, const experiment_result *r, bool limits) {
    cell_exact(b, r->vcf);
    cell_exact(b, r->vcf_support);
    cell_exact(b, r->floor);
    if (limits) {
        cell_exact(b, r->vcf_error);
        cell_exact(b, r->vcf_support_error);
        cell_exact(b, r->floor_error);
    } else {
        cell_exact(b, r->mse);
        cell_exact(b, r->variance);
        cell(b, "%d", r->collapsed);
        cell_exact(b, r->validation_mse);
        cell_exact(b, r->validation_vcf);
        cell_exact(b, r->validation_floor);
    }
    cell_exact(b, r->seconds);
}

static void columns_of_result(builder *b, bool limits) {
    static const char *const of_limits[] = {"vcf",         "vcf_support", "floor", "vcf_error", "vcf_support_error",
                                            "floor_error", "seconds",     NULL};
    static const char *const of_training[] = {"vcf",
                                              "vcf_support",
                                              "floor",
                                              "mse",
                                              "variance",
                                              "collapsed",
                                              "validation_mse",
                                              "validation_vcf",
                                              "validation_floor",
                                              "seconds",
                                              NULL};
    for (const char *const *name = limits ? of_limits : of_training; *name != NULL; name++) column(b, *name, true);
}

void experiment_run_table(const experiment_plan *plan, arena *owner, report_table *table) {
    const experiment_config *config = plan->config;
    bool limits = config->limits.samples > 0;
    builder b = begin(owner, plan->n_runs);
    column(&b, "run", false);
    column(&b, "model", false);
    column(&b, "d", true);
    column(&b, "method", false);
    column(&b, "gamma", true);
    column(&b, "rate", true);
    column(&b, "decay", true);
    column(&b, "seed", true);
    column(&b, "role", false);
    column(&b, "error", false);
    columns_of_result(&b, limits);
    for (int64_t i = 0; i < plan->n_runs; i++) {
        const planned_run *run = &plan->runs[i];
        const run_group *group = &plan->groups[run->group];
        const experiment_result nothing = {NAN, NAN, NAN, NAN, NAN, NAN,   NAN, NAN,
                                           NAN, NAN, NAN, NAN, NAN, false, NULL};
        cell(&b, "%s", run->id != NULL ? run->id : "");
        cell(&b, "%s", synthetic_name(group->model.kind));
        cell(&b, "%" PRId64, group->model.d);
        cell(&b, "%s", group->method >= 0 ? experiment_method_at(config, group->method)->name : "");
        cell_exact(&b, group->method >= 0 ? run->settings.gamma : (double)NAN);
        cell_exact(&b, group->method >= 0 ? run->settings.training.rate : (double)NAN);
        cell_exact(&b, group->method >= 0 ? run->settings.training.decay : (double)NAN);
        cell(&b, "%" PRId64, run->settings.seed);
        cell(&b, "%s", experiment_role_name(run->role));
        cell(&b, "%s", run->error != NULL ? run->error : "");
        cells_of_result(&b, run->state == RUN_DONE ? &run->result : &nothing, limits);
    }
    *table = finish(&b, "");
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
    int widths[MOST_COLUMNS] = {0};
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
