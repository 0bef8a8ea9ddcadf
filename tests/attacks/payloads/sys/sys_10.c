// args: ["only"] [+path of a socket that may be reached] [path of a forbidden socket] [@abstract name of a forbidden socket]...
// SYS-10: connect to every socket in the tree, to well-known ones, and to every
// abstract name that can be learnt.
#include "attack.h"

static int entries, found, tried;
static uint64_t deadline;
static int n_ok;
static char *ok[32];

static int connect_any(const struct sockaddr_un *un, socklen_t len) {
    static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
    int best = ECONNREFUSED;
    for (int i = 0; i < 3; i++) {
        int s = socket(AF_UNIX, types[i] | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (s < 0) return errno;
        int r = connect(s, (const void *)un, len);
        int e = errno;
        close(s);
        // A full backlog also means that somebody listens.
        if (r == 0 || e == EAGAIN) return 0;
        if (e != EPROTOTYPE) best = e;
    }
    return best;
}

static void try_path(const char *path, bool planted) {
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof un.sun_path) return;
    for (int i = 0; i < n_ok; i++)
        if (strcmp(ok[i], path) == 0) return;
    strcpy(un.sun_path, path);
    tried++;
    int e = connect_any(&un, sizeof un);
    if (e == 0)
        breached("connected to %s", path);
    else if (planted)
        held("%s %s", path, ename(e));
}

static void try_abstract(const char *name, bool planted) {
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    size_t n = strlen(name);
    if (n >= sizeof un.sun_path) return;
    memcpy(un.sun_path + 1, name, n);
    tried++;
    int e = connect_any(&un, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n));
    if (e == 0)
        breached("connected to @%s", name);
    else if (planted)
        held("@%s %s", name, ename(e));
}

static void walk(int at, const char *path, int depth) {
    if (depth > 12 || entries > 300000 || now_ms() > deadline) return;
    int fd = openat(at, *path ? path : "/", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return;
    DIR *d = fdopendir(fd);
    if (!d) {
        close(fd);
        return;
    }
    for (struct dirent *e; (e = readdir(d));) {
        char sub[1024];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        entries++;
        if (snprintf(sub, sizeof sub, "%s/%s", path, e->d_name) >= (int)sizeof sub) continue;
        unsigned char type = e->d_type;
        if (type == DT_UNKNOWN) {
            struct stat st;
            if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) continue;
            type = S_ISDIR(st.st_mode) ? DT_DIR : S_ISSOCK(st.st_mode) ? DT_SOCK : DT_REG;
        }
        if (type == DT_SOCK) {
            found++;
            try_path(sub, true);
        } else if (type == DT_DIR && strcmp(sub, "/proc") != 0) {
            walk(AT_FDCWD, sub, depth + 1);
        }
    }
    closedir(d);
}

static void learn_abstract(const char *file) {
    static char buf[65536];
    if (read_file(file, buf, sizeof buf) <= 0) return;
    char *save = NULL;
    for (char *l = strtok_r(buf, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
        char *at = strchr(l, '@');
        if (at) try_abstract(at + 1, false);
        char *slash = strchr(l, '/');
        if (!at && slash) try_path(slash, false);
    }
}

int main(int argc, char **argv) {
    deadline = now_ms() + 2000;
    for (int i = 1; i < argc; i++)
        if (argv[i][0] == '+' && n_ok < 32) ok[n_ok++] = argv[i] + 1;
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '@') try_abstract(argv[i] + 1, true);
        if (argv[i][0] == '/') try_path(argv[i], true);
    }
    // Without a network namespace the rest would knock at sockets of strangers.
    if (argc > 1 && strcmp(argv[1], "only") == 0) return verdict();
    // The places where sockets live come first, in case the walk runs out of time.
    static const char *known[] = {"/var/run/docker.sock",
                                  "/run/docker.sock",
                                  "/run/containerd/containerd.sock",
                                  "/run/crio/crio.sock",
                                  "/run/podman/podman.sock",
                                  "/run/dbus/system_bus_socket",
                                  "/run/systemd/private",
                                  "/run/systemd/notify",
                                  "/run/systemd/journal/socket",
                                  "/run/systemd/journal/dev-log",
                                  "/run/udev/control",
                                  "/run/postgresql/.s.PGSQL.5432",
                                  "/var/run/postgresql/.s.PGSQL.5432",
                                  "/run/libvirt/libvirt-sock",
                                  "/run/snapd.socket",
                                  "/dev/log",
                                  "/tmp/.X11-unix/X0",
                                  "/run/user/1000/bus",
                                  NULL};
    for (int i = 0; known[i]; i++) try_path(known[i], false);
    static const char *abstract[] = {"/tmp/.X11-unix/X0", "/tmp/dbus-session", "/org/kernel/udev/udevd",
                                     "/com/ubuntu/upstart", "containerd-shim", "docker", NULL};
    for (int i = 0; abstract[i]; i++) try_abstract(abstract[i], false);
    learn_abstract("/proc/net/unix");
    learn_abstract("/proc/self/net/unix");
    learn_abstract("/proc/1/net/unix");
    static const char *first[] = {"/run", "/var", "/tmp", "/dev", "/workspace", "/home", "/etc", NULL};
    for (int i = 0; first[i]; i++) walk(AT_FDCWD, first[i], 1);
    walk(AT_FDCWD, "", 0);
    if (now_ms() > deadline) NOTE("the walk ran out of time after %d entries", entries);
    held("%d entries, %d sockets in the tree, %d addresses tried", entries, found, tried);
    return verdict();
}
