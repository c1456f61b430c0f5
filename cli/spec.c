/* The table of commands and options, and the texts that people read. */
#include "spec.h"

#include <string.h>

#include "measures.h"

#define FIT SPEC_BIT(SPEC_FIT)
#define MEASURE SPEC_BIT(SPEC_MEASURE)
#define DEMO SPEC_BIT(SPEC_DEMO)
#define BENCH SPEC_BIT(SPEC_BENCH)
#define EVERY (FIT | MEASURE | DEMO | BENCH | SPEC_BIT(SPEC_HELP) | SPEC_BIT(SPEC_COMPLETION) | SPEC_BIT(SPEC_MAN))

#define LARGE_INTEGER 9007199254740992.0 /* 2^53: every integer up to here is exact in a double */

const spec_option spec_options[OPT_COUNT] = {
    [OPT_X] = {"x", 0, SPEC_PATH, MEASURE, MEASURE, "FILE", NULL, NULL, 0, 0, "Data",
               "The feature: what must not depend on z once y is known."},
    [OPT_Y] = {"y", 0, SPEC_PATH, FIT | MEASURE, FIT | MEASURE, "FILE", NULL, NULL, 0, 0, "Data",
               "The variable that is conditioned on, for example the label."},
    [OPT_Z] = {"z", 0, SPEC_PATH, FIT | MEASURE, FIT | MEASURE, "FILE", NULL, NULL, 0, 0, "Data",
               "The distractor: what a feature should carry no information about beyond y."},
    [OPT_DATA] = {"data", 0, SPEC_PATH, FIT | MEASURE, 0, "FILE", NULL, NULL, 0, 0, "Data",
                  "One file for every variable, whose options then list columns of this .csv (or name an array of this "
                  ".npz or .safetensors) instead of files: --data people.csv --y income --z age,sex."},
    [OPT_COLUMNS_X] = {"columns-x", 0, SPEC_TEXT, MEASURE, 0, "LIST", NULL, NULL, 0, 0, "Data",
                       "Columns of the .csv given as --x, by name or by index from 0: age,income."},
    [OPT_COLUMNS_Y] = {"columns-y", 0, SPEC_TEXT, FIT | MEASURE, 0, "LIST", NULL, NULL, 0, 0, "Data",
                       "Columns of the .csv that holds y."},
    [OPT_COLUMNS_Z] = {"columns-z", 0, SPEC_TEXT, FIT | MEASURE, 0, "LIST", NULL, NULL, 0, 0, "Data",
                       "Columns of the .csv that holds z."},
    [OPT_MISSING] = {"missing", 0, SPEC_CHOICE, FIT | MEASURE, 0, "WHAT", "error|drop", "error", 0, 0, "Data",
                     "Missing cells (empty, NA or ? in a .csv, NaN in an array): refuse them, or drop their rows from "
                     "all variables together. Infinities are always refused."},
    [OPT_MODEL] = {"model", 0, SPEC_PATH, MEASURE, 0, "MODEL", NULL, NULL, 0, 0, "Conditional mean of z given y",
                   "Use the model that `circe fit` wrote."},
    [OPT_HOLDOUT_Y] = {"holdout-y", 0, SPEC_PATH, MEASURE, 0, "FILE", NULL, NULL, 0, 0, "Conditional mean of z given y",
                       "Fit on these points instead, which must not be among those measured."},
    [OPT_HOLDOUT_Z] = {"holdout-z", 0, SPEC_PATH, MEASURE, 0, "FILE", NULL, NULL, 0, 0, "Conditional mean of z given y",
                       "Their z; rows as in --holdout-y."},
    [OPT_HOLDOUT_DATA] = {"holdout-data", 0, SPEC_PATH, MEASURE, 0, "FILE", NULL, NULL, 0, 0,
                          "Conditional mean of z given y", "With --data: fit on the same columns of this file."},
    [OPT_ESTIMATOR] = {"estimator", 0, SPEC_CHOICE, MEASURE, 0, "NAME", "biased|debiased|centered|ustat", "centered", 0,
                       0, "Measure",
                       "biased: the plain sum, never negative; debiased: without its diagonal; centered: with x "
                       "centred, never negative and less noisy; ustat: unbiased, so it scatters around 0 (and below "
                       "it) where there is no dependence."},
    [OPT_GRAD] = {"grad", 0, SPEC_PATH, MEASURE, 0, "OUT.npy", NULL, NULL, 0, 0, "Measure",
                  "Also write d value / d x, an array shaped like the measured rows of x."},
    [OPT_DTYPE] = {"dtype", 0, SPEC_CHOICE, MEASURE, 0, "TYPE", "float32|float64", "float64", 0, 0, "Measure",
                   "Precision of the batch work. Fits are always done in float64."},
    [OPT_KERNEL_X] = {"kernel-x", 0, SPEC_TEXT, MEASURE, 0, "KERNEL", NULL, NULL, 0, 0, "Kernels",
                      "gaussian, laplace, linear or delta (categories), with a width in parentheses: laplace(0.5). "
                      "Factors on columns are joined by *: 0-2:gaussian*3:delta, or age:gaussian*sex:delta with the "
                      "names of a .csv. Default: gaussian, and delta for columns of text."},
    [OPT_KERNEL_Y] =
        {"kernel-y", 0, SPEC_TEXT, FIT | MEASURE, 0, "KERNEL", NULL, NULL, 0, 0, "Kernels",
         "The kernel of y: gaussian, laplace, linear or delta (categories), or factors on columns joined by *: "
         "0-2:gaussian*3:delta, age:gaussian*sex:delta. Default: gaussian, and delta for columns of text."},
    [OPT_KERNEL_Z] = {"kernel-z", 0, SPEC_TEXT, FIT | MEASURE, 0, "KERNEL", NULL, NULL, 0, 0, "Kernels",
                      "The same for z."},
    [OPT_SIGMA2_X] = {"sigma2-x", 0, SPEC_POSITIVE, MEASURE, 0, "S", "median", "median", 0, 0, "Kernels",
                      "The squared width of x's kernel: exp(-d^2/(2 S)) for gaussian, exp(-d/sqrt(S)) for laplace; or "
                      "median, the squared median distance between points."},
    [OPT_SIGMA2_Y] = {"sigma2-y", 0, SPEC_POSITIVES, FIT | MEASURE, 0, "LIST", "median", "1,0.1,0.01,0.001", 0, 0,
                      "Kernels", "Squared widths to try for y's kernel, among which leave-one-out chooses; or median."},
    [OPT_SIGMA2_Z] = {"sigma2-z", 0, SPEC_POSITIVE, FIT | MEASURE, 0, "S", "median", "median", 0, 0, "Kernels",
                      "The squared width of z's kernel, or median."},
    [OPT_RIDGE] = {"ridge", 0, SPEC_POSITIVES, FIT | MEASURE, 0, "LIST", NULL, "0.01,0.1,1,10,100", 0, 0, "Regression",
                   "Ridge parameters lambda in (K + lambda I) to try, not scaled by the number of rows; leave-one-out "
                   "chooses among them."},
    [OPT_FORCE_RIDGE] = {"force-ridge", 0, SPEC_FLAG, FIT | MEASURE, 0, NULL, NULL, NULL, 0, 0, "Regression",
                         "Keep a ridge that is too small for the matrix's conditioning instead of raising it."},
    [OPT_METHOD] =
        {"method", 0, SPEC_CHOICE, FIT | MEASURE, 0, "NAME", "auto|lowrank|dense|rff", "auto", 0, 0, "Regression",
         "lowrank: pivoted Cholesky, exact to --tolerance, cost grows with the rows; dense: eigendecomposition, cost "
         "grows with their cube; rff: random Fourier features; auto: lowrank where the rank met is small, else dense."},
    [OPT_TOLERANCE] = {"tolerance", 0, SPEC_POSITIVE, FIT | MEASURE, 0, "T", NULL, NULL, 0, 1, "Regression",
                       "The share of a kernel matrix's trace that its low-rank factor may leave out. Default: 1e-12."},
    [OPT_MAX_RANK] = {"max-rank", 0, SPEC_INTEGER, FIT | MEASURE, 0, "R", NULL, NULL, 1, LARGE_INTEGER, "Regression",
                      "The largest rank to go to. Default: what memory allows, at most 4096 for y."},
    [OPT_RFF_FEATURES] = {"rff-features", 0, SPEC_INTEGER, FIT | MEASURE, 0, "D0", NULL, NULL, 1, 1e9, "Regression",
                          "For --method rff: features drawn at each redraw. Default: 1024."},
    [OPT_RFF_BATCH] =
        {"rff-batch", 0, SPEC_INTEGER, FIT | MEASURE, 0, "D", NULL, NULL, 0, 1e9, "Regression",
         "For --method rff: features used in each batch; 0 uses all. Default: 512, or all where fewer are drawn."},
    [OPT_RFF_EVERY] = {"rff-every", 0, SPEC_INTEGER, FIT | MEASURE, 0, "L", NULL, NULL, 1, LARGE_INTEGER, "Regression",
                       "For --method rff: batches between redraws. Default: 100."},
    [OPT_N] = {"n", 0, SPEC_INTEGER, DEMO, 0, "N", NULL, "1000", 50, 20000, "Demonstration",
               "Points to measure on; as many again are drawn for the fit."},
    [OPT_QUICK] = {"quick", 0, SPEC_FLAG, BENCH, 0, NULL, NULL, NULL, 0, 0, "Benchmark",
                   "Fewer repetitions and shorter growth tables: a few seconds."},
    [OPT_LARGE] = {"large", 0, SPEC_FLAG, BENCH, 0, NULL, NULL, NULL, 0, 0, "Benchmark",
                   "Also fit a million points with the whole grid."},
    [OPT_SEED] = {"seed", 0, SPEC_INTEGER, FIT | MEASURE | DEMO | BENCH, 0, "N", NULL, "0", 0, LARGE_INTEGER, "Machine",
                  "Seed of everything random: splits, pivot candidates, random features, generated data."},
    [OPT_THREADS] = {"threads", 0, SPEC_INTEGER, FIT | MEASURE | DEMO | BENCH, 0, "N", NULL, NULL, 1, 4096, "Machine",
                     "Threads to use. Default: all that OpenMP offers (OMP_NUM_THREADS)."},
    [OPT_MEMORY] = {"memory", 0, SPEC_BYTES, FIT | MEASURE | BENCH, 0, "SIZE", NULL, NULL, 0, 0, "Machine",
                    "Memory the work may use, as 512M or 4G; a job that needs more is refused before it starts. "
                    "Default: what the machine has free."},
    [OPT_OUTPUT_MODEL] =
        {"output", 'o', SPEC_PATH, FIT, FIT, "MODEL", NULL, NULL, 0, 0, "Output",
         "Where to write the model, a .safetensors file. An existing file is replaced whole or not at all."},
    [OPT_OUTPUT_DIR] = {"output", 'o', SPEC_PATH, DEMO, 0, "DIR", NULL, "circe-demo", 0, 0, "Output",
                        "Where to write data, model and plot."},
    [OPT_JSON] = {"json", 0, SPEC_FLAG, FIT | MEASURE | BENCH, 0, NULL, NULL, NULL, 0, 0, "Output",
                  "Print one JSON object on standard output, numbers with 17 digits, and nothing else there."},
    [OPT_QUIET] = {"quiet", 'q', SPEC_FLAG, FIT | MEASURE, 0, NULL, NULL, NULL, 0, 0, "Output",
                   "No progress bar, no warnings, no explanations."},
    [OPT_HELP] = {"help", 'h', SPEC_FLAG, EVERY, 0, NULL, NULL, NULL, 0, 0, "Output", "Show this help."},
};

