/* The synthetic models: draws against the paper's equations written out once more, interventions, VCF against closed
 * forms, and the limits.
 *
 * Tolerances are five standard errors or more of what is estimated, with fixed seeds; where the standard error is not
 * obvious, the test says where it comes from. Equations written in another order: 1e-12. */

#include "circe/status.h"
#include "tests/train/train_support.h"
#include "train/synthetic.h"

static const synthetic_model models[] = {{SYNTHETIC_UNIVARIATE_1, 1},    {SYNTHETIC_UNIVARIATE_2, 1},
                                         {SYNTHETIC_MULTIVARIATE_1, 2},  {SYNTHETIC_MULTIVARIATE_1, 5},
                                         {SYNTHETIC_MULTIVARIATE_1, 10}, {SYNTHETIC_MULTIVARIATE_1, 20},
                                         {SYNTHETIC_MULTIVARIATE_2, 2},  {SYNTHETIC_MULTIVARIATE_2, 5},
                                         {SYNTHETIC_MULTIVARIATE_2, 10}, {SYNTHETIC_MULTIVARIATE_2, 20}};

/* EXPERIMENTS, section 1 (two or three digits), and 2 * 10^7 draws of this library (standard errors below 0.2 %). */
static const struct {
    double floor, vcf, floor_more, vcf_more;
} published[] = {{.336, 1.007, .33611, 1.00637}, {.339, 1.018, .33943, 1.01896}, {.142, .44, .14308, .44147},
                 {.062, .35, .06255, .35416},    {.036, .32, .03652, .32535},    {.024, .31, .02388, .31120},
                 {.175, .62, .17476, .62613},    {.038, .38, .03820, .38055},    {.0127, .27, .01256, .26787},
                 {.0046, .19, .00460, .18861}};

static const double *row(const circe_mat *m, int64_t i) { return (const double *)m->data + i * m->ld; }

static double mean_of(const circe_mat *m, int64_t col) {
    double sum = 0.0;
    for (int64_t i = 0; i < m->rows; i++) sum += row(m, i)[col];
    return sum / (double)m->rows;
}

static double covariance(const circe_mat *a, int64_t col_a, const circe_mat *b, int64_t col_b) {
    double sum = 0.0, mean_a = mean_of(a, col_a), mean_b = mean_of(b, col_b);
    for (int64_t i = 0; i < a->rows; i++) sum += (row(a, i)[col_a] - mean_a) * (row(b, i)[col_b] - mean_b);
    return sum / (double)a->rows;
}

static double variance_of(const circe_mat *m, int64_t col) { return covariance(m, col, m, col); }

/* ---- the paper's equations, once more ---------------------------------------------------------------------------- */

static double sum_of(const double *values, int64_t n) {
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) sum += values[i];
    return sum;
}

static double paper_a(const synthetic_model *m, const double *y, const double *z, double noise) {
    switch (m->kind) {
        case SYNTHETIC_UNIVARIATE_1:
            return 2 * *y + *z * noise / 2;
        case SYNTHETIC_UNIVARIATE_2:
            return noise / 5 + 2 * *y + sin(2 * *z) / exp(*z * *z / 2);
        case SYNTHETIC_MULTIVARIATE_1:
            return noise / 10 + 1 / exp(z[0] / 2) + sin(*y) * sum_of(z, m->d);
        case SYNTHETIC_MULTIVARIATE_2:
            return noise / 10 + 1 / exp(*z / 2) + *z * sin(sum_of(y, m->d));
    }
    return NAN;
}

static double paper_b(const synthetic_model *m, double a, const double *y, const double *z) {
    switch (m->kind) {
        case SYNTHETIC_UNIVARIATE_1:
            return 5 * *z + sin(2 * a * *y) / (2 * exp(a * *y));
        case SYNTHETIC_UNIVARIATE_2:
            return 5 * *z + sin(2 * a * *y) / exp(a * *y / 2);
        case SYNTHETIC_MULTIVARIATE_1:
            return a * *y + sum_of(z, m->d) / exp(z[1] / 2);
        case SYNTHETIC_MULTIVARIATE_2:
            return a * y[0] + *z + sum_of(y, m->d) + *z / exp(*z / 2);
    }
    return NAN;
}

