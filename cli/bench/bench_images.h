/* The speed of training on images: part of `circe bench --only images`. */
#ifndef CLI_BENCH_IMAGES_H
#define CLI_BENCH_IMAGES_H

#include "cli/common/output.h"
#include "cli/common/session.h"

typedef struct image_time {
    const char *net, *regularizer;
    int64_t batch, steps, repetitions;
    double median, fastest, slowest; /* seconds of a step */
    double share;                    /* of them that the regulariser took */
} image_time;

enum { MAX_IMAGE_TIMES = 5 };

typedef struct image_times {
    image_time rows[MAX_IMAGE_TIMES];
    int64_t n;
} image_times;

/* Prints what is wrong and returns an exit status. */
int bench_images(const session *s, const args *arguments, uint64_t seed, bool quick, image_times *out);

void bench_images_print(const image_times *times);
void bench_images_json(cJSON *object, const image_times *times);

#endif
