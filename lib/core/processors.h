/* Where this process may run. */
#ifndef CIRCE_PROCESSORS_H
#define CIRCE_PROCESSORS_H

/* The processors of the affinity mask, but no more than the CPU quota of the control group (of either version). At
 * least 1. */
int circe__count_processors(void);

#endif
