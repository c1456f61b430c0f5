/* Tables and model files: statistics of columns, the split of rows, predictors saved, loaded, used, and refused.
 *
 * Tolerances: standardised numbers in float64 1e-12 (a subtraction and a division of numbers about 1e3); predictions
 * 1e-5, from float32 sums of 64 products; probabilities 1e-6. */
#include "circe/status.h"
#include "tests/train/train_support.h"
#include "train/model.h"

/* ---- scaling ----------------------------------------------------------------------------------------------------- */

/* (rows, 3): about 1,000 with deviation 1; constant 0.1, whose mean no sum gives exactly; large. */
static circe_mat columns(int64_t rows) {
    circe_mat values = test_normal(1, rows, 3);
    for (int64_t i = 0; i < rows; i++) {
        test_set(&values, i, 0, 1000.0 + test_at(&values, i, 0));
        test_set(&values, i, 1, 0.1);
        test_set(&values, i, 2, 1e6 * test_at(&values, i, 2));
    }
    return values;
}

static double mean_of(const circe_mat *m, int64_t col) {
    double sum = 0.0;
    for (int64_t i = 0; i < m->rows; i++) sum += test_at(m, i, col);
    return sum / (double)m->rows;
}

static double variance_of(const circe_mat *m, int64_t col) {
    double sum = 0.0, mean = mean_of(m, col);
    for (int64_t i = 0; i < m->rows; i++) sum += pow(test_at(m, i, col) - mean, 2.0);
    return sum / (double)m->rows;
}

static void scaler_round_trip(void **state) {
    (void)state;
    circe_mat values = columns(501), out = test_zeros(501, 3, CIRCE_FLOAT64), back = test_zeros(501, 3, CIRCE_FLOAT64);
    circe_mat single = test_zeros(501, 3, CIRCE_FLOAT32);
    train_scaler scaler;
    train_ok(train_scaler_fit(&values, NULL, 0, &scaler));
    train_ok(train_scaler_apply(&scaler, &values, NULL, 0, &out));
    for (int64_t c = 0; c < 3; c += 2) {
        assert_near(mean_of(&out, c), 0.0, 1e-12, 1.0);
        assert_near(variance_of(&out, c), 1.0, 1e-12, 1.0);
        assert_near(scaler.mean[c], mean_of(&values, c), 1e-12, fabs(scaler.mean[c]));
        assert_near(scaler.deviation[c], sqrt(variance_of(&values, c)), 1e-12, scaler.deviation[c]);
    }
    assert_true(scaler.deviation[1] == 1.0 && scaler.mean[1] == 0.1);
    for (int64_t i = 0; i < 501; i++) assert_true(test_at(&out, i, 1) == 0.0);
    for (int64_t i = 0; i < 501; i++)
        for (int64_t c = 0; c < 3; c++)
            test_set(&back, i, c, test_at(&out, i, c) * scaler.deviation[c] + scaler.mean[c]);
    assert_mat_near(&back, &values, 1e-12);
    for (int64_t i = 0; i < 501; i++) assert_near(test_at(&back, i, 0), test_at(&values, i, 0), 1e-12, 1000.0);
    train_ok(train_scaler_apply(&scaler, &values, NULL, 0, &single));
    assert_mat_near(&single, &out, 1e-7);
    /* float32 in: the same numbers as their float64 copies. */
    circe_mat rounded = test_copy(&values, CIRCE_FLOAT32), exact = test_copy(&rounded, CIRCE_FLOAT64);
    circe_mat one = test_zeros(501, 3, CIRCE_FLOAT64), two = test_zeros(501, 3, CIRCE_FLOAT64);
    train_ok(train_scaler_apply(&scaler, &rounded, NULL, 0, &one));
    train_ok(train_scaler_apply(&scaler, &exact, NULL, 0, &two));
    assert_mat_equal(&one, &two);
    train_scaler_free(&scaler);
    assert_null(scaler.mean);
    train_scaler_free(&scaler);
}

/* Chosen rows, in their order, from a view with room between its rows. */
static void scaler_of_rows(void **state) {
    (void)state;
    static const int64_t index[] = {7, 3, 3, 19};
    circe_mat wide = test_normal(2, 20, 5), values = wide;
    values.cols = 3;
    circe_mat chosen = test_rows(&wide, index, 4), out = test_zeros(4, 3, CIRCE_FLOAT64),
              expected = test_zeros(4, 3, CIRCE_FLOAT64);
    chosen.cols = 3;
    train_scaler of_index, of_copy;
    train_ok(train_scaler_fit(&values, index, 4, &of_index));
    train_ok(train_scaler_fit(&chosen, NULL, 0, &of_copy));
    assert_int_equal(of_index.cols, 3);
    assert_memory_equal(of_index.mean, of_copy.mean, 3 * sizeof(double));
    assert_memory_equal(of_index.deviation, of_copy.deviation, 3 * sizeof(double));
    train_ok(train_scaler_apply(&of_index, &values, index, 4, &out));
    train_ok(train_scaler_apply(&of_copy, &chosen, NULL, 0, &expected));
    assert_mat_equal(&out, &expected);
    train_scaler_free(&of_index);
    train_scaler_free(&of_copy);
}

/* Squares beyond the range of float64 in either direction. */
static void scaler_extremes(void **state) {
    (void)state;
    static const double sizes[] = {1e-200, 1e200, 1e-300};
    for (int64_t k = 0; k < COUNT(sizes); k++) {
        circe_mat values = test_normal(3, 100, 1), out = test_zeros(100, 1, CIRCE_FLOAT64);
        for (int64_t i = 0; i < 100; i++) test_set(&values, i, 0, sizes[k] * test_at(&values, i, 0));
        train_scaler scaler;
        train_ok(train_scaler_fit(&values, NULL, 0, &scaler));
        train_ok(train_scaler_apply(&scaler, &values, NULL, 0, &out));
        assert_near(variance_of(&out, 0), 1.0, 1e-12, 1.0);
        train_scaler_free(&scaler);
    }
}

