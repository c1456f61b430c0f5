/* circe train: from a table, or from images, to an invariant predictor; by one process or several. */
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/common/message.h"
#include "cli/common/parse.h"
#include "cli/common/progress.h"
#include "cli/common/ranks.h"
#include "cli/train/train_job.h"
#include "io/paths.h"

/* --report, or the model's path with "-report" in the place of its ending; NULL: none is wanted. To be freed. */
static char *report_folder(const args *arguments) {
    const char *model = args_text(arguments, OPT_OUTPUT_MODEL), *asked = args_text(arguments, OPT_REPORT);
    if (args_given(arguments, OPT_NO_REPORT)) return NULL;
    if (asked != NULL) return small_format("%s", asked);
    const char *slash = strrchr(model, '/'), *dot = strrchr(model, '.');
    bool ending = dot != NULL && dot > model && (slash == NULL || dot > slash + 1);
    return small_format("%.*s-report", ending ? (int)(dot - model) : (int)strlen(model), model);
}

/* Process 0 judges, writes and speaks for all. */
static int run(const args *arguments, const session *s, const char *report, training_job *job) {
    int status = training_job_open(arguments, s, NULL, job);
    if (status == EXIT_DONE && report != NULL && ranks_first()) status = message_refused(path_make_folder(report));
    status = ranks_agree(status);
    if (status == EXIT_DONE) status = training_job_run(job);
    if (status != EXIT_DONE || !ranks_first()) return status;
    status = training_job_judge(job);
    if (status == EXIT_DONE) status = training_job_save(job);
    if (status == EXIT_DONE && report != NULL) status = training_report_write(job, report);
    return status;
}

int cmd_train(const args *arguments) {
    session s;
    training_job job = {0};
    char *report = report_folder(arguments);
    int status = session_open(arguments, &s);
    progress_catch_termination();
    if (status == EXIT_DONE) status = run(arguments, &s, report, &job);
    if (status == EXIT_DONE && ranks_first()) {
        training_job_say(&job);
        if (args_given(arguments, OPT_JSON))
            status = json_print(training_json(&job, report));
        else
            training_print(&job, report);
    }
    training_job_free(&job);
    session_close(&s);
    free(report);
    return status;
}
