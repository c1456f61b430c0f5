/* The variables x, y and z as the options name them: read, checked, and with consistent rows. */
#ifndef CLI_INPUTS_H
#define CLI_INPUTS_H

#include "circe/circe.h"
#include "cli/common/message.h"
#include "cli/common/parse.h"
#include "io/io.h"

/* The options that concern one variable. */
typedef struct variable {
    const char *label; /* "y" */
    spec_option_id option, columns, kernel, sigma2;
} variable;

extern const variable variable_x, variable_y, variable_z;

typedef struct input {
    const variable *of;
    bool holdout;
    io_table table;            /* what was read; empty where the rows were taken from another input */
    const io_table *described; /* names and categories of the columns: that table, or the other input's */
    circe_mat values;          /* into the table, or into `owned` */
    void *owned;
    bool *met; /* (items of --categories): it has such a column; owned, NULL: not asked */
} input;

/* Reads the variable's file or columns; `holdout` reads its --holdout counterpart. Like all here: prints what is wrong
 * and returns an exit status. */
int input_read(const args *arguments, const variable *of, bool holdout, input *out);
/* The same from another file. */
int input_read_from(const args *arguments, const variable *of, const char *path, const char *columns, input *out);
void input_free(input *in);

/* Demands equal row counts of n inputs, refuses infinities, and refuses or drops (--missing) rows with a missing cell
 * in any of them. At least `least` rows must remain. */
int inputs_check(const args *arguments, input *const *group, int n, int64_t least, int64_t *dropped);

/* What --rows asks for: 0 where it is not given, ALL_ROWS for all. */
enum { ALL_ROWS = -1 };
int rows_wanted(const args *arguments, int64_t *rows);

/* Keeps `rows` rows of n inputs, the same of each, chosen at random by --seed; at least `least` are needed. */
int inputs_sample(const args *arguments, input *const *group, int n, int64_t rows, int64_t least);

/* Looks at the headers of the files of n variables: refuses tables that do not fit into memory before they are read,
 * and tells the rows they have; -1: not known before reading. */
int inputs_foresee(const args *arguments, const circe_context *context, const variable *const *variables, int n,
                   int64_t *rows);

/* to := the same rows as `from`, which must outlive it, without a copy. */
void input_view(const input *from, input *to);

/* Gives the text columns of `target` the codes that the same texts have in `reference`, and demands equal columns. */
int input_align(const input *reference, input *target);

/* to := rows index[0..n) of from, in memory of its own. The description of the columns is that of `from`, which must
 * outlive it. Inputs are not moved in memory once read. */
int input_take_rows(const input *from, const int64_t *index, int64_t n, input *to);

/* Replaces the values by the same in another precision. */
int input_convert(input *in, circe_dtype dtype);

/* Replaces the numbers by their ranks or normal scores; categories stay. */
int input_transform(circe_context *context, input *in, circe_transform transform);

/* Divides all numbers by one power of two where their squares, in this precision, would overflow or vanish; says so.
 * Nothing that a measure with a width of its own finds depends on it. */
int input_scale(input *in, circe_dtype dtype, notes *warnings);

bool input_is_constant(const input *in);
bool input_has_text(const input *in);

/* The different texts of a column; 0 where it holds numbers. */
int64_t input_n_categories(const input *in, int64_t column);

/* The file it came from, for messages. */
const char *input_source(const input *in);

#endif
