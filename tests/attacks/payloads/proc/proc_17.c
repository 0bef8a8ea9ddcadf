// args: plant [seconds=5] | check
// PROC-17: a sub-reaper that adopts and never waits, children without a death signal,
// stopped ones, and one held by a tracer. None may survive the call.
#include "proc/outlive.h"
#include <sys/ptrace.h>

#define BEAT "/tmp/proc17.beat"
#define PIDS "/tmp/proc17.pids"
#define PLANTED 5

static void note_pid(void) {
    int fd = open(PIDS, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    pid_t me = getpid();
    write(fd, &me, sizeof me);
    close(fd);
}

static int check(void) {
    pid_t pids[64];
    int fd = open(PIDS, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, pids, sizeof pids) / (ssize_t)sizeof *pids;
    if (n < PLANTED || beat_rate(BEAT, 1) < 0) return unstaged("nothing was planted");
    for (ssize_t i = 0; i < n; i++)
        if (kill(pids[i], 0) == 0) {
            breached("pid %d is alive after its call", pids[i]);
            kill(pids[i], SIGKILL);
        }
    if (beat_rate(BEAT, 300) > 0) breached("the deaf sub-reaper still beats");
    held("all %zd planted processes are gone", n);
    return verdict();
}

int main(int argc, char **argv) {
    if (is(word(argc, argv, 1, "plant"), "check")) return check();
    long seconds = number(argc, argv, 2, 5, 15);
    volatile uint64_t *beat = beat_map(BEAT);
    if (!beat) return unstaged("no counter file (%s)", ename(errno));
    *beat = 0;
    unlink(PIDS);
    prctl(PR_SET_NAME, "bj-proc17");
    pid_t reaper = fork();
    if (reaper == 0) {
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        for (int i = 0; i < 4; i++) {
            if (fork() != 0) continue;
            note_pid();
            prctl(PR_SET_PDEATHSIG, 0);
            if (i == 1) raise(SIGSTOP);
            if (i == 2 && ptrace(PTRACE_TRACEME, 0, 0, 0) == 0) raise(SIGTRAP);
            if (i == 3) prctl(PR_SET_PDEATHSIG, SIGCONT);
            sleep_ms(seconds * 1000);
            _exit(0);
        }
        note_pid();
        go_dark("bj-proc17");
        beat_until(beat, now_ms() + (uint64_t)seconds * 1000);
        // Stopped children must not stay for good where nothing else kills them.
        char text[64 * sizeof(pid_t)];
        int fd = open(PIDS, O_RDONLY | O_CLOEXEC);
        ssize_t n = read(fd, text, sizeof text) / (ssize_t)sizeof(pid_t);
        for (ssize_t i = 0; i < n; i++)
            if (((pid_t *)text)[i] != getpid()) kill(((pid_t *)text)[i], SIGKILL);
        _exit(0);
    }
    struct stat st = {0};
    for (int i = 0; i < 100 && (*beat == 0 || st.st_size < PLANTED * sizeof(pid_t)); i++) {
        sleep_ms(10);
        stat(PIDS, &st);
    }
    if (*beat == 0) return unstaged("the sub-reaper did not start");
    HELD("planted; the check decides");
    return 0;
}
