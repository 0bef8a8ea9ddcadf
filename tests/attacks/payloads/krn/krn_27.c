// args: [tcp port on loopback that listens but is not allowed, default 9] [abstract socket name of a server outside] [pid outside the scope, default 1]
// KRN-27: holes around Landlock: renames and links between trees, truncation, device
// ioctls, magic links, other ports, signals and abstract sockets out of scope.
#include "attack.h"
#include <netinet/in.h>
#include <netinet/tcp.h>

#define FASTOPEN 0x20000000

static int port = 9;

static void loopback(struct sockaddr_in *to) {
    memset(to, 0, sizeof *to);
    to->sin_family = AF_INET;
    to->sin_port = htons((uint16_t)port);
    to->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
}

static int tcp_socket(int family) {
    int s = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0) return s;
    struct timeval t = {1, 0};
    setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
    return s;
}

static void ports(void) {
    struct sockaddr_in to;
    loopback(&to);
    // The jail has a loopback of its own, free to use: a closed port there is as good as
    // a refused call, and a port that answers is one of the host's.
    int s = tcp_socket(AF_INET);
    if (s < 0) {
        // Where there is no network of one's own, there is no socket either.
        denied("socket for TCP", s, EAFNOSUPPORT, 0);
        return;
    }
    denied("connect to another port", connect(s, (void *)&to, sizeof to), EACCES, EPERM,
           ECONNREFUSED, 0);
    close(s);

    // Fast open connects inside a send, on a path that a connect rule may not see.
    s = tcp_socket(AF_INET);
    denied("sendto(MSG_FASTOPEN)", sendto(s, "x", 1, FASTOPEN, (void *)&to, sizeof to), EACCES,
           EPERM, EOPNOTSUPP, 0);
    close(s);
    s = tcp_socket(AF_INET);
    struct iovec v = {"x", 1};
    struct msghdr m;
    memset(&m, 0, sizeof m);
    m.msg_name = &to;
    m.msg_namelen = sizeof to;
    m.msg_iov = &v;
    m.msg_iovlen = 1;
    denied("sendmsg(MSG_FASTOPEN)", sendmsg(s, &m, FASTOPEN), EACCES, EPERM, EOPNOTSUPP, 0);
    struct mmsghdr mm;
    memset(&mm, 0, sizeof mm);
    mm.msg_hdr = m;
    close(s);
    s = tcp_socket(AF_INET);
    denied("sendmmsg(MSG_FASTOPEN)", sendmmsg(s, &mm, 1, FASTOPEN), EACCES, EPERM, EOPNOTSUPP, 0);
    close(s);
    s = tcp_socket(AF_INET);
    int one = 1;
    if (setsockopt(s, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &one, sizeof one) == 0)
        denied("connect after TCP_FASTOPEN_CONNECT", connect(s, (void *)&to, sizeof to), EACCES,
               EPERM, ECONNREFUSED, 0);
    close(s);

    // The same address written as IPv6.
    s = tcp_socket(AF_INET6);
    if (s >= 0) {
        struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = to.sin_port};
        six.sin6_addr.s6_addr[10] = six.sin6_addr.s6_addr[11] = 0xff;
        six.sin6_addr.s6_addr[12] = 127;
        six.sin6_addr.s6_addr[15] = 1;
        denied("connect by mapped IPv6", connect(s, (void *)&six, sizeof six), EACCES, EPERM,
               ENETUNREACH, EADDRNOTAVAIL, EAFNOSUPPORT, ECONNREFUSED, 0);
        close(s);
    }
    // Multipath TCP carries the same stream but is not TCP to a port rule.
    s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 262);
    if (s < 0) {
        held("multipath TCP %s", ename(errno));
    } else {
        denied("connect by multipath TCP", connect(s, (void *)&to, sizeof to), EACCES, EPERM, 0);
        close(s);
    }
    // Not in the row, but worth a look: listening without a bind takes any port.
    s = tcp_socket(AF_INET);
    NOTE("listen without bind %s", listen(s, 1) == 0 ? "works" : ename(errno));
    close(s);
}

// Where the sandbox has a root of its own, / is like /tmp: every user makes names there and
// removes only their own. No other directory may be so.
static bool is_shared_root(const char *dir) {
    struct stat st;
    return !strcmp(dir, "/") && stat(dir, &st) == 0 && (st.st_mode & S_ISVTX);
}

