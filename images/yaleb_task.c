/* Splits by identity, the in-domain pictures, the noise of the pose. Every picture has its own draws, at its position
 * in the order of the names: what happens to it does not depend on the split. Cost: a binary search a picture. */
#include "images/yaleb_task.h"

#include <math.h>
#include <stdlib.h>

#include "base/owned.h"
#include "circe/status.h"

enum { MOST_IDENTITIES = 100 };
enum { STREAM_PEOPLE = 0x79616c65, STREAM_HOLDOUT, STREAM_BRANCH, STREAM_NOISE }; /* "yale" */

void yaleb_task_options_init(yaleb_task_options *options) {
    *options = (yaleb_task_options){.seed = 0, .validation = 0.1, .test = 0.1, .holdout = 0.1, .pose_noise = 2.0};
}

static double distractor(const yaleb_name *name) { return (double)name->azimuth / 130.0; }

bool yaleb_in_domain(const yaleb_name *name, int sign) {
    double y = (double)name->pose, a = 0.5 * (distractor(name) + 1.0) * 9.0;
    return fabs(a - 0.5 * y - (double)sign * y * y / 18.0) < 1.0;
}

/* ---- which picture belongs where --------------------------------------------------------------------------------- */

static int64_t share_of(double share, int64_t n) {
    int64_t part = (int64_t)floor(share * (double)n + 0.5);
    return part > 0 ? part : 1;
}

/* of[identity] := the split of its pictures. */
static circe_status split_people(const yaleb_store *store, const yaleb_task_options *options,
                                 image_part_kind of[MOST_IDENTITIES]) {
    int people[MOST_IDENTITIES];
    int64_t order[MOST_IDENTITIES], n = 0;
    for (int64_t i = 0; i < store->n; i++) {
        if (i == 0 || store->names[i].identity != store->names[i - 1].identity) people[n++] = store->names[i].identity;
    }
    int64_t test = share_of(options->test, n), validation = share_of(options->validation, n);
    if (test + validation >= n)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "%lld identities are too few: %lld are for the test and %lld for validation, and at least "
                          "one must be left for training",
                          (long long)n, (long long)test, (long long)validation);
    circe_random_permutation((circe_random){options->seed, STREAM_PEOPLE}, n, order);
    for (int64_t k = 0; k < n; k++)
        of[people[order[k]]] = k < test ? IMAGE_TEST : k < test + validation ? IMAGE_VALIDATION : IMAGE_TRAIN;
    return CIRCE_OK;
}

/* Moves a share of the training pictures to the holdout. */
static circe_status split_holdout(int64_t n, const yaleb_task_options *options, image_part_kind *split) {
    OWNED int64_t *member = malloc((size_t)n * sizeof *member), *chosen = malloc((size_t)n * sizeof *chosen);
    int64_t training = 0;
    if (member == NULL || chosen == NULL)
        return circe_fail(CIRCE_ERR_MEMORY, "out of memory; cannot split %lld pictures", (long long)n);
    for (int64_t i = 0; i < n; i++)
        if (split[i] == IMAGE_TRAIN) member[training++] = i;
    int64_t holdout = (int64_t)(options->holdout * (double)training);
    circe_random_subset((circe_random){options->seed, STREAM_HOLDOUT}, training, holdout, chosen);
    for (int64_t k = 0; k < holdout; k++) split[member[chosen[k]]] = IMAGE_HOLDOUT;
    return CIRCE_OK;
}

/* ---- points ------------------------------------------------------------------------------------------------------ */

/* The same person under the same lamp in another pose; -1: there is none. */
static int64_t find_pose(const yaleb_store *store, int64_t i, int pose) {
    yaleb_name wanted = store->names[i];
    wanted.pose = pose;
    return yaleb_find(store->names, store->n, &wanted);
}

static int64_t shown(const yaleb_store *store, const yaleb_task_options *options, int64_t i) {
    double noise;
    circe_random_normal((circe_random){options->seed, STREAM_NOISE}, (uint64_t)i, 1, &noise);
    double moved = trunc(options->pose_noise * noise);
    if (fabs(moved) > (double)FACES_POSES) return i; /* no such pose */
    int64_t other = find_pose(store, i, store->names[i].pose + (int)moved);
    return other >= 0 ? other : i;
}

