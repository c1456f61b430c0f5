/* What libcirce shows to the rooms that are built on it (io, train, images, mpi, jobs) and to nobody else: names with
 * two underscores, which may change with any version. libcirce_jobs links to the libcirce of its own version only. */
#ifndef CIRCE_CORE_ROOMS_H
#define CIRCE_CORE_ROOMS_H

#include "circe/export.h"

#define CIRCE_ROOMS CIRCE_API

#endif
