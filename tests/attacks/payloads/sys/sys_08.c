// args: [path of a device node shipped in an image or archive]...
// SYS-08: make device nodes, and open ones that somebody else brought in.
#include "attack.h"
#include <sys/statvfs.h>

static void try_node(const char *dir, const char *name, mode_t type, dev_t dev) {
    char path[256], what[320];
    snprintf(path, sizeof path, "%s/sys08.%d", dir, (int)getpid());
    snprintf(what, sizeof what, "mknod(%s) in %s", name, dir);
    struct act a = child_call(SYS_mknod, path, type | 0666, dev);
    denied_act(what, a, EPERM, EACCES, EROFS, 0);
    snprintf(what, sizeof what, "mknodat(%s) in %s", name, dir);
    if (a.exited && a.ret >= 0) {
        int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        if (fd >= 0) {
            breached("device made by us opens in %s", dir);
            close(fd);
        }
    }
    unlink(path);
    denied_act(what, child_call(SYS_mknodat, AT_FDCWD, path, type | 0666, dev), EPERM, EACCES,
               EROFS, 0);
    unlink(path);
}

int main(int argc, char **argv) {
    static const char *dirs[] = {"/workspace", "/tmp", "/dev/shm", "/dev", "/home/u", NULL};
    for (int i = 0; dirs[i]; i++) {
        if (access(dirs[i], F_OK) != 0) continue;
        try_node(dirs[i], "char 1:3", S_IFCHR, makedev(1, 3));
        try_node(dirs[i], "char 1:1", S_IFCHR, makedev(1, 1));
        try_node(dirs[i], "block 7:0", S_IFBLK, makedev(7, 0));
        try_node(dirs[i], "block 254:0", S_IFBLK, makedev(254, 0));
        // The overlay whiteout is the one device number that needs no privilege.
        try_node(dirs[i], "char 0:0", S_IFCHR, 0);
        struct statvfs v;
        if (access(dirs[i], W_OK) == 0 && statvfs(dirs[i], &v) == 0) {
            if (v.f_flag & ST_NODEV)
                held("%s is nodev", dirs[i]);
            else
                breached("%s is writable and not nodev", dirs[i]);
        }
    }
    for (int i = 1; i < argc; i++) {
        struct stat st;
        if (lstat(argv[i], &st) < 0) {
            held("%s %s", argv[i], ename(errno));
            continue;
        }
        // A node that arrived as a plain file or was left out is as good as refused.
        if (!S_ISCHR(st.st_mode) && !S_ISBLK(st.st_mode)) {
            held("%s is no device", argv[i]);
            continue;
        }
        int fd = open(argv[i], O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        denied(argv[i], fd, EACCES, EPERM, ENXIO, 0);
        if (fd >= 0) close(fd);
    }
    // Named pipes are ordinary and have to keep working.
    char path[256];
    snprintf(path, sizeof path, "%s/sys08.fifo.%d", writable_dir(), (int)getpid());
    if (mkfifo(path, 0600) == 0)
        held("mkfifo works");
    else
        NOTE("mkfifo refused (%s)", ename(errno));
    unlink(path);
    return verdict();
}
