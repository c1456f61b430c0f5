/* The table of commands, and the texts that people read. */
#include "cli/spec.h"

#include <string.h>

#include "circe/jobs.h"

#include "jobs/measure_texts.h"
#include "jobs/tests.h"

const spec_command spec_commands[SPEC_N_COMMANDS] = {
    [SPEC_FIT] =
        {.job = &circe_fit_schema,
         .own = &own_fit,
         .name = "fit",
         .synopsis = "--y FILE --z FILE [options] -o MODEL",
         .summary = "learn the conditional mean of z given y, and save it for later measures",
         .explanation = "Fits the conditional mean embedding of z given y by kernel ridge regression and writes it to "
                        "a model file. Measuring with a model is fast, and the same model serves every feature x and "
                        "every training step.\n\n"
                        "The leave-one-out error chooses the width of the kernel of y and the ridge together. It is "
                        "computed in closed form for every pair of --sigma2-y and --ridge, and the command prints the "
                        "table of errors. If the best value lies at the edge of the table, try values beyond it.\n\n"
                        "Use points that you will not measure later. A model fitted on the measured points makes the "
                        "residuals look smaller than they are.",
         .examples = {{"Fit on two arrays, with the default grids",
                       "circe fit --y holdout_y.npy --z holdout_z.npy -o model.safetensors"},
                      {"Columns of a table, text columns included",
                       "circe fit --data people.csv --y income --z age,sex -o model.safetensors"},
                      {"Your own grid, and the table as JSON",
                       "circe fit --y y.npy --z z.npy --sigma2-y 0.5,1,2 --ridge 0.1,1 -o model.safetensors --json"}}},
    [SPEC_MEASURE] =
        {.job = &circe_measure_job_schema,
         .own = &own_measure,
         .name = "measure",
         .argument = "NAME",
         .synopsis = "NAME --x FILE --y FILE --z FILE [--model MODEL] [options]",
         .summary = "measure how strongly x depends on z once y is known",
         .explanation =
             "Prints one number. It is 0 if x says nothing about z beyond what y already says, and it grows with the "
             "dependence. Its scale depends on the measure, the kernels and the data. So compare values only if they "
             "come from the same kernels and the same y and z: two features, or one feature before and after training. "
             "`circe measure all` shows every measure side by side.\n\n"
             "circe and circe-spectral need the conditional mean of z given y, fitted on points that are not measured. "
             "There are three ways. --model takes a file from `circe fit`. --holdout-y and --holdout-z (or "
             "--holdout-data) give points to fit now. Without any of these, --seed splits the rows at random into two "
             "halves, one to fit and one to measure, and the output says so. `all` does the same.\n\n"
             "hscic, gcm, kci, nocco and kpc are computed as published: they regress the measured rows on themselves "
             "and measure all rows. hscic, gcm and kci use a single --sigma2-y and a single --ridge as given. If there "
             "are several values, and by default, leave-one-out on these rows chooses, and the output shows the "
             "choice. nocco and kpc use --epsilon, and one --sigma2-y or the median. hsic does not use y and needs no "
             "--y.\n\n"
             "A measure ignores options that it does not use, with a note. So a script can pass the same options to "
             "every measure.",
         .examples = {{"All measures for one data table",
                       "circe measure all --data people.csv --x score --y income --z age,sex"},
                      {"With a model",
                       "circe measure circe --x features.npy --y y.npy --z z.npy --model model.safetensors"},
                      {"From one table, split into two halves by the seed",
                       "circe measure circe --data people.csv --x score --y income --z age,sex --seed 1"},
                      {"The unbiased estimate and its gradient, with a holdout to fit now",
                       "circe measure circe --x x.npy --y y.npy --z z.npy --holdout-y hy.npy --holdout-z hz.npy "
                       "--estimator ustat --grad grad.npy"},
                      {"Does x depend on z at all, regardless of y",
                       "circe measure hsic --x x.npy --z z.npy --estimator biased"},
                      {"A score to compare with a standard normal, by least squares",
                       "circe measure gcm --x x.npy --y y.npy --z z.npy --regression linear"},
                      {"HSCIC with the mean of z from a holdout",
                       "circe measure hscic --x x.npy --y y.npy --z z.npy --regress-z holdout --model "
                       "model.safetensors"},
                      {"For scripts", "circe measure circe --x x.npy --y y.npy --z z.npy --json | jq .value"}}},
    [SPEC_TEST] =
        {.job = &circe_test_job_schema,
         .own = &own_test,
         .name = "test",
         .argument = "METHOD",
         .synopsis = "METHOD (--x FILE --y FILE --z FILE | --data FILE --pairs FILE) [--alpha A] [--effects] [options]",
         .summary = "test whether x is independent of z given y: a p-value, and whether to trust it",
         .explanation =
             "Tests whether x is independent of z once y is known. A small p-value means that such data "
             "would be rare under independence. A large one means that the test found no dependence; it "
             "does not prove that there is none.\n\n"
             "Every such test regresses on y, and its p-value is only as good as these regressions. So the "
             "output reports how good they are (do the residuals still depend on y?) and rates the trust in "
             "the p-value as good, doubtful or poor. --calibrate goes further: it draws x again given y, "
             "many times, independently of z, and checks that the p-values of these data sets are spread "
             "evenly. --effects reports how large the dependence is and where along y it occurs.\n\n"
             "Text columns are categories and have their own kernel. Without --y the test is marginal. "
             "p-values are never 0, and the same --seed gives the same p-value on any number of threads, to rounding.",
         .examples =
             {{"Does a score depend on age and sex, given the income?",
               "circe test kci --data people.csv --x score --y income --z age,sex"},
              {"The same for age, with effect sizes, and where along income the dependence occurs",
               "circe test kci --data people.csv --x score --y income --z age --effects"},
              {"Check the test on 500 simulated data sets, and draw the figure",
               "circe test kci --data people.csv --x score --y income --z age --calibrate 500 -o figures"},
              {"With more pairs (y, z) whose x is unknown",
               "circe test circe --x x.npy --y y.npy --z z.npy --auxiliary-y more_y.npy --auxiliary-z more_z.npy"},
              {"Several rows per patient, which may depend on each other",
               "circe test kci --data visits.csv --x dose --y age --z outcome --groups patient"},
              {"Many tests, one per line of a .csv with the columns x, z and y",
               "circe test kci --data people.csv --pairs pairs.csv"},
              {"A million rows", "circe test rcot --x x.npy --y y.npy --z z.npy"},
              {"All tests, for an overview", "circe test all --x x.npy --y y.npy --z z.npy"}}},
    [SPEC_AUDIT] =
        {.job = &circe_audit_schema,
         .own = &own_audit,
         .name = "audit",
         .argument = "DATA",
         .synopsis = "DATA.csv --prediction P --target Y --sensitive A,B [--alpha 0.05] [options] -o DIR",
         .summary = "report whether predictions depend on a sensitive attribute once the outcome is known",
         .explanation = "Takes a table with predictions, outcomes and sensitive attributes. For each attribute it "
                        "asks: given the outcome, does the prediction still depend on the attribute (equalised odds, "
                        "without binning)? How much, where, and with what certainty? The answer is a report.html to "
                        "share; results.json and results.csv contain the same numbers.\n\n"
                        "The verdict comes from the test that --test names in advance, with Holm's correction across "
                        "the attributes. The report also shows the other tests, effect sizes with intervals, the usual "
                        "gaps between groups (true and false positive rates; for an outcome of numbers, mean "
                        "predictions at equal outcome) for several binnings, the error along the attribute, and "
                        "whether the test is calibrated on data like these.\n\n"
                        "Two predictions (--prediction before,after) are compared side by side. Use rows that the "
                        "predictor was not trained on. --notion asks questions other than equalised odds.",
         .examples =
             {{"One prediction, two attributes",
               "circe audit people.csv --prediction score --target income --sensitive age,sex -o report"},
              {"A predictor before and after training for invariance",
               "circe audit people.csv --prediction before,after --target income --sensitive age -o report"},
              {"Two classes, with the positive one named",
               "circe audit loans.csv --prediction p --target repaid --positive yes --sensitive age -o report"},
              {"A model, by all three notions, from a pipe",
               "zcat people.csv.gz | circe audit - --model m.safetensors --sensitive age --notion all -o report"}}},
    [SPEC_TRAIN] =
        {.job = &circe_train_schema,
         .own = &own_train,
         .name = "train",
         .synopsis =
             "(--data FILE --features LIST | --images FILE) --target COLUMN --invariant-to LIST [options] -o MODEL",
         .summary = "train a predictor that does not depend on a distractor",
         .explanation =
             "Trains a network that predicts the target from features or images. It minimises loss + gamma * "
             "regulariser, where the regulariser measures how much the prediction depends on --invariant-to once "
             "--given is known. Invariance costs accuracy: an invariant predictor cannot use what only the distractor "
             "tells. By default the command looks for the smallest gamma with which a test finds no dependence on "
             "rows left out of training.\n\n"
             "--seed splits the rows at random into training, validation, test and holdout rows. The training rows "
             "standardise the columns. The model stores their statistics, names and categories, so `circe predict` "
             "takes a table as it is. Images are stored as bytes or bits and scaled to [-1, 1] for the network.\n\n"
             "The same network is trained without the regulariser too. At the end the command compares the two on test "
             "rows, which neither has seen: their errors, and the dependence that is left. If --given is not the "
             "target, it also estimates the floor: the error of predicting from --given alone. A folder beside the "
             "model contains the same as a report to share.\n\n"
             "Under mpirun or srun, all ranks train one network together, with the same result. Each rank takes "
             "its slice of every batch and stores its share of the rows.",
         .examples =
             {{"A score from a, y and z that does not depend on z once y is known",
               "circe train --data people.csv --features a,y,z --target b --given y --invariant-to z -o "
               "model.safetensors"},
              {"Equal treatment of groups that have the same outcome",
               "circe train --data loans.csv --features income,age,sex --target repaid --invariant-to sex "
               "--gamma 100 -o loans.safetensors"},
              {"The same without a regulariser, to see what invariance costs",
               "circe train --data people.csv --features a,y,z --target b --given y --invariant-to z "
               "--regularizer none -o free.safetensors"},
              {"From photographs: age, regardless of the light (photos.csv has the columns file, age and light)",
               "circe train --images photos.csv --target age --invariant-to light --image-size 64 --gamma 100 "
               "-o age.safetensors"},
              {"The same with a ResNet-18 that starts from torchvision's weights",
               "circe train --images photos.csv --target age --invariant-to light --image-size 224 --net "
               "resnet18 --weights resnet18.safetensors --batch 64 --gamma 100 -o age.safetensors"},
              {"From the dSprites file: the vertical position of a sprite, regardless of the horizontal one",
               "circe train --images dsprites.npz --target latents_values:5 --invariant-to latents_values:4 "
               "--net dsprites --batch 1024 --epochs 5 --gamma 100 -o height.safetensors"},
              {"Options from a file, with another gamma",
               "circe train --config run.yaml --gamma 300 -o model.safetensors"},
              {"After Ctrl-C, a crash or a power cut", "circe train --config run.yaml -o model.safetensors --resume"}}},
    [SPEC_PREDICT] =
        {.job = &circe_predict_schema,
         .own = &own_predict,
         .name = "predict",
         .synopsis = "--model MODEL (--data FILE | --images FILE) [-o OUT]",
         .summary = "use a predictor that `circe train` wrote",
         .explanation =
             "Finds the model's columns in the table by name, in any order, and writes one line per row: the "
             "prediction in the units of the target, or the most probable class and the probability of each class. "
             "Images are treated as in training. If the data contain the target too, the command reports the error.",
         .examples = {{"To a file", "circe predict --model model.safetensors --data new.csv -o predictions.csv"},
                      {"To the screen", "circe predict --model model.safetensors --data new.csv | head"},
                      {"As an array", "circe predict --model model.safetensors --data new.csv -o predictions.npy"},
                      {"From images", "circe predict --model age.safetensors --images new.csv -o predictions.csv"}}},
    [SPEC_EXPERIMENT] =
        {.job = &circe_experiment_schema,
         .own = &own_experiment,
         .name = "experiment",
         .argument = "NAME",
         .synopsis = "[NAME] [--quick] [--seeds N] [--jobs N] [-o DIR]",
         .summary = "reproduce a table or figure of the paper with one command",
         .explanation =
             "Runs a grid of trainings (models, methods, weights gamma, seeds) that a file describes, several at the "
             "same time. It writes a folder with results.csv, results.json, figures and report.html. Without a name, "
             "it lists the experiments.\n\n"
             "Each run writes its result as soon as it finishes. After Ctrl-C or a crash, the same command continues "
             "where it stopped and repeats only runs whose settings changed. Long runs on pictures keep a checkpoint. "
             "Gamma is chosen on validation data, never on the test data of the report.\n\n"
             "An experiment is a commented file NAME.yaml. circe looks for it in $CIRCE_EXPERIMENTS, in ./experiments, "
             "and where circe is installed. --config takes your own file.",
         .examples = {{"List the experiments", "circe experiment"},
                      {"Table 1 of the paper, short and in full", "circe experiment table1 --quick"},
                      {NULL, "circe experiment table1"},
                      {"The floor of any invariant predictor, without training", "circe experiment limits"},
                      {"Pictures with dependence that CIRCE sees and GCM does not",
                       "circe experiment dsprites-nonlinear --quick"},
                      {"Your own experiment, on four cores, for a script",
                       "circe experiment --config mine.yaml --jobs 4 -o results/mine --json"}}},
    [SPEC_EXPERIMENT_RUN] = {.own = &own_experiment_run,
                             .name = "experiment-run",
                             .hidden = true,
                             .synopsis = "-o FILE < SETTINGS.json",
                             .summary = "one run of an experiment, as `circe experiment` starts it"},
    [SPEC_DATA] = {.job = &circe_data_schema,
                   .own = &own_data,
                   .name = "data",
                   .argument = "SET",
                   .synopsis = "faces|dsprites|contact-sheet -o PATH [options]",
                   .summary = "generate the image sets of the experiments",
                   .explanation =
                       "faces renders lit heads in the layout of the Extended Yale-B photographs: one folder per "
                       "person, and files named after pose and lamp, such as yaleB11_P00A+000E+00.pgm. The heads are "
                       "procedural; the poses and lamps are those of the real rig. They stand in for the photographs, "
                       "which cannot be redistributed. If you have the photographs, use their folder instead.\n\n"
                       "dsprites draws the 737,280 pictures of dSprites from their geometry and writes them in the "
                       "format of the published .npz.\n\n"
                       "contact-sheet draws an overview as a .png. For a folder of faces it shows poses down, lamps "
                       "across, and then every person. For a dSprites file it varies each latent in turn.\n\n"
                       "The same --seed gives the same files. The pictures appear in the folder only when all are "
                       "finished; an interrupted command leaves the folder as it was.",
                   .examples = {{"All 16,128 heads, 168 by 192 pixels, and a sheet of them",
                                 "circe data faces -o faces --sheet faces.png"},
                                {"A small set", "circe data faces -o few --identities 4 --size 64"},
                                {"The dSprites file", "circe data dsprites -o dsprites.npz"},
                                {"What is in a folder of photographs",
                                 "circe data contact-sheet --from ExtendedYaleB -o sheet.png"}}},
    [SPEC_DEMO] =
        {.own = &own_demo,
         .name = "demo",
         .synopsis = "[options]",
         .summary = "a guided first run: train a predictor without and with CIRCE, and see the cost",
         .explanation = "Draws points from a causal model of the CIRCE paper (univariate case 1), trains a predictor "
                        "of b from a, y and z twice, without a regulariser and with CIRCE, and compares both with the "
                        "floor. No predictor that is independent of z given y can have an error below the floor. The "
                        "folder then contains tables, models and a report, and the command suggests what to try next.",
         .examples = {{"With the defaults, into circe-demo/", "circe demo"},
                      {"Another draw, elsewhere", "circe demo --seed 7 -o /tmp/demo"}}},
    [SPEC_BENCH] =
        {.own = &own_bench,
         .name = "bench",
         .synopsis = "[--quick] [--large] [options]",
         .summary = "time the measures, the fit and the training step on this machine",
         .explanation =
             "Times the loss and its gradient in float32 at three sizes, both from raw y and z and from cached "
             "residual features. Also times the fit with its whole leave-one-out grid, and shows how the time grows "
             "with the batch B, the holdout M, the dimension d_x and the rank. Data: y uniform on [0, 1], z = y + 0.05 "
             "noise, x random. Each time is the median of many repetitions, with its quartiles. With --device cuda and "
             "without --quick, training steps are also timed in PyTorch, if python3 has it.",
         .examples = {{"A first impression", "circe bench --quick"},
                      {"Everything, for a script", "circe bench --large --json > bench.json"}}},
    [SPEC_HELP] = {.own = &own_help,
                   .name = "help",
                   .argument = "COMMAND",
                   .synopsis = "[COMMAND]",
                   .summary = "explain a command"},
    [SPEC_COMPLETION] = {.own = &own_help,
                         .name = "completion",
                         .hidden = true,
                         .argument = "SHELL",
                         .synopsis = "bash|zsh",
                         .summary = "print the completion script of a shell",
                         .examples = {{"For this session of bash", "source <(circe completion bash)"},
                                      {"For this session of zsh, after compinit", "source <(circe completion zsh)"}}},
    [SPEC_MAN] = {.own = &own_help,
                  .name = "generate-man",
                  .hidden = true,
                  .argument = "DIR",
                  .synopsis = "DIR",
                  .summary = "write the man pages into a folder"},
    [SPEC_REFERENCE] = {.own = &own_help,
                        .name = "generate-reference",
                        .hidden = true,
                        .argument = "DIR",
                        .synopsis = "DIR",
                        .summary = "write the command reference as Markdown files into a folder"},
};

