/* The functions that need .safetensors, in a build without it: each says so. */
#include "circe/cme.h"
#include "circe/safetensors.h"

static circe_status refuse(void) {
    return circe_fail(CIRCE_ERR_UNSUPPORTED,
                      ".safetensors and model files are not in this build: "
                      "it was configured with -DCIRCE_SAFETENSORS=OFF");
}

circe_status circe_tensor_file_open(circe_context *context, const char *path, circe_tensor_file **file) {
    (void)context, (void)path;
    if (file != NULL) *file = NULL;
    return refuse();
}

circe_status circe_tensor_file_parse(circe_context *context, const void *data, size_t bytes, const char *name,
                                     circe_tensor_file **file) {
    (void)context, (void)data, (void)bytes, (void)name;
    if (file != NULL) *file = NULL;
    return refuse();
}

void circe_tensor_file_close(circe_tensor_file *file) { (void)file; }

int64_t circe_tensor_file_count(const circe_tensor_file *file) {
    (void)file;
    return 0;
}

circe_status circe_tensor_file_get(const circe_tensor_file *file, int64_t index, circe_tensor *tensor) {
    (void)file, (void)index, (void)tensor;
    return refuse();
}

circe_status circe_tensor_file_find(const circe_tensor_file *file, const char *name, circe_tensor *tensor) {
    (void)file, (void)name, (void)tensor;
    return refuse();
}

const char *circe_tensor_file_metadata(const circe_tensor_file *file, const char *key) {
    (void)file, (void)key;
    return NULL;
}

circe_status circe_tensor_file_write(circe_context *context, const char *path, const circe_tensor *tensors,
                                     int64_t n_tensors, const circe_metadata *metadata, int64_t n_metadata) {
    (void)context, (void)path, (void)tensors, (void)n_tensors, (void)metadata, (void)n_metadata;
    return refuse();
}

circe_status circe_cme_save(const circe_cme *cme, const char *path) {
    (void)cme, (void)path;
    return refuse();
}

circe_status circe_cme_save_with(const circe_cme *cme, const char *path, const circe_metadata *metadata,
                                 int64_t n_metadata) {
    (void)cme, (void)path, (void)metadata, (void)n_metadata;
    return refuse();
}

circe_status circe_cme_load(circe_context *context, const char *path, circe_cme **cme) {
    (void)context, (void)path;
    if (cme != NULL) *cme = NULL;
    return refuse();
}
