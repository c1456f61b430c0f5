/* The memory of tests: a table of keys, and what was computed for them. */
#include "inference/memory.h"

#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/settings.h"
#include "inference/dependence.h"
#include "inference/faces.h"

enum { FIRST_CAPACITY = 256 };

/* Regressions of one or two sides, with what the faces of y learned for them. */
typedef struct regressed {
    int64_t keys; /* that lead here */
    circe__regressions made;
    circe__variable metric[2], leaves[2];
    int64_t splits[2];
} regressed;

typedef struct entry {
    circe__key key;
    uint64_t used; /* when last; 0: empty */
    double bytes, number;
    circe__table table;
    regressed *regressed; /* NULL: a number or a table */
} entry;

struct circe_test_memory {
    const circe_context *context;
    double most, bytes;
    uint64_t clock;
    int64_t n, capacity;
    entry *entries; /* (capacity), a power of two, at most half full */
};

/* ---- keys -------------------------------------------------------------------------------------------------------- */

circe__key circe__key_begin(uint64_t kind) {
    return (circe__key){{circe__hash_word(1, kind), circe__hash_word(UINT64_C(0x5bd1e9955bd1e995), kind)}};
}

void circe__key_add(circe__key *key, const void *data, size_t bytes) { circe__hash_twice(key->word, data, bytes); }

void circe__key_factor(circe__key *key, const circe_kernel_factor *factor) {
    const double numbers[] = {(double)factor->kind, factor->sigma2, (double)factor->first_col, (double)factor->n_cols};
    circe__key_add(key, numbers, sizeof numbers);
}

static bool same_key(circe__key a, circe__key b) { return a.word[0] == b.word[0] && a.word[1] == b.word[1]; }

/* ---- entries ----------------------------------------------------------------------------------------------------- */

static void forget(circe_test_memory *m, entry *e) {
    m->bytes -= e->bytes;
    circe__table_free(m->context, &e->table);
    if (e->regressed != NULL && --e->regressed->keys == 0) {
        circe__regressions_free(m->context, &e->regressed->made);
        for (int t = 0; t < 2; t++) {
            circe__variable_free(m->context, &e->regressed->metric[t]);
            circe__variable_free(m->context, &e->regressed->leaves[t]);
        }
        circe__free(m->context, e->regressed);
    }
    *e = (entry){0};
}

static entry *place_of(const circe_test_memory *m, entry *entries, int64_t capacity, circe__key key) {
    (void)m;
    uint64_t at = key.word[0] & (uint64_t)(capacity - 1);
    while (entries[at].used != 0 && !same_key(entries[at].key, key)) at = (at + 1) & (uint64_t)(capacity - 1);
    return &entries[at];
}

/* Moves the entries to a table of another size, without those last used before `since`. */
static circe_status resize(circe_test_memory *m, int64_t capacity, uint64_t since) {
    entry *entries = circe__calloc(m->context, capacity, sizeof *entries);
    if (entries == NULL) return CIRCE_ERR_MEMORY;
    m->n = 0;
    for (int64_t i = 0; i < m->capacity; i++) {
        if (m->entries[i].used == 0) continue;
        if (m->entries[i].used < since) {
            forget(m, &m->entries[i]);
            continue;
        }
        *place_of(m, entries, capacity, m->entries[i].key) = m->entries[i];
        m->n++;
    }
    circe__free(m->context, m->entries);
    m->entries = entries;
    m->capacity = capacity;
    return CIRCE_OK;
}

/* The entry of a key, for the caller to fill; NULL: there is no room, or the key is there already. */
static entry *add(circe_test_memory *m, circe__key key, double bytes) {
    if (2 * (m->n + 1) > m->capacity && resize(m, 2 * m->capacity, 0) != CIRCE_OK) return NULL;
    entry *e = place_of(m, m->entries, m->capacity, key);
    if (e->used != 0) return NULL; /* it is there already */
    *e = (entry){.key = key, .used = ++m->clock, .bytes = bytes + sizeof *e};
    m->bytes += e->bytes;
    m->n++;
    return e;
}

