// args: [path of a setuid or setgid copy of this program]...
// KRN-19: gain an identity from a setuid or setgid file, wherever it comes from. The
// harness plants copies of this program in the image, in an archive and in a volume.
#include "attack.h"
#include <sys/statvfs.h>

static int report(void) {
    uid_t r, e, s;
    gid_t g, h, t;
    getresuid(&r, &e, &s);
    getresgid(&g, &h, &t);
    bool same = r == e && e == s && g == h && h == t;
    if (!same) NOTE("uid %d/%d/%d gid %d/%d/%d", r, e, s, g, h, t);
    return same ? 0 : 42;
}

static int run(const char *path) {
    pid_t pid = fork();
    if (pid == 0) {
        execl(path, path, "--report", NULL);
        _exit(errno == EACCES ? 43 : errno == EPERM ? 44 : 45);
    }
    int st = 0;
    if (pid < 0 || waitpid(pid, &st, 0) < 0 || !WIFEXITED(st)) return 46;
    return WEXITSTATUS(st);
}

static void judge(const char *path) {
    switch (run(path)) {
    case 0:
        held("%s ran with our own ids", path);
        break;
    case 42:
        breached("%s changed the effective ids", path);
        break;
    case 43:
        held("%s EACCES", path);
        break;
    case 44:
        held("%s EPERM", path);
        break;
    default:
        NOTE("%s could not be run", path);
    }
}

static bool nosuid(const char *path) {
    struct statvfs v;
    return statvfs(path, &v) == 0 && (v.f_flag & ST_NOSUID);
}

// A copy made by ourselves carries our own uid, so only the group and the mount flag
// can tell; but it must never do more than that.
static void own_copy(const char *dir, int mode) {
    char path[256];
    snprintf(path, sizeof path, "%s/krn19.%d", dir, (int)getpid());
    int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int out = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0755);
    if (in < 0 || out < 0) return;
    char b[16384];
    ssize_t n;
    while ((n = read(in, b, sizeof b)) > 0) (void)!write(out, b, (size_t)n);
    close(in);
    close(out);
    if (chmod(path, mode) == 0) judge(path);
    unlink(path);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--report") == 0) return report();

    for (int i = 1; i < argc; i++) judge(argv[i]);

    static const char *dirs[] = {"/workspace", "/tmp", "/dev/shm", "/home/u", "/var/tmp", "/run",
                                 NULL};
    for (int i = 0; dirs[i]; i++) {
        if (access(dirs[i], W_OK) != 0) continue;
        if (nosuid(dirs[i]))
            held("%s is nosuid", dirs[i]);
        else
            breached("%s is writable and not nosuid", dirs[i]);
        own_copy(dirs[i], 04755);
        own_copy(dirs[i], 02755);
    }
    if (nosuid("/"))
        held("/ is nosuid");
    else
        breached("/ is not nosuid");
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
        held("no_new_privs set");
    else
        breached("no_new_privs not set");

    // The image itself must bring no such file. Behind nosuid it is inert, but it is
    // one flag away from not being so.
    static const char *bins[] = {"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/lib/openssh",
                                 "/usr/lib/dbus-1.0", "/usr/local/bin", "/usr/libexec", NULL};
    int found = 0;
    for (int i = 0; bins[i]; i++) {
        DIR *d = opendir(bins[i]);
        if (!d) continue;
        for (struct dirent *e; (e = readdir(d));) {
            struct stat st;
            if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) continue;
            if (!S_ISREG(st.st_mode) || !(st.st_mode & (S_ISUID | S_ISGID))) continue;
            if (found++ < 5) NOTE("setuid or setgid file in the image: %s/%s", bins[i], e->d_name);
            if (!nosuid(bins[i])) breached("%s/%s is live", bins[i], e->d_name);
        }
        closedir(d);
    }
    if (found == 0) held("no setuid file in the image");
    return verdict();
}
