/* Predictors of images as files: what is written is what is read, a network comes back with the running means and
 * variances of its batch norm, images are predicted as they were in training whatever they are stored as, and files
 * that are none are refused.
 *
 * Numbers are compared bit for bit: the same network on the same floats. */
#include "circe/status.h"
#include "tests/train/train_support.h"
#include "train/model.h"
#include "train/network_predict.h"

enum { SIDE = 6, PIXELS = SIDE * SIDE, POINTS = 11 };

/* ---- images and a model of them ---------------------------------------------------------------------------------- */

/* The same points as bits, as bytes, and as what the network is to see of them: 3 v - 1. */
typedef struct pictures {
    unsigned char bits[POINTS][(PIXELS + 7) / 8], bytes[POINTS][PIXELS];
    float seen[POINTS][PIXELS];
} pictures;

static void draw(pictures *p) {
    circe_mat u = test_uniform(3, POINTS, PIXELS);
    memset(p, 0, sizeof *p);
    for (int64_t i = 0; i < POINTS; i++)
        for (int64_t j = 0; j < PIXELS; j++) {
            bool white = test_at(&u, i, j) < 0.5;
            if (white) p->bits[i][j / 8] |= (unsigned char)(0x80 >> j % 8);
            p->bytes[i][j] = white ? 255 : 0;
            p->seen[i][j] = white ? 2.0F : -1.0F;
        }
}

/* With scale, offset and background of somebody who does not know the model. */
static train_source source_of(const pictures *p, train_element element) {
    return (train_source){.element = element,
                          .values = element == TRAIN_BITS ? (const void *)p->bits : (const void *)p->bytes,
                          .n_stored = POINTS,
                          .stride = element == TRAIN_BITS ? (int64_t)sizeof p->bits[0] : PIXELS,
                          .n = POINTS,
                          .channels = 1,
                          .height = SIDE,
                          .width = SIDE,
                          .repeat = 1,
                          .scale = 77.0F};
}

static train_network *make_network(train_device *device, const char *net, int64_t outputs) {
    train_layer_spec *specs = NULL;
    int64_t n = 0;
    train_network *network = NULL;
    train_ok(train_network_parse(net, TRAIN_LEAKY_RELU, outputs, &specs, &n));
    train_ok(train_network_create(device, (train_shape){3, {1, SIDE, SIDE}}, specs, n, 4, &network));
    train_ok(train_network_initialise(network, TRAIN_START_HE, 5));
    free(specs);
    return network;
}

static char **one_name(const char *name) {
    char **names = calloc(1, sizeof *names);
    names[0] = strdup(name);
    return names;
}

/* A model of `network`, whose running means have moved. */
static train_model make_model(train_network *network, const char *net, train_loss_kind loss, const pictures *p) {
    bool mse = loss == TRAIN_MSE;
    train_model m = {.net = strdup(net),
                     .activation = TRAIN_LEAKY_RELU,
                     .loss = loss,
                     .outputs = mse ? 1 : 2,
                     .target = one_name("posY"),
                     .n_target = 1,
                     .image = {3, {1, SIDE, SIDE}},
                     .pixel_scale = 3.0,
                     .pixel_offset = -1.0,
                     .settings = strdup("{\"seed\":7}")};
    if (mse) {
        m.target_scale =
            (train_scaler){.cols = 1, .mean = calloc(1, sizeof(double)), .deviation = calloc(1, sizeof(double))};
        m.target_scale.mean[0] = 1.0 / 3.0;
        m.target_scale.deviation[0] = 1.0 / 7.0;
    }
    train_ok(train_network_forward(network, 4, p->seen[0]));
    train_ok(train_model_take(network, &m));
    return m;
}

static const char net_text[] = "conv3n,pool2,res4s2,4";

typedef struct objects {
    circe_context *context;
    train_device *device;
    train_network *network;
    train_model model;
    pictures pictures;
} objects;

static objects *make(train_loss_kind loss) {
    objects *o = test_memory(sizeof *o);
    o->context = test_context(1);
    draw(&o->pictures);
    train_ok(train_device_cpu(o->context, &o->device));
    o->network = make_network(o->device, net_text, loss == TRAIN_MSE ? 1 : 2);
    o->model = make_model(o->network, net_text, loss, &o->pictures);
    return o;
}

