// args: [shared lower file to time, default /bin/sh]
// KRN-28: ask the kernel which pages of a shared file a neighbour has touched.
#include "attack.h"

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 8
#endif

static uint64_t ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

int main(int argc, char **argv) {
    const char *path = argc > 1 && *argv[1] ? argv[1] : "/bin/sh";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        BREACH("cannot open %s: %s", path, ename(errno));
        return 0;
    }
    char page[4096];
    unsigned char vec[4];
    uint64_t t0 = ns();
    (void)!pread(fd, page, sizeof page, 0);
    uint64_t t1 = ns();
    (void)!pread(fd, page, sizeof page, 0);
    // Timing stays possible; the harness measures over many runs how good a guess it is.
    NOTE("first read %llu ns, second read %llu ns", (unsigned long long)(t1 - t0),
         (unsigned long long)(ns() - t1));

    void *m = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    denied_act("mincore", child_call(SYS_mincore, m, 4096, vec), EPERM, 0);
    uint64_t range[2] = {0, 4096}, stat[5];
    denied_act("cachestat", child_call(451, fd, range, stat, 0), EPERM, ENOSYS, 0);
    struct iovec v = {page, sizeof page};
    // EOPNOTSUPP is what old kernels say to a flag, so programs fall back on it.
    denied_act("preadv2(NOWAIT)", child_call(SYS_preadv2, fd, &v, 1, 0, 0, RWF_NOWAIT), EPERM,
               EOPNOTSUPP, 0);
    denied_act("preadv2(NOWAIT) dirty",
               child_call(SYS_preadv2, fd, &v, 1, 0, 0, RWF_NOWAIT | 1L << 32), EPERM,
               EOPNOTSUPP, 0);
    denied_act("preadv2(DONTCACHE)", child_call(SYS_preadv2, fd, &v, 1, 0, 0, 0x80), EPERM,
               EOPNOTSUPP, 0);
    char tmp[256];
    snprintf(tmp, sizeof tmp, "%s/krn28.%d", writable_dir(), (int)getpid());
    int w = open(tmp, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    denied_act("pwritev2(NOWAIT)", child_call(SYS_pwritev2, w, &v, 1, 0, 0, RWF_NOWAIT), EPERM,
               EOPNOTSUPP, 0);
    unlink(tmp);
    if (preadv2(fd, &v, 1, 0, 0) < 0) NOTE("preadv2 without flags is refused (%s)", ename(errno));

    // Dropping pages of a shared file is the other half of the attack. It is not in the
    // row, so it is only reported.
    NOTE("fadvise(DONTNEED) on the shared file %s",
         ename(posix_fadvise(fd, 0, 4096, POSIX_FADV_DONTNEED)));
    return verdict();
}
