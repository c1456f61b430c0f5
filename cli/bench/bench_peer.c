/* PyTorch's times come from bench/gpu_best.py, which lies beside the installed program or where it was built: one mode
 * after the other, each step in a CUDA graph, and eager. */
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/owned.h"
#include "cli/bench/bench.h"
#include "cli/common/progress.h"

/* ---- asking ------------------------------------------------------------------------------------------------------ */

static const char *find_script(char path[PATH_MAX]) {
    char program[PATH_MAX / 2];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(program, '/');
    if (slash != NULL) *slash = '\0';
    snprintf(path, PATH_MAX, "%s/../share/circe/bench/gpu_best.py", program);
    if (access(path, R_OK) == 0) return path;
    return access(CIRCE_SOURCE_BENCH "/gpu_best.py", R_OK) == 0 ? CIRCE_SOURCE_BENCH "/gpu_best.py" : NULL;
}

/* Whether python3 ended well; what it prints is not for this terminal. */
static bool run_python(char *const arguments[]) {
    posix_spawn_file_actions_t actions;
    pid_t child = 0;
    int ended = 1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    bool begun = posix_spawnp(&child, arguments[0], &actions, NULL, arguments, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    return begun && waitpid(child, &ended, 0) == child && WIFEXITED(ended) && WEXITSTATUS(ended) == 0;
}

static void take_row(const cJSON *entry, cJSON *found) {
    const cJSON *network = cJSON_GetObjectItemCaseSensitive(entry, "network");
    const cJSON *mode = cJSON_GetObjectItemCaseSensitive(entry, "mode");
    const cJSON *batch = cJSON_GetObjectItemCaseSensitive(entry, "batch");
    const cJSON *ms = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(entry, "ms"), 0);
    if (!cJSON_IsString(network) || !cJSON_IsString(mode) || !cJSON_IsNumber(batch) || !cJSON_IsNumber(ms)) return;
    cJSON *row = bench_row(found, "pytorch");
    cJSON_AddStringToObject(row, "network", network->valuestring);
    cJSON_AddStringToObject(row, "mode", mode->valuestring);
    json_integer(row, "batch", (int64_t)batch->valuedouble);
    json_number(row, "median_ms", ms->valuedouble);
}

static void read_rows(int file, cJSON *found) {
    enum { MOST = 1 << 16 };
    OWNED char *text = small_alloc(MOST);
    ssize_t length = read(file, text, MOST - 1);
    text[length > 0 ? length : 0] = '\0';
    cJSON *list = cJSON_Parse(text);
    for (int k = 0; k < cJSON_GetArraySize(list); k++) take_row(cJSON_GetArrayItem(list, k), found);
    cJSON_Delete(list);
}

void bench_peer(bench *b, const char *networks) {
    char path[PATH_MAX], file[] = "/tmp/circe-bench-XXXXXX";
    const char *script = find_script(path);
    cJSON_AddArrayToObject(b->found, "pytorch");
    int kept = script != NULL ? mkstemp(file) : -1;
    if (kept < 0) return;
    char *arguments[] = {"python3",
                         (char *)script,
                         "--peer-only",
                         "--rounds",
                         "1",
                         "--networks",
                         (char *)networks,
                         "--modes",
                         (char *)b->own->precision,
                         "--json",
                         file,
                         NULL};
    progress_step(NULL, "PyTorch", 1, 1);
    if (run_python(arguments)) read_rows(kept, b->found);
    close(kept);
    unlink(file);
}

/* ---- telling ----------------------------------------------------------------------------------------------------- */

static const char *text_of(const cJSON *row, const char *name) {
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, name));
}

static const cJSON *fastest(const cJSON *peer, const cJSON *step) {
    const cJSON *row = NULL, *best = NULL;
    cJSON_ArrayForEach(row, peer) {
        bool same = strcmp(text_of(row, "network"), text_of(step, "network")) == 0 &&
                    bench_number(row, "batch") == bench_number(step, "batch");
        if (same && (best == NULL || bench_number(row, "median_ms") < bench_number(best, "median_ms"))) best = row;
    }
    return best;
}

/* Of the steps that PyTorch has taken too. */
static void add_beside(const cJSON *peer, const cJSON *steps, cJSON *table) {
    const cJSON *step = NULL;
    cJSON_ArrayForEach(step, steps) {
        const cJSON *best = fastest(peer, step);
        if (best == NULL || bench_number(step, "runs") > 1 || strcmp(text_of(step, "regularizer"), "none") != 0)
            continue;
        double ours = bench_number(step, "median_ms"), theirs = bench_number(best, "median_ms");
        cJSON *row = bench_row(table, "rows");
        cJSON_AddStringToObject(row, "network", text_of(step, "network"));
        json_number(row, "batch", bench_number(step, "batch"));
        json_number(row, "circe", ours);
        json_number(row, "pytorch", theirs);
        json_number(row, "ratio", theirs / ours);
        cJSON_AddStringToObject(row, "mode", text_of(best, "mode"));
    }
}

void bench_peer_print(const bench *b) {
    static const bench_column columns[] = {{"network", "network", 0},
                                           {"batch", "batch", 0},
                                           {"circe", "circe", 0},
                                           {"PyTorch", "pytorch", 0},
                                           {"ratio", "ratio", 0},
                                           {"PyTorch's mode", "mode", 0},
                                           {0}};
    const cJSON *peer = cJSON_GetObjectItemCaseSensitive(b->found, "pytorch");
    cJSON *table = cJSON_CreateObject();
    if (peer != NULL && peer->child == NULL)
        printf("\nFor a comparison with PyTorch, python3 must find PyTorch, and PyTorch the GPU.\n");
    add_beside(peer, cJSON_GetObjectItemCaseSensitive(b->found, "train"), table);
    add_beside(peer, cJSON_GetObjectItemCaseSensitive(b->found, "images"), table);
    bench_table(
        "A step without a regulariser beside the fastest of PyTorch's modes in the same precision, in "
        "milliseconds",
        cJSON_GetObjectItemCaseSensitive(table, "rows"), columns);
    cJSON_Delete(table);
}
