// args: write | fallocate | deleted | many, then [MiB=256] [dir=/tmp]
// RES-09: fills the writable layer: by writing, by reserving, through a file without a
// name, and by many small files.
#include "res/bound.h"

int main(int argc, char **argv) {
    const char *mode = word(argc, argv, 1, "write");
    long mib = number(argc, argv, 2, 256, 256), got = 0;
    const char *dir = word(argc, argv, 3, "/tmp");
    static char block[1024 * 1024];
    memset(block, 0x5a, sizeof block);
    signal(SIGXFSZ, SIG_IGN);
    if (mkdir(dir, 0700) < 0 && errno != EEXIST) return unstaged("%s %s", dir, ename(errno));
    if (chdir(dir) < 0) return unstaged("%s %s", dir, ename(errno));
    int why = 0;
    if (is(mode, "many")) {
        for (long i = 0; i < mib * 16 && !why; i++) {
            char name[32];
            snprintf(name, sizeof name, "res09.%ld", i);
            int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
            if (fd < 0 || write(fd, block, 65536) != 65536) why = errno;
            else got = i / 16 + 1;
            if (fd >= 0) close(fd);
        }
    } else {
        int fd = open("res09", O_RDWR | O_CREAT | O_TRUNC, 0600);
        if (fd < 0) return unstaged("open %s", ename(errno));
        if (is(mode, "deleted")) unlink("res09");
        for (; got < mib; got++) {
            long r = is(mode, "fallocate") ? fallocate(fd, 0, got * MIB, MIB)
                                           : (write(fd, block, MIB) == MIB ? 0 : -1);
            if (r < 0) {
                why = errno;
                break;
            }
        }
    }
    if (got >= mib)
        BREACH("%s took %ld MiB unhindered", mode, got);
    else
        HELD("%s %s after %ld MiB", mode, ename(why), got);
    return 0;
}
