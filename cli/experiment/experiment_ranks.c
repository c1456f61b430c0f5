/* What rank 0 and the others tell each other: a header and a text. Nobody waits inside MPI: each looks for messages
 * every few milliseconds, between looks at its children, which costs a run so much when it ends and a core nothing. The
 * text of a result goes to rank 0 as a message too, since a file that one machine of a network file system has written
 * may take its time to be seen by another. */
#include "cli/experiment/experiment_ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/common/message.h"
#include "cli/common/progress.h"
#include "cli/common/ranks.h"
#include "cli/common/session.h"
#include "cli/experiment/experiment_result.h"

enum { LOOK_MS = 4 };
static const double tell_every_s = 0.5;

enum { ORDER_START = 101, ORDER_STOP, ORDER_DISMISS }; /* beside experiment_news_kind */

typedef struct header {
    int32_t kind, place;
    double share;
    uint64_t bytes; /* of text that follows */
} header;

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static void post(int to, int kind, int64_t place, double share, const char *text, size_t bytes) {
    header h = {.kind = kind, .place = (int32_t)place, .share = share, .bytes = bytes};
    char *message = small_alloc(sizeof h + bytes);
    memcpy(message, &h, sizeof h);
    if (bytes > 0) memcpy(message + sizeof h, text, bytes);
    cluster_engine_used()->send(to, message, sizeof h + bytes);
    free(message);
}

/* *text (to be freed) is ended by a zero. */
static bool fetch(int *from, header *h, char **text) {
    size_t bytes = 0;
    if (!cluster_engine_used()->waiting(from, &bytes)) return false;
    char *message = small_alloc(bytes + 1);
    cluster_engine_used()->receive(*from, message, bytes);
    memcpy(h, message, sizeof *h);
    memmove(message, message + sizeof *h, bytes - sizeof *h);
    message[bytes - sizeof *h] = '\0';
    *text = message;
    return true;
}

static void post_all(int kind) {
    for (int rank = 1; rank < cluster_size(); rank++) post(rank, kind, 0, 0, NULL, 0);
}

/* ---- meeting ----------------------------------------------------------------------------------------------------- */

typedef struct meeting {
    char folder[PATH_MAX], weights[PATH_MAX];
    char token[64]; /* a file in the folder that rank 0 made just now */
    uint64_t hash;  /* of the weights */
} meeting;

/* 0: it cannot be read. */
static uint64_t hash_file(const char *path) {
    char block[1 << 16];
    uint64_t hash = 1;
    FILE *in = path[0] != '\0' ? fopen(path, "rb") : NULL;
    if (in == NULL) return 0;
    for (size_t bytes; (bytes = fread(block, 1, sizeof block, in)) > 0;) hash = cluster_hash(hash, block, bytes);
    fclose(in);
    return hash;
}

static int make_file(const char *path) {
    int descriptor = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    if (descriptor < 0) return errno;
    close(descriptor);
    return 0;
}

/* As a rank that is not the first sees it. */
static int look_around(const meeting *m) {
    char *own = small_format("%s/runs/.%s-rank%d", m->folder, m->token, cluster_rank());
    char *token = small_format("%s/%s", m->folder, m->token);
    int status = EXIT_DONE, problem = make_file(own);
    if (problem != 0)
        status = message_fail(EXIT_WORK, "cannot write in %s/runs: %s", m->folder, strerror(problem));
    else if (unlink(own) != 0 || access(token, F_OK) != 0)
        status = message_fail(
            EXIT_WORK, "%s is not the folder that rank 0 sees; give one on a file system that all machines share",
            m->folder);
    else if (m->weights[0] != '\0' && hash_file(m->weights) != m->hash)
        status =
            message_fail(EXIT_INPUT, "%s is not the file that rank 0 sees; every rank must see the same", m->weights);
    free(own);
    free(token);
    return status;
}

/* The token, and what the others are told. */
static int prepare(const char *folder, const char *weights, meeting *m) {
    if (strlen(folder) >= sizeof m->folder || (weights != NULL && strlen(weights) >= sizeof m->weights))
        return message_fail(EXIT_INPUT, "%s: the path is too long", folder);
    snprintf(m->folder, sizeof m->folder, "%s", folder);
    snprintf(m->weights, sizeof m->weights, "%s", weights != NULL ? weights : "");
    snprintf(m->token, sizeof m->token, ".ranks-%ld-%.0f", (long)getpid(), 1e6 * session_clock());
    m->hash = hash_file(m->weights);
    char *token = small_format("%s/%s", folder, m->token);
    int problem = make_file(token);
    free(token);
    return problem == 0 ? EXIT_DONE : message_fail(EXIT_WORK, "cannot write in %s: %s", folder, strerror(problem));
}

int experiment_ranks_meet(int status, const char *folder, const char *weights) {
    meeting *m = NULL;
    if (!ranks_several()) return status;
    m = small_alloc(sizeof *m);
    if (status == EXIT_DONE) status = prepare(folder, weights, m);
    bool made = status == EXIT_DONE;
    status = ranks_agree(status);
    if (status == EXIT_DONE) {
        cluster_broadcast(0, m, sizeof *m);
        status = ranks_agree(EXIT_DONE);
    }
    char *token = small_format("%s/%s", m->folder, m->token);
    if (made) unlink(token);
    free(token);
    free(m);
    return status;
}

