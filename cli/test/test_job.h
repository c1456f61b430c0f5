/* One run of `circe test`: what is asked, the rows, the kernels and the library's options, ready to be tested. */
#ifndef CLI_TEST_JOB_H
#define CLI_TEST_JOB_H

#include "cli/common/message.h"
#include "cli/common/parse.h"
#include "cli/common/session.h"
#include "cli/test/tests.h"
#include "io/inputs.h"

/* Everything of one run, freed as one. */
typedef struct test_job {
    const args *arguments;
    const test_kind *what; /* NULL: all of them */
    bool has_y;
    session s;
    input x, y, z, weights, auxiliary_y, auxiliary_z;
    int64_t dropped, dropped_auxiliary;
    int64_t given;                                /* rows without missing cells, of which a sample may be tested */
    circe_kernel *kernel_x, *kernel_y, *kernel_z; /* NULL: the library's own choice */
    double *weight_values;                        /* (rows), or NULL */
    notes warnings;
} test_job;

/* Chooses the test, refuses what contradicts, reads the rows and makes the kernels. All here print what is wrong and
 * return an exit status. */
int test_job_open(const args *arguments, test_job *job);
void test_job_free(test_job *job);

/* What the library takes for one of the tests; points into the job. */
typedef struct test_problem {
    const circe_mat *x, *y, *z; /* y = NULL: there is none */
    circe_test_options options;
} test_problem;

test_problem test_job_problem(const test_job *job, const test_kind *what);

#endif
