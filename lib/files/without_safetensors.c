/* The functions that need .safetensors, in a build without it: each says so. No file is ever open. */
#include "circe/cme.h"
#include "circe/safetensors.h"

/* Nothing is done with any argument. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

static circe_status refuse(void) {
    return circe_fail(CIRCE_ERR_UNSUPPORTED,
                      ".safetensors and model files are not in this build: "
                      "it was configured with -DCIRCE_SAFETENSORS=OFF");
}

#define REFUSED(function, ...) \
    circe_status function(__VA_ARGS__) { return refuse(); }

/* Of functions whose last argument is where they put what they make. */
#define REFUSED_NEW(function, type, name, ...)        \
    circe_status function(__VA_ARGS__, type **name) { \
        if (name != NULL) *name = NULL;               \
        return refuse();                              \
    }

REFUSED_NEW(circe_tensor_file_open, circe_tensor_file, file, circe_context *context, const char *path)
REFUSED_NEW(circe_tensor_file_parse, circe_tensor_file, file, circe_context *context, const void *data, size_t bytes,
            const char *name)
REFUSED_NEW(circe_cme_load, circe_cme, cme, circe_context *context, const char *path)

REFUSED(circe_tensor_file_get, const circe_tensor_file *file, int64_t index, circe_tensor *tensor)
REFUSED(circe_tensor_file_find, const circe_tensor_file *file, const char *name, circe_tensor *tensor)
REFUSED(circe_tensor_file_write, circe_context *context, const char *path, const circe_tensor *tensors,
        int64_t n_tensors, const circe_metadata *metadata, int64_t n_metadata)
REFUSED(circe_cme_save, const circe_cme *cme, const char *path)
REFUSED(circe_cme_save_with, const circe_cme *cme, const char *path, const circe_metadata *metadata, int64_t n_metadata)

void circe_tensor_file_close(circe_tensor_file *file) { (void)file; }
int64_t circe_tensor_file_count(const circe_tensor_file *file) { return 0; }
const char *circe_tensor_file_metadata(const circe_tensor_file *file, const char *key) { return NULL; }
