/* Runs a fuzz target over the files named on the command line, so that its corpus is part of the ordinary tests, with
 * any compiler. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"

static int replay(const char *path) {
    FILE *file = fopen(path, "rb");
    uint8_t *data = NULL;
    long size = -1;
    int ok = 0;
    if (file != NULL && fseek(file, 0, SEEK_END) == 0) size = ftell(file);
    if (size < 0) goto done;
    rewind(file);
    /* Exactly the size, so that a sanitizer sees the first byte read too far. */
    data = malloc(size > 0 ? (size_t)size : 1);
    if (data == NULL || fread(data, 1, (size_t)size, file) != (size_t)size) goto done;
    LLVMFuzzerTestOneInput(data, (size_t)size);
    ok = 1;
done:
    if (!ok) fprintf(stderr, "replay: %s cannot be read\n", path);
    if (file != NULL) fclose(file);
    free(data);
    return ok;
}

int main(int argc, char **argv) {
    int failed = 0;
    for (int i = 1; i < argc; i++) failed += !replay(argv[i]);
    printf("%d inputs\n", argc - 1);
    return failed > 0 || argc < 2;
}
