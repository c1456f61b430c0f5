/* Where this process may run. */
#ifndef CIRCE_PROCESSORS_H
#define CIRCE_PROCESSORS_H

/* Those of the affinity mask, and no more than the control group's quota of time, of either version; at least 1. */
int circe__count_processors(void);

#endif
