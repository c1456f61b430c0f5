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
        {.job = &circe_measure_job_schema,
         .own = &own_measure,
         .name = "measure",
         .argument = "NAME",
         .synopsis = "NAME --x FILE --y FILE --z FILE [--model MODEL] [options]",
         .summary = "how strongly x depends on z once y is known",
         .explanation =
             "Prints one number: 0 where x tells nothing about z beyond what y already tells, larger the more it does. "
             "Its scale depends on the measure, on the kernels and on the data, so compare values made with the same "
             "kernels on the same y and z: two features, or one feature before and after training. `circe measure all` "
             "shows every measure side by side.\n\n"
             "circe and circe-spectral need the conditional mean of z given y, fitted on points that are not measured. "
             "There are three ways: --model with a file from `circe fit`; --holdout-y and --holdout-z (or "
             "--holdout-data), fitted on the spot; or none of these: then the rows are split in two halves at random "
             "by --seed, one to fit, the other to measure, and the output says so. `all` does the same.\n\n"
             "hscic, gcm, kci, nocco and kpc regress the measured rows on themselves, as they were published, and "
             "measure all rows. hscic, gcm and kci take one --sigma2-y and one --ridge as they are; of several, and by "
             "default, leave-one-out on these rows chooses, and the output says what. nocco and kpc take --epsilon, "
             "and one --sigma2-y or the median. hsic knows no y and needs no --y.\n\n"
             "An option that a measure has no use for is ignored with a note, so a script can give every measure the "
             "same ones.",
         .examples = {{"Every measure of one table, in one table",
                       "circe measure all --data people.csv --x score --y income --z age,sex"},
                      {"Against a model",
                       "circe measure circe --x features.npy --y y.npy --z z.npy --model model.safetensors"},
                      {"From one table, split in two by the seed",
                       "circe measure circe --data people.csv --x score --y income --z age,sex --seed 1"},
                      {"The unbiased estimate with its gradient, on a holdout fitted on the spot",
                       "circe measure circe --x x.npy --y y.npy --z z.npy --holdout-y hy.npy --holdout-z hz.npy "
                       "--estimator ustat --grad grad.npy"},
                      {"Does x depend on z at all, whatever y",
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
         .synopsis = "METHOD --x FILE --y FILE --z FILE [--alpha A] [--calibrate [N]] [--effects] [options]",
         .summary = "is x independent of z given y: a p-value, and how far to trust it",
         .explanation =
             "Tests whether x is independent of z once y is known. A small p-value says that such data would be rare "
             "if they were; a large one says that no dependence was found, which is not the same as there being "
             "none.\n\n"
             "Every such test regresses on y, and its p-value is as good as these regressions. So the output says how "
             "good they are (do the residuals still know y?) and what that makes of the p-value: its trust is good, "
             "doubtful or poor. --calibrate goes further: it draws x again given y, many times, independently of z, "
             "and looks at the p-values of those, which must be spread evenly. --effects says how large the "
             "dependence is and where along y it sits.\n\n"
             "Columns of text are categories, with a kernel of their own. Without --y the test is marginal. p-values "
             "are never 0, and the same --seed gives the same one on any number of threads.",
         .examples =
             {{"A score, given the outcome, against age and sex",
               "circe test kci --data people.csv --x score --y income --z age,sex"},
              {"The same, with effect sizes and the place along income",
               "circe test kci --data people.csv --x score --y income --z age --effects"},
              {"Is the test right for data like these? 500 data sets, and the figure",
               "circe test kci --data people.csv --x score --y income --z age --calibrate 500 -o figures"},
              {"More pairs (y, z), whose x is not known",
               "circe test circe --x x.npy --y y.npy --z z.npy --auxiliary-y more_y.npy --auxiliary-z more_z.npy"},
              {"A million rows", "circe test rcot --x x.npy --y y.npy --z z.npy"},
              {"Every test, to look around", "circe test all --x x.npy --y y.npy --z z.npy"}}},
    [SPEC_AUDIT] =
        {.job = &circe_audit_schema,
         .own = &own_audit,
         .name = "audit",
         .argument = "DATA",
         .synopsis = "DATA.csv --prediction P --target Y --sensitive A,B [--alpha 0.05] [options] -o DIR",
         .summary = "a report on predictions you have: do they depend on an attribute beyond the outcome",
         .explanation =
             "Takes a table with predictions, outcomes and sensitive attributes, and asks of each attribute: given the "
             "outcome, does the prediction still depend on it (equalised odds, without binning); how much, where, and "
             "how sure is that? The answer is a report.html to send to a colleague, with the same in results.json and "
             "results.csv.\n\n"
             "The verdict rests on what --test names beforehand, with Holm's correction across the attributes. "
             "Beside it stand the other tests, effect sizes with intervals, the gaps between groups of the attribute "
             "that people know (true and false positive rates; for an outcome of numbers, mean predictions at "
             "equal outcome) for several binnings, the error along the attribute, and whether the test is "
             "calibrated on data like these.\n\n"
             "Two predictions, --prediction before,after, are put side by side. Rows should be ones that the "
             "predictor was not trained on. --notion asks other questions than equalised odds.",
         .examples =
             {{"One prediction, two attributes",
               "circe audit people.csv --prediction score --target income --sensitive age,sex -o report"},
              {"A predictor before and after it was made invariant",
               "circe audit people.csv --prediction before,after --target income --sensitive age -o report"},
              {"Classes, with the positive one named",
               "circe audit loans.csv --prediction p --target repaid --positive yes --sensitive age -o report"},
              {"A model, by three notions, from a pipe",
               "zcat people.csv.gz | circe audit - --model m.safetensors --sensitive age --notion all -o report"}}},
    [SPEC_TRAIN] =
        {.job = &circe_train_schema,
         .own = &own_train,
         .name = "train",
         .synopsis =
             "(--data FILE --features LIST | --images FILE) --target COLUMN --invariant-to LIST --gamma G [options] -o "
             "MODEL",
         .summary = "learn a predictor that does not depend on a distractor",
         .explanation =
             "Trains a network that predicts the target from the features, or from images, with loss + gamma * "
             "regulariser, where the "
             "regulariser measures how much the prediction depends on --invariant-to once --given is known. What is "
             "paid is exactness: no predictor that is invariant can use what only the distractor tells.\n\n"
             "The rows are split at random by --seed into training, validation and holdout. Columns are standardised "
             "by the training rows; the model keeps their statistics, names and categories, so that `circe predict` "
             "takes a table as it is. Images are kept as bytes, or as bits, and shown to the network from -1 to 1.\n\n"
             "At the end stand the error on the validation rows, the measures of dependence before and after, and, "
             "where --given is not the target, an estimate of the floor: the error of predicting from --given alone. "
             "A folder beside the model holds the same as a report to send to a colleague.\n\n"
             "Started by mpirun or srun, all processes train the one network, to the same result: each takes its "
             "slice of every batch and holds its share of the rows.",
         .examples = {{"A score from a, y and z that does not depend on z once y is known",
                       "circe train --data people.csv --features a,y,z --target b --given y --invariant-to z --gamma "
                       "1e3 -o model.safetensors"},
                      {"Equal treatment of groups among those with the same outcome",
                       "circe train --data loans.csv --features income,age,sex --target repaid --invariant-to sex "
                       "--gamma 100 -o loans.safetensors"},
                      {"The same without a regulariser, to see what invariance costs",
                       "circe train --data people.csv --features a,y,z --target b --given y --invariant-to z "
                       "--regularizer none -o free.safetensors"},
                      {"From photographs: age, whatever the light, from a .csv with the columns file, age and light",
                       "circe train --images photos.csv --target age --invariant-to light --image-size 64 --gamma 100 "
                       "-o age.safetensors"},
                      {"The same by a ResNet-18 that starts from torchvision's weights",
                       "circe train --images photos.csv --target age --invariant-to light --image-size 224 --net "
                       "resnet18 --weights resnet18.safetensors --batch 64 --gamma 100 -o age.safetensors"},
                      {"From the dSprites file: the height of a sprite, whatever its place across",
                       "circe train --images dsprites.npz --target latents_values:5 --invariant-to latents_values:4 "
                       "--net dsprites --batch 1024 --epochs 5 --gamma 100 -o height.safetensors"},
                      {"From a file, with another gamma",
                       "circe train --config run.yaml --gamma 300 -o model.safetensors"},
                      {"After Ctrl-C, a crash or a power cut",
                       "circe train --config run.yaml -o model.safetensors --resume"}}},
    [SPEC_PREDICT] =
        {.job = &circe_predict_schema,
         .own = &own_predict,
         .name = "predict",
         .synopsis = "--model MODEL (--data FILE | --images FILE) [-o OUT]",
         .summary = "use a predictor that `circe train` wrote",
         .explanation =
             "Finds the model's columns in the table by their names, in any order, and writes one line a "
             "row: the prediction in the target's units, or for classes the most probable one and the "
             "probability of each. Images are treated as they were in training. Where the table, or what comes "
             "with the images, has the target too, the error is reported.",
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
         .summary = "a table or figure of the paper, from one command",
         .explanation =
             "Runs a grid of trainings (models, methods, weights gamma, seeds) that a file describes, several side by "
             "side, and leaves a folder with results.csv, results.json, figures and report.html. Without a name it "
             "lists what there is.\n\n"
             "Every result is written as it finishes: the same command, after a Ctrl-C or a crash, goes on where it "
             "was, and repeats only runs whose settings changed; long runs on pictures keep a checkpoint. Gamma is "
             "chosen on validation data, never on the test data that are reported.\n\n"
             "An experiment is a file NAME.yaml with comments, looked for in $CIRCE_EXPERIMENTS, in ./experiments, and "
             "where circe is installed. --config takes a file of your own.",
         .examples = {{"What there is", "circe experiment"},
                      {"The paper's table 1, in brief and in full", "circe experiment table1 --quick"},
                      {NULL, "circe experiment table1"},
                      {"The floor of any invariant predictor, without training", "circe experiment limits"},
                      {"Pictures, where GCM cannot see what CIRCE sees", "circe experiment dsprites-nonlinear --quick"},
                      {"One's own, on four cores, for a script",
                       "circe experiment --config mine.yaml --jobs 4 -o results/mine --json"}}},
    [SPEC_EXPERIMENT_RUN] = {.own = &own_experiment_run,
                             .name = "experiment-run",
                             .hidden = true,
                             .synopsis = "-o FILE < SETTINGS.json",
                             .summary = "one run of an experiment, as `circe experiment` starts it"},
    [SPEC_DATA] =
        {.job = &circe_data_schema,
         .own = &own_data,
         .name = "data",
         .argument = "SET",
         .synopsis = "faces|dsprites|contact-sheet -o PATH [options]",
         .summary = "write the image sets of the experiments, made by the program itself",
         .explanation =
             "faces renders lit heads in the layout of the Extended Yale-B photographs: a folder a person, files named "
             "for pose and lamp as yaleB11_P00A+000E+00.pgm. Heads are procedural, poses and lamps those of the real "
             "rig. They stand in for the photographs, which cannot be passed on; a folder of these serves in the same "
             "place.\n\n"
             "dsprites writes the 737,280 pictures of dSprites, drawn from their geometry, as the published .npz has "
             "them.\n\n"
             "contact-sheet draws a .png to look at: of a folder of faces, poses downwards and lamps across, then "
             "every person; of a dSprites file, every latent in turn.\n\n"
             "The same --seed gives the same files. Pictures appear in the folder when all are made; an interrupted "
             "command leaves it as it was.",
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
         .summary = "a guided first run: a predictor trained without and with CIRCE, and what that costs",
         .explanation = "Draws points from a causal model of the CIRCE paper (univariate case 1), trains a predictor "
                        "of b from a, y and z twice, without a regulariser and with CIRCE, and shows both against the "
                        "floor: the error below which no predictor can go that does not depend on z once y is known. "
                        "Tables, models and a report are left in a folder, with commands to try on them.",
         .examples = {{"With the defaults, into circe-demo/", "circe demo"},
                      {"Another draw, elsewhere", "circe demo --seed 7 -o /tmp/demo"}}},
    [SPEC_BENCH] = {.own = &own_bench,
                    .name = "bench",
                    .synopsis = "[--quick] [--large] [options]",
                    .summary = "how fast the measure and the fit are on this machine",
                    .explanation =
                        "Times loss and gradient in float32, both from raw y and z and from cached residual features, "
                        "at three sizes; the fit with its whole leave-one-out grid; and how time grows with the batch "
                        "B, the holdout M, the dimension d_x and the rank. Data: y uniform on [0, 1], z = y + 0.05 "
                        "noise, x random. Each time is the median of many repetitions, with quartiles.",
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
                         .examples = {{"For this session of bash", "source <(circe completion bash)"}}},
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
                        .summary = "write the reference of the commands, in Markdown, into a folder"},
};

