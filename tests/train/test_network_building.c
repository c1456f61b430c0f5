/* What networks are made of: layers and their names, how parameters start, networks as text, parameters as named
 * tensors of a file; and what is refused. */
#include "tests/measures/dense_support.h"

/* ---- what networks are made of ---------------------------------------------------------------------------------- */

static void networks_refused(void **state) {
    (void)state;
    train_device *device = make_device(1);
    train_network *network = (train_network *)device; /* must be overwritten */
    train_shape input = {1, {3}};
    train_layer_spec dense = {.kind = TRAIN_DENSE, .width = 2}, bad = dense;
    train_refused(train_network_create(device, input, &dense, 0, 1, &network), CIRCE_ERR_ARGUMENT, "1 to 2001 layers");
    assert_null(network);
    train_refused(train_network_create(device, input, &dense, 1, 0, &network), CIRCE_ERR_ARGUMENT, "max_batch is 0");
    input.size[0] = 0;
    train_refused(train_network_create(device, input, &dense, 1, 1, &network), CIRCE_ERR_SHAPE, "size 0");
    input = (train_shape){2, {3, 3}};
    train_refused(train_network_create(device, input, &dense, 1, 1, &network), CIRCE_ERR_SHAPE, "1 or 3 dimensions");
    input = (train_shape){1, {3}};
    bad.width = 0;
    train_refused(train_network_create(device, input, &bad, 1, 1, &network), CIRCE_ERR_ARGUMENT,
                  "layer 0: its width is 0");
    bad.kind = (train_layer_kind)99;
    train_refused(train_network_create(device, input, &bad, 1, 1, &network), CIRCE_ERR_ARGUMENT, "no kind 99");
    bad = (train_layer_spec){.kind = TRAIN_LEAKY_RELU, .slope = -1.0f};
    train_refused(train_network_create(device, input, &bad, 1, 1, &network), CIRCE_ERR_ARGUMENT, "slope");
    input.size[0] = INT32_MAX;
    train_refused(train_network_create(device, input, &dense, 1, 1, &network), CIRCE_ERR_ARGUMENT, "too many weights");
}

/* A device without a kind of layer says so. */
static const train_layer_ops *no_tanh(train_layer_kind kind) {
    return kind == TRAIN_TANH ? NULL : devices[0]->ops->layer(kind);
}

static void layers_of_a_network(void **state) {
    (void)state;
    train_device *device = make_device(1);
    train_network *network = make_parsed(device, "8,5", TRAIN_LEAKY_RELU, 3, 2, 4);
    assert_int_equal(train_network_n_layers(network), 5);
    assert_int_equal(train_network_n_params(network), 8 * 4 + 5 * 9 + 2 * 6);
    static const int64_t first[] = {0, 32, 32, 77, 77}, inputs[] = {3, 8, 8, 5, 5}, outputs[] = {8, 8, 5, 5, 2};
    for (int64_t l = 0; l < 5; l++) {
        const train_layer *layer = train_network_layer(network, l);
        char name[8];
        snprintf(name, sizeof name, "%d", (int)l);
        assert_string_equal(layer->name, name);
        assert_int_equal(train_network_find(network, name), l);
        assert_int_equal(layer->first_param, first[l]);
        assert_int_equal(train_shape_count(layer->in), inputs[l]);
        assert_int_equal(train_shape_count(layer->out), outputs[l]);
        if (l % 2 == 1) assert_true(layer->slope == 0.01f);
    }
    assert_int_equal(train_network_find(network, "output"), 4);
    assert_int_equal(train_network_find(network, "5"), -1);
    assert_int_equal(train_network_find(network, "input"), -1);
    assert_null(train_network_layer(network, 5));
    assert_null(train_network_activation(network, -1));
    train_device_ops poorer = *device->ops;
    poorer.layer = no_tanh;
    train_device other = {.ops = &poorer, .context = device->context};
    const train_layer_spec spec = {.kind = TRAIN_TANH};
    train_network *refused_network = NULL;
    train_shape image = {3, {1, 4, 5}};
    train_refused(train_network_create(&other, image, &spec, 1, 1, &refused_network), CIRCE_ERR_UNSUPPORTED,
                  "layer 0: cpu has no tanh layers");
    const train_layer_spec pair[] = {{.kind = TRAIN_RELU}, {.kind = TRAIN_DENSE, .width = 2}};
    train_ok(train_network_create(device, image, pair, 2, 1, &networks[n_networks]));
    assert_int_equal(train_network_layer(networks[n_networks++], 1)->fan_in, 20);
}

