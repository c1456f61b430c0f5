/* Figures: a gnuplot script and its data are written beside the SVG, so that a person can change them. */
#ifndef CLI_PLOT_H
#define CLI_PLOT_H

#include <stdbool.h>
#include <stdint.h>

/* What the figure of `circe demo` shows: two features against z, with y in colour. */
typedef struct demo_figure {
    int64_t n;
    const double *y, *z;
    const double *feature[2];
    const char *name[2];
    double value[2]; /* of CIRCE */
} demo_figure;

/* Writes demo.dat and demo.gp into the folder and runs gnuplot to make demo.svg; *drawn tells whether it could. Prints
 * what is wrong and returns an exit status; a missing gnuplot is not an error. */
int plot_demo(const demo_figure *figure, const char *folder, bool *drawn);

#endif
