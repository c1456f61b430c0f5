/* One run, of whatever kind. */
#include "cli/experiment/experiment_run.h"

#include <unistd.h>

#include "circe/status.h"
#include "cli/common/message.h"
#include "cli/common/session.h"
#include "cli/experiment/experiment_kind.h"

static int fail(circe_status status) { /* also of allocations, which name themselves */
    const char *text = circe_last_error();
    return message_fail(status == CIRCE_ERR_ARGUMENT || status == CIRCE_ERR_SHAPE ? EXIT_INPUT : EXIT_WORK, "%s",
                        text[0] != '\0' ? text : circe_status_text(status));
}

int experiment_run(experiment_work *work, experiment_result *result) {
    double start = session_clock();
    experiment_result_init(result);
    circe_status status = work->settings->kind->run(work, result);
    result->number[NUMBER_SECONDS] = session_clock() - start + work->seconds_before;
    if (status != CIRCE_OK) return fail(status);
    return work->stopped ? message_fail(EXIT_WORK, "stopped before the end; nothing was written") : EXIT_DONE;
}
