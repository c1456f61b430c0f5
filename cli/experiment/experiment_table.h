/* Building tables of an experiment, cell by cell. */
#ifndef CLI_EXPERIMENT_TABLE_H
#define CLI_EXPERIMENT_TABLE_H

#include "cli/common/message.h"
#include "cli/experiment/experiment_output.h"

enum { TABLE_MOST_COLUMNS = 32 };

typedef struct table_builder {
    arena *owner; /* of everything */
    const char **columns;
    bool *numeric;
    const char **cells;
    int64_t n_columns, n_cells;
} table_builder;

table_builder table_begin(arena *owner, int64_t rows);
void table_column(table_builder *b, const char *name, bool numeric);
void table_cell(table_builder *b, const char *format, ...) PRINTF_LIKE(2, 3);
report_table table_end(const table_builder *b);

/* For people: so many digits, trailing zeros kept, since they are known; "" where there is no number. */
const char *table_digits(double value, int n, char *text, size_t size);
void table_cell_three(table_builder *b, double value);
/* "0.330 [0.33–0.34]", on two lines */
void table_cell_range(table_builder *b, const summary_number *number, int64_t n);

/* model, method, gamma, and rate and decay where some method has its own. */
void table_columns_of_choice(table_builder *b, const experiment_config *config);
void table_cells_of_choice(table_builder *b, const experiment_config *config, const summary_row *row);

/* ---- by kind of experiment ----------------------------------------------------------------------------------------
 */

void experiment_table_synthetic(const experiment_outcome *outcome, experiment_rows which, arena *owner,
                                report_table *table);
void experiment_table_limits(const experiment_outcome *outcome, experiment_rows which, arena *owner,
                             report_table *table);
void experiment_table_images(const experiment_outcome *outcome, experiment_rows which, arena *owner,
                             report_table *table);

#endif
