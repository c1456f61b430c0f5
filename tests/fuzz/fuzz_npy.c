/* .npy from any bytes. */
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    io_table table;
    io_error error = {""};
    fuzz_check(io_parse_npy(data, size, "fuzz.npy", &table, &error), &table, &error);
    return 0;
}
