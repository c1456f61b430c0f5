/* The points of a training set: columns as matrices over all rows, standardised by the training rows and then divided
 * among the parts. Kernels of categories get codes; everything else gets one column per category. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/small.h"
#include "jobs/kernel_choice.h"
#include "jobs/train_set.h"

/* Where in a part the columns go. */
typedef enum slot { SLOT_FEATURES, SLOT_TARGET, SLOT_Y, SLOT_Z, SLOT_Z_NUMBERS, SLOT_WEIGHT, N_SLOTS } slot;

static circe_mat *place_of(training_part *part, slot which) {
    circe_mat *const places[] = {&part->features, &part->data.target, &part->data.y,
                                 &part->data.z,   &part->z_numbers,   &part->weight};
    return places[which];
}

/* ---- one slot ---------------------------------------------------------------------------------------------------- */

/* values := the role's columns over all rows: with one column per category, or (`encode` NULL) as they are, numbers and
 * codes of categories or classes. */
static circe_status take_columns(const training_set *set, const training_role *role, const encoding *encode,
                                 circe_mat *values) {
    int64_t rows = set->table.in.values.rows, cols = encode != NULL ? encode->n_inputs : role->n;
    double *data = malloc((size_t)(rows * cols + 1) * sizeof *data);
    bool classes = set->loss == TRAIN_CROSS_ENTROPY && role == &set->target;
    *values = (circe_mat){data, rows, cols, cols, CIRCE_FLOAT64};
    if (data == NULL)
        return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %" PRId64 " rows of %" PRId64 " columns", rows, cols);
    if (encode != NULL) return encoding_apply(encode, &set->table, role->cols, data);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t c = 0; c < cols; c++)
            data[i * cols + c] = classes ? training_class_of(set, i) : column_value(&set->table, i, role->cols[c]);
    }
    return CIRCE_OK;
}

/* Standardised by the training rows. Codes of categories stay as they are. */
static circe_status fit_scale(const training_set *set, const training_role *role, bool coded, const circe_mat *values,
                              train_scaler *scaler) {
    circe_status status = train_scaler_fit(values, set->split.training, set->split.n_training, scaler);
    for (int64_t c = 0; status == CIRCE_OK && coded && c < role->n; c++) {
        if (!training_is_category(set, role->cols[c])) continue;
        scaler->mean[c] = 0.0;
        scaler->deviation[c] = 1.0;
    }
    return status;
}

/* Their mean becomes 1, so that learning rate and gamma mean the same as without weights. */
static circe_status scale_weights(train_scaler *scaler) {
    if (scaler->mean[0] <= 0.0)
        return circe_fail(CIRCE_ERR_VALUE, "--row-weights: the weights of all training rows are 0");
    scaler->deviation[0] = scaler->mean[0];
    scaler->mean[0] = 0.0;
    return CIRCE_OK;
}

