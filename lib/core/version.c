/* The library's version and what it was built on. */
#include "circe/version.h"

const char *circe_version(void) { return CIRCE_VERSION_STRING; }

const char *circe_build_info(void) {
    return "compiler " CIRCE_BUILD_COMPILER "\n" CIRCE_BUILD_BLAS
           "\n"
           "Random123 Philox4x32-10\n"
           "cJSON " CIRCE_BUILD_CJSON;
}
