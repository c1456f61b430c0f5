/* KCI (Zhang, Peters, Janzing and Schoelkopf 2011) as a test: (1/n) tr(R_x K_(x,y) R_x R_z K_z R_z), and its null.
 *
 * As published, except for three things that the level needs (docs/testing.md has the numbers): width and ridge of each
 * regression by leave-one-out rather than fixed, then a tenth of that ridge; a constant that is not penalised; and a
 * null that accounts for the regression (pair.c), whereas the published one takes the residuals as given. Both
 * published nulls are available: the weighted sum of chi-squares by its eigenvalues, and the gamma of the same two
 * moments. */
#include "inference/inference_parts.h"

circe_status circe__test_kci(const circe__data *data, circe_test_result *result) {
    const circe__pair_plan plan = {.regress_x = true};
    circe__regressions regressions;
    circe__pair pair;
    circe_status status = circe__pair_make(data, &plan, &pair, &regressions, result);
    if (status != CIRCE_OK) return status;
    pair.scale = 1.0 / (double)data->n;
    circe_test_null null = data->options.null == CIRCE_NULL_AUTO ? CIRCE_NULL_GAMMA : data->options.null;
    status = circe__pair_test(data, &pair, null, result);
    if (status == CIRCE_OK) status = circe__check_missed_pair(data, &regressions, &pair, result);
    circe__pair_free(data->context, &pair);
    circe__regressions_free(data->context, &regressions);
    return status;
}
