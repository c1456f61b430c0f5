/* Roles of columns, and the points that come of them. */
#include "cli/train/train_set.h"
#include "cli/common/from_args.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "circe/status.h"
#include "train/checkpoint_hash.h"

enum {
    LEAST_ROWS = 10, /* of validation and of the holdout: fewer tell nothing */
    MOST_CLASSES = 1000,
    MOST_NAMED = 4, /* columns in a sentence */
};

const char *training_column(const training_set *set, const training_role *role, int64_t i) {
    return column_name(&set->table, role->cols[i]);
}

char *training_role_text(const training_set *set, const training_role *role) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) return small_format("%s", "");
    int64_t shown = role->n > MOST_NAMED ? MOST_NAMED - 1 : role->n;
    for (int64_t i = 0; i < shown; i++) fprintf(out, "%s%s", i > 0 ? ", " : "", training_column(set, role, i));
    if (shown < role->n) fprintf(out, " and %" PRId64 " more", role->n - shown);
    fclose(out);
    return text;
}

const char *training_data(const training_set *set) {
    return set->has_images ? set->request.labels : args_text(set->arguments, OPT_TABLE);
}

static int refuse_library(circe_status status) { return message_read(status, NULL, circe_last_error()); }

/* ---- roles ------------------------------------------------------------------------------------------------------- */

static int read_role(training_set *set, spec_option_id option, training_role *role) {
    const char *text = args_text(set->arguments, option);
    role->option = option;
    return text != NULL ? message_refused(name_list_split(spec_options[option].name, text, &role->names)) : EXIT_DONE;
}

static const char *shared_name(const training_role *a, const training_role *b) {
    for (int64_t i = 0; i < a->names.n; i++) {
        if (name_list_find(&b->names, a->names.names[i]) >= 0) return a->names.names[i];
    }
    return NULL;
}

static int check_roles(const training_set *set) {
    const char *name = shared_name(&set->target, &set->invariant);
    if (name != NULL)
        return message_fail(EXIT_INPUT,
                            "'%s' is in --target and in --invariant-to: a prediction of it that tells nothing about it "
                            "is no prediction",
                            name);
    name = shared_name(&set->target, &set->features);
    if (name != NULL)
        return message_fail(EXIT_INPUT, "'%s' is in --target and in --features: a target cannot be its own feature",
                            name);
    name = shared_name(&set->given, &set->invariant);
    if (name != NULL)
        return message_fail(EXIT_INPUT, "'%s' is in --given and in --invariant-to: once it is known, nothing is left",
                            name);
    return EXIT_DONE;
}

static int require(const training_set *set, const char *option) {
    message_note("%s is required", option);
    message_hint("usage: circe train %s", set->arguments->command->synopsis);
    return EXIT_INPUT;
}

/* A table with features, or images. */
static int choose_input(training_set *set, const char *net) {
    const args *a = set->arguments;
    set->has_images = args_given(a, OPT_IMAGES);
    if (!set->has_images && !args_given(a, OPT_TABLE)) return require(set, "--data FILE, or --images FILE,");
    if (!set->has_images) return args_given(a, OPT_FEATURES) ? EXIT_DONE : require(set, "--features LIST");
    if (args_given(a, OPT_TABLE))
        return message_fail(EXIT_INPUT,
                            "--data and --images are both given: a network learns from one of them (the table that "
                            "goes with an array of images is --labels)");
    if (args_given(a, OPT_FEATURES))
        return message_fail(EXIT_INPUT,
                            "--features are columns of a table; with --images, the images are all that the network "
                            "sees");
    return images_request_train(a, net, &set->request);
}

