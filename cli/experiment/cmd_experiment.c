/* `circe experiment`: a grid of runs described by a file, side by side, restartable; and the hidden command that is one
 * run of it. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "circe/status.h"
#include "cli/commands.h"
#include "cli/common/devices.h"
#include "cli/common/message.h"
#include "cli/common/progress.h"
#include "cli/common/ranks.h"
#include "cli/common/session.h"
#include "cli/experiment/experiment_output.h"
#include "cli/experiment/experiment_pictures.h"
#include "cli/experiment/experiment_pool.h"
#include "cli/experiment/experiment_ranks.h"
#include "cli/experiment/experiment_run.h"
#include "io/io.h"

/* ---- one run ----------------------------------------------------------------------------------------------------- */

/* A line at most every tenth of a second. Stops where one is asked to, or where nobody listens any more. */
static int tell(void *user, double share) {
    double *last = user, now = session_clock();
    if (progress_interrupted()) return 1;
    if (now - *last < 0.1) return 0;
    *last = now;
    return printf("%.4f\n", share) < 0 || fflush(stdout) != 0;
}

/* A signal to stop is a chance to keep a checkpoint, and no more than that. */
static void catch_signals(void) {
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    progress_start(false);
    progress_catch_termination();
    progress_end_within(EXPERIMENT_PATIENCE_S);
    sigaction(SIGPIPE, &ignore, NULL);
}

/* However the process that started this one ends, killed included, this one is then asked to stop. false: it has ended
 * before it could be asked for that, and nobody reads what is said here. */
static bool end_with_parent(void) {
    struct pollfd listener = {.fd = STDOUT_FILENO};
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    return poll(&listener, 1, 0) <= 0 || (listener.revents & (POLLERR | POLLHUP)) == 0;
}

static char *read_standard_input(void) {
    enum { MOST = 1 << 20 };
    char *text = small_alloc(MOST + 1);
    size_t bytes = fread(text, 1, MOST, stdin);
    text[bytes] = '\0';
    return text;
}

/* "runs/NAME.json" keeps "runs/NAME.checkpoint.safetensors" until it is done. */
static char *checkpoint_beside(const char *path) {
    const char *ending = strrchr(path, '.');
    int length = ending != NULL && strcmp(ending, ".json") == 0 ? (int)(ending - path) : (int)strlen(path);
    return small_format("%.*s.checkpoint.safetensors", length, path);
}

