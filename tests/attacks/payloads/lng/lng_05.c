// args: [tcp port on loopback that is meant to be there, e.g. proxy or gateway]...
// LNG-05: forge messages to an interpreter session: over a loopback port, through a
// connection file, through an inherited descriptor, or through the session's own pipes.
#include "attack.h"
#include <netinet/in.h>

static int n_ok;
static int ok[32];

static bool expected(int port) {
    for (int i = 0; i < n_ok; i++)
        if (ok[i] == port) return true;
    return false;
}

static int try_port(int family, int port) {
    int s = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s < 0) return -1;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in6 b = {.sin6_family = AF_INET6, .sin6_port = a.sin_port};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    b.sin6_addr = in6addr_loopback;
    int r = family == AF_INET ? connect(s, (void *)&a, sizeof a) : connect(s, (void *)&b, sizeof b);
    if (r < 0 && errno == EINPROGRESS) {
        struct pollfd p = {s, POLLOUT, 0};
        int e = 0;
        socklen_t n = sizeof e;
        if (poll(&p, 1, 50) == 1 && getsockopt(s, SOL_SOCKET, SO_ERROR, &e, &n) == 0 && e == 0) r = 0;
    }
    // A connect whose own port happens to be the wanted one meets itself.
    struct sockaddr_in6 me;
    socklen_t n = sizeof me;
    if (r == 0 && getsockname(s, (void *)&me, &n) == 0 && me.sin6_port == a.sin_port) r = -1;
    if (r < 0) {
        close(s);
        return -1;
    }
    return s;
}

static void ports(void) {
    int listening = 0, refused_n = 0;
    for (int port = 1; port < 65536; port++) {
        if (expected(port)) continue;
        int s = try_port(AF_INET, port);
        if (s < 0) {
            refused_n++;
            continue;
        }
        listening++;
        // Whoever accepts would read a forged message next. Nothing is sent, because the
        // listener may be a bystander.
        breached("port %d accepts us", port);
        close(s);
    }
    static const int six[] = {8888, 5555, 22, 80, 443, 3128, 8080, 9000};
    for (unsigned i = 0; i < 8; i++) {
        int s = expected(six[i]) ? -1 : try_port(AF_INET6, six[i]);
        if (s >= 0) {
            breached("port %d accepts us over IPv6", six[i]);
            close(s);
        }
    }
    if (listening == 0) held("no unexpected loopback listener in %d ports", refused_n);
}

static void connection_files(void) {
    static const char *dirs[] = {"/run",          "/tmp",
                                 "/run/user/1000/jupyter/runtime",
                                 "/home/u/.local/share/jupyter/runtime",
                                 "/workspace/.local/share/jupyter/runtime",
                                 "/root/.local/share/jupyter/runtime", "/dev/shm", NULL};
    int seen = 0;
    for (int i = 0; dirs[i]; i++) {
        DIR *d = opendir(dirs[i]);
        for (struct dirent *e; d && (e = readdir(d));) {
            if (strncmp(e->d_name, "kernel-", 7) != 0 || !strstr(e->d_name, ".json")) continue;
            char path[512], buf[2048];
            snprintf(path, sizeof path, "%s/%s", dirs[i], e->d_name);
            ssize_t n = read_file(path, buf, sizeof buf);
            if (n > 0 && strstr(buf, "\"key\"")) {
                seen++;
                breached("%s holds a session key", path);
            }
        }
        if (d) closedir(d);
    }
    if (seen == 0) held("no connection file");
}

static void own_fds(void) {
    int extra = 0;
    DIR *d = opendir("/proc/self/fd");
    for (struct dirent *e; d && (e = readdir(d));) {
        int fd = atoi(e->d_name);
        if (fd <= 2 || fd == dirfd(d)) continue;
        char path[64], to[256];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(path, to, sizeof to - 1);
        extra++;
        breached("inherited descriptor %d: %.*s", fd, (int)(n < 0 ? 0 : n), to);
    }
    if (d) closedir(d);
    if (extra == 0) held("no descriptor beyond 0 to 2");
}

// A pipe can be opened again through /proc by anybody with the same uid; a socket
// cannot. So a session's control channel must be a socket.
static void other_fds(void) {
    DIR *d = opendir("/proc");
    int procs = 0, pipes = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        int pid = atoi(e->d_name);
        // Our own launcher shares our pipes and is no session.
        if (pid <= 0 || pid == getpid() || pid == getppid()) continue;
        char path[320];
        snprintf(path, sizeof path, "/proc/%d/fd", pid);
        DIR *f = opendir(path);
        if (!f) continue;
        procs++;
        for (struct dirent *x; (x = readdir(f));) {
            int fd = atoi(x->d_name);
            if (fd <= 2) continue;
            char to[128];
            ssize_t n = readlinkat(dirfd(f), x->d_name, to, sizeof to - 1);
            if (n <= 0) continue;
            to[n] = 0;
            if (strncmp(to, "pipe:", 5) != 0 && !strstr(to, "/fifo")) continue;
            int w = openat(dirfd(f), x->d_name, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
            if (w < 0) continue;
            pipes++;
            breached("pipe %d of process %d can be written to", fd, pid);
            close(w);
        }
        closedir(f);
    }
    if (d) closedir(d);
    if (pipes == 0) held("no pipe of %d other processes could be opened", procs);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc && n_ok < 32; i++) ok[n_ok++] = atoi(argv[i]);
    own_fds();
    ports();
    connection_files();
    other_fds();
    return verdict();
}