static void drop(objects *o) {
    train_model_free(&o->model);
    train_network_destroy(o->network);
    train_device_destroy(o->device);
}

/* ---- what is written is what is read ------------------------------------------------------------------------------
 */

static void same_file(const char *a, const char *b) {
    FILE *one = fopen(a, "rb"), *other = fopen(b, "rb");
    assert_true(one != NULL && other != NULL);
    for (int x = 0, y = 0; x != EOF;) {
        x = fgetc(one);
        y = fgetc(other);
        assert_int_equal(x, y);
    }
    fclose(one);
    fclose(other);
}

static void round_trip(void **state) {
    (void)state;
    if (!CIRCE_ONEDNN) test_skip("built without oneDNN");
    const char *path = test_path("model.safetensors"), *second = test_path("second.safetensors");
    for (int loss = TRAIN_MSE; loss <= TRAIN_CROSS_ENTROPY; loss++) {
        objects *o = make((train_loss_kind)loss);
        const train_model *saved = &o->model;
        train_model loaded;
        train_ok(train_model_save(o->context, saved, path));
        train_ok(train_model_load(o->context, path, &loaded));
        assert_true(train_model_has_images(&loaded) && loaded.n_features == 0 && loaded.features == NULL);
        assert_int_equal(loaded.image.n_dims, saved->image.n_dims);
        assert_memory_equal(loaded.image.size, saved->image.size,
                            (size_t)saved->image.n_dims * sizeof *saved->image.size);
        assert_true(loaded.pixel_scale == 3.0 && loaded.pixel_offset == -1.0);
        assert_string_equal(loaded.net, saved->net);
        assert_string_equal(loaded.target[0], "posY");
        assert_true(loaded.loss == saved->loss && loaded.outputs == saved->outputs);
        assert_true(loaded.n_params == saved->n_params && loaded.n_buffers == saved->n_buffers);
        assert_int_equal(loaded.n_buffers, 2 * (3 + 4 + 4 + 4));
        assert_memory_equal(loaded.params, saved->params, (size_t)saved->n_params * sizeof(float));
        assert_memory_equal(loaded.buffers, saved->buffers, (size_t)saved->n_buffers * sizeof(float));
        bool moved = false; /* they start at 0 and 1 */
        for (int64_t i = 0; i < loaded.n_buffers; i++)
            moved = moved || (loaded.buffers[i] != 0.0F && loaded.buffers[i] != 1.0F);
        assert_true(moved);
        train_ok(train_model_save(o->context, &loaded, second));
        same_file(path, second);
        circe_tensor_file *file = NULL;
        circe_tensor tensor;
        assert_ok(circe_tensor_file_open(o->context, path, &file));
        assert_string_equal(circe_tensor_file_metadata(file, "format_version"), "4");
        assert_ok(circe_tensor_file_find(file, "1.running_var", &tensor)); /* as PyTorch names it */
        assert_int_equal(tensor.shape[0], 3);
        circe_tensor_file_close(file);
        train_model_free(&loaded);
        drop(o);
    }
}

/* ---- predictions --------------------------------------------------------------------------------------------------
 */

static void check_predictions(objects *o, const train_model *model) {
    train_network *network = NULL;
    float t[POINTS][2];
    circe_mat out = test_zeros(POINTS, model->outputs, CIRCE_FLOAT64);
    train_ok(train_network_predict(o->network, POINTS, o->pictures.seen[0], &t[0][0]));
    train_ok(train_model_network(o->device, model, 4, &network));
    for (int element = TRAIN_BYTES; element <= TRAIN_BITS; element++) {
        train_source source = source_of(&o->pictures, (train_element)element);
        train_ok(train_model_predict_source(network, model, &source, &out));
        for (int64_t i = 0; i < POINTS; i++) {
            if (model->loss == TRAIN_MSE) {
                double expected = (double)((float *)t)[i] * model->target_scale.deviation[0] + 1.0 / 3.0;
                assert_true(test_at(&out, i, 0) == expected);
                continue;
            }
            double e = exp((double)t[i][1] - (double)t[i][0]);
            assert_near(test_at(&out, i, 1), e / (1.0 + e), 1e-12, 1.0); /* another order of the same sums */
            assert_near(test_at(&out, i, 0) + test_at(&out, i, 1), 1.0, 1e-15, 1.0);
        }
    }
    train_network_destroy(network);
}