static void scaler_refusals(void **state) {
    (void)state;
    circe_mat values = test_normal(4, 10, 2), out = test_zeros(10, 2, CIRCE_FLOAT64),
              hurt = test_copy(&values, CIRCE_FLOAT64);
    circe_mat none = values, narrow = test_zeros(10, 1, CIRCE_FLOAT64), single = test_zeros(10, 2, CIRCE_FLOAT32);
    train_scaler scaler, refused;
    static const int64_t outside[] = {3, 10}, before[] = {-1};
    none.rows = 0;
    test_set(&hurt, 6, 1, NAN);
    train_ok(train_scaler_fit(&values, NULL, 0, &scaler));
    train_refused(train_scaler_fit(&hurt, NULL, 0, &refused), CIRCE_ERR_VALUE, "a NaN at row 6, column 1");
    assert_null(refused.mean);
    train_refused(train_scaler_apply(&scaler, &hurt, NULL, 0, &out), CIRCE_ERR_VALUE, "a NaN at row 6, column 1");
    test_set(&hurt, 6, 1, -INFINITY);
    train_refused(train_scaler_fit(&hurt, NULL, 0, &refused), CIRCE_ERR_VALUE, "an infinity at row 6, column 1");
    test_set(&hurt, 6, 1, 1e300);
    train_refused(train_scaler_apply(&scaler, &hurt, NULL, 0, &single), CIRCE_ERR_VALUE, "too far");
    test_set(&hurt, 5, 1, -1.7e308);
    test_set(&hurt, 6, 1, 1.7e308);
    train_refused(train_scaler_fit(&hurt, NULL, 0, &refused), CIRCE_ERR_VALUE, "too large");
    train_refused(train_scaler_fit(&none, NULL, 0, &refused), CIRCE_ERR_SHAPE, "at least one row");
    train_refused(train_scaler_fit(&values, outside, 0, &refused), CIRCE_ERR_SHAPE, "at least one row");
    train_refused(train_scaler_fit(&values, outside, 2, &refused), CIRCE_ERR_ARGUMENT, "row 10");
    train_refused(train_scaler_apply(&scaler, &values, before, 1, &out), CIRCE_ERR_SHAPE, "1 by 2");
    out.rows = 1;
    train_refused(train_scaler_apply(&scaler, &values, before, 1, &out), CIRCE_ERR_ARGUMENT, "row -1");
    train_refused(train_scaler_apply(&scaler, &narrow, NULL, 0, &narrow), CIRCE_ERR_SHAPE, "1 columns");
    train_scaler_free(&scaler);
}

/* ---- splitting --------------------------------------------------------------------------------------------------- */

static void check_partition(const train_split *split, int64_t n) {
    int *seen = test_memory((size_t)n * sizeof *seen);
    const int64_t *parts[] = {split->training, split->validation, split->holdout, split->test};
    const int64_t sizes[] = {split->n_training, split->n_validation, split->n_holdout, split->n_test};
    assert_int_equal(sizes[0] + sizes[1] + sizes[2] + sizes[3], n);
    for (int p = 0; p < 4; p++)
        for (int64_t i = 0; i < sizes[p]; i++) {
            assert_true(parts[p][i] >= 0 && parts[p][i] < n);
            assert_int_equal(seen[parts[p][i]]++, 0);
        }
}

static void split_partition(void **state) {
    (void)state;
    static const struct {
        int64_t n;
        double validation, holdout, test;
        int64_t n_validation, n_holdout, n_test;
    } cases[] = {{1000, 0.1, 0.2, 0.0, 100, 200, 0},
                 {7, 0.25, 0.25, 0.0, 2, 2, 0},
                 {1, 0.0, 0.0, 0.0, 0, 0, 0},
                 {10, 0.01, 0.0, 0.0, 1, 0, 0},
                 {3, 0.3, 0.3, 0.0, 1, 1, 0},
                 {5, 0.0, 0.8, 0.0, 0, 4, 0},
                 {11, 0.45, 0.45, 0.0, 5, 5, 0},
                 {1000, 0.1, 0.0, 0.15, 100, 0, 150},
                 {10007, 0.123, 0.0456, 0.2, 1231, 456, 2001}};
    for (int64_t k = 0; k < COUNT(cases); k++) {
        train_split split;
        train_ok(train_split_make(cases[k].n, cases[k].validation, cases[k].holdout, cases[k].test, 5, &split));
        assert_int_equal(split.n_validation, cases[k].n_validation);
        assert_int_equal(split.n_holdout, cases[k].n_holdout);
        assert_int_equal(split.n_test, cases[k].n_test);
        check_partition(&split, cases[k].n);
        train_split_free(&split);
        train_split_free(&split);
    }
}

static void split_seeds(void **state) {
    enum { N = 1000 };
    (void)state;
    train_split one, again, other;
    train_ok(train_split_make(N, 0.1, 0.2, 0.0, 5, &one));
    train_ok(train_split_make(N, 0.1, 0.2, 0.0, 5, &again));
    train_ok(train_split_make(N, 0.1, 0.2, 0.0, 6, &other));
    assert_memory_equal(one.training, again.training, (size_t)one.n_training * sizeof *one.training);
    assert_memory_equal(one.validation, again.validation, (size_t)one.n_validation * sizeof *one.validation);
    assert_memory_equal(one.holdout, again.holdout, (size_t)one.n_holdout * sizeof *one.holdout);
    int64_t same = 0, low = 0;
    for (int64_t i = 0; i < one.n_training; i++) same += one.training[i] == other.training[i];
    assert_true(same < 20);
    /* Drawn from everywhere: 200 of 1,000, of which half lie in the first half, give or take 6. */
    for (int64_t i = 0; i < one.n_holdout; i++) low += one.holdout[i] < N / 2;
    assert_true(low > 70 && low < 130);
    train_split_free(&one);
    train_split_free(&again);
    train_split_free(&other);
}

