/* The training loop on images: bits, bytes and floats of the same pixels train the same network; networks with batch
 * norm, whose running means and variances are resumed, validated and put back with the rest; regularised layers whose
 * outputs are images; predictions.
 *
 * Tolerances are stated where they are used. Runs on one machine with one number of threads are compared bit for bit.
 */
#include "tests/train/trainer_support.h"

enum { SIDE = 6, STORED_IMAGES = 30 };

/* Random images, as bits and as the bytes and floats of the same pixels. */
typedef struct picture_set {
    unsigned char bits[STORED_IMAGES][(SIDE * SIDE + 7) / 8], bytes[STORED_IMAGES][SIDE * SIDE];
    int32_t stored[64];
    int8_t shift[64];
} picture_set;

static void draw_pictures(uint64_t stream, picture_set *p) {
    circe_mat u = test_uniform(stream, STORED_IMAGES + 4, SIDE * SIDE);
    memset(p, 0, sizeof *p);
    for (int64_t i = 0; i < STORED_IMAGES; i++)
        for (int64_t j = 0; j < SIDE * SIDE; j++) {
            bool white = test_at(&u, i, j) < 0.5;
            p->bytes[i][j] = white ? 255 : 0;
            if (white) p->bits[i][j / 8] |= (unsigned char)(0x80 >> j % 8);
        }
    for (int64_t i = 0; i < 64; i++) {
        p->stored[i] = (int32_t)(test_at(&u, STORED_IMAGES + i / 32, i % 32) * STORED_IMAGES);
        p->shift[i] = (int8_t)(test_at(&u, STORED_IMAGES + 2 + i / 32, i % 32) * 5.0 - 2.0);
    }
}

static train_source picture_source(const picture_set *p, train_element element, int64_t n) {
    return (train_source){.element = element,
                          .values = element == TRAIN_BITS ? (const void *)p->bits : (const void *)p->bytes,
                          .n_stored = STORED_IMAGES,
                          .stride = element == TRAIN_BITS ? (int64_t)sizeof p->bits[0] : SIDE * SIDE,
                          .n = n,
                          .stored = p->stored,
                          .shift = p->shift,
                          .channels = 1,
                          .height = SIDE,
                          .width = SIDE,
                          .repeat = 1,
                          .scale = element == TRAIN_BITS ? 2.0F : 2.0F / 255.0F,
                          .offset = -1.0F,
                          .background = -1.0F};
}

/* What the network sees, as a table. */
static train_source as_floats(const train_source *s) {
    circe_mat m = test_zeros(s->n, SIDE * SIDE, CIRCE_FLOAT32);
    for (int64_t i = 0; i < s->n; i++)
        for (int64_t y = 0; y < SIDE; y++)
            for (int64_t x = 0; x < SIDE; x++) {
                int64_t from = y - s->shift[i], at = from * SIDE + x;
                const unsigned char *row = (const unsigned char *)s->values + s->stored[i] * s->stride;
                bool white = from >= 0 && from < SIDE && (row[at / 8] & 0x80 >> at % 8) != 0;
                ((float *)m.data)[(i * SIDE + y) * SIDE + x] = white ? 1.0F : -1.0F;
            }
    return train_source_floats(&m);
}

/* The problem on images, for a dense network. */
static outcome run_pictures(const problem *p, const train_source *training, const train_source *validation) {
    problem on_images = *p;
    on_images.net = "5";
    on_images.input = (train_shape){1, {SIDE * SIDE}};
    on_images.training_features = training;
    on_images.validation_features = validation;
    return run(&on_images);
}

/* Bits, bytes and floats of the same images train the same network; a checkpoint of bits is resumed with bits, whatever
 * lies in memory that is never shown. */
