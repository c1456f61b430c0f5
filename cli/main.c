/* The command circe: finds the requested subcommand and runs it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "circe/circe.h"
#include "cli/commands.h"
#include "cli/common/message.h"
#include "cli/common/session.h"
#include "cli/common/terminal.h"
#include "cli/common/together.h"
#include "cli/help.h"
#include "io/place.h"
#include "io/suggest.h"

static int unknown_command(const char *name) {
    const char *names[SPEC_N_COMMANDS];
    size_t n = 0;
    for (int i = 0; i < SPEC_N_COMMANDS; i++) {
        if (!spec_commands[i].hidden) names[n++] = spec_commands[i].name;
    }
    const char *nearest = suggest_nearest(name, names, n);
    message_note("there is no command '%s'", name);
    if (nearest != NULL)
        message_hint("did you mean 'circe %s'?", nearest);
    else
        message_hint("circe --help lists the commands");
    return EXIT_INPUT;
}

static int print_version(void) {
    circe_context *context = NULL;
    circe_status status = circe_context_create(NULL, &context);
    if (status != CIRCE_OK) return message_refused(status);
    printf("circe %s\n\nbuilt on\n", circe_version());
    for (const char *line = circe_build_info(); *line != '\0';) {
        size_t length = strcspn(line, "\n");
        if (length > 0) printf("  %.*s\n", (int)length, line);
        line += length + (line[length] == '\n');
    }
    const session here = {.context = context};
    char text[192];
    printf("\nruns here as %s\n", session_text(&here, text, sizeof text));
    session_warn_of_blas();
    circe_context_destroy(context);
    return EXIT_DONE;
}

static int cmd_help(const args *arguments) {
    if (arguments->argument == NULL) {
        help_overview(stdout);
        return EXIT_DONE;
    }
    const spec_command *command = spec_find_command(arguments->argument);
    if (command == NULL) return unknown_command(arguments->argument);
    help_command(stdout, command);
    return EXIT_DONE;
}

static int cmd_completion(const args *arguments) {
    const char *shell = arguments->argument;
    if (shell != NULL && strcmp(shell, "bash") == 0)
        completion_bash(stdout);
    else if (shell != NULL && strcmp(shell, "zsh") == 0)
        completion_zsh(stdout);
    else
        return message_fail(EXIT_INPUT, "name the shell: bash or zsh");
    return EXIT_DONE;
}

static int cmd_generate_man(const args *arguments) {
    if (arguments->argument == NULL) return message_fail(EXIT_INPUT, "name the folder to write to");
    return manpage_write_all(arguments->argument);
}

static int cmd_generate_reference(const args *arguments) {
    if (arguments->argument == NULL) return message_fail(EXIT_INPUT, "name the folder to write to");
    return reference_write_all(arguments->argument);
}

/* Runs a command together with the other processes if mpirun or srun started several. `parsed` is the status of parsing
 * its arguments. */
static int run_by_ranks(int (*run)(const args *), const args *arguments, int parsed) {
    int status = together_open();
    if (status != EXIT_DONE) return status;
    status = together_agree(parsed);
    return together_close(status == EXIT_DONE ? run(arguments) : status);
}

static int run_command(const spec_command *command, int argc, char **argv) {
    static int (*const run[SPEC_N_COMMANDS])(const args *) = {[SPEC_FIT] = cmd_fit,
                                                              [SPEC_MEASURE] = cmd_measure,
                                                              [SPEC_TEST] = cmd_test,
                                                              [SPEC_AUDIT] = cmd_audit,
                                                              [SPEC_TRAIN] = cmd_train,
                                                              [SPEC_PREDICT] = cmd_predict,
                                                              [SPEC_EXPERIMENT] = cmd_experiment,
                                                              [SPEC_EXPERIMENT_RUN] = cmd_experiment_run,
                                                              [SPEC_DATA] = cmd_data,
                                                              [SPEC_DEMO] = cmd_demo,
                                                              [SPEC_BENCH] = cmd_bench,
                                                              [SPEC_HELP] = cmd_help,
                                                              [SPEC_COMPLETION] = cmd_completion,
                                                              [SPEC_MAN] = cmd_generate_man,
                                                              [SPEC_REFERENCE] = cmd_generate_reference};
    bool shared = command == &spec_commands[SPEC_FIT] || command == &spec_commands[SPEC_EXPERIMENT] ||
                  command == &spec_commands[SPEC_TRAIN];
    message_set_command(command->name);
    if (shared) together_quieten();
    args arguments;
    int status = args_parse(command, argc, argv, &arguments);
    if (status == EXIT_DONE && arguments.own.help)
        help_command(stdout, command);
    else if (shared)
        status = run_by_ranks(run[command - spec_commands], &arguments, status);
    else if (status == EXIT_DONE)
        status = run[command - spec_commands](&arguments);
    args_free(&arguments);
    return status;
}

static int run(int argc, char **argv) {
    if (argc < 2) {
        help_overview(stderr);
        return EXIT_INPUT;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        help_overview(stdout);
        return EXIT_DONE;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) return print_version();
    const spec_command *command = spec_find_command(argv[1]);
    if (command != NULL) return run_command(command, argc - 2, argv + 2);
    if (argv[1][0] != '-') return unknown_command(argv[1]);
    message_note("there is no option %s before a command", argv[1]);
    message_hint("circe COMMAND [options]; circe --help lists the commands");
    return EXIT_INPUT;
}

/* oneDNN uses OpenMP's threads, which spin for a millisecond by default when they wait. The library's own threads and
 * other programs cannot use the core during that time, so a network for images takes 5 to 10 times as long on a busy
 * machine. Spinning for some microseconds costs nothing. OpenMP reads this setting when the program is loaded, so the
 * program starts itself again.
 */
static void wait_politely(char **argv) {
    if (getenv("OMP_WAIT_POLICY") != NULL || getenv("GOMP_SPINCOUNT") != NULL) return;
    if (setenv("GOMP_SPINCOUNT", "10000", 1) == 0) execv("/proc/self/exe", argv); /* comes back where it cannot */
}

int main(int argc, char **argv) {
    wait_politely(argv);
    terminal_guard();
    io_keep_pipes();
    return message_close_stdout(run(argc, argv));
}
