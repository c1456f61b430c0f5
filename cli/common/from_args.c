#include "cli/common/from_args.h"

#include "cli/common/message.h"

static reading_options args_reading(const args *arguments) {
    return (reading_options){args_text(arguments, OPT_CATEGORIES), args_text(arguments, OPT_NA),
                             args_text(arguments, OPT_DECIMAL), args_text(arguments, OPT_MISSING)};
}

int args_reading_open(const args *arguments, reading *out) {
    reading_options options = args_reading(arguments);
    return message_refused(reading_open(&options, out));
}

int args_inputs_check(const args *arguments, input *const *group, int n, int64_t least, int64_t *dropped) {
    reading_options options = args_reading(arguments);
    return message_refused(inputs_check(&options, group, n, least, dropped));
}

int args_column_table(const args *arguments, const char *path, const name_list *wanted, const reading *how,
                      bool by_place, column_table *table) {
    input *group[] = {&table->in};
    reading_options options = args_reading(arguments);
    circe_status status = column_table_read(NULL, path, wanted, how, by_place, table);
    if (status == CIRCE_OK) status = inputs_check_categories(&options, group, 1);
    return message_refused(status);
}
