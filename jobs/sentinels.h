/* Warns about numbers that may stand for something else, such as 999 or 1e6 for "missing". A file cannot say what they
 * mean. */
#pragma once

#include "io/inputs.h"
#include "jobs/notes.h"

/* Adds a sentence for every column of numbers whose largest or smallest value is far from all others and occurs more
 * than once, or is farther away than any distribution met in practice would produce; and for columns whose values lie
 * so close that reading them may have made different ones equal, columns of categories that differ in most rows, and
 * categories that differ in case and spaces alone. */
void sentinels_note(const input *const *group, int n, notes *warnings);
