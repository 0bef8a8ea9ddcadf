// args: [text that must not be found: tenant id, sandbox id, host path, host name]...
// SYS-06: learn host paths, tenant names or sandbox ids from mount tables, cgroup
// paths, namespaces, file systems and names.
#include "attack.h"
#include <ctype.h>
#include <sys/utsname.h>

static int n_words;
static char **words;
extern char **environ;

// A host's name may be part of another word: `vm` is in `vmstat`.
static bool has_word(const char *buf, size_t n, const char *word) {
    size_t m = strlen(word);
    for (const char *at = buf; (at = find_bytes(at, n - (size_t)(at - buf), word)); at++) {
        bool begins = at == buf || !isalnum((unsigned char)at[-1]);
        bool ends = at + m >= buf + n || !isalnum((unsigned char)at[m]);
        if (begins && ends) return true;
    }
    return false;
}

static void look(const char *where, const char *buf, size_t n) {
    for (int i = 0; i < n_words; i++)
        if (*words[i] && has_word(buf, n, words[i]))
            breached("%s contains forbidden text %d", where, i + 1);
}

static int parts(const char *path) {
    int n = 0;
    for (const char *p = path; *p; p++)
        if (*p == '/' && p[1] && p[1] != '/') n++;
    return n;
}

// One line: id parent major:minor root target options [tags] - type source super.
static void mount_line(char *line) {
    char *f[32];
    int n = 0, dash = 0;
    for (char *w = strtok(line, " "); w && n < 32; w = strtok(NULL, " ")) {
        if (strcmp(w, "-") == 0) dash = n;
        f[n++] = w;
    }
    if (n < 10 || dash < 6 || dash + 3 >= n) return;
    const char *root = f[3], *target = f[4], *type = f[dash + 1], *source = f[dash + 2],
               *super = f[dash + 3];
    // A bind mount tells where it came from. One component, such as /null, is neutral.
    if (root[0] == '/' && parts(root) >= 2) breached("mount at %s comes from %s", target, root);
    if (source[0] == '/' && parts(source) >= 2 && strncmp(source, "/dev/", 5) != 0)
        breached("mount at %s has source %s", target, source);
    static const char *opts[] = {"lowerdir=/", "upperdir=/", "workdir=/", "lowerdir+=/", ":/", NULL};
    if (strcmp(type, "overlay") == 0)
        for (int i = 0; opts[i]; i++)
            if (strstr(super, opts[i])) breached("overlay at %s shows %s", target, opts[i]);
    // Shared or slave propagation would tie the mount to the host's tree.
    for (int i = 6; i < dash; i++)
        if (strncmp(f[i], "shared:", 7) == 0 || strncmp(f[i], "master:", 7) == 0)
            breached("mount at %s is tied to another tree (%s)", target, f[i]);
}

int main(int argc, char **argv) {
    static char buf[65536], copy[65536];
    n_words = argc - 1;
    words = argv + 1;

    ssize_t n = read_file("/proc/self/mountinfo", buf, sizeof buf);
    if (n > 0) {
        look("mountinfo", buf, (size_t)n);
        memcpy(copy, buf, (size_t)n + 1);
        char *save = NULL;
        int lines = 0;
        for (char *l = strtok_r(copy, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
            lines++;
            mount_line(l);
        }
        held("%d mount lines read", lines);
    } else {
        held("mountinfo %s", n < 0 ? ename(errno) : "empty");
    }

    n = read_file("/proc/self/cgroup", buf, sizeof buf);
    if (n > 0) {
        look("cgroup", buf, (size_t)n);
        char *save = NULL;
        bool neutral = true;
        memcpy(copy, buf, (size_t)n + 1);
        for (char *l = strtok_r(copy, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
            char *path = strchr(l, ':');
            path = path ? strchr(path + 1, ':') : NULL;
            // A child group of the sandbox's own, one level deep, tells nothing.
            if (path && (strstr(path, "/..") || parts(path + 1) > 1)) {
                neutral = false;
                breached("cgroup path %s", path + 1);
            }
        }
        if (neutral) held("cgroup paths are neutral");
    } else {
        held("cgroup %s", n < 0 ? ename(errno) : "empty");
    }

    static const char *files[] = {"/proc/self/mounts",   "/proc/self/mountstats",
                                  "/proc/self/environ",  "/proc/self/maps",
                                  "/proc/self/cpuset",   "/etc/hostname",
                                  "/etc/hosts",          "/etc/machine-id",
                                  "/etc/resolv.conf",    "/etc/passwd",
                                  "/etc/group",          "/etc/mtab",
                                  "/proc/sys/kernel/hostname", "/proc/sys/kernel/random/boot_id",
                                  "/run/systemd/machines", "/.dockerenv", NULL};
    int read_n = 0;
    for (int i = 0; files[i]; i++) {
        n = read_file(files[i], buf, sizeof buf);
        if (n <= 0) continue;
        read_n++;
        look(files[i], buf, (size_t)n);
    }
    held("%d files searched for %d texts", read_n, n_words);

    static const char *links[] = {"/proc/self/exe", "/proc/self/cwd", "/proc/self/root",
                                  "/proc/self/fd/0", "/proc/self/fd/1", "/proc/self/fd/2", NULL};
    for (int i = 0; links[i]; i++) {
        n = readlink(links[i], buf, sizeof buf - 1);
        if (n <= 0) continue;
        buf[n] = 0;
        look(links[i], buf, (size_t)n);
    }
    // The harness compares these inode numbers with the host's own namespaces.
    static const char *ns[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time", NULL};
    char all[512] = "";
    for (int i = 0; ns[i]; i++) {
        char path[64], to[64];
        snprintf(path, sizeof path, "/proc/self/ns/%s", ns[i]);
        ssize_t m = readlink(path, to, sizeof to - 1);
        if (m > 0) snprintf(all + strlen(all), sizeof all - strlen(all), " %.*s", (int)m, to);
    }
    NOTE("namespaces:%s", all);

    struct utsname u;
    uname(&u);
    NOTE("nodename %s domain %s", u.nodename, u.domainname);
    look("nodename", u.nodename, strlen(u.nodename));
    struct statfs s;
    if (statfs("/", &s) == 0)
        NOTE("root file system type %#lx, %llu MiB", (long)s.f_type,
             (unsigned long long)s.f_blocks * (unsigned long long)s.f_bsize >> 20);
    for (char **e = environ; *e; e++) look("environment", *e, strlen(*e));
    return verdict();
}
