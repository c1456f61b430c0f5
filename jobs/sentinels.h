/* Numbers that stand for something else, 999 or 1e6 for missing: told, since a file cannot say what they mean. */
#ifndef JOBS_SENTINELS_H
#define JOBS_SENTINELS_H

#include "io/inputs.h"
#include "jobs/notes.h"

/* Adds a sentence for every column of numbers whose largest or smallest value is far from all others and there more
 * than once, or farther than any distribution that is met in practice would bring it. */
void sentinels_note(const input *const *group, int n, notes *warnings);

#endif
