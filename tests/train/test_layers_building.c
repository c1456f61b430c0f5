/* What networks for images are made of: what is refused, networks as text, the names of their tensors, and weights of
 * others. */
#include "tests/train/layers_support.h"

/* ---- refusals --------------------------------------------------------------------------------------------------- */

static void networks_refused(void **state) {
    (void)state;
    const train_shape image = {3, {2, 6, 6}}, features = {1, {72}};
    static const struct {
        bool features;
        train_layer_spec specs[3];
        circe_status status;
        const char *says;
    } cases[] = {
        {true, {CONV(4, 3, 1, 1)}, CIRCE_ERR_SHAPE, "layer 0: convolution needs images"},
        {true, {{.kind = TRAIN_FLATTEN}}, CIRCE_ERR_SHAPE, "flatten needs images"},
        {true, {{.kind = TRAIN_BATCH_NORM}}, CIRCE_ERR_SHAPE, "batch norm needs images"},
        {false, {CONV(0, 3, 1, 1)}, CIRCE_ERR_ARGUMENT, "it has 0 channels"},
        {false, {CONV(4, 0, 1, 0)}, CIRCE_ERR_ARGUMENT, "kernel 0, stride 1"},
        {false, {CONV(4, 3, -1, 0)}, CIRCE_ERR_ARGUMENT, "stride -1"},
        {false, {CONV(4, 3, 1, 3)}, CIRCE_ERR_ARGUMENT, "padding 3"},
        {false, {CONV(4, 9, 1, 1)}, CIRCE_ERR_SHAPE, "kernel of 9 does not fit into images of 6 by 6"},
        {false, {{.kind = TRAIN_MAX_POOL, .kernel = 3, .padding = 2}}, CIRCE_ERR_ARGUMENT, "at most half its kernel"},
        {false, {CONV(4, 3, 1, 1), {.kind = TRAIN_DENSE, .width = 1}}, CIRCE_ERR_SHAPE, "flatten the images first"},
        {false, {CONV(4, 3, 1, 1), {.kind = TRAIN_ADD, .other = TRAIN_FROM_INPUT}}, CIRCE_ERR_SHAPE, "it adds"},
        {false, {CONV(2, 3, 1, 1), {.kind = TRAIN_ADD}}, CIRCE_ERR_ARGUMENT, "adds an output to itself"},
        {false, {CONV(2, 3, 1, 1), {.kind = TRAIN_ADD, .other = 3}}, CIRCE_ERR_ARGUMENT, "reads layer 2"},
        {false, {CONV(2, 3, 1, 1), {.kind = TRAIN_RELU, .from = -7}}, CIRCE_ERR_ARGUMENT, "reads layer -8"},
        {false, {CONV(2, 3, 1, 1), {.kind = TRAIN_RELU, .from = -1}}, CIRCE_ERR_ARGUMENT, "no layer reads layer 0"},
        {false, {{.kind = TRAIN_RELU}, {.kind = TRAIN_BATCH_NORM}}, CIRCE_ERR_UNSUPPORTED, "put a convolution before"},
        {false,
         {{.kind = TRAIN_RELU, .name = "a"}, {.kind = TRAIN_TANH, .name = "a"}},
         CIRCE_ERR_ARGUMENT,
         "both named 'a'"},
    };
    train_device *device = make_device(1);
    for (int64_t c = 0; c < COUNT(cases); c++) {
        train_network *network = (train_network *)device;
        int64_t n = cases[c].specs[1].kind == 0 ? 1 : 2;
        train_refused(
            train_network_create(device, cases[c].features ? features : image, cases[c].specs, n, 2, &network),
            cases[c].status, cases[c].says);
        assert_null(network);
    }
    train_device_ops without = *device->ops;
    without.images = NULL;
    train_device poorer = {.ops = &without, .context = device->context};
    train_network *network = NULL;
    const train_layer_spec spec = CONV(4, 3, 1, 1);
    train_refused(train_network_create(&poorer, image, &spec, 1, 2, &network), CIRCE_ERR_UNSUPPORTED,
                  "need a build with oneDNN");
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

/* "kind:width:kernel:stride:padding:bias", by layer. */
static void assert_layers(const char *text, const char *expected) {
    static const char *const names[] = {"",     "dense", "relu", "leaky", "tanh", "conv",
                                        "pool", "norm",  "add",  "mean",  "flat"};
    train_layer_spec *specs = NULL;
    int64_t n = 0;
    char made[2000] = "";
    train_ok(train_network_parse(text, TRAIN_TANH, 3, &specs, &n));
    for (int64_t l = 0; l < n; l++) {
        const train_layer_spec *s = &specs[l];
        size_t used = strlen(made);
        snprintf(made + used, sizeof made - used, l > 0 ? " %s" : "%s", names[s->kind]);
        used = strlen(made);
        if (s->kind == TRAIN_DENSE) snprintf(made + used, sizeof made - used, "%d", (int)s->width);
        if (s->kind == TRAIN_CONVOLUTION)
            snprintf(made + used, sizeof made - used, "%dk%ds%dp%d%s", (int)s->width, (int)s->kernel, (int)s->stride,
                     (int)s->padding, s->no_bias ? "" : "b");
        if (s->kind == TRAIN_MAX_POOL)
            snprintf(made + used, sizeof made - used, "%ds%dp%d", (int)s->kernel, (int)s->stride, (int)s->padding);
        if (s->kind == TRAIN_ADD) snprintf(made + used, sizeof made - used, "%d+%d", (int)s->from, (int)s->other);
    }
    free(specs);
    assert_string_equal(made, expected);
}

static void texts_read(void **state) {
    (void)state;
    assert_layers("conv16s2,conv32s2,pool2,128",
                  "conv16k3s2p1b tanh conv32k3s2p1b tanh pool2s0p0 flat dense128 tanh "
                  "dense3");
    assert_layers("conv8k5", "conv8k5s1p2b tanh flat dense3");
    assert_layers("conv8k4p0s3n,average", "conv8k4s3p0 norm tanh mean flat dense3");
    assert_layers("2xconv4,pool3s2p1", "conv4k3s1p1b tanh conv4k3s1p1b tanh pool3s2p1 flat dense3");
    assert_layers("conv4,res4", "conv4k3s1p1b tanh conv4k3s1p1 norm tanh conv4k3s1p1 norm add7+2 tanh flat dense3");
    assert_layers("res4s2,2x9",
                  "conv4k3s2p1 norm tanh conv4k3s1p1 norm conv4k1s2p0 norm add5+7 tanh flat dense9 tanh "
                  "dense9 tanh dense3");
    assert_layers("dsprites",
                  "conv16k3s2p1b leaky conv32k3s2p1b leaky pool2s0p0 conv64k3s2p1b leaky pool2s0p0 flat "
                  "dense128 leaky dense64 dense3");
}

static void texts_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"conv", "number of channels"},
        {"conv0", "1 to 16384 channels"},
        {"conv16384444", "1 to 16384 channels"},
        {"conv8s", "after k, s or p"},
        {"conv8s0", "1 to 64"},
        {"conv8k65", "1 to 64"},
        {"conv8x", "separated by commas"},
        {"conv8,", "expected a number of"},
        {"pool", "kernel after pool"},
        {"pool0", "1 to 64"},
        {"pool2n", "separated by commas"},
        {"res", "number of channels"},
        {"res8n", "separated by commas"},
        {"average2", "separated"},
        {"64,conv8", "before dense layers"},
        {"2xlinear", "after 'x'"},
        {"2x", "after 'x'"},
        {"0xconv4", "1 to 1000 hidden"},
        {"dsprites,64", "expected a"},
        {"resnet50", "number of channels"},
        {"600xres4", "more than 2000 layers"},
        {"1001xconv4", "1 to 1000 hidden"},
        {"convolution8", "number of channels"},
    };
    for (int64_t k = 0; k < COUNT(cases); k++) {
        train_layer_spec *specs = NULL;
        int64_t n = 0;
        train_refused(train_network_parse(cases[k].text, TRAIN_RELU, 1, &specs, &n), CIRCE_ERR_ARGUMENT, cases[k].says);
        assert_null(specs);
    }
}

