// args: lines [MiB=100] | line [MiB=64] | bytes [count=1000000] | errors [MiB=100]
// OUT-01: more output than anybody wants: many lines, one endless line, single bytes,
// and the same on standard error.
#include "res/bound.h"

int main(int argc, char **argv) {
    const char *mode = word(argc, argv, 1, "lines");
    static char block[65536];
    uint64_t end = now_ms() + 4500;
    long done = 0, most;
    memset(block, 'x', sizeof block);
    int fd = is(mode, "errors") ? 2 : 1;
    if (is(mode, "bytes")) {
        most = number(argc, argv, 2, 1000000, 2000000);
        while (done < most && now_ms() < end && write(1, "x", 1) == 1) done++;
    } else {
        most = number(argc, argv, 2, is(mode, "line") ? 64 : 100, 100) * MIB;
        if (!is(mode, "line"))
            for (size_t i = 79; i < sizeof block; i += 80) block[i] = '\n';
        while (done < most && now_ms() < end) {
            ssize_t w = write(fd, block, sizeof block);
            if (w <= 0) break;
            done += w;
        }
    }
    int why = errno;
    // On its own line, after a flood that may have had none.
    at_put("\n", 1);
    if (done >= most)
        BREACH("%ld bytes of output went through", done);
    else
        HELD("output ended at %ld bytes (%s)", done, ename(why));
    return 0;
}
