// args: [processes=8] [seconds=3]
// RES-13: takes every descriptor there is, in several processes, and keeps them while
// the host asks the agent to work.
#include "res/bound.h"

int main(int argc, char **argv) {
    long processes = number(argc, argv, 1, 8, 20), seconds = number(argc, argv, 2, 3, 5);
    int gate[2];
    if (pipe(gate) < 0) return unstaged("pipe %s", ename(errno));
    for (long i = 0; i < processes; i++)
        if (fork() == 0) {
            long note[2] = {0, 0};
            // Trying to raise the limit first is part of the act.
            struct rlimit want = {4000, 4000};
            setrlimit(RLIMIT_NOFILE, &want);
            getrlimit(RLIMIT_NOFILE, &want);
            want.rlim_cur = want.rlim_max;
            setrlimit(RLIMIT_NOFILE, &want);
            while (note[0] < 3900 && open("/dev/null", O_RDONLY) >= 0) note[0]++;
            note[1] = note[0] < 3900 ? errno : 0;
            write(gate[1], note, sizeof note);
            sleep_ms(seconds * 1000);
            _exit(0);
        }
    close(gate[1]);
    long note[2], all = 0;
    while (read(gate[0], note, sizeof note) == sizeof note) {
        all += note[0];
        if (note[1] == 0) breached("one process opened %ld files", note[0]);
        if (--processes == 0) break;
    }
    NOTE("holding %ld descriptors, last stop %s", all, ename((int)note[1]));
    held("descriptors end at %ld (%s)", all, ename((int)note[1]));
    while (wait(NULL) > 0) {
    }
    return verdict();
}
