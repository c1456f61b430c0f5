/* The points of a training set: columns as matrices over all rows, standardised by the training rows, and handed to the
 * three parts. Categories are codes for kernels that know them, and one column each elsewhere. */
#include <float.h>
#include <inttypes.h>
#include <stdlib.h>

#include "circe/status.h"
#include "cli/train/train_set.h"

static int refuse_library(circe_status status) { return message_read(status, NULL, circe_last_error()); }

/* A matrix over all rows of the table, on its way. */
typedef struct raw_columns {
    double *data;
    int64_t cols;
} raw_columns;

static int raw_make(const training_set *set, int64_t cols, raw_columns *raw) {
    raw->cols = cols;
    raw->data = malloc((size_t)(set->table.in.values.rows * cols + 1) * sizeof *raw->data);
    if (raw->data != NULL) return EXIT_DONE;
    return message_fail(EXIT_WORK, "out of memory for %" PRId64 " rows of %" PRId64 " columns",
                        set->table.in.values.rows, cols);
}

static int raw_features(const training_set *set, raw_columns *raw) {
    int status = raw_make(set, set->encode.n_inputs, raw);
    return status == EXIT_DONE
               ? message_refused(encoding_apply(&set->encode, &set->table, set->features.cols, raw->data))
               : status;
}

static int raw_target(const training_set *set, raw_columns *raw) {
    int status = raw_make(set, set->target.n, raw);
    for (int64_t i = 0; status == EXIT_DONE && i < set->table.in.values.rows; i++) {
        for (int64_t c = 0; c < set->target.n; c++)
            raw->data[i * raw->cols + c] = set->loss == TRAIN_CROSS_ENTROPY
                                               ? training_class_of(set, i)
                                               : column_value(&set->table, i, set->target.cols[c]);
    }
    return status;
}

/* The role's columns as they stand: numbers, and codes of categories. */
static int raw_role(const training_set *set, const training_role *role, raw_columns *raw) {
    int status = raw_make(set, role->n, raw);
    for (int64_t i = 0; status == EXIT_DONE && i < set->table.in.values.rows; i++) {
        for (int64_t c = 0; c < role->n; c++)
            raw->data[i * raw->cols + c] = column_value(&set->table, i, role->cols[c]);
    }
    return status;
}

/* With one column a category. */
static int raw_numbers(const training_set *set, const training_role *role, raw_columns *raw) {
    int64_t cols = 0, at = 0;
    for (int64_t c = 0; c < role->n; c++) {
        int64_t categories = column_n_categories(&set->table, role->cols[c]);
        cols += categories > 0 ? categories : 1;
    }
    int status = raw_make(set, cols, raw);
    for (int64_t c = 0; status == EXIT_DONE && c < role->n; c++) {
        int64_t categories = column_n_categories(&set->table, role->cols[c]);
        for (int64_t i = 0; i < set->table.in.values.rows; i++) {
            double value = column_value(&set->table, i, role->cols[c]);
            double *to = raw->data + i * cols + at;
            if (categories == 0) *to = value;
            for (int64_t k = 0; k < categories; k++) to[k] = (double)(k == (int64_t)value);
        }
        at += categories > 0 ? categories : 1;
    }
    return status;
}

static int take_part(const train_scaler *scaler, const circe_mat *from, const training_part *part, circe_dtype dtype,
                     circe_mat *to) {
    *to = (circe_mat){NULL, part->n, from->cols, from->cols, dtype};
    to->data = malloc((size_t)(part->n * from->cols + 1) * circe_dtype_size(dtype));
    if (to->data == NULL) return message_fail(EXIT_WORK, "out of memory for %" PRId64 " rows", part->n);
    circe_status status = part->n > 0 ? train_scaler_apply(scaler, from, part->rows, part->n, to) : CIRCE_OK;
    return status == CIRCE_OK ? EXIT_DONE : refuse_library(status);
}

/* Where in a part the columns go. */
typedef enum slot { SLOT_FEATURES, SLOT_TARGET, SLOT_Y, SLOT_Z, SLOT_Z_NUMBERS } slot;

static circe_mat *place_of(training_part *part, slot which) {
    circe_mat *const places[] = {&part->features, &part->data.target, &part->data.y, &part->data.z, &part->z_numbers};
    return places[which];
}

/* Statistics of the training rows; columns that are no quantities stay as they are. */
static int fit_scale(const training_set *set, const raw_columns *raw, const training_role *codes,
                     train_scaler *scaler) {
    circe_mat values = circe_mat_f64(raw->data, set->table.in.values.rows, raw->cols);
    circe_status status = train_scaler_fit(&values, set->split.training, set->split.n_training, scaler);
    if (status != CIRCE_OK) return refuse_library(status);
    for (int64_t c = 0; codes != NULL && c < codes->n; c++) {
        if (!training_is_category(set, codes->cols[c])) continue;
        scaler->mean[c] = 0.0;
        scaler->deviation[c] = 1.0;
    }
    return EXIT_DONE;
}

