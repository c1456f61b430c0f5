/* Roles of columns, and the rows that are used. */
#include "jobs/train_set.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/small.h"
#include "core/hash.h"
#include "core/sort.h"
#include "train/checkpoint_hash.h"

enum {
    USUAL_BATCH = 256,
    LEAST_BATCH = 16,
    LEAST_ROWS = 10, /* of validation and of the holdout: fewer tell nothing */
    MOST_CLASSES = 1000,
    MOST_NAMED = 4, /* columns in a sentence */
};

const char *training_column(const training_set *set, const training_role *role, int64_t i) {
    return column_name(&set->table, role->cols[i]);
}

char *training_role_text(arena *owner, const training_set *set, const training_role *role) {
    int64_t shown = role->n > MOST_NAMED ? MOST_NAMED - 1 : role->n;
    char *text = NULL;
    for (int64_t i = 0; i < shown; i++)
        text = i == 0 ? arena_text(owner, training_column(set, role, i))
                      : arena_format(owner, "%s, %s", text, training_column(set, role, i));
    return shown < role->n ? arena_format(owner, "%s and %" PRId64 " more", text, role->n - shown) : text;
}

/* ---- roles ------------------------------------------------------------------------------------------------------- */

static circe_status read_role(const char *option, const char *text, training_role *role) {
    role->option = option;
    return text != NULL ? name_list_split(option, text, &role->names) : CIRCE_OK;
}

static const char *shared_name(const training_role *a, const training_role *b) {
    for (int64_t i = 0; i < a->names.n; i++) {
        if (name_list_find(&b->names, a->names.names[i]) >= 0) return a->names.names[i];
    }
    return NULL;
}

static circe_status check_roles(const training_set *set) {
    const struct {
        const training_role *one, *other;
        const char *options, *because;
    } apart[] = {
        {&set->target, &set->invariant, "--target and in --invariant-to",
         "a prediction of a column cannot be independent of that column"},
        {&set->target, &set->features, "--target and in --features", "a target cannot be its own feature"},
        {&set->given, &set->invariant, "--given and in --invariant-to", "once it is known, nothing can depend on it"}};
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++) {
        const char *name = shared_name(apart[i].one, apart[i].other);
        if (name != NULL)
            return circe_fail(CIRCE_ERR_ARGUMENT, "'%s' is in %s: %s", name, apart[i].options, apart[i].because);
    }
    return CIRCE_OK;
}

/* A table with features, or images. */
static circe_status choose_input(const circe_table *table, const char *net, training_set *set) {
    const circe_train_options *o = set->options;
    bool has_table = table != NULL || o->data != NULL;
    set->has_images = o->images != NULL;
    if (!set->has_images && has_table && o->features != NULL) return CIRCE_OK;
    if (!set->has_images) {
        circe_fail(CIRCE_ERR_ARGUMENT, "%s is required",
                   has_table ? "--features LIST" : "--data FILE, or --images FILE,");
        return circe_fail_hint(CIRCE_ERR_ARGUMENT,
                               "usage: circe train --data FILE --features LIST --target COLUMN ... -o MODEL");
    }
    if (has_table)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "--data and --images are both given: a network learns from one of them (the table that goes "
                          "with an array of images is --labels)");
    if (o->features != NULL)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "--features are columns of a table; with --images, the images are all that the network "
                          "sees");
    return pictures_for_training(o, net, &set->request);
}

