/* Options from a file: --config FILE.yaml. */
#ifndef CLI_CONFIG_H
#define CLI_CONFIG_H

#include "cli/common/parse.h"

/* Adds the options of the file that --config names, except those that are given already. Values are checked by the code
 * that checks the command line's. Prints what is wrong, with file, line and key, and returns an exit status. */
int config_read(args *arguments);

#endif
