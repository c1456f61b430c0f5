/* Rows of the commands' own options. */
#include "cli/own.h"

#define ROW(kind_, field_, name_, ...) \
    { .name = name_, .kind = CIRCE_OPTION_##kind_, .offset = offsetof(own_options, field_), __VA_ARGS__ }

#define THREADS                                                                                                      \
    ROW(INTEGER, threads, "threads", .value = "N", .low = 1, .high = 4096, .group = "Machine",                       \
        .help =                                                                                                      \
            "The number of threads. Default: OMP_NUM_THREADS, or one per processor; under mpirun, the rank's share " \
            "of the machine.")
#define MEMORY                                                                                                      \
    ROW(BYTES, memory, "memory", .value = "SIZE", .group = "Machine",                                               \
        .help =                                                                                                     \
            "The memory that the work may use, for example 512M or 4G. A job that needs more is refused before it " \
            "starts. Default: the free memory of the machine.")
#define SEED                                                                                                      \
    ROW(INTEGER, seed, "seed", .value = "N", .fallback = "0", .high = CIRCE_LARGEST, .group = "Machine",          \
        .help =                                                                                                   \
            "The seed of everything random: splits, draws, weights, batches, pivot candidates, random features, " \
            "generated data.")
#define DEVICE                                                                                                       \
    ROW(TEXT, device, "device", .value = "NAME", .fallback = "cpu", .group = "Machine",                              \
        .help =                                                                                                      \
            "Where the training steps run. cpu: the processor. cuda: an NVIDIA GPU (cuda:1 is the second). auto: a " \
            "GPU if one can be used. docs/gpu.md says what a GPU needs.")
#define CONFIG                                                                                                \
    ROW(PATH, config, "config", .value = "FILE.yaml", .group = "Output",                                      \
        .help =                                                                                               \
            "Read options from a file, for example `gamma: 1000` or `features: [a, y, z]`. The command line " \
            "overrides the file.")
#define JSON                                   \
    ROW(FLAG, json, "json", .group = "Output", \
        .help = "Print one JSON object on standard output, with numbers to 17 digits, and nothing else.")
#define QUIET                                                   \
    ROW(FLAG, quiet, "quiet", .letter = 'q', .group = "Output", \
        .help = "Show no progress bar, no warnings and no explanations.")
#define VERBOSE                                                     \
    ROW(FLAG, verbose, "verbose", .letter = 'v', .group = "Output", \
        .help = "Also report the machine and the time of each stage, on standard error.")
#define HELP ROW(FLAG, help, "help", .letter = 'h', .group = "Output", .help = "Show this help.")

#define OWN(name, ...)                                                        \
    static const circe_option name##_rows[] = {__VA_ARGS__};                  \
    const circe_schema own_##name = {#name, sizeof(own_options), name##_rows, \
                                     sizeof name##_rows / sizeof name##_rows[0]};

OWN(fit, THREADS, MEMORY, JSON, QUIET, VERBOSE, HELP)
OWN(measure, THREADS, MEMORY, JSON, QUIET, VERBOSE, HELP)
OWN(test, THREADS, MEMORY,
    ROW(PATH, output, "output", .letter = 'o', .value = "DIR", .group = "Output",
        .help = "With --calibrate: the folder for calibration.svg, its script and its data."),
    ROW(FLAG, csv, "csv", .group = "Output", .help = "With --pairs: print a .csv, one line per test."), JSON, QUIET,
    VERBOSE, HELP)
OWN(audit, THREADS, MEMORY,
    ROW(PATH, output, "output", .letter = 'o', .required = 1, .value = "DIR", .group = "Output",
        .help = "The folder for report.html, its figures, results.json and results.csv. It may exist; files of these "
                "names are replaced."),
    JSON, QUIET, VERBOSE, HELP)
OWN(train, THREADS, MEMORY,
    ROW(PATH, report, "report", .value = "DIR", .group = "Output",
        .help = "The folder for report.html, figures, results.csv and results.json. Default: the name of MODEL without "
                "its ending, followed by -report."),
    ROW(FLAG, no_report, "no-report", .group = "Output", .help = "Write no report."),
    ROW(FLAG, audit, "audit", .group = "Output",
        .help = "Also audit the predictions for the test rows (or, with --test 0, the validation rows), as `circe "
                "audit` does: do they depend on --invariant-to once the target is known? The result is in the folder "
                "audit of the report."),
    CONFIG, JSON, QUIET, VERBOSE, HELP)
OWN(predict, THREADS, CONFIG, JSON, QUIET, VERBOSE, HELP)
OWN(experiment, JSON, QUIET, HELP)
OWN(experiment_run, DEVICE,
    ROW(PATH, output, "output", .letter = 'o', .required = 1, .value = "FILE", .group = "Output",
        .help = "Where to write the result."),
    HELP)
OWN(data, THREADS, JSON, QUIET, VERBOSE, HELP)
OWN(demo,
    ROW(INTEGER, n, "n", .value = "N", .fallback = "10000", .low = 500, .high = 1e6, .group = "Demonstration",
        .help = "The number of points for training, validation and holdout. Another 2000 points are drawn to judge the "
                "predictors."),
    ROW(INTEGER, epochs, "epochs", .value = "N", .fallback = "100", .low = 1, .high = 1e6, .group = "Training",
        .help = "The number of passes over all training rows."),
    SEED,
    ROW(INTEGER, threads, "threads", .value = "N", .fallback = "1", .low = 1, .high = 4096, .group = "Machine",
        .help = "The number of threads. For small networks, one is almost as fast as two, and other work on the "
                "machine slows it less."),
    ROW(PATH, output, "output", .letter = 'o', .value = "DIR", .fallback = "circe-demo", .group = "Output",
        .help = "The folder for the tables, the models and the report."),
    HELP)
OWN(bench,
    ROW(FLAG, quick, "quick", .group = "Benchmark",
        .help = "Run fewer repetitions and shorter growth tables. This takes a few seconds."),
    ROW(FLAG, large, "large", .group = "Benchmark", .help = "Also fit a million points with the whole grid."),
    ROW(CHOICE, only, "only", .value = "PART", .words = "circe|measures|train|images", .group = "Benchmark",
        .help = "Run only one part: CIRCE and its fit, the other measures, the training step, or images. Images run "
                "only with this option."),
    SEED, DEVICE,
    ROW(CHOICE, precision, "precision", .value = "TYPE", .words = "float32|tf32|bf16", .fallback = "float32",
        .group = "Machine",
        .help = "The precision inside networks on a GPU. tf32 rounds the factors of products to 11 bits and is faster; "
                "bf16 also stores images between layers in 16 bits. Weights, sums and checkpoints stay float32. The "
                "CPU supports float32 only."),
    THREADS, MEMORY, JSON, HELP)
OWN(help, HELP)
