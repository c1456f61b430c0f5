/* The table of commands and options, and the texts that people read. */
#include "cli/spec.h"

#include <string.h>

#include "jobs/measures.h"
#include "jobs/tests.h"

#define FIT SPEC_BIT(SPEC_FIT)
#define MEASURE SPEC_BIT(SPEC_MEASURE)
#define TEST SPEC_BIT(SPEC_TEST)
#define AUDIT SPEC_BIT(SPEC_AUDIT)
#define TRAIN SPEC_BIT(SPEC_TRAIN)
#define PREDICT SPEC_BIT(SPEC_PREDICT)
#define EXPERIMENT SPEC_BIT(SPEC_EXPERIMENT)
#define DATA SPEC_BIT(SPEC_DATA)
#define DEMO SPEC_BIT(SPEC_DEMO)
#define BENCH SPEC_BIT(SPEC_BENCH)
#define EVERY                                                                            \
    (FIT | MEASURE | TEST | AUDIT | TRAIN | PREDICT | EXPERIMENT | DATA | DEMO | BENCH | \
     SPEC_BIT(SPEC_EXPERIMENT_RUN) | SPEC_BIT(SPEC_HELP) | SPEC_BIT(SPEC_COMPLETION) | SPEC_BIT(SPEC_MAN))

#define LARGE_INTEGER 9007199254740992.0 /* 2^53: every integer up to here is exact in a double */