static void equations(void **state) {
    (void)state;
    for (int64_t m = 0; m < COUNT(models); m++) {
        const synthetic_model *model = &models[m];
        synthetic_sample s;
        int64_t n_moved = 0;
        train_ok(synthetic_draw_rows(test_context(2), model, 7, 0, 500, &s));
        for (int64_t i = 0; i < s.n; i++) {
            const double *y = row(&s.y, i), *z = row(&s.z, i);
            double a = *row(&s.a, i), noise = *row(&s.noise_a, i), other[32];
            assert_near(a, paper_a(model, y, z, noise), 1e-12, fabs(a) + 1.0);
            double b = synthetic_mean_b(model, a, y, z);
            assert_near(b, paper_b(model, a, y, z), 1e-12, fabs(b) + 1.0);
            /* The row's own A at its own z, to the bit. */
            assert_true(synthetic_intervene(model, z, y, noise) == a);
            synthetic_draw_z(model, y, 1, i, 0, other);
            double moved = synthetic_intervene(model, other, y, noise);
            assert_near(moved, paper_a(model, y, other, noise), 1e-12, fabs(moved) + 1.0);
            n_moved += moved != a;
        }
        assert_true(n_moved > 400); /* univariate 2 forgets a large z */
        synthetic_free(&s);
    }
}

/* ---- draws ------------------------------------------------------------------------------------------------------- */

/* e_Z (n, d_z), e_A and e_B (n, 1), as the sample shows them. */
static void noises(const synthetic_model *model, const synthetic_sample *s, circe_mat *e_z, circe_mat *e_b) {
    *e_z = test_zeros(s->n, s->z.cols, CIRCE_FLOAT64);
    *e_b = test_zeros(s->n, 1, CIRCE_FLOAT64);
    for (int64_t i = 0; i < s->n; i++) {
        double mean = 0.0;
        for (int64_t c = 0; c < s->y.cols; c++) mean += row(&s->y, i)[c] * row(&s->y, i)[c];
        for (int64_t c = 0; c < s->z.cols; c++) test_set(e_z, i, c, row(&s->z, i)[c] - mean);
        test_set(e_b, i, 0, *row(&s->b, i) - paper_b(model, *row(&s->a, i), row(&s->y, i), row(&s->z, i)));
    }
}

static void check_independent(const circe_mat *a, const circe_mat *b, double slack) {
    for (int64_t i = 0; i < a->cols; i++)
        for (int64_t j = 0; j < b->cols; j++) {
            if (a == b && i == j) continue;
            double scale = sqrt(variance_of(a, i) * variance_of(b, j));
            assert_true(fabs(covariance(a, i, b, j)) < slack * scale);
        }
}

/* n = 40,000: a mean knows itself to 0.005 deviations, a variance to 0.7 %, a correlation to 0.005. */
static void moments(void **state) {
    (void)state;
    for (int64_t m = 0; m < COUNT(models); m++) {
        const synthetic_model *model = &models[m];
        if (model->d > 5) continue;
        synthetic_sample s;
        circe_mat e_z, e_b;
        train_ok(synthetic_draw_rows(test_context(2), model, 3, 0, 40000, &s));
        noises(model, &s, &e_z, &e_b);
        const circe_mat *all[] = {&s.y, &e_z, &s.noise_a, &e_b};
        bool univariate = model->kind == SYNTHETIC_UNIVARIATE_1 || model->kind == SYNTHETIC_UNIVARIATE_2;
        const double variances[] = {1.0, 1.0, 0.1, univariate ? 0.04 * 0.1 : 0.01 * 0.1};
        for (int v = 0; v < 4; v++) {
            for (int64_t c = 0; c < all[v]->cols; c++) {
                assert_near(mean_of(all[v], c), 0.0, 0.025, sqrt(variances[v]));
                assert_near(variance_of(all[v], c), variances[v], 0.035, variances[v]);
            }
            for (int w = v; w < 4; w++) check_independent(all[v], all[w], 0.025);
        }
        synthetic_free(&s);
    }
}

static void same_rows(const synthetic_sample *a, int64_t first, const synthetic_sample *b, int64_t n) {
    const circe_mat *in_a[] = {&a->a, &a->y, &a->z, &a->b, &a->noise_a};
    const circe_mat *in_b[] = {&b->a, &b->y, &b->z, &b->b, &b->noise_a};
    for (int v = 0; v < 5; v++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t c = 0; c < in_a[v]->cols; c++) assert_true(row(in_a[v], first + i)[c] == row(in_b[v], i)[c]);
}

