/* Sums, gathers and broadcasts in shared memory.
 *
 * Work goes in rounds of at most SLOT bytes of each of N processes, numbered from 1, the same everywhere. Process k has
 * SLOTS slots that all can read; round r uses slot r mod SLOTS of each. Three numbers of every process say how far it
 * is, each the number of a round:
 *
 *     posted_k   its part of rounds up to this one lies in its slots
 *     added_k    and, of rounds that are added up in slices, the sum of its slice lies in place of its part of it
 *     taken_k    it has read all that it wants of these rounds: their slots may be written again
 *
 *     post       wait for taken_j >= r - SLOTS of all j; own part to slot; posted := r
 *     add        once posted_j >= r of all j: own slice of all parts added up, in place; added := r
 *     take       once posted_j >= r (whole parts are read) or added_j >= r (slices) of all j: read; taken := r
 *
 * Sums are ((part_0 + part_1) + part_2) + ... of every number, whoever makes them: all processes get the same bits,
 * whatever the slices. Two processes read each other's whole part: it is the traffic of slices (what comes in is one
 * part: half of the other's and half of the sums) with one wait less. More processes take slices, unless the parts are
 * too short to be worth a wait: 2 (N - 1) / N parts come in instead of N - 1.
 *
 * Order of memory. A slot is written, then its `posted` with release; who reads that with acquire sees the slot as
 * written, and so for `added`. Reads of a slot come before `taken` with release, and its owner reads that with acquire
 * before it writes there again: no write overtakes a read. The sum of a slice lies where only its owner reads in `add`,
 * and others read it after `added` alone. Each number has one writer and only grows; atomics without locks work between
 * processes as between threads.
 *
 * A waiting process continues with older rounds itself (`move`), so no two processes wait for each other: the oldest
 * round that anyone has not taken either was posted by all, or lacks only parts of processes that have not reached it,
 * and these wait at most for older rounds. After a moment a waiting process also lets MPI progress, which may have
 * messages that others wait for. If a process dies, MPI's launcher ends the others. */
#include "mpi/engine_shared.h"

#include <mpi.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/engine_wait.h"

enum {
    SLOT = 1 << 16, /* bytes: small enough to stay in a core's own cache with those of the others */
    SLOTS = 8,
    LINE = 64,
    SLICED = 8192, /* bytes from which on slices are worth a wait */
    BLOCK = 4096   /* bytes that are added up at a time */
};

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "processes need atomics without locks");

/* How far a process is: the number of a round. Others wait for it, so it has a line of its own; two, as processors
 * fetch pairs. */
typedef struct shared_count {
    _Alignas(2 * LINE) atomic_ullong round;
} shared_count;

enum { POSTED, ADDED, TAKEN, COUNTS };

/* What every process has in the window. */
typedef struct shared_part {
    shared_count counts[COUNTS];
    _Alignas(4096) char slots[SLOTS][SLOT];
} shared_part;

typedef enum shared_kind { SUM_DOUBLES, SUM_FLOATS, GATHER, BROADCAST } shared_kind;

/* A round as this process sees it. */
typedef struct shared_round {
    shared_kind kind;
    bool sliced;
    int from;            /* of a broadcast */
    char *to;            /* numbers, or where everyone's bytes are gathered */
    size_t bytes, at;    /* of this round; bytes of earlier rounds of the same call */
    const size_t *parts; /* of a gather, in all */
} shared_round;

static struct {
    bool tried, there;
    int rank, size;
    MPI_Comm machine;
    MPI_Win window;
    shared_part **parts;           /* (size) */
    shared_round rounds[SLOTS];    /* those between taken and posted */
    uint64_t posted, added, taken; /* of this process */
} shared;

/* ---- the window -------------------------------------------------------------------------------------------------- */

/* Mapped at other addresses in other processes, but always at the beginning of a page: alike up to a page. */
static shared_part *aligned(void *address) {
    uintptr_t unit = _Alignof(shared_part);
    return (shared_part *)(void *)((char *)address + (unit - (uintptr_t)address % unit) % unit);
}

static bool make_window(void) {
    void *own = NULL;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_shared_noncontig", "true"); /* each part in memory near to its process */
    MPI_Comm_set_errhandler(shared.machine, MPI_ERRORS_RETURN);
    int status = MPI_Win_allocate_shared((MPI_Aint)(sizeof(shared_part) + _Alignof(shared_part)), 1, info,
                                         shared.machine, &own, &shared.window);
    MPI_Info_free(&info);
    return status == MPI_SUCCESS;
}

