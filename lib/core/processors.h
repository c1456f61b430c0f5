/* Where this process may run. */
#pragma once

/* The processors of the affinity mask, but no more than the CPU quota of the control group (of either version). At
 * least 1. */
int circe__count_processors(void);