const spec_command spec_commands[SPEC_N_COMMANDS] = {
    [SPEC_FIT] =
        {.name = "fit",
         .synopsis = "--y FILE --z FILE [options] -o MODEL",
         .summary = "learn what z looks like for a given y, once, and keep it in a file",
         .explanation = "Fits the conditional mean embedding of z given y by kernel ridge regression and writes it as "
                        "a model file. Measuring against a model is fast, and the same model serves every feature x "
                        "and every training step.\n\n"
                        "Width of y's kernel and ridge are chosen together by the leave-one-out error, which is "
                        "computed in closed form for every pair of --sigma2-y and --ridge; the table of errors is "
                        "printed. A best value at the edge of the table suggests trying values beyond it.\n\n"
                        "Use points that will not be measured later: a model fitted on the measured points makes the "
                        "residuals look smaller than they are.",
         .examples = {{"Fit on two arrays, with the default grids",
                       "circe fit --y holdout_y.npy --z holdout_z.npy -o model.safetensors"},
                      {"Columns of a table, text columns included",
                       "circe fit --data people.csv --y income --z age,sex -o model.safetensors"},
                      {"A grid of one's own, and the table as JSON",
                       "circe fit --y y.npy --z z.npy --sigma2-y 0.5,1,2 --ridge 0.1,1 -o model.safetensors --json"}}},
    [SPEC_MEASURE] =
        {.name = "measure",
         .argument = "NAME",
         .synopsis = "NAME --x FILE --y FILE --z FILE [--model MODEL] [options]",
         .summary = "how strongly x depends on z once y is known",
         .explanation =
             "Prints one number: 0 where x tells nothing about z beyond what y already tells, larger the more it does. "
             "Its scale depends on the kernels and on the data, so compare values made with the same kernels on the "
             "same y and z: two features, or one feature before and after training.\n\n"
             "The measure needs the conditional mean of z given y, fitted on points that are not measured. There are "
             "three ways: --model with a file from `circe fit`; --holdout-y and --holdout-z (or --holdout-data), "
             "fitted on the spot; or none of these: then the rows are split in two halves at random by --seed, one to "
             "fit, the other to measure, and the output says so.",
         .examples = {{"Against a model",
                       "circe measure circe --x features.npy --y y.npy --z z.npy --model model.safetensors"},
                      {"From one table, split in two by the seed",
                       "circe measure circe --data people.csv --x score --y income --z age,sex --seed 1"},
                      {"The unbiased estimate with its gradient, on a holdout fitted on the spot",
                       "circe measure circe --x x.npy --y y.npy --z z.npy --holdout-y hy.npy --holdout-z hz.npy "
                       "--estimator ustat --grad grad.npy"},
                      {"For scripts", "circe measure circe --x x.npy --y y.npy --z z.npy --json | jq .value"}}},
    [SPEC_DEMO] = {.name = "demo",
                   .synopsis = "[options]",
                   .summary = "a guided first run on data from the paper: two features, two values, a plot",
                   .explanation =
                       "Draws points from a causal model of the CIRCE paper (univariate case 1), fits the conditional "
                       "mean of z given y on one half, and measures two features on the other: one that depends on z "
                       "even when y is known, and one that is made from y alone. Data, model and an SVG plot (if "
                       "gnuplot is there) are left in a folder, with commands to try on them.",
                   .examples = {{"With the defaults, into circe-demo/", "circe demo"},
                                {"More points, another draw", "circe demo --n 4000 --seed 7 -o /tmp/demo"}}},
    [SPEC_BENCH] = {.name = "bench",
                    .synopsis = "[--quick] [--large] [options]",
                    .summary = "how fast the measure and the fit are on this machine",
                    .explanation =
                        "Times loss and gradient in float32, both from raw y and z and from cached residual features, "
                        "at three sizes; the fit with its whole leave-one-out grid; and how time grows with the batch "
                        "B, the holdout M, the dimension d_x and the rank. Data: y uniform on [0, 1], z = y + 0.05 "
                        "noise, x random. Each time is the median of many repetitions, with quartiles.",
                    .examples = {{"A first impression", "circe bench --quick"},
                                 {"Everything, for a script", "circe bench --large --json > bench.json"}}},
    [SPEC_HELP] = {.name = "help", .argument = "COMMAND", .synopsis = "[COMMAND]", .summary = "explain a command"},
    [SPEC_COMPLETION] = {.name = "completion",
                         .hidden = true,
                         .argument = "SHELL",
                         .synopsis = "bash|zsh",
                         .summary = "print the completion script of a shell",
                         .examples = {{"For this session of bash", "source <(circe completion bash)"}}},
    [SPEC_MAN] = {.name = "generate-man",
                  .hidden = true,
                  .argument = "DIR",
                  .synopsis = "DIR",
                  .summary = "write the man pages into a folder"},
};

