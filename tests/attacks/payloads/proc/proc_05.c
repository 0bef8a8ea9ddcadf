// args: attack | wait [seconds=5]
// PROC-05: every way to bring down or steer the sandbox's pid 1 from inside. With
// `wait` it only waits, while the host itself kills pid 1 under the call.
#include "res/bound.h"
#include <sys/ptrace.h>

#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#define SYS_pidfd_open 434
#endif

int main(int argc, char **argv) {
    if (is(word(argc, argv, 1, "attack"), "wait")) {
        long seconds = number(argc, argv, 2, 5, 8);
        NOTE("waiting");
        sleep_ms(seconds * 1000);
        BREACH("the call outlived pid 1, or nobody killed it");
        return 0;
    }

    // The kernel drops signals to a namespace's init only where init has no handler,
    // so an answer of 0 is a hole even if nothing seems to happen.
    int through = 0, first = 0;
    for (int s = 1; s < 65; s++)
        if (kill(1, s) == 0) {
            if (through++ == 0) first = s;
        }
    if (through)
        breached("%d signals accepted for pid 1, first %d", through, first);
    else
        held("64 signals to pid 1 refused");

    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_signo = SIGTERM;
    info.si_code = SI_QUEUE;
    refused("rt_sigqueueinfo(1)", sys3(SYS_rt_sigqueueinfo, 1, SIGTERM, &info));
    long pidfd = sys2(SYS_pidfd_open, 1, 0);
    if (pidfd >= 0)
        refused("pidfd_send_signal(1)", sys4(SYS_pidfd_send_signal, pidfd, SIGKILL, 0, 0));
    else
        held("pidfd_open(1) %s", ename(errno));
    refused("ptrace seize of 1", ptrace(PTRACE_SEIZE, 1, 0, 0));
    refused("open /proc/1/mem", open("/proc/1/mem", O_RDWR));
    refused("open /proc/1/fd/0", open("/proc/1/fd/0", O_RDWR));
    refused("oom_score_adj of 1", write_file("/proc/1/oom_score_adj", "1000"));
    // Making oneself immune would leave pid 1 as the next victim.
    refused("own oom_score_adj -1000", write_file("/proc/self/oom_score_adj", "-1000"));
    struct rlimit none = {0, 0};
    refused("prlimit of 1", prlimit(1, RLIMIT_NOFILE, &none, NULL));
    refused("setpriority of 1", setpriority(PRIO_PROCESS, 1, 19));
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    refused("sched_setaffinity of 1", sched_setaffinity(1, sizeof one, &one));
    return verdict();
}
