/* A program of a user: compiled against an installed libcirce_jobs, it reads a job's options. */
#include <circe/jobs.h>
#include <stdio.h>

int main(void) {
    circe_train_options options;
    circe_train_options_init(&options);
    circe_status status = circe_options_set(&circe_train_schema, &options, "lr", "0.01");
    printf("%s, lr %g, epochs %lld\n", circe_train_schema.job, options.lr, (long long)options.epochs);
    return status == CIRCE_OK && options.lr == 0.01 && options.epochs == 100 ? 0 : 1;
}