static void find_parts(void) {
    for (int k = 0; k < shared.size; k++) {
        MPI_Aint bytes = 0;
        int unit = 0;
        void *address = NULL;
        MPI_Win_shared_query(shared.window, k, &bytes, &unit, &address);
        shared.parts[k] = aligned(address);
    }
    for (int c = 0; c < COUNTS; c++) atomic_init(&shared.parts[shared.rank]->counts[c].round, 0);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, shared.window); /* from now on it is memory */
    MPI_Barrier(shared.machine);
}

/* All or none. */
static bool all_say(bool yes) {
    int mine = yes, all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all != 0;
}

static bool wanted(void) {
    const char *how = getenv("CIRCE_CLUSTER");
    int world = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &world);
    MPI_Comm_rank(MPI_COMM_WORLD, &shared.rank);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, shared.rank, MPI_INFO_NULL, &shared.machine);
    MPI_Comm_size(shared.machine, &shared.size);
    return all_say(shared.size == world && (how == NULL || strcmp(how, "messages") != 0));
}

bool shared_open(void) {
    if (shared.tried) return shared.there;
    shared.tried = true;
    if (!wanted()) return false;
    shared.parts = malloc((size_t)shared.size * sizeof(shared_part *));
    shared.there = all_say(shared.parts != NULL) && all_say(make_window());
    if (shared.there) find_parts();
    return shared.there;
}

bool shared_there(void) { return shared.there; }