/* Row i is the same whatever n, the first row of the sample and the threads, and another for another seed. */
static void rows_are_functions(void **state) {
    (void)state;
    for (int64_t m = 0; m < COUNT(models); m++) {
        synthetic_sample large, small, part, alone, other;
        train_ok(synthetic_draw_rows(test_context(2), &models[m], 11, 0, 3001, &large));
        train_ok(synthetic_draw_rows(test_context(2), &models[m], 11, 0, 77, &small));
        train_ok(synthetic_draw_rows(test_context(2), &models[m], 11, 1001, 2000, &part));
        train_ok(synthetic_draw_rows(test_context(1), &models[m], 11, 0, 3001, &alone));
        train_ok(synthetic_draw_rows(test_context(4), &models[m], 12, 0, 3001, &other));
        same_rows(&large, 0, &small, 77);
        same_rows(&large, 1001, &part, 2000);
        same_rows(&large, 0, &alone, 3001);
        for (int64_t i = 0; i < 3001; i++) {
            assert_true(*row(&large.y, i) != *row(&other.y, i));
            assert_true(*row(&large.b, i) != *row(&other.b, i));
        }
        synthetic_sample *all[] = {&large, &small, &part, &alone, &other};
        for (int k = 0; k < 5; k++) synthetic_free(all[k]);
    }
}

/* Z given y: its mean and variance at one y, other numbers for every row, draw and seed, and none of the sample's. */
static void draws_of_z(void **state) {
    enum { N = 40000 };
    (void)state;
    const synthetic_model model = {SYNTHETIC_MULTIVARIATE_1, 3};
    double y = 1.5, first[3], again[3];
    circe_mat by_draw = test_zeros(N, 3, CIRCE_FLOAT64), by_row = test_zeros(N, 3, CIRCE_FLOAT64);
    for (int64_t i = 0; i < N; i++) {
        synthetic_draw_z(&model, &y, 5, 0, i, (double *)by_draw.data + 3 * i);
        synthetic_draw_z(&model, &y, 5, i, 2, (double *)by_row.data + 3 * i);
    }
    const circe_mat *both[] = {&by_draw, &by_row};
    for (int k = 0; k < 2; k++) {
        for (int64_t c = 0; c < 3; c++) {
            assert_near(mean_of(both[k], c), 2.25, 0.025, 1.0);
            assert_near(variance_of(both[k], c), 1.0, 0.035, 1.0);
        }
        check_independent(both[k], both[k], 0.025);
    }
    check_independent(&by_draw, &by_row, 0.025);
    synthetic_draw_z(&model, &y, 5, 3, 2, first);
    synthetic_draw_z(&model, &y, 5, 3, 2, again);
    assert_memory_equal(first, again, sizeof first);
    assert_memory_equal(first, row(&by_row, 3), sizeof first);
    synthetic_draw_z(&model, &y, 6, 3, 2, again);
    assert_true(first[0] != again[0]);
    synthetic_sample s;
    train_ok(synthetic_draw_rows(test_context(2), &model, 5, 0, N, &s));
    circe_mat e_z, e_b;
    noises(&model, &s, &e_z, &e_b);
    check_independent(&e_z, &by_row, 0.025);
    check_independent(&e_z, &by_draw, 0.025);
    synthetic_free(&s);
}

/* ---- VCF --------------------------------------------------------------------------------------------------------- */

/* alpha a + beta y_1 + gamma z_1 */
typedef struct linear {
    const synthetic_model *model;
    double alpha, beta, gamma;
    int64_t calls, most_rows;
} linear;

static circe_status predict_linear(void *user, int64_t rows, const double *a, const double *y, const double *z,
                                   double *prediction) {
    linear *f = user;
    int64_t d_y = synthetic_dim_y(f->model), d_z = synthetic_dim_z(f->model);
    for (int64_t i = 0; i < rows; i++) prediction[i] = f->alpha * a[i] + f->beta * y[i * d_y] + f->gamma * z[i * d_z];
    f->calls++;
    f->most_rows = rows > f->most_rows ? rows : f->most_rows;
    return CIRCE_OK;
}

/* univariate 1: A* = 0.5 z' e_A + 2y, so that Var over z' is (0.5 alpha e_A + gamma)^2 Var(z'); Var(z') is the sample's
 * for P(Z), 1 for P(Z | y). 2,000 points by 400 draws: 0.3 % (Var(z') of chi^2-like draws), 0.15 %. */
