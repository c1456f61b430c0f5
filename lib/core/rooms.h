/* What libcirce offers only to the folders of this project that are built on it (io, train, images, mpi, jobs). These
 * names have two underscores and may change with any version. libcirce_jobs links to the libcirce of its own version
 * only. */
#pragma once

#include "circe/export.h"

#define CIRCE_ROOMS CIRCE_API
