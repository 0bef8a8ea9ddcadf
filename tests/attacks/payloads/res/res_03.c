// args: one [MiB=512] | child [MiB=512] | hold <MiB> [seconds=3]
// RES-03: touches memory until something stops it. `child` lets a child do it, to see
// what becomes of the rest of the call. `hold` stays below its limit and keeps the
// memory, which is RES-18 when many sandboxes do so together.
#include "res/bound.h"

static long grab(long mib) {
    for (long i = 0; i < mib; i++) {
        char *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) return i;
        // Distinct bytes: nothing may merge the pages or find them zero.
        for (long at = 0; at < MIB; at += 64) *(long *)(p + at) = i * MIB + at + 1;
    }
    return mib;
}

static long grab_act(void *mib) { return grab(*(long *)mib); }

int main(int argc, char **argv) {
    const char *mode = word(argc, argv, 1, "one");
    long mib = number(argc, argv, 2, 512, 512);
    if (is(mode, "child")) {
        struct act a = in_child(grab_act, &mib, 4500);
        if (a.exited && a.ret >= mib)
            BREACH("a child touched %ld MiB unhindered", mib);
        else if (a.signalled && !a.timed_out) {
            // Outliving the child is for the host to judge: the call must end as oom.
            sleep_ms(1000);
            HELD("the child died of signal %d; the main process outlived it by 1 s", a.sig);
        } else
            HELD("the child got %ld of %ld MiB (%s)", a.ret, mib, ename(a.err));
        return 0;
    }
    if (is(mode, "hold")) {
        refused("own oom_score_adj -1000", write_file("/proc/self/oom_score_adj", "-1000"));
        long got = grab(mib);
        NOTE("holding %ld MiB", got);
        sleep_ms(number(argc, argv, 3, 3, 5) * 1000);
        if (got < mib) return unstaged("only %ld of %ld MiB", got, mib);
        held("kept %ld MiB to the end", got);
        return verdict();
    }
    long got = grab(mib);
    if (got >= mib)
        BREACH("touched %ld MiB unhindered", mib);
    else
        HELD("stopped after %ld of %ld MiB (%s)", got, mib, ename(errno));
    return 0;
}
