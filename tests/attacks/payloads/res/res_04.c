// args: shm | tmp | memfd | sysv | all, then [MiB each=256, or 96 for all]
// RES-04: memory that belongs to no process: tmpfs files, memfd, SysV segments.
#include "res/bound.h"
#include <sys/ipc.h>
#include <sys/shm.h>

static long fill(int fd, long mib) {
    static char block[1024 * 1024];
    memset(block, 0x5a, sizeof block);
    for (long i = 0; i < mib; i++)
        for (size_t at = 0; at < sizeof block;) {
            ssize_t w = write(fd, block + at, sizeof block - at);
            if (w <= 0) return i;
            at += (size_t)w;
        }
    return mib;
}

static long by_file(const char *path, long mib) {
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return -1;
    // Unlinked at once, so that nothing stays but the memory.
    unlink(path);
    return fill(fd, mib);
}

static long by_memfd(long mib) {
    int fd = memfd_create("res04", MFD_CLOEXEC);
    return fd < 0 ? -1 : fill(fd, mib);
}

static long by_sysv(long mib) {
    long done = 0;
    while (done < mib) {
        int id = shmget(IPC_PRIVATE, 8 * MIB, IPC_CREAT | 0600);
        if (id < 0) return done ? done : -1;
        char *p = shmat(id, NULL, 0);
        // Marked for removal: the segment must not outlive its user in a control run.
        shmctl(id, IPC_RMID, NULL);
        if (p == (void *)-1) return done;
        memset(p, 0x5a, 8 * MIB);
        done += 8;
    }
    return done;
}

static void judge(const char *what, long got, long mib) {
    int e = errno;
    if (got >= mib)
        breached("%s took %ld MiB", what, got);
    else
        held("%s %s after %ld MiB", what, ename(e), got < 0 ? 0 : got);
}

int main(int argc, char **argv) {
    const char *mode = word(argc, argv, 1, "all");
    bool all = is(mode, "all");
    long mib = number(argc, argv, 2, all ? 96 : 256, all ? 96 : 256);
    signal(SIGXFSZ, SIG_IGN);
    if (all || is(mode, "shm")) judge("/dev/shm", by_file("/dev/shm/res04", mib), mib);
    if (all || is(mode, "tmp")) judge("/tmp", by_file("/tmp/res04", mib), mib);
    if (all || is(mode, "memfd")) judge("memfd", by_memfd(mib), mib);
    if (all || is(mode, "sysv")) judge("SysV shm", by_sysv(mib), mib);
    return verdict();
}
