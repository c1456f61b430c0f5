/* The table of engine.h, by MPI; what a training step needs goes through shared memory where all ranks are on one
 * machine (engine_shared.c).
 *
 * MPI's blocking calls spin. Here every collective is started and then tested for with patience (engine_wait.h). */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/engine_scalapack.h"
#include "mpi/engine_shared.h"
#include "mpi/engine_wait.h"

enum { TAG = 7, MOST_COUNT = 1 << 26, MOST_SUMS = 64 }; /* MPI counts in 32 bits: longer arrays go in pieces */

/* A message on its way, with the copy it is sent from. */
typedef struct outgoing {
    MPI_Request request;
    struct outgoing *next;
    char data[];
} outgoing;

static outgoing *under_way;
static bool own_init;

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

static void wait_for(MPI_Request *request) {
    engine_patience patience = {0};
    for (int done = 0;;) {
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (done) return;
        if (shared_there()) shared_sums_move(); /* another process may wait for that before it comes here */
        engine_wait(&patience);
    }
}

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

static const char *name(void) {
    static char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    if (text[0] == '\0') MPI_Get_library_version(text, &length);
    text[strcspn(text, ",\n")] = '\0';
    return text;
}

static bool open_ranks(ranks_place *place) {
    int there = 0, provided = 0, length = 0;
    char host[MPI_MAX_PROCESSOR_NAME];
    MPI_Initialized(&there);
    if (!there && MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) return false;
    own_init = !there;
    MPI_Comm machine;
    MPI_Comm_rank(MPI_COMM_WORLD, &place->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &place->size);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, place->rank, MPI_INFO_NULL, &machine);
    MPI_Comm_size(machine, &place->neighbours);
    MPI_Comm_free(&machine);
    engine_wait_among(place->neighbours);
    MPI_Get_processor_name(host, &length);
    host[length < RANKS_HOST_BYTES - 1 ? length : RANKS_HOST_BYTES - 1] = '\0';
    memset(place->host, 0, sizeof place->host);
    memcpy(place->host, host, strlen(host));
    return true;
}

static void forget_sent(bool all) {
    for (outgoing **at = &under_way; *at != NULL;) {
        int done = 0;
        if (all) wait_for(&(*at)->request);
        if (!all) MPI_Test(&(*at)->request, &done, MPI_STATUS_IGNORE);
        if (!all && !done) {
            at = &(*at)->next;
            continue;
        }
        outgoing *gone = *at;
        *at = gone->next;
        free(gone);
    }
}

static void close_ranks(void) {
    MPI_Request request;
    forget_sent(true);
    shared_close();
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    wait_for(&request);
    if (own_init) MPI_Finalize();
}

static void abort_ranks(int status) { MPI_Abort(MPI_COMM_WORLD, status); }

/* ---- together ---------------------------------------------------------------------------------------------------- */

static void broadcast(int from, void *data, size_t bytes) {
    if (shared_there()) {
        shared_broadcast(from, data, bytes);
        return;
    }
    for (size_t at = 0; at < bytes; at += MOST_COUNT) {
        MPI_Request request;
        size_t here = bytes - at < MOST_COUNT ? bytes - at : MOST_COUNT;
        MPI_Ibcast((char *)data + at, (int)here, MPI_BYTE, from, MPI_COMM_WORLD, &request);
        wait_for(&request);
    }
}

static void gather(const void *own, size_t bytes, void *everyones) {
    MPI_Request request;
    MPI_Iallgather(own, (int)bytes, MPI_BYTE, everyones, (int)bytes, MPI_BYTE, MPI_COMM_WORLD, &request);
    wait_for(&request);
}

static void sum_to_first(const double *values, int64_t n, double *sums) {
    for (int64_t at = 0; at < n; at += MOST_COUNT / 8) {
        MPI_Request request;
        int64_t here = n - at < MOST_COUNT / 8 ? n - at : MOST_COUNT / 8;
        MPI_Ireduce(values + at, sums == NULL ? NULL : sums + at, (int)here, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD,
                    &request);
        wait_for(&request);
    }
}

/* Summed by one process and then distributed, so that every process has the same bits whatever MPI's algorithm is. */
static void sum(double *values, int64_t n) {
    for (int64_t at = 0; at < n; at += MOST_COUNT / 8) {
        MPI_Request request;
        int64_t here = n - at < MOST_COUNT / 8 ? n - at : MOST_COUNT / 8;
        int rank = 0;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Ireduce(rank == 0 ? MPI_IN_PLACE : values + at, values + at, (int)here, MPI_DOUBLE, MPI_SUM, 0,
                    MPI_COMM_WORLD, &request);
        wait_for(&request);
        broadcast(0, values + at, (size_t)here * sizeof *values);
    }
}

static void sum_quickly(void *values, int64_t n, bool floats) {
    if (shared_open()) {
        shared_sum_begin(values, n, floats, 1.0);
        shared_sums_end();
        return;
    }
    size_t size = floats ? sizeof(float) : sizeof(double);
    for (int64_t at = 0; at < n; at += MOST_COUNT / 8) {
        MPI_Request request;
        int64_t here = n - at < MOST_COUNT / 8 ? n - at : MOST_COUNT / 8;
        MPI_Iallreduce(MPI_IN_PLACE, (char *)values + (size_t)at * size, (int)here, floats ? MPI_FLOAT : MPI_DOUBLE,
                       MPI_SUM, MPI_COMM_WORLD, &request);
        wait_for(&request);
    }
}

/* ---- parts of different sizes ------------------------------------------------------------------------------------ */

