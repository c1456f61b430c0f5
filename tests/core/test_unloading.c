/* A program may close the library that it opened, at any moment after a call: plug-ins are unloaded so. Threads of the
 * library still look for work then, and the code that they run must stay. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "circe/context.h"
#include "tests/support.h"

enum { TIMES = 20, PARTS = 4 };

typedef void any_function(void);

static any_function *find(void *library, const char *name) {
    any_function *function = NULL;
    void *address = dlsym(library, name);
    assert_non_null(address);
    memcpy(&function, &address, sizeof function);
    return function;
}

#define FIND(name) ((__typeof__(&name))find(library, #name))

/* Long enough for helpers to come. */
static void count(void *user, int64_t part) {
    (void)part;
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    atomic_fetch_add((atomic_int *)user, 1);
}

static void closed_while_helpers_wait(void **state) {
    (void)state;
    for (int i = 0; i < TIMES; i++) {
        void *library = dlopen(CIRCE_TEST_LIBRARY, RTLD_NOW | RTLD_LOCAL);
        if (library == NULL) fail_msg("%s", dlerror());
        circe_context_options options;
        circe_context *context = NULL;
        atomic_int done = 0;
        FIND(circe_context_options_init)(&options);
        options.threads = PARTS;
        assert_int_equal(FIND(circe_context_create)(&options, &context), CIRCE_OK);
        FIND(circe_context_run)(context, PARTS, count, &done);
        FIND(circe_context_destroy)(context);
        assert_int_equal(atomic_load(&done), PARTS);
        assert_int_equal(dlclose(library), 0);
        usleep(i % 2 == 0 ? 1000 : 0); /* asleep, or still spinning */
    }
}

TEST_MAIN("unloading", cmocka_unit_test(closed_while_helpers_wait))
