// args: storm [zombies=10000] | selftest
// PROC-06: orphaned zombies, a hundred at a time. Unless pid 1 reaps them they fill
// the pid limit. `selftest` has the orphans come to a reaper that never waits, which
// shows that the final check can fail.
#include "res/bound.h"

static int alive_at_once(int want) {
    int gate[2], made = 0;
    if (pipe(gate) < 0) return 0;
    for (; made < want; made++) {
        pid_t pid = fork();
        if (pid < 0) break;
        if (pid == 0) {
            char c;
            close(gate[1]);
            read(gate[0], &c, 1);
            _exit(0);
        }
    }
    close(gate[1]);
    close(gate[0]);
    return made;
}

int main(int argc, char **argv) {
    bool selftest = is(word(argc, argv, 1, "storm"), "selftest");
    long total = selftest ? 600 : number(argc, argv, 2, 10000, 10000);
    if (selftest) prctl(PR_SET_CHILD_SUBREAPER, 1);
    long made = 0, failed = 0;
    while (made < total && failed < 50) {
        pid_t nest = fork();
        if (nest == 0) {
            for (int i = 0; i < 100; i++) {
                pid_t child = fork();
                if (child == 0) _exit(0);
                if (child < 0) _exit(1);
            }
            _exit(0);
        }
        if (nest < 0) {
            failed++;
            sleep_ms(10);
            continue;
        }
        int st = 0;
        waitpid(nest, &st, 0);
        if (WEXITSTATUS(st)) {
            failed++;
            sleep_ms(10);
        } else {
            made += 100;
        }
    }
    // Reaping may lag behind the storm, but not for long.
    int at_once = 0;
    for (int tries = 0; tries < 20 && at_once < 64; tries++) {
        sleep_ms(100);
        at_once = alive_at_once(64);
        if (!selftest)
            while (waitpid(-1, NULL, 0) > 0) {
            }
    }
    if (at_once >= 64 && made >= total)
        HELD("%ld zombies were reaped: 64 processes can still start", made);
    else
        BREACH("zombies stay: %ld made, %ld failures, only %d processes can start", made, failed,
               at_once);
    return 0;
}
