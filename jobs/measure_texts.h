/* The measures that `circe measure` offers, in words. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "circe/circe.h"

/* Beside what the library's table says that a measure uses (CIRCE_USES_...): circe_cme_fit, be it for the mean or to
 * choose width and ridge. Options that act on something else are ignored, with a note. */
enum { USES_FIT = 1 << 16 };

/* A measure in words; the rest is the library's (circe_measure_row_of). */
typedef struct measure {
    circe_measure_kind kind;
    const char *summary; /* for help: what it is, what it is blind to */
    const char *reading; /* a few words beside a value: what 0 means, which scale */
    const char *meaning; /* the same below a single value */
    bool all_forms;      /* `measure all` shows each */
} measure;

extern const measure measures[];
extern const size_t n_measures;

/* The word for all of them, and what it does. */
extern const char measure_all_name[];
extern const char measure_all_summary[];

/* NULL if there is none. */
const measure *measure_find(const char *name);
const char *measure_name(const measure *what);
const circe_measure_row *measure_row(const measure *what);
unsigned measure_uses(const measure *what);

/* How many forms; 0 if there is nothing to choose. */
int measure_n_forms(const measure *what);

/* NULL if there is none of this name. */
const circe_measure_form *measure_find_form(const measure *what, const char *name);

/* What is said of a value that is none. */
extern const char measure_no_number[];
