/* The networks of the experiments against PyTorch: the same weights, by name, the same batch; outputs in training and
 * evaluation, the gradient of every parameter and what batch norm remembers. torch_reference.py writes what PyTorch
 * computes into CIRCE_TORCH_REFERENCE; without it, as where there is no PyTorch, the tests are skipped.
 *
 * PyTorch's numbers are of float64, these of float32, through up to 20 layers with batch norm of few numbers: VALUES,
 * 1e-4 of the length of the same tensor (the root of the sum of squares), holds for what is computed forwards. Of some
 * half a million units, about one is so close to the kink of ReLU, or to another in the window of the max-pool, that
 * float32 takes it for the other side; it then sends back another gradient, of which the first convolution shows up to
 * some 1e-2. Most seeds have no such unit and stay within 1e-5. GRADIENTS, 2e-2, leaves room for a few; a wrong layer
 * is off by more than a tenth. */
#include <unistd.h>

#include "circe/status.h"
#include "tests/support.h"
#include "train/network.h"

#define VALUES 1e-4
#define GRADIENTS 2e-2

static void done(circe_status status, const char *call, int line) {
    if (status != CIRCE_OK) fail_msg("line %d: %s: %s: %s", line, call, circe_status_name(status), circe_last_error());
}
#define assert_done(call) done(call, #call, __LINE__)

/* One network with its reference. */
typedef struct pair {
    train_device *device;
    train_network *network;
    circe_tensor_file *file;
    int64_t rows;
    const float *in;
} pair;

/* A copy, since tensors in a file need not be aligned. NULL: there is none. */
static const float *find(const pair *p, const char *name, int64_t *count) {
    circe_tensor tensor;
    char full[200];
    snprintf(full, sizeof full, "reference.%s", name);
    if (circe_tensor_file_find(p->file, full, &tensor) != CIRCE_OK) fail_msg("no tensor '%s'", full);
    *count = (int64_t)(tensor.bytes / sizeof(float));
    return memcpy(test_memory(tensor.bytes), tensor.data, tensor.bytes);
}

static void compare(const pair *p, const float *made, int64_t n, const char *name, double tolerance) {
    int64_t count = 0;
    const float *expected = find(p, name, &count);
    double off = 0.0, length = 0.0;
    if (count != n) fail_msg("%s: %d numbers instead of %d", name, (int)n, (int)count);
    for (int64_t i = 0; i < n; i++) {
        double difference = (double)made[i] - (double)expected[i];
        off += difference * difference;
        length += (double)expected[i] * (double)expected[i];
    }
    if (!(sqrt(off) <= tolerance * sqrt(length))) /* NaN, too */
        fail_msg("%s: off by %.3g, length %.3g", name, sqrt(off), sqrt(length));
}

/* Tensors of a flat array against "reference.<what><their name>". */
static void compare_tensors(const pair *p, const circe_tensor *tensors, int64_t n, const char *what, double tolerance) {
    for (int64_t k = 0; k < n; k++) {
        char name[160];
        snprintf(name, sizeof name, "%s%s", what, tensors[k].name);
        if (strcmp(tensors[k].dtype, "F32") == 0)
            compare(p, tensors[k].data, (int64_t)(tensors[k].bytes / sizeof(float)), name, tolerance);
    }
}

static bool open_reference(const char *net, train_shape input, int64_t outputs, pair *p) {
    const char *folder = getenv("CIRCE_TORCH_REFERENCE");
    char path[1000];
    snprintf(path, sizeof path, "%s/%s.safetensors", folder == NULL ? "." : folder, net);
    if (folder == NULL || access(path, R_OK) != 0) return false;
    train_layer_spec *specs = NULL;
    int64_t n = 0, count = 0;
    assert_done(train_device_cpu(test_context(2), &p->device));
    assert_ok(circe_tensor_file_open(p->device->context, path, &p->file));
    p->in = find(p, "input", &count);
    p->rows = count / train_shape_count(input);
    assert_done(train_network_parse(net, TRAIN_RELU, outputs, &specs, &n));
    assert_done(train_network_create(p->device, input, specs, n, p->rows, &p->network));
    free(specs);
    assert_done(train_network_read_tensors(p->network, p->file, train_network_params(p->network)));
    assert_done(train_network_read_buffers(p->network, p->file, train_network_buffers(p->network)));
    return true;
}

static void check(const char *net, train_shape input, int64_t outputs) {
    static circe_tensor tensors[200];
    pair p = {0};
    int64_t count = 0;
    if (!open_reference(net, input, outputs, &p)) test_skip("PyTorch is not installed (Debian: python3-torch)");
    float *made = test_memory((size_t)(p.rows * outputs) * sizeof *made);
    assert_done(train_network_predict(p.network, p.rows, p.in, made));
    compare(&p, made, p.rows * outputs, "evaluated", VALUES);
    assert_done(train_network_forward(p.network, p.rows, p.in));
    compare(&p, train_network_output(p.network), p.rows * outputs, "output", VALUES);
    const float *grad = find(&p, "output_grad", &count);
    memcpy(train_network_output_grad(p.network), grad, (size_t)count * sizeof *grad);
    assert_done(train_network_backward(p.network, p.rows, p.in));
    assert_true(train_network_n_tensors(p.network) <= 200 && train_network_n_buffer_tensors(p.network) <= 200);
    assert_done(train_network_tensors(p.network, train_network_grads(p.network), tensors));
    compare_tensors(&p, tensors, train_network_n_tensors(p.network), "grad.", GRADIENTS);
    assert_done(train_network_buffer_tensors(p.network, train_network_buffers(p.network), tensors));
    compare_tensors(&p, tensors, train_network_n_buffer_tensors(p.network), "after.", VALUES);
    circe_tensor_file_close(p.file);
    train_network_destroy(p.network);
    train_device_destroy(p.device);
}

static void dsprites(void **state) {
    (void)state;
    check("dsprites", (train_shape){3, {1, 64, 64}}, 2);
}

static void resnet18(void **state) {
    (void)state;
    check("resnet18", (train_shape){3, {3, 72, 64}}, 3);
}

TEST_MAIN("resnet", TEST(dsprites), TEST(resnet18))