static void split_refusals(void **state) {
    (void)state;
    train_split split;
    train_refused(train_split_make(0, 0.1, 0.1, 0.0, 1, &split), CIRCE_ERR_ARGUMENT, "0 rows");
    train_refused(train_split_make(100, 0.5, 0.5, 0.0, 1, &split), CIRCE_ERR_ARGUMENT, "leave none for training");
    train_refused(train_split_make(2, 0.1, 0.1, 0.0, 1, &split), CIRCE_ERR_ARGUMENT, "leave none for training");
    assert_null(split.training);
    train_refused(train_split_make(100, -0.1, 0.5, 0.0, 1, &split), CIRCE_ERR_ARGUMENT, "from 0 to below 1");
    train_refused(train_split_make(100, 0.1, 1.0, 0.0, 1, &split), CIRCE_ERR_ARGUMENT, "from 0 to below 1");
    train_refused(train_split_make(100, NAN, 0.1, 0.0, 1, &split), CIRCE_ERR_ARGUMENT, "from 0 to below 1");
}

/* ---- models ------------------------------------------------------------------------------------------------------ */

static char **copy_names(const char *const *names, int64_t n) {
    char **copy = calloc((size_t)n, sizeof *copy);
    for (int64_t i = 0; i < n; i++) copy[i] = strdup(names[i]);
    return copy;
}

static train_scaler make_scale(int64_t cols) {
    train_scaler scale = {
        .cols = cols, .mean = calloc((size_t)cols, sizeof(double)), .deviation = calloc((size_t)cols, sizeof(double))};
    for (int64_t c = 0; c < cols; c++) {
        scale.mean[c] = (double)(c + 1) / 3.0 - 1e-9; /* 17 digits, or it is another number */
        scale.deviation[c] = 1.0 / (7.0 + (double)c);
    }
    return scale;
}

/* Three features, (width, width) hidden, outputs of the loss: 2 columns or 3 classes. */
static train_model make_model(train_loss_kind loss, const char *net, const int64_t *widths, int64_t n_widths) {
    static const char *const features[] = {"age", "in\"come, \xc3\xa9t\xc3\xa9", "z\\1"};
    static const char *const targets[] = {"b", "c"};
    static const char *const classes[] = {"no", "yes", "perhaps"};
    bool mse = loss == TRAIN_MSE;
    train_model m = {.net = strdup(net),
                     .activation = mse ? TRAIN_LEAKY_RELU : TRAIN_TANH,
                     .loss = loss,
                     .outputs = mse ? 2 : 3,
                     .features = copy_names(features, 3),
                     .target = copy_names(targets, mse ? 2 : 1),
                     .n_features = 3,
                     .n_target = mse ? 2 : 1,
                     .classes = mse ? NULL : copy_names(classes, 3),
                     .feature_scale = make_scale(3),
                     .settings = strdup("{\"gamma\":1000,\"seed\":7}")};
    if (mse) m.target_scale = make_scale(2);
    int64_t in = 3;
    for (int64_t l = 0; l <= n_widths; l++) {
        int64_t out = l < n_widths ? widths[l] : m.outputs;
        m.n_params += out * (in + 1);
        in = out;
    }
    m.params = calloc((size_t)m.n_params, sizeof *m.params);
    circe_mat numbers = test_normal(5, m.n_params, 1);
    for (int64_t i = 0; i < m.n_params; i++) m.params[i] = 0.5f * (float)test_at(&numbers, i, 0);
    return m;
}

static const int64_t two_widths[] = {5, 4};

static train_model small_model(train_loss_kind loss) { return make_model(loss, "5,4", two_widths, 2); }

static void same_names(char **a, char **b, int64_t n) {
    for (int64_t i = 0; i < n; i++) assert_string_equal(a[i], b[i]);
}

static void same_scale(const train_scaler *a, const train_scaler *b) {
    assert_int_equal(a->cols, b->cols);
    for (int64_t c = 0; c < a->cols; c++) assert_true(a->mean[c] == b->mean[c] && a->deviation[c] == b->deviation[c]);
}

static void model_round_trip(void **state) {
    (void)state;
    circe_context *context = test_context(0);
    const char *path = test_path("model.safetensors"), *second = test_path("second.safetensors");
    for (int loss = TRAIN_MSE; loss <= TRAIN_CROSS_ENTROPY; loss++) {
        train_model saved = small_model((train_loss_kind)loss), loaded;
        train_ok(train_model_save(context, &saved, path));
        train_ok(train_model_load(context, path, &loaded));
        assert_string_equal(loaded.net, saved.net);
        assert_string_equal(loaded.settings, saved.settings);
        assert_true(loaded.activation == saved.activation && loaded.loss == saved.loss);
        assert_true(loaded.outputs == saved.outputs && loaded.n_features == 3 && loaded.n_target == saved.n_target);
        same_names(loaded.features, saved.features, 3);
        same_names(loaded.target, saved.target, saved.n_target);
        assert_true((loaded.classes == NULL) == (saved.classes == NULL));
        if (saved.classes != NULL) same_names(loaded.classes, saved.classes, saved.outputs);
        same_scale(&loaded.feature_scale, &saved.feature_scale);
        same_scale(&loaded.target_scale, &saved.target_scale);
        assert_int_equal(loaded.n_params, saved.n_params);
        assert_memory_equal(loaded.params, saved.params, (size_t)saved.n_params * sizeof *saved.params);
        /* What was loaded is written to the same bytes. */
        train_ok(train_model_save(context, &loaded, second));
        char *texts[2] = {NULL, NULL};
        size_t sizes[2];
        for (int k = 0; k < 2; k++) {
            FILE *file = fopen(k == 0 ? path : second, "rb");
            fseek(file, 0, SEEK_END);
            sizes[k] = (size_t)ftell(file);
            rewind(file);
            texts[k] = test_memory(sizes[k]);
            assert_int_equal(fread(texts[k], 1, sizes[k], file), sizes[k]);
            fclose(file);
        }
        assert_true(sizes[0] == sizes[1]);
        assert_memory_equal(texts[0], texts[1], sizes[0]);
        train_model_free(&saved);
        train_model_free(&loaded);
        train_model_free(&loaded);
    }
}

