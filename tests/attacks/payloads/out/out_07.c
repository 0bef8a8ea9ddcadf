// args: [MiB=64] [report=/tmp/out07.count]
// OUT-07: writes while nobody reads, and counts what was taken. The count goes to a
// file, since the output is what is stuck.
#include "res/bound.h"

int main(int argc, char **argv) {
    long most = number(argc, argv, 1, 64, 100) * MIB, done = 0, stuck = 0;
    const char *path = word(argc, argv, 2, "/tmp/out07.count");
    static char block[65536];
    uint64_t end = now_ms() + 4000;
    memset(block, 'x', sizeof block);
    fcntl(1, F_SETFL, O_NONBLOCK);
    int report = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (report < 0) return unstaged("%s %s", path, ename(errno));
    uint64_t next = 0;
    while (done < most && now_ms() < end) {
        ssize_t w = write(1, block, sizeof block);
        if (w > 0) {
            done += w;
        } else if (errno == EAGAIN) {
            stuck++;
            sleep_ms(5);
        } else {
            break;
        }
        // Written as it goes: the call may be ended at any time.
        if (now_ms() >= next) {
            next = now_ms() + 50;
            ftruncate(report, 0);
            lseek(report, 0, SEEK_SET);
            dprintf(report, "BYTES=%ld STUCK=%ld\n", done, stuck);
        }
    }
    ftruncate(report, 0);
    lseek(report, 0, SEEK_SET);
    dprintf(report, "BYTES=%ld STUCK=%ld\n", done, stuck);
    dup2(2, 1);
    fcntl(1, F_SETFL, O_NONBLOCK);
    if (done >= most)
        BREACH("%ld bytes were taken though nobody read", done);
    else
        HELD("output stood still at %ld bytes, %ld times stuck", done, stuck);
    return 0;
}