static int read_roles(training_set *set) {
    int status = read_role(set, OPT_FEATURES, &set->features);
    if (status == EXIT_DONE) status = read_role(set, OPT_TARGET, &set->target);
    if (status == EXIT_DONE) status = read_role(set, OPT_INVARIANT_TO, &set->invariant);
    if (status == EXIT_DONE)
        status = read_role(set, args_given(set->arguments, OPT_GIVEN) ? OPT_GIVEN : OPT_TARGET, &set->given);
    if (status != EXIT_DONE) return status;
    set->has_invariant = set->invariant.names.n > 0;
    return check_roles(set);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static void want(name_list *wanted, const training_role *role) {
    for (int64_t i = 0; i < role->names.n; i++) {
        if (name_list_find(wanted, role->names.names[i]) < 0) name_list_add(wanted, role->names.names[i]);
    }
}

/* The columns of a role, and of each of its names how many (where `count` is not NULL). */
static void locate(const column_table *table, const name_list *wanted, training_role *role, int64_t *count) {
    role->cols = small_alloc((size_t)(table->in.values.cols + 1) * sizeof *role->cols);
    for (int64_t i = 0; i < role->names.n; i++) {
        int64_t at = name_list_find(wanted, role->names.names[i]);
        for (int64_t c = 0; c < table->count[at]; c++) role->cols[role->n++] = table->first[at] + c;
        if (count != NULL) count[i] = table->count[at];
    }
}

static bool same_columns(const training_role *a, const training_role *b) {
    return a->n == b->n && memcmp(a->cols, b->cols, (size_t)a->n * sizeof *a->cols) == 0;
}

static int refuse_constant(const training_set *set, const training_role *role, int64_t col, const char *consequence) {
    char *const *texts = column_categories(&set->table, col);
    double value = column_value(&set->table, 0, col);
    char number[32];
    snprintf(number, sizeof number, "%.6g", value);
    return message_fail(EXIT_INPUT, "--%s: column '%s' of %s is constant, %s in all %" PRId64 " rows: %s",
                        spec_options[role->option].name, column_name(&set->table, col), input_source(&set->table.in),
                        texts != NULL ? texts[(int64_t)value] : number, set->table.in.values.rows, consequence);
}

static int check_constant(const training_set *set, const training_role *role, const char *consequence) {
    for (int64_t i = 0; i < role->n; i++) {
        if (column_is_constant(&set->table, role->cols[i]))
            return refuse_constant(set, role, role->cols[i], consequence);
    }
    return EXIT_DONE;
}

static int check_constants(const training_set *set) {
    int status = check_constant(set, &set->features, "it tells nothing; leave it out");
    if (status == EXIT_DONE) status = check_constant(set, &set->target, "there is nothing to learn");
    if (status == EXIT_DONE) status = check_constant(set, &set->invariant, "nothing can depend on it; leave it out");
    if (status == EXIT_DONE) status = check_constant(set, &set->given, "it conditions on nothing; leave it out");
    return status;
}

/* Whose images are the points, once rows with missing cells are dropped. */
static int note_rows(training_set *set) {
    const circe_mat *m = &set->table.in.values;
    int64_t kept = 0;
    set->row_of = malloc((size_t)(m->rows + 1) * sizeof *set->row_of);
    if (set->row_of == NULL) return message_fail(EXIT_WORK, "out of memory for %" PRId64 " rows", m->rows);
    for (int64_t i = 0; i < m->rows; i++) {
        bool whole = true;
        for (int64_t c = 0; c < m->cols; c++) whole = whole && !isnan(column_value(&set->table, i, c));
        if (whole) set->row_of[kept++] = i;
    }
    return EXIT_DONE;
}

/* Finds the roles' columns in the table and checks them. */
static int use_table(training_set *set, const name_list *wanted) {
    int64_t *count = small_alloc((size_t)(set->features.names.n + 1) * sizeof *count);
    input *group[] = {&set->table.in};
    locate(&set->table, wanted, &set->features, count);
    locate(&set->table, wanted, &set->target, NULL);
    locate(&set->table, wanted, &set->given, NULL);
    locate(&set->table, wanted, &set->invariant, NULL);
    set->given_is_target = same_columns(&set->given, &set->target);
    int status = set->has_images ? note_rows(set) : EXIT_DONE;
    if (status == EXIT_DONE) status = args_inputs_check(set->arguments, group, 1, 2, &set->dropped);
    if (status == EXIT_DONE) status = check_constants(set);
    if (status == EXIT_DONE && !set->has_images) {
        encoding_make(&set->table, &set->features.names, count, set->features.cols, &set->encode);
        encoding_inputs(&set->encode, &set->table, set->features.cols, &set->inputs);
    }
    free(count);
    return status;
}

/* The column of paths is easily called otherwise. */
static void hint_path_column(const training_set *set) {
    name_list column = {0};
    column_table table = {0};
    reading how = {.how = {.all = true}};
    name_list_add(&column, set->request.column);
    if (!args_given(set->arguments, OPT_PATH_COLUMN) && access(set->request.path, R_OK) == 0 &&
        column_table_read(NULL, set->request.path, &column, &how, false, &table) != CIRCE_OK)
        message_hint("--path-column says which column holds the paths of the images");
    column_table_free(&table);
    name_list_free(&column);
}

static int read_table(training_set *set) {
    name_list wanted = {0};
    bool by_path = set->has_images && set->request.by_path;
    want(&wanted, &set->features);
    want(&wanted, &set->target);
    want(&wanted, &set->given);
    want(&wanted, &set->invariant);
    if (by_path && name_list_find(&wanted, set->request.column) < 0) name_list_add(&wanted, set->request.column);
    reading how = {0};
    int status = args_reading_open(set->arguments, &how);
    if (status == EXIT_DONE)
        status = args_column_table(set->arguments, training_data(set), &wanted, &how, false, &set->table);
    reading_free(&how);
    if (status != EXIT_DONE && by_path) hint_path_column(set);
    if (status == EXIT_DONE && by_path) set->path_col = set->table.first[name_list_find(&wanted, set->request.column)];
    if (status == EXIT_DONE) status = use_table(set, &wanted);
    name_list_free(&wanted);
    return status;
}

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes) {
    for (const unsigned char *at = data; bytes > 0; bytes--, at++) hash = (hash ^ *at) * UINT64_C(1099511628211);
    return hash;
}

