/* What libcirce offers only to the folders of this project that are built on it (io, train, images, mpi, jobs). These
 * names have two underscores and may change with any version. libcirce_jobs links to the libcirce of its own version
 * only. */
#ifndef CIRCE_CORE_ROOMS_H
#define CIRCE_CORE_ROOMS_H

#include "circe/export.h"

#define CIRCE_ROOMS CIRCE_API

#endif