static void vcf_linear(void **state) {
    (void)state;
    const synthetic_model model = {SYNTHETIC_UNIVARIATE_1, 1};
    synthetic_sample s;
    train_ok(synthetic_draw_rows(test_context(2), &model, 21, 0, 5000, &s));
    linear f = {.model = &model, .alpha = 3.0, .beta = -2.0, .gamma = 0.7};
    double whole = NAN, support = NAN, again = NAN, other = NAN, expected = 0.0;
    int64_t points = 2000, draws = 400;
    for (int64_t i = 0; i < points; i++) expected += pow(0.5 * f.alpha * *row(&s.noise_a, i) + f.gamma, 2.0);
    expected /= (double)points;
    train_ok(synthetic_vcf(test_context(2), &model, &s, points, draws, false, 1, predict_linear, &f, &whole));
    train_ok(synthetic_vcf(test_context(2), &model, &s, points, draws, true, 1, predict_linear, &f, &support));
    assert_near(whole, expected * variance_of(&s.z, 0), 0.015, whole);
    assert_near(support, expected, 0.0075, support);
    assert_true(f.most_rows > 10000 && f.calls < 2 * points * draws / 10000);
    /* The draws are functions of the seed, whatever the threads. */
    train_ok(synthetic_vcf(test_context(1), &model, &s, points, draws, false, 1, predict_linear, &f, &again));
    train_ok(synthetic_vcf(test_context(2), &model, &s, points, draws, false, 2, predict_linear, &f, &other));
    assert_true(again == whole && other != whole);
    synthetic_free(&s);
}

/* Few draws: the variance is the unbiased one, or two draws would give half. */
static void vcf_unbiased(void **state) {
    (void)state;
    const synthetic_model model = {SYNTHETIC_MULTIVARIATE_2, 3};
    synthetic_sample s;
    train_ok(synthetic_draw_rows(test_context(2), &model, 22, 0, 40000, &s));
    linear f = {.model = &model, .gamma = 2.0};
    double value = NAN;
    train_ok(synthetic_vcf(test_context(2), &model, &s, s.n, 2, true, 1, predict_linear, &f, &value));
    assert_near(value, 4.0, 0.04, 4.0); /* (z1 - z2)^2 / 2 over 40,000 points: 0.7 % */
    train_ok(synthetic_vcf(test_context(2), &model, &s, s.n, 2, false, 1, predict_linear, &f, &value));
    assert_near(value, 4.0 * variance_of(&s.z, 0), 0.06, value); /* the same with heavier tails: 1 % */
    /* More draws than a call's rows: one point a call. */
    train_ok(synthetic_vcf(test_context(2), &model, &s, 2, 200000, true, 1, predict_linear, &f, &value));
    assert_near(value, 4.0, 0.015, 4.0);
    synthetic_free(&s);
}

/* What does not look at A and Z does not move. */
static void vcf_of_y_alone(void **state) {
    (void)state;
    for (int64_t m = 0; m < COUNT(models); m++)
        for (int support = 0; support < 2; support++) {
            synthetic_sample s;
            linear f = {.model = &models[m], .beta = 3.0};
            double value = NAN;
            train_ok(synthetic_draw_rows(test_context(2), &models[m], 23, 0, 200, &s));
            train_ok(
                synthetic_vcf(test_context(2), &models[m], &s, 200, 50, support != 0, 1, predict_linear, &f, &value));
            assert_true(value >= 0.0 && value < 1e-24);
            synthetic_free(&s);
        }
}

/* What a predictor is asked: y of the row, z' a whole row of the sample, A* of these with the row's noise. */
typedef struct asked {
    const synthetic_model *model;
    const synthetic_sample *sample;
    int64_t draws, seen, own, distinct;
} asked;

static int64_t find_row(const circe_mat *m, const double *values) {
    for (int64_t i = 0; i < m->rows; i++)
        if (memcmp(row(m, i), values, (size_t)m->cols * sizeof *values) == 0) return i;
    return -1;
}

