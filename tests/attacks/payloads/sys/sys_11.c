// args: [most processors that we may use]
// SYS-11: take more than our share: OOM score, nice, real-time classes, all processors.
#include "attack.h"

struct attr {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static long set_attr(void *p) {
    return sys3(SYS_sched_setattr, 0, p, 0);
}

static long lower_oom(void *p) {
    return write_file("/proc/self/oom_score_adj", p) < 0 ? -1 : 0;
}

static long fifo(void *p) {
    struct sched_param sp = {.sched_priority = 1};
    return sys3(SYS_sched_setscheduler, 0, *(int *)p, &sp);
}

int main(int argc, char **argv) {
    char now[32] = "0", less[32];
    if (read_file("/proc/self/oom_score_adj", now, sizeof now) > 0) {
        // Even one step down from where we start would be a step above the others.
        snprintf(less, sizeof less, "%d", atoi(now) - 1);
        denied_act("oom_score_adj one lower", in_child(lower_oom, less, 1000), EACCES, EPERM,
                   EROFS, EINVAL, 0);
        denied_act("oom_score_adj -1000", in_child(lower_oom, "-1000", 1000), EACCES, EPERM, EROFS,
                   0);
    } else {
        held("oom_score_adj %s", ename(errno));
    }

    denied_act("nice -20", child_call(SYS_setpriority, PRIO_PROCESS, 0, -20), EACCES, EPERM, 0);
    denied_act("nice one better", child_call(SYS_setpriority, PRIO_PROCESS, 0,
                                             getpriority(PRIO_PROCESS, 0) - 1), EACCES, EPERM, 0);
    denied_act("nice -20 for all of ours", child_call(SYS_setpriority, PRIO_USER, 0, -20), EACCES,
               EPERM, 0);

    int rt = SCHED_FIFO, rr = SCHED_RR;
    denied_act("SCHED_FIFO", in_child(fifo, &rt, 1000), EPERM, ENOSYS, 0);
    denied_act("SCHED_RR", in_child(fifo, &rr, 1000), EPERM, ENOSYS, 0);
    struct attr a = {.size = 48, .policy = SCHED_FIFO, .priority = 1};
    denied_act("sched_setattr(FIFO)", in_child(set_attr, &a, 1000), EPERM, ENOSYS, 0);
    struct attr d = {.size = 48, .policy = 6, .runtime = 10000000, .deadline = 30000000,
                     .period = 30000000};
    denied_act("sched_setattr(DEADLINE)", in_child(set_attr, &d, 1000), EPERM, ENOSYS, EBUSY, 0);
    struct attr n = {.size = 48, .policy = SCHED_OTHER, .nice = -20};
    denied_act("sched_setattr(nice -20)", in_child(set_attr, &n, 1000), EPERM, EACCES, ENOSYS, 0);

    denied_act("ioprio RT", child_call(SYS_ioprio_set, 1, 0, 1 << 13), EPERM, ENOSYS, 0);
    struct {
        const char *name;
        int res;
        rlim_t want;
    } lim[] = {{"RLIMIT_NICE", RLIMIT_NICE, 40}, {"RLIMIT_RTPRIO", RLIMIT_RTPRIO, 99},
               {"RLIMIT_MEMLOCK", RLIMIT_MEMLOCK, RLIM_INFINITY},
               {"RLIMIT_NPROC", RLIMIT_NPROC, RLIM_INFINITY}};
    for (unsigned i = 0; i < 4; i++) {
        struct rlimit r;
        getrlimit(lim[i].res, &r);
        if (i < 2 && r.rlim_max > 0) breached("%s hard limit is %ld", lim[i].name, (long)r.rlim_max);
        if (r.rlim_max == RLIM_INFINITY) {
            breached("%s has no hard limit", lim[i].name);
            continue;
        }
        r.rlim_cur = r.rlim_max = lim[i].want;
        denied(lim[i].name, setrlimit(lim[i].res, &r), EPERM, 0);
    }

    // The kernel cuts the wish down to the cpuset, so the result is what counts.
    cpu_set_t all;
    memset(&all, 0xff, sizeof all);
    int r = sched_setaffinity(0, sizeof all, &all);
    int e = errno;
    CPU_ZERO(&all);
    sched_getaffinity(0, sizeof all, &all);
    NOTE("affinity to all %s, now %d processors", r < 0 ? ename(e) : "accepted", CPU_COUNT(&all));
    if (argc > 1 && atoi(argv[1]) > 0) {
        if (CPU_COUNT(&all) > atoi(argv[1]))
            breached("%d processors instead of %s", CPU_COUNT(&all), argv[1]);
        else
            held("%d processors", CPU_COUNT(&all));
    }
    return verdict();
}
