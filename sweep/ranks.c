/* The messages between rank 0 and the others: a header and a text. Nobody waits inside MPI. Each rank looks for
 * messages every few milliseconds, between looks at its children. This costs a run a few milliseconds at its end, and
 * no processor time. The text of a result also goes to rank 0 as a message, because on a network file system another
 * machine may see a new file only after some time. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/small.h"
#include "core/hash.h"
#include "mpi/ranks.h"
#include "sweep/sweep_parts.h"

enum { LOOK_MS = 4 };
static const double tell_every_s = 0.5;

enum { ORDER_START = 101, ORDER_STOP, ORDER_DISMISS }; /* beside what is news */

/* ---- letters ----------------------------------------------------------------------------------------------------- */

typedef struct header {
    int32_t kind, place;
    double share;
    uint64_t bytes; /* of text that follows */
} header;

static const size_t most_text = SWEEP__MOST_BYTES + PATH_MAX; /* a result, or settings with a path */

char *sweep__mail_open(void) { return ranks_several() ? small_alloc(sizeof(header) + most_text + 1) : NULL; }

/* The text may be in two pieces. */
static void post(char *mail, int to, int kind, int64_t place, double share, const char *first, size_t n,
                 const char *second) {
    size_t rest = second != NULL ? strlen(second) : 0;
    if (n + rest > most_text) rest = n = 0; /* longer than anything that is read back */
    header h = {.kind = kind, .place = (int32_t)place, .share = share, .bytes = n + rest};
    memcpy(mail, &h, sizeof h);
    if (n > 0) memcpy(mail + sizeof h, first, n);
    if (rest > 0) memcpy(mail + sizeof h + n, second, rest);
    ranks_engine_used()->send(to, mail, sizeof h + n + rest);
}

/* false: there is none now. */
static bool fetch(char *mail, sweep__news *letter) {
    header h;
    size_t bytes = 0;
    if (!ranks_several() || !ranks_engine_used()->waiting(&letter->rank, &bytes)) return false;
    ranks_engine_used()->receive(letter->rank, mail, bytes);
    memcpy(&h, mail, sizeof h);
    mail[bytes] = '\0';
    letter->kind = h.kind;
    letter->place = h.place;
    letter->share = h.share;
    letter->text = mail + sizeof h;
    return true;
}

void sweep__mail_listen(char *mail, sweep__hear *hear, void *user) {
    for (sweep__news letter; fetch(mail, &letter);) hear(user, &letter);
}

void sweep__order_start(char *mail, int rank, int64_t place, const char *path, const char *settings) {
    post(mail, rank, ORDER_START, place, 0, path, strlen(path) + 1, settings);
}

static void order_all(char *mail, int kind) {
    for (int rank = 1; rank < ranks_size(); rank++) post(mail, rank, kind, 0, 0, NULL, 0, NULL);
}

void sweep__order_stop(char *mail) { order_all(mail, ORDER_STOP); }

void sweep__order_dismiss(char *mail) { order_all(mail, ORDER_DISMISS); }

int64_t *sweep__gather_room(int64_t own) {
    int64_t *room = small_alloc((size_t)ranks_size() * sizeof *room);
    ranks_gather(&own, sizeof own, room);
    return room;
}

/* ---- meeting ----------------------------------------------------------------------------------------------------- */

typedef struct meeting {
    char folder[PATH_MAX], file[PATH_MAX];
    char token[64]; /* a file in the folder that rank 0 made just now */
    uint64_t hash;  /* of the file */
} meeting;

/* 0: it cannot be read. */
static uint64_t hash_file(const char *path) {
    char block[1 << 16];
    uint64_t hash = 1;
    FILE *in = path[0] != '\0' ? fopen(path, "rb") : NULL;
    if (in == NULL) return 0;
    for (size_t bytes; (bytes = fread(block, 1, sizeof block, in)) > 0;) hash = circe__hash_bytes(hash, block, bytes);
    fclose(in);
    return hash;
}

static circe_status make_file(const char *path, const char *folder) {
    int descriptor = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    if (descriptor < 0) return circe_fail(CIRCE_ERR_WRITE, "cannot write in %s: %s", folder, strerror(errno));
    close(descriptor);
    return CIRCE_OK;
}

