// args: burn <count> | short | hold <pid> [seconds=3]
// PROC-08: makes pid numbers come round again, so that a supervisor which kept a
// number instead of a pidfd signals a stranger. Every pid inside also costs one
// outside, so `burn` turns the host's numbers as well.
#include "res/bound.h"
#include <pthread.h>

static volatile pid_t last;
static volatile sig_atomic_t hit;

static void *touch(void *unused) {
    last = (pid_t)sys0(SYS_gettid);
    return unused;
}

// Threads take pids from the same numbers as processes and are far cheaper.
static bool turn(void) {
    pthread_t t;
    if (pthread_create(&t, NULL, touch, NULL) != 0) return false;
    pthread_join(t, NULL);
    return true;
}

static void on_signal(int s) { hit = s; }

int main(int argc, char **argv) {
    const char *mode = word(argc, argv, 1, "short");
    uint64_t end = now_ms() + 5000;
    if (is(mode, "short")) {
        NOTE("pid %d", getpid());
        HELD("gone at once; the stale kill decides");
        return 0;
    }
    if (is(mode, "burn")) {
        long want = number(argc, argv, 2, 400, 70000), done = 0;
        while (done < want && now_ms() < end && turn()) done++;
        HELD("%ld pids used up, last %d", done, last);
        return 0;
    }
    pid_t target = (pid_t)number(argc, argv, 2, 0, 4194304);
    long hold_ms = number(argc, argv, 3, 3, 4) * 1000;
    // After the first round the kernel hands out no number below 300.
    if (target < 300) return unstaged("pid %d comes only once; burn 400 first", target);
    while (now_ms() < end) {
        if (!turn()) return unstaged("no thread (%s)", ename(errno));
        if (last >= target || last < target - 64) continue;
        pid_t pid = fork();
        while (pid > 0 && pid < target) {
            waitpid(pid, NULL, 0);
            pid = fork();
            if (pid == 0 && getpid() < target) _exit(0);
        }
        if (pid == 0 && getpid() != target) _exit(0);
        if (pid == 0) {
            prctl(PR_SET_NAME, "bj-proc08");
            for (int s = 1; s < 32; s++) signal(s, on_signal);
            NOTE("pid %d is held by a stranger now", target);
            for (uint64_t stop = now_ms() + hold_ms; now_ms() < stop && !hit;) sleep_ms(20);
            _exit(hit);
        }
        int st = 0;
        waitpid(pid, &st, 0);
        if (pid != target) continue;
        if (WIFSIGNALED(st))
            BREACH("the stranger with pid %d died of signal %d", target, WTERMSIG(st));
        else if (WEXITSTATUS(st))
            BREACH("the stranger with pid %d got signal %d", target, WEXITSTATUS(st));
        else
            HELD("the stranger with pid %d got no signal in %ld ms", target, hold_ms);
        return 0;
    }
    return unstaged("pid %d did not come round in 5 s (last %d)", target, last);
}
