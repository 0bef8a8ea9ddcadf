// args: fly [comets=16] [seconds=4] | leave [comets=16] [seconds=4] | check
// PROC-03: processes that fork and exit at once. By the time a killer has read a
// pid, that pid is gone and its child runs: only one atomic kill catches them. `leave` ends the
// call under them, `fly` waits to be killed.
#include "proc/outlive.h"

#define BEAT "/tmp/proc03.beat"

static void comet(volatile uint64_t *beat, uint64_t end) {
    prctl(PR_SET_NAME, "bj-proc03");
    setsid();
    while (now_ms() < end) {
        __atomic_add_fetch(beat, 1, __ATOMIC_RELAXED);
        pid_t pid = fork();
        if (pid > 0) _exit(0);
        if (pid < 0) sleep_ms(1);
    }
    _exit(0);
}

int main(int argc, char **argv) {
    if (is(word(argc, argv, 1, "fly"), "check")) return check_beat(BEAT, "a comet");
    long comets = number(argc, argv, 2, 16, 64);
    uint64_t end = now_ms() + (uint64_t)number(argc, argv, 3, 4, 5) * 1000;
    volatile uint64_t *beat = beat_map(BEAT);
    if (!beat) return unstaged("no counter file (%s)", ename(errno));
    *beat = 0;
    deafen();
    for (long i = 0; i < comets; i++)
        if (fork() == 0) comet(beat, end);
    NOTE("%ld comets fly", comets);
    if (is(word(argc, argv, 1, "fly"), "leave")) {
        for (int i = 0; i < 100 && *beat == 0; i++) sleep_ms(10);
        if (*beat == 0) return unstaged("no comet flew");
        HELD("left them flying; the check decides");
        return 0;
    }
    while (now_ms() < end) sleep_ms(50);
    BREACH("comets flew to their end, %lu generations", (unsigned long)*beat);
    return 0;
}
