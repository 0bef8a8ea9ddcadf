// args: plant [seconds=5] | check
// PROC-01: a daemon that double forks, leaves the session and closes everything.
#include "proc/outlive.h"

#define BEAT "/tmp/proc01.beat"

int main(int argc, char **argv) {
    if (is(word(argc, argv, 1, "plant"), "check")) return check_beat(BEAT, "the daemon");
    long seconds = number(argc, argv, 2, 5, 30);
    volatile uint64_t *beat = beat_map(BEAT);
    if (!beat) return unstaged("no counter file (%s)", ename(errno));
    *beat = 0;
    pid_t first = fork();
    if (first < 0) return unstaged("fork %s", ename(errno));
    if (first == 0) {
        setsid();
        if (fork() != 0) _exit(0);
        go_dark("bj-proc01");
        beat_until(beat, now_ms() + (uint64_t)seconds * 1000);
        _exit(0);
    }
    waitpid(first, NULL, 0);
    // The call may only end once the daemon runs, or the check would prove nothing.
    for (int i = 0; i < 100 && *beat == 0; i++) sleep_ms(10);
    if (*beat == 0) return unstaged("the daemon did not start");
    HELD("planted; the next call and the host's process table decide");
    return 0;
}