static void images(void **state) {
    (void)state;
    picture_set pictures[2];
    problem p = small_problem(CIRCE_MEASURE_CIRCE);
    draw_pictures(60, &pictures[0]);
    draw_pictures(61, &pictures[1]);
    train_source bits[2], bytes[2], floats[2];
    for (int k = 0; k < 2; k++) {
        int64_t n = k == 0 ? p.rows : p.validation_rows;
        bits[k] = picture_source(&pictures[k], TRAIN_BITS, n);
        bytes[k] = picture_source(&pictures[k], TRAIN_BYTES, n);
        floats[k] = as_floats(&bits[k]);
    }
    outcome a = run_pictures(&p, &bits[0], &bits[1]), b = run_pictures(&p, &bytes[0], &bytes[1]);
    outcome c = run_pictures(&p, &floats[0], &floats[1]);
    train_ok(a.status);
    assert_same(&a, &b);
    assert_same(&a, &c);

    stopper s = {.at = 7};
    p.options.checkpoint = test_path("run.safetensors");
    p.options.resume = 1;
    p.options.progress = stop_at;
    p.options.user = &s;
    assert_true(run_pictures(&p, &bits[0], &bits[1]).result.interrupted);
    p.options.progress = NULL;
    long bytes_there;
    char *kept = read_file(p.options.checkpoint, &bytes_there);
    pictures[0].bits[pictures[0].stored[11]][1] ^= 4;
    train_refused(run_pictures(&p, &bits[0], &bits[1]).status, CIRCE_ERR_ARGUMENT, "another run: data is '");
    pictures[0].bits[pictures[0].stored[11]][1] ^= 4;
    pictures[0].shift[3] ^= 1;
    train_refused(run_pictures(&p, &bits[0], &bits[1]).status, CIRCE_ERR_ARGUMENT, "another run: data is '");
    pictures[0].shift[3] ^= 1;
    bits[1].background = 0.0F;
    train_refused(run_pictures(&p, &bits[0], &bits[1]).status, CIRCE_ERR_ARGUMENT, "another run: data is '");
    bits[1].background = -1.0F;
    pictures[0].stored[p.rows] = 0; /* a point that there is not */
    for (int32_t row = 0; row < STORED_IMAGES; row++) {
        bool shown = false;
        for (int64_t i = 0; i < p.rows; i++) shown = shown || pictures[0].stored[i] == row;
        if (!shown) memset(pictures[0].bits[row], 0x55, sizeof pictures[0].bits[row]);
    }
    outcome again = run_pictures(&p, &bits[0], &bits[1]);
    train_ok(again.status);
    assert_true(again.result.resumed);
    assert_same(&again, &a);
    write_file(p.options.checkpoint, kept, bytes_there);
    p.threads = 1; /* the hash is that of any number of them */
    train_ok(run_pictures(&p, &bits[0], &bits[1]).status);
}

/* A network with batch norm, which keeps running means and variances, on images; a batch of 8 and 6 by 6 pixels. */
typedef struct image_problem {
    picture_set pictures[2];
    train_source sources[2];
    problem p;
} image_problem;

static image_problem *normed(void) {
    image_problem *made = test_memory(sizeof *made);
    made->p = small_problem(CIRCE_MEASURE_CIRCE);
    made->p.net = "conv3n,pool2,res4s2,4";
    made->p.input = (train_shape){3, {1, SIDE, SIDE}};
    made->p.options.epochs = 3;
    made->p.threads = 1; /* batch norm spins where threads meet, which takes long where others have the cores */
    for (int k = 0; k < 2; k++) {
        draw_pictures(63 + (uint64_t)k, &made->pictures[k]);
        made->sources[k] =
            picture_source(&made->pictures[k], TRAIN_BITS, k == 0 ? made->p.rows : made->p.validation_rows);
    }
    made->p.training_features = &made->sources[0];
    made->p.validation_features = &made->sources[1];
    return made;
}

static void resume_images(void **state) {
    (void)state;
    if (!CIRCE_ONEDNN) test_skip("built without oneDNN");
    image_problem *made = normed();
    problem *p = &made->p;
    outcome out = run_ok(p);
    assert_true(out.n_buffers == 2 * (3 + 4 + 4 + 4));
    check_resume(p);
    p->options.patience = 1;
    p->options.rate = 0.3;
    p->options.epochs = 5;
    out = run_ok(p);
    assert_true(out.result.stopped_early); /* what was best is then carried from file to file */
    check_resume(p);
}

/* Validation is of the network as it will be used, with what was best put back whole; and it leaves no trace. */
static void validates_images(void **state) {
    (void)state;
    if (!CIRCE_ONEDNN) test_skip("built without oneDNN");
    image_problem *made = normed();
    problem *p = &made->p;
    for (int patience = 0; patience < 2; patience++) {
        train_result result;
        float prediction[21];
        double loss = 0.0;
        p->options.patience = patience;
        if (patience > 0) p->options.rate = 0.3, p->options.epochs = 5;
        objects o = make(p);
        train_ok(train_run(o.network, o.regularizer, &o.data, &o.validation, &p->options, &result));
        int64_t judged = patience > 0 ? result.best_epoch : result.epochs_done - 1;
        assert_true(patience == 0 || judged < result.epochs_done - 1);
        train_ok(train_predict(o.network, &made->sources[1], prediction));
        for (int64_t i = 0; i < 21; i++)
            loss += pow((double)prediction[i] - test_at(&o.validation.target, i, 0), 2.0) / 21.0;
        assert_near(loss, result.history[judged].validation_loss, 1e-6, loss); /* float32 sums in another order */
        train_result_free(&result);
        drop(&o);
    }
    made = normed();
    outcome each = run_ok(&made->p);
    made->p.options.validate_every = 3;
    outcome once = run_ok(&made->p);
    assert_true(same_bits(each.params, once.params, (size_t)each.n_params * sizeof *each.params));
    assert_true(same_bits(each.buffers, once.buffers, (size_t)each.n_buffers * sizeof *each.buffers));
}

