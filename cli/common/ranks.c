/* Who speaks, and what of. */
#include "cli/common/ranks.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "circe/circe.h"
#include "cli/common/message.h"
#include "cli/common/terminal.h"

void ranks_quieten(void) {
    cluster_launch launch = cluster_launched();
    if (launch.by == NULL || launch.rank == 0) return;
    message_hold();
    terminal_silence();
}

/* The others wait for this process: it speaks for itself, whoever it is. */
static void speak_last(const char *text) {
    message_release();
    message_note("%s", text);
}

int ranks_open(void) {
    char program[512];
    cluster_speak_last(speak_last);
    circe_status status = cluster_open();
    if (status != CIRCE_OK) {
        int failure = message_refused(status);
        if (cluster_launched().rank > 0) sleep(1); /* a launcher ends all when one fails: the first is to have spoken */
        return failure;
    }
    if (!ranks_several()) return EXIT_DONE;
    memset(program, 0, sizeof program);
    snprintf(program, sizeof program, "%s\n%s", circe_version(), circe_build_info());
    status = cluster_same(program, sizeof program, "the version of circe");
    return message_refused(status);
}

int ranks_close(int status) {
    if (!ranks_several()) return status;
    status = ranks_agree(status);
    bool first = ranks_first();
    fflush(stdout);
    cluster_close();
    return first ? status : EXIT_DONE;
}

int ranks_agree(int status) {
    char text[CLUSTER_TEXT_BYTES] = "";
    int who = 0;
    if (!ranks_several()) return status;
    if (status != EXIT_DONE)
        snprintf(text, sizeof text, "rank %d on %s: %s", cluster_rank(), cluster_host(), message_held());
    status = cluster_first(status, text, &who);
    if (status != EXIT_DONE && who > 0 && ranks_first()) message_note("%s", text);
    return status;
}
