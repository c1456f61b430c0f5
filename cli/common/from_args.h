/* Reading as io/ does it, from the options of a command line: prints what is wrong and returns an exit status. */
#ifndef CLI_FROM_ARGS_H
#define CLI_FROM_ARGS_H

#include "cli/common/parse.h"
#include "io/column_table.h"

int args_reading_open(const args *arguments, reading *out);
int args_inputs_check(const args *arguments, input *const *group, int n, int64_t least, int64_t *dropped);
int args_column_table(const args *arguments, const char *path, const name_list *wanted, const reading *how,
                      bool by_place, column_table *table);

#endif