const char spec_summary[] = "conditional independence, measured and enforced";

const char spec_introduction[] =
    "Does a feature x carry information about z beyond what y already tells? `circe` answers with CIRCE, a kernel "
    "measure of conditional dependence: 0 where x and z are independent given y, larger the more x depends on z. It "
    "also gives the gradient with respect to x, so that a network can be trained until the dependence is gone. HSIC, "
    "HSCIC, GCM, KCI, NOCCO and KPC are there to compare with.";

const char spec_files[] =
    "Arrays come as .npy, .npz, .csv (with a header row) or .safetensors, one row per point. FILE:SELECTION picks an "
    "array of an .npz, a tensor of a .safetensors, or columns of a .csv: data.npz:labels, people.csv:age,income. "
    "A column without a number is categories; one that mixes numbers and text is refused. Models are .safetensors "
    "files.";

const char spec_exit_status[] =
    "0: done. 1: the work failed (memory, a full disk, interrupted). 2: the command line or the input is wrong. 3: an "
    "audit found what --fail-if forbids.";

const spec_example spec_tour[SPEC_MAX_EXAMPLES] = {
    {"See it work on data from the paper", "circe demo"},
    {"Measure, splitting the rows in two", "circe measure circe --x x.npy --y y.npy --z z.npy"},
    {"Or fit once and measure often", "circe fit --y holdout_y.npy --z holdout_z.npy -o model.safetensors"},
    {NULL, "circe measure circe --x x.npy --y y.npy --z z.npy --model model.safetensors"},
    {"Every measure side by side", "circe measure all --x x.npy --y y.npy --z z.npy"},
    {"Or ask for a p-value", "circe test kci --x x.npy --y y.npy --z z.npy"},
    {"A report on predictions you have",
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

size_t spec_groups(const spec_command *command, const char *groups[SPEC_MAX_GROUPS]) {
    size_t n = 0;
    for (size_t i = 0; i < spec_n_rows(command); i++) {
        const char *group = spec_row(command, i)->group;
        size_t k = 0;
        while (k < n && strcmp(groups[k], group) != 0) k++;
        if (k == n && n < SPEC_MAX_GROUPS) groups[n++] = group;
    }
    return n;
}

size_t spec_argument_words(const spec_command *command, const char **words, const char **meanings, size_t limit) {
    size_t n = 0;
    if (command == &spec_commands[SPEC_MEASURE]) {
        for (; n < n_measures && n < limit; n++) {
            words[n] = measure_name(&measures[n]);
            meanings[n] = measures[n].summary;
        }
        if (n < limit) {
            words[n] = measure_all_name;
            meanings[n++] = measure_all_summary;
        }
    } else if (command == &spec_commands[SPEC_TEST]) {
        for (; n < n_tests && n < limit; n++) {
            words[n] = tests[n].name;
            meanings[n] = tests[n].summary;
        }
        if (n < limit) {
            words[n] = test_all_name;
            meanings[n++] = test_all_summary;
        }
    } else if (command == &spec_commands[SPEC_HELP]) {
        for (int i = 0; i < SPEC_N_COMMANDS && n < limit; i++) {
            if (spec_commands[i].hidden || i == SPEC_HELP) continue;
            words[n] = spec_commands[i].name;
            meanings[n++] = spec_commands[i].summary;
        }
    } else if (command == &spec_commands[SPEC_EXPERIMENT] && limit >= 9) {
        words[0] = "table1", meanings[0] = "univariate models: error and VCF of every method";
        words[1] = "multivariate1", meanings[1] = "z of 2 to 20 dimensions: error against VCF";
        words[2] = "multivariate2", meanings[2] = "y of 2 to 20 dimensions: error against VCF";
        words[3] = "limits", meanings[3] = "the floor of any invariant predictor, without training";
        words[4] = "dsprites-linear", meanings[4] = "sprites: loss out of domain, linear dependence";
        words[5] = "dsprites-nonlinear", meanings[5] = "the same, which GCM cannot see";
        words[6] = "dsprites-ycone", meanings[6] = "the same, on two branches of a cone";
        words[7] = "dsprites-holdout", meanings[7] = "the holdout set aside, or also trained on";
        words[8] = "yaleb", meanings[8] = "faces: pose, whichever way the light comes";
        n = 9;
    } else if (command == &spec_commands[SPEC_DATA] && limit >= 3) {
        words[0] = "faces", meanings[0] = "lit heads in the layout of Extended Yale-B, into a folder";
        words[1] = "dsprites", meanings[1] = "the dSprites pictures, into an .npz";
        words[2] = "contact-sheet", meanings[2] = "a .png to look at, of either";
        n = 3;
    } else if (command == &spec_commands[SPEC_COMPLETION] && limit >= 2) {
        words[0] = "bash", meanings[0] = "GNU bash";
        words[1] = "zsh", meanings[1] = "the Z shell";
        n = 2;
    }
    return n;
}