/* PyTorch's names and shapes, in float32. */
static void model_tensors(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t rows, cols;
    } expected[] = {{"0.weight", 5, 3}, {"0.bias", 5, -1},  {"2.weight", 4, 5},
                    {"2.bias", 4, -1},  {"4.weight", 2, 4}, {"4.bias", 2, -1}};
    circe_context *context = test_context(0);
    const char *path = test_path("model.safetensors");
    train_model model = small_model(TRAIN_MSE);
    train_ok(train_model_save(context, &model, path));
    circe_tensor_file *file = NULL;
    assert_ok(circe_tensor_file_open(context, path, &file));
    assert_int_equal(circe_tensor_file_count(file), COUNT(expected));
    const float *at = model.params;
    for (int64_t k = 0; k < COUNT(expected); k++) {
        circe_tensor t;
        assert_ok(circe_tensor_file_find(file, expected[k].name, &t));
        assert_string_equal(t.dtype, "F32");
        assert_int_equal(t.n_dims, expected[k].cols < 0 ? 1 : 2);
        assert_int_equal(t.shape[0], expected[k].rows);
        if (t.n_dims == 2) assert_int_equal(t.shape[1], expected[k].cols);
        assert_memory_equal(t.data, at, t.bytes);
        at += t.bytes / sizeof *at;
    }
    assert_string_equal(circe_tensor_file_metadata(file, "format"), "circe.predictor");
    assert_string_equal(circe_tensor_file_metadata(file, "format_version"), "3");
    assert_int_equal(strlen(circe_tensor_file_metadata(file, "checksum")), 16);
    assert_string_equal(circe_tensor_file_metadata(file, "circe_version"), circe_version());
    circe_tensor_file_close(file);
    train_model_free(&model);
}

/* ---- predictions ------------------------------------------------------------------------------------------------- */

/* The network written out in float64: in (3), widths, leaky ReLU or tanh between. */
static void by_hand(const train_model *m, const double *raw, double *out) {
    double in[8], next[8] = {0};
    const int64_t widths[] = {5, 4, m->outputs};
    int64_t n_in = 3;
    const float *w = m->params;
    for (int64_t c = 0; c < 3; c++) in[c] = (raw[c] - m->feature_scale.mean[c]) / m->feature_scale.deviation[c];
    for (int l = 0; l < 3; l++) {
        const float *bias = w + widths[l] * n_in;
        for (int64_t o = 0; o < widths[l]; o++) {
            next[o] = (double)bias[o];
            for (int64_t i = 0; i < n_in; i++) next[o] += (double)w[o * n_in + i] * in[i];
            if (l < 2) next[o] = m->activation == TRAIN_TANH ? tanh(next[o]) : next[o] < 0.0 ? 0.01 * next[o] : next[o];
        }
        w = bias + widths[l];
        n_in = widths[l];
        memcpy(in, next, sizeof in);
    }
    double sum = 0.0;
    for (int64_t c = 0; c < m->outputs; c++) sum += exp(in[c]);
    for (int64_t c = 0; c < m->outputs; c++)
        out[c] =
            m->loss == TRAIN_MSE ? in[c] * m->target_scale.deviation[c] + m->target_scale.mean[c] : exp(in[c]) / sum;
}

/* More rows than are handled at once, more than the network's batch. */
static void predictions(void **state) {
    enum { ROWS = 9001 };
    (void)state;
    circe_context *context = test_context(0);
    train_device *device = NULL;
    train_ok(train_device_cpu(context, &device));
    for (int loss = TRAIN_MSE; loss <= TRAIN_CROSS_ENTROPY; loss++) {
        train_model model = small_model((train_loss_kind)loss);
        train_network *network = NULL;
        train_ok(train_model_network(device, &model, 100, &network));
        circe_mat wide = test_normal(6, ROWS, 4), raw = wide, out = test_zeros(ROWS, model.outputs, CIRCE_FLOAT64);
        raw.cols = 3;
        train_ok(train_model_predict(network, &model, &raw, &out));
        for (int64_t i = 0; i < ROWS; i++) {
            double expected[3], sum = 0.0;
            by_hand(&model, (const double *)raw.data + i * raw.ld, expected);
            for (int64_t c = 0; c < model.outputs; c++) {
                assert_near(test_at(&out, i, c), expected[c], 1e-5, loss == TRAIN_MSE ? 1.0 + fabs(expected[c]) : 0.1);
                sum += test_at(&out, i, c);
            }
            if (loss == TRAIN_CROSS_ENTROPY) assert_near(sum, 1.0, 1e-12, 1.0);
        }
        /* A row alone is the same row. */
        circe_mat one = raw, first = test_zeros(1, model.outputs, CIRCE_FLOAT64);
        one.rows = 1;
        train_ok(train_model_predict(network, &model, &one, &first));
        for (int64_t c = 0; c < model.outputs; c++) assert_near(test_at(&first, 0, c), test_at(&out, 0, c), 1e-6, 1.0);
        one.rows = first.rows = 0;
        train_ok(train_model_predict(network, &model, &one, &first));
        train_network_destroy(network);
        train_model_free(&model);
    }
    train_device_destroy(device);
}