static void predictions(void **state) {
    (void)state;
    if (!CIRCE_ONEDNN) test_skip("built without oneDNN");
    const char *path = test_path("model.safetensors");
    for (int loss = TRAIN_MSE; loss <= TRAIN_CROSS_ENTROPY; loss++) {
        objects *o = make((train_loss_kind)loss);
        train_model loaded;
        check_predictions(o, &o->model);
        train_ok(train_model_save(o->context, &o->model, path));
        train_ok(train_model_load(o->context, path, &loaded));
        check_predictions(o, &loaded);
        train_model_free(&loaded);
        drop(o);
    }
}

static void predict_refusals(void **state) {
    (void)state;
    if (!CIRCE_ONEDNN) test_skip("built without oneDNN");
    objects *o = make(TRAIN_MSE);
    circe_mat out = test_zeros(POINTS, 1, CIRCE_FLOAT64), raw = test_zeros(POINTS, PIXELS, CIRCE_FLOAT64);
    circe_mat short_out = test_zeros(POINTS - 1, 1, CIRCE_FLOAT64);
    train_source source = source_of(&o->pictures, TRAIN_BYTES), other = source;
    train_refused(train_model_predict(o->network, &o->model, &raw, &out), CIRCE_ERR_ARGUMENT,
                  "trained on images of 6 by 6, not on a table");
    train_refused(train_model_predict_source(o->network, &o->model, &source, &short_out), CIRCE_ERR_SHAPE, "11 by 1");
    other.height = 4;
    other.width = 9;
    train_refused(train_model_predict_source(o->network, &o->model, &other, &out), CIRCE_ERR_SHAPE,
                  "features are 1 by 4 by 9; the network needs 1 by 6 by 6");
    other = source;
    other.values = NULL;
    train_refused(train_model_predict_source(o->network, &o->model, &other, &out), CIRCE_ERR_ARGUMENT, "no values");
    train_network *wide = make_network(o->device, net_text, 2);
    train_refused(train_model_predict_source(wide, &o->model, &source, &out), CIRCE_ERR_SHAPE,
                  "does not fit the model");
    train_network_destroy(wide);
    train_model table = {.n_features = 3};
    train_refused(train_model_predict_source(o->network, &table, &source, &out), CIRCE_ERR_ARGUMENT,
                  "trained on a table of 3 columns");
    drop(o);
}

/* ---- models and files that are none -------------------------------------------------------------------------------
 */

static void parts_refused(void **state) {
    (void)state;
    if (!CIRCE_ONEDNN) test_skip("built without oneDNN");
    objects *o = make(TRAIN_MSE);
    const char *path = test_path("model.safetensors");
    train_model *m = &o->model, kept = *m;
#define REFUSED(status, part)                                           \
    train_refused(train_model_save(o->context, m, path), status, part); \
    *m = kept
    m->image.size[1] = 0;
    REFUSED(CIRCE_ERR_SHAPE, "1 by 0 by 6");
    m->image.size[2] = 1 << 24;
    REFUSED(CIRCE_ERR_SHAPE, "2^24");
    m->image.n_dims = 2;
    REFUSED(CIRCE_ERR_SHAPE, "3 dimensions, not 2");
    m->pixel_scale = 0.0;
    REFUSED(CIRCE_ERR_VALUE, "scale not 0");
    m->pixel_offset = NAN;
    REFUSED(CIRCE_ERR_VALUE, "must be finite");
    m->n_features = 2;
    REFUSED(CIRCE_ERR_ARGUMENT, "no columns of features");
    m->n_params--;
    REFUSED(CIRCE_ERR_SHAPE, "a network conv3n,pool2,res4s2,4 from 36 to 1 has");
    m->n_buffers = 0;
    REFUSED(CIRCE_ERR_SHAPE, "a network conv3n,pool2,res4s2,4 has 30");
    m->buffers = NULL;
    REFUSED(CIRCE_ERR_SHAPE, "has 0 running means");
    m->image.size[1] = m->image.size[2] = 40; /* more weights behind the flattening */
    REFUSED(CIRCE_ERR_SHAPE, "parameters, but a network");
    m->target = NULL;
    REFUSED(CIRCE_ERR_ARGUMENT, "names of its target");
#undef REFUSED
    drop(o);
}