static circe_status check_asked(void *user, int64_t rows, const double *a, const double *y, const double *z,
                                double *prediction) {
    asked *f = user;
    const synthetic_sample *s = f->sample;
    for (int64_t i = 0; i < rows; i++, f->seen++) {
        int64_t point = f->seen / f->draws, from = find_row(&s->z, z + i * s->z.cols);
        assert_memory_equal(row(&s->y, point), y + i * s->y.cols, (size_t)s->y.cols * sizeof *y);
        assert_true(from >= 0);
        f->own += from == point;
        f->distinct += i > 0 && memcmp(z + i * s->z.cols, z + (i - 1) * s->z.cols, sizeof *z) != 0;
        assert_true(a[i] ==
                    synthetic_intervene(f->model, z + i * s->z.cols, y + i * s->y.cols, *row(&s->noise_a, point)));
        prediction[i] = 0.0;
    }
    return CIRCE_OK;
}

static circe_status refuse(void *user, int64_t rows, const double *a, const double *y, const double *z,
                           double *prediction) {
    (void)user, (void)rows, (void)a, (void)y, (void)z, (void)prediction;
    return circe_fail(CIRCE_ERR_NUMERIC, "the predictor's own words");
}

static void vcf_asks(void **state) {
    (void)state;
    const synthetic_model two[] = {{SYNTHETIC_MULTIVARIATE_1, 4}, {SYNTHETIC_MULTIVARIATE_2, 4}};
    for (int m = 0; m < 2; m++) {
        synthetic_sample s;
        double value = NAN;
        train_ok(synthetic_draw_rows(test_context(2), &two[m], 24, 0, 150, &s));
        asked f = {.model = &two[m], .sample = &s, .draws = 30};
        train_ok(synthetic_vcf(test_context(2), &two[m], &s, 100, 30, false, 1, check_asked, &f, &value));
        assert_int_equal(f.seen, 3000);
        assert_true(f.own < 60);        /* a 150th of 3,000 is 20 */
        assert_true(f.distinct > 2900); /* all but a 150th */
        value = 5.0;
        train_refused(synthetic_vcf(test_context(2), &two[m], &s, 100, 30, false, 1, refuse, NULL, &value),
                      CIRCE_ERR_NUMERIC, "own words");
        assert_true(value == 5.0);
        synthetic_free(&s);
    }
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

/* To the table within 3 %, to 2 * 10^7 draws within five of the standard errors that are reported. */
static void limits_table(void **state) {
    (void)state;
    for (int64_t m = 0; m < COUNT(models); m++) {
        synthetic_limits l;
        train_ok(synthetic_compute_limits(test_context(2), &models[m], 3, 400000, &l));
        assert_near(l.floor, published[m].floor, 0.03, published[m].floor);
        assert_near(l.vcf, published[m].vcf, 0.03, published[m].vcf);
        assert_near(l.vcf_support, published[m].floor, 0.03, published[m].floor);
        assert_near(l.floor, published[m].floor_more, 5.0, l.floor_error + 1e-5);
        assert_near(l.vcf, published[m].vcf_more, 5.0, l.vcf_error + 1e-5);
        assert_true(l.floor_error < 0.015 * l.floor && l.vcf_error < 0.015 * l.vcf);
        /* The noises' share is all that tells support from floor. */
        assert_true(l.vcf_support < l.floor && l.vcf_support > 0.99 * l.floor);
    }
}

/* floor - vcf_support is what the noises of A and B add to B: in multivariate 2, where AY_1 carries the first,
 * (0.1^2 E[Y_1^2] + 0.1^2) * 0.1 = 0.002. Both come from the same draws, so that little but this difference is left. */
static void limits_noise(void **state) {
    (void)state;
    const synthetic_model *model = &models[6];
    synthetic_limits l;
    synthetic_sample s;
    train_ok(synthetic_compute_limits(test_context(2), model, 3, 400000, &l));
    train_ok(synthetic_draw_rows(test_context(2), model, 4, 0, 100000, &s));
    assert_near((l.floor - l.vcf_support) * variance_of(&s.b, 0), 0.002, 0.15, 0.002);
    synthetic_free(&s);
}

/* Standard errors are what runs scatter by: over 30 seeds the squares of (value - truth) / error average 1, known to
 * sqrt(2 / 30) = 0.26. Multivariate 1, with B^2 ~ Y^6, needs 400,000 draws to know its own error, and is left out. */
static void limits_errors(void **state) {
    enum { SEEDS = 30 };
    (void)state;
    static const int64_t some[] = {0, 6, 9};
    for (int64_t k = 0; k < COUNT(some); k++) {
        double of_floor = 0.0, of_vcf = 0.0, of_support = 0.0;
        int64_t m = some[k];
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            synthetic_limits l;
            train_ok(synthetic_compute_limits(test_context(2), &models[m], 100 + seed, 20000, &l));
            of_floor += pow((l.floor - published[m].floor_more) / l.floor_error, 2.0) / SEEDS;
            of_vcf += pow((l.vcf - published[m].vcf_more) / l.vcf_error, 2.0) / SEEDS;
            of_support += pow((l.vcf_support - published[m].floor_more) / l.vcf_support_error, 2.0) / SEEDS;
        }
        assert_true(of_floor > 0.4 && of_floor < 2.5);
        assert_true(of_vcf > 0.4 && of_vcf < 2.5);
        assert_true(of_support > 0.4 && of_support < 2.5);
    }
}