/* Probabilities of outputs that exp alone cannot hold. */
static void large_outputs(void **state) {
    (void)state;
    circe_context *context = test_context(0);
    train_device *device = NULL;
    train_network *network = NULL;
    train_model model = make_model(TRAIN_CROSS_ENTROPY, "linear", NULL, 0);
    train_ok(train_device_cpu(context, &device));
    for (int64_t i = 0; i < model.n_params; i++) model.params[i] = 0.0f;
    model.params[9] = 5000.0f; /* the first bias */
    train_ok(train_model_network(device, &model, 4, &network));
    circe_mat raw = test_zeros(1, 3, CIRCE_FLOAT32), out = test_zeros(1, 3, CIRCE_FLOAT64);
    train_ok(train_model_predict(network, &model, &raw, &out));
    assert_true(test_at(&out, 0, 0) == 1.0 && test_at(&out, 0, 1) == 0.0 && test_at(&out, 0, 2) == 0.0);
    train_network_destroy(network);
    train_device_destroy(device);
    train_model_free(&model);
}

static void predict_refusals(void **state) {
    (void)state;
    circe_context *context = test_context(0);
    train_device *device = NULL;
    train_network *network = NULL;
    train_model model = small_model(TRAIN_MSE), other = small_model(TRAIN_CROSS_ENTROPY);
    train_ok(train_device_cpu(context, &device));
    train_ok(train_model_network(device, &model, 16, &network));
    circe_mat raw = test_normal(7, 5000, 3), narrow = test_normal(7, 5000, 2), out = test_zeros(5000, 2, CIRCE_FLOAT64);
    circe_mat single = test_zeros(5000, 2, CIRCE_FLOAT32);
    train_refused(train_model_predict(network, &model, &narrow, &out), CIRCE_ERR_SHAPE,
                  "2 columns; the model was trained on 3, from age to z\\1");
    train_refused(train_model_predict(network, &model, &raw, &single), CIRCE_ERR_SHAPE, "5000 by 2");
    train_refused(train_model_predict(network, &other, &raw, &out), CIRCE_ERR_SHAPE, "does not fit the model");
    test_set(&raw, 4999, 2, NAN);
    train_refused(train_model_predict(network, &model, &raw, &out), CIRCE_ERR_VALUE, "a NaN at row 4999, column 2");
    /* Finite, and still so in float32, but not after weights above 1. */
    for (int64_t i = 0; i < model.n_params; i++) model.params[i] = 1e3f;
    train_network_destroy(network);
    train_ok(train_model_network(device, &model, 16, &network));
    test_set(&raw, 4999, 2, 1e36);
    train_refused(train_model_predict(network, &model, &raw, &out), CIRCE_ERR_NUMERIC, "row 4999");
    train_network_destroy(network);
    train_device_destroy(device);
    train_model_free(&model);
    train_model_free(&other);
}

/* ---- files that are refused -------------------------------------------------------------------------------------- */

/* A good file, with one metadata entry replaced (value NULL: left out), or one tensor. */
typedef struct change {
    const char *key, *value;
    const char *part; /* of the text */
} change;

typedef struct tensor_change {
    const char *name, *rename; /* NULL: left out */
    const char *dtype;         /* NULL: kept */
    bool flat, poisoned;
    const char *part;
} tensor_change;

static void write_changed(circe_context *context, const char *from, const char *to, const change *c,
                          const tensor_change *t) {
    static const char *const keys[] = {"format",  "format_version", "circe_version", "architecture",
                                       "columns", "statistics",     "settings"};
    circe_metadata metadata[8];
    circe_tensor tensors[8];
    int64_t n_metadata = 0, n_tensors = 0;
    circe_tensor_file *file = NULL;
    static float bad[64];
    for (int i = 0; i < 64; i++) bad[i] = NAN;
    assert_ok(circe_tensor_file_open(context, from, &file));
    for (int64_t k = 0; k < COUNT(keys); k++) {
        const char *value = circe_tensor_file_metadata(file, keys[k]);
        if (c != NULL && strcmp(c->key, keys[k]) == 0) value = c->value;
        if (value != NULL) metadata[n_metadata++] = (circe_metadata){keys[k], value};
    }
    for (int64_t k = 0; k < circe_tensor_file_count(file); k++) {
        circe_tensor *now = &tensors[n_tensors];
        assert_ok(circe_tensor_file_get(file, k, now));
        if (t != NULL && strcmp(t->name, now->name) == 0) {
            if (t->rename == NULL) continue;
            now->name = t->rename;
            if (t->dtype != NULL) strcpy(now->dtype, t->dtype);
            if (t->flat) {
                now->n_dims = 1;
                now->shape[0] *= now->shape[1];
            }
            if (t->poisoned) now->data = bad;
        }
        n_tensors++;
    }
    assert_ok(circe_tensor_file_write(context, to, tensors, n_tensors, metadata, n_metadata));
    circe_tensor_file_close(file);
}

#define ARCHITECTURE(net, activation, loss, inputs, outputs) \
    "{\"net\":" net ",\"activation\":" activation ",\"loss\":" loss ",\"inputs\":" inputs ",\"outputs\":" outputs "}"
#define COLUMNS(features, target, rest) "{\"features\":" features ",\"target\":" target rest "}"
#define THREE "[\"a\",\"b\",\"c\"]"
#define TWO "[\"d\",\"e\"]"
#define SCALE(mean, deviation) "{\"mean\":" mean ",\"deviation\":" deviation "}"
#define STATISTICS(features, target) "{\"features\":" features ",\"target\":" target "}"
#define GOOD_3 SCALE("[1,2,3]", "[1,2,3]")
#define GOOD_2 SCALE("[1,2]", "[1,2]")

