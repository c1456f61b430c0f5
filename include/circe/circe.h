/* libcirce: conditional independence, measured and enforced. This header brings in the whole public API. */
#ifndef CIRCE_CIRCE_H
#define CIRCE_CIRCE_H

#include "circe/blocks.h"
#include "circe/cme.h"
#include "circe/context.h"
#include "circe/cuda.h"
#include "circe/gcm.h"
#include "circe/kernel.h"
#include "circe/matrix.h"
#include "circe/measure.h"
#include "circe/measuring.h"
#include "circe/random.h"
#include "circe/safetensors.h"
#include "circe/status.h"
#include "circe/test.h"
#include "circe/transform.h"
#include "circe/version.h"

#endif
