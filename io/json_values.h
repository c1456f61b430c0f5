/* JSON through cJSON, with numbers of 17 significant digits, enough to read back the same double. */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

/* Members of an object; what is not finite, and a text that is NULL, is null. */
void json_word(cJSON *object, const char *name, const char *text);
void json_words(cJSON *object, const char *name, const char *const *texts, int64_t n);
void json_number(cJSON *object, const char *name, double value);
void json_integer(cJSON *object, const char *name, int64_t value);
void json_numbers(cJSON *object, const char *name, const double *values, int64_t n);
void json_table(cJSON *object, const char *name, const double *values, int64_t rows, int64_t cols);
/* Three of them: value, lower, upper. */
void json_interval(cJSON *object, double value, double lower, double upper);

/* A new object at the end of a list. */
cJSON *json_item(cJSON *list);

/* As text in UTF-8, in lines or in one, to be freed; NULL: no memory. */
char *json_utf8(const cJSON *object, bool lines);
