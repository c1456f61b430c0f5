/* The tables that loops.c defines, one for each instruction set and precision. */
#pragma once

#include "backend/backend.h"

extern const circe__loops circe__loops_baseline_f32, circe__loops_baseline_f64;
extern const circe__loops circe__loops_avx2_f32, circe__loops_avx2_f64;
extern const circe__loops circe__loops_avx512_f32, circe__loops_avx512_f64;
