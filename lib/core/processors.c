/* How many processors this process may use: those of its affinity mask, but no more than the CPU quota of its control
 * group. */
#define _GNU_SOURCE /* affinity */
#include "core/processors.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/core.h"

/* "QUOTA PERIOD" or "max PERIOD" of one group, in processors; 0 if there is no limit or no such file. */
static double quota_in(const char *folder) {
    char path[1400];
    double quota = 0.0, period = 0.0;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    FILE *file = fopen(path, "re");
    if (file == NULL) return 0.0;
    int found = fscanf(file, "%lf %lf", &quota, &period);
    fclose(file);
    return found == 2 && quota > 0.0 && period > 0.0 ? quota / period : 0.0;
}

static double number_in(const char *folder, const char *name) {
    char path[1400];
    double number = 0.0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (file == NULL) return 0.0;
    int found = fscanf(file, "%lf", &number);
    fclose(file);
    return found == 1 ? number : 0.0;
}

/* The same in version 1: two files, and -1 for no limit. */
static double quota_in_first(const char *folder) {
    double quota = number_in(folder, "cpu.cfs_quota_us"), period = number_in(folder, "cpu.cfs_period_us");
    return quota > 0.0 && period > 0.0 ? quota / period : 0.0;
}

/* The tightest limit of a group and those above it. */
static double quota_above(const char *root, char *group, double (*quota)(const char *folder)) {
    char folder[1200];
    double least = 0.0;
    for (char *end = group + strlen(group); end != NULL; end = strrchr(group, '/')) {
        *end = '\0';
        snprintf(folder, sizeof folder, "%s%s", root, group);
        double here = quota(folder);
        if (here > 0.0 && (least == 0.0 || here < least)) least = here;
        if (group[0] == '\0') break;
    }
    return least;
}

/* The limit of this process's control group. The file has lines "0::GROUP" (version 2) and "NUMBER:CONTROLLERS:GROUP"
 * (version 1); a container sees its own group as /. */
static double cgroup_processors(void) {
    char line[1024];
    double quota = 0.0;
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (file == NULL) return 0.0;
    while (quota == 0.0 && fgets(line, sizeof line, file) != NULL) {
        char *controllers = strchr(line, ':'), *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (group == NULL) continue;
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        if (controllers[1] == '\0')
            quota = quota_above("/sys/fs/cgroup", group, quota_in);
        else if (strcmp(controllers, ":cpu") == 0 || strncmp(controllers, ":cpu,", 5) == 0)
            quota = quota_above("/sys/fs/cgroup/cpu", group, quota_in_first);
    }
    fclose(file);
    return quota;
}

int circe__count_processors(void) {
    cpu_set_t *set = CPU_ALLOC(8192);
    size_t bytes = CPU_ALLOC_SIZE(8192);
    int count = 0;
    if (set != NULL && sched_getaffinity(0, bytes, set) == 0) count = CPU_COUNT_S(bytes, set);
    CPU_FREE(set);
    if (count < 1) count = (int)circe__max(1, sysconf(_SC_NPROCESSORS_ONLN));
    double quota = cgroup_processors();
    if (quota > 0.0 && quota < (double)count) count = quota < 1.0 ? 1 : (int)(quota + 0.999);
    return count;
}