const char spec_summary[] = "conditional independence, measured and enforced";

const char spec_introduction[] =
    "Does a feature x carry information about z beyond what y already tells? `circe` answers with CIRCE, a kernel "
    "measure of conditional dependence: 0 where x and z are independent given y, larger the more x depends on z. It "
    "also gives the gradient with respect to x, so that a network can be trained until the dependence is gone.";

const char spec_files[] =
    "Arrays come as .npy, .npz, .csv (with a header row) or .safetensors, one row per point. FILE:SELECTION picks an "
    "array of an .npz, a tensor of a .safetensors, or columns of a .csv: data.npz:labels, people.csv:age,income. "
    "Columns of text are categories. Models are .safetensors files.";

const char spec_exit_status[] =
    "0: done. 1: the work failed (memory, a full disk, interrupted). 2: the command line or the input is wrong.";

const spec_example spec_tour[SPEC_MAX_EXAMPLES] = {
    {"See it work on data from the paper", "circe demo"},
    {"Measure, splitting the rows in two", "circe measure circe --x x.npy --y y.npy --z z.npy"},
    {"Or fit once and measure often", "circe fit --y holdout_y.npy --z holdout_z.npy -o model.safetensors"},
    {NULL, "circe measure circe --x x.npy --y y.npy --z z.npy --model model.safetensors"},
};