const char spec_summary[] = "conditional independence, measured and enforced";

const char spec_introduction[] =
    "Does a feature x carry information about z beyond what y already tells? `circe` answers with CIRCE, a kernel "
    "measure of conditional dependence. It is 0 if x and z are independent given y, and it grows as x depends more on "
    "z. circe also computes the gradient with respect to x, so a network can be trained until the dependence is gone. "
    "HSIC, HSCIC, GCM, KCI, NOCCO and KPC are available for comparison.";

const char spec_files[] =
    "circe reads arrays from .npy, .npz, .csv (with a header row) or .safetensors files, with one row per point. "
    "FILE:SELECTION picks an array of an .npz, a tensor of a .safetensors, or columns of a .csv: data.npz:labels, "
    "people.csv:age,income. A column without any number contains categories. A column that mixes numbers and text is "
    "refused. Models are .safetensors files.";

const char spec_exit_status[] =
    "0: success. 1: the work failed (out of memory, a full disk, an interruption). 2: the command line or the input is "
    "wrong. 3: an audit met a condition of --fail-if.";

const spec_example spec_tour[SPEC_MAX_EXAMPLES] = {
    {"See it work on data from the paper", "circe demo"},
    {"Measure, with the rows split into two halves", "circe measure circe --x x.npy --y y.npy --z z.npy"},
    {"Or fit once and measure often", "circe fit --y holdout_y.npy --z holdout_z.npy -o model.safetensors"},
    {NULL, "circe measure circe --x x.npy --y y.npy --z z.npy --model model.safetensors"},
    {"All measures side by side", "circe measure all --x x.npy --y y.npy --z z.npy"},
    {"Test: get a p-value", "circe test kci --x x.npy --y y.npy --z z.npy"},
    {"Audit predictions that you already have",
     "circe audit people.csv --prediction score --target income --sensitive age,sex -o report"},
    {"Train a predictor of b that does not depend on z once y is known",
     "circe train --data people.csv --features a,y,z --target b --given y --invariant-to z --gamma 1e3 -o "
     "m.safetensors"},
};