/* Layers whose outputs are images, or are not stored unless somebody asks: with and without a gradient. */
static void inner_images(void **state) {
    (void)state;
    if (!CIRCE_ONEDNN) test_skip("built without oneDNN");
    static const int64_t layers[] = {1, 3}; /* batch norm, which applies its activation itself; a pool */
    image_problem *made = normed();
    made->p.activation = TRAIN_RELU;
    problem *p = &made->p, none = *p;
    none.regularizer.kind = CIRCE_MEASURE_NONE;
    outcome plain = run_ok(&none);
    p->options.layers = layers;
    p->options.n_layers = COUNT(layers);
    p->options.gamma = 0.0;
    outcome measured = run_ok(p);
    assert_true(measured.history[0].regularizer != 0.0);
    double most = 0.0; /* other primitives may round otherwise: float32 over 15 steps of 0.01 */
    for (int64_t i = 0; i < plain.n_params; i++)
        most = fmax(most, fabs((double)plain.params[i] - (double)measured.params[i]));
    assert_true(most < 1e-3);
    p->options.gamma = 10.0;
    check_resume(p);
    /* A network that was regularised and is trained on without is as if it never had been. */
    objects o = make(p);
    train_result result;
    train_ok(train_run(o.network, o.regularizer, &o.data, &o.validation, &p->options, &result));
    train_result_free(&result);
    train_ok(train_network_initialise(o.network, TRAIN_START_HE, 7));
    train_ok(train_run(o.network, NULL, &o.data, &o.validation, &none.options, &result));
    most = 0.0;
    float *params = params_of(&o);
    for (int64_t i = 0; i < plain.n_params; i++) most = fmax(most, fabs((double)plain.params[i] - (double)params[i]));
    assert_true(most < 1e-3);
    train_result_free(&result);
    drop(&o);
}

/* What is told of a checkpoint of another network for images. */
static void foreign_images(void **state) {
    (void)state;
    if (!CIRCE_ONEDNN) test_skip("built without oneDNN");
    image_problem *made = normed();
    problem *p = &made->p, q;
    p->options.checkpoint = test_path("run.safetensors");
    p->options.resume = 1;
    p->net = "conv3k3p1,4";
    run_stopped(p, 5);
    static const char *const others[] = {"conv3k5p2,4", "conv3k3p1n,4", "conv3k3p1,pool2s2,4", "res3,4"};
    for (int64_t k = 0; k < COUNT(others); k++) {
        q = *p;
        q.net = others[k];
        refused(&q, CIRCE_ERR_ARGUMENT, "network is '");
    }
    q = *p;
    q.input.size[1] = 4; /* images that are not the network's */
    refused(&q, CIRCE_ERR_SHAPE, "features are 1 by 6 by 6; the network needs 1 by 4 by 6");
    run_ok(p);
}

/* Batches of four of ten points; a point that is refused, and a shape. */
static void predicts_images(void **state) {
    (void)state;
    picture_set pictures;
    train_device *device = NULL;
    train_network *network = NULL;
    train_layer_spec *specs = NULL;
    int64_t n_specs = 0;
    float out[10][2], expected[10][2];
    draw_pictures(62, &pictures);
    train_source bits = picture_source(&pictures, TRAIN_BITS, 10), floats = as_floats(&bits);
    train_ok(train_device_cpu(test_context(1), &device));
    train_ok(train_network_parse("5", TRAIN_TANH, 2, &specs, &n_specs));
    train_ok(train_network_create(device, (train_shape){1, {SIDE * SIDE}}, specs, n_specs, 4, &network));
    train_ok(train_network_initialise(network, TRAIN_START_HE, 9));
    train_ok(train_network_predict(network, 10, floats.values, &expected[0][0]));
    train_ok(train_predict(network, &bits, &out[0][0]));
    assert_true(same_bits(out, expected, sizeof out));
    bits.n = 0;
    train_ok(train_predict(network, &bits, NULL));
    bits.n = 10;
    pictures.stored[9] = 99;
    train_refused(train_predict(network, &bits, &out[0][0]), CIRCE_ERR_VALUE, "point 9 refers to stored row 99");
    pictures.stored[9] = 0;
    bits.repeat = 3;
    train_refused(train_predict(network, &bits, &out[0][0]), CIRCE_ERR_SHAPE, "108 columns; the network needs 36");
    free(specs);
    train_network_destroy(network);
    train_device_destroy(device);
}

TEST_MAIN("trainer_images", TEST(images), TEST(resume_images), TEST(validates_images), TEST(inner_images),
          TEST(foreign_images), TEST(predicts_images))