const spec_command *spec_find_command(const char *name) {
    for (int i = 0; i < SPEC_N_COMMANDS; i++) {
        if (strcmp(spec_commands[i].name, name) == 0) return &spec_commands[i];
    }
    return NULL;
}

bool spec_takes(const spec_command *command, spec_option_id option) {
    return (spec_options[option].commands >> (command - spec_commands)) & 1u;
}

bool spec_requires(const spec_command *command, spec_option_id option) {
    return (spec_options[option].required >> (command - spec_commands)) & 1u;
}

size_t spec_argument_words(const spec_command *command, const char **words, const char **meanings, size_t limit) {
    size_t n = 0;
    if (command == &spec_commands[SPEC_MEASURE]) {
        for (; n < n_measures && n < limit; n++) {
            words[n] = measures[n].name;
            meanings[n] = measures[n].summary;
        }
    } else if (command == &spec_commands[SPEC_HELP]) {
        for (int i = 0; i < SPEC_N_COMMANDS && n < limit; i++) {
            if (spec_commands[i].hidden || i == SPEC_HELP) continue;
            words[n] = spec_commands[i].name;
            meanings[n++] = spec_commands[i].summary;
        }
    } else if (command == &spec_commands[SPEC_COMPLETION] && limit >= 2) {
        words[0] = "bash", meanings[0] = "GNU bash";
        words[1] = "zsh", meanings[1] = "the Z shell";
        n = 2;
    }
    return n;
}

int spec_word_index(const char *words, const char *text) {
    size_t length = strlen(text);
    int index = 0;
    for (const char *word = words; word != NULL; index++) {
        const char *end = strchr(word, '|');
        size_t size = end != NULL ? (size_t)(end - word) : strlen(word);
        if (size == length && memcmp(word, text, size) == 0) return index;
        word = end != NULL ? end + 1 : NULL;
    }
    return -1;
}
