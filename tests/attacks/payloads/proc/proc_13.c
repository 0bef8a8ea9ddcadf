// args: <seconds> sleep | stop | spin | child | relay | detach
// PROC-13: six ways to dodge a time limit. Idle ways (sleep, stop) need the wall
// limit, busy ones the CPU limit of the whole call. All end by themselves after that.
#include "proc/outlive.h"

// Each runner stays under any limit per process and hands over to the next.
static void relay(uint64_t end) {
    while (now_ms() < end) {
        burn(now_ms() + 20);
        if (fork() > 0) _exit(0);
    }
    _exit(0);
}

int main(int argc, char **argv) {
    long span = number(argc, argv, 1, 4, 60) * 1000;
    const char *mode = word(argc, argv, 2, "sleep");
    uint64_t end = now_ms() + (uint64_t)span;
    signal(SIGXCPU, SIG_IGN);
    if (is(mode, "spin")) {
        burn(end);
    } else if (is(mode, "stop")) {
        pid_t me = getpid();
        if (fork() == 0) {
            setsid();
            sleep_ms(span);
            kill(me, SIGCONT);
            _exit(0);
        }
        raise(SIGSTOP);
    } else if (is(mode, "child") || is(mode, "relay") || is(mode, "detach")) {
        pid_t pid = fork();
        if (pid < 0) return unstaged("fork %s", ename(errno));
        if (pid == 0) {
            if (is(mode, "relay")) relay(end);
            if (is(mode, "detach")) {
                if (fork() > 0) _exit(0);
                go_dark("bj-proc13");
            }
            burn(end);
            _exit(0);
        }
    }
    while (now_ms() < end) sleep_ms(50);
    BREACH("%s went on for %ld ms", mode, span);
    return 0;
}