static circe_status read_roles(training_set *set) {
    const circe_train_options *o = set->options;
    circe_status status = read_role("features", o->features, &set->features);
    if (status == CIRCE_OK) status = read_role("target", o->target, &set->target);
    if (status == CIRCE_OK) status = read_role("invariant-to", o->invariant_to, &set->invariant);
    if (status == CIRCE_OK)
        status =
            o->given != NULL ? read_role("given", o->given, &set->given) : read_role("target", o->target, &set->given);
    if (status == CIRCE_OK) status = read_role("row-weights", o->row_weights, &set->weights);
    set->has_invariant = set->invariant.names.n > 0;
    return status == CIRCE_OK ? check_roles(set) : status;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static void want(name_list *wanted, const training_role *role) {
    for (int64_t i = 0; i < role->names.n; i++) name_list_add_once(wanted, role->names.names[i]);
}

static void locate(const column_table *table, const name_list *wanted, training_role *role) {
    role->count = small_alloc((size_t)role->names.n * sizeof *role->count);
    role->cols = small_alloc((size_t)(table->in.values.cols + 1) * sizeof *role->cols);
    for (int64_t i = 0; i < role->names.n; i++) {
        int64_t at = name_list_find(wanted, role->names.names[i]);
        for (int64_t c = 0; c < table->count[at]; c++) role->cols[role->n++] = table->first[at] + c;
        role->count[i] = table->count[at];
    }
}

static bool same_columns(const training_role *a, const training_role *b) {
    return a->n == b->n && memcmp(a->cols, b->cols, (size_t)a->n * sizeof *a->cols) == 0;
}

static circe_status refuse_constant(const training_set *set, const training_role *role, int64_t col,
                                    const char *consequence) {
    char *const *texts = column_categories(&set->table, col);
    double value = column_value(&set->table, 0, col);
    char number[32];
    snprintf(number, sizeof number, "%.6g", value);
    return circe_fail(CIRCE_ERR_ARGUMENT, "--%s: column '%s' of %s is constant, %s in all %" PRId64 " rows: %s",
                      role->option, column_name(&set->table, col), input_source(&set->table.in),
                      texts != NULL ? texts[(int64_t)value] : number, set->table.in.values.rows, consequence);
}

static circe_status check_constants(const training_set *set) {
    const struct {
        const training_role *role;
        const char *consequence;
    } roles[] = {{&set->features, "it carries no information; leave it out"},
                 {&set->target, "there is nothing to learn"},
                 {&set->invariant, "nothing can depend on it; leave it out"},
                 {&set->given, "it conditions on nothing; leave it out"}};
    for (size_t r = 0; r < sizeof roles / sizeof *roles; r++) {
        const training_role *role = roles[r].role;
        for (int64_t i = 0; i < role->n; i++)
            if (column_is_constant(&set->table, role->cols[i]))
                return refuse_constant(set, role, role->cols[i], roles[r].consequence);
    }
    return CIRCE_OK;
}

/* One column of numbers, none of them negative. */
static circe_status check_weights(const training_set *set) {
    const column_table *table = &set->table;
    if (set->weights.n == 0) return CIRCE_OK;
    int64_t col = set->weights.cols[0];
    if (set->weights.n > 1)
        return circe_fail(CIRCE_ERR_ARGUMENT, "--row-weights names %" PRId64 " columns; it must name one",
                          set->weights.n);
    if (column_categories(table, col) != NULL)
        return circe_fail(CIRCE_ERR_VALUE,
                          "--row-weights: column '%s' contains text; weights must be numbers, at least 0",
                          column_name(table, col));
    for (int64_t i = 0; i < table->in.values.rows; i++) {
        double weight = column_value(table, i, col);
        if (!(weight >= 0.0 && isfinite((float)weight)))
            return circe_fail(CIRCE_ERR_VALUE,
                              "--row-weights: column '%s' contains %g in row %" PRId64
                              "; weights must be at least 0 and at most %.2g",
                              column_name(table, col), weight, io_table_row(&table->in.table, i), (double)FLT_MAX);
    }
    return CIRCE_OK;
}

/* Finds the roles' columns in the table and checks them. */
static circe_status use_table(training_set *set, const name_list *wanted) {
    const reading_options cells = READING_OF(set->options);
    training_role *roles[] = {&set->features, &set->target, &set->given, &set->invariant, &set->weights};
    input *group[] = {&set->table.in};
    for (size_t r = 0; r < sizeof roles / sizeof *roles; r++) locate(&set->table, wanted, roles[r]);
    set->given_is_target = same_columns(&set->given, &set->target);
    circe_status status = inputs_check(&cells, group, 1, 2, &set->dropped);
    if (status == CIRCE_OK) status = check_constants(set);
    if (status == CIRCE_OK) status = check_weights(set);
    if (status == CIRCE_OK && !set->has_images) {
        encoding_make(&set->table, &set->features.names, set->features.count, set->features.cols, &set->encode);
        encoding_inputs(&set->encode, &set->table, set->features.cols, &set->inputs);
    }
    return status;
}

/* The column of paths is easily called otherwise. */
static circe_status hint_path_column(const training_set *set, circe_status status) {
    OWNED_BY(name_list_free) name_list column = {0};
    column_table table = {0};
    reading how = {.how = {.all = true}};
    name_list_add(&column, set->request.column);
    if (set->options->path_column == NULL && access(set->request.path, R_OK) == 0 &&
        column_table_read(NULL, set->request.path, &column, &how, false, &table) != CIRCE_OK)
        circe_fail_hint(status, "--path-column names the column with the paths of the images");
    column_table_free(&table);
    return status;
}

static circe_status read_table(const circe_table *table, training_set *set) {
    const reading_options options = READING_OF(set->options);
    OWNED_BY(name_list_free) name_list wanted = {0};
    OWNED_BY(reading_free) reading how = {0};
    input *group[] = {&set->table.in};
    bool by_path = set->has_images && set->request.by_path;
    want(&wanted, &set->features);
    want(&wanted, &set->target);
    want(&wanted, &set->given);
    want(&wanted, &set->invariant);
    want(&wanted, &set->weights);
    if (by_path) name_list_add_once(&wanted, set->request.column);
    circe_status status = reading_open(&options, &how);
    const char *path = set->has_images ? set->request.labels : set->options->data;
    if (status == CIRCE_OK) status = column_table_read(table, path, &wanted, &how, false, &set->table);
    if (status == CIRCE_OK) status = inputs_check_categories(&options, group, 1);
    if (status != CIRCE_OK && by_path) status = hint_path_column(set, status);
    if (status == CIRCE_OK && by_path) set->path_col = set->table.first[name_list_find(&wanted, set->request.column)];
    return status == CIRCE_OK ? use_table(set, &wanted) : status;
}

/* Of names, categories and values. */
static uint64_t hash_table(const column_table *table) {
    const circe_mat *m = &table->in.values;
    uint64_t hash = CIRCE__HASH_START;
    for (int64_t c = 0; c < m->cols; c++) {
        hash = circe__hash(hash, column_name(table, c), strlen(column_name(table, c)) + 1);
        for (char *const *text = column_categories(table, c); text != NULL && *text != NULL; text++)
            hash = circe__hash(hash, *text, strlen(*text) + 1);
    }
    return circe__hash(hash, m->data, (size_t)(m->rows * m->cols) * circe_dtype_size(m->dtype));
}

/* ---- the target -------------------------------------------------------------------------------------------------- */

/* "regression" or "classification"; NULL: nobody said. */
static circe_status asked_task(const circe_train_options *o, const char **task) {
    const char *of_loss = o->loss == NULL ? NULL : strcmp(o->loss, "mse") == 0 ? "regression" : "classification";
    *task = o->task != NULL ? o->task : of_loss;
    if (o->task == NULL || of_loss == NULL || strcmp(o->task, of_loss) == 0) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_ARGUMENT, "--task %s and --loss %s contradict each other: leave one of them out",
                      o->task, o->loss);
}

