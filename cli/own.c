/* Rows of the commands' own options. */
#include "cli/own.h"

#define ROW(kind_, field_, name_, ...) \
    { .name = name_, .kind = CIRCE_OPTION_##kind_, .offset = offsetof(own_options, field_), __VA_ARGS__ }

#define THREADS                                                                                                \
    ROW(INTEGER, threads, "threads", .value = "N", .low = 1, .high = 4096, .group = "Machine",                 \
        .help =                                                                                                \
            "Threads to use. Default: OMP_NUM_THREADS, or one per processor; under mpirun, a rank's share of " \
            "the machine.")
#define MEMORY                                                                                            \
    ROW(BYTES, memory, "memory", .value = "SIZE", .group = "Machine",                                     \
        .help =                                                                                           \
            "Memory the work may use, as 512M or 4G; a job that needs more is refused before it starts. " \
            "Default: what the machine has free.")
#define SEED                                                                                                  \
    ROW(INTEGER, seed, "seed", .value = "N", .fallback = "0", .high = CIRCE_LARGEST, .group = "Machine",      \
        .help =                                                                                               \
            "Seed of everything random: splits, draws, weights, batches, pivot candidates, random features, " \
            "generated data.")
#define DEVICE                                                                                              \
    ROW(TEXT, device, "device", .value = "NAME", .fallback = "cpu", .group = "Machine",                     \
        .help =                                                                                             \
            "Where networks are run: cpu; cuda, an NVIDIA GPU (cuda:1: the second); auto, a GPU where one " \
            "can be used. Of bench, the training steps. docs/gpu.md has what a GPU needs.")
#define CONFIG                                                           \
    ROW(PATH, config, "config", .value = "FILE.yaml", .group = "Output", \
        .help = "Options from a file, as `gamma: 1000` or `features: [a, y, z]`; those of the command line win.")
#define JSON                                   \
    ROW(FLAG, json, "json", .group = "Output", \
        .help = "Print one JSON object on standard output, numbers with 17 digits, and nothing else there.")
#define QUIET                                                   \
    ROW(FLAG, quiet, "quiet", .letter = 'q', .group = "Output", \
        .help = "No progress bar, no warnings, no explanations.")
#define VERBOSE                                                     \
    ROW(FLAG, verbose, "verbose", .letter = 'v', .group = "Output", \
        .help = "Also say, on standard error, on what machine it runs and how long each stage takes.")
#define HELP ROW(FLAG, help, "help", .letter = 'h', .group = "Output", .help = "Show this help.")

#define OWN(name, ...)                                                        \
    static const circe_option name##_rows[] = {__VA_ARGS__};                  \
    const circe_schema own_##name = {#name, sizeof(own_options), name##_rows, \
                                     sizeof name##_rows / sizeof name##_rows[0]};

OWN(fit, THREADS, MEMORY, JSON, QUIET, VERBOSE, HELP)
OWN(measure, THREADS, MEMORY, JSON, QUIET, VERBOSE, HELP)
OWN(test, THREADS, MEMORY,
    ROW(PATH, output, "output", .letter = 'o', .value = "DIR", .group = "Output",
        .help = "With --calibrate: a folder for calibration.svg, with its script and data."),
    JSON, QUIET, VERBOSE, HELP)
OWN(audit, THREADS, MEMORY,
    ROW(PATH, output, "output", .letter = 'o', .required = 1, .value = "DIR", .group = "Output",
        .help = "Folder for report.html, its figures, results.json and results.csv. One that exists is used; files of "
                "these names are replaced."),
    JSON, QUIET, VERBOSE, HELP)
OWN(train, THREADS, MEMORY,
    ROW(PATH, report, "report", .value = "DIR", .group = "Output",
        .help = "Folder for report.html, figures, results.csv and results.json. Default: MODEL-report, without MODEL's "
                "ending."),
    ROW(FLAG, no_report, "no-report", .group = "Output", .help = "Leave the report out."),
    ROW(FLAG, audit, "audit", .group = "Output",
        .help = "Also audit the predictions of the validation rows, as `circe audit` does: do they depend on "
                "--invariant-to once the target is known? Into the folder audit of the report."),
    CONFIG, JSON, QUIET, VERBOSE,
    HELP)
OWN(predict, THREADS, CONFIG, JSON, QUIET, VERBOSE, HELP)
OWN(experiment, JSON, QUIET, HELP)
OWN(experiment_run, DEVICE,
    ROW(PATH, output, "output", .letter = 'o', .required = 1, .value = "FILE", .group = "Output",
        .help = "Where to write the result."),
    HELP)
OWN(data, THREADS, JSON, QUIET, VERBOSE, HELP)
OWN(demo,
    ROW(INTEGER, n, "n", .value = "N", .fallback = "10000", .low = 500, .high = 1e6, .group = "Demonstration",
        .help = "Points to train on, with those for validation and holdout; 2000 more are drawn to judge by."),
    ROW(INTEGER, epochs, "epochs", .value = "N", .fallback = "100", .low = 1, .high = 1e6, .group = "Training",
        .help = "How often all training rows are seen."),
    SEED,
    ROW(INTEGER, threads, "threads", .value = "N", .fallback = "1", .low = 1, .high = 4096, .group = "Machine",
        .help = "Threads to use. For small networks one is almost as fast as two, and does not mind other work on the "
                "machine."),
    ROW(PATH, output, "output", .letter = 'o', .value = "DIR", .fallback = "circe-demo", .group = "Output",
        .help = "Where to write tables, models and report."),
    HELP)
OWN(bench,
    ROW(FLAG, quick, "quick", .group = "Benchmark",
        .help = "Fewer repetitions and shorter growth tables: a few seconds."),
    ROW(FLAG, large, "large", .group = "Benchmark", .help = "Also fit a million points with the whole grid."),
    ROW(CHOICE, only, "only", .value = "PART", .words = "circe|measures|train|images", .group = "Benchmark",
        .help = "One part of it: CIRCE and its fit, the other measures, the training step; or images, which run only "
                "when asked for."),
    SEED, DEVICE,
    ROW(CHOICE, precision, "precision", .value = "TYPE", .words = "float32|tf32|bf16", .fallback = "float32",
        .group = "Machine",
        .help = "Precision inside networks on a GPU. tf32 rounds the factors of products to 11 bits and is faster; "
                "bf16 also keeps images between layers in 16 bits. Weights, sums and checkpoints stay float32. The CPU "
                "has float32 alone."),
    THREADS, MEMORY, JSON, HELP)
OWN(help, HELP)
