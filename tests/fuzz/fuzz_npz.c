/* .npz from any bytes, with and without a member named. */
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const selections[] = {NULL, "a", "b.npy", "nothing"};
    for (size_t i = 0; i < sizeof selections / sizeof selections[0]; i++) {
        io_table table;
        fuzz_check(io_parse_npz(data, size, "fuzz.npz", selections[i], &table), &table);
    }
    return 0;
}
