// The public headers from C++: names without mangling, and the addresses that test_abi.c compares with those of C.
#include ABI_HEADER

#include <cstring>

extern "C" {
typedef void (*any_function)(void);
any_function abi_cxx_address(const char *name);
}

namespace {
struct function {
    const char *name;
    any_function address;
};

const function functions[] = {
#define FUNCTION(name) {#name, reinterpret_cast<any_function>(name)},
#include "abi_functions.inc"
#undef FUNCTION
};
}  // namespace

any_function abi_cxx_address(const char *name) {
    for (const function &f : functions)
        if (std::strcmp(f.name, name) == 0) return f.address;
    return nullptr;
}
