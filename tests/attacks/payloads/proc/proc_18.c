// args: [own-kernel]
// PROC-18: as root with the profile `full`, and as the guest's own user: end, stop, limit, slow
// down, trace or read pid 1. With `own-kernel` the score of pid 1 is left out: another kernel than
// the host's kills nobody by it.
#include "res/bound.h"
#include <sys/ptrace.h>

#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#define SYS_pidfd_open 434
#endif
#define SYS_pidfd_getfd_ 438

enum { GUEST_UID = 999 };

static long seize(void) { return ptrace(PTRACE_SEIZE, 1, 0, 0); }

static long read_memory(void) {
    char buf[64];
    struct iovec local = {buf, sizeof buf}, remote = {(void *)0x400000, sizeof buf};
    return sys6(SYS_process_vm_readv, 1, &local, 1, &remote, 1, 0);
}

static long open_memory(void) { return open("/proc/1/mem", O_RDWR); }
static long open_stdin(void) { return open("/proc/1/fd/0", O_RDWR); }
static long open_stream(void) { return open("/proc/1/fd/3", O_RDWR); }
static long read_environment(void) { return open("/proc/1/environ", O_RDONLY); }
static long enter_root(void) { return chdir("/proc/1/root"); }
static long oom_score(void) { return write_file("/proc/1/oom_score_adj", "1000"); }

static long take_stream(void) {
    long pidfd = sys2(SYS_pidfd_open, 1, 0);
    return pidfd < 0 ? -1 : sys3(SYS_pidfd_getfd_, pidfd, 3, 0);
}

// Enough for what it has open: it shall live on and be found out by the verdict.
static long limit(void) {
    struct rlimit few = {256, 256};
    return prlimit(1, RLIMIT_NOFILE, &few, NULL);
}

static long nice_process(void) { return setpriority(PRIO_PROCESS, 1, 1); }
static long nice_user(void) { return setpriority(PRIO_USER, GUEST_UID, 1); }

static long affinity(void) {
    cpu_set_t mask;
    sched_getaffinity(0, sizeof mask, &mask);
    return sched_setaffinity(1, sizeof mask, &mask);
}

static long scheduler(void) {
    struct sched_param none = {0};
    return sched_setscheduler(1, SCHED_BATCH, &none);
}

static const struct {
    const char *what;
    long (*act)(void);
} acts[] = {{"ptrace", seize},
            {"process_vm_readv", read_memory},
            {"/proc/1/mem", open_memory},
            {"/proc/1/fd/0", open_stdin},
            {"/proc/1/fd/3", open_stream},
            {"/proc/1/environ", read_environment},
            {"/proc/1/root", enter_root},
            {"/proc/1/oom_score_adj", oom_score},
            {"pidfd_getfd", take_stream},
            {"prlimit", limit},
            {"setpriority", nice_process},
            {"setpriority of its user", nice_user},
            {"sched_setaffinity", affinity},
            {"sched_setscheduler", scheduler}};

static bool as_guest;

static long as_who(void *p) {
    if (as_guest) {
        if (sys3(SYS_setresgid, GUEST_UID, GUEST_UID, GUEST_UID) < 0 ||
            sys3(SYS_setresuid, GUEST_UID, GUEST_UID, GUEST_UID) < 0)
            _exit(7);
    }
    return p ? acts[*(unsigned *)p].act() : 0;
}

int main(int argc, char **argv) {
    bool own_kernel = is(word(argc, argv, 1, ""), "own-kernel");
    as_guest = true;
    struct act a = in_child(as_who, NULL, 1000);
    if (!a.exited || a.code != 0) return unstaged("cannot become the guest's user");

    for (int guest = 0; guest < 2; guest++) {
        as_guest = guest;
        for (unsigned i = 0; i < sizeof acts / sizeof *acts; i++) {
            if (own_kernel && acts[i].act == oom_score) continue;
            a = in_child(as_who, &i, 1000);
            const char *who = guest ? "its user" : "root";
            if (!a.exited)
                breached("%s as %s ended by signal %d", acts[i].what, who, a.sig);
            else if (a.ret >= 0)
                breached("%s as %s succeeded", acts[i].what, who);
            else
                held("%s as %s %s", acts[i].what, who, ename(a.err));
        }
    }
    // Linux takes signals to the first process from whoever may send them, and drops those that
    // it does not handle: that it lives on is what counts.
    int taken = 0;
    for (int number = 1; number < 65; number++) taken += kill(1, number) == 0;
    long pidfd = sys2(SYS_pidfd_open, 1, 0);
    if (pidfd >= 0) taken += sys4(SYS_pidfd_send_signal, pidfd, SIGKILL, 0, 0) == 0;
    int everybody = kill(-1, SIGKILL);
    NOTE("%d signals were taken; to all: %s", taken, ename(everybody < 0 ? errno : 0));
    sleep_ms(200);
    if (kill(1, 0) == 0 || errno == EPERM)
        held("pid 1 outlives %d signals", taken);
    else
        breached("pid 1 is gone (%s)", ename(errno));
    return verdict();
}
