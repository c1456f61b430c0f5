/* Residual features of one-dimensional y and z by interpolation; see curves.c. */
#pragma once

#include "cme/cme_parts.h"

struct circe__curves {
    circe__curve mean, features; /* of y, of z: the first q coordinates */
    int64_t q;
};

/* Makes the curves of a model that has them; leaves them NULL if it has none. */
circe_status circe__curves_make(circe_cme *cme);
void circe__curves_free(const circe_context *context, circe__curves *curves);

/* Whether all points lie where the curves are as good as float32 needs. */
bool circe__curves_hold(const circe__curves *curves, const double *y, const double *z, int64_t n);