const spec_command *spec_find_command(const char *name) {
    for (int i = 0; i < SPEC_N_COMMANDS; i++) {
        if (strcmp(spec_commands[i].name, name) == 0) return &spec_commands[i];
    }
    return NULL;
}

size_t spec_n_rows(const spec_command *command) {
    return (command->job != NULL ? command->job->n : 0) + command->own->n;
}

const circe_option *spec_row(const spec_command *command, size_t i) {
    size_t n = command->job != NULL ? command->job->n : 0;
    return i < n ? &command->job->rows[i] : &command->own->rows[i - n];
}

size_t spec_find_row(const spec_command *command, const char *name, size_t length) {
    size_t i = 0, n = spec_n_rows(command);
    for (; i < n; i++) {
        const char *candidate = spec_row(command, i)->name;
        if (strlen(candidate) == length && memcmp(candidate, name, length) == 0) break;
    }
    return i;
}

/* Words that no table of the jobs has. */
static const struct {
    spec_command_id command;
    const char *word, *meaning;
} words_of[] = {
    {SPEC_EXPERIMENT, "table1", "univariate models: error and VCF of every method"},
    {SPEC_EXPERIMENT, "multivariate1", "z with 2 to 20 dimensions: error against VCF"},
    {SPEC_EXPERIMENT, "multivariate2", "y with 2 to 20 dimensions: error against VCF"},
    {SPEC_EXPERIMENT, "limits", "the floor of any invariant predictor, without training"},
    {SPEC_EXPERIMENT, "dsprites-linear", "sprites: out-of-domain loss, linear dependence"},
    {SPEC_EXPERIMENT, "dsprites-nonlinear", "the same, with dependence that GCM cannot see"},
    {SPEC_EXPERIMENT, "dsprites-ycone", "the same, on two branches of a cone"},
    {SPEC_EXPERIMENT, "dsprites-holdout", "a separate holdout, or one that is also trained on"},
    {SPEC_EXPERIMENT, "yaleb", "faces: pose, regardless of the light's direction"},
    {SPEC_DATA, "faces", "lit heads in the layout of Extended Yale-B, into a folder"},
    {SPEC_DATA, "dsprites", "the dSprites pictures, into an .npz"},
    {SPEC_DATA, "contact-sheet", "a .png overview of either"},
    {SPEC_COMPLETION, "bash", "GNU bash"},
    {SPEC_COMPLETION, "zsh", "the Z shell"},
};

