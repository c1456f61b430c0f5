/* Tables for people, by the columns of each kind, with three digits. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "paper/paper_parts.h"

/* ---- cells of all kinds ------------------------------------------------------------------------------------------ */

/* "0.330 [0.33–0.34]", on two lines */
static void cell_range(cells *list, const paper_spread *number, int64_t n) {
    char median[32], low[32], high[32];
    if (n > 1 && !isnan(number->median))
        cells_add(list, "%s\n[%s–%s]", cells_digits(number->median, 3, median, sizeof median),
                  cells_digits(number->low, 2, low, sizeof low), cells_digits(number->high, 2, high, sizeof high));
    else
        cells_add_digits(list, number->median, 3);
}

static bool has_rates(const paper_config *config) {
    for (int64_t m = 0; m < config->methods.n; m++)
        if (paper_method_at(config, m)->rate.n > 0 || paper_method_at(config, m)->decay.n > 0) return true;
    return false;
}

static void columns_of_choice(const paper *p, cells *list) {
    cells_column(list, "model", false);
    cells_column(list, "method", false);
    cells_column(list, "gamma", true);
    if (!has_rates(&p->config)) return;
    cells_column(list, "rate", true);
    cells_column(list, "decay", true);
}

static void cell_model(const paper_row *row, cells *list) {
    char text[PAPER_MODEL_BYTES];
    cells_add(list, "%s", paper_model_text(row->model, row->d, text));
}

static void cells_of_choice(const paper *p, const paper_row *row, cells *list) {
    const paper_method *method = paper_method_at(&p->config, row->method);
    cell_model(row, list);
    cells_add(list, "%s", method->name);
    if (method->gamma.n > 0)
        cells_add(list, "%.4g", row->choice.gamma);
    else
        cells_add(list, "%s", "");
    if (!has_rates(&p->config)) return;
    cells_add(list, "%.4g", row->choice.rate);
    cells_add(list, "%.4g", row->choice.decay);
}

static void cell_chosen(const paper_row *row, cells *list) {
    cells_add(list, "%s", row->chosen ? "yes" : row->n == 0 ? "failed" : "");
}

/* ---- synthetic models -------------------------------------------------------------------------------------------- */

static void cell_collapsed(const paper_row *row, cells *list) {
    if (row->n == 0)
        cells_add(list, "all failed");
    else if (row->collapsed == 0)
        cells_add(list, "no");
    else if (row->collapsed == row->n)
        cells_add(list, row->n == 1 ? "yes" : "yes, all");
    else
        cells_add(list, "%" PRId64 " of %" PRId64, row->collapsed, row->n);
}

static void cell_published(const paper_row *row, cells *list) {
    char mse[32], vcf[32];
    const paper_published *found = row->published;
    if (found != NULL)
        cells_add(list, "%s\n%s", cells_digits(found->mse, 3, mse, sizeof mse),
                  cells_digits(found->vcf, 3, vcf, sizeof vcf));
    else
        cells_add(list, "%s", "");
}

static void cell_score(const paper_row *row, cells *list) { cells_add_digits(list, row->score.mean, 3); }

const paper_column paper_columns_synthetic[] = {
    {"", COLUMN_CHOICE, .number = 0},
    {"MSE", COLUMN_RANGE, .number = NUMBER_MSE},
    {"floor", COLUMN_MEDIAN, .number = NUMBER_FLOOR},
    {"vcf", COLUMN_RANGE, .number = NUMBER_VCF},
    {"vcf_support", COLUMN_RANGE, .number = NUMBER_VCF_SUPPORT},
    {"Var(B̂)", COLUMN_MEDIAN, .number = NUMBER_VARIANCE},
    {"collapsed", COLUMN_WORDS, .cell = cell_collapsed},
    {"paper: MSE, vcf", COLUMN_VALUE, .cell = cell_published, .only_published = true},
    {"seeds", COLUMN_SEEDS, .number = 0},
    {"seconds", COLUMN_MEDIAN, .number = NUMBER_SECONDS},
    {0},
};
const paper_column paper_columns_synthetic_tuning[] = {
    {"", COLUMN_CHOICE, .number = 0},
    {"validation MSE", COLUMN_RANGE, .number = NUMBER_VALIDATION_MSE},
    {"validation vcf", COLUMN_RANGE, .number = NUMBER_VALIDATION_VCF},
    {"score", COLUMN_VALUE, .cell = cell_score},
    {"chosen", COLUMN_WORDS, .cell = cell_chosen},
    {0},
};

/* ---- limits ------------------------------------------------------------------------------------------------------ */

static void cell_limit(const paper_row *row, paper_number number, cells *list) {
    static const paper_number errors[N_NUMBERS] = {[NUMBER_FLOOR] = NUMBER_FLOOR_ERROR,
                                                   [NUMBER_VCF] = NUMBER_VCF_ERROR,
                                                   [NUMBER_VCF_SUPPORT] = NUMBER_VCF_SUPPORT_ERROR};
    char value[32], error[32] = "?";
    double deviation = row->number[errors[number]].median;
    if (!isnan(deviation)) snprintf(error, sizeof error, "%.1g", deviation);
    cells_add(list, "%s ± %s", cells_digits(row->number[number].median, 3, value, sizeof value), error);
}

