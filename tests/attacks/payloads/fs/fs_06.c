// args: grow <path> [seconds=4] | shrink <path> [seconds=4] | vanish <path> [seconds=4]
// FS-06: a file that changes under the reader: grows, shrinks to nothing, or is
// replaced. A reader that maps it or trusts its first size gets hurt.
#include "res/bound.h"

int main(int argc, char **argv) {
    const char *mode = word(argc, argv, 1, "grow");
    const char *path = word(argc, argv, 2, "/tmp/fs06.file");
    uint64_t end = now_ms() + (uint64_t)number(argc, argv, 3, 4, 5) * 1000;
    static char block[65536];
    memset(block, 'g', sizeof block);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0) return unstaged("open %s", ename(errno));
    NOTE("changing %s", path);
    long turns = 0, size = 0;
    for (; now_ms() < end; turns++) {
        if (is(mode, "grow")) {
            // The size stays below 16 MiB, yet from the reader's view it never ends.
            if (size >= 16 * MIB) size = 0, ftruncate(fd, 0), lseek(fd, 0, SEEK_SET);
            ssize_t w = write(fd, block, sizeof block);
            if (w < 0) return unstaged("write %s", ename(errno));
            size += w;
        } else if (is(mode, "shrink")) {
            ftruncate(fd, 0);
            for (int i = 0; i < 32; i++) pwrite(fd, block, sizeof block, i * 65536L);
        } else {
            unlink(path);
            close(fd);
            fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0644);
            write(fd, block, sizeof block);
        }
    }
    HELD("%s for %ld turns; the downloads decide", mode, turns);
    return 0;
}
