// args: [shared file of the lower layer, default the first one found]
// KRN-04: AF_ALG socket fed by splice from a shared binary, the page-cache write path.
// The payload opens the two doors and stops there: it never sends a page onwards.
#include "attack.h"

static const char *shared_file(int argc, char **argv) {
    static const char *few[] = {"/bin/sh", "/usr/bin/env", "/usr/bin/python3", "/etc/passwd", NULL};
    if (argc > 1) return argv[1];
    for (int i = 0; few[i]; i++)
        if (access(few[i], R_OK) == 0) return few[i];
    return "/proc/self/exe";
}

// The hash read past the page cache shows what the disk holds. Not every file
// system can do it; the harness repeats the comparison on the host.
static bool direct_hash(const char *path, uint64_t *out) {
    int fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (fd < 0) return false;
    unsigned char *b = NULL;
    if (posix_memalign((void **)&b, 4096, 65536) != 0) return false;
    uint64_t h = 1469598103934665603ull;
    ssize_t r;
    while ((r = read(fd, b, 65536)) > 0)
        for (ssize_t i = 0; i < r; i++) h = (h ^ b[i]) * 1099511628211ull;
    close(fd);
    free(b);
    *out = h;
    return r == 0;
}

int main(int argc, char **argv) {
    const char *path = shared_file(argc, argv);
    uint64_t before = hash_file(path);
    static const int types[] = {SOCK_SEQPACKET, SOCK_STREAM, SOCK_DGRAM, SOCK_RAW};
    for (unsigned i = 0; i < 4; i++)
        denied_act("socket(AF_ALG)", child_call(SYS_socket, 38, types[i], 0), EPERM, EAFNOSUPPORT,
                   0);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    int p[2], q[2];
    if (file < 0 || pipe(p) < 0 || pipe(q) < 0) {
        NOTE("could not prepare %s: %s", path, ename(errno));
        return verdict();
    }
    long off = 0;
    denied_act("splice(file to pipe)", child_call(SYS_splice, file, &off, p[1], 0, 4, 0), EPERM,
               EINVAL, ENOSYS, 0);
    (void)!write(p[1], "test", 4);
    denied_act("tee(pipe to pipe)", child_call(SYS_tee, p[0], q[1], 4, 2), EPERM, EINVAL, ENOSYS,
               0);
    uint64_t after = hash_file(path), disk;
    if (before != after)
        breached("content of %s changed in the page cache", path);
    else
        held("%s unchanged", path);
    if (direct_hash(path, &disk)) {
        if (disk != after)
            breached("page cache of %s differs from the disk", path);
        else
            held("page cache equals disk");
    } else {
        NOTE("O_DIRECT not possible here, host compares");
    }
    return verdict();
}