/* As a rank that is not the first sees it. */
static circe_status look_around(const meeting *m) {
    OWNED_BY(arena_free) arena owner = {0};
    const char *runs = arena_format(&owner, "%s/runs", m->folder);
    const char *own = arena_format(&owner, "%s/.%s-rank%d", runs, m->token, ranks_rank());
    circe_status status = make_file(own, runs);
    if (status == CIRCE_OK &&
        (unlink(own) != 0 || access(arena_format(&owner, "%s/%s", m->folder, m->token), F_OK) != 0))
        status = circe_fail(CIRCE_ERR_WRITE,
                            "%s is not the folder that rank 0 sees; use one on a file system that all machines share",
                            m->folder);
    else if (status == CIRCE_OK && m->file[0] != '\0' && hash_file(m->file) != m->hash)
        status = circe_fail(CIRCE_ERR_ARGUMENT, "%s is not the file that rank 0 sees; every rank must see the same",
                            m->file);
    return status;
}

/* The token, and what the others are told. */
static circe_status prepare(const char *folder, const char *file, meeting *m) {
    if (strlen(folder) + sizeof m->token >= sizeof m->folder || (file != NULL && strlen(file) >= sizeof m->file))
        return circe_fail(CIRCE_ERR_ARGUMENT, "%s: the path is too long", folder);
    snprintf(m->folder, sizeof m->folder, "%s", folder);
    snprintf(m->file, sizeof m->file, "%s", file != NULL ? file : "");
    snprintf(m->token, sizeof m->token, ".ranks-%ld-%.0f", (long)getpid(), 1e6 * job_clock());
    m->hash = hash_file(m->file);
    return CIRCE_OK;
}

circe_status sweep__meet(circe_status status, const char *folder, const char *same_file) {
    if (!ranks_several()) return status;
    OWNED_BY(arena_free) arena owner = {0};
    meeting *m = arena_alloc(&owner, sizeof *m);
    if (status == CIRCE_OK) status = prepare(folder, same_file, m);
    const char *token = arena_format(&owner, "%s/%s", m->folder, m->token);
    if (status == CIRCE_OK) status = make_file(token, folder);
    bool made = status == CIRCE_OK;
    status = ranks_agree(status);
    if (status == CIRCE_OK) {
        ranks_broadcast(0, m, sizeof *m);
        status = ranks_agree(CIRCE_OK);
    }
    if (made) unlink(token);
    return status;
}

static circe_status meet_first(circe_status status) {
    OWNED meeting *m = small_alloc(sizeof *m);
    status = ranks_agree(status);
    if (status == CIRCE_OK) {
        ranks_broadcast(0, m, sizeof *m);
        status = ranks_agree(look_around(m));
    }
    return status;
}

/* ---- the others -------------------------------------------------------------------------------------------------- */

typedef struct servant {
    sweep__runners runners;
    char *mail; /* letters */
    bool dismissed;
    double told_at; /* shares */
} servant;

static void tell(void *user, const sweep__news *news) {
    servant *s = user;
    const char *text = news->text != NULL ? news->text : "";
    if (news->kind == SWEEP__SHARE && job_clock() - s->told_at < tell_every_s) return;
    post(s->mail, 0, (int)news->kind, news->place, news->share, text, strlen(text), NULL);
}

/* The letter has the path, then the settings. */
static void start(servant *s, const sweep__news *letter) {
    const char *settings = letter->text + strlen(letter->text) + 1;
    char why[SWEEP__WHY_BYTES] = "it was asked to stop";
    const sweep__news failure = {.kind = SWEEP__FAILURE, .place = letter->place, .text = why};
    if (s->runners.stopping || !sweep__runners_start(&s->runners, letter->place, letter->text, settings, why))
        tell(s, &failure);
}

static void obey(void *user, const sweep__news *letter) {
    servant *s = user;
    int order = (int)letter->kind;
    if (order == ORDER_START) start(s, letter);
    if (order == ORDER_STOP) sweep__runners_stop(&s->runners);
    if (order == ORDER_DISMISS) s->dismissed = true;
}

static void stop_where_asked(servant *s, const circe_watch *watch) {
    const sweep__news stopping = {.kind = SWEEP__STOPPING};
    if (!s->runners.stopping && sweep__tell(watch, 0, "") != 0) {
        sweep__runners_stop(&s->runners);
        tell(s, &stopping);
    }
    sweep__runners_hurry(&s->runners);
}

circe_status sweep_serve(circe_status status, const sweep_options *options, const circe_watch *watch) {
    servant s = {.mail = sweep__mail_open()};
    sweep__runners_open(options, &s.runners);
    status = meet_first(status);
    if (status == CIRCE_OK) free(sweep__gather_room(options->jobs));
    while (status == CIRCE_OK && !s.dismissed) {
        sweep__runners_listen(&s.runners, LOOK_MS, tell, &s);
        if (job_clock() - s.told_at > tell_every_s) s.told_at = job_clock();
        sweep__mail_listen(s.mail, obey, &s);
        stop_where_asked(&s, watch);
    }
    sweep__runners_close(&s.runners);
    free(s.mail);
    return status;
}
