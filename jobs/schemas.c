/* The schema of every job, from options/JOB.def. */
#include <string.h>

#include "circe/audit.h"
#include "circe/data.h"
#include "circe/experiment.h"
#include "circe/fit.h"
#include "circe/measure_job.h"
#include "circe/predict.h"
#include "circe/sweep.h"
#include "circe/test_job.h"
#include "circe/train.h"

/* OWNER is the struct that the rows of a .def describe. */
#define CIRCE_OPTION(kind_, field_, name_, ...) \
    {.name = name_, .kind = CIRCE_OPTION_##kind_, .offset = offsetof(OWNER, field_), __VA_ARGS__},

#define OWNER circe_fit_options
static const circe_option fit_rows[] = {
#include "circe/options/fit.def"
};
#undef OWNER
#define OWNER circe_measure_job_options
static const circe_option measure_job_rows[] = {
#include "circe/options/measure.def"
};
#undef OWNER
#define OWNER circe_test_job_options
static const circe_option test_job_rows[] = {
#include "circe/options/test.def"
};
#undef OWNER
#define OWNER circe_audit_options
static const circe_option audit_rows[] = {
#include "circe/options/audit.def"
};
#undef OWNER
#define OWNER circe_train_options
static const circe_option train_rows[] = {
#include "circe/options/train.def"
};
#undef OWNER
#define OWNER circe_predict_options
static const circe_option predict_rows[] = {
#include "circe/options/predict.def"
};
#undef OWNER
#define OWNER circe_data_options
static const circe_option data_rows[] = {
#include "circe/options/data.def"
};
#undef OWNER
#define OWNER circe_experiment_options
static const circe_option experiment_rows[] = {
#include "circe/options/experiment.def"
};
#undef OWNER

#define OWNER circe_sweep_options
static const circe_option sweep_rows[] = {
#include "circe/options/sweep.def"
};
#undef OWNER

#define SCHEMA(type, text)                                                                         \
    const circe_schema circe_##type##_schema = {text, sizeof(circe_##type##_options), type##_rows, \
                                                sizeof type##_rows / sizeof type##_rows[0]};       \
    void circe_##type##_options_init(circe_##type##_options *options) {                            \
        circe_options_init(&circe_##type##_schema, options);                                       \
    }

SCHEMA(fit, "fit")
SCHEMA(measure_job, "measure")
SCHEMA(test_job, "test")
SCHEMA(audit, "audit")
SCHEMA(train, "train")
SCHEMA(predict, "predict")
SCHEMA(data, "data")
SCHEMA(experiment, "experiment")
SCHEMA(sweep, "sweep")

const circe_schema *circe_schema_of(const char *job) {
    static const circe_schema *const all[] = {&circe_fit_schema,   &circe_measure_job_schema, &circe_test_job_schema,
                                              &circe_audit_schema, &circe_train_schema,       &circe_predict_schema,
                                              &circe_data_schema,  &circe_experiment_schema,  &circe_sweep_schema};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(all[i]->job, job) == 0) return all[i];
    return NULL;
}