static const change metadata_changes[] = {
    {"format", NULL, "do not describe a predictor"},
    {"format", "circe.conditional_mean", "circe fit"},
    {"format", "circe.checkpoint", "'circe.checkpoint'"},
    {"format", "bad\n\x01name", "'bad\\u000a\\u0001name'"},
    {"format_version", NULL, "does not name a version"},
    {"format_version", "5", "its format has version 5, but this program reads versions up to 4"},
    {"format_version", "2", "'image' is not a list of three sizes"},
    {"format_version", "4", "'image' is not a list of three sizes"},
    {"format_version", "99999999999999999999999", "newer circe"},
    {"format_version", "0", "not a version"},
    {"format_version", "-1", "not a version"},
    {"format_version", "1.5", "not a version"},
    {"format_version", "", "not a version"},
    {"architecture", NULL, "'architecture' are missing"},
    {"architecture", "", "not a JSON object"},
    {"architecture", "[1,2]", "not a JSON object"},
    {"architecture", "{} trailing", "not a JSON object"},
    {"architecture", "{}", "'net' is not a text"},
    {"architecture", ARCHITECTURE("7", "\"relu\"", "\"mse\"", "3", "2"), "'net' is not a text"},
    {"architecture", ARCHITECTURE("\"5;4\"", "\"relu\"", "\"mse\"", "3", "2"), "not a usable predictor: network '5;4'"},
    {"architecture", ARCHITECTURE("\"1000x16384\"", "\"relu\"", "\"mse\"", "3", "2"), "the file contains 54 numbers"},
    {"architecture", ARCHITECTURE("\"999999999999x1\"", "\"relu\"", "\"mse\"", "3", "2"), "not a usable predictor"},
    {"architecture", ARCHITECTURE("\"5,9999999999999999999\"", "\"relu\"", "\"mse\"", "3", "2"), "not a usable"},
    {"architecture", ARCHITECTURE("\"5\"", "\"relu\"", "\"mse\"", "3", "2"), "'2.weight'"},
    {"architecture", ARCHITECTURE("\"5,4,4\"", "\"relu\"", "\"mse\"", "3", "2"), "'4.weight'"},
    {"architecture", ARCHITECTURE("\"5,4\"", "\"gelu\"", "\"mse\"", "3", "2"), "activation 'gelu' is not known"},
    {"architecture", ARCHITECTURE("\"5,4\"", "null", "\"mse\"", "3", "2"), "'activation' is not a text"},
    {"architecture", ARCHITECTURE("\"5,4\"", "\"relu\"", "\"hinge\"", "3", "2"), "loss 'hinge' is not known"},
    {"architecture", ARCHITECTURE("\"5,4\"", "\"relu\"", "\"mse\"", "-3", "2"), "'inputs' is not a whole number"},
    {"architecture", ARCHITECTURE("\"5,4\"", "\"relu\"", "\"mse\"", "1e300", "2"), "'inputs' is not a whole number"},
    {"architecture", ARCHITECTURE("\"5,4\"", "\"relu\"", "\"mse\"", "3", "2.5"), "'outputs' is not a whole number"},
    {"architecture", ARCHITECTURE("\"5,4\"", "\"relu\"", "\"mse\"", "3", "\"2\""), "'outputs' is not a whole number"},
    {"architecture", ARCHITECTURE("\"5,4\"", "\"relu\"", "\"mse\"", "3", "16777216"), "outputs and 2 target columns"},
    {"architecture", ARCHITECTURE("\"5,4\"", "\"relu\"", "\"mse\"", "4", "2"), "3 features for 4 inputs"},
    {"architecture", ARCHITECTURE("\"5,4\"", "\"relu\"", "\"mse\"", "3", "3"), "3 outputs and 2 target columns"},
    {"architecture", ARCHITECTURE("\"5,4\"", "\"relu\"", "\"cross_entropy\"", "3", "2"), "one target column"},
    {"columns", NULL, "'columns' are missing"},
    {"columns", "7", "not a JSON object"},
    {"columns", "{}", "'features' is not a list of names"},
    {"columns", COLUMNS("[]", TWO, ""), "'features' is not a list of names"},
    {"columns", COLUMNS("[1,2,3]", TWO, ""), "'features' is not a list of names"},
    {"columns", COLUMNS("{\"a\":\"b\"}", TWO, ""), "'features' is not a list of names"},
    {"columns", COLUMNS(THREE, "\"b\"", ""), "'target' is not a list of names"},
    {"columns", COLUMNS(THREE, THREE, ""), "'mean' has 2 numbers for 3 columns"},
    {"columns", COLUMNS(TWO, TWO, ""), "2 features for 3 inputs"},
    {"columns", COLUMNS(THREE, TWO, ",\"classes\":[\"x\"]"), "1 classes for 2 outputs"},
    {"columns", COLUMNS(THREE, TWO, ",\"classes\":[\"x\",5]"), "'classes' is not a list of names"},
    {"columns", COLUMNS(THREE, TWO, ",\"classes\":[\"x\",\"y\"]"), "only a cross-entropy model has classes"},
    {"statistics", NULL, "'statistics' are missing"},
    {"statistics", "{}", "'features' is not an object"},
    {"statistics", STATISTICS("[1,2]", GOOD_2), "'features' is not an object"},
    {"statistics", STATISTICS(GOOD_3, "null"), "'target' is not an object"},
    {"statistics", STATISTICS(GOOD_2, GOOD_2), "'mean' has 2 numbers for 3 columns"},
    {"statistics", STATISTICS(SCALE("[1,2,3]", "[1,2,3,4]"), GOOD_2), "'deviation' has 4 numbers for 3"},
    {"statistics", STATISTICS(SCALE("[1,2,\"3\"]", "[1,2,3]"), GOOD_2), "'mean' is not a list of numbers"},
    {"statistics", STATISTICS(SCALE("[1,2,3]", "5"), GOOD_2), "'deviation' is not a list of numbers"},
    {"statistics", STATISTICS(SCALE("[1,2,3]", "[1,0,3]"), GOOD_2), "deviation above 0"},
    {"statistics", STATISTICS(SCALE("[1,2,3]", "[1,-2,3]"), GOOD_2), "deviation above 0"},
    {"statistics", STATISTICS(SCALE("[1,1e999,3]", "[1,2,3]"), GOOD_2), "must be finite"},
    {"statistics", STATISTICS(GOOD_3, SCALE("[1,2]", "[1,1e999]")), "must be finite"},
    {"settings", NULL, "'settings' are missing"},
    {"settings", "not json", "not a JSON object"},
};

