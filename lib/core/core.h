/* Internals of libcirce that every layer shares: errors, memory, views, workspace, threads. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "circe/context.h"
#include "circe/matrix.h"
#include "circe/random.h"
#include "core/rooms.h"
#include "core/settings.h"

struct circe__backend;

struct circe_context {
    circe_context_options options;
    int threads;
    const struct circe__backend *backend;
};

/* A context for one of `side_by_side` pieces of work on threads of their own. It has the allocator of `context`, which
 * must then allow several callers, its share of the memory, and this many threads (0: those of the context). It does
 * not log. `stop` is asked during long work, on the thread that works, and ends it by returning non-zero. */
CIRCE_ROOMS circe_status circe__context_like(const circe_context *context, int threads, int64_t side_by_side,
                                             circe_progress_fn stop, void *user, circe_context **made);

/* ---- errors ------------------------------------------------------------------------------------------------- */

void circe__log(const circe_context *context, circe_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Reports progress; CIRCE_ERR_CANCELLED if the caller asked to stop. */
CIRCE_ROOMS circe_status circe__progress(const circe_context *context, const char *stage, int64_t done, int64_t total);

/* ---- text from outside -------------------------------------------------------------------------------------- */

/* Bytes of the UTF-8 character at the start of `left` bytes, and its code; 0: there is none (overlong forms and
 * surrogates included). */
CIRCE_ROOMS size_t circe__utf8_bytes(const char *text, size_t left, uint32_t *code);

CIRCE_ROOMS bool circe__is_utf8(const char *text, size_t bytes);

/* out (2 * bytes) := the text as UTF-8. Valid UTF-8 stays as it is, and other bytes are read as Latin-1. Returns the
 * length. */
CIRCE_ROOMS size_t circe__to_utf8(const char *text, size_t bytes, char *out);

/* Bytes that one byte of text may become. */
enum { CIRCE__VISIBLE_GROWTH = 6 };

/* out (size) := the text, with every character that a terminal would obey made visible, as far as it fits, and a NUL.
 * Returns the length. `lines`: line ends and tabs come from the caller and stay. */
CIRCE_ROOMS size_t circe__visible(const char *text, size_t bytes, bool lines, char *out, size_t size);

/* ---- memory ------------------------------------------------------------------------------------------------- */

/* 64-byte aligned, from the context's allocator; `count * size` is checked for overflow. NULL with the error text set
 * on failure (CIRCE_ERR_MEMORY is what the caller returns). circe__free takes NULL. */
CIRCE_ROOMS void *circe__alloc(const circe_context *context, int64_t count, size_t size);
CIRCE_ROOMS void *circe__calloc(const circe_context *context, int64_t count, size_t size);
CIRCE_ROOMS void circe__free(const circe_context *context, void *block);

/* Locals that own something and give it back at the end of their block, however that is left; blocks know their
 * allocator:
 *
 *     CIRCE__OWNED double *sums = circe__alloc(context, n, sizeof *sums);
 *
 * They must be initialised, and what they own must not be handed on. */
#define CIRCE__OWNED_BY(release) __attribute__((cleanup(release)))
#define CIRCE__OWNED CIRCE__OWNED_BY(circe__free_local)
void circe__free_local(void *local);
char *circe__strdup(const circe_context *context, const char *text);

/* Bytes that a job may plan with: the context's limit, or what the machine has free. */
double circe__memory_available(const circe_context *context);

/* Refuses a job whose estimate exceeds that. `what` names the job; `remedy` says what would fit. */
CIRCE_ROOMS circe_status circe__memory_check(const circe_context *context, double bytes, const char *what,
                                             const char *remedy);

/* ---- workspace ---------------------------------------------------------------------------------------------- */

/* Scratch by name. A slot keeps its block and grows when asked for more; its contents do not survive growth. */
typedef enum circe__slot {
    CIRCE__SLOT_Y,
    CIRCE__SLOT_Z,
    CIRCE__SLOT_FEATURES_Y,
    CIRCE__SLOT_FEATURES_Z,
    CIRCE__SLOT_DIAGONAL,
    CIRCE__SLOT_ZETA,
    CIRCE__SLOT_WITNESS,
    CIRCE__SLOT_ROW_SUMS,
    CIRCE__SLOT_TILES,
    CIRCE__SLOT_POINTS_A,
    CIRCE__SLOT_POINTS_B,
    CIRCE__SLOT_GRADIENT,
    CIRCE__SLOT_GRAM_X,
    CIRCE__SLOT_GRAM_Q,
    CIRCE__SLOT_VECTORS,
    CIRCE__SLOT_FACTORS,
    CIRCE__SLOT_X,
    CIRCE__SLOT_FACTOR,
    CIRCE__SLOT_SMOOTHER_X,
    CIRCE__SLOT_SMOOTHER_Y,
    CIRCE__SLOT_SMOOTHER_Z,
    CIRCE__SLOT_SMOOTHER_WORK,
    CIRCE__SLOT_GRAM_Z,
    CIRCE__SLOT_BATCH_ROWS,
    CIRCE__SLOT_BATCH_Y,
    CIRCE__SLOT_BATCH_Z,
    CIRCE__SLOT_PREVIOUS_Y,
    CIRCE__SLOT_WIDE_X,
    CIRCE__SLOT_WIDE_GRAD,
    CIRCE__SLOT_SCALED,
    CIRCE__SLOT_SCALED_RAW,
    CIRCE__SLOT_SCALED_X,
    CIRCE__SLOT_SCALING,
    CIRCE__SLOT_WEIGHTS,
    CIRCE__SLOT_BATCH_WEIGHTS,
    CIRCE__SLOT_PREVIOUS_WEIGHTS,
    CIRCE__N_SLOTS,
} circe__slot;

struct circe_workspace {
    circe_context *context;
    void *blocks[CIRCE__N_SLOTS];
    size_t bytes[CIRCE__N_SLOTS];
    circe_ranks ranks;  /* size 0: alone */
    int64_t n_weights;  /* rows that the slot WEIGHTS has weights for; 0: every row counts once */
    int64_t n_given;    /* rows that the caller gave weights for, which may be equal and none therefore */
    int64_t n_weighted; /* those of positive weight */
};

/* Weights (n) of the rows, 1 on average over the positive ones, and their roots; NULL: every row counts once. */
static inline const double *circe__weights_of(const circe_workspace *workspace) {
    return workspace->n_weights > 0 ? workspace->blocks[CIRCE__SLOT_WEIGHTS] : NULL;
}
static inline const double *circe__roots_of(const circe_workspace *workspace) {
    const double *weights = circe__weights_of(workspace);
    return weights != NULL ? weights + workspace->n_weights : NULL;
}
/* How many of n rows count: the sum of their weights. */
static inline int64_t circe__counted(const circe_workspace *workspace, int64_t n) {
    return workspace->n_weights > 0 ? workspace->n_weighted : n;
}
static inline void circe__weights_used(circe_workspace *workspace) { workspace->n_weights = workspace->n_given = 0; }
static inline bool circe__all_equal(const double *values, int64_t n) {
    for (int64_t i = 1; i < n; i++)
        if (values[i] != values[0]) return false;
    return true;
}
/* Refuses a call with another number of rows than there are weights for. */
circe_status circe__check_weights(const circe_workspace *workspace, int64_t rows);

/* out (n) := the weights, 1 on average over the positive ones; *positive: how many these are. Refuses negative weights,
 * numbers that are not finite, and weights that are all 0. */
CIRCE_ROOMS circe_status circe__weights_normalize(const double *weights, int64_t n, double *out, int64_t *positive);

/* NULL on failure, error text set. */
void *circe__take(circe_workspace *workspace, circe__slot slot, int64_t count, size_t size);

/* ---- views -------------------------------------------------------------------------------------------------- */

/* Checks a view (pointers, sizes, ld, dtype); `name` appears in the text. At least `min_rows` rows and one column. */
CIRCE_ROOMS circe_status circe__check_mat(const circe_mat *mat, const char *name, int64_t min_rows);

/* The same, and every element must be finite. The text names row and column. */
circe_status circe__check_data(const circe_mat *mat, const char *name, int64_t min_rows);

/* Element (i, j), whatever the dtype; not for hot loops. */
static inline double circe__at(const circe_mat *m, int64_t i, int64_t j) {
    return m->dtype == CIRCE_FLOAT32 ? (double)((const float *)m->data)[i * m->ld + j]
                                     : ((const double *)m->data)[i * m->ld + j];
}
static inline void circe__set(const circe_mat *m, int64_t i, int64_t j, double value) {
    if (m->dtype == CIRCE_FLOAT32)
        ((float *)m->data)[i * m->ld + j] = (float)value;
    else
        ((double *)m->data)[i * m->ld + j] = value;
}

/* dst (contiguous ld, dtype) := src, converting. */
void circe__copy_mat(const circe_mat *src, circe_mat *dst);

/* Rows [first, first + n) of a view. */
CIRCE_ROOMS circe_mat circe__rows(const circe_mat *mat, int64_t first, int64_t n);

CIRCE_ROOMS circe_mat circe__mat(void *data, int64_t rows, int64_t cols, circe_dtype dtype);

/* ---- time --------------------------------------------------------------------------------------------------- */

double circe__seconds(void); /* monotonic */

/* The name of an enumerator: CIRCE__NAME(kind, [KIND_A] = "a", [KIND_B] = "b"). */
#define CIRCE__NAME(value, ...)                                                                                     \
    circe__name_of((const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), \
                   (int)(value))
static inline const char *circe__name_of(const char *const *names, size_t n, int value) {
    return value >= 0 && (size_t)value < n && names[value] != NULL ? names[value] : "unknown";
}

static inline int64_t circe__min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t circe__max(int64_t a, int64_t b) { return a > b ? a : b; }
