/* Tables for people on standard output. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include "report/report.h"

/* Columns as wide as they need to be, each line after so many blanks. */
void text_table(const report_table *table, int indent);

#endif