static void limits_are_functions(void **state) {
    (void)state;
    for (int64_t m = 0; m < COUNT(models); m++) {
        synthetic_limits one, other;
        synthetic_sample s;
        double floor_one = NAN, floor_other = NAN;
        train_ok(synthetic_draw_rows(test_context(2), &models[m], 1, 0, 50, &s));
        train_ok(synthetic_compute_limits(test_context(1), &models[m], 1, 5000, &one));
        train_ok(synthetic_conditional_variance(test_context(1), &models[m], &s, 1, &floor_one));
        train_ok(synthetic_compute_limits(test_context(3), &models[m], 1, 5000, &other));
        train_ok(synthetic_conditional_variance(test_context(3), &models[m], &s, 1, &floor_other));
        assert_memory_equal(&one, &other, sizeof one);
        assert_true(floor_one == floor_other);
        train_ok(synthetic_compute_limits(test_context(2), &models[m], 2, 5000, &other));
        assert_true(one.floor != other.floor && one.vcf != other.vcf);
        synthetic_free(&s);
    }
}

/* The draw that a seed met before f was bounded: 3,054 in place of 1.006. */
static void limits_bounded(void **state) {
    (void)state;
    synthetic_limits l;
    train_ok(synthetic_compute_limits(test_context(2), &models[0], 2, 1000000, &l));
    assert_near(l.vcf, 1.006, 0.01, 1.0);
    assert_true(l.vcf_error < 0.002);
}

typedef struct best {
    const synthetic_model *model;
    double deviation;
} best;

static circe_status predict_best(void *user, int64_t rows, const double *a, const double *y, const double *z,
                                 double *prediction) {
    best *f = user;
    int64_t d_y = synthetic_dim_y(f->model), d_z = synthetic_dim_z(f->model);
    for (int64_t i = 0; i < rows; i++)
        prediction[i] = synthetic_mean_b(f->model, a[i], y + i * d_y, z + i * d_z) / f->deviation;
    return CIRCE_OK;
}

/* VCF of the true conditional mean through whole rows of z: no shared code with the limits but the equations, and
 * columns of z that the limits never draw. The errors are those of limits from as many points. */
static void vcf_of_the_best(void **state) {
    (void)state;
    static const int64_t some[] = {0, 1, 2, 5, 6, 9};
    for (int64_t k = 0; k < COUNT(some); k++) {
        const synthetic_model *model = &models[some[k]];
        synthetic_limits l;
        synthetic_sample s;
        double whole = NAN, support = NAN;
        train_ok(synthetic_draw_rows(test_context(2), model, 31, 0, 60000, &s));
        train_ok(synthetic_compute_limits(test_context(2), model, 5, s.n, &l));
        best f = {.model = model, .deviation = sqrt(variance_of(&s.b, 0))};
        train_ok(synthetic_vcf(test_context(2), model, &s, s.n, 4, false, 1, predict_best, &f, &whole));
        train_ok(synthetic_vcf(test_context(2), model, &s, s.n, 4, true, 1, predict_best, &f, &support));
        /* One draw of B a row here, four there: twice the error covers it. */
        assert_near(whole, published[some[k]].vcf_more, 8.0, l.vcf_error);
        assert_near(support, published[some[k]].floor_more, 8.0, l.vcf_support_error);
        synthetic_free(&s);
    }
}