typedef struct change {
    const char *key, *value, *part;
} change;

#define ARCHITECTURE(net, image, pixels)                                                                     \
    "{\"net\":" net ",\"activation\":\"leaky_relu\",\"loss\":\"mse\",\"image\":" image ",\"pixels\":" pixels \
    ",\"outputs\":1}"
#define NET "\"conv3n,pool2,res4s2,4\""
#define GOOD_PIXELS "{\"scale\":3,\"offset\":-1}"

static const change changes[] = {
    {"format_version", "1", "'inputs' is not a whole number"},
    {"format_version", "3", "'inputs' is not a whole number"},
    {"format_version", "5", "reads versions up to 4"},
    {"architecture", ARCHITECTURE(NET, "7", GOOD_PIXELS), "'image' is not a list of three sizes"},
    {"architecture", ARCHITECTURE(NET, "[1,6]", GOOD_PIXELS), "'image' is not a list of three sizes"},
    {"architecture", ARCHITECTURE(NET, "[1,6,6,1]", GOOD_PIXELS), "'image' is not a list of three sizes"},
    {"architecture", ARCHITECTURE(NET, "[1,6,\"6\"]", GOOD_PIXELS), "whole numbers from 1"},
    {"architecture", ARCHITECTURE(NET, "[1,6,0]", GOOD_PIXELS), "whole numbers from 1"},
    {"architecture", ARCHITECTURE(NET, "[1,6,6.5]", GOOD_PIXELS), "whole numbers from 1"},
    {"architecture", ARCHITECTURE(NET, "[1,16777216,16777216]", GOOD_PIXELS), "2^24"},
    {"architecture", ARCHITECTURE(NET, "[3,6,6]", GOOD_PIXELS), "'0.weight'"},
    {"architecture", ARCHITECTURE(NET, "[1,6,6]", "3"), "'pixels' is not an object"},
    {"architecture", ARCHITECTURE(NET, "[1,6,6]", "{\"scale\":3}"), "'offset' is not a finite number"},
    {"architecture", ARCHITECTURE(NET, "[1,6,6]", "{\"scale\":1e999,\"offset\":1}"), "'scale' is not a finite number"},
    {"architecture", ARCHITECTURE(NET, "[1,6,6]", "{\"scale\":0,\"offset\":1}"), "scale not 0"},
    {"architecture", ARCHITECTURE("\"conv3n,pool2,res4s2,5\"", "[1,6,6]", GOOD_PIXELS), "weight'"},
    {"architecture", ARCHITECTURE("\"conv3q\"", "[1,6,6]", GOOD_PIXELS), "network 'conv3q'"},
    {"architecture", ARCHITECTURE("\"conv3n,pool7,4\"", "[1,6,6]", GOOD_PIXELS), "not a usable predictor"},
    {"architecture", ARCHITECTURE("\"9xconv9999\"", "[1,6,6]", GOOD_PIXELS), "the file contains"},
    {"columns", "{}", "'target' is not a list of names"},
    {"statistics", "{}", "'target' is not an object"},
};

static void write_changed(circe_context *context, const char *from, const char *to, const change *c, const char *tensor,
                          bool poisoned) {
    static const char *const keys[] = {"format", "format_version", "architecture", "columns", "statistics", "settings"};
    enum { MOST = 64 };
    static const float bad[64] = {NAN};
    circe_metadata metadata[COUNT(keys)];
    circe_tensor tensors[MOST];
    circe_tensor_file *file = NULL;
    int64_t n = 0;
    assert_ok(circe_tensor_file_open(context, from, &file));
    for (int64_t k = 0; k < COUNT(keys); k++) {
        const char *value = circe_tensor_file_metadata(file, keys[k]);
        metadata[k] = (circe_metadata){keys[k], c != NULL && strcmp(c->key, keys[k]) == 0 ? c->value : value};
    }
    assert_true(circe_tensor_file_count(file) < MOST);
    for (int64_t k = 0; k < circe_tensor_file_count(file); k++) {
        assert_ok(circe_tensor_file_get(file, k, &tensors[n]));
        bool meant = tensor != NULL && strcmp(tensor, tensors[n].name) == 0;
        if (meant && poisoned) tensors[n].data = bad;
        if (!meant || poisoned) n++;
    }
    assert_ok(circe_tensor_file_write(context, to, tensors, n, metadata, COUNT(keys)));
    circe_tensor_file_close(file);
}