/* Weights N(0, 2 / fan_in): moments of 64 * 500 draws, five standard errors; biases 0. */
static void initialisation(void **state) {
    (void)state;
    enum { IN = 64, OUT = 500, N = IN * OUT };
    const train_layer_spec specs[] = {{.kind = TRAIN_DENSE, .width = OUT},
                                      {.kind = TRAIN_RELU},
                                      {.kind = TRAIN_DENSE, .width = IN},
                                      {.kind = TRAIN_DENSE, .width = OUT}};
    train_network *network = make_network(make_device(2), IN, specs, COUNT(specs), 4);
    const float *params = train_network_params(network);
    double first = 0.0, second = 0.0, fourth = 0.0, cross = 0.0;
    const float *last = params + train_network_layer(network, 3)->first_param;
    for (int64_t i = 0; i < N; i++) {
        double z = (double)params[i] / sqrt(2.0 / IN);
        first += z / N, second += z * z / N, fourth += z * z * z * z / N,
            cross += z * (double)last[i] * sqrt(IN / 2.0) / N;
    }
    assert_near(first, 0.0, 5.0, sqrt(1.0 / N));
    assert_near(second, 1.0, 5.0, sqrt(2.0 / N));
    assert_near(fourth, 3.0, 5.0, sqrt(96.0 / N));
    assert_near(cross, 0.0, 5.0, sqrt(1.0 / N)); /* layers of the same shape are drawn independently */
    for (int64_t i = 0; i < OUT; i++) assert_true(params[N + i] == 0.0f);
}

/* Weights and biases uniform in +-1 / sqrt(fan_in), of a dense layer. */
static void uniform_start(void **state) {
    (void)state;
    enum { IN = 64, OUT = 300, N = IN * OUT + OUT };
    train_network *network = make_parsed(make_device(2), "300", TRAIN_RELU, IN, 1, 4);
    train_ok(train_network_initialise(network, TRAIN_START_UNIFORM, 3));
    assert_true(train_network_start(network) == TRAIN_START_UNIFORM);
    const float *params = train_network_params(network);
    double first = 0.0, second = 0.0, fourth = 0.0, most = 0.0, bias = 0.0;
    for (int64_t i = 0; i < N; i++) {
        double u = (double)params[i] * sqrt((double)IN);
        first += u / N, second += u * u / N, fourth += u * u * u * u / N, most = fmax(most, fabs(u));
        if (i >= IN * OUT) bias += u * u / OUT;
    }
    assert_true(most <= 1.0 && most > 0.999);
    assert_near(first, 0.0, 5.0, sqrt(1.0 / 3.0 / N));
    assert_near(second, 1.0 / 3.0, 5.0, sqrt(4.0 / 45.0 / N));
    assert_near(fourth, 1.0 / 5.0, 5.0, sqrt(16.0 / 225.0 / N));
    assert_near(bias, 1.0 / 3.0, 5.0, sqrt(4.0 / 45.0 / OUT));
    double drawn[60];
    circe_random_uniform((circe_random){3, 0}, 0, 60, drawn);
    for (int64_t i = 0; i < 60; i++) assert_true(params[i] == (float)(2.0 / 8.0 * (drawn[i] - 0.5)));
}

