/* Who speaks, and what of. */
#include "cli/common/together.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "circe/circe.h"
#include "cli/common/message.h"
#include "cli/common/terminal.h"

void together_quieten(void) {
    ranks_launch launch = ranks_launched();
    if (launch.by == NULL || launch.rank == 0) return;
    message_hold();
    terminal_silence();
}

/* The others wait for this process, so it prints its own message, whichever rank it is. */
static void speak_last(const char *text) {
    message_release();
    message_note("%s", text);
}

int together_open(void) {
    char program[512];
    ranks_speak_last(speak_last);
    circe_status status = ranks_open();
    if (status != CIRCE_OK) {
        int failure = message_refused(status);
        if (ranks_launched().rank > 0) sleep(1); /* a launcher ends all if one fails: rank 0 must print first */
        return failure;
    }
    if (!ranks_several()) return EXIT_DONE;
    memset(program, 0, sizeof program);
    snprintf(program, sizeof program, "%s\n%s", circe_version(), circe_build_info());
    status = ranks_same(program, sizeof program, "the version of circe");
    return message_refused(status);
}

int together_close(int status) {
    if (!ranks_several()) return status;
    status = together_agree(status);
    bool first = ranks_first();
    fflush(stdout);
    ranks_close();
    return first ? status : EXIT_DONE;
}

int together_agree(int status) {
    char text[RANKS_TEXT_BYTES] = "";
    int who = 0;
    if (!ranks_several()) return status;
    if (status != EXIT_DONE)
        snprintf(text, sizeof text, "rank %d on %s: %s", ranks_rank(), ranks_host(), message_held());
    status = ranks_first_report(status, text, &who);
    if (status != EXIT_DONE && who > 0 && ranks_first()) message_note("%s", text);
    return status;
}