/* ---- names and files -------------------------------------------------------------------------------------------- */

/* The paper's network: shapes and names as PyTorch's Sequential has them, and He's deviation of each layer. */
static void dsprites_network(void **state) {
    (void)state;
    static const char *const names[] = {"0.weight", "0.bias", "2.weight",  "2.bias",  "5.weight",  "5.bias",
                                        "9.weight", "9.bias", "11.weight", "11.bias", "12.weight", "12.bias"};
    train_device *device = make_device(2);
    train_layer_spec *specs = NULL;
    int64_t n = 0;
    train_ok(train_network_parse("dsprites", TRAIN_RELU, 1, &specs, &n));
    train_ok(train_network_create(device, (train_shape){3, {1, 64, 64}}, specs, n, 2, &networks[n_networks]));
    free(specs);
    train_network *network = networks[n_networks++];
    circe_tensor tensors[12];
    assert_int_equal(train_network_n_tensors(network), 12);
    assert_int_equal(train_network_n_buffer_tensors(network), 0);
    assert_int_equal(train_network_n_params(network), 16 * 10 + 32 * 145 + 64 * 289 + 128 * 257 + 64 * 129 + 65);
    train_ok(train_network_tensors(network, train_network_params(network), tensors));
    for (int64_t k = 0; k < 12; k++) assert_string_equal(tensors[k].name, names[k]);
    assert_true(tensors[2].n_dims == 4 && tensors[2].shape[0] == 32 && tensors[2].shape[1] == 16 &&
                tensors[2].shape[2] == 3 && tensors[2].shape[3] == 3);
    train_ok(train_network_initialise(network, TRAIN_START_HE, 5));
    double square = 0.0;
    for (int64_t i = 0; i < 18432; i++) square += pow(((const float *)tensors[4].data)[i], 2.0) / 18432.0;
    assert_near(square, 2.0 / 288.0, 5.0 * sqrt(2.0 / 18432.0), 2.0 / 288.0); /* five standard errors */
    assert_int_equal(train_network_layer(network, 2)->fan_in, 144);
}

