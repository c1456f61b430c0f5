/* Rates and errors of the groups of --invariant-to, with the metrics of audits, on the judged rows. */
#include <math.h>
#include <stdlib.h>

#include "base/small.h"
#include "jobs/audit_parts.h"
#include "jobs/training.h"

enum { GROUPS_OF_NUMBERS = 4, NETWORKS = 2, MOST_GROUPS = 40 };

/* The judged rows in the form of an audit: the target, and the predictions of both networks. */
typedef struct judged {
    circe_audit_result r;
    circe_audit_column predictions[NETWORKS];
    int64_t *right[NETWORKS]; /* (n): 1 if the class is right; NULL: numbers, or no such network */
    audit_ranking rankings[NETWORKS];
    audit_sums *sums; /* owned */
    arena owner;      /* of the rest */
} judged;

static const float *outputs_of(const trained *t, int network) { return network == 0 ? t->after : t->baseline; }

/* One number per row: the first target in its units, or the probability of the second class. */
static double as_number(const training_set *set, const float *row, int64_t outputs) {
    if (set->loss == TRAIN_MSE) return (double)row[0] * set->target_scale.deviation[0] + set->target_scale.mean[0];
    return outputs == 2 ? 1.0 / (1.0 + exp((double)row[0] - (double)row[1])) : 0.0;
}

static void take_network(const training_job *job, int network, judged *j) {
    const training_part *part = training_judged(job->set);
    const float *outputs = outputs_of(job->made, network), *target = part->data.target.data;
    if (outputs == NULL) return;
    j->predictions[network].values = arena_alloc(&j->owner, (size_t)part->n * sizeof(double));
    j->right[network] = arena_alloc(&j->owner, (size_t)part->n * sizeof(int64_t));
    for (int64_t i = 0; i < part->n; i++) {
        const float *row = outputs + i * job->outputs;
        j->predictions[network].values[i] = as_number(job->set, row, job->outputs);
        j->right[network][i] = training_likeliest(row, job->outputs) == (int64_t)target[i * part->data.target.ld];
    }
}

static circe_status judged_make(const training_job *job, judged *j) {
    const training_set *set = job->set;
    const training_part *part = training_judged(set);
    const float *target = part->data.target.data;
    bool classes = set->loss == TRAIN_CROSS_ENTROPY;
    circe_status status = CIRCE_OK;
    j->r =
        (circe_audit_result){.n = part->n, .threshold = 0.5, .predictions = j->predictions, .n_predictions = NETWORKS};
    j->r.outcome = !classes ? CIRCE_OUTCOME_NUMBERS : job->outputs == 2 ? CIRCE_OUTCOME_BINARY : CIRCE_OUTCOME_CLASSES;
    j->r.target.values = arena_alloc(&j->owner, (size_t)part->n * sizeof(double));
    for (int64_t i = 0; i < part->n; i++) {
        double value = (double)target[i * part->data.target.ld];
        j->r.target.values[i] = classes ? value : value * set->target_scale.deviation[0] + set->target_scale.mean[0];
        j->r.target.mean += j->r.target.values[i] / (double)part->n;
    }
    j->sums = audit_sums_make(MOST_GROUPS);
    for (int network = 0; network < NETWORKS && status == CIRCE_OK; network++) {
        take_network(job, network, j);
        if (j->right[network] != NULL) status = audit_ranking_make(&j->owner, &j->r, network, &j->rankings[network]);
    }
    return status;
}

static double share_right(const int64_t *right, const int64_t *of, int64_t n, int64_t group) {
    int64_t rows = 0, sum = 0;
    for (int64_t i = 0; i < n; i++)
        if (of[i] == group) rows++, sum += right[i];
    return rows > 0 ? (double)sum / (double)rows : (double)NAN;
}