/* As MPI wants them: counts and where each begins. Two such lists are needed at a time. */
static const int *counts_of(const size_t *bytes, int which, const int **starts) {
    static int *lists[2];
    int size = 0, at = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (lists[which] == NULL) lists[which] = malloc(2 * (size_t)size * sizeof(int));
    if (lists[which] == NULL) {
        abort_ranks(1);
        abort(); /* MPI_Abort is not declared as not returning */
    }
    for (int k = 0; k < size; k++) {
        lists[which][k] = (int)bytes[k];
        lists[which][size + k] = at;
        at += (int)bytes[k];
    }
    *starts = lists[which] + size;
    return lists[which];
}

static void gather_parts(const void *own, const size_t *bytes, void *everyones) {
    if (shared_open()) {
        shared_gather_parts(own, bytes, everyones);
        return;
    }
    MPI_Request request;
    const int *starts, *counts = counts_of(bytes, 0, &starts);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Iallgatherv(own, counts[rank], MPI_BYTE, everyones, counts, starts, MPI_BYTE, MPI_COMM_WORLD, &request);
    wait_for(&request);
}

static void exchange(const void *out, const size_t *out_bytes, void *in, const size_t *in_bytes) {
    MPI_Request request;
    const int *out_starts, *in_starts;
    const int *out_counts = counts_of(out_bytes, 0, &out_starts), *in_counts = counts_of(in_bytes, 1, &in_starts);
    MPI_Ialltoallv(out, out_counts, out_starts, MPI_BYTE, in, in_counts, in_starts, MPI_BYTE, MPI_COMM_WORLD, &request);
    wait_for(&request);
}

/* ---- sums under way ---------------------------------------------------------------------------------------------- */

static MPI_Request sums[MOST_SUMS];
static int n_sums;

static void sums_move(void) {
    int index = 0, done = 0;
    if (shared_there()) shared_sums_move();
    if (n_sums > 0) MPI_Testany(n_sums, sums, &index, &done, MPI_STATUS_IGNORE);
}

static void sums_end(void) {
    if (shared_there()) shared_sums_end();
    for (int k = 0; k < n_sums; k++) wait_for(&sums[k]);
    n_sums = 0;
}

static void times(double weight, int64_t n, bool floats, void *values) {
    for (int64_t i = 0; floats && weight != 1.0 && i < n; i++) ((float *)values)[i] *= (float)weight;
    for (int64_t i = 0; !floats && weight != 1.0 && i < n; i++) ((double *)values)[i] *= weight;
}

static void sum_begin(void *values, int64_t n, bool floats, double weight) {
    size_t size = floats ? sizeof(float) : sizeof(double);
    if (shared_open()) {
        shared_sum_begin(values, n, floats, weight);
        return;
    }
    times(weight, n, floats, values);
    for (int64_t at = 0; at < n; at += MOST_COUNT / 8) {
        int64_t here = n - at < MOST_COUNT / 8 ? n - at : MOST_COUNT / 8;
        if (n_sums == MOST_SUMS) sums_end();
        MPI_Iallreduce(MPI_IN_PLACE, (char *)values + (size_t)at * size, (int)here, floats ? MPI_FLOAT : MPI_DOUBLE,
                       MPI_SUM, MPI_COMM_WORLD, &sums[n_sums++]);
    }
    sums_move();
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static void send_message(int to, const void *data, size_t bytes) {
    forget_sent(false);
    outgoing *message = malloc(sizeof *message + bytes);
    if (message == NULL) { /* a few kilobytes, without which the job cannot continue */
        abort_ranks(1);
        return;
    }
    memcpy(message->data, data, bytes);
    message->next = under_way;
    under_way = message;
    MPI_Isend(message->data, (int)bytes, MPI_BYTE, to, TAG, MPI_COMM_WORLD, &message->request);
}

static bool waiting(int *from, size_t *bytes) {
    MPI_Status status;
    int there = 0, count = 0;
    forget_sent(false);
    MPI_Iprobe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &there, &status);
    if (!there) return false;
    MPI_Get_count(&status, MPI_BYTE, &count);
    *from = status.MPI_SOURCE;
    *bytes = (size_t)count;
    return true;
}

static void receive(int from, void *data, size_t bytes) {
    MPI_Recv(data, (int)bytes, MPI_BYTE, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

__attribute__((visibility("default"))) const ranks_engine *circe_ranks_engine(void);

const ranks_engine *circe_ranks_engine(void) {
    static const ranks_engine engine = {.version = RANKS_ENGINE_VERSION,
                                        .name = name,
                                        .open = open_ranks,
                                        .close = close_ranks,
                                        .abort = abort_ranks,
                                        .broadcast = broadcast,
                                        .gather = gather,
                                        .sum = sum,
                                        .sum_to_first = sum_to_first,
                                        .sum_quickly = sum_quickly,
                                        .gather_parts = gather_parts,
                                        .exchange = exchange,
                                        .sum_begin = sum_begin,
                                        .sums_move = sums_move,
                                        .sums_end = sums_end,
                                        .send = send_message,
                                        .waiting = waiting,
                                        .receive = receive,
                                        .grid_open = scalapack_grid_open,
                                        .grid_close = scalapack_grid_close,
                                        .eigen_work = scalapack_eigen_work,
                                        .eigen = scalapack_eigen,
                                        .factor = scalapack_factor,
                                        .solve = scalapack_solve,
                                        .invert = scalapack_invert,
                                        .multiply = scalapack_multiply};
    return &engine;
}
