/* The device that the options --device and --precision name. */
#ifndef JOBS_DEVICE_H
#define JOBS_DEVICE_H

#include "train/device.h"

/* Whether it is the name of one. */
circe_status job_device_check(const char *name);

/* The device itself, which the caller destroys; `precision` is that of its networks. */
circe_status job_device_open(circe_context *context, const char *name, const char *precision, train_device **device);

#endif