/* raw -> the slot of all three parts. */
static int distribute(training_set *set, raw_columns *raw, const training_role *codes, circe_dtype dtype, slot which,
                      train_scaler *keep) {
    train_scaler scaler = {0};
    training_part *parts[] = {&set->training, &set->validation, &set->holdout};
    int status = fit_scale(set, raw, codes, &scaler);
    circe_mat values = circe_mat_f64(raw->data, set->table.in.values.rows, raw->cols);
    for (int p = 0; p < 3 && status == EXIT_DONE; p++)
        status = take_part(&scaler, &values, parts[p], dtype, place_of(parts[p], which));
    if (status == EXIT_DONE && keep != NULL)
        *keep = scaler;
    else
        train_scaler_free(&scaler);
    return status;
}

/* What the network sees: columns, or images. */
static int fill_features(training_set *set) {
    training_part *parts[] = {&set->training, &set->validation};
    raw_columns raw = {0};
    int status = EXIT_DONE;
    if (set->has_images) {
        for (int p = 0; p < 2 && status == EXIT_DONE; p++)
            status =
                images_source(&set->images, parts[p]->rows, parts[p]->n, &parts[p]->shown, &parts[p]->data.features);
        return status;
    }
    status = raw_features(set, &raw);
    if (status == EXIT_DONE) status = distribute(set, &raw, NULL, CIRCE_FLOAT32, SLOT_FEATURES, &set->feature_scale);
    for (int p = 0; p < 2; p++) parts[p]->data.features = train_source_floats(&parts[p]->features);
    free(raw.data);
    return status;
}

/* What the regulariser and the measures see. */
static int fill_roles(training_set *set) {
    raw_columns y = {0}, z = {0}, z_numbers = {0};
    int status = raw_role(set, &set->given, &y);
    if (status == EXIT_DONE) status = distribute(set, &y, &set->given, CIRCE_FLOAT64, SLOT_Y, NULL);
    if (status == EXIT_DONE) status = raw_role(set, &set->invariant, &z);
    if (status == EXIT_DONE) status = distribute(set, &z, &set->invariant, CIRCE_FLOAT64, SLOT_Z, NULL);
    if (status == EXIT_DONE) status = raw_numbers(set, &set->invariant, &z_numbers);
    if (status == EXIT_DONE) status = distribute(set, &z_numbers, NULL, CIRCE_FLOAT64, SLOT_Z_NUMBERS, NULL);
    free(y.data);
    free(z.data);
    free(z_numbers.data);
    return status;
}

/* The error is reported in the target's own units, squared. */
static int check_units(const training_set *set) {
    for (int64_t c = 0; set->loss == TRAIN_MSE && c < set->target.n; c++) {
        double deviation = set->target_scale.deviation[c], square = deviation * deviation;
        if (isfinite(square) && square >= DBL_MIN) continue;
        return message_fail(EXIT_INPUT,
                            "--target: the standard deviation of column '%s' is %.3g, whose square no double can hold: "
                            "there would be no error to report; %s the column by %.0e",
                            training_column(set, &set->target, c), deviation, deviation > 1 ? "divide" : "multiply",
                            deviation > 1 ? deviation : 1 / deviation);
    }
    return EXIT_DONE;
}

static int fill_points(training_set *set) {
    set->training.rows = set->split.training, set->training.n = set->split.n_training;
    set->validation.rows = set->split.validation, set->validation.n = set->split.n_validation;
    set->holdout.rows = set->split.holdout, set->holdout.n = set->split.n_holdout;
    raw_columns target = {0};
    int status = fill_features(set);
    if (status == EXIT_DONE) status = raw_target(set, &target);
    if (status == EXIT_DONE)
        status = distribute(set, &target, &set->target, CIRCE_FLOAT32, SLOT_TARGET, &set->target_scale);
    free(target.data);
    if (status == EXIT_DONE) status = check_units(set);
    return status == EXIT_DONE && set->has_invariant ? fill_roles(set) : status;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* A gaussian over each run of numbers, delta over each run of categories; NULL: all are numbers. */
static char *kernel_of(const training_set *set, const training_role *role) {
    char *text = NULL;
    size_t bytes = 0;
    bool any = false;
    for (int64_t c = 0; c < role->n; c++) any = any || training_is_category(set, role->cols[c]);
    FILE *out = any ? open_memstream(&text, &bytes) : NULL;
    if (out == NULL) return NULL;
    for (int64_t first = 0, end; first < role->n; first = end) {
        bool category = training_is_category(set, role->cols[first]);
        for (end = first + 1; end < role->n && training_is_category(set, role->cols[end]) == category;) end++;
        fprintf(out, "%s%" PRId64 "-%" PRId64 ":%s", first > 0 ? "*" : "", first, end - 1,
                category ? "delta" : "gaussian");
    }
    fclose(out);
    return text;
}

/* ---- the whole ------------------------------------------------------------------------------------------------------
 */

int training_points_make(training_set *set) {
    int status = fill_points(set);
    if (status != EXIT_DONE || !set->has_invariant) return status;
    set->kernel_y = kernel_of(set, &set->given);
    set->kernel_z = kernel_of(set, &set->invariant);
    return EXIT_DONE;
}

static void free_part(training_part *part) {
    for (slot s = SLOT_FEATURES; s <= SLOT_Z_NUMBERS; s++) free(place_of(part, s)->data);
    free(part->shown);
}

void training_points_free(training_set *set) {
    free_part(&set->training);
    free_part(&set->validation);
    free_part(&set->holdout);
    free(set->kernel_y);
    free(set->kernel_z);
}