enum { MOST_TENSORS = 200 };

/* All tensors of a network; returns how many. */
static int64_t list_tensors(train_network *network, circe_tensor *tensors) {
    int64_t n = train_network_n_tensors(network), m = train_network_n_buffer_tensors(network);
    assert_true(n + m <= MOST_TENSORS);
    train_ok(train_network_tensors(network, train_network_params(network), tensors));
    train_ok(train_network_buffer_tensors(network, train_network_buffers(network), tensors + n));
    return n + m;
}

static const circe_tensor *find_tensor(const circe_tensor *tensors, int64_t n, const char *name) {
    for (int64_t k = 0; k < n; k++)
        if (strcmp(tensors[k].name, name) == 0) return &tensors[k];
    fail_msg("no tensor '%s'", name);
    return NULL;
}

/* torchvision's names and shapes, a round trip through a file, and pretrained weights for the body alone. */
static void resnet_tensors(void **state) {
    (void)state;
    static circe_tensor tensors[MOST_TENSORS];
    train_device *device = make_device(2);
    train_shape input = {3, {3, 32, 32}};
    train_network *network = make_parsed(device, "resnet18", TRAIN_TANH, input, 5, 1);
    int64_t n = list_tensors(network, tensors);
    assert_int_equal(n, 122 - 2 + 6); /* torchvision's 122, with a head of three layers instead of one */
    assert_int_equal(train_network_n_params(network), 11176512 + 512 * 128 + 128 + 128 * 64 + 64 + 64 * 5 + 5);
    static const char *const names[] = {"conv1.weight",
                                        "bn1.num_batches_tracked",
                                        "layer1.0.conv1.weight",
                                        "layer1.1.bn2.running_var",
                                        "layer2.0.downsample.0.weight",
                                        "layer2.0.downsample.1.running_mean",
                                        "layer4.1.conv2.weight",
                                        "fc.0.weight",
                                        "fc.3.bias"};
    for (int64_t k = 0; k < COUNT(names); k++) find_tensor(tensors, n, names[k]);
    const circe_tensor *down = find_tensor(tensors, n, "layer3.0.downsample.0.weight");
    assert_true(down->n_dims == 4 && down->shape[0] == 256 && down->shape[1] == 128 && down->shape[2] == 1);
    const circe_tensor *counter = find_tensor(tensors, n, "layer4.0.bn1.num_batches_tracked");
    assert_true(counter->n_dims == 0 && strcmp(counter->dtype, "I64") == 0);

    for (int64_t i = 0; i < train_network_n_buffers(network); i++)
        train_network_buffers(network)[i] = (float)(i % 97) + 1.0f;
    const char *path = test_path("resnet.safetensors");
    assert_ok(circe_tensor_file_write(device->context, path, tensors, n, NULL, 0));
    size_t bytes = (size_t)train_network_n_params(network) * sizeof(float);
    size_t buffer_bytes = (size_t)train_network_n_buffers(network) * sizeof(float);
    float *params = test_memory(bytes), *buffers = test_memory(buffer_bytes);
    circe_tensor_file *file = open_tensors(device->context, path);
    train_ok(train_network_read_tensors(network, file, params));
    train_ok(train_network_read_buffers(network, file, buffers));
    circe_tensor_file_close(file);
    assert_memory_equal(params, train_network_params(network), bytes);
    assert_memory_equal(buffers, train_network_buffers(network), buffer_bytes);

    train_network *other = make_parsed(device, "resnet18", TRAIN_TANH, input, 1, 1); /* another head */
    int64_t head = train_network_layer(other, train_network_find(other, "fc.0"))->first_param;
    train_ok(train_network_initialise(other, TRAIN_START_HE, 8));
    float *before =
        memcpy(test_memory(bytes), train_network_params(other), (size_t)train_network_n_params(other) * sizeof(float));
    train_ok(train_network_load_body(other, path));
    assert_memory_equal(train_network_params(other), params, (size_t)head * sizeof(float));
    assert_memory_equal(train_network_params(other) + head, before + head,
                        (size_t)(train_network_n_params(other) - head) * sizeof(float));
    assert_memory_equal(train_network_buffers(other), buffers, buffer_bytes);
}