static const tensor_change tensor_changes[] = {
    {.name = "2.bias", .rename = NULL, .part = "no tensor '2.bias'"},
    {.name = "0.weight", .rename = "0.weights", .part = "no tensor '0.weight'"},
    {.name = "0.weight", .rename = "0.weight", .flat = true, .part = "tensor '0.weight' has the shape (15)"},
    {.name = "4.weight", .rename = "4.weight", .dtype = "I32", .part = "dtype I32"},
    {.name = "4.bias", .rename = "4.bias", .poisoned = true, .part = "NaN"},
};

static void files_refused(void **state) {
    (void)state;
    circe_context *context = test_context(0);
    const char *good = test_path("good.safetensors"), *path = test_path("changed.safetensors");
    train_model model = small_model(TRAIN_MSE), loaded;
    train_ok(train_model_save(context, &model, good));
    write_changed(context, good, path, NULL, NULL);
    train_ok(train_model_load(context, path, &loaded)); /* the changes are what is refused */
    train_model_free(&loaded);
    for (int64_t k = 0; k < COUNT(metadata_changes); k++) {
        write_changed(context, good, path, &metadata_changes[k], NULL);
        train_refused(train_model_load(context, path, &loaded), CIRCE_ERR_FORMAT, metadata_changes[k].part);
        assert_non_null(strstr(circe_last_error(), path));
        assert_true(loaded.params == NULL && loaded.net == NULL);
    }
    for (int64_t k = 0; k < COUNT(tensor_changes); k++) {
        write_changed(context, good, path, NULL, &tensor_changes[k]);
        train_refused(train_model_load(context, path, &loaded), CIRCE_ERR_FORMAT, tensor_changes[k].part);
        assert_null(loaded.params);
    }
    train_refused(train_model_load(context, test_path("absent.safetensors"), &loaded), CIRCE_ERR_IO, "absent");
    train_model_free(&model);
}

/* A tensor that the network has no place for: the file is of something else. */
static void more_tensors(void **state) {
    (void)state;
    circe_context *context = test_context(0);
    const char *good = test_path("good.safetensors"), *path = test_path("more.safetensors");
    train_model model = small_model(TRAIN_MSE), loaded;
    train_ok(train_model_save(context, &model, good));
    circe_tensor_file *file = NULL;
    circe_tensor tensors[8];
    static const float one = 1.0f;
    static const char *const keys[] = {"format", "format_version", "architecture", "columns", "statistics", "settings"};
    circe_metadata metadata[6];
    assert_ok(circe_tensor_file_open(context, good, &file));
    for (int k = 0; k < 6; k++) {
        assert_ok(circe_tensor_file_get(file, k, &tensors[k]));
        metadata[k] = (circe_metadata){keys[k], circe_tensor_file_metadata(file, keys[k])};
    }
    tensors[6] = (circe_tensor){.name = "6.bias", .dtype = "F32", .n_dims = 1, .shape = {1}, .data = &one, .bytes = 4};
    assert_ok(circe_tensor_file_write(context, path, tensors, 7, metadata, 6));
    circe_tensor_file_close(file);
    train_refused(train_model_load(context, path, &loaded), CIRCE_ERR_FORMAT, "does not use");
    train_model_free(&model);
}

/* What circe fit writes. */
static void conditional_mean_refused(void **state) {
    (void)state;
    circe_context *context = test_context(0);
    circe_mat y = test_normal(8, 50, 1), z = test_normal(9, 50, 1);
    circe_cme *cme = test_fit(context, &y, &z, "gaussian(1)", "gaussian(1)", NULL);
    const char *path = test_path("mean.safetensors");
    assert_ok(circe_cme_save(cme, path));
    train_model model;
    train_refused(train_model_load(context, path, &model), CIRCE_ERR_FORMAT, "a conditional mean from circe fit");
}

/* One to four bytes changed at random, mostly in the header, where there is something to mistake; at times the file is
 * cut as well. Returns how long it is. */
static size_t mutate(uint64_t round, const unsigned char *bytes, size_t length, unsigned char *changed) {
    static const char likely[] = "0123456789-+.e\"\\[]{},:xnulltrue";
    double u[13];
    circe_random_uniform((circe_random){.seed = 1, .stream = 77}, round * 16, 13, u);
    memcpy(changed, bytes, length);
    size_t header = bytes[0] + 256u * bytes[1], within = u[3] < 0.9 ? 8 + header : length;
    for (int k = 0; k < 1 + (int)(u[2] * 4.0); k++)
        changed[(size_t)(u[5 + k] * (double)within)] =
            u[4] < 0.6 ? (unsigned char)likely[(size_t)(u[9 + k] * 31.0)] : (unsigned char)(u[9 + k] * 256.0);
    return u[0] < 0.1 ? (size_t)(u[1] * (double)length) : length;
}

