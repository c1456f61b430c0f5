/* Runs networks on points that a source describes. */
#pragma once

#include "train/network.h"

/* Whether the network accepts these points: train_source_check must accept the source, and its shape must be the
 * network's. `what` names it in texts, for example "training". */
circe_status train_check_features(const train_network *network, const train_source *source, const char *what);

/* The network's output for all points of a source: out (n, outputs), host memory. Like train_network_predict, but never
 * more than one batch is in memory as floats. */
circe_status train_predict(train_network *network, const train_source *source, float *out);
