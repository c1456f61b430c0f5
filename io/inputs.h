/* Reads the variables x, y and z that the options name, checks them, and makes their rows consistent. */
#pragma once

#include "circe/circe.h"
#include "circe/job.h"
#include "io/reading.h"

typedef enum variable {
    VARIABLE_TABLE,
    VARIABLE_X,
    VARIABLE_Y,
    VARIABLE_Z,
    VARIABLE_WEIGHTS,
    VARIABLE_GROUPS,
    VARIABLE_TIME,
    N_VARIABLES
} variable;

/* "x"; "the table" of what is none of them. */
const char *variable_label(variable of);

/* Where the variables are, as options say it. */
typedef struct input_options {
    const circe_table *table;        /* in memory, of which the variables are columns; NULL: files */
    const char *data, *holdout_data; /* one file for all, of which the variables are columns; NULL: a file each */
    struct {
        const char *source; /* its file, or its columns */
        const char *columns, *holdout;
    } of[N_VARIABLES];
    reading_options reading;
} input_options;

typedef struct input {
    variable of;
    bool holdout;
    io_table table;            /* what was read; empty where the rows were taken from another input */
    const io_table *described; /* names and categories of the columns: that table, or the other input's */
    circe_mat values;          /* into the table, or into `owned` */
    void *owned;
    bool *met; /* (items of --categories): it has such a column; owned, NULL: not asked */
} input;

/* Reads the variable's file or columns; `holdout` reads its --holdout counterpart, from a file. */
circe_status input_read(const input_options *options, variable of, bool holdout, input *out);
/* The same from another file. */
circe_status input_read_from(const input_options *options, variable of, const char *path, const char *columns,
                             input *out);
void input_free(input *in);

/* Refuses an item of --categories that was found in none of the inputs. */
circe_status inputs_check_categories(const reading_options *options, input *const *group, int n);

/* Demands equal row counts of n inputs, refuses infinities, and refuses or drops (--missing; impute: keeps) rows with a
 * missing cell in any of them. At least `least` rows must remain. */
circe_status inputs_check(const reading_options *options, input *const *group, int n, int64_t least, int64_t *dropped);

/* Keeps the rows of n inputs with keep[row]; `kept` of them. */
circe_status inputs_keep(input *const *group, int n, const bool *keep, int64_t kept);

/* `weights`, one of n inputs, must be one column of numbers, at least 0. Rows of weight 0 are left out of all inputs;
 * at least `least` must remain. */
circe_status inputs_weigh(const input *weights, const char *source, input *const *group, int n, int64_t least);

/* Those weights, once they are float64 (input_convert); NULL if nothing was read. */
const double *input_weights(const input *in);

/* What the option --rows asks for: 0 if it is not given (NaN), ALL_ROWS for all (CIRCE_AUTO). */
enum { ALL_ROWS = -1 };
circe_status rows_wanted(double option, int64_t *rows);

/* Keeps `rows` rows of n inputs, the same of each, chosen at random by the seed; at least `least` are needed. */
circe_status inputs_sample(int64_t seed, input *const *group, int n, int64_t rows, int64_t least);

/* Looks at the headers of the files of n variables: refuses tables that do not fit into memory before they are read,
 * and tells the rows they have; -1: not known before reading. */
circe_status inputs_foresee(const input_options *options, const circe_context *context, const variable *variables,
                            int n, int64_t *rows);

/* to := the same rows as `from`, which must outlive it, without a copy. */
void input_view(const input *from, input *to);

/* Gives the text columns of `target` the codes that the same texts have in `reference`, and demands equal columns. */
circe_status input_align(const input *reference, input *target);
/* The same for rows whose conditional mean was learned on the reference: a category that it lacks is refused. */
circe_status input_align_to_fit(const input *reference, input *target);

/* to := rows index[0..n) of from, in memory of its own. The description of the columns is that of `from`, which must
 * outlive it. Inputs are not moved in memory once read. */
circe_status input_take_rows(const input *from, const int64_t *index, int64_t n, input *to);

/* Replaces the values by the same in another precision. */
circe_status input_convert(input *in, circe_dtype dtype);

/* Replaces the numbers by their ranks or normal scores; categories stay. */
circe_status input_transform(circe_context *context, input *in, circe_transform transform);

/* If the squares of the numbers would overflow or vanish in this precision, divides all of them by a power of two,
 * 2^*exponent; otherwise *exponent is 0. A measure that chooses its own width does not depend on this. */
circe_status input_scale(input *in, circe_dtype dtype, double *largest, int *exponent);

bool input_is_constant(const input *in);
bool input_has_text(const input *in);

/* The different texts of a column; 0 if it holds numbers. */
int64_t input_n_categories(const input *in, int64_t column);

/* The file it came from, for messages. */
const char *input_source(const input *in);
