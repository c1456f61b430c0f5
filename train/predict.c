/* Runs a network on the points of a source, batch by batch. */
#include "train/network_predict.h"

#include "circe/status.h"
#include "train/network_internal.h"

circe_status train_check_features(const train_network *network, const train_source *source, const char *what) {
    train_shape in = train_network_layer(network, 0)->in;
    circe_status status = train_source_check(source, what);
    if (status != CIRCE_OK) return status;
    int64_t channels = source->channels * source->repeat, cols = train_source_cols(source);
    if (in.n_dims != 3) { /* a row of numbers, however they are stored */
        if (cols == train_shape_count(in)) return CIRCE_OK;
        return circe_fail(CIRCE_ERR_SHAPE, "the %s features have %lld columns; the network needs %lld", what,
                          (long long)cols, (long long)train_shape_count(in));
    }
    if (channels == in.size[0] && source->height == in.size[1] && source->width == in.size[2]) return CIRCE_OK;
    return circe_fail(CIRCE_ERR_SHAPE,
                      "the %s features are %lld by %lld by %lld; the network needs %lld by %lld by %lld (channels, "
                      "lines, columns)",
                      what, (long long)channels, (long long)source->height, (long long)source->width,
                      (long long)in.size[0], (long long)in.size[1], (long long)in.size[2]);
}

circe_status train_predict(train_network *network, const train_source *source, float *out) {
    train_source_handle *handle = NULL;
    train_device *device = network->device;
    int64_t batch = network->max_batch, outputs = train_shape_count(network->layers[network->n_layers - 1].out);
    bool training = network->training;
    circe_status status = train_check_features(network, source, "given");
    if (status == CIRCE_OK) status = device->ops->source_open(device, source, &handle);
    if (status != CIRCE_OK) return status;
    float *in = device->ops->allocate(device, (size_t)(batch * train_source_cols(source)) * sizeof *in);
    if (in == NULL) status = CIRCE_ERR_MEMORY;
    network->training = false;
    for (int64_t first = 0; status == CIRCE_OK && first < source->n; first += batch) {
        int64_t n = source->n - first < batch ? source->n - first : batch;
        device->ops->source_gather(device, handle, NULL, first, n, in);
        status = train_network_show(network, n, in, out + first * outputs);
        if (status == CIRCE_OK) status = device->ops->check(device);
    }
    network->training = training;
    device->ops->release(device, in);
    device->ops->source_close(device, handle);
    return status;
}
