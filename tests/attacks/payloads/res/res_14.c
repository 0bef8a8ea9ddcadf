// args: [seconds=3] [dir=/tmp]
// RES-14: an I/O storm: small synchronous writes at random places, past the cache where
// possible, and a cache that is thrown away all the time. The neighbour judges.
#include "res/bound.h"

int main(int argc, char **argv) {
    uint64_t end = now_ms() + (uint64_t)number(argc, argv, 1, 3, 5) * 1000;
    const char *dir = word(argc, argv, 2, "/tmp");
    long writes = 0, syncs = 0, direct = 0;
    const long size = 16 * MIB;
    char *block;
    if (chdir(dir) < 0 || posix_memalign((void **)&block, 4096, 4096)) return unstaged("%s", dir);
    memset(block, 0x5a, 4096);
    int fd = open("res14", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || ftruncate(fd, size) < 0) return unstaged("file %s", ename(errno));
    int past = open("res14", O_RDWR | O_DIRECT);
    unsigned seed = 1;
    int why = 0;
    while (now_ms() < end && !why) {
        long at = rand_r(&seed) % (size / 4096) * 4096;
        if (past >= 0 && pwrite(past, block, 4096, at) == 4096) direct++;
        if (pwrite(fd, block, 4096, at) != 4096) why = errno;
        writes++;
        if (fsync(fd) == 0) syncs++;
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    }
    unlink("res14");
    HELD("%ld writes, %ld direct, %ld syncs (%s); the neighbour decides", writes, direct, syncs,
         ename(why));
    return 0;
}
