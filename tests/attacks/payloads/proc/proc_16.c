// args: [seconds=3]
// PROC-16: the main process ends, a child keeps its output pipes open and speaks late.
// The late line must never arrive.
#include "proc/outlive.h"

int main(int argc, char **argv) {
    long seconds = number(argc, argv, 1, 3, 60);
    pid_t pid = fork();
    if (pid < 0) return unstaged("fork %s", ename(errno));
    if (pid == 0) {
        prctl(PR_SET_NAME, "bj-proc16");
        setsid();
        deafen();
        sleep_ms(seconds * 1000);
        BREACH("the output was still read %ld s after the main process ended", seconds);
        dup2(2, 1);
        BREACH("so was the error output");
        _exit(0);
    }
    HELD("main process ends at %lu ms; a later line is a breach", (unsigned long)now_ms());
    return 0;
}