/* FNV-1a over names, categories and values. */
static uint64_t hash_table(const column_table *table) {
    const circe_mat *m = &table->in.values;
    uint64_t hash = UINT64_C(14695981039346656037);
    for (int64_t c = 0; c < m->cols; c++) {
        hash = hash_bytes(hash, column_name(table, c), strlen(column_name(table, c)) + 1);
        for (char *const *text = column_categories(table, c); text != NULL && *text != NULL; text++)
            hash = hash_bytes(hash, *text, strlen(*text) + 1);
    }
    return hash_bytes(hash, m->data, (size_t)(m->rows * m->cols) * circe_dtype_size(m->dtype));
}

/* ---- the target -------------------------------------------------------------------------------------------------- */

static int choose_loss(training_set *set) {
    bool text = false;
    const char *name = NULL;
    for (int64_t i = 0; i < set->target.n; i++) {
        if (column_categories(&set->table, set->target.cols[i]) == NULL) continue;
        text = true;
        name = training_column(set, &set->target, i);
    }
    bool asked = args_given(set->arguments, OPT_LOSS);
    bool entropy = asked && args_choice(set->arguments, OPT_LOSS) == 1;
    if (text && asked && !entropy)
        return message_fail(EXIT_INPUT,
                            "--target: column '%s' holds text, which are classes: take --loss cross-entropy", name);
    set->loss = text || entropy ? TRAIN_CROSS_ENTROPY : TRAIN_MSE;
    if (set->loss == TRAIN_CROSS_ENTROPY && set->target.n > 1)
        return message_fail(EXIT_INPUT,
                            "--target: classes are predicted one column at a time, and %" PRId64 " are given",
                            set->target.n);
    return EXIT_DONE;
}

