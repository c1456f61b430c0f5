#include "cli/common/from_args.h"

#include "cli/common/message.h"

reading_options args_reading(const args *arguments) {
    return (reading_options){args_text(arguments, OPT_CATEGORIES), args_text(arguments, OPT_NA),
                             args_text(arguments, OPT_DECIMAL), args_text(arguments, OPT_MISSING)};
}

input_options args_inputs(const args *a) {
    return (input_options){
        .data = args_text(a, OPT_DATA),
        .holdout_data = args_text(a, OPT_HOLDOUT_DATA),
        .of = {[VARIABLE_X] = {args_text(a, OPT_X), args_text(a, OPT_COLUMNS_X), NULL},
               [VARIABLE_Y] = {args_text(a, OPT_Y), args_text(a, OPT_COLUMNS_Y), args_text(a, OPT_HOLDOUT_Y)},
               [VARIABLE_Z] = {args_text(a, OPT_Z), args_text(a, OPT_COLUMNS_Z), args_text(a, OPT_HOLDOUT_Z)},
               [VARIABLE_WEIGHTS] = {args_text(a, OPT_ROW_WEIGHTS), NULL, NULL}},
        .reading = args_reading(a)};
}

int args_reading_open(const args *arguments, reading *out) {
    reading_options options = args_reading(arguments);
    return message_refused(reading_open(&options, out));
}

int args_input_read(const args *arguments, variable of, bool holdout, input *out) {
    input_options options = args_inputs(arguments);
    return message_refused(input_read(&options, of, holdout, out));
}

int args_input_read_from(const args *arguments, variable of, const char *path, const char *columns, input *out) {
    input_options options = args_inputs(arguments);
    return message_refused(input_read_from(&options, of, path, columns, out));
}

int args_check_categories(const args *arguments, input *const *group, int n) {
    reading_options options = args_reading(arguments);
    return message_refused(inputs_check_categories(&options, group, n));
}

int args_inputs_check(const args *arguments, input *const *group, int n, int64_t least, int64_t *dropped) {
    reading_options options = args_reading(arguments);
    return message_refused(inputs_check(&options, group, n, least, dropped));
}

int args_rows_wanted(const args *arguments, int64_t *rows) {
    const args_value *value = &arguments->values[OPT_ROWS];
    double option = !value->given ? (double)NAN : value->n_numbers > 0 ? value->numbers[0] : CIRCE_AUTO;
    return message_refused(rows_wanted(option, rows));
}

int args_inputs_sample(const args *arguments, input *const *group, int n, int64_t rows, int64_t least) {
    return message_refused(inputs_sample(args_integer(arguments, OPT_SEED), group, n, rows, least));
}

int args_inputs_foresee(const args *arguments, const circe_context *context, const variable *variables, int n,
                        int64_t *rows) {
    input_options options = args_inputs(arguments);
    return message_refused(inputs_foresee(&options, context, variables, n, rows));
}

int args_column_table(const args *arguments, const char *path, const name_list *wanted, const reading *how,
                      bool by_place, column_table *table) {
    input *group[] = {&table->in};
    int status = message_refused(column_table_read(NULL, path, wanted, how, by_place, table));
    return status == EXIT_DONE ? args_check_categories(arguments, group, 1) : status;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

static spec_option_id kernel_of(variable of) {
    return of == VARIABLE_X ? OPT_KERNEL_X : of == VARIABLE_Y ? OPT_KERNEL_Y : OPT_KERNEL_Z;
}

static spec_option_id sigma2_of(variable of) {
    return of == VARIABLE_X ? OPT_SIGMA2_X : of == VARIABLE_Y ? OPT_SIGMA2_Y : OPT_SIGMA2_Z;
}

bool args_kernel_given(const args *arguments, variable of) { return args_given(arguments, kernel_of(of)); }

bool args_sigma2_given(const args *arguments, variable of) { return args_given(arguments, sigma2_of(of)); }

int args_kernel(circe_context *context, const args *arguments, const input *in, width_rule rule, notes *warnings,
                circe_kernel **kernel) {
    const args_value *sigma2 = &arguments->values[sigma2_of(in->of)];
    kernel_choice choice = {args_text(arguments, kernel_of(in->of)), sigma2->numbers, sigma2->n_numbers, sigma2->given};
    return message_refused(kernel_make(context, &choice, in, rule, warnings, kernel));
}
