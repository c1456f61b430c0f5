/* The parts of `circe bench`. Their results are rows of lists in the object that --json prints; the tables for people
 * show members of these rows. Functions that return an int print what is wrong and return an exit status. */
#pragma once

#include "cli/common/output.h"
#include "cli/common/session.h"

typedef struct bench {
    const own_options *own;
    session s;
    uint64_t seed;
    double budget; /* seconds for the repetitions of one row */
    cJSON *found;
    int64_t done, total; /* rows and fits of CIRCE, for the bar */
} bench;

/* One more row of this list, which is made with its first. */
cJSON *bench_row(cJSON *found, const char *list);

/* Repeats call(user, number) until `budget` seconds are spent, `least` times at least, after `warm` calls that are not
 * timed; the row gets median and quartiles. */
typedef circe_status call_fn(void *user, int64_t number);
int bench_repeat(call_fn *call, void *user, int64_t warm, int64_t least, double budget, cJSON *row);

/* (rows, cols) of this type: `base`, with `weight` times the noise (NULL: none). false: no memory. Its data are to be
 * freed. */
bool bench_mat(const double *base, const double *noise, double weight, int64_t rows, int64_t cols, circe_dtype dtype,
               circe_mat *out);

/* Points, and a measure of them. */
typedef struct bench_problem {
    circe_measure *measure;
    circe_features *features; /* of y and z, from which batches of rows are taken; NULL: x, y and z are the batch */
    int64_t *order;           /* of these rows, walked batch after batch */
    circe_mat x, y, z, grad;  /* grad: without data if only the value is computed */
} bench_problem;

/* For bench_repeat. */
circe_status bench_call(void *problem, int64_t number);
void bench_problem_free(bench_problem *problem);

/* The member of a row that a column shows; a number in this unit, to four digits. */
typedef struct bench_column {
    const char *title, *name;
    double unit; /* 0: 1 */
} bench_column;

/* Prints the title and a table of the rows, if there are any. The columns end with zeros. */
void bench_table(const char *title, const cJSON *rows, const bench_column *columns);
double bench_number(const cJSON *row, const char *name);

/* The measures beside CIRCE: "measures". */
int bench_measures(bench *b);
void bench_measures_print(const bench *b);

/* Training steps: "train" and "images". */
int bench_train(bench *b);
int bench_images(bench *b);
void bench_steps_print(const bench *b);

/* The same steps in PyTorch, on a GPU, where python3 has it and it sees the GPU: "pytorch". Networks are those of
 * gpu_best.py, with commas between them. Prints circe's steps beside the fastest of PyTorch's modes of the same
 * precision. */
void bench_peer(bench *b, const char *networks);
void bench_peer_print(const bench *b);
