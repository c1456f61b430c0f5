/* Tables of image experiments, for people: errors in domain and out of domain, and what was chosen by. */
#include <inttypes.h>
#include <math.h>

#include "cli/experiment/experiment_choice.h"
#include "cli/experiment/experiment_table.h"

static bool useless(const summary_row *row) { return experiment_evidence(row) >= EXPERIMENT_USELESS; }

/* What a row of the results is there for. */
static const char *standing(const experiment_outcome *outcome, const summary_row *row) {
    static const char best[] = "best OOD, for\ncomparison:\nnot a choice";
    int64_t choices = 0;
    for (int64_t i = 0; i < outcome->summary->n_rows; i++) choices += outcome->summary->rows[i].group == row->group;
    if (row->n == 0) return "all failed";
    if (choices == 1) return "";
    if (row->chosen && useless(row)) return "chosen, but a\nconstant beats it:\nnone of its\ngammas serves";
    if (row->chosen) return row->best_ood ? "chosen, and\nbest OOD" : "chosen";
    return row->best_ood ? best : "";
}

/* "1.2e-05 (3.4 s.e.)"; of predictions of which a constant beats one, it says nothing. */
static void cell_dependence(table_builder *b, const summary_row *row) {
    char text[32];
    double value = row->number[NUMBER_DEPENDENCE].median;
    if (isnan(value))
        table_cell(b, "%s", "");
    else if (useless(row))
        table_cell(b, "%s", "no better than\na constant");
    else
        table_cell(b, "%s\n(%.1f s.e.)", table_digits(value, 2, text, sizeof text), experiment_evidence(row));
}

static void table_of_results(const experiment_outcome *outcome, bool all, arena *owner, report_table *table) {
    const experiment_config *config = outcome->plan->config;
    const experiment_summary *summary = outcome->summary;
    table_builder b = table_begin(owner, summary->n_rows);
    table_columns_of_choice(&b, config);
    table_column(&b, "gamma is", false);
    table_column(&b, "test MSE", true);
    table_column(&b, "OOD test MSE", true);
    table_column(&b, "validation MSE", true);
    table_column(&b, "dependence", true);
    table_column(&b, "Var(Ŷ)", true);
    table_column(&b, "steps", true);
    table_column(&b, "seeds", true);
    table_column(&b, "seconds", true);
    for (int64_t i = 0; i < summary->n_rows; i++) {
        const summary_row *row = &summary->rows[i];
        if (!all && !row->chosen && !row->best_ood && row->n > 0) continue;
        table_cells_of_choice(&b, config, row);
        table_cell(&b, "%s", standing(outcome, row));
        table_cell_range(&b, &row->number[NUMBER_MSE], row->n);
        table_cell_range(&b, &row->number[NUMBER_OOD_MSE], row->n);
        table_cell_three(&b, row->number[NUMBER_VALIDATION_MSE].median);
        cell_dependence(&b, row);
        table_cell_three(&b, row->number[NUMBER_VARIANCE].median);
        table_cell(&b, "%.0f", row->n > 0 ? row->number[NUMBER_STEPS].median : 0);
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
    table_column(&b, "dependence", true);
    table_column(&b, "seeds", true);
    table_column(&b, "seconds", true);
    table_column(&b, "chosen", false);
    for (int64_t i = 0; i < summary->n_tuning; i++) {
        const summary_row *row = &summary->tuning[i];
        if (!all && !row->chosen && row->n > 0) continue;
        table_cells_of_choice(&b, outcome->plan->config, row);
        table_cell_range(&b, &row->number[NUMBER_VALIDATION_MSE], row->n);
        cell_dependence(&b, row);
        table_cell(&b, "%" PRId64, row->n);
        table_cell_three(&b, row->number[NUMBER_SECONDS].median);
        table_cell(&b, "%s", row->chosen ? "yes" : row->n == 0 ? "failed" : "");
    }
    *table = table_end(&b);
}

void experiment_table_images(const experiment_outcome *outcome, experiment_rows which, arena *owner,
                             report_table *table) {
    if (which == ROWS_TUNING || which == ROWS_TUNING_CHOSEN)
        table_of_tuning(outcome, which == ROWS_TUNING, owner, table);
    else
        table_of_results(outcome, which == ROWS_ALL, owner, table);
}
