// args: [seconds=4]
// PROC-15: the thing that must not run after delete has returned: a named process
// tree with a beat, started over and over by a host that deletes at the same time.
#include "proc/outlive.h"

int main(int argc, char **argv) {
    uint64_t end = now_ms() + (uint64_t)number(argc, argv, 1, 4, 60) * 1000;
    prctl(PR_SET_NAME, "bj-proc15");
    if (fork() == 0) {
        go_dark("bj-proc15");
        while (now_ms() < end) sleep_ms(20);
        _exit(0);
    }
    while (now_ms() < end) {
        NOTE("BEAT %lu", (unsigned long)now_ms());
        sleep_ms(10);
    }
    HELD("ran to its end; the host decides whether it was deleted before");
    return 0;
}