static bool is_zero_or_one(const training_set *set, int64_t col) {
    for (int64_t i = 0; i < set->table.in.values.rows; i++) {
        double value = column_value(&set->table, i, col);
        if (value != 0.0 && value != 1.0) return false;
    }
    return true;
}

static circe_status choose_loss(training_set *set) {
    const char *task = NULL, *text = NULL; /* a column of text */
    circe_status status = asked_task(set->options, &task);
    if (status != CIRCE_OK) return status;
    for (int64_t i = 0; i < set->target.n; i++) {
        if (column_categories(&set->table, set->target.cols[i]) != NULL) text = training_column(set, &set->target, i);
    }
    if (text != NULL && task != NULL && strcmp(task, "regression") == 0)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "--target: column '%s' contains text, whose words are classes: use --task classification",
                          text);
    set->taken_for_classes =
        task == NULL && set->target.n == 1 && text == NULL && is_zero_or_one(set, set->target.cols[0]);
    bool classes = text != NULL || set->taken_for_classes || (task != NULL && strcmp(task, "classification") == 0);
    set->loss = classes ? TRAIN_CROSS_ENTROPY : TRAIN_MSE;
    if (set->loss == TRAIN_CROSS_ENTROPY && set->target.n > 1)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "--target: classes are predicted one column at a time, and %" PRId64 " are given",
                          set->target.n);
    return CIRCE_OK;
}

