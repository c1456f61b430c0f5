/* The device that --device names, with the precision that --precision names. */
#ifndef CLI_DEVICES_H
#define CLI_DEVICES_H

#include "cli/common/parse.h"
#include "train/device.h"

/* Its name; "cpu" for commands that have no --device. */
const char *device_name(const args *arguments);

/* That of its networks; "float32" for commands that have no --precision. */
const char *precision_name(const args *arguments);

/* The device itself, which the caller destroys. Prints what is wrong and returns an exit status. */
int device_open(const args *arguments, circe_context *context, train_device **device);

#endif
