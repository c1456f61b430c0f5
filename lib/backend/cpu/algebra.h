#ifndef CIRCE_CPU_ALGEBRA_H
#define CIRCE_CPU_ALGEBRA_H

#include "backend/backend.h"

extern const circe__algebra circe__algebra_blas;

#endif
