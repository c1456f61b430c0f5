/* Many tests as JSON, and as a table in text. */
#include <inttypes.h>
#include <stdio.h>

#include "circe/test_job.h"
#include "core/settings.h"
#include "jobs/json.h"
#include "jobs/test_json.h"
#include "report/report.h"

static void json_answer(cJSON *out, const circe_answer *a) {
    cJSON_AddStringToObject(out, "x", a->x);
    json_word(out, "y", a->y);
    cJSON_AddStringToObject(out, "z", a->z);
    if (a->error != NULL) {
        cJSON_AddNullToObject(out, "p_value");
        cJSON_AddStringToObject(out, "error", a->error);
        return;
    }
    json_number(out, "p_holm", a->p_holm);
    json_number(out, "p_bh", a->p_bh);
    json_integer(out, "dropped", a->dropped);
    cJSON_AddBoolToObject(out, "cached", a->cached);
    test_json(out, &a->result);
}

char *circe_tests_json(const circe_tests_result *r) {
    CIRCE_OWN_SETTINGS;
    cJSON *out = cJSON_CreateObject();
    cJSON_AddStringToObject(out, "method", r->method);
    json_integer(out, "rows", r->rows);
    json_integer(out, "failed", (int64_t)r->n_failed);
    json_integer(out, "cached", (int64_t)r->n_cached);
    json_number(out, "alpha", r->alpha);
    json_integer(out, "seed", r->seed);
    cJSON *list = cJSON_AddArrayToObject(out, "tests");
    for (size_t i = 0; i < r->n; i++) json_answer(json_item(list), &r->answers[i]);
    json_notes(out, &r->warnings);
    return json_text(out);
}

static void put(FILE *out, const char *text, char end) {
    report_put_cell(out, ',', "", text != NULL ? text : "");
    putc(end, out);
}

char *circe_tests_csv(const circe_tests_result *r) {
    CIRCE_OWN_SETTINGS;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) {
        (void)circe_fail(CIRCE_ERR_MEMORY, "out of memory");
        return NULL;
    }
    fputs("x,y,z,p_value,p_holm,p_bh,statistic,null,trust,n,error\n", out);
    for (size_t i = 0; i < r->n; i++) {
        const circe_answer *a = &r->answers[i];
        put(out, a->x, ',');
        put(out, a->y, ',');
        put(out, a->z, ',');
        if (a->error == NULL)
            fprintf(out, "%.17g,%.17g,%.17g,%.17g,%s,%s,%" PRId64 ",\n", a->result.p_value, a->p_holm, a->p_bh,
                    a->result.statistic, circe_test_null_name(a->result.null), circe_trust_name(a->result.trust),
                    a->result.n);
        else {
            fputs(",,,,,,,", out);
            put(out, a->error, '\n');
        }
    }
    fclose(out);
    return text;
}