static size_t save_small(circe_context *context, const train_model *model, unsigned char *bytes, size_t capacity) {
    const char *good = test_path("good.safetensors");
    train_ok(train_model_save(context, model, good));
    FILE *file = fopen(good, "rb");
    size_t length = fread(bytes, 1, capacity, file);
    fclose(file);
    assert_true(length > 500 && length < capacity);
    return length;
}

static circe_status load_bytes(circe_context *context, const unsigned char *bytes, size_t length, train_model *loaded) {
    const char *path = test_path("mutated.safetensors");
    FILE *file = fopen(path, "wb");
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    fclose(file);
    circe_status status = train_model_load(context, path, loaded);
    if (status != CIRCE_OK) assert_true(*circe_last_error() != '\0' && loaded->params == NULL);
    return status;
}

/* A file without a checksum is refused, or it is a model that predicts. */
static void mutated(void **state) {
    enum { ROUNDS = 3000 };
    (void)state;
    circe_context *context = test_context(0);
    train_model model = small_model(TRAIN_CROSS_ENTROPY), loaded;
    unsigned char bytes[8192], changed[8192];
    size_t length = save_small(context, &model, bytes, sizeof bytes);
    train_device *device = NULL;
    train_ok(train_device_cpu(context, &device));
    circe_mat raw = test_normal(10, 3, 3), out = test_zeros(3, 3, CIRCE_FLOAT64);
    int64_t accepted = 0;
    remove_checksum(bytes, length);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        size_t kept = mutate(round, bytes, length, changed);
        if (load_bytes(context, changed, kept, &loaded) != CIRCE_OK) continue;
        train_network *network = NULL;
        accepted++;
        assert_false(loaded.has_checksum);
        if (loaded.n_features == 3 && loaded.outputs == 3) {
            train_ok(train_model_network(device, &loaded, 2, &network));
            (void)train_model_predict(network, &loaded, &raw, &out);
        }
        train_network_destroy(network);
        train_model_free(&loaded);
    }
    assert_true(accepted > 50 && accepted < ROUNDS / 2); /* some changes are to names and numbers */
    train_device_destroy(device);
    train_model_free(&model);
}

/* One with a checksum is refused, or it is the model that was saved. */
static void mutated_with_checksum(void **state) {
    enum { ROUNDS = 3000 };
    (void)state;
    circe_context *context = test_context(0);
    train_model model = small_model(TRAIN_CROSS_ENTROPY), loaded;
    unsigned char bytes[8192], changed[8192];
    size_t length = save_small(context, &model, bytes, sizeof bytes);
    train_ok(load_bytes(context, bytes, length, &loaded));
    assert_true(loaded.has_checksum);
    train_model_free(&loaded);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        size_t kept = mutate(round, bytes, length, changed);
        if (load_bytes(context, changed, kept, &loaded) != CIRCE_OK) continue;
        assert_true(loaded.has_checksum && loaded.n_params == model.n_params);
        assert_string_equal(loaded.net, model.net);
        assert_memory_equal(loaded.params, model.params, (size_t)model.n_params * sizeof *model.params);
        train_model_free(&loaded);
    }
    changed[0] = 0;
    for (size_t at = 0; at < length; at++) { /* every bit of every byte counts */
        memcpy(changed, bytes, length);
        changed[at] ^= (unsigned char)(1 << at % 8);
        assert_int_not_equal(load_bytes(context, changed, length, &loaded), CIRCE_OK);
    }
    train_model_free(&model);
}

/* What cannot be saved, and a file that a failed save leaves alone. */
static void saves_refused(void **state) {
    (void)state;
    circe_context *context = test_context(0);
    const char *path = test_path("kept.safetensors");
    train_model model = small_model(TRAIN_MSE), loaded;
    train_ok(train_model_save(context, &model, path));
    model.n_params--;
    train_refused(train_model_save(context, &model, path), CIRCE_ERR_SHAPE,
                  "53 parameters, but a network 5,4 from 3 to 2 has 54");
    model.n_params++;
    char *settings = model.settings;
    model.settings = (char *)(uintptr_t) "{";
    train_refused(train_model_save(context, &model, path), CIRCE_ERR_ARGUMENT, "not a JSON object");
    model.settings = settings;
    model.feature_scale.deviation[1] = NAN;
    train_refused(train_model_save(context, &model, path), CIRCE_ERR_VALUE, "feature column 1");
    model.feature_scale.deviation[1] = 1.0;
    model.outputs = 3;
    train_refused(train_model_save(context, &model, path), CIRCE_ERR_SHAPE, "3 outputs and 2 target columns");
    model.outputs = 2;
    model.activation = TRAIN_DENSE;
    train_refused(train_model_save(context, &model, path), CIRCE_ERR_ARGUMENT, "not an activation");
    model.activation = TRAIN_RELU;
    train_refused(train_model_save(context, &model, test_path("no/such/folder")), CIRCE_ERR_WRITE, "folder");
    train_ok(train_model_load(context, path, &loaded));
    assert_memory_equal(loaded.params, model.params, (size_t)model.n_params * sizeof *model.params);
    train_model_free(&loaded);
    train_model_free(&model);
}

TEST_MAIN("table", TEST(scaler_round_trip), TEST(scaler_of_rows), TEST(scaler_extremes), TEST(scaler_refusals),
          TEST(split_partition), TEST(split_seeds), TEST(split_refusals), TEST(model_round_trip), TEST(model_tensors),
          TEST(predictions), TEST(large_outputs), TEST(predict_refusals), TEST(files_refused), TEST(more_tensors),
          TEST(conditional_mean_refused), TEST(mutated), TEST(mutated_with_checksum), TEST(saves_refused))