static void files(void) {
    const char *ws = writable_dir();
    char a[256];
    snprintf(a, sizeof a, "%s/krn27.%d", ws, (int)getpid());
    static const char *targets[] = {"/etc/passwd", "/etc/hosts", "/usr/bin/env", NULL};
    for (int i = 0; targets[i]; i++) {
        char what[128];
        if (access(targets[i], F_OK) != 0) continue;
        snprintf(what, sizeof what, "link(%s)", targets[i]);
        if (!denied(what, link(targets[i], a), EACCES, EXDEV, EPERM, EROFS, 0)) unlink(a);
        snprintf(what, sizeof what, "open for write(%s)", targets[i]);
        int fd = open(targets[i], O_WRONLY | O_CLOEXEC);
        denied(what, fd, EACCES, EPERM, EROFS, ETXTBSY, 0);
        if (fd >= 0) close(fd);
        // A length beyond the end changes nothing that was there.
        struct stat st;
        if (stat(targets[i], &st) == 0 && access(targets[i], W_OK) != 0) {
            snprintf(what, sizeof what, "truncate(%s)", targets[i]);
            denied(what, truncate(targets[i], st.st_size), EACCES, EPERM, EROFS, ETXTBSY, 0);
        }
        char via[128];
        snprintf(via, sizeof via, "/proc/self/root%s", targets[i]);
        snprintf(what, sizeof what, "open for write(%s)", via);
        fd = open(via, O_WRONLY | O_CLOEXEC);
        denied(what, fd, EACCES, EPERM, EROFS, ETXTBSY, ENOENT, 0);
        if (fd >= 0) close(fd);
    }

    // A file of ours must not move into a tree where other rights hold, nor a new
    // one appear there.
    int fd = open(a, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (fd >= 0) close(fd);
    static const char *dirs[] = {"/etc", "/usr", "/usr/bin", "/", "/dev", "/proc/self/root/usr",
                                 "/proc/self/cwd/../usr", "/proc/1/root", NULL};
    for (int i = 0; dirs[i]; i++) {
        char b[256], what[300];
        if (is_shared_root(dirs[i])) continue;
        snprintf(b, sizeof b, "%s/krn27.%d", dirs[i], (int)getpid());
        snprintf(what, sizeof what, "rename into %s", dirs[i]);
        if (!denied(what, rename(a, b), EACCES, EXDEV, EPERM, EROFS, ENOENT, 0)) rename(b, a);
        snprintf(what, sizeof what, "create in %s", dirs[i]);
        fd = open(b, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
        denied(what, fd, EACCES, EPERM, EROFS, ENOENT, 0);
        if (fd >= 0) {
            close(fd);
            unlink(b);
        }
    }
    unlink(a);
    char moved[256];
    snprintf(moved, sizeof moved, "/krn27.etc.%d", (int)getpid());
    if (!denied("rename /etc", rename("/etc", moved), EACCES, EXDEV, EPERM, EROFS, EBUSY, 0))
        rename(moved, "/etc");

    // The kernel's own knobs: nothing of procfs is ours to write.
    fd = open("/proc/self/comm", O_WRONLY | O_CLOEXEC);
    denied("open for write(/proc/self/comm)", fd, EACCES, EPERM, EROFS, 0);
    if (fd >= 0) close(fd);

    // Device ioctls: the entropy count asks for nothing and changes nothing.
    fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    int bits = 0;
    if (fd >= 0) {
        denied("ioctl(RNDGETENTCNT)", ioctl(fd, 0x80045200, &bits), EACCES, EPERM, ENOTTY, 0);
        close(fd);
    }
    // Climbing out of the root has to end in the root.
    struct stat r, up;
    if (stat("/", &r) == 0 && stat("/proc/self/root/../../..", &up) == 0) {
        if (r.st_dev == up.st_dev && r.st_ino == up.st_ino)
            held("/proc/self/root/../../.. is the root");
        else
            breached("/proc/self/root/../../.. leaves the root");
    }
}

static long kill_zero(void *p) {
    return kill(*(pid_t *)p, 0);
}

int main(int argc, char **argv) {
    if (argc > 1 && atoi(argv[1]) > 0) port = atoi(argv[1]);
    pid_t out = argc > 3 ? atoi(argv[3]) : 1;
    files();
    ports();
    // Signal 0 asks for permission only.
    denied_act("signal outside the scope", in_child(kill_zero, &out, 1000), EPERM, ESRCH, 0);
    denied_act("pidfd signal outside the scope",
               child_call(424, sys2(434, out, 0), 0, 0, 0), EPERM, ESRCH, EBADF, 0);
    if (argc > 2 && *argv[2]) {
        static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
        struct sockaddr_un un = {.sun_family = AF_UNIX};
        size_t n = strlen(argv[2]);
        if (n > sizeof un.sun_path - 1) n = sizeof un.sun_path - 1;
        memcpy(un.sun_path + 1, argv[2], n);
        bool open_any = false;
        int e = 0;
        for (int i = 0; i < 3; i++) {
            int s = socket(AF_UNIX, types[i] | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
            if (connect(s, (void *)&un, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n)) == 0)
                open_any = true;
            else if (e == 0 || errno == EPERM)
                e = errno;
            close(s);
        }
        if (open_any)
            breached("abstract socket outside the scope connected");
        else
            held("abstract socket outside the scope %s", ename(e));
    } else {
        NOTE("no abstract name given");
    }
    return verdict();
}
