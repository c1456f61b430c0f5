/* What the tests of inference share: options with few draws, one kind of data, and a call that must give an answer. */
#pragma once

#include "tests/support.h"

static inline circe_test_options options_of(circe_test_method method) {
    circe_test_options options;
    circe_test_options_init(&options);
    options.method = method;
    options.draws = 200;
    options.seed = 5;
    return options;
}

/* x = y + e, z = y + e': independent given y; `shared` puts as much of e into z. */
typedef struct sample {
    circe_mat x, y, z;
} sample;

static inline sample draw(uint64_t stream, int64_t n, double shared) {
    sample s = {test_normal(3 * stream, n, 1), test_normal(3 * stream + 1, n, 1), test_normal(3 * stream + 2, n, 1)};
    for (int64_t i = 0; i < n; i++) {
        double y = test_at(&s.y, i, 0), e = test_at(&s.x, i, 0);
        test_set(&s.x, i, 0, y + 0.5 * e);
        test_set(&s.z, i, 0, sin(y) + 0.5 * test_at(&s.z, i, 0) + shared * e);
    }
    return s;
}

static inline circe_test_result run(circe_context *context, const circe_mat *x, const circe_mat *y, const circe_mat *z,
                                    const circe_test_options *options) {
    circe_test_result result;
    assert_ok(circe_test(context, x, y, z, options, &result));
    assert_true(result.p_value > 0.0 && result.p_value <= 1.0);
    assert_true(isfinite(result.statistic) && result.verdict[0] != '\0');
    return result;
}