const spec_option spec_options[OPT_COUNT] = {
    [OPT_PREDICTOR] = {"model", 0, SPEC_PATH, PREDICT, PREDICT, "MODEL", NULL, NULL, 0, 0, "Data",
                       "The predictor that `circe train` wrote."},
    [OPT_TABLE] = {"data", 0, SPEC_PATH, TRAIN | PREDICT, 0, "FILE", NULL, NULL, 0, 0, "Data",
                   "The table, one row a point: a .csv or .tsv with a header. An .npz or .safetensors serves as well "
                   "(its arrays take the place of columns, x:2 is column 2 of array x), and an .npy (columns counted "
                   "from 0)."},
    [OPT_FEATURES] = {"features", 0, SPEC_LIST, TRAIN, 0, "LIST", NULL, NULL, 0, 0, "Data",
                      "Columns that the network sees: age,income. Columns of text become one input a category."},
    [OPT_TARGET] = {"target", 0, SPEC_LIST, TRAIN, TRAIN, "COLUMN", NULL, NULL, 0, 0, "Data",
                    "What is predicted: one column of numbers or several, or one of text, whose words are classes."},
    [OPT_GIVEN] = {"given", 0, SPEC_LIST, TRAIN, 0, "LIST", NULL, NULL, 0, 0, "Data",
                   "What is conditioned on: dependence that runs through it is allowed. Default: the target."},
    [OPT_INVARIANT_TO] = {"invariant-to", 0, SPEC_LIST, TRAIN, 0, "LIST", NULL, NULL, 0, 0, "Data",
                          "What the prediction must not depend on once --given is known. They may be features too."},
    [OPT_PREDICTION] = {"prediction", 0, SPEC_LIST, AUDIT, AUDIT, "LIST", NULL, NULL, 0, 0, "Data",
                        "The column of the prediction: a number, a probability or a score, or one of two classes. "
                        "Several, before,after, are put side by side."},
    [OPT_AUDIT_TARGET] = {"target", 0, SPEC_TEXT, AUDIT, AUDIT, "COLUMN", NULL, NULL, 0, 0, "Data",
                          "The column of the outcome: dependence that runs through it is allowed."},
    [OPT_SENSITIVE] = {"sensitive", 0, SPEC_LIST, AUDIT, AUDIT, "LIST", NULL, NULL, 0, 0, "Data",
                       "Columns that the prediction should not depend on once the outcome is known: numbers, which "
                       "need no binning, or text, whose words are categories. race+sex is one attribute of both."},
    [OPT_POSITIVE] = {"positive", 0, SPEC_TEXT, AUDIT, 0, "WORD", NULL, NULL, 0, 0, "Data",
                      "For an outcome of two words or two numbers: the one that counts as positive, which the "
                      "prediction is of. Default: the larger number, or the last word of the alphabet."},
    [OPT_FEW_VALUES] = {"few-values", 0, SPEC_INTEGER, AUDIT, 0, "N", NULL, "10", 0, 40, "Data",
                        "A target or an attribute of at most N different numbers is taken as categories, each compared "
                        "for itself; 0: numbers stay numbers. (A target of two values is always two classes.)"},
    [OPT_NUMBERS] = {"numbers", 0, SPEC_LIST, AUDIT, 0, "LIST", NULL, NULL, 0, 0, "Data",
                     "Columns that are taken as numbers although they have few different ones."},
    [OPT_SMALLEST_GROUP] = {"smallest-group", 0, SPEC_INTEGER, AUDIT, 0, "N", NULL, "50", 1, 1e15, "Data",
                            "Categories of an attribute with fewer rows are shown, but the gaps between groups do not "
                            "count them."},
    [OPT_FAIL_IF] = {"fail-if", 0, SPEC_LIST, AUDIT, 0, "LIMITS", NULL, NULL, 0, 0, "Output",
                     "Limits for pipelines, as kpc>0.02,tpr_gap>0.1,auc<0.7: where one is passed, a line says why and "
                     "the exit status is 3. There are kpc, circe (effects), p (adjusted), mean_gap, tpr_gap, fpr_gap "
                     "(of an attribute of numbers: between four groups), auc, accuracy, mean_error, rms_error, r2."},
    [OPT_THRESHOLD] = {"threshold", 0, SPEC_NUMBER, AUDIT, 0, "T", NULL, "0.5", -1e300, 1e300, "Data",
                       "For an outcome of two values: a prediction of at least T counts as positive in the true and "
                       "false positive rates."},
    [OPT_X] = {"x", 0, SPEC_PATH, MEASURE | TEST, MEASURE | TEST, "FILE", NULL, NULL, 0, 0, "Data",
               "The feature: what must not depend on z once y is known."},
    [OPT_Y] =
        {"y", 0, SPEC_PATH, FIT | MEASURE | TEST, FIT, "FILE", NULL, NULL, 0, 0, "Data",
         "The variable that is conditioned on, for example the label. (`circe test` without it is the marginal test.)"},
    [OPT_Z] = {"z", 0, SPEC_PATH, FIT | MEASURE | TEST, FIT | MEASURE | TEST, "FILE", NULL, NULL, 0, 0, "Data",
               "The distractor: what a feature should carry no information about beyond y."},
    [OPT_DATA] = {"data", 0, SPEC_PATH, FIT | MEASURE | TEST, 0, "FILE", NULL, NULL, 0, 0, "Data",
                  "One file for every variable, whose options then list columns of this .csv (or name an array of this "
                  ".npz or .safetensors) instead of files: --data people.csv --y income --z age,sex."},
    [OPT_COLUMNS_X] = {"columns-x", 0, SPEC_TEXT, MEASURE | TEST, 0, "LIST", NULL, NULL, 0, 0, "Data",
                       "Columns of the .csv given as --x, by name or by index from 0: age,income."},
    [OPT_COLUMNS_Y] = {"columns-y", 0, SPEC_TEXT, FIT | MEASURE | TEST, 0, "LIST", NULL, NULL, 0, 0, "Data",
                       "Columns of the .csv that holds y."},
    [OPT_COLUMNS_Z] = {"columns-z", 0, SPEC_TEXT, FIT | MEASURE | TEST, 0, "LIST", NULL, NULL, 0, 0, "Data",
                       "Columns of the .csv that holds z."},
    [OPT_CATEGORIES] = {"categories", 0, SPEC_LIST, FIT | MEASURE | TEST | AUDIT | TRAIN | PREDICT, 0, "LIST", NULL,
                        NULL, 0, 0, "Data",
                        "Columns that are categories although they hold numbers: sex,region. Without it a column is "
                        "categories where no cell of it is a number, and one that mixes numbers and text is refused. "
                        "For files of one variable each, z is all of z's columns and z:0 its first."},
    [OPT_NA] =
        {"na", 0, SPEC_LIST, FIT | MEASURE | TEST | AUDIT | TRAIN | PREDICT, 0, "WORDS", NULL, NULL, 0, 0, "Data",
         "More words for a missing cell: -,unknown,-999. A number stands for every cell of that value, in arrays "
         "too. Empty cells, ?, NA, N/A, NaN and null always are missing; with none, empty cells alone."},
    [OPT_DECIMAL] =
        {"decimal", 0, SPEC_CHOICE, FIT | MEASURE | TEST | AUDIT | TRAIN | PREDICT, 0, "SIGN", ".|,", ".", 0, 0, "Data",
         "The decimal sign of the numbers in a .csv or .tsv. With a comma, semicolons may part the fields."},
    [OPT_MISSING] = {"missing", 0, SPEC_CHOICE, FIT | MEASURE | TEST | AUDIT | TRAIN, 0, "WHAT", "refuse|drop|error",
                     "refuse", 0, 0, "Data",
                     "Missing cells (see --na; NaN in an array): refuse them (error is the same), or drop their rows "
                     "from all variables together. Infinities are always refused."},
    [OPT_MISSING_ROWS] = {"missing", 0, SPEC_CHOICE, PREDICT, 0, "WHAT", "refuse|empty|error", "refuse", 0, 0, "Data",
                          "Missing cells (see --na): refuse them (error is the same), or leave the predictions of "
                          "their rows empty (NaN in an .npy)."},
    [OPT_ROWS] = {"rows", 0, SPEC_POSITIVE, FIT | MEASURE | TEST, 0, "N", "all", NULL, 0, 0, "Data",
                  "Work on N rows, chosen at random by --seed; or all: on every row at once, however long that takes. "
                  "Default: all rows, but of more than can be had in the time and memory there is, `measure` takes "
                  "random blocks and `test` a random sample, and both say so."},
    [OPT_ROW_WEIGHTS] = {"weights", 0, SPEC_PATH, TEST, 0, "COLUMN", NULL, NULL, 0, 0, "Data",
                         "Weights of the rows, at least 0: a column of --data, or without it a file. Not for splitkci "
                         "and permutations."},
    [OPT_TRANSFORM] =
        {"transform", 0, SPEC_CHOICE, MEASURE | TEST | AUDIT, 0, "NAME", "none|ranks|normal-scores", "none", 0, 0,
         "Data",
         "Takes every column of numbers by its ranks, or by the normal scores of these: no outlier and no "
         "number that stands for missing outweighs the other rows. Dependence is the same after it. Of `audit`, for "
         "its tests."},
    [OPT_VALIDATION] = {"validation", 0, SPEC_NUMBER, TRAIN, 0, "SHARE", NULL, "0.1", 0, 0.9, "Data",
                        "Share of the rows that error and measures are reported on; they are not trained on."},
    [OPT_HOLDOUT] = {"holdout", 0, SPEC_NUMBER, TRAIN, 0, "SHARE", NULL, "0.1", 0, 0.9, "Data",
                     "Share of the rows that serve only to learn the conditional mean of --invariant-to given --given. "
                     "A thousand rows are enough for most tables."},
    [OPT_IMAGES] =
        {"images", 0, SPEC_PATH, TRAIN | PREDICT, 0, "FILE", NULL, NULL, 0, 0, "Images",
         "Images in place of a table's features. A .csv with a column of paths of .png, .jpg, .pgm or .ppm files, "
         "a row an image; what is known of it stands in the other columns. Or an .npz with an array of "
         "images; what is known of them stands in its other arrays (latents:2 is column 2 of one), or in "
         "--labels. Or an .npy, with --labels."},
    [OPT_PATH_COLUMN] = {"path-column", 0, SPEC_TEXT, TRAIN | PREDICT, 0, "COLUMN", NULL, NULL, 0, 0, "Images",
                         "The column of the .csv that holds the paths, which count from the folder of the .csv. "
                         "Default: file (in predict: as in training)."},
    [OPT_ARRAY] = {"array", 0, SPEC_TEXT, TRAIN | PREDICT, 0, "NAME", NULL, NULL, 0, 0, "Images",
                   "The array of the .npz that holds the images: (n, height, width), or with 1 or 3 channels (n, "
                   "height, width, channels) or (n, channels, height, width); of whole numbers 0 to 255, or 0 and 1, "
                   "of bool, or of floats 0 to 1. Default: imgs (in predict: as in training)."},
    [OPT_LABELS] = {"labels", 0, SPEC_PATH, TRAIN | PREDICT, 0, "FILE", NULL, NULL, 0, 0, "Images",
                    "A table whose row i belongs to image i of an array."},
    [OPT_IMAGE_SIZE] = {"image-size", 0, SPEC_TEXT, TRAIN, 0, "SIZE", NULL, NULL, 0, 0, "Images",
                        "Resize the images to SIZE pixels, 224, or width by height, 96x64; predict then does the same. "
                        "Without it all must have one size."},
    [OPT_CHANNELS] = {"channels", 0, SPEC_CHOICE, TRAIN, 0, "N", "1|3", NULL, 0, 0, "Images",
                      "What the network sees: grey, or red, green and blue. Default: grey where all images are grey, "
                      "but 3 for resnet18."},
    [OPT_REGULARIZER] = {"regularizer", 0, SPEC_CHOICE, TRAIN, 0, "NAME", "none|circe|hscic|gcm|hsic", "circe", 0, 0,
                         "Invariance",
                         "The measure of dependence that is added to the loss, gamma times. hsic asks for independence "
                         "whatever --given is; none trains without."},
    [OPT_GAMMA] = {"gamma", 0, SPEC_NUMBER, TRAIN, 0, "G", NULL, NULL, 0, 0, "Invariance",
                   "Weight of the regulariser, required with one: the larger, the more invariant and the less exact. "
                   "Good first values: 1000 for circe, 300 for hscic, 0.1 for gcm."},
    [OPT_GAMMA_WARMUP] = {"gamma-warmup", 0, SPEC_NUMBER, TRAIN, 0, "EPOCHS", NULL, "0", 0, 0, "Invariance",
                          "Epochs over which gamma rises to its value."},
    [OPT_TRAIN_ESTIMATOR] =
        {"estimator", 0, SPEC_CHOICE, TRAIN, 0, "NAME", "biased|debiased|centered|ustat", "ustat", 0, 0, "Invariance",
         "Of circe, and of hsic (biased or ustat). ustat, the unbiased one, is the safe choice for training: centered "
         "shrinks predictions and lets them collapse at a large gamma."},
    [OPT_LAYERS] = {"layers", 0, SPEC_LIST, TRAIN, 0, "LIST", NULL, "output", 0, 0, "Invariance",
                    "Layers whose outputs are regularised: output, or their numbers: with --net 2x64, 0 to 4 are "
                    "dense, activation, dense, activation, dense. Those of resnet18 have names: avgpool, fc.0, ..."},
    [OPT_MODEL] = {"model", 0, SPEC_PATH, MEASURE, 0, "MODEL", NULL, NULL, 0, 0, "Conditional mean of z given y",
                   "Use the model that `circe fit` wrote."},
    [OPT_HOLDOUT_Y] = {"holdout-y", 0, SPEC_PATH, MEASURE, 0, "FILE", NULL, NULL, 0, 0, "Conditional mean of z given y",
                       "Fit on these points instead, which must not be among those measured."},
    [OPT_HOLDOUT_Z] = {"holdout-z", 0, SPEC_PATH, MEASURE, 0, "FILE", NULL, NULL, 0, 0, "Conditional mean of z given y",
                       "Their z; rows as in --holdout-y."},
    [OPT_HOLDOUT_DATA] = {"holdout-data", 0, SPEC_PATH, MEASURE, 0, "FILE", NULL, NULL, 0, 0,
                          "Conditional mean of z given y", "With --data: fit on the same columns of this file."},
    [OPT_REGRESS_Z] =
        {"regress-z", 0, SPEC_CHOICE, MEASURE, 0, "HOW", "batch|holdout", "batch", 0, 0,
         "Conditional mean of z given y",
         "For hscic and gcm, which regress the measured rows on themselves: holdout takes the conditional mean of z "
         "from --model, --holdout-* or a split instead, as circe always does."},
    [OPT_ESTIMATOR] =
        {"estimator", 0, SPEC_CHOICE, MEASURE, 0, "NAME", "biased|debiased|centered|ustat|unbiased", NULL, 0, 0,
         "Measure",
         "Of circe, biased: the plain sum, never negative; debiased: without its diagonal; centered: with x centred, "
         "never negative and less noisy (the default); ustat: unbiased, so it scatters around 0 (and below it) where "
         "there is no dependence. Of hsic: biased (the default) or unbiased. The others have one form."},
    [OPT_REGRESSION] = {"regression", 0, SPEC_CHOICE, MEASURE, 0, "HOW", "kernel|linear", "kernel", 0, 0, "Measure",
                        "For gcm: regress x and z on y by kernel ridge regression, or by least squares with a "
                        "constant."},
    [OPT_COMBINE] = {"combine", 0, SPEC_CHOICE, MEASURE, 0, "HOW", "max|logsumexp|squares", "max", 0, 0, "Measure",
                     "For gcm: one number from the scores T of all pairs of columns. max: the largest |T|; logsumexp: "
                     "a smooth maximum, for training; squares: the sum of T^2."},
    [OPT_BLOCK_ROWS] =
        {"block-rows", 0, SPEC_INTEGER, MEASURE, 0, "N", NULL, NULL, 4, LARGE_INTEGER, "Measure",
         "Measure random blocks of N rows each, and give the mean over them with its standard error. "
         "Default, where all rows at once do not fit into memory: 512 to 8192, by memory and --seconds."},
    [OPT_BLOCKS] = {"blocks", 0, SPEC_INTEGER, MEASURE, 0, "K", NULL, NULL, 2, 1e6, "Measure",
                    "Measure K blocks. Default: as many as --seconds allow."},
    [OPT_SECONDS] = {"seconds", 0, SPEC_NUMBER, MEASURE | TEST, 0, "S", NULL, "20", 0.1, 1e9, "Measure",
                     "The time to spend, about: on the blocks of `measure`, after reading and fitting; `test` takes as "
                     "many rows as it can test in this time."},
    [OPT_GRAD] = {"grad", 0, SPEC_PATH, MEASURE, 0, "OUT.npy", NULL, NULL, 0, 0, "Measure",
                  "Also write d value / d x, an array shaped like the measured rows of x."},
    [OPT_DTYPE] = {"dtype", 0, SPEC_CHOICE, MEASURE, 0, "TYPE", "float32|float64", "float64", 0, 0, "Measure",
                   "Precision of the batch work. Fits are always done in float64."},
    [OPT_AUDIT_TEST] = {"test", 0, SPEC_CHOICE, AUDIT, 0, "METHOD", "kci+gcm|kci|circe|splitkci|gcm|rcot", "kci+gcm", 0,
                        0, "Test",
                        "What decides; choose before looking. kci+gcm: the smaller of their p-values, times 2, so that "
                        "plain correlation is found as well as any other dependence. Others are shown beside it."},
    [OPT_ALPHA] = {"alpha", 0, SPEC_POSITIVE, TEST | AUDIT, 0, "A", NULL, "0.05", 0, 1, "Test",
                   "The level: how often dependence may be found where there is none."},
    [OPT_NULL] =
        {"null", 0, SPEC_CHOICE, TEST, 0, "HOW", "auto|gamma|spectral|wild|permutation|normal|multiplier", "auto", 0, 0,
         "Test",
         "How the distribution under independence is had. kci: gamma, spectral or wild; circe, splitkci: wild; "
         "gcm: normal or multiplier; rcot: spectral; hsic: permutation, gamma or wild."},
    [OPT_DRAWS] = {"draws", 0, SPEC_INTEGER, TEST | AUDIT, 0, "N", NULL, "1000", 19, 1e6, "Test",
                   "Draws from that distribution; the smallest p-value is 1/(N + 1)."},
    [OPT_TEST_REGRESSION] = {"regression", 0, SPEC_CHOICE, TEST, 0, "HOW", "kernel|linear", "kernel", 0, 0, "Test",
                             "For gcm: regress on y by kernel ridge regression, or by least squares."},
    [OPT_AUXILIARY_Y] = {"auxiliary-y", 0, SPEC_PATH, TEST, 0, "FILE", NULL, NULL, 0, 0, "Test",
                         "For circe: more rows of y, whose x is not known, to learn the mean of z given y from; "
                         "FILE:COLUMNS of a .csv."},
    [OPT_AUXILIARY_Z] = {"auxiliary-z", 0, SPEC_PATH, TEST, 0, "FILE", NULL, NULL, 0, 0, "Test",
                         "Their z; rows as in --auxiliary-y."},
    [OPT_TEST_MEAN] = {"mean", 0, SPEC_CHOICE, TEST, 0, "FROM", "auto|rows|split", "auto", 0, 0, "Test",
                       "For circe: the mean of z given y from the tested rows themselves (and auxiliary ones), or "
                       "from a part of the rows that is then not tested."},
    [OPT_TEST_SHARE] = {"test-share", 0, SPEC_POSITIVE, TEST, 0, "SHARE", NULL, NULL, 0, 1, "Test",
                        "For splitkci, and circe with --mean split: the share of rows that is tested. Default: a half; "
                        "splitkci takes less where its regressions need more."},
    [OPT_CALIBRATE] = {"calibrate", 0, SPEC_COUNT, TEST, 0, "[N]", NULL, "200", 20, 1e6, "Test",
                       "Is the test right for data like these? Draw x again given y, N times, independently of z, test "
                       "each, and show the histogram of the p-values, which should be flat."},
    [OPT_AUDIT_CALIBRATE] = {"calibrate", 0, SPEC_INTEGER, AUDIT, 0, "N", NULL, "200", 0, 1e6, "Test",
                             "Data sets, x drawn again, on which the test is calibrated; 0: leave that out."},
    [OPT_EFFECTS] = {"effects", 0, SPEC_FLAG, TEST, 0, NULL, NULL, NULL, 0, 0, "Test",
                     "How much, and where: KPC and a normalised CIRCE in [0, 1] with intervals, and the dependence "
                     "along the first column of y."},
    [OPT_KERNEL_X] = {"kernel-x", 0, SPEC_TEXT, MEASURE | TEST, 0, "KERNEL", NULL, NULL, 0, 0, "Kernels",
                      "gaussian, laplace, linear or delta (categories), with a width in parentheses: laplace(0.5). "
                      "Factors on columns are joined by *: 0-2:gaussian*3:delta, or age:gaussian*sex:delta with the "
                      "names of a .csv. Default: gaussian, and delta for columns of text."},
    [OPT_KERNEL_Y] =
        {"kernel-y", 0, SPEC_TEXT, FIT | MEASURE | TEST, 0, "KERNEL", NULL, NULL, 0, 0, "Kernels",
         "The kernel of y: gaussian, laplace, linear or delta (categories), or factors on columns joined by *: "
         "0-2:gaussian*3:delta, age:gaussian*sex:delta. Default: gaussian, and delta for columns of text."},
    [OPT_KERNEL_Z] = {"kernel-z", 0, SPEC_TEXT, FIT | MEASURE | TEST, 0, "KERNEL", NULL, NULL, 0, 0, "Kernels",
                      "The same for z."},
    [OPT_SIGMA2_X] = {"sigma2-x", 0, SPEC_POSITIVE, MEASURE, 0, "S", "median", "median", 0, 0, "Kernels",
                      "The squared width of x's kernel: exp(-d^2/(2 S)) for gaussian, exp(-d/sqrt(S)) for laplace; or "
                      "median, the squared median distance between points."},
    [OPT_SIGMA2_Y] = {"sigma2-y", 0, SPEC_POSITIVES, FIT | MEASURE, 0, "LIST", "median", "1,0.1,0.01,0.001", 0, 0,
                      "Kernels", "Squared widths to try for y's kernel, among which leave-one-out chooses; or median."},
    [OPT_SIGMA2_Z] = {"sigma2-z", 0, SPEC_POSITIVE, FIT | MEASURE, 0, "S", "median", "median", 0, 0, "Kernels",
                      "The squared width of z's kernel, or median."},
    [OPT_TRAIN_SIGMA2_X] = {"sigma2-x", 0, SPEC_POSITIVE, TRAIN, 0, "S", NULL, "0.1", 0, 0, "Kernels",
                            "The squared width of the prediction's gaussian kernel, exp(-d^2/(2 S)). All columns are "
                            "standardised, and d^2 is averaged over the columns of a variable."},
    [OPT_TRAIN_SIGMA2_Y] = {"sigma2-y", 0, SPEC_POSITIVES, TRAIN, 0, "LIST", NULL, "1,0.1,0.01,0.001", 0, 0, "Kernels",
                            "The same for --given: widths among which leave-one-out on the holdout chooses."},
    [OPT_TRAIN_SIGMA2_Z] = {"sigma2-z", 0, SPEC_POSITIVE, TRAIN, 0, "S", "median", "1", 0, 0, "Kernels",
                            "The same for --invariant-to, or median."},
    [OPT_RIDGE] = {"ridge", 0, SPEC_POSITIVES, FIT | MEASURE | TRAIN, 0, "LIST", NULL, "0.01,0.1,1,10,100", 0, 0,
                   "Regression",
                   "Ridge parameters lambda in (K + lambda I) to try, not scaled by the number of rows; leave-one-out "
                   "chooses among them."},
    [OPT_EPSILON] = {"epsilon", 0, SPEC_POSITIVE, MEASURE, 0, "E", NULL, "1e-3", 0, 0, "Regression",
                     "For nocco and kpc, whose ridge is this times the number of rows."},
    [OPT_FORCE_RIDGE] = {"force-ridge", 0, SPEC_FLAG, FIT | MEASURE, 0, NULL, NULL, NULL, 0, 0, "Regression",
                         "Keep a ridge that is too small for the matrix's conditioning instead of raising it."},
    [OPT_METHOD] =
        {"method", 0, SPEC_CHOICE, FIT | MEASURE | TRAIN, 0, "NAME", "auto|lowrank|dense|rff", "auto", 0, 0,
         "Regression",
         "lowrank: pivoted Cholesky, exact to --tolerance, cost grows with the rows; dense: eigendecomposition, cost "
         "grows with their cube; rff: random Fourier features; auto: lowrank where the rank met is small, else dense."},
    [OPT_TOLERANCE] =
        {"tolerance", 0, SPEC_POSITIVE, FIT | MEASURE, 0, "T", NULL, NULL, 0, 1, "Regression",
         "The share of a kernel matrix's trace that its low-rank factor may leave out. Default: 1e-12 for fits."},
    [OPT_MAX_RANK] = {"max-rank", 0, SPEC_INTEGER, FIT | MEASURE, 0, "R", NULL, NULL, 1, LARGE_INTEGER, "Regression",
                      "The largest rank to go to. Default: what memory allows, at most 4096 for y."},
    [OPT_RFF_FEATURES] = {"rff-features", 0, SPEC_INTEGER, FIT | MEASURE, 0, "D0", NULL, NULL, 1, 1e9, "Regression",
                          "For --method rff: features drawn at each redraw. Default: 1024."},
    [OPT_RFF_BATCH] =
        {"rff-batch", 0, SPEC_INTEGER, FIT | MEASURE, 0, "D", NULL, NULL, 0, 1e9, "Regression",
         "For --method rff: features used in each batch; 0 uses all. Default: 512, or all where fewer are drawn."},
    [OPT_RFF_EVERY] = {"rff-every", 0, SPEC_INTEGER, FIT | MEASURE, 0, "L", NULL, NULL, 1, LARGE_INTEGER, "Regression",
                       "For --method rff: batches between redraws. Default: 100."},
    [OPT_N] = {"n", 0, SPEC_INTEGER, DEMO, 0, "N", NULL, "10000", 500, 1e6, "Demonstration",
               "Points to train on, with those for validation and holdout; 2000 more are drawn to judge by."},
    [OPT_DATA_FROM] = {"from", 0, SPEC_PATH, DATA, 0, "PATH", NULL, NULL, 0, 0, "Pictures",
                       "For contact-sheet: a folder of faces, rendered or published, or a dSprites .npz."},
    [OPT_SIZE] = {"size", 0, SPEC_INTEGER, DATA, 0, "N", NULL, "192", 16, 1024, "Pictures",
                  "For faces: height of a picture; its width is 7/8 of that."},
    [OPT_IDENTITIES] = {"identities", 0, SPEC_INTEGER, DATA, 0, "N", NULL, "28", 1, 28, "Pictures",
                        "For faces: how many people, in 9 poses under 64 lamps each."},
    [OPT_QUICK] = {"quick", 0, SPEC_FLAG, BENCH, 0, NULL, NULL, NULL, 0, 0, "Benchmark",
                   "Fewer repetitions and shorter growth tables: a few seconds."},
    [OPT_EXPERIMENT_QUICK] =
        {"quick", 0, SPEC_FLAG, EXPERIMENT, 0, NULL, NULL, NULL, 0, 0, "Experiment",
         "A version of minutes (two; five with pictures), with what the file says under `quick`: to see that it "
         "works, not for its numbers."},
    [OPT_SEEDS] = {"seeds", 0, SPEC_INTEGER, EXPERIMENT, 0, "N", NULL, NULL, 1, 1000, "Experiment",
                   "Runs of every cell of the table, with seeds 1 to N. Default: what the file says (5)."},
    [OPT_EXPERIMENT_CONFIG] = {"config", 0, SPEC_PATH, EXPERIMENT, 0, "FILE.yaml", NULL, NULL, 0, 0, "Experiment",
                               "An experiment of your own: copy one of those that are listed and change it."},
    [OPT_LARGE] = {"large", 0, SPEC_FLAG, BENCH, 0, NULL, NULL, NULL, 0, 0, "Benchmark",
                   "Also fit a million points with the whole grid."},
    [OPT_ONLY] = {"only", 0, SPEC_CHOICE, BENCH, 0, "PART", "circe|measures|train|images", NULL, 0, 0, "Benchmark",
                  "One part of it: CIRCE and its fit, the other measures, the training step; or images, which run only "
                  "when asked for."},
    [OPT_NET] =
        {"net", 0, SPEC_LIST, TRAIN, 0, "NET", NULL, NULL, 0, 0, "Network",
         "Hidden layers by width, 3x64, or widths one by one, 64,32; linear has none. Three layers learn most tables "
         "as well as the 9x64 of the paper's synthetic experiments, in less than half the time. For images, "
         "convolutions (channels, s: stride) and pools before the dense layers, conv16s2,conv32s2,pool2,128,64; or "
         "dsprites, or resnet18, the networks of the paper. docs/images.md has all of the language. Default: 3x64; "
         "for images conv16s2,conv32s2,pool2,128,64."},
    [OPT_ACTIVATION] = {"activation", 0, SPEC_CHOICE, TRAIN, 0, "NAME", "relu|leaky-relu|tanh", "relu", 0, 0, "Network",
                        "Between the layers; dsprites and resnet18 bring their own."},
    [OPT_INIT] = {"init", 0, SPEC_CHOICE, TRAIN, 0, "NAME", "he|uniform", "he", 0, 0, "Network",
                  "Where the weights start. he: normal, of variance 2 / inputs, which deep networks need. uniform: in "
                  "+-1/sqrt(inputs), as PyTorch starts them: smaller and smoother; what it learns goes on more evenly "
                  "beyond the data (docs/images.md)."},
    [OPT_WEIGHTS] = {"weights", 0, SPEC_PATH, TRAIN, 0, "FILE", NULL, NULL, 0, 0, "Network",
                     "Start from these weights, a .safetensors with PyTorch's names (torchvision's, for resnet18): "
                     "everything before the first dense layer. All of the network is then trained."},
    [OPT_LOSS] = {"loss", 0, SPEC_CHOICE, TRAIN, 0, "NAME", "mse|cross-entropy", NULL, 0, 0, "Network",
                  "Default: mse for a target of numbers, cross-entropy for one of text. With cross-entropy the "
                  "different values of a column of whole numbers are classes."},
    [OPT_EPOCHS] = {"epochs", 0, SPEC_INTEGER, TRAIN | DEMO, 0, "N", NULL, "100", 1, 1e6, "Training",
                    "How often all training rows are seen."},
    [OPT_BATCH] = {"batch", 0, SPEC_INTEGER, TRAIN, 0, "N", NULL, "256", 1, 1e6, "Training",
                   "Rows of a step, on which the regulariser is measured: too few make it noisy."},
    [OPT_RATE] = {"lr", 0, SPEC_POSITIVE, TRAIN, 0, "R", NULL, "1e-3", 0, 0, "Training",
                  "Learning rate of AdamW; it falls to 0 along half a cosine."},
    [OPT_DECAY] = {"weight-decay", 0, SPEC_NUMBER, TRAIN, 0, "W", NULL, "1e-2", 0, 0, "Training",
                   "Decoupled weight decay of AdamW."},
    [OPT_WARMUP] = {"warmup", 0, SPEC_NUMBER, TRAIN, 0, "EPOCHS", NULL, "0", 0, 0, "Training",
                    "Epochs over which the learning rate rises first."},
    [OPT_PATIENCE] = {"patience", 0, SPEC_INTEGER, TRAIN, 0, "N", NULL, "0", 0, 1e6, "Training",
                      "Stop after this many epochs without a better loss + gamma * regulariser on the validation rows, "
                      "and keep the best epoch; 0: never."},
    [OPT_TRAIN_DTYPE] =
        {"dtype", 0, SPEC_CHOICE, TRAIN | EXPERIMENT, 0, "TYPE", "float32|float64", "float32", 0, 0, "Training",
         "Precision in which the regulariser and its gradient are computed on a batch. Networks are "
         "float32, fits float64, whatever is said here. Of experiments, in the place of what the file says."},
    [OPT_CHECKPOINT_EPOCHS] = {"checkpoint-epochs", 0, SPEC_INTEGER, TRAIN, 0, "N", NULL, "0", 0, 1e6, "Checkpoints",
                               "Write MODEL.checkpoint every N epochs; 0: not by epochs."},
    [OPT_CHECKPOINT_MINUTES] =
        {"checkpoint-minutes", 0, SPEC_NUMBER, TRAIN, 0, "M", NULL, "1", 0, 0, "Checkpoints",
         "And every M minutes; 0: not by time. Ctrl-C, SIGTERM and SIGHUP always write one. It is "
         "removed when the model is there."},
    [OPT_RESUME] = {"resume", 0, SPEC_FLAG, TRAIN, 0, NULL, NULL, NULL, 0, 0, "Checkpoints",
                    "Continue from MODEL.checkpoint, to the very numbers of a run that was never interrupted (on this "
                    "machine, with as many threads). Data and settings must be the same; --device may change."},
    [OPT_SEED] = {"seed", 0, SPEC_INTEGER, FIT | MEASURE | TEST | AUDIT | TRAIN | DATA | DEMO | BENCH, 0, "N", NULL,
                  "0", 0, LARGE_INTEGER, "Machine",
                  "Seed of everything random: splits, draws, weights, batches, pivot candidates, random features, "
                  "generated data."},
    [OPT_DEVICE] =
        {"device", 0, SPEC_TEXT, TRAIN | PREDICT | EXPERIMENT | BENCH | SPEC_BIT(SPEC_EXPERIMENT_RUN), 0, "NAME", NULL,
         "cpu", 0, 0, "Machine",
         "Where networks are run: cpu; cuda, an NVIDIA GPU (cuda:1: the second); auto, a GPU where one can be "
         "used. Of bench, the training steps. docs/gpu.md has what a GPU needs."},
    [OPT_PRECISION] =
        {"precision", 0, SPEC_CHOICE, TRAIN | EXPERIMENT | BENCH, 0, "TYPE", "float32|tf32|bf16", "float32", 0, 0,
         "Machine",
         "Precision inside networks on a GPU. tf32 rounds the factors of products to 11 bits and is faster; bf16 also "
         "keeps images between layers in 16 bits. Weights, sums and checkpoints stay float32. The CPU has float32 "
         "alone. For `experiment`, overrides the "
         "file."},
    [OPT_THREADS] =
        {"threads", 0, SPEC_INTEGER, FIT | MEASURE | TEST | AUDIT | TRAIN | PREDICT | DATA | BENCH, 0, "N", NULL, NULL,
         1, 4096, "Machine",
         "Threads to use. Default: OMP_NUM_THREADS, or one per processor; under mpirun, a rank's share of the "
         "machine."},
    [OPT_DEMO_THREADS] = {"threads", 0, SPEC_INTEGER, DEMO, 0, "N", NULL, "1", 1, 4096, "Machine",
                          "Threads to use. For small networks one is almost as fast as two, and does not mind other "
                          "work on the machine."},
    [OPT_JOBS] =
        {"jobs", 'j', SPEC_INTEGER, EXPERIMENT, 0, "N", NULL, NULL, 1, 4096, "Machine",
         "Runs side by side; under mpirun, of each rank. Default: as many as the cores have room for; on a GPU, "
         "4 at most."},
    [OPT_RUN_THREADS] = {"threads", 0, SPEC_INTEGER, EXPERIMENT, 0, "N", NULL, "1", 1, 4096, "Machine",
                         "Threads of each run. One is best where there are more runs than cores."},
    [OPT_MEMORY] = {"memory", 0, SPEC_BYTES, FIT | MEASURE | TEST | AUDIT | TRAIN | BENCH, 0, "SIZE", NULL, NULL, 0, 0,
                    "Machine",
                    "Memory the work may use, as 512M or 4G; a job that needs more is refused before it starts. "
                    "Default: what the machine has free."},
    [OPT_OUTPUT_MODEL] =
        {"output", 'o', SPEC_PATH, FIT | TRAIN, FIT | TRAIN, "MODEL", NULL, NULL, 0, 0, "Output",
         "Where to write the model, a .safetensors file. An existing file is replaced whole or not at all."},
    [OPT_OUTPUT_DIR] = {"output", 'o', SPEC_PATH, DEMO, 0, "DIR", NULL, "circe-demo", 0, 0, "Output",
                        "Where to write tables, models and report."},
    [OPT_OUTPUT_DATA] = {"output", 'o', SPEC_PATH, DATA, DATA, "PATH", NULL, NULL, 0, 0, "Output",
                         "Where to write: a new or empty folder for faces, an .npz for dsprites, a .png for a contact "
                         "sheet."},
    [OPT_SHEET] = {"sheet", 0, SPEC_PATH, DATA, 0, "FILE.png", NULL, NULL, 0, 0, "Output",
                   "For faces and dsprites: also draw a contact sheet."},
    [OPT_FORCE] = {"force", 0, SPEC_FLAG, DATA, 0, NULL, NULL, NULL, 0, 0, "Output",
                   "Write into a folder that is not empty, whose pictures of the same names are replaced, or over a "
                   "file."},
    [OPT_OUTPUT_RESULTS] = {"output", 'o', SPEC_PATH, EXPERIMENT, 0, "DIR", NULL, NULL, 0, 0, "Output",
                            "Folder for the results, and of runs that are finished already. Default: results/NAME, "
                            "or results/NAME-quick."},
    [OPT_OUTPUT_RUN] = {"output", 'o', SPEC_PATH, SPEC_BIT(SPEC_EXPERIMENT_RUN), SPEC_BIT(SPEC_EXPERIMENT_RUN), "FILE",
                        NULL, NULL, 0, 0, "Output", "Where to write the result."},
    [OPT_OUTPUT_PREDICTIONS] =
        {"output", 'o', SPEC_PATH, PREDICT, 0, "OUT", NULL, "-", 0, 0, "Output",
         "Where to write the predictions: a .csv, or an .npy of numbers alone; - prints a .csv, or with --json puts "
         "them into the object."},
    [OPT_OUTPUT_FIGURES] = {"output", 'o', SPEC_PATH, TEST, 0, "DIR", NULL, NULL, 0, 0, "Output",
                            "With --calibrate: a folder for calibration.svg, with its script and data."},
    [OPT_OUTPUT_AUDIT] = {"output", 'o', SPEC_PATH, AUDIT, AUDIT, "DIR", NULL, NULL, 0, 0, "Output",
                          "Folder for report.html, its figures, results.json and results.csv. One that exists is used; "
                          "files of these names are replaced."},
    [OPT_REPORT] = {"report", 0, SPEC_PATH, TRAIN, 0, "DIR", NULL, NULL, 0, 0, "Output",
                    "Folder for report.html, figures, results.csv and results.json. Default: MODEL-report, without "
                    "MODEL's ending."},
    [OPT_NO_REPORT] = {"no-report", 0, SPEC_FLAG, TRAIN, 0, NULL, NULL, NULL, 0, 0, "Output", "Leave the report out."},
    [OPT_CONFIG] = {"config", 0, SPEC_PATH, TRAIN | PREDICT, 0, "FILE.yaml", NULL, NULL, 0, 0, "Output",
                    "Options from a file, as `gamma: 1000` or `features: [a, y, z]`; those of the command line win."},
    [OPT_JSON] = {"json", 0, SPEC_FLAG, FIT | MEASURE | TEST | AUDIT | TRAIN | PREDICT | EXPERIMENT | DATA | BENCH, 0,
                  NULL, NULL, NULL, 0, 0, "Output",
                  "Print one JSON object on standard output, numbers with 17 digits, and nothing else there."},
    [OPT_QUIET] = {"quiet", 'q', SPEC_FLAG, FIT | MEASURE | TEST | AUDIT | TRAIN | PREDICT | EXPERIMENT | DATA, 0, NULL,
                   NULL, NULL, 0, 0, "Output", "No progress bar, no warnings, no explanations."},
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
                       "circe measure hsic --x x.npy --z z.npy --estimator unbiased"},
                      {"A score to compare with a standard normal, by least squares",
                       "circe measure gcm --x x.npy --y y.npy --z z.npy --regression linear"},
                      {"HSCIC with the mean of z from a holdout",
                       "circe measure hscic --x x.npy --y y.npy --z z.npy --regress-z holdout --model "
                       "model.safetensors"},
                      {"For scripts", "circe measure circe --x x.npy --y y.npy --z z.npy --json | jq .value"}}},
    [SPEC_TEST] =
        {.name = "test",
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
        {.name = "audit",
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
             "predictor was not trained on.",
         .examples = {{"One prediction, two attributes",
                       "circe audit people.csv --prediction score --target income --sensitive age,sex -o report"},
                      {"A predictor before and after it was made invariant",
                       "circe audit people.csv --prediction before,after --target income --sensitive age -o report"},
                      {"Classes, with the positive one named",
                       "circe audit loans.csv --prediction p --target repaid --positive yes --sensitive age -o report"},
                      {"For a script",
                       "circe audit people.csv --prediction score --target income --sensitive age -o "
                       "report --json"}}},
    [SPEC_TRAIN] =
        {.name = "train",
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
        {.name = "predict",
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
        {.name = "experiment",
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
    [SPEC_EXPERIMENT_RUN] = {.name = "experiment-run",
                             .hidden = true,
                             .synopsis = "-o FILE < SETTINGS.json",
                             .summary = "one run of an experiment, as `circe experiment` starts it"},
    [SPEC_DATA] =
        {.name = "data",
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
    [SPEC_DEMO] = {.name = "demo",
                   .synopsis = "[options]",
                   .summary = "a guided first run: a predictor trained without and with CIRCE, and what that costs",
                   .explanation =
                       "Draws points from a causal model of the CIRCE paper (univariate case 1), trains a predictor "
                       "of b from a, y and z twice, without a regulariser and with CIRCE, and shows both against the "
                       "floor: the error below which no predictor can go that does not depend on z once y is known. "
                       "Tables, models and a report are left in a folder, with commands to try on them.",
                   .examples = {{"With the defaults, into circe-demo/", "circe demo"},
                                {"Another draw, elsewhere", "circe demo --seed 7 -o /tmp/demo"}}},
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
    "also gives the gradient with respect to x, so that a network can be trained until the dependence is gone. HSIC, "
    "HSCIC, GCM, KCI, NOCCO and KPC are there to compare with.";

const char spec_files[] =
    "Arrays come as .npy, .npz, .csv (with a header row) or .safetensors, one row per point. FILE:SELECTION picks an "
    "array of an .npz, a tensor of a .safetensors, or columns of a .csv: data.npz:labels, people.csv:age,income. "
    "A column without a number is categories; one that mixes numbers and text is refused. Models are .safetensors "
    "files.";

const char spec_exit_status[] =
    "0: done. 1: the work failed (memory, a full disk, interrupted). 2: the command line or the input is wrong.";

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
