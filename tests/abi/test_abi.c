/* A shared library (ABI_LIBRARY) offers every function that its public headers (ABI_HEADER) declare. The list
 * (abi_functions.inc: one line FUNCTION(name) each) is taken from the headers when the build is configured, so a
 * function that is declared and not exported fails to link here; one that resolves anywhere else fails at run time.
 * abi_cxx.cpp does the same from C++, and abi_headers.cmake compiles each header alone. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "circe/circe.h"
#include ABI_HEADER

typedef void (*any_function)(void);

typedef struct function {
    const char *name;
    any_function address;
} function;

static const function functions[] = {
#define FUNCTION(name) {#name, (any_function)name},
#include "abi_functions.inc"
#undef FUNCTION
};
enum { N_FUNCTIONS = sizeof functions / sizeof *functions };

/* In abi_cxx.cpp: the address that C++ sees under the same name, NULL for a name it does not know. */
any_function abi_cxx_address(const char *name);

static void every_function_links(void **state) {
    (void)state;
    assert_true(N_FUNCTIONS >= ABI_LEAST); /* the list was made, and not from half of the headers */
    for (int i = 0; i < N_FUNCTIONS; i++) {
        Dl_info found;
        void *address;
        memcpy(&address, &functions[i].address, sizeof address);
        assert_int_not_equal(dladdr(address, &found), 0);
        if (strstr(found.dli_fname, ABI_LIBRARY) == NULL)
            fail_msg("%s comes from %s", functions[i].name, found.dli_fname);
        assert_string_equal(found.dli_sname, functions[i].name);
    }
}

static void cxx_sees_the_same(void **state) {
    (void)state;
    for (int i = 0; i < N_FUNCTIONS; i++) assert_true(abi_cxx_address(functions[i].name) == functions[i].address);
    assert_true(abi_cxx_address("circe_no_such_function") == NULL);
}

/* The library that is loaded is the one whose headers were compiled against; the size of what callers allocate
 * themselves is part of the ABI of this version. */
static void versions_and_layouts(void **state) {
    (void)state;
    assert_string_equal(circe_version(), CIRCE_VERSION_STRING);
    assert_int_equal(sizeof(circe_mat), 40);
    assert_int_equal(offsetof(circe_mat, ld), 24);
    assert_int_equal(sizeof(circe_random), 16);
    assert_int_equal(sizeof(circe_kernel_factor), 32);
    assert_int_equal(sizeof(circe_status), 4);
}

/* The library works as a shared one: a whole computation across its boundary. */
static void computes(void **state) {
    (void)state;
    double points[] = {0.0, 1.0, 2.0}, out[9] = {0};
    circe_context *context = NULL;
    circe_kernel *kernel = NULL;
    circe_mat a = circe_mat_f64(points, 3, 1), gram = circe_mat_f64(out, 3, 3);
    assert_int_equal(circe_context_create(NULL, &context), CIRCE_OK);
    assert_int_equal(circe_kernel_parse(context, "linear", &kernel), CIRCE_OK);
    assert_int_equal(circe_gram(context, kernel, &a, &a, &gram), CIRCE_OK);
    assert_true(out[8] == 4.0 && out[5] == 2.0 && out[0] == 0.0);
    circe_kernel_destroy(kernel);
    circe_context_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_function_links),
        cmocka_unit_test(cxx_sees_the_same),
        cmocka_unit_test(versions_and_layouts),
        cmocka_unit_test(computes),
    };
    return cmocka_run_group_tests_name("abi", tests, NULL, NULL);
}