/* A function of seed, layer and place alone: the number of threads, the batch and the other layers do not enter. */
static void initialisation_is_a_function(void **state) {
    (void)state;
    train_network *one = make_parsed(make_device(1), "20,9", TRAIN_RELU, 3, 1, 16);
    train_network *three = make_parsed(make_device(3), "20,30", TRAIN_TANH, 3, 2, 300);
    size_t shared = (3 * 20 + 20) * sizeof(float);
    train_ok(train_network_initialise(one, TRAIN_START_HE, 11));
    train_ok(train_network_initialise(three, TRAIN_START_HE, 11));
    assert_memory_equal(train_network_params(one), train_network_params(three), shared);
    double normal[60];
    circe_random_normal((circe_random){11, 2}, 0, 60, normal);
    for (int64_t i = 0; i < 60; i++)
        assert_true(train_network_params(one)[80 + i] == (float)(sqrt(2.0 / 20.0) * normal[i]));
    train_ok(train_network_initialise(three, TRAIN_START_HE, 12));
    assert_memory_not_equal(train_network_params(one), train_network_params(three), shared);
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

static void assert_parsed(const char *text, const int64_t *widths, int64_t n) {
    train_layer_spec *specs = NULL;
    int64_t n_specs = 0;
    train_ok(train_network_parse(text, TRAIN_TANH, 3, &specs, &n_specs));
    assert_int_equal(n_specs, 2 * n + 1);
    for (int64_t l = 0; l < n; l++) {
        assert_true(specs[2 * l].kind == TRAIN_DENSE && specs[2 * l].width == widths[l]);
        assert_true(specs[2 * l + 1].kind == TRAIN_TANH);
    }
    assert_true(specs[2 * n].kind == TRAIN_DENSE && specs[2 * n].width == 3);
    free(specs);
}

static void texts_read(void **state) {
    (void)state;
    static const int64_t nine[] = {64, 64, 64, 64, 64, 64, 64, 64, 64}, pair[] = {64, 32}, wide[] = {16384};
    static const int64_t mixed[] = {8, 8, 4};
    assert_parsed("9x64", nine, 9);
    assert_parsed("64,32", pair, 2);
    assert_parsed("1x64,32", pair, 2);
    assert_parsed("2x8,4", mixed, 3);
    assert_parsed("64", pair, 1);
    assert_parsed("16384", wide, 1);
    assert_parsed("linear", NULL, 0);
}

static void texts_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "expected a number"},
        {"0", "1 to 16384 units"},
        {"-3", "expected a number"},
        {"64,", "expected a number"},
        {",64", "expected a number"},
        {"64;32", "separated by commas"},
        {"9x", "after 'x'"},
        {"x64", "expected a number"},
        {"0x64", "1 to 1000 hidden"},
        {"9x0", "1 to 16384 units"},
        {"9x64x3", "items must be separated by commas"},
        {"64 ", "items must be separated by commas"},
        {" 64", "expected a number"},
        {"16385", "1 to 16384 units"},
        {"6.5", "separated by commas"},
        {"1001x4", "1 to 1000 hidden"},
        {"1e3", "separated by commas"},
        {"99999999999999999999999", "1 to 16384 units"},
        {"Linear", "expected a number"},
        {"linear,64", "expected a number"},
        {"600x4,600x4", "1 to 1000"},
        {"99999999999999999999x1", "1 to 1000"},
    };
    for (int64_t k = 0; k < COUNT(cases); k++) {
        train_layer_spec *specs = (train_layer_spec *)&specs;
        int64_t n = 5;
        train_refused(train_network_parse(cases[k].text, TRAIN_RELU, 1, &specs, &n), CIRCE_ERR_ARGUMENT, cases[k].says);
        char shown[80];
        snprintf(shown, sizeof shown, "network '%s'", cases[k].text);
        assert_non_null(strstr(circe_last_error(), shown));
        assert_true(specs == NULL && n == 0);
    }
    train_layer_spec *specs = NULL;
    int64_t n = 0;
    train_refused(train_network_parse("4", TRAIN_DENSE, 1, &specs, &n), CIRCE_ERR_ARGUMENT, "activation");
    train_refused(train_network_parse("4", TRAIN_RELU, 0, &specs, &n), CIRCE_ERR_ARGUMENT, "0 outputs");
}

/* ---- named tensors ---------------------------------------------------------------------------------------------- */

static void tensors_round_trip(void **state) {
    (void)state;
    train_device *device = make_device(1);
    train_network *network = make_parsed(device, "8,5", TRAIN_RELU, 3, 2, 4);
    int64_t n = train_network_n_params(network), n_tensors = train_network_n_tensors(network);
    assert_int_equal(n_tensors, 6);
    circe_tensor tensors[6];
    float *flat = train_network_params(network);
    train_ok(train_network_tensors(network, flat, tensors));
    assert_string_equal(tensors[0].name, "0.weight");
    assert_string_equal(tensors[5].name, "4.bias");
    assert_true(tensors[2].n_dims == 2 && tensors[2].shape[0] == 5 && tensors[2].shape[1] == 8);
    assert_true(tensors[3].n_dims == 1 && tensors[3].shape[0] == 5);
    assert_true(tensors[2].data == flat + 32 && tensors[3].data == flat + 72);
    const char *path = test_path("network.safetensors");
    assert_ok(circe_tensor_file_write(device->context, path, tensors, 6, NULL, 0));
    circe_tensor_file *file = open_tensors(device->context, path);
    float *read = test_memory((size_t)n * sizeof *read);
    train_ok(train_network_read_tensors(network, file, read));
    assert_memory_equal(read, flat, (size_t)n * sizeof *read);
    circe_tensor_file_close(file);
}