void shared_close(void) {
    if (shared.there) {
        shared_sums_end();
        MPI_Win_unlock_all(shared.window);
        MPI_Win_free(&shared.window);
    }
    if (shared.tried) MPI_Comm_free(&shared.machine);
    free(shared.parts);
    shared.parts = NULL;
    shared.tried = shared.there = false;
    shared.posted = shared.added = shared.taken = 0;
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

static char *slot_of(int process, uint64_t round) { return shared.parts[process]->slots[round % SLOTS]; }

static void tell(int count, uint64_t round) {
    atomic_store_explicit(&shared.parts[shared.rank]->counts[count].round, round, memory_order_release);
}

static bool all_have(int count, uint64_t round) {
    for (int k = 0; k < shared.size; k++)
        if (atomic_load_explicit(&shared.parts[k]->counts[count].round, memory_order_acquire) < round) return false;
    return true;
}

/* Bytes [first, end) of process k's slice: whole lines, which are whole numbers. */
static size_t slice_start(size_t bytes, int k) {
    size_t lines = (bytes + LINE - 1) / LINE, start = lines * (size_t)k / (size_t)shared.size * LINE;
    return start < bytes ? start : bytes;
}

/* to := a + b; it may be a. */
static void add_floats(int64_t n, const float *a, const float *b, float *to) {
    for (int64_t i = 0; i < n; i++) to[i] = a[i] + b[i];
}

static void add_doubles(int64_t n, const double *a, const double *b, double *to) {
    for (int64_t i = 0; i < n; i++) to[i] = a[i] + b[i];
}

static void add(shared_kind kind, size_t bytes, const void *a, const void *b, void *to) {
    if (kind == SUM_FLOATS)
        add_floats((int64_t)(bytes / sizeof(float)), a, b, to);
    else
        add_doubles((int64_t)(bytes / sizeof(double)), a, b, to);
}

/* to := bytes [first, end) of the round's parts, added up; not a part itself. */
static void add_parts(const shared_round *r, uint64_t round, size_t first, size_t end, char *to) {
    for (size_t at = first; at < end; at += BLOCK, to += BLOCK) {
        size_t here = end - at < BLOCK ? end - at : BLOCK;
        add(r->kind, here, slot_of(0, round) + at, slot_of(1, round) + at, to);
        for (int k = 2; k < shared.size; k++) add(r->kind, here, to, slot_of(k, round) + at, to);
    }
}

/* This process's slice of the sums in place of its part, which nobody else reads there. */
static void add_slice(const shared_round *r, uint64_t round) {
    size_t first = slice_start(r->bytes, shared.rank), end = slice_start(r->bytes, shared.rank + 1);
    add_parts(r, round, first, end, r->to + first);
    memcpy(slot_of(shared.rank, round) + first, r->to + first, end - first);
}

/* ---- taking ------------------------------------------------------------------------------------------------------ */

static void take_slices(const shared_round *r, uint64_t round) {
    for (int k = 0; k < shared.size; k++) {
        size_t first = slice_start(r->bytes, k), end = slice_start(r->bytes, k + 1);
        if (k != shared.rank) memcpy(r->to + first, slot_of(k, round) + first, end - first);
    }
}

static void take_parts(const shared_round *r, uint64_t round) {
    char *to = r->to + r->at;
    for (int k = 0; k < shared.size; to += r->parts[k++]) {
        if (r->parts[k] <= r->at) continue;
        size_t left = r->parts[k] - r->at;
        memcpy(to, slot_of(k, round), left < SLOT ? left : SLOT);
    }
}

static void take(const shared_round *r, uint64_t round) {
    if (r->kind == GATHER)
        take_parts(r, round);
    else if (r->kind == BROADCAST && r->from != shared.rank)
        memcpy(r->to, slot_of(r->from, round), r->bytes);
    else if (r->kind != BROADCAST && r->sliced)
        take_slices(r, round);
    else if (r->kind != BROADCAST)
        add_parts(r, round, 0, r->bytes, r->to);
}

/* Adds own slices, and takes, as far as the others are there. */
static void move(void) {
    while (shared.added < shared.posted && all_have(POSTED, shared.added + 1)) {
        uint64_t round = ++shared.added;
        const shared_round *r = &shared.rounds[round % SLOTS];
        if (r->sliced) add_slice(r, round);
        tell(ADDED, round);
    }
    while (shared.taken < shared.added) {
        uint64_t round = shared.taken + 1;
        const shared_round *r = &shared.rounds[round % SLOTS];
        if (r->sliced && !all_have(ADDED, round)) return;
        take(r, round);
        shared.taken = round;
        tell(TAKEN, round);
    }
}

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Between two tests of what is waited for. */
static void wait_a_little(engine_patience *patience) {
    int there = 0;
    move();
    if (!engine_wait(patience))
        relax();
    else
        MPI_Iprobe(MPI_ANY_SOURCE, 0, shared.machine, &there, MPI_STATUS_IGNORE);
}

/* The slot of the next round, once nobody reads it any more. */
static char *next_slot(void) {
    engine_patience patience = {0};
    uint64_t round = shared.posted + 1;
    while (round > SLOTS && !all_have(TAKEN, round - SLOTS)) wait_a_little(&patience);
    return slot_of(shared.rank, round);
}

/* What this process has in its slot, for all to see. */
static void post(const shared_round *r) {
    uint64_t round = ++shared.posted;
    shared.rounds[round % SLOTS] = *r;
    tell(POSTED, round);
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */

void shared_sums_move(void) { move(); }

void shared_sums_end(void) {
    engine_patience patience = {0};
    move();
    while (shared.taken < shared.posted) wait_a_little(&patience);
}

/* slot := weight times the values, which are being copied anyway. */
static void put_values(size_t bytes, bool floats, double weight, const void *values, void *slot) {
    if (weight == 1.0) {
        memcpy(slot, values, bytes);
    } else if (floats) {
        float each = (float)weight;
        for (size_t i = 0; i < bytes / sizeof(float); i++) ((float *)slot)[i] = each * ((const float *)values)[i];
    } else {
        for (size_t i = 0; i < bytes / sizeof(double); i++) ((double *)slot)[i] = weight * ((const double *)values)[i];
    }
}

void shared_sum_begin(void *values, int64_t n, bool floats, double weight) {
    size_t bytes = (size_t)n * (floats ? sizeof(float) : sizeof(double));
    for (size_t at = 0; at < bytes; at += SLOT) {
        size_t here = bytes - at < SLOT ? bytes - at : SLOT;
        char *from = (char *)values + at;
        put_values(here, floats, weight, from, next_slot());
        post(&(shared_round){.kind = floats ? SUM_FLOATS : SUM_DOUBLES,
                             .sliced = shared.size > 2 && here >= SLICED,
                             .to = from,
                             .bytes = here});
    }
    move();
}

void shared_gather_parts(const void *own, const size_t *bytes, void *everyones) {
    size_t most = 0, mine = bytes[shared.rank];
    for (int k = 0; k < shared.size; k++) most = bytes[k] > most ? bytes[k] : most;
    for (size_t at = 0; at < most; at += SLOT) {
        size_t left = mine > at ? mine - at : 0;
        char *slot = next_slot();
        if (left > 0) memcpy(slot, (const char *)own + at, left < SLOT ? left : SLOT);
        post(&(shared_round){.kind = GATHER, .to = everyones, .at = at, .parts = bytes});
    }
    shared_sums_end();
}

void shared_broadcast(int from, void *data, size_t bytes) {
    for (size_t at = 0; at < bytes; at += SLOT) {
        size_t here = bytes - at < SLOT ? bytes - at : SLOT;
        char *slot = next_slot();
        if (shared.rank == from) memcpy(slot, (const char *)data + at, here);
        post(&(shared_round){.kind = BROADCAST, .from = from, .to = (char *)data + at, .bytes = here});
    }
    shared_sums_end();
}
