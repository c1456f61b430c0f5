/* The .safetensors container: named tensors and text metadata. circe stores its models in it and reads files of other
 * programs too. Everything in a header is checked before it is used. */
#ifndef CIRCE_SAFETENSORS_H
#define CIRCE_SAFETENSORS_H

#include "circe/context.h"
#include "circe/matrix.h"

CIRCE_BEGIN_DECLS

#define CIRCE_TENSOR_MAX_DIMS 8

typedef struct circe_tensor {
    const char *name;
    char dtype[8]; /* as in the file: "F64", "F32", "F16", "BF16", "I64", "U8", "BOOL", ... */
    int n_dims;
    int64_t shape[CIRCE_TENSOR_MAX_DIMS];
    const void *data; /* little-endian, contiguous, row-major; not necessarily aligned */
    size_t bytes;
} circe_tensor;

typedef struct circe_tensor_file circe_tensor_file;

/* Opens a .safetensors file and checks its header. */
CIRCE_API circe_status circe_tensor_file_open(circe_context *context, const char *path, circe_tensor_file **file);
/* The same from memory, which must outlive the object. `name` appears in error texts. */
CIRCE_API circe_status circe_tensor_file_parse(circe_context *context, const void *data, size_t bytes, const char *name,
                                               circe_tensor_file **file);
/* Closes the file. NULL is allowed. */
CIRCE_API void circe_tensor_file_close(circe_tensor_file *file);

/* The number of tensors. */
CIRCE_API int64_t circe_tensor_file_count(const circe_tensor_file *file);
/* Valid until the file is closed. */
CIRCE_API circe_status circe_tensor_file_get(const circe_tensor_file *file, int64_t index, circe_tensor *tensor);
/* The tensor of this name. */
CIRCE_API circe_status circe_tensor_file_find(const circe_tensor_file *file, const char *name, circe_tensor *tensor);
/* NULL: the key is absent. */
CIRCE_API const char *circe_tensor_file_metadata(const circe_tensor_file *file, const char *key);

typedef struct circe_metadata {
    const char *key;
    const char *value;
} circe_metadata;

/* Files whose metadata "format" begins with "circe" get a "checksum" over tensors and metadata, which opening them
 * verifies.
 *
 * Writing is atomic: a temporary file is written, synced and renamed. A path that is not a regular file (a pipe,
 * /dev/stdout) is written directly. */
CIRCE_API circe_status circe_tensor_file_write(circe_context *context, const char *path, const circe_tensor *tensors,
                                               int64_t n_tensors, const circe_metadata *metadata, int64_t n_metadata);

CIRCE_END_DECLS

#endif
