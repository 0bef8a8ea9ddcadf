// args: exit <code> | signal <number> | timer <number>
// PROC-12: ends with a status that looks like a limit. Only the host can judge: the
// reason must be `exit` (or `done` for code 0), never oom, timeout, seccomp or killed.
#include "res/bound.h"

int main(int argc, char **argv) {
    const char *mode = word(argc, argv, 1, "exit");
    int n = (int)number(argc, argv, 2, 137, 255);
    HELD("ends by %s %d of its own choice; the typed reason decides", mode, n);
    if (is(mode, "exit")) _exit(n);
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    signal(n, SIG_DFL);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    if (is(mode, "timer")) {
        // The number hides in a structure here, where no filter on arguments sees it.
        timer_t t;
        struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = n};
        struct itimerspec soon = {.it_value = {0, 1000000}};
        if (timer_create(CLOCK_MONOTONIC, &e, &t) == 0 && timer_settime(t, 0, &soon, NULL) == 0)
            sleep_ms(500);
    } else {
        kill(getpid(), n);
    }
    // A refused signal must not look like a clean end.
    NOTE("signal %d did not end the process (%s)", n, ename(errno));
    return 3;
}
