/* Warns of columns that determine each other, as copies under another name do: then the invariance is there from the
 * start, or cannot be had, or the target is among the features. */
#include "base/owned.h"
#include "jobs/relations.h"
#include "jobs/training.h"

static bool make(const training_set *set, const training_role *role, relations *out) {
    return relations_make(&set->table, role->cols, role->n, out);
}

/* The target may be predicted from itself under another name. */
static void note_features(training_job *job) {
    const training_set *set = job->set;
    OWNED_BY(relations_free) relations target = {0};
    if (set->target.n > 1 || !make(set, &set->target, &target)) return;
    for (int64_t k = 0; k < set->features.n; k++) {
        const training_role one = {.cols = &set->features.cols[k], .n = 1};
        OWNED_BY(relations_free) relations feature = {0};
        if (relations_determine(&set->table, &target, one.cols[0]) && make(set, &one, &feature) &&
            relations_determine(&set->table, &feature, set->target.cols[0]))
            notes_add(&job->warnings,
                      "the feature '%s' and the target '%s' determine each other in every row: is it the target under "
                      "another name?",
                      training_column(set, &set->features, k), training_column(set, &set->target, 0));
    }
}

static void note_invariance(training_job *job) {
    const training_set *set = job->set;
    const bool conditional = job->kind != CIRCE_MEASURE_HSIC;
    OWNED_BY(relations_free) relations given = {0}, invariant = {0};
    if (!make(set, &set->given, &given) || !make(set, &set->invariant, &invariant)) return;
    for (int64_t k = 0; k < set->invariant.n && conditional; k++)
        if (relations_determine(&set->table, &given, set->invariant.cols[k]))
            notes_add(&job->warnings,
                      "--given determines '%s' of --invariant-to in every row: once --given is known, nothing can "
                      "depend on it, so there is nothing to regularise, and what is reported of this dependence is "
                      "noise",
                      training_column(set, &set->invariant, k));
    for (int64_t k = 0; k < set->target.n; k++)
        if (relations_determine(&set->table, &invariant, set->target.cols[k]) &&
            !(conditional && (set->given_is_target || relations_determine(&set->table, &given, set->target.cols[k]))))
            notes_add(&job->warnings,
                      "--invariant-to determines the target '%s' in every row: a prediction that does not depend on it "
                      "can tell no more about the target than %s",
                      training_column(set, &set->target, k), conditional ? "--given does" : "a constant");
}

/* A warning that memory does not allow is left out. */
void training_note_relations(training_job *job) {
    note_features(job);
    if (job->set->has_invariant) note_invariance(job);
}