static int compare_texts(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Distinct values of the target, ascending, and their number. */
static int64_t distinct_values(const training_set *set, double *values) {
    int64_t n = set->table.in.values.rows, kept = 0;
    for (int64_t i = 0; i < n; i++) values[i] = column_value(&set->table, i, set->target.cols[0]);
    circe__sort(values, n);
    for (int64_t i = 0; i < n; i++) {
        if (kept == 0 || values[i] != values[kept - 1]) values[kept++] = values[i];
    }
    return kept;
}

static circe_status name_classes(training_set *set, const double *values, int64_t n) {
    const char *name = training_column(set, &set->target, 0);
    char *const *texts = column_categories(&set->table, set->target.cols[0]);
    if (n > MOST_CLASSES)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "--target: column '%s' contains %" PRId64 " different %s: too many for classes", name, n,
                          texts != NULL ? "texts" : "numbers");
    for (int64_t i = 0; i < n; i++) {
        char number[32];
        if (texts == NULL && values[i] != floor(values[i]))
            return circe_fail(CIRCE_ERR_ARGUMENT,
                              "--target: column '%s' contains %g; with --task classification the numbers are classes, "
                              "so they must be "
                              "whole",
                              name, values[i]);
        snprintf(number, sizeof number, "%.15g", values[i]);
        name_list_add(&set->classes, texts != NULL ? texts[(int64_t)values[i]] : number);
    }
    if (texts != NULL) qsort(set->classes.names, (size_t)n, sizeof *set->classes.names, compare_texts);
    return CIRCE_OK;
}