static circe_status fill_part(const train_scaler *scaler, const circe_mat *from, const training_part *part,
                              circe_dtype dtype, circe_mat *to) {
    *to = (circe_mat){NULL, part->n, from->cols, from->cols, dtype};
    to->data = malloc((size_t)(part->n * from->cols + 1) * circe_dtype_size(dtype));
    if (to->data == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %" PRId64 " rows", part->n);
    return part->n > 0 ? train_scaler_apply(scaler, from, part->rows, part->n, to) : CIRCE_OK;
}

/* The role's columns into a slot of all parts; `scale`: where to keep what they were standardised by. */
static circe_status fill_slot(training_set *set, const training_role *role, const encoding *encode, slot which,
                              train_scaler *scale) {
    training_part *parts[] = {&set->training, &set->validation, &set->holdout, &set->test};
    bool floats = which == SLOT_FEATURES || which == SLOT_TARGET || which == SLOT_WEIGHT;
    circe_dtype dtype = floats ? CIRCE_FLOAT32 : CIRCE_FLOAT64;
    train_scaler own = {0};
    circe_mat values = {0};
    circe_status status = take_columns(set, role, encode, &values);
    bool coded = encode == NULL && which != SLOT_WEIGHT; /* a weight is a number, even where the target is the weight */
    if (status == CIRCE_OK) status = fit_scale(set, role, coded, &values, &own);
    if (status == CIRCE_OK && which == SLOT_WEIGHT) status = scale_weights(&own);
    for (int p = 0; p < 4 && status == CIRCE_OK; p++)
        status = fill_part(&own, &values, parts[p], dtype, place_of(parts[p], which));
    free(values.data);
    if (scale != NULL)
        *scale = own;
    else
        train_scaler_free(&own);
    return status;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

/* What the network sees: columns, or images. */
static circe_status fill_features(training_set *set) {
    training_part *parts[] = {&set->training, &set->validation, &set->test};
    circe_status status =
        set->has_images ? CIRCE_OK : fill_slot(set, &set->features, &set->encode, SLOT_FEATURES, &set->feature_scale);
    for (int p = 0; p < 3 && status == CIRCE_OK; p++) {
        train_source *source = &parts[p]->data.features;
        if (set->has_images)
            status = pictures_source(&set->images, parts[p]->rows, parts[p]->n, &parts[p]->shown, source);
        else
            *source = train_source_floats(&parts[p]->features);
    }
    return status;
}

static circe_status fill_weights(training_set *set) {
    training_part *parts[] = {&set->training, &set->validation, &set->holdout, &set->test};
    circe_status status = fill_slot(set, &set->weights, NULL, SLOT_WEIGHT, NULL);
    for (int p = 0; p < 4; p++) parts[p]->data.weight = parts[p]->weight.data;
    return status;
}

/* The error is reported in the target's own units, squared. */
static circe_status check_units(const training_set *set) {
    for (int64_t c = 0; set->loss == TRAIN_MSE && c < set->target.n; c++) {
        double deviation = set->target_scale.deviation[c], square = deviation * deviation;
        if (isfinite(square) && square >= DBL_MIN) continue;
        return circe_fail(CIRCE_ERR_VALUE,
                          "--target: the standard deviation of column '%s' is %.3g, whose square does not fit into a "
                          "double, so no error could be reported; %s the column by %.0e",
                          training_column(set, &set->target, c), deviation, deviation > 1 ? "divide" : "multiply",
                          deviation > 1 ? deviation : 1 / deviation);
    }
    return CIRCE_OK;
}

/* Every column of a role by itself, so that each of an array may be categories. */
static void encode_columns(const training_set *set, const training_role *role, encoding *encode) {
    OWNED_BY(name_list_free) name_list names = {0};
    OWNED int64_t *one = small_alloc((size_t)role->n * sizeof *one);
    for (int64_t c = 0; c < role->n; c++) {
        name_list_add(&names, training_column(set, role, c));
        one[c] = 1;
    }
    encoding_make(&set->table, &names, one, role->cols, encode);
}

/* What the regulariser and the measures see. */
static circe_status fill_roles(training_set *set) {
    encoding encode;
    encode_columns(set, &set->invariant, &encode);
    circe_status status = fill_slot(set, &set->given, NULL, SLOT_Y, NULL);
    if (status == CIRCE_OK) status = fill_slot(set, &set->invariant, NULL, SLOT_Z, NULL);
    if (status == CIRCE_OK) status = fill_slot(set, &set->invariant, &encode, SLOT_Z_NUMBERS, NULL);
    encoding_free(&encode);
    return status;
}

/* A gaussian over each run of numbers, delta over each run of categories; NULL: all are numbers. */
static char *kernel_of(const training_set *set, const training_role *role) {
    OWNED bool *categories = small_alloc((size_t)role->n * sizeof *categories);
    bool any = false;
    for (int64_t c = 0; c < role->n; c++) {
        categories[c] = training_is_category(set, role->cols[c]);
        any = any || categories[c];
    }
    return any ? kernel_of_columns(categories, role->n, true) : NULL;
}

circe_status training_points_make(training_set *set) {
    set->training.rows = set->split.training, set->training.n = set->split.n_training;
    set->validation.rows = set->split.validation, set->validation.n = set->split.n_validation;
    set->holdout.rows = set->split.holdout, set->holdout.n = set->split.n_holdout;
    set->test.rows = set->split.test, set->test.n = set->split.n_test;
    circe_status status = fill_features(set);
    if (status == CIRCE_OK) status = fill_slot(set, &set->target, NULL, SLOT_TARGET, &set->target_scale);
    if (status == CIRCE_OK) status = check_units(set);
    if (status == CIRCE_OK && set->weights.n > 0) status = fill_weights(set);
    if (status != CIRCE_OK || !set->has_invariant) return status;
    set->kernel_y = kernel_of(set, &set->given);
    set->kernel_z = kernel_of(set, &set->invariant);
    return fill_roles(set);
}

/* ---- other parts of them ----------------------------------------------------------------------------------------- */

/* Row `at` of training and validation rows in one list. */
static const training_part *part_of(const training_set *set, int64_t at, int64_t *row) {
    bool training = at < set->training.n;
    *row = training ? at : at - set->training.n;
    return training ? &set->training : &set->validation;
}

static circe_status gather_slot(const training_set *set, const int64_t *at, slot which, training_part *out) {
    const circe_mat *like = place_of((training_part *)(uintptr_t)&set->training, which);
    size_t bytes = (size_t)like->cols * circe_dtype_size(like->dtype);
    circe_mat *to = place_of(out, which);
    *to = (circe_mat){malloc((size_t)out->n * bytes + 1), out->n, like->cols, like->cols, like->dtype};
    if (to->data == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %" PRId64 " rows", out->n);
    for (int64_t i = 0; i < out->n && bytes > 0; i++) { /* without --row-weights there are none to copy */
        int64_t row;
        training_part *from = (training_part *)(uintptr_t)part_of(set, at[i], &row);
        memcpy((char *)to->data + (size_t)i * bytes, (char *)place_of(from, which)->data + (size_t)row * bytes, bytes);
    }
    return CIRCE_OK;
}

static circe_status gather_images(const training_set *set, const int64_t *at, training_part *out) {
    int64_t *rows = malloc((size_t)(out->n + 1) * sizeof *rows), row;
    if (rows == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %" PRId64 " rows", out->n);
    for (int64_t i = 0; i < out->n; i++) {
        const training_part *from = part_of(set, at[i], &row);
        rows[i] = from->rows[row];
    }
    circe_status status = pictures_source(&set->images, rows, out->n, &out->shown, &out->data.features);
    free(rows);
    return status;
}

circe_status training_part_gather(const training_set *set, const int64_t *at, int64_t n, training_part *out) {
    *out = (training_part){.n = n};
    circe_status status = set->has_images ? gather_images(set, at, out) : gather_slot(set, at, SLOT_FEATURES, out);
    for (slot s = SLOT_TARGET; s < N_SLOTS && status == CIRCE_OK; s++) status = gather_slot(set, at, s, out);
    if (status == CIRCE_OK && !set->has_images) out->data.features = train_source_floats(&out->features);
    if (set->weights.n > 0) out->data.weight = out->weight.data;
    return status;
}

void training_part_free(training_part *part) {
    for (slot s = 0; s < N_SLOTS; s++) free(place_of(part, s)->data);
    free(part->shown);
    *part = (training_part){0};
}

void training_points_free(training_set *set) {
    training_part *parts[] = {&set->training, &set->validation, &set->holdout, &set->test};
    for (int p = 0; p < 4; p++) training_part_free(parts[p]);
    free(set->kernel_y);
    free(set->kernel_z);
}