static void tensors_refused(void **state) {
    (void)state;
    train_device *device = make_device(1);
    train_network *network = make_parsed(device, "8,5", TRAIN_RELU, 3, 2, 4);
    train_network *wider = make_parsed(device, "8,6", TRAIN_RELU, 3, 2, 4);
    train_network *deeper = make_parsed(device, "8,5,2", TRAIN_RELU, 3, 2, 4);
    circe_tensor tensors[6];
    train_ok(train_network_tensors(network, train_network_params(network), tensors));
    const char *path = test_path("network.safetensors");
    assert_ok(circe_tensor_file_write(device->context, path, tensors, 6, NULL, 0));
    circe_tensor_file *file = open_tensors(device->context, path);
    float flat[200], *kept = normals(3, 200);
    memcpy(flat, kept, sizeof flat);
    train_refused(train_network_read_tensors(wider, file, flat), CIRCE_ERR_SHAPE,
                  "tensor '2.weight' has the shape (5, 8) in the file, but this network needs (6, 8)");
    train_refused(train_network_read_tensors(deeper, file, flat), CIRCE_ERR_FORMAT, "no tensor '6.weight'");
    assert_memory_equal(flat, kept, sizeof flat);
    circe_tensor_file_close(file);
}

/* float64 is converted; other numbers, and other dimensions of as many numbers, are refused. */
static void tensors_of_others(void **state) {
    (void)state;
    train_device *device = make_device(1);
    train_network *network = make_parsed(device, "linear", TRAIN_RELU, 2, 2, 4);
    const double weight[] = {1.5, -2.5, 3.5, 0.25}, bias[] = {7.0, 8.0};
    const int32_t whole[] = {1, 2};
    float flat[6];
    circe_tensor tensors[] = {
        {.name = "0.weight", .dtype = "F64", .n_dims = 2, .shape = {2, 2}, .data = weight, .bytes = sizeof weight},
        {.name = "0.bias", .dtype = "F64", .n_dims = 1, .shape = {2}, .data = bias, .bytes = sizeof bias},
    };
    const char *path = test_path("other.safetensors");
    assert_ok(circe_tensor_file_write(device->context, path, tensors, 2, NULL, 0));
    circe_tensor_file *file = open_tensors(device->context, path);
    train_ok(train_network_read_tensors(network, file, flat));
    circe_tensor_file_close(file);
    for (int i = 0; i < 4; i++) assert_true(flat[i] == (float)weight[i]);
    assert_true(flat[4] == 7.0f && flat[5] == 8.0f);

    tensors[0].n_dims = 1;
    tensors[0].shape[0] = 4;
    assert_ok(circe_tensor_file_write(device->context, path, tensors, 2, NULL, 0));
    file = open_tensors(device->context, path);
    train_refused(train_network_read_tensors(network, file, flat), CIRCE_ERR_SHAPE,
                  "'0.weight' has the shape (4) in the file, but this network needs (2, 2)");
    circe_tensor_file_close(file);

    tensors[0].n_dims = 2;
    tensors[0].shape[0] = 2;
    tensors[1].data = whole;
    tensors[1].bytes = sizeof whole;
    snprintf(tensors[1].dtype, sizeof tensors[1].dtype, "I32");
    assert_ok(circe_tensor_file_write(device->context, path, tensors, 2, NULL, 0));
    file = open_tensors(device->context, path);
    train_refused(train_network_read_tensors(network, file, flat), CIRCE_ERR_FORMAT, "tensor '0.bias' has dtype I32");
    circe_tensor_file_close(file);
}

TEST_MAIN("network_building", CASE(networks_refused), CASE(layers_of_a_network), CASE(initialisation),
          CASE(uniform_start), CASE(initialisation_is_a_function), CASE(texts_read), CASE(texts_refused),
          CASE(tensors_round_trip), CASE(tensors_refused), CASE(tensors_of_others))
