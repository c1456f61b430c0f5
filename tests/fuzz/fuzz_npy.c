/* .npy from any bytes. */
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    io_table table;
    fuzz_check(io_parse_npy(data, size, "fuzz.npy", &table), &table);
    return 0;
}