/* Var(B | y_i) with all columns of z, all noises, 300 draws a row; the mean over 300 rows is known to 0.5 %. */
static void floor_of_a_sample(void **state) {
    enum { ROWS = 300, INNER = 300 };
    (void)state;
    for (int64_t m = 0; m < COUNT(models); m++) {
        const synthetic_model *model = &models[m];
        synthetic_sample s;
        double fast = NAN, slow = 0.0, e_b = m < 2 ? 0.2 : 0.1;
        train_ok(synthetic_draw_rows(test_context(2), model, 41, 0, ROWS, &s));
        circe_mat noise = test_normal(1, ROWS * INNER, 2);
        for (int64_t i = 0; i < ROWS; i++) {
            double sum = 0.0, squares = 0.0, z[32];
            for (int64_t k = 0; k < INNER; k++) {
                const double *e = row(&noise, i * INNER + k);
                synthetic_draw_z(model, row(&s.y, i), 9, i, k, z);
                double a = paper_a(model, row(&s.y, i), z, sqrt(0.1) * e[0]);
                double b = paper_b(model, a, row(&s.y, i), z) + e_b * sqrt(0.1) * e[1];
                sum += b;
                squares += b * b;
            }
            slow += (squares - sum * sum / INNER) / (INNER - 1) / ROWS;
        }
        train_ok(synthetic_conditional_variance(test_context(2), model, &s, 1, &fast));
        assert_near(fast, slow, 0.04, slow);
        synthetic_free(&s);
    }
}

/* ---- as a network sees them -------------------------------------------------------------------------------------- */