int cmd_experiment_run(const args *arguments) {
    catch_signals();
    if (!end_with_parent()) return EXIT_WORK;
    arena owner = {0};
    experiment_settings settings;
    experiment_result result;
    double last = 0;
    const char *path = args_text(arguments, OPT_OUTPUT_RUN);
    char *text = read_standard_input(), *checkpoint = checkpoint_beside(path);
    cJSON *json = cJSON_Parse(text);
    experiment_work work = {.settings = &settings,
                            .device = device_name(arguments),
                            .checkpoint = checkpoint,
                            .progress = tell,
                            .user = &last};
    experiment_result_init(&result);
    int status = json != NULL ? EXIT_DONE : message_fail(EXIT_INPUT, "standard input holds no JSON: settings of a run");
    if (status == EXIT_DONE) status = experiment_settings_parse(json, &owner, &settings);
    if (status == EXIT_DONE) status = experiment_run(&work, &result);
    if (status == EXIT_DONE) status = experiment_result_write(path, &settings, &result);
    if (status == EXIT_DONE) unlink(checkpoint);
    experiment_result_free(&result);
    cJSON_Delete(json);
    free(text);
    free(checkpoint);
    arena_free(&owner);
    return status;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

/* `path` up to `length`, unless it is there; `folder` is what it is made for. */
static int make_folder(const char *folder, const char *path, size_t length) {
    char *part = small_format("%.*s", (int)length, path);
    struct stat info;
    int status = EXIT_DONE;
    if (mkdir(part, 0777) != 0) {
        int problem = errno;
        bool there = stat(part, &info) == 0;
        if (there && !S_ISDIR(info.st_mode))
            status = message_fail(EXIT_WORK, "cannot write to %s: %s is no folder", folder, part);
        else if (!there)
            status = message_fail(EXIT_WORK, "cannot make the folder %s: %s", folder, strerror(problem));
    }
    free(part);
    return status;
}

/* The folder with those above it and `runs` in it; whether files can be made there is seen before the work. */
static int make_folders(const char *folder) {
    char *runs = small_format("%s/runs", folder);
    int status = EXIT_DONE;
    for (size_t at = 1; status == EXIT_DONE && at <= strlen(runs); at++)
        if (runs[at] == '/' || runs[at] == '\0') status = make_folder(folder, runs, at);
    if (status == EXIT_DONE && (access(folder, W_OK | X_OK) != 0 || access(runs, W_OK | X_OK) != 0))
        status = message_fail(EXIT_WORK, "cannot write in %s: %s", folder, strerror(errno));
    free(runs);
    return status;
}

/* Two of them would start every run twice. */
static int hold_folder(const char *folder, io_lock **lock) {
    char *path = small_format("%s/results.json", folder);
    int status = io_lock_take(path, lock) == CIRCE_OK ? EXIT_DONE : message_write(path, circe_last_error());
    free(path);
    return status;
}

/* The command line again, for the report and for going on. */
static char *command_line(const args *arguments, const experiment_config *config, const char *folder) {
    char seeds[48] = "";
    const char *dtype = args_given(arguments, OPT_TRAIN_DTYPE) ? args_text(arguments, OPT_TRAIN_DTYPE) : NULL;
    const char *device = args_given(arguments, OPT_DEVICE) ? device_name(arguments) : NULL;
    const char *precision = args_given(arguments, OPT_PRECISION) ? precision_name(arguments) : NULL;
    const char *file = args_text(arguments, OPT_EXPERIMENT_CONFIG);
    if (args_given(arguments, OPT_SEEDS))
        snprintf(seeds, sizeof seeds, " --seeds %" PRId64, args_integer(arguments, OPT_SEEDS));
    return small_format("circe experiment %s%s%s%s%s%s%s%s%s%s%s%s%s", config->name, config->quick ? " --quick" : "",
                        seeds, dtype != NULL ? " --dtype " : "", dtype != NULL ? dtype : "",
                        device != NULL ? " --device " : "", device != NULL ? device : "",
                        precision != NULL ? " --precision " : "", precision != NULL ? precision : "",
                        file != NULL ? " --config " : "", file != NULL ? file : "",
                        args_given(arguments, OPT_OUTPUT_RESULTS) ? " -o " : "",
                        args_given(arguments, OPT_OUTPUT_RESULTS) ? folder : "");
}

/* Of this process; of several on a machine, each has its share of the cores. */
static int64_t number_of_jobs(const args *arguments) {
    int64_t cores = cluster_cores(), threads = args_integer(arguments, OPT_RUN_THREADS);
    enum { MOST_ON_A_GPU = 4 }; /* they take turns there: more only keep each other waiting */
    int64_t jobs = args_given(arguments, OPT_JOBS) ? args_integer(arguments, OPT_JOBS) : cores / threads;
    if (!args_given(arguments, OPT_JOBS) && strcmp(device_name(arguments), "cpu") != 0 && jobs > MOST_ON_A_GPU)
        jobs = MOST_ON_A_GPU;
    return jobs < 1 ? 1 : jobs;
}

static experiment_means means_of(const args *arguments) {
    return (experiment_means){.threads = args_integer(arguments, OPT_RUN_THREADS), .device = device_name(arguments)};
}

static int stopped(const experiment_plan *plan, const char *command) {
    message_note("stopped: %" PRId64 " of %" PRId64 " runs are finished and stay in %s/runs",
                 experiment_plan_count(plan, RUN_DONE), plan->n_runs, plan->folder);
    message_hint("the same command goes on from there: %s", command);
    return EXIT_WORK;
}

static int run_plan(const args *arguments, experiment_plan *plan, const char *command) {
    experiment_means means = means_of(arguments);
    bool quiet = args_given(arguments, OPT_QUIET), interrupted = false;
    double start = session_clock();
    int64_t jobs = experiment_pool_run(plan, number_of_jobs(arguments), &means, quiet, &interrupted);
    if (interrupted) return stopped(plan, command);
    experiment_summary summary;
    experiment_summary_make(plan, &summary);
    experiment_outcome outcome = {
        .plan = plan, .summary = &summary, .command = command, .jobs = jobs, .seconds = session_clock() - start};
    int status = experiment_output(&outcome, args_given(arguments, OPT_JSON));
    experiment_summary_free(&summary);
    int64_t failed = experiment_plan_count(plan, RUN_FAILED);
    if (status == EXIT_DONE && failed > 0) {
        status = message_fail(EXIT_WORK, "%" PRId64 " of %" PRId64 " runs failed; the rest is in the results", failed,
                              plan->n_runs);
        message_hint("the same command tries them again: %s", command);
    }
    return status;
}

static int run_experiment(const args *arguments, experiment_config *config) {
    char *folder = args_given(arguments, OPT_OUTPUT_RESULTS)
                       ? small_format("%s", args_text(arguments, OPT_OUTPUT_RESULTS))
                       : small_format("results/%s%s", config->name, config->quick ? "-quick" : "");
    char *command = command_line(arguments, config, folder);
    experiment_plan plan = {0};
    io_lock *lock = NULL;
    int status = make_folders(folder);
    if (status == EXIT_DONE) status = hold_folder(folder, &lock);
    if (status == EXIT_DONE) status = experiment_pictures_prepare(config, folder, args_given(arguments, OPT_QUIET));
    status = experiment_ranks_meet(status, folder, config->training.weights);
    if (status == EXIT_DONE) {
        experiment_plan_make(config, folder, &plan);
        status = run_plan(arguments, &plan, command);
    }
    experiment_plan_free(&plan);
    io_lock_release(lock);
    free(command);
    free(folder);
    return status;
}

/* Before every run fails for want of it. */
static int try_device(const args *arguments, const char *precision) {
    train_device *device = NULL;
    circe_context *context = NULL;
    if (!args_given(arguments, OPT_QUIET)) session_warn_of_blas();
    circe_status made = circe_context_create(NULL, &context);
    int status = made == CIRCE_OK ? device_open(arguments, context, &device) : message_refused(made);
    if (status == EXIT_DONE && precision != NULL) {
        made = train_device_set_precision(device, (train_precision)train_precision_find(precision));
        if (made != CIRCE_OK) status = message_fail(EXIT_INPUT, "precision %s: %s", precision, circe_last_error());
    }
    train_device_destroy(device);
    circe_context_destroy(context);
    return status;
}

int cmd_experiment(const args *arguments) {
    if (arguments->argument == NULL && !args_given(arguments, OPT_EXPERIMENT_CONFIG)) return experiment_config_list();
    if (!ranks_first()) {
        experiment_means means = means_of(arguments);
        return experiment_ranks_serve(try_device(arguments, NULL), number_of_jobs(arguments), &means);
    }
    experiment_config config;
    int status = experiment_config_read(arguments, &config);
    if (status == EXIT_DONE) status = try_device(arguments, config.training.precision);
    status = status == EXIT_DONE ? run_experiment(arguments, &config) : experiment_ranks_meet(status, "", NULL);
    experiment_config_free(&config);
    return status;
}