static void put_groups(const judged *j, const char *column, const circe_audit_groups *groups, trained *t) {
    circe_training *r = &t->result;
    OWNED double *metrics = small_alloc((size_t)(groups->n_groups * CIRCE_METRICS) * sizeof *metrics);
    circe_training_group *first = r->groups + r->n_groups;
    bool classes = j->r.outcome != CIRCE_OUTCOME_NUMBERS;
    for (int64_t g = 0; g < groups->n_groups; g++) {
        first[g] = (circe_training_group){.rows = groups->rows[g]};
        first[g].column = arena_text(&t->owner, column);
        first[g].group = arena_text(&t->owner, groups->labels[g]);
    }
    for (int network = 0; network < NETWORKS; network++) {
        bool there = j->right[network] != NULL;
        if (there) audit_metrics_of(&j->rankings[network], NULL, groups->of, groups->n_groups, j->sums, metrics);
        for (int64_t g = 0; g < groups->n_groups; g++) {
            const double *m = metrics + g * CIRCE_METRICS;
            bool two = there && j->r.outcome == CIRCE_OUTCOME_BINARY;
            first[g].selected[network] = two ? m[CIRCE_METRIC_SELECTION_RATE] : (double)NAN;
            first[g].true_positive[network] = two ? m[CIRCE_METRIC_TRUE_POSITIVE_RATE] : (double)NAN;
            first[g].false_positive[network] = two ? m[CIRCE_METRIC_FALSE_POSITIVE_RATE] : (double)NAN;
            first[g].accuracy[network] =
                there && classes ? share_right(j->right[network], groups->of, j->r.n, g) : (double)NAN;
            first[g].error[network] = there && !classes ? m[CIRCE_METRIC_ROOT_MEAN_SQUARE_ERROR] : (double)NAN;
        }
    }
    r->n_groups += groups->n_groups;
}

/* Column `col` of the table on the judged rows: its categories, or its numbers in some groups. */
static void group_column(const training_job *job, int64_t col, const judged *j) {
    const column_table *table = &job->set->table;
    const training_part *part = training_judged(job->set);
    char **categories = (char **)(uintptr_t)column_categories(table, col);
    OWNED_BY(arena_free) arena scratch = {0};
    circe_audit_column column = {.values = arena_alloc(&scratch, (size_t)part->n * sizeof(double)),
                                 .code = arena_alloc(&scratch, (size_t)part->n * sizeof(int64_t)),
                                 .categories = categories};
    while (categories != NULL && categories[column.n_categories] != NULL) column.n_categories++;
    for (int64_t i = 0; i < part->n; i++) {
        column.values[i] = column_value(table, part->rows[i], col);
        if (categories != NULL) column.code[i] = (int64_t)column.values[i];
    }
    if (column.n_categories > MOST_GROUPS) return;
    circe_audit_groups groups = audit_groups_make(&scratch, &column, NULL, part->n, GROUPS_OF_NUMBERS, 1);
    put_groups(j, column_name(table, col), &groups, job->made);
}

circe_status training_compare_groups(training_job *job) {
    circe_training *r = &job->made->result;
    judged j = {0};
    double metrics[CIRCE_METRICS];
    circe_training_score *const scores[NETWORKS] = {&r->score, &r->baseline_score};
    r->groups = arena_alloc(&job->made->owner, (size_t)(MOST_GROUPS * job->set->invariant.n) * sizeof *r->groups);
    circe_status status = judged_make(job, &j);
    for (int network = 0; network < NETWORKS && status == CIRCE_OK; network++) {
        if (j.right[network] == NULL || j.r.outcome != CIRCE_OUTCOME_BINARY) continue;
        audit_metrics_of(&j.rankings[network], NULL, NULL, 1, j.sums, metrics);
        scores[network]->auc = metrics[CIRCE_METRIC_AUC];
    }
    for (int64_t c = 0; c < job->set->invariant.n && status == CIRCE_OK; c++)
        group_column(job, job->set->invariant.cols[c], &j);
    arena_free(&j.owner);
    free(j.sums);
    return status;
}
