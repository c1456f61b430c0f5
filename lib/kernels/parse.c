/* Kernels from text: factors joined by '*', each [COLUMNS:]NAME[(SIGMA2)]; COLUMNS is an index "3", a range "0-2" or an
 * open range "4-". What circe_kernel_text prints reads back to an equal kernel. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

#include "core/settings.h"

typedef struct cursor {
    const char *all; /* the whole text, for messages */
    const char *at;
} cursor;

static circe_status refuse(const cursor *c, const char *expected) {
    return circe_fail(CIRCE_ERR_ARGUMENT,
                      "kernel '%s': expected %s at '%s' (examples: gaussian, laplace(0.5), 0-2:gaussian*3:delta)",
                      c->all, expected, c->at);
}

static void skip_space(cursor *c) {
    while (*c->at == ' ') c->at++;
}

static circe_status parse_index(cursor *c, int64_t *value) {
    char *end;
    errno = 0;
    long long number = strtoll(c->at, &end, 10);
    if (errno != 0 || number > INT32_MAX) return refuse(c, "a column index");
    c->at = end;
    *value = number;
    return CIRCE_OK;
}

static circe_status parse_columns(cursor *c, circe_kernel_factor *factor) {
    factor->first_col = 0;
    factor->n_cols = -1;
    if (!isdigit((unsigned char)*c->at)) return CIRCE_OK;
    circe_status status = parse_index(c, &factor->first_col);
    if (status != CIRCE_OK) return status;
    factor->n_cols = 1;
    if (*c->at == '-') {
        c->at++;
        factor->n_cols = -1;
        if (isdigit((unsigned char)*c->at)) {
            int64_t last = 0;
            status = parse_index(c, &last);
            if (status != CIRCE_OK) return status;
            if (last < factor->first_col) return refuse(c, "a range of columns that ascends");
            factor->n_cols = last - factor->first_col + 1;
        }
    }
    if (*c->at != ':') return refuse(c, "':' after the columns");
    c->at++;
    return CIRCE_OK;
}

static circe_status parse_name(cursor *c, circe_kernel_kind *kind) {
    size_t length = strspn(c->at, "abcdefghijklmnopqrstuvwxyz");
    for (circe_kernel_kind k = CIRCE_KERNEL_GAUSSIAN; k <= CIRCE_KERNEL_DELTA; k++) {
        const char *name = circe__kernel_name(k);
        if (strlen(name) == length && strncmp(name, c->at, length) == 0) {
            c->at += length;
            *kind = k;
            return CIRCE_OK;
        }
    }
    return refuse(c, "one of gaussian, laplace, linear, delta");
}

static circe_status parse_width(cursor *c, circe_kernel_factor *factor) {
    char *end;
    factor->sigma2 = 0.0;
    if (*c->at != '(') return CIRCE_OK;
    if (!circe__has_width(factor->kind)) return refuse(c, "no width, which only gaussian and laplace have,");
    size_t length = strspn(c->at + 1, "+-.0123456789eE"); /* strtod alone takes hexadecimal and blanks */
    double width = strtod(c->at + 1, &end);
    if (end == c->at + 1 || end != c->at + 1 + length || *end != ')' || !isfinite(width) || width <= 0.0)
        return refuse(c, "a positive sigma2 in parentheses");
    factor->sigma2 = width;
    c->at = end + 1;
    return CIRCE_OK;
}

static circe_status parse_factor(cursor *c, circe_kernel_factor *factor) {
    skip_space(c);
    circe_status status = parse_columns(c, factor);
    if (status == CIRCE_OK) status = parse_name(c, &factor->kind);
    if (status == CIRCE_OK) status = parse_width(c, factor);
    skip_space(c);
    return status;
}

circe_status circe_kernel_parse(circe_context *context, const char *text, circe_kernel **kernel) {
    CIRCE_OWN_SETTINGS;
    if (context == NULL || text == NULL || kernel == NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT, "context, text and kernel must not be NULL");
    cursor c = {text, text};
    circe_kernel *made = circe__calloc(context, 1, sizeof *made);
    *kernel = NULL;
    if (made == NULL) return CIRCE_ERR_MEMORY;
    made->context = context;
    circe_status status;
    for (;;) {
        circe_kernel_factor factor;
        status = parse_factor(&c, &factor);
        if (status == CIRCE_OK) status = circe_kernel_multiply(made, &factor);
        if (status != CIRCE_OK || *c.at != '*') break;
        c.at++;
    }
    if (status == CIRCE_OK && *c.at != '\0') status = refuse(&c, "'*' or the end");
    if (status != CIRCE_OK) {
        circe_kernel_destroy(made);
        return status;
    }
    *kernel = made;
    return CIRCE_OK;
}