static circe_status find_classes(training_set *set) {
    circe_status status = choose_loss(set);
    if (status != CIRCE_OK || set->loss == TRAIN_MSE) return status;
    OWNED double *values = malloc((size_t)set->table.in.values.rows * sizeof *values);
    if (values == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for the classes");
    int64_t n = distinct_values(set, values);
    status = name_classes(set, values, n);
    return status;
}

/* Of a cell of the target. */
double training_class_of(const training_set *set, int64_t row) {
    char *const *texts = column_categories(&set->table, set->target.cols[0]);
    double value = column_value(&set->table, row, set->target.cols[0]);
    char number[32];
    snprintf(number, sizeof number, "%.15g", value);
    return (double)name_list_find(&set->classes, texts != NULL ? texts[(int64_t)value] : number);
}

/* Text, or a number that stands for a class. */
bool training_is_category(const training_set *set, int64_t col) {
    if (column_categories(&set->table, col) != NULL) return true;
    return set->loss == TRAIN_CROSS_ENTROPY && col == set->target.cols[0];
}

/* ---- the split --------------------------------------------------------------------------------------------------- */

/* A table with fewer training rows than the usual batch has four batches an epoch. A measure of very few rows is noise.
 */
static int64_t usual_batch(int64_t n) {
    int64_t quarter = n / 4 > LEAST_BATCH ? n / 4 : LEAST_BATCH;
    if (n >= USUAL_BATCH) return USUAL_BATCH;
    return n >= quarter ? quarter : n > 1 ? n : 1;
}

static circe_status choose_batch(training_set *set) {
    int64_t n = set->split.n_training, batch = set->options->batch;
    set->batch = batch = batch != CIRCE_UNSET ? batch : usual_batch(n);
    if (n >= batch) return CIRCE_OK;
    circe_fail(CIRCE_ERR_ARGUMENT,
               "%s: %" PRId64 " rows are left for training (of %" PRId64 ", after %" PRId64 " for validation, %" PRId64
               " for the test and %" PRId64 " for the holdout), fewer than a batch of %" PRId64,
               input_source(&set->table.in), n, set->table.in.values.rows, set->split.n_validation, set->split.n_test,
               set->shares_rows ? 0 : set->split.n_holdout, batch);
    return circe_fail_hint(CIRCE_ERR_ARGUMENT, "give a smaller batch, --batch %" PRId64 ", or more rows",
                           usual_batch(n));
}

/* Without a holdout the conditional mean is learned from training rows. */
static circe_status share_training_rows(training_set *set) {
    train_split *split = &set->split;
    int64_t most = training_most_shared(set), n = split->n_training < most ? split->n_training : most;
    int64_t *rows = malloc((size_t)(n + 1) * sizeof *rows);
    if (rows == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for %" PRId64 " rows", n);
    memcpy(rows, split->training, (size_t)n * sizeof *rows);
    free(split->holdout);
    split->holdout = rows;
    split->n_holdout = n;
    set->shares_rows = true;
    return CIRCE_OK;
}

static circe_status split_rows(training_set *set, bool needs_holdout) {
    double validation = set->options->validation, holdout = set->has_invariant ? set->options->holdout : 0.0;
    int64_t n = set->table.in.values.rows;
    double test = set->options->test;
    circe_status status = train_split_make(n, validation, holdout, test, (uint64_t)set->options->seed, &set->split);
    if (status != CIRCE_OK) return status;
    if (holdout == 0.0 && set->has_invariant) status = share_training_rows(set);
    if (status != CIRCE_OK) return status;
    if (set->split.n_validation < LEAST_ROWS)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "--validation %g of %" PRId64 " rows are %" PRId64
                          ": too few to report an error; at least %d are needed",
                          validation, n, set->split.n_validation, LEAST_ROWS);
    if (test > 0.0 && set->split.n_test < LEAST_ROWS)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "--test %g of %" PRId64 " rows are %" PRId64
                          ": too few to report an error; at least %d are needed, or --test 0",
                          test, n, set->split.n_test, LEAST_ROWS);
    if (needs_holdout && set->split.n_holdout < LEAST_ROWS) {
        circe_fail(CIRCE_ERR_ARGUMENT,
                   "--holdout %g of %" PRId64 " rows are %" PRId64
                   ": none or too few are left to learn the mean of --invariant-to given --given; at least %d are "
                   "needed",
                   holdout, n, set->split.n_holdout, LEAST_ROWS);
        return circe_fail_hint(CIRCE_ERR_ARGUMENT, "--holdout 0 learns it from the training rows");
    }
    return choose_batch(set);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

circe_status training_set_read(const circe_table *table, const circe_train_options *options, const char *net,
                               bool needs_holdout, training_set *set) {
    *set = (training_set){.options = options};
    circe_status status = choose_input(table, net, set);
    if (status == CIRCE_OK) status = read_roles(set);
    if (status == CIRCE_OK) status = read_table(table, set);
    if (status == CIRCE_OK) status = find_classes(set);
    if (status == CIRCE_OK) status = split_rows(set, needs_holdout);
    if (status == CIRCE_OK) set->hash = hash_table(&set->table);
    return status;
}

static circe_status read_images(circe_context *context, const circe_watch *watch, training_set *set) {
    int64_t n = set->table.in.values.rows;
    const int64_t *row_of = set->table.in.table.row_of;
    circe_status status = set->request.by_path ? pictures_read_paths(context, watch, &set->request, &set->table,
                                                                     set->path_col, NULL, row_of, n, &set->images)
                                               : pictures_read_array(context, watch, &set->request, n + set->dropped,
                                                                     row_of, n, &set->images);
    if (status != CIRCE_OK) return status;
    const train_source source = image_stack_source(&set->images.stack);
    size_t bytes = (size_t)(source.n_stored * source.stride) * (source.element == TRAIN_FLOATS ? sizeof(float) : 1);
    set->hash = circe__hash_bytes(set->hash, source.values, bytes);
    return CIRCE_OK;
}

circe_status training_set_fill(circe_context *context, const circe_watch *watch, training_set *set) {
    circe_status status = set->has_images ? read_images(context, watch, set) : CIRCE_OK;
    return status == CIRCE_OK ? training_points_make(set) : status;
}

static void free_role(training_role *role) {
    name_list_free(&role->names);
    free(role->count);
    free(role->cols);
}

void training_set_free(training_set *set) {
    training_points_free(set);
    free_role(&set->features);
    free_role(&set->target);
    free_role(&set->given);
    free_role(&set->invariant);
    free_role(&set->weights);
    encoding_free(&set->encode);
    name_list_free(&set->inputs);
    name_list_free(&set->classes);
    train_scaler_free(&set->feature_scale);
    train_scaler_free(&set->target_scale);
    train_split_free(&set->split);
    pictures_free(&set->images);
    pictures_request_free(&set->request);
    column_table_free(&set->table);
    *set = (training_set){0};
}
