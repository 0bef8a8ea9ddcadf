// args: [seconds=10]
// PROC-19: leaves a busy daemon, a sleeping one, a stopped one below a subreaper, a process that is
// another one every millisecond, and a busy one whose first thread has ended, so that its state is a
// zombie's. Each is in a session of its own, without a parent that lives. The
// host decides: it looks for their name when the sandbox, or its guest alone, has ended.
#include "proc/outlive.h"

#define NAME "bj-proc19"

static uint64_t end;

static void be_busy(void) {
    while (now_ms() < end) {
    }
}

static void sleep_on(void) {
    while (now_ms() < end) sleep_ms(20);
}

static void keep_a_stopped_one(void) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    pid_t pid = fork();
    if (pid == 0) {
        raise(SIGSTOP);
        _exit(0);
    }
    sleep_on();
    kill(pid, SIGKILL);
}

static void be_another(void) {
    while (now_ms() < end) {
        pid_t pid = fork();
        if (pid > 0) _exit(0);
        if (pid == 0) setsid();
        sleep_ms(1);
    }
}

static void *spin(void *unused) {
    be_busy();
    _exit(0);
    return unused;
}

static void lose_the_first_thread(void) {
    pthread_t thread;
    // Not pthread_exit, which needs a library that may not be there.
    if (pthread_create(&thread, NULL, spin, NULL) == 0) syscall(SYS_exit, 0);
}

int main(int argc, char **argv) {
    end = now_ms() + (uint64_t)number(argc, argv, 1, 10, 60) * 1000;
    void (*const ways[])(void) = {be_busy, sleep_on, keep_a_stopped_one, be_another,
                                  lose_the_first_thread};
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++) {
        pid_t pid = fork();
        if (pid < 0) return unstaged("fork %s", ename(errno));
        if (pid == 0) {
            setsid();
            if (fork() != 0) _exit(0);
            go_dark(NAME);
            ways[i]();
            _exit(0);
        }
        waitpid(pid, NULL, 0);
    }
    HELD("left behind; the host's process table decides");
    return 0;
}