static entry *find(circe_test_memory *m, circe__key key) {
    if (m == NULL) return NULL;
    entry *e = place_of(m, m->entries, m->capacity, key);
    if (e->used == 0) return NULL;
    e->used = ++m->clock;
    return e;
}

static int later(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void tidy(circe_test_memory *m) {
    CIRCE__OWNED uint64_t *used = circe__alloc(m->context, m->n, sizeof *used);
    int64_t n = 0;
    if (used == NULL) return;
    for (int64_t i = 0; i < m->capacity; i++)
        if (m->entries[i].used != 0) used[n++] = m->entries[i].used;
    qsort(used, (size_t)n, sizeof *used, later);
    (void)resize(m, m->capacity, used[n / 2] + (m->n == 1));
}

circe_status circe__memory_begin(const circe_context *context, circe_test_memory *m) {
    if (m == NULL) return CIRCE_OK;
    if (m->context != context)
        return circe_fail(CIRCE_ERR_ARGUMENT,
                          "the memory of tests belongs to another context; tests that share a memory "
                          "share its context");
    if (m->bytes > m->most) tidy(m);
    return CIRCE_OK;
}

circe_status circe_test_memory_create(const circe_context *context, double bytes, circe_test_memory **memory) {
    CIRCE_OWN_SETTINGS;
    if (context == NULL || memory == NULL) return circe_fail(CIRCE_ERR_ARGUMENT, "context and memory must not be NULL");
    if (!(bytes > 0.0))
        return circe_fail(CIRCE_ERR_ARGUMENT, "the size of a memory is %g bytes; it must be positive", bytes);
    circe_test_memory *m = *memory = circe__calloc(context, 1, sizeof *m);
    if (m == NULL) return CIRCE_ERR_MEMORY;
    m->context = context;
    m->most = bytes;
    m->capacity = FIRST_CAPACITY;
    m->entries = circe__calloc(context, m->capacity, sizeof *m->entries);
    if (m->entries != NULL) return CIRCE_OK;
    circe__free(context, m);
    *memory = NULL;
    return CIRCE_ERR_MEMORY;
}

void circe_test_memory_destroy(circe_test_memory *m) {
    if (m == NULL) return;
    for (int64_t i = 0; i < m->capacity; i++)
        if (m->entries[i].used != 0) forget(m, &m->entries[i]);
    circe__free(m->context, m->entries);
    circe__free(m->context, m);
}

/* ---- numbers and tables ------------------------------------------------------------------------------------------ */

bool circe__recall_number(const circe__data *data, circe__key key, double *number) {
    const entry *e = find(data->options.memory, key);
    if (e != NULL) *number = e->number;
    return e != NULL;
}

void circe__remember_number(const circe__data *data, circe__key key, double number) {
    entry *e = data->options.memory == NULL ? NULL : add(data->options.memory, key, 0.0);
    if (e != NULL) e->number = number;
}

bool circe__recall_table(const circe__data *data, circe__key key, circe__table *table, double *number) {
    const entry *e = find(data->options.memory, key);
    if (e == NULL || circe__table_copy(data->context, &e->table, table) != CIRCE_OK) return false;
    *number = e->number;
    return true;
}

bool circe__borrow_table(const circe__data *data, circe__key key, circe__table *table) {
    const entry *e = find(data->options.memory, key);
    if (e != NULL) *table = e->table;
    return e != NULL;
}

bool circe__lend_table(const circe__data *data, circe__key key, const circe__table *table) {
    circe_test_memory *m = data->options.memory;
    entry *e = m == NULL ? NULL : add(m, key, (double)(table->rows * table->cols) * sizeof(double));
    if (e != NULL) e->table = *table;
    return e != NULL;
}

void circe__remember_table(const circe__data *data, circe__key key, const circe__table *table, double number) {
    circe_test_memory *m = data->options.memory;
    circe__table copy = {0};
    if (m == NULL || circe__table_copy(m->context, table, &copy) != CIRCE_OK) return;
    entry *e = add(m, key, (double)(table->rows * table->cols) * sizeof(double));
    if (e == NULL) {
        circe__table_free(m->context, &copy);
        return;
    }
    e->table = copy;
    e->number = number;
}

/* ---- regressions ------------------------------------------------------------------------------------------------- */

static void add_variable(circe__key *key, const circe__data *data, const circe__variable *v) {
    circe__key_add(key, &v->dim, sizeof v->dim);
    if (v->dim == 0) return;
    circe__key_add(key, v->points, (size_t)(data->total * v->dim) * sizeof *v->points);
    for (int64_t f = 0; f < v->kernel->n_factors; f++) {
        circe__key_factor(key, &v->kernel->factors[f]);
        circe__key_add(key, &v->free[f], sizeof v->free[f]);
    }
}

circe__key circe__key_of_y(const circe__data *data, uint64_t kind) {
    const circe_test_options *o = &data->options;
    const double numbers[] = {o->undersmoothing,
                              (double)o->max_rank,
                              (double)data->by_value,
                              (double)data->quick,
                              (double)(data->faces != NULL),
                              (double)o->regressor,
                              (double)circe__kind_of(o)->frugal};
    circe__key key = circe__key_begin(kind);
    circe__key_add(&key, numbers, sizeof numbers);
    circe__key_add(&key, &o->seed, sizeof o->seed);
    circe__key_add(&key, o->width, (size_t)o->n_width * sizeof *o->width);
    circe__key_add(&key, o->ridge, (size_t)o->n_ridge * sizeof *o->ridge);
    circe__key_add(&key, data->root, (size_t)data->total * sizeof *data->root);
    if (data->dependence != NULL)
        circe__key_add(&key, data->dependence->left_out.of, (size_t)data->n * sizeof *data->dependence->left_out.of);
    add_variable(&key, data, &data->y);
    return key;
}

/* Everything that the regression of a target is made of. */
static circe__key key_of(const circe__data *data, const circe__table *target, int side) {
    const double numbers[] = {(double)side, (double)target->cols};
    circe__key key = circe__key_of_y(data, 'r');
    circe__key_add(&key, numbers, sizeof numbers);
    circe__key_add(&key, target->data, (size_t)(target->rows * target->cols) * sizeof *target->data);
    return key;
}

circe__key circe__key_of_side(const circe__data *data, const circe__variable *v, const circe__regressor *side,
                              uint64_t kind) {
    circe__key key = circe__key_begin(kind);
    circe__key_add(&key, side->key, sizeof side->key);
    circe__key_add(&key, &data->n, sizeof data->n);
    circe__key_add(&key, v->points, (size_t)(data->n * v->dim) * sizeof *v->points);
    for (int64_t f = 0; f < v->kernel->n_factors; f++) circe__key_factor(&key, &v->kernel->factors[f]);
    return key;
}

static circe_status copy_variable(const circe__data *data, const circe__variable *from, circe__variable *to) {
    CIRCE__OWNED int64_t *all = circe__alloc(data->context, data->total, sizeof *all);
    if (all == NULL) return CIRCE_ERR_MEMORY;
    for (int64_t i = 0; i < data->total; i++) all[i] = i;
    circe__variable_free(data->context, to);
    circe_status status = circe__variable_subset(data, from, all, data->total, to);
    return status;
}

/* Copies what a sight of side t needs from the faces of y, or back to them. */
static circe_status copy_faces(const circe__data *data, regressed *r, int t, bool back) {
    circe__faces *faces = data->faces;
    unsigned parts = faces == NULL ? 0 : r->made.side[t].spectrum->sight.parts;
    circe_status status = CIRCE_OK;
    if (parts & CIRCE__METRIC)
        status =
            copy_variable(data, back ? &r->metric[t] : &faces->metric[t], back ? &faces->metric[t] : &r->metric[t]);
    if (status == CIRCE_OK && (parts & CIRCE__LEAVES)) {
        *(back ? &faces->splits[t] : &r->splits[t]) = back ? r->splits[t] : faces->splits[t];
        status =
            copy_variable(data, back ? &r->leaves[t] : &faces->leaves[t], back ? &faces->leaves[t] : &r->leaves[t]);
    }
    return status;
}

static double bytes_of(const circe__regressions *made) {
    double bytes = 0.0;
    for (int k = 0; k < 2; k++) bytes += (double)(made->spectra[k].n * (made->spectra[k].rank + 2)) * sizeof(double);
    return bytes;
}

/* The regressions of the targets that are not NULL, computed, and borrowed from the memory if it could keep them. */
static circe_status compute(const circe__data *data, const circe__table *const targets[2], const circe__key keys[2],
                            circe__regressions *made) {
    circe_test_memory *m = data->options.memory;
    circe_status status = circe__regress(data, targets, made);
    if (status != CIRCE_OK) return status;
    for (int t = 0; t < 2; t++) memcpy(made->side[t].key, keys[t].word, sizeof keys[t].word);
    regressed *r = circe__calloc(m->context, 1, sizeof *r);
    if (r == NULL) return CIRCE_OK;
    r->made = *made;
    for (int t = 0; t < 2; t++) /* the sides point into the object that contains the spectra */
        if (targets[t] != NULL) r->made.side[t].spectrum = &r->made.spectra[made->side[t].spectrum - made->spectra];
    for (int t = 0; t < 2 && status == CIRCE_OK; t++) {
        if (targets[t] == NULL) continue;
        status = copy_faces(data, r, t, false);
        entry *e = status == CIRCE_OK ? add(m, keys[t], r->keys == 0 ? bytes_of(made) : 0.0) : NULL;
        if (e == NULL) continue;
        e->regressed = r;
        r->keys++;
    }
    if (r->keys == 0) { /* nothing leads to it: it stays the caller's */
        for (int t = 0; t < 2; t++) {
            circe__variable_free(m->context, &r->metric[t]);
            circe__variable_free(m->context, &r->leaves[t]);
        }
        circe__free(m->context, r);
    } else {
        *made = (circe__regressions){.borrowed = true};
        for (int t = 0; t < 2; t++)
            if (targets[t] != NULL) made->side[t] = r->made.side[t];
    }
    return status;
}

circe_status circe__recall_regress(const circe__data *data, const circe__table *const targets[2],
                                   circe__regressions *made) {
    const circe__table *missing[2] = {targets[0], targets[1]};
    circe__key keys[2] = {{{0, 0}}, {{0, 0}}};
    regressed *found[2] = {NULL, NULL};
    circe__regressions fresh = {0};
    circe_status status = CIRCE_OK;
    if (data->options.memory == NULL) return circe__regress(data, targets, made);
    *made = (circe__regressions){.borrowed = true};
    for (int t = 0; t < 2; t++) {
        if (targets[t] == NULL) continue;
        keys[t] = key_of(data, targets[t], t);
        entry *e = find(data->options.memory, keys[t]);
        if (e == NULL) continue;
        found[t] = e->regressed;
        missing[t] = NULL;
    }
    if (missing[0] != NULL || missing[1] != NULL) status = compute(data, missing, keys, &fresh);
    if (status == CIRCE_OK && found[0] == NULL && found[1] == NULL) {
        *made = fresh;
        for (int t = 0; t < 2 && !fresh.borrowed; t++) /* they point into `fresh` */
            if (targets[t] != NULL) made->side[t].spectrum = &made->spectra[fresh.side[t].spectrum - fresh.spectra];
        return CIRCE_OK;
    }
    for (int t = 0; t < 2 && status == CIRCE_OK; t++) {
        if (targets[t] == NULL) continue;
        made->side[t] = found[t] != NULL ? found[t]->made.side[t] : fresh.side[t];
        made->side[t].data = data;
        if (found[t] != NULL) status = copy_faces(data, found[t], t, true);
    }
    if (!fresh.borrowed && status == CIRCE_OK && (missing[0] != NULL || missing[1] != NULL))
        status = CIRCE_ERR_MEMORY; /* one side is remembered and the other could not be */
    if (!fresh.borrowed && status != CIRCE_OK) circe__regressions_free(data->context, &fresh);
    return status;
}