typedef struct word_list {
    const char **words, **meanings;
    size_t n, limit;
} word_list;

static void add_word(word_list *list, const char *word, const char *meaning) {
    if (list->n == list->limit) return;
    list->words[list->n] = word;
    list->meanings[list->n++] = meaning;
}

size_t spec_argument_words(const spec_command *command, const char **words, const char **meanings, size_t limit) {
    word_list list = {words, meanings, 0, limit};
    if (command == &spec_commands[SPEC_MEASURE]) {
        for (size_t m = 0; m < n_measures; m++) add_word(&list, measure_name(&measures[m]), measures[m].summary);
        add_word(&list, measure_all_name, measure_all_summary);
    } else if (command == &spec_commands[SPEC_TEST]) {
        for (size_t t = 0; t < n_tests; t++) add_word(&list, tests[t].name, tests[t].summary);
        add_word(&list, test_all_name, test_all_summary);
    } else if (command == &spec_commands[SPEC_HELP]) {
        for (int i = 0; i < SPEC_N_COMMANDS; i++)
            if (!spec_commands[i].hidden && i != SPEC_HELP)
                add_word(&list, spec_commands[i].name, spec_commands[i].summary);
    }
    for (size_t i = 0; i < sizeof words_of / sizeof *words_of; i++)
        if (command == &spec_commands[words_of[i].command]) add_word(&list, words_of[i].word, words_of[i].meaning);
    return list.n;
}
