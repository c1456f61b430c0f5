/* Tables of synthetic experiments and of their limits, for people: three digits. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "cli/experiment/experiment_model.h"
#include "cli/experiment/experiment_table.h"

static void cell_collapsed(table_builder *b, const summary_row *row) {
    if (row->n == 0)
        table_cell(b, "all failed");
    else if (row->collapsed == 0)
        table_cell(b, "no");
    else if (row->collapsed == row->n)
        table_cell(b, row->n == 1 ? "yes" : "yes, all");
    else
        table_cell(b, "%" PRId64 " of %" PRId64, row->collapsed, row->n);
}

static void cell_paper(table_builder *b, const experiment_paper *paper) {
    char mse[32], vcf[32];
    if (paper != NULL)
        table_cell(b, "%s\n%s", table_digits(paper->mse, 3, mse, sizeof mse),
                   table_digits(paper->vcf, 3, vcf, sizeof vcf));
    else
        table_cell(b, "%s", "");
}

static void table_of_training(const experiment_outcome *outcome, bool all, arena *owner, report_table *table) {
    const experiment_config *config = outcome->plan->config;
    const experiment_summary *summary = outcome->summary;
    table_builder b = table_begin(owner, summary->n_rows);
    table_columns_of_choice(&b, config);
    table_column(&b, "MSE", true);
    table_column(&b, "floor", true);
    table_column(&b, "vcf", true);
    table_column(&b, "vcf_support", true);
    table_column(&b, "Var(B̂)", true);
    table_column(&b, "collapsed", false);
    if (config->paper.n > 0) table_column(&b, "paper: MSE, vcf", true);
    table_column(&b, "seeds", true);
    table_column(&b, "seconds", true);
    for (int64_t i = 0; i < summary->n_rows; i++) {
        const summary_row *row = &summary->rows[i];
        if (!all && !row->chosen && row->n > 0) continue;
        table_cells_of_choice(&b, config, row);
        table_cell_range(&b, &row->number[NUMBER_MSE], row->n);
        table_cell_three(&b, row->number[NUMBER_FLOOR].median);
        table_cell_range(&b, &row->number[NUMBER_VCF], row->n);
        table_cell_range(&b, &row->number[NUMBER_VCF_SUPPORT], row->n);
        table_cell_three(&b, row->number[NUMBER_VARIANCE].median);
        cell_collapsed(&b, row);
        if (config->paper.n > 0) cell_paper(&b, experiment_summary_paper(config, row));
        table_cell(&b, "%" PRId64, row->n);
        table_cell_three(&b, row->number[NUMBER_SECONDS].median);
    }
    *table = table_end(&b);
}

static void table_of_tuning(const experiment_outcome *outcome, bool all, arena *owner, report_table *table) {
    const experiment_summary *summary = outcome->summary;
    table_builder b = table_begin(owner, summary->n_tuning);
    table_columns_of_choice(&b, outcome->plan->config);
    table_column(&b, "validation MSE", true);
    table_column(&b, "validation vcf", true);
    table_column(&b, "score", true);
    table_column(&b, "chosen", false);
    for (int64_t i = 0; i < summary->n_tuning; i++) {
        const summary_row *row = &summary->tuning[i];
        if (!all && !row->chosen && row->n > 0) continue;
        table_cells_of_choice(&b, outcome->plan->config, row);
        table_cell_range(&b, &row->number[NUMBER_VALIDATION_MSE], row->n);
        table_cell_range(&b, &row->number[NUMBER_VALIDATION_VCF], row->n);
        table_cell_three(&b, row->score.mean);
        table_cell(&b, "%s", row->chosen ? "yes" : row->n == 0 ? "failed" : "");
    }
    *table = table_end(&b);
}

void experiment_table_synthetic(const experiment_outcome *outcome, experiment_rows which, arena *owner,
                                report_table *table) {
    if (which == ROWS_TUNING || which == ROWS_TUNING_CHOSEN)
        table_of_tuning(outcome, which == ROWS_TUNING, owner, table);
    else
        table_of_training(outcome, which == ROWS_ALL, owner, table);
}

static void cell_limit(table_builder *b, const summary_row *row, experiment_number value, experiment_number error) {
    char v[32], e[32];
    double deviation = row->number[error].median;
    table_cell(b, "%s ± %s", table_digits(row->number[value].median, 3, v, sizeof v),
               isnan(deviation) ? "?" : (snprintf(e, sizeof e, "%.1g", deviation), e));
}

void experiment_table_limits(const experiment_outcome *outcome, experiment_rows which, arena *owner,
                             report_table *table) {
    (void)which; /* there is nothing but one row a model */
    const experiment_summary *summary = outcome->summary;
    table_builder b = table_begin(owner, summary->n_rows);
    table_column(&b, "model", false);
    table_column(&b, "floor", true);
    table_column(&b, "vcf", true);
    table_column(&b, "vcf_support", true);
    table_column(&b, "seconds", true);
    for (int64_t i = 0; i < summary->n_rows; i++) {
        const summary_row *row = &summary->rows[i];
        char text[96];
        table_cell(&b, "%s", experiment_model_text(row->model, row->d, text, sizeof text));
        cell_limit(&b, row, NUMBER_FLOOR, NUMBER_FLOOR_ERROR);
        cell_limit(&b, row, NUMBER_VCF, NUMBER_VCF_ERROR);
        cell_limit(&b, row, NUMBER_VCF_SUPPORT, NUMBER_VCF_SUPPORT_ERROR);
        table_cell_three(&b, row->number[NUMBER_SECONDS].median);
    }
    *table = table_end(&b);
}
