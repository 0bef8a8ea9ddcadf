// args: once [most=600] | stubborn [most=600] | brim <count> [seconds=3]
// RES-01: a fork bomb: every process forks. `stubborn` keeps trying at the limit;
// `brim` stays just below it, which is RES-19 when many sandboxes do so together.
#include "res/bound.h"

struct tally {
    volatile long alive;
    volatile int stopped_by;
};

int main(int argc, char **argv) {
    const char *mode = word(argc, argv, 1, "once");
    long most = number(argc, argv, 2, 600, 600);
    long seconds = number(argc, argv, 3, 3, 5);
    uint64_t end = now_ms() + 4000;
    struct tally *tally = shared(sizeof *tally);
    int gate[2];
    if (!tally || pipe(gate) < 0) return unstaged("no memory or pipe");
    pid_t origin = getpid();
    while (tally->alive < most && now_ms() < end) {
        // The place is taken before the fork, so that the ceiling holds for sure.
        if (__atomic_add_fetch(&tally->alive, 1, __ATOMIC_SEQ_CST) > most) {
            __atomic_sub_fetch(&tally->alive, 1, __ATOMIC_SEQ_CST);
            break;
        }
        pid_t pid = fork();
        if (pid < 0) {
            tally->stopped_by = errno;
            __atomic_sub_fetch(&tally->alive, 1, __ATOMIC_SEQ_CST);
            if (!is(mode, "stubborn")) break;
            sched_yield();
        }
        if (pid == 0) {
            // The pipe has one writer, the origin: its death frees everybody.
            close(gate[1]);
            alarm(8);
            prctl(PR_SET_NAME, "bj-res01");
        }
    }
    if (getpid() != origin) {
        char c;
        read(gate[0], &c, 1);
        _exit(0);
    }
    sleep_ms(300);
    if (is(mode, "brim")) {
        NOTE("holding %ld processes", tally->alive);
        sleep_ms(seconds * 1000);
        if (tally->alive < most) return unstaged("fork %s", ename(tally->stopped_by));
        HELD("kept %ld processes to the end", tally->alive);
        return 0;
    }
    if (tally->alive >= most)
        BREACH("%ld processes started unhindered", tally->alive);
    else
        HELD("fork %s after %ld processes", ename(tally->stopped_by), tally->alive);
    return 0;
}
