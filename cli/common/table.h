/* Tables for people on standard output. */
#pragma once

#include "report/report.h"

/* Prints columns as wide as they need to be, with this many blanks before each line. */
void text_table(const report_table *table, int indent);