static void standardised(void **state) {
    (void)state;
    static const int64_t some[] = {0, 3, 7};
    for (int64_t k = 0; k < COUNT(some); k++) {
        const synthetic_model *model = &models[some[k]];
        synthetic_sample training, test;
        synthetic_scales scales;
        synthetic_points seen, points;
        train_ok(synthetic_draw_rows(test_context(2), model, 1, 0, 3000, &training));
        train_ok(synthetic_draw_rows(test_context(2), model, 1, 3000, 100, &test));
        train_ok(synthetic_scales_fit(&training, &scales));
        train_ok(synthetic_points_make(&scales, &training, &seen));
        train_ok(synthetic_points_make(&scales, &test, &points));
        int64_t d_y = test.y.cols, d_z = test.z.cols;
        assert_int_equal(points.features.cols, 1 + d_y + d_z);
        assert_true(points.features.dtype == CIRCE_FLOAT32 && points.target.dtype == CIRCE_FLOAT32);
        for (int64_t c = 0; c < d_z; c++) {
            assert_near(mean_of(&seen.z, c), 0.0, 1e-12, 1.0);
            assert_near(variance_of(&seen.z, c), 1.0, 1e-12, 1.0);
        }
        double deviation = sqrt(variance_of(&training.b, 0)), mean = mean_of(&training.b, 0);
        for (int64_t i = 0; i < test.n; i++) {
            for (int64_t c = 0; c < d_y; c++)
                assert_true((float)test_at(&points.y, i, c) == (float)test_at(&points.features, i, 1 + c));
            for (int64_t c = 0; c < d_z; c++)
                assert_true((float)test_at(&points.z, i, c) == (float)test_at(&points.features, i, 1 + d_y + c));
            /* float32: 6e-8 of the value */
            assert_near(test_at(&points.target, i, 0), (*row(&test.b, i) - mean) / deviation, 1e-6,
                        1.0 + fabs(*row(&test.b, i)));
        }
        /* The rows of a callback become the same numbers. */
        circe_mat features = test_zeros(test.n, 1 + d_y + d_z, CIRCE_FLOAT32);
        train_ok(synthetic_standardise(test_context(2), model, &scales, test.n, test.a.data, test.y.data, test.z.data,
                                       features.data));
        assert_mat_equal(&features, &points.features);
        synthetic_model other = {SYNTHETIC_MULTIVARIATE_2, 17};
        train_refused(synthetic_standardise(test_context(2), &other, &scales, 1, test.a.data, test.y.data, test.z.data,
                                            features.data),
                      CIRCE_ERR_SHAPE, "17");
        synthetic_free(&training);
        synthetic_free(&test);
        synthetic_points_free(&seen);
        synthetic_points_free(&points);
        synthetic_scales_free(&scales);
    }
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void names(void **state) {
    (void)state;
    static const char *const expected[] = {"univariate1", "univariate2", "multivariate1", "multivariate2"};
    for (int k = 1; k <= 4; k++) assert_string_equal(synthetic_name((synthetic_kind)k), expected[k - 1]);
    assert_string_equal(synthetic_name((synthetic_kind)5), "unknown");
    const synthetic_model one = {SYNTHETIC_MULTIVARIATE_1, 7}, two = {SYNTHETIC_MULTIVARIATE_2, 7};
    assert_true(synthetic_dim_z(&one) == 7 && synthetic_dim_y(&one) == 1);
    assert_true(synthetic_dim_z(&two) == 1 && synthetic_dim_y(&two) == 7);
}

static void refusals(void **state) {
    (void)state;
    static const struct {
        synthetic_model model;
        const char *part;
    } wrong[] = {{{(synthetic_kind)0, 1}, "number 0"},
                 {{(synthetic_kind)9, 1}, "number 9"},
                 {{SYNTHETIC_UNIVARIATE_1, 2}, "from 1 to 1"},
                 {{SYNTHETIC_UNIVARIATE_2, 0}, "from 1 to 1"},
                 {{SYNTHETIC_MULTIVARIATE_1, 1}, "from 2"},
                 {{SYNTHETIC_MULTIVARIATE_2, 0}, "from 1"},
                 {{SYNTHETIC_MULTIVARIATE_2, INT64_MAX}, "to 4096"}};
    synthetic_sample s, refused;
    synthetic_limits l;
    double value;
    linear f = {.model = &models[0], .alpha = 1.0};
    train_ok(synthetic_draw_rows(test_context(2), &models[0], 1, 0, 10, &s));
    for (int64_t k = 0; k < COUNT(wrong); k++) {
        const synthetic_model *m = &wrong[k].model;
        train_refused(synthetic_draw_rows(test_context(2), m, 1, 0, 10, &refused), CIRCE_ERR_ARGUMENT, wrong[k].part);
        assert_null(refused.a.data);
        train_refused(synthetic_compute_limits(test_context(2), m, 1, 5000, &l), CIRCE_ERR_ARGUMENT, wrong[k].part);
        train_refused(synthetic_conditional_variance(test_context(2), m, &s, 1, &value), CIRCE_ERR_ARGUMENT,
                      wrong[k].part);
        train_refused(synthetic_vcf(test_context(2), m, &s, 2, 2, false, 1, predict_linear, &f, &value),
                      CIRCE_ERR_ARGUMENT, wrong[k].part);
    }
    train_refused(synthetic_draw_rows(test_context(2), &models[0], 1, 0, 0, &refused), CIRCE_ERR_ARGUMENT, "1 to 2^40");
    train_refused(synthetic_draw_rows(test_context(2), &models[0], 1, 0, -5, &refused), CIRCE_ERR_ARGUMENT,
                  "1 to 2^40");
    train_refused(synthetic_draw_rows(test_context(2), &models[0], 1, -1, 5, &refused), CIRCE_ERR_ARGUMENT, "row -1");
    train_refused(synthetic_compute_limits(test_context(2), &models[0], 1, 100, &l), CIRCE_ERR_ARGUMENT, "1024");
    train_refused(synthetic_vcf(test_context(2), &models[0], &s, 11, 2, false, 1, predict_linear, &f, &value),
                  CIRCE_ERR_ARGUMENT, "11 points");
    train_refused(synthetic_vcf(test_context(2), &models[0], &s, 0, 2, false, 1, predict_linear, &f, &value),
                  CIRCE_ERR_ARGUMENT, "0 points");
    train_refused(synthetic_vcf(test_context(2), &models[0], &s, 5, 1, false, 1, predict_linear, &f, &value),
                  CIRCE_ERR_ARGUMENT, "at least 2");
    train_refused(synthetic_vcf(test_context(2), &models[3], &s, 5, 2, false, 1, predict_linear, &f, &value),
                  CIRCE_ERR_SHAPE, "multivariate1");
    train_refused(synthetic_conditional_variance(test_context(2), &models[7], &s, 1, &value), CIRCE_ERR_SHAPE,
                  "multivariate2");
    synthetic_free(&s);
    synthetic_free(&s);
    synthetic_free(NULL);
}

TEST_MAIN("synthetic", TEST(names), TEST(equations), TEST(moments), TEST(rows_are_functions), TEST(draws_of_z),
          TEST(vcf_linear), TEST(vcf_unbiased), TEST(vcf_of_y_alone), TEST(vcf_asks), TEST(limits_table),
          TEST(limits_noise), TEST(limits_errors), TEST(limits_are_functions), TEST(limits_bounded),
          TEST(vcf_of_the_best), TEST(floor_of_a_sample), TEST(standardised), TEST(refusals))