const paper_column paper_columns_limits[] = {
    {"model", COLUMN_WORDS, .cell = cell_model},          {"floor", COLUMN_LIMIT, .number = NUMBER_FLOOR},
    {"vcf", COLUMN_LIMIT, .number = NUMBER_VCF},          {"vcf_support", COLUMN_LIMIT, .number = NUMBER_VCF_SUPPORT},
    {"seconds", COLUMN_MEDIAN, .number = NUMBER_SECONDS}, {0},
};

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

static bool useless(const paper_row *row) { return paper_evidence(row) >= PAPER_USELESS; }

/* What a row of the results is there for. */
static void cell_standing(const paper_row *row, cells *list) {
    cells_add(list, "%s",
              row->n == 0                    ? "all failed"
              : row->alone                   ? ""
              : row->chosen && useless(row)  ? "chosen, but a\nconstant beats it:\nnone of its\ngammas serves"
              : row->chosen && row->best_ood ? "chosen, and\nbest OOD"
              : row->chosen                  ? "chosen"
              : row->best_ood                ? "best OOD, for\ncomparison:\nnot a choice"
                                             : "");
}

/* "1.2e-05 (3.4 s.e.)"; of predictions of which a constant beats one, it says nothing. */
static void cell_dependence(const paper_row *row, cells *list) {
    char text[32];
    double value = row->number[NUMBER_DEPENDENCE].median;
    if (isnan(value))
        cells_add(list, "%s", "");
    else if (useless(row))
        cells_add(list, "%s", "no better than\na constant");
    else
        cells_add(list, "%s\n(%.1f s.e.)", cells_digits(value, 2, text, sizeof text), paper_evidence(row));
}

static void cell_steps(const paper_row *row, cells *list) {
    cells_add(list, "%.0f", row->n > 0 ? row->number[NUMBER_STEPS].median : 0);
}

const paper_column paper_columns_images[] = {
    {"", COLUMN_CHOICE, .number = 0},
    {"gamma is", COLUMN_WORDS, .cell = cell_standing},
    {"test MSE", COLUMN_RANGE, .number = NUMBER_MSE},
    {"OOD test MSE", COLUMN_RANGE, .number = NUMBER_OOD_MSE},
    {"validation MSE", COLUMN_MEDIAN, .number = NUMBER_VALIDATION_MSE},
    {"dependence", COLUMN_VALUE, .cell = cell_dependence},
    {"Var(Ŷ)", COLUMN_MEDIAN, .number = NUMBER_VARIANCE},
    {"steps", COLUMN_VALUE, .cell = cell_steps},
    {"seeds", COLUMN_SEEDS, .number = 0},
    {"seconds", COLUMN_MEDIAN, .number = NUMBER_SECONDS},
    {0},
};
const paper_column paper_columns_images_tuning[] = {
    {"", COLUMN_CHOICE, .number = 0},
    {"validation MSE", COLUMN_RANGE, .number = NUMBER_VALIDATION_MSE},
    {"dependence", COLUMN_VALUE, .cell = cell_dependence},
    {"seeds", COLUMN_SEEDS, .number = 0},
    {"seconds", COLUMN_MEDIAN, .number = NUMBER_SECONDS},
    {"chosen", COLUMN_WORDS, .cell = cell_chosen},
    {0},
};

/* ---- any of them ------------------------------------------------------------------------------------------------- */

static void add_cell(const paper *p, const paper_column *column, const paper_row *row, cells *list) {
    switch (column->kind) {
        case COLUMN_CHOICE:
            cells_of_choice(p, row, list);
            break;
        case COLUMN_RANGE:
            cell_range(list, &row->number[column->number], row->n);
            break;
        case COLUMN_MEDIAN:
            cells_add_digits(list, row->number[column->number].median, 3);
            break;
        case COLUMN_LIMIT:
            cell_limit(row, column->number, list);
            break;
        case COLUMN_SEEDS:
            cells_add(list, "%" PRId64, row->n);
            break;
        case COLUMN_WORDS:
        case COLUMN_VALUE:
            column->cell(row, list);
            break;
    }
}

static bool has(const paper *p, const paper_column *column) {
    return !column->only_published || p->config.published.n > 0;
}

report_table paper_table(const paper *p, paper_shown which, cells *list) {
    bool tuning = which == SHOW_TUNING || which == SHOW_TUNING_CHOSEN, all = which == SHOW_ALL || which == SHOW_TUNING;
    const paper_kind *kind = p->config.kind;
    const paper_column *columns = tuning ? kind->tuning_columns : kind->columns;
    const paper_rows *rows = tuning ? &p->tuning : &p->rows;
    for (const paper_column *c = columns; c->name != NULL; c++) {
        if (c->kind == COLUMN_CHOICE)
            columns_of_choice(p, list);
        else if (has(p, c))
            cells_column(list, c->name, c->kind != COLUMN_WORDS);
    }
    for (int64_t i = 0; i < rows->n; i++) {
        const paper_row *row = &rows->list[i];
        if (!all && !row->chosen && !row->best_ood && row->n > 0) continue;
        for (const paper_column *c = columns; c->name != NULL; c++)
            if (has(p, c)) add_cell(p, c, row, list);
    }
    return cells_table(list, "", NULL, 0);
}
