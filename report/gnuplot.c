/* Runs gnuplot without a shell, without the user's settings and without output on the terminal, and ends it if it
 * hangs. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/owned.h"
#include "report/report_parts.h"

enum { LIMIT_MS = 60000, LOOK_MS = 5 };

/* Waits until the child ends, and ends it if the time limit is reached. */
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

/* "cd 'folder'; output='name'", as gnuplot quotes. It changes folders itself: glibc before 2.29 has no way to start a
 * program in another. */
static char *settings(const char *folder, const char *output) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = strchr(folder, '\n') == NULL ? open_memstream(&text, &bytes) : NULL;
    if (out == NULL) return NULL;
    fputs("cd '", out);
    for (const char *c = folder; *c != '\0'; c++) fputs(*c == '\'' ? "''" : (char[]){*c, '\0'}, out);
    fprintf(out, "'; output='%s'", output);
    return fclose(out) == 0 ? text : NULL;
}

bool report__gnuplot(const char *folder, const char *script, const char *output) {
    posix_spawn_file_actions_t actions;
    OWNED char *setting = settings(folder, output);
    pid_t child = 0;
    if (setting == NULL) return false;
    char *arguments[] = {"gnuplot", "-d", "-e", setting, (char *)script, NULL};
    bool started = false;
    if (posix_spawn_file_actions_init(&actions) == 0) {
        started = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0) == 0 &&
                  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0) == 0 &&
                  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) == 0 &&
                  posix_spawnp(&child, "gnuplot", &actions, NULL, arguments, environ) == 0;
        posix_spawn_file_actions_destroy(&actions);
    }
    return started && wait_for(child);
}
