// args: none
// KRN-02: new namespaces through clone3, whose struct no filter can read, and clone.
#include "attack.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif
#define NR_CLONE3 435

struct args3 {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
    uint64_t set_tid, set_tid_size, cgroup;
};

static const struct {
    const char *name;
    uint64_t flag;
} flags[] = {{"NEWUSER", CLONE_NEWUSER},     {"NEWNS", CLONE_NEWNS},   {"NEWNET", CLONE_NEWNET},
             {"NEWPID", CLONE_NEWPID},       {"NEWIPC", CLONE_NEWIPC}, {"NEWUTS", CLONE_NEWUTS},
             {"NEWCGROUP", CLONE_NEWCGROUP}, {"NEWTIME", CLONE_NEWTIME}};

static void reap(long pid) {
    int e = errno;
    if (pid > 0) waitpid((pid_t)pid, NULL, __WALL);
    errno = e;
}

static long by_clone3(void *p) {
    struct args3 a;
    memset(&a, 0, sizeof a);
    a.flags = *(uint64_t *)p;
    a.exit_signal = SIGCHLD;
    long r = sys2(NR_CLONE3, &a, sizeof a);
    if (r == 0) _exit(0);
    reap(r);
    return r;
}

static long by_clone(void *p) {
    long r = sys5(SYS_clone, *(uint64_t *)p | SIGCHLD, 0, 0, 0, 0);
    if (r == 0) _exit(0);
    reap(r);
    return r;
}

static void *thread(void *p) {
    *(volatile int *)p = 7;
    return NULL;
}

int main(void) {
    char what[64];
    uint64_t none = 0;
    // Only ENOSYS makes libc fall back to clone, so no other answer will do.
    denied_act("clone3(plain)", in_child(by_clone3, &none, 1000), ENOSYS, 0);
    for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++) {
        uint64_t f = flags[i].flag;
        snprintf(what, sizeof what, "clone3(%s)", flags[i].name);
        denied_act(what, in_child(by_clone3, &f, 1000), ENOSYS, 0);
        // In clone the NEWTIME bit is part of the exit signal and means nothing.
        if (f == CLONE_NEWTIME) continue;
        snprintf(what, sizeof what, "clone(%s)", flags[i].name);
        denied_act(what, in_child(by_clone, &f, 1000), EPERM, 0);
    }
    // A lock that also stops plain threads and forks would be switched off by users.
    int seen = 0;
    pthread_t t;
    int e = pthread_create(&t, NULL, thread, &seen);
    if (e == 0) pthread_join(t, NULL);
    if (e == 0 && seen == 7)
        held("plain thread works");
    else
        breached("usability: plain thread refused (%s)", ename(e));
    struct act a = in_child(by_clone, &none, 1000);
    if (a.exited && a.ret > 0)
        held("plain clone works");
    else
        breached("usability: plain clone refused (%s)", ename(a.err));
    return verdict();
}