static int compare_numbers(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int compare_texts(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Distinct values of the target, ascending; their number, or -1 where they are more than classes can be. */
static int64_t distinct_values(const training_set *set, double *values) {
    int64_t n = set->table.in.values.rows, kept = 0;
    for (int64_t i = 0; i < n; i++) values[i] = column_value(&set->table, i, set->target.cols[0]);
    qsort(values, (size_t)n, sizeof *values, compare_numbers);
    for (int64_t i = 0; i < n; i++) {
        if (kept == 0 || values[i] != values[kept - 1]) values[kept++] = values[i];
    }
    return kept;
}

static int name_classes(training_set *set, const double *values, int64_t n) {
    const char *name = training_column(set, &set->target, 0);
    char *const *texts = column_categories(&set->table, set->target.cols[0]);
    if (n > MOST_CLASSES)
        return message_fail(EXIT_INPUT, "--target: column '%s' holds %" PRId64 " different %s: too many to be classes",
                            name, n, texts != NULL ? "texts" : "numbers");
    for (int64_t i = 0; i < n; i++) {
        char number[32];
        if (texts == NULL && values[i] != floor(values[i]))
            return message_fail(EXIT_INPUT,
                                "--target: column '%s' holds %g; for --loss cross-entropy its numbers are classes, and "
                                "whole",
                                name, values[i]);
        snprintf(number, sizeof number, "%.15g", values[i]);
        name_list_add(&set->classes, texts != NULL ? texts[(int64_t)values[i]] : number);
    }
    if (texts != NULL) qsort(set->classes.names, (size_t)n, sizeof *set->classes.names, compare_texts);
    return EXIT_DONE;
}

static int find_classes(training_set *set) {
    int status = choose_loss(set);
    if (status != EXIT_DONE || set->loss == TRAIN_MSE) return status;
    double *values = malloc((size_t)set->table.in.values.rows * sizeof *values);
    if (values == NULL) return message_fail(EXIT_WORK, "out of memory for the classes");
    int64_t n = distinct_values(set, values);
    status = name_classes(set, values, n);
    free(values);
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

static int check_batch(const training_set *set) {
    int64_t batch = args_integer(set->arguments, OPT_BATCH), n = set->split.n_training;
    if (n >= batch) return EXIT_DONE;
    message_note("%s: %" PRId64 " rows are left for training (of %" PRId64 ", after %" PRId64
                 " for validation and %" PRId64 " for the holdout), fewer than a batch of %" PRId64,
                 input_source(&set->table.in), n, set->table.in.values.rows, set->split.n_validation,
                 set->split.n_holdout, batch);
    message_hint("give a smaller batch, --batch %" PRId64 ", or more rows", n >= 64 ? 32 * (n / 64) : (n + 1) / 2);
    return EXIT_INPUT;
}

static int split_rows(training_set *set, bool needs_holdout) {
    double validation = args_number(set->arguments, OPT_VALIDATION);
    double holdout = set->has_invariant ? args_number(set->arguments, OPT_HOLDOUT) : 0.0;
    int64_t n = set->table.in.values.rows;
    uint64_t seed = (uint64_t)args_integer(set->arguments, OPT_SEED);
    circe_status status = train_split_make(n, validation, holdout, seed, &set->split);
    if (status != CIRCE_OK) return refuse_library(status);
    if (set->split.n_validation < LEAST_ROWS)
        return message_fail(EXIT_INPUT,
                            "--validation %g of %" PRId64 " rows are %" PRId64
                            ": too few to report an error; at least %d "
                            "are needed",
                            validation, n, set->split.n_validation, LEAST_ROWS);
    if (needs_holdout && set->split.n_holdout < LEAST_ROWS) {
        message_note("--holdout %g of %" PRId64 " rows are %" PRId64
                     ": none or too few are left to learn the mean of "
                     "--invariant-to given --given; at least %d are needed",
                     holdout, n, set->split.n_holdout, LEAST_ROWS);
        message_hint("they are rows that the network is not trained on; 0.1 is usual");
        return EXIT_INPUT;
    }
    return check_batch(set);
}

/* ---- the whole ------------------------------------------------------------------------------------------------------
 */

int training_set_read(const args *arguments, const char *net, bool needs_holdout, training_set *set) {
    *set = (training_set){.arguments = arguments};
    int status = choose_input(set, net);
    if (status == EXIT_DONE) status = read_roles(set);
    if (status == EXIT_DONE) status = read_table(set);
    if (status == EXIT_DONE) status = find_classes(set);
    if (status == EXIT_DONE) status = split_rows(set, needs_holdout);
    if (status == EXIT_DONE) set->hash = hash_table(&set->table);
    return status;
}

static int read_images(const session *s, training_set *set) {
    int64_t n = set->table.in.values.rows;
    int status =
        set->request.by_path
            ? images_read_paths(s, &set->request, &set->table, set->path_col, NULL, set->row_of, n, &set->images)
            : images_read_array(s, &set->request, n + set->dropped, set->row_of, n, &set->images);
    if (status != EXIT_DONE) return status;
    const train_source source = image_stack_source(&set->images.stack);
    size_t bytes = (size_t)(source.n_stored * source.stride) * (source.element == TRAIN_FLOATS ? sizeof(float) : 1);
    set->hash = train_hash_bytes(set->hash, source.values, bytes);
    return EXIT_DONE;
}

int training_set_fill(const session *s, training_set *set) {
    int status = set->has_images ? read_images(s, set) : EXIT_DONE;
    return status == EXIT_DONE ? training_points_make(set) : status;
}

static void free_role(training_role *role) {
    name_list_free(&role->names);
    free(role->cols);
}

void training_set_free(training_set *set) {
    training_points_free(set);
    free_role(&set->features);
    free_role(&set->target);
    free_role(&set->given);
    free_role(&set->invariant);
    encoding_free(&set->encode);
    name_list_free(&set->inputs);
    name_list_free(&set->classes);
    train_scaler_free(&set->feature_scale);
    train_scaler_free(&set->target_scale);
    train_split_free(&set->split);
    images_free(&set->images);
    images_request_free(&set->request);
    free(set->row_of);
    column_table_free(&set->table);
    *set = (training_set){0};
}
