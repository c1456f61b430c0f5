/* Running gnuplot: no shell, none of the user's settings, nothing on the terminal, and an end if it hangs. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "report/report_parts.h"

enum { LIMIT_MS = 60000, LOOK_MS = 5 };

/* Waits until the child ends or the limit is reached, when it is ended. */
static bool wait_for(pid_t child) {
    const struct timespec moment = {.tv_nsec = LOOK_MS * 1000000L};
    int result = 0;
    for (int waited = 0; waited < LIMIT_MS; waited += LOOK_MS) {
        pid_t ended = waitpid(child, &result, WNOHANG);
        if (ended == child) return WIFEXITED(result) && WEXITSTATUS(result) == 0;
        if (ended < 0 && errno != EINTR) return false;
        nanosleep(&moment, NULL);
    }
    kill(child, SIGKILL);
    while (waitpid(child, &result, 0) < 0 && errno == EINTR) continue;
    return false;
}

bool report__gnuplot(const char *folder, const char *script, const char *output) {
    posix_spawn_file_actions_t actions;
    char *setting = NULL;
    pid_t child = 0;
    if (asprintf(&setting, "output='%s'", output) < 0) return false;
    char *arguments[] = {"gnuplot", "-d", "-e", setting, (char *)script, NULL};
    bool started = false;
    if (posix_spawn_file_actions_init(&actions) == 0) {
        started = posix_spawn_file_actions_addchdir_np(&actions, folder) == 0 &&
                  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0) == 0 &&
                  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0) == 0 &&
                  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) == 0 &&
                  posix_spawnp(&child, "gnuplot", &actions, NULL, arguments, environ) == 0;
        posix_spawn_file_actions_destroy(&actions);
    }
    free(setting);
    return started && wait_for(child);
}