static int branch(const yaleb_task_options *options, int64_t i) {
    double u;
    circe_random_uniform((circe_random){options->seed, STREAM_BRANCH}, (uint64_t)i, 1, &u);
    return u < 0.5 ? -1 : 1;
}

static void add(const yaleb_store *store, int64_t i, int64_t picture, image_part *part) {
    double y = (double)store->names[i].pose / 9.0;
    part->stored[part->n] = (int32_t)picture;
    part->target[part->n] = (float)y;
    part->y[part->n] = y;
    part->z[part->n++] = distractor(&store->names[i]);
}

/* Its parts, up to two; returns how many. The holdout serves in-domain only. */
static int parts_of(const yaleb_store *store, const yaleb_task_options *options, const image_part_kind *split,
                    int64_t i, image_part_kind kinds[2]) {
    static const image_part_kind ood[] = {
        [IMAGE_TRAIN] = IMAGE_OOD_TRAIN, [IMAGE_VALIDATION] = IMAGE_OOD_VALIDATION, [IMAGE_TEST] = IMAGE_OOD_TEST};
    int n = 0;
    if (split[i] != IMAGE_HOLDOUT) kinds[n++] = ood[split[i]];
    if (yaleb_in_domain(&store->names[i], branch(options, i))) kinds[n++] = split[i];
    return n;
}

static circe_status make_parts(const yaleb_store *store, const image_part_kind *split, yaleb_task *task) {
    const yaleb_task_options *options = &task->options;
    int64_t sizes[IMAGE_PARTS] = {0};
    image_part_kind kinds[2];
    for (int64_t i = 0; i < store->n; i++) {
        for (int k = parts_of(store, options, split, i, kinds) - 1; k >= 0; k--) sizes[kinds[k]]++;
    }
    for (int p = 0; p < IMAGE_PARTS; p++) {
        circe_status status = image_part_make(sizes[p], false, &task->parts[p]);
        if (status != CIRCE_OK) return status;
        task->parts[p].n = 0;
    }
    for (int64_t i = 0; i < store->n; i++) {
        int64_t picture = shown(store, options, i);
        for (int k = parts_of(store, options, split, i, kinds) - 1; k >= 0; k--)
            add(store, i, picture, &task->parts[kinds[k]]);
    }
    return CIRCE_OK;
}

static circe_status check_options(const yaleb_store *store, const yaleb_task_options *o) {
    if (store->n < 1 || store->n > INT32_MAX)
        return circe_fail(CIRCE_ERR_ARGUMENT, "a task needs pictures; there are %lld", (long long)store->n);
    if (!(o->validation > 0 && o->test > 0 && o->validation + o->test < 1 && o->holdout >= 0 && o->holdout < 1))
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "validation and test must be shares above 0 with a sum below 1, and the holdout a share from "
                          "0 to below 1; not %g, %g and %g",
                          o->validation, o->test, o->holdout);
    if (!(o->pose_noise >= 0 && o->pose_noise < 1e6))
        return circe_fail(CIRCE_ERR_ARGUMENT, "the noise of the pose must be a standard deviation of 0 or more, not %g",
                          o->pose_noise);
    return CIRCE_OK;
}

circe_status yaleb_task_make(const yaleb_store *store, const yaleb_task_options *options, yaleb_task *task) {
    image_part_kind of[MOST_IDENTITIES];
    *task = (yaleb_task){.options = *options};
    circe_status status = check_options(store, options);
    if (status == CIRCE_OK) status = split_people(store, options, of);
    if (status != CIRCE_OK) return status;
    OWNED image_part_kind *split = malloc((size_t)store->n * sizeof *split);
    if (split == NULL)
        return circe_fail(CIRCE_ERR_MEMORY, "out of memory; cannot split %lld pictures", (long long)store->n);
    for (int64_t i = 0; i < store->n; i++) split[i] = of[store->names[i].identity];
    status = split_holdout(store->n, options, split);
    if (status == CIRCE_OK) status = make_parts(store, split, task);
    if (status != CIRCE_OK) yaleb_task_free(task);
    return status;
}

void yaleb_task_free(yaleb_task *task) {
    for (int p = 0; p < IMAGE_PARTS; p++) image_part_free(&task->parts[p]);
}

train_source yaleb_task_source(const yaleb_task *task, const yaleb_store *store, image_part_kind kind) {
    train_source pictures = yaleb_pictures(store);
    return image_part_source(&task->parts[kind], &pictures);
}
