/* .safetensors from any bytes: the container with every tensor in it, and one tensor as a table. */
#include "circe/safetensors.h"

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    circe_context *context = NULL;
    circe_tensor_file *file = NULL;
    circe_tensor tensor;
    io_table table;
    if (circe_context_create(NULL, &context) != CIRCE_OK) return 0;
    if (circe_tensor_file_parse(context, data, size, "fuzz.safetensors", &file) == CIRCE_OK) {
        for (int64_t i = 0; i < circe_tensor_file_count(file); i++) {
            fuzz_require(circe_tensor_file_get(file, i, &tensor) == CIRCE_OK);
            fuzz_require(tensor.n_dims >= 0 && tensor.n_dims <= CIRCE_TENSOR_MAX_DIMS);
            fuzz_touch(tensor.data, tensor.bytes);
            fuzz_require(circe_tensor_file_find(file, tensor.name, &tensor) == CIRCE_OK);
        }
        circe_tensor_file_metadata(file, "format");
    } else {
        fuzz_require(circe_last_error()[0] != '\0');
    }
    circe_tensor_file_close(file);
    circe_context_destroy(context);
    fuzz_check(io_parse_safetensors(data, size, "fuzz.safetensors", NULL, &table), &table);
    fuzz_check(io_parse_safetensors(data, size, "fuzz.safetensors", "a", &table), &table);
    return 0;
}
