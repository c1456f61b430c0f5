/* Reading as io/ does it, from the options of a command line: prints what is wrong and returns an exit status. */
#ifndef CLI_FROM_ARGS_H
#define CLI_FROM_ARGS_H

#include "cli/common/message.h"
#include "cli/common/parse.h"
#include "io/column_table.h"
#include "io/inputs.h"
#include "jobs/kernels.h"

reading_options args_reading(const args *arguments);
input_options args_inputs(const args *arguments);

int args_reading_open(const args *arguments, reading *out);
int args_input_read(const args *arguments, variable of, bool holdout, input *out);
int args_input_read_from(const args *arguments, variable of, const char *path, const char *columns, input *out);
int args_check_categories(const args *arguments, input *const *group, int n);
int args_inputs_check(const args *arguments, input *const *group, int n, int64_t least, int64_t *dropped);
int args_rows_wanted(const args *arguments, int64_t *rows);
int args_inputs_sample(const args *arguments, input *const *group, int n, int64_t rows, int64_t least);
int args_inputs_foresee(const args *arguments, const circe_context *context, const variable *variables, int n,
                        int64_t *rows);
int args_column_table(const args *arguments, const char *path, const name_list *wanted, const reading *how,
                      bool by_place, column_table *table);

/* Whether --kernel-* or --sigma2-* of a variable are given. */
bool args_kernel_given(const args *arguments, variable of);
bool args_sigma2_given(const args *arguments, variable of);
int args_kernel(circe_context *context, const args *arguments, const input *in, width_rule rule, notes *warnings,
                circe_kernel **kernel);

#endif
