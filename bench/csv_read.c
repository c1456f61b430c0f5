/* csv_read FILE THREADS: reads a table as the command does and prints its size, the seconds on the clock and of the
 * processors, and the most memory that was resident. For bench/csv.py. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "io/io.h"

static double clock_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double seconds_of(struct timeval time) { return (double)time.tv_sec + 1e-6 * (double)time.tv_usec; }

int main(int argc, char **argv) {
    io_table table;
    struct rusage used;
    if (argc != 3) {
        fprintf(stderr, "usage: csv_read FILE THREADS\n");
        return 2;
    }
    io_use_threads(atoi(argv[2]));
    double start = clock_seconds();
    if (io_read(argv[1], NULL, &table) != CIRCE_OK) {
        fprintf(stderr, "csv_read: %s\n", circe_last_error());
        return 1;
    }
    double seconds = clock_seconds() - start;
    getrusage(RUSAGE_SELF, &used);
    printf("{\"rows\": %" PRId64 ", \"cols\": %" PRId64
           ", \"seconds\": %.6f, \"processor\": %.6f, \"resident_mb\": %.1f}\n",
           table.values.rows, table.values.cols, seconds, seconds_of(used.ru_utime) + seconds_of(used.ru_stime),
           (double)used.ru_maxrss / 1024);
    io_table_free(&table);
    return 0;
}
