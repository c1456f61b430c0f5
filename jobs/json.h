/* Parts of results as JSON. */
#pragma once

#include "circe/circe.h"
#include "circe/job.h"
#include "io/json_values.h"

void json_notes(cJSON *object, const circe_notes *warnings);

/* "kernel_x": its text, and "sigma2_x": its width; null where it has none, a list where it has several. */
void json_kernel(cJSON *object, const char *label, const circe_kernel *kernel);

/* "loo": the leave-one-out table of a fit, with its best point. */
void json_loo(cJSON *object, const circe_cme *cme);

/* As text in lines; deletes the object. NULL, with the thread's error: no memory. */
char *json_text(cJSON *object);
