/* Networks on points as a source describes them. */
#ifndef TRAIN_PREDICT_H
#define TRAIN_PREDICT_H

#include "train/network.h"

/* Whether the network can be fed these points: a source that train_source_check finds sound, of the network's shape.
 * `what` names it, as "training". */
circe_status train_check_features(const train_network *network, const train_source *source, const char *what);

/* What the network makes of all points of a source: out (n, outputs), host memory. As train_network_predict, without
 * ever holding more than a batch of them as floats. */
circe_status train_predict(train_network *network, const train_source *source, float *out);

#endif
