/* Audit predictions that are in memory: do they depend on an attribute, once the outcome is known?
 *
 *     cc audit.c $(pkg-config --cflags --libs circe_jobs) -o audit && ./audit */
#include <circe/audit.h>
#include <circe/random.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 2000 };

static void check(circe_status status) {
    if (status == CIRCE_OK) return;
    fprintf(stderr, "%s\n", circe_last_error());
    exit(1);
}

/* Who repays; a score of that, which is too low for the young; and the same score without this. */
static void make(const char **repaid, const char **group, double *score, double *fair) {
    static double u[N], v[N], noise[N];
    circe_random_uniform((circe_random){1, 0}, 0, N, u);
    circe_random_uniform((circe_random){1, 1}, 0, N, v);
    circe_random_normal((circe_random){1, 2}, 0, N, noise);
    for (int i = 0; i < N; i++) {
        int yes = u[i] < 0.8, young = v[i] < 0.3;
        repaid[i] = yes ? "yes" : "no";
        group[i] = young ? "young" : "old";
        fair[i] = 0.35 + 0.25 * yes + 0.12 * noise[i];
        score[i] = fair[i] - 0.1 * young;
    }
}

static void print_groups(const circe_audit_result *audit, const circe_audit_finding *f) {
    const circe_audit_groups *groups = &audit->groups[f->attribute];
    for (int64_t g = 0; g < groups->n_groups; g++) {
        const circe_audit_estimate *rate = &f->groups[g].of[CIRCE_METRIC_TRUE_POSITIVE_RATE];
        printf("    %-6s %5lld rows, true positive rate %.2f [%.2f, %.2f]\n", groups->labels[g],
               (long long)groups->rows[g], rate->value, rate->lower, rate->upper);
    }
}

int main(void) {
    static const char *repaid[N], *group[N];
    static double score[N], fair[N];
    circe_context *context = NULL;
    circe_table *table = NULL;
    circe_audit_result *audit = NULL;
    circe_audit_options options;
    make(repaid, group, score, fair);
    check(circe_context_create(NULL, &context));
    check(circe_table_create(N, &table));
    check(circe_table_add_texts(table, "repaid", repaid));
    check(circe_table_add_texts(table, "group", group));
    check(circe_table_add_numbers(table, "score", score, 1));
    check(circe_table_add_numbers(table, "fair", fair, 1));

    circe_audit_options_init(&options);
    options.prediction = "score,fair";
    options.target = "repaid";
    options.sensitive = "group";
    options.calibrate = 0;
    check(circe_audit(context, table, &options, NULL, &audit));
    for (int64_t p = 0; p < audit->n_predictions; p++) {
        const circe_audit_finding *f = &audit->findings[p * audit->n_attributes];
        printf("%-6s AUC %.2f, p = %.2g: %s\n", audit->predictions[p].name,
               audit->quality[p].of[CIRCE_METRIC_AUC].value, f->p_value, circe_audit_decision_name(f->decision));
        print_groups(audit, f);
    }
    circe_audit_result_free(audit);
    circe_table_free(table);
    circe_context_destroy(context);
    return 0;
}