static int meet_first(int status) {
    meeting *m = small_alloc(sizeof *m);
    status = ranks_agree(status);
    if (status == EXIT_DONE) {
        cluster_broadcast(0, m, sizeof *m);
        status = ranks_agree(look_around(m));
    }
    free(m);
    return status;
}

int64_t *experiment_ranks_room(int64_t own) {
    int64_t *room = small_alloc((size_t)cluster_size() * sizeof *room);
    cluster_gather(&own, sizeof own, room);
    return room;
}

/* ---- rank 0 ------------------------------------------------------------------------------------------------------ */

void experiment_ranks_start(int rank, int64_t place, const char *path, const char *settings) {
    size_t path_bytes = strlen(path) + 1, bytes = path_bytes + strlen(settings);
    char *text = small_alloc(bytes + 1);
    memcpy(text, path, path_bytes);
    memcpy(text + path_bytes, settings, bytes - path_bytes);
    post(rank, ORDER_START, place, 0, text, bytes);
    free(text);
}

bool experiment_ranks_hear(experiment_news *news) {
    header h;
    int from = 0;
    char *text = NULL;
    if (!ranks_several() || !fetch(&from, &h, &text)) return false;
    *news = (experiment_news){
        .kind = (experiment_news_kind)h.kind, .rank = from, .place = h.place, .share = h.share, .text = text};
    return true;
}

void experiment_ranks_stop(void) {
    if (ranks_several()) post_all(ORDER_STOP);
}

void experiment_ranks_dismiss(void) {
    if (ranks_several()) post_all(ORDER_DISMISS);
}

/* ---- the others -------------------------------------------------------------------------------------------------- */

typedef struct servant {
    const experiment_means *means;
    experiment_child *children;
    char **paths; /* of their results */
    int64_t room;
    bool stopping, killed, dismissed;
    double stopped_at, told_at;
} servant;

static void post_text(int kind, int64_t place, const char *text) { post(0, kind, place, 0, text, strlen(text)); }

static void start(servant *s, int64_t place, const char *text) {
    const char *settings = text + strlen(text) + 1;
    if (s->stopping) {
        post_text(NEWS_FAILED, place, "it was asked to stop");
        return;
    }
    free(s->paths[place]);
    s->paths[place] = small_format("%s", text);
    int problem = experiment_child_start(text, settings, s->means, &s->children[place]);
    if (problem == 0) return;
    char *why = small_format("it could not be started: %s", strerror(problem));
    post_text(NEWS_FAILED, place, why);
    free(why);
}

static void stop(servant *s) {
    if (s->stopping) return;
    s->stopping = true;
    s->stopped_at = session_clock();
    experiment_child_signal(s->children, s->room, SIGTERM);
}

static void take_orders(servant *s) {
    header h;
    int from = 0;
    char *text = NULL;
    while (fetch(&from, &h, &text)) {
        if (h.kind == ORDER_START) start(s, h.place, text);
        if (h.kind == ORDER_STOP) stop(s);
        if (h.kind == ORDER_DISMISS) s->dismissed = true;
        free(text);
    }
}

static void tell_end(servant *s, int64_t place) {
    char *why = experiment_child_end(&s->children[place]);
    char *result = why == NULL ? experiment_result_text(s->paths[place]) : NULL;
    if (result != NULL) {
        post_text(NEWS_DONE, place, result);
    } else {
        if (why == NULL) why = small_format("its result %s cannot be read", s->paths[place]);
        post_text(NEWS_FAILED, place, why);
    }
    free(why);
    free(result);
}

static void tell(servant *s) {
    bool shares = session_clock() - s->told_at > tell_every_s;
    for (int64_t i = 0; i < s->room; i++) {
        if (experiment_child_has_ended(&s->children[i]))
            tell_end(s, i);
        else if (shares && s->children[i].pid != 0)
            post(0, NEWS_SHARE, i, s->children[i].share, NULL, 0);
    }
    if (shares) s->told_at = session_clock();
}

static void stop_where_asked(servant *s) {
    if (!s->stopping && progress_interrupted()) {
        stop(s);
        post(0, NEWS_STOPPING, 0, 0, NULL, 0);
    } else if (s->stopping && !s->killed && session_clock() - s->stopped_at > EXPERIMENT_PATIENCE_S) {
        experiment_child_signal(s->children, s->room, SIGKILL);
        s->killed = true;
    }
}

int experiment_ranks_serve(int status, int64_t room, const experiment_means *means) {
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    status = meet_first(status);
    if (status != EXIT_DONE) return status;
    free(experiment_ranks_room(room));
    servant s = {.means = means, .room = room};
    s.children = small_alloc((size_t)room * sizeof *s.children);
    s.paths = small_alloc((size_t)room * sizeof *s.paths);
    progress_start(false);
    progress_catch_termination();
    sigaction(SIGPIPE, &ignore, &before); /* a child that ended must not end this process */
    while (!s.dismissed) {
        experiment_child_listen(s.children, room, LOOK_MS);
        tell(&s);
        take_orders(&s);
        stop_where_asked(&s);
    }
    sigaction(SIGPIPE, &before, NULL);
    for (int64_t i = 0; i < room; i++) free(s.paths[i]);
    free(s.paths);
    free(s.children);
    return EXIT_DONE;
}