/* Each missing or misshaped tensor is named, and nothing is read. */
static void weights_refused(void **state) {
    (void)state;
    static circe_tensor tensors[MOST_TENSORS];
    train_device *device = make_device(1);
    train_network *network = make_parsed(device, "conv4n,res4,9", TRAIN_RELU, (train_shape){3, {1, 6, 6}}, 1, 1);
    int64_t n = list_tensors(network, tensors), n_params = train_network_n_params(network);
    float *kept = memcpy(test_memory((size_t)n_params * sizeof(float)), train_network_params(network),
                         (size_t)n_params * sizeof(float));
    const char *path = test_path("weights.safetensors");
    /* A counter may be missing: it is the last. */
    assert_ok(circe_tensor_file_write(device->context, path, tensors, n - 1, NULL, 0));
    train_ok(train_network_load_body(network, path));
    /* running_var of the last batch norm, and the head, which the body does not need. */
    assert_ok(circe_tensor_file_write(device->context, path, tensors, n - 2, NULL, 0));
    train_refused(train_network_load_body(network, path), CIRCE_ERR_FORMAT, "no tensor '7.running_var'");
    const circe_tensor saved = tensors[0];
    tensors[0].shape[0] = 1;
    tensors[0].shape[1] = 4;
    tensors[1].name = "strange";
    assert_ok(circe_tensor_file_write(device->context, path, tensors, n, NULL, 0));
    train_network_params(network)[0] = kept[0] = 77.0f;
    train_refused(train_network_load_body(network, path), CIRCE_ERR_SHAPE,
                  "tensor '0.weight' has the shape (1, 4, 3, 3) in the file, but this network needs (4, 1, 3, 3)");
    train_refused(train_network_load_body(network, path), CIRCE_ERR_SHAPE,
                  "also missing or of a wrong shape: 1 (1.weight");
    assert_memory_equal(train_network_params(network), kept, (size_t)n_params * sizeof(float));
    tensors[0] = saved;
    train_refused(train_network_load_body(network, test_path("none.safetensors")), CIRCE_ERR_IO, "none.safetensors");
    train_network *dense = make_parsed(device, "4", TRAIN_RELU, (train_shape){1, {3}}, 1, 1);
    train_refused(train_network_load_body(dense, path), CIRCE_ERR_ARGUMENT, "no body");
}

TEST_MAIN("layers_building", CASE(networks_refused), CASE(texts_read), CASE(texts_refused), CASE(dsprites_network),
          CASE(resnet_tensors), CASE(weights_refused))