static void files_refused(void **state) {
    (void)state;
    if (!CIRCE_ONEDNN) test_skip("built without oneDNN");
    objects *o = make(TRAIN_MSE);
    const char *good = test_path("good.safetensors"), *path = test_path("changed.safetensors");
    train_model loaded;
    train_ok(train_model_save(o->context, &o->model, good));
    write_changed(o->context, good, path, NULL, NULL, false);
    train_ok(train_model_load(o->context, path, &loaded)); /* the changes are what is refused */
    train_model_free(&loaded);
    for (int64_t k = 0; k < COUNT(changes); k++) {
        write_changed(o->context, good, path, &changes[k], NULL, false);
        train_refused(train_model_load(o->context, path, &loaded), CIRCE_ERR_FORMAT, changes[k].part);
        assert_non_null(strstr(circe_last_error(), path));
        assert_true(loaded.params == NULL && loaded.buffers == NULL);
    }
    write_changed(o->context, good, path, NULL, "1.running_mean", false);
    train_refused(train_model_load(o->context, path, &loaded), CIRCE_ERR_FORMAT, "'1.running_mean'");
    write_changed(o->context, good, path, NULL, "1.running_var", true);
    train_refused(train_model_load(o->context, path, &loaded), CIRCE_ERR_FORMAT, "NaN");
    assert_true(loaded.params == NULL && loaded.buffers == NULL);
    drop(o);
}

/* Bytes changed at random in the header: a file is refused or it is a model that predicts. */
static void mutated(void **state) {
    (void)state;
    if (!CIRCE_ONEDNN) test_skip("built without oneDNN");
    enum { ROUNDS = 400, MOST = 1 << 15 };
    objects *o = make(TRAIN_MSE);
    const char *good = test_path("good.safetensors"), *path = test_path("mutated.safetensors");
    unsigned char *bytes = test_memory(MOST), *changed = test_memory(MOST);
    circe_mat out = test_zeros(POINTS, 1, CIRCE_FLOAT64);
    train_source source = source_of(&o->pictures, TRAIN_BITS);
    train_ok(train_model_save(o->context, &o->model, good));
    FILE *file = fopen(good, "rb");
    size_t length = fread(bytes, 1, MOST, file);
    fclose(file);
    assert_true(length > 500 && length < MOST);
    size_t header = bytes[0] + 256u * bytes[1];
    int64_t accepted = 0;
    remove_checksum(bytes, length);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        static const char likely[] = "0123456789-+.e\"\\[]{},:xnulltrue";
        double u[6];
        circe_random_uniform((circe_random){.seed = 1, .stream = 78}, round * 8, 6, u);
        memcpy(changed, bytes, length);
        for (int k = 0; k < 1 + (int)(u[0] * 2.0); k++)
            changed[8 + (size_t)(u[1 + k] * (double)header)] = (unsigned char)likely[(size_t)(u[3 + k] * 31.0)];
        file = fopen(path, "wb");
        assert_int_equal(fwrite(changed, 1, length, file), length);
        fclose(file);
        train_model loaded;
        if (train_model_load(o->context, path, &loaded) != CIRCE_OK) {
            assert_true(*circe_last_error() != '\0' && loaded.params == NULL);
            continue;
        }
        train_network *network = NULL;
        accepted++;
        train_ok(train_model_network(o->device, &loaded, 2, &network));
        (void)train_model_predict_source(network, &loaded, &source, &out);
        train_network_destroy(network);
        train_model_free(&loaded);
    }
    assert_true(accepted > 10 && accepted < ROUNDS / 2); /* some changes are to names and numbers */
    drop(o);
}

TEST_MAIN("image_model", TEST(round_trip), TEST(predictions), TEST(predict_refusals), TEST(parts_refused),
          TEST(files_refused), TEST(mutated))
