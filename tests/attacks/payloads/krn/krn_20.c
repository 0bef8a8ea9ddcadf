// args: [path of a copy of this program with file capabilities]...
// KRN-20: gain a capability from a file's security.capability, or write one.
#include "attack.h"
#include <sys/statvfs.h>
#include <sys/xattr.h>

static const char *sets[] = {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", NULL};

static int report(void) {
    char v[64];
    for (int i = 0; i < 3; i++)
        if (status_value(sets[i], v, sizeof v) && strspn(v, "0") != strlen(v)) return 42;
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--report") == 0) return report();
    char v[64], path[256];

    for (int i = 0; sets[i]; i++) {
        if (!status_value(sets[i], v, sizeof v)) continue;
        if (strspn(v, "0") == strlen(v))
            held("%s empty", sets[i]);
        else
            breached("%s is %s", sets[i], v);
    }

    for (int i = 1; i < argc; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            execl(argv[i], argv[i], "--report", NULL);
            _exit(errno == EPERM ? 44 : 43);
        }
        int st = 0;
        if (pid < 0 || waitpid(pid, &st, 0) < 0 || !WIFEXITED(st)) continue;
        if (WEXITSTATUS(st) == 42)
            breached("%s gained a capability", argv[i]);
        else
            held("%s gained none (%d)", argv[i], WEXITSTATUS(st));
    }

    snprintf(path, sizeof path, "%s/krn20.%d", writable_dir(), (int)getpid());
    int fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0755);
    if (fd < 0) {
        breached("could not make the target: %s", ename(errno));
        return verdict();
    }
    // Revision 2 and 3 of the format, permitted and effective cap_net_raw.
    uint32_t v2[5] = {0x02000001, 1u << 13, 0, 0, 0};
    uint32_t v3[6] = {0x03000001, 1u << 13, 0, 0, 0, 0};
    const char *name = "security.capability";
    denied("setxattr(v2)", setxattr(path, name, v2, sizeof v2, 0), EPERM, EOPNOTSUPP, 0);
    denied("setxattr(v3)", setxattr(path, name, v3, sizeof v3, 0), EPERM, EOPNOTSUPP, 0);
    denied("fsetxattr", fsetxattr(fd, name, v2, sizeof v2, 0), EPERM, EOPNOTSUPP, 0);
    denied("lsetxattr", lsetxattr(path, name, v2, sizeof v2, 0), EPERM, EOPNOTSUPP, 0);
    struct {
        uint64_t value;
        uint32_t size, flags;
    } at = {(uintptr_t)v2, sizeof v2, 0};
    denied("setxattrat", sys6(463, AT_FDCWD, path, 0, name, &at, sizeof at), EPERM, EOPNOTSUPP,
           ENOSYS, 0);
    // Names that a file server or an overlay would trust.
    denied("setxattr(trusted)", setxattr(path, "trusted.overlay.opaque", "y", 1, 0), EPERM,
           EOPNOTSUPP, 0);
    if (getxattr(path, name, v, sizeof v) > 0) breached("the file carries a capability");
    close(fd);
    unlink(path);

    static const char *bins[] = {"/bin", "/sbin", "/usr/bin", "/usr/sbin", NULL};
    int found = 0;
    for (int i = 0; bins[i]; i++) {
        DIR *d = opendir(bins[i]);
        if (!d) continue;
        for (struct dirent *e; (e = readdir(d));) {
            snprintf(path, sizeof path, "%s/%s", bins[i], e->d_name);
            if (lgetxattr(path, name, v, sizeof v) <= 0) continue;
            struct statvfs s;
            found++;
            NOTE("file capability in the image: %s", path);
            if (statvfs(path, &s) == 0 && !(s.f_flag & ST_NOSUID)) breached("%s is live", path);
        }
        closedir(d);
    }
    if (found == 0) held("no file capability in the image");
    return verdict();
}
