/* All of libcirce_jobs: each job of the command is one call, with options in and a result out. */
#ifndef CIRCE_JOBS_H
#define CIRCE_JOBS_H

#include "circe/audit.h"
#include "circe/data.h"
#include "circe/experiment.h"
#include "circe/fit.h"
#include "circe/job.h"
#include "circe/measure_job.h"
#include "circe/options.h"
#include "circe/predict.h"
#include "circe/sweep.h"
#include "circe/test_job.h"
#include "circe/train.h"

#endif
