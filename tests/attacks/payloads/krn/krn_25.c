// args: ["flawed" to install a filter with the 64-bit comparison bug, for the control run]
// KRN-25: repeat each argument-filtered call with dirty upper 32 bits. The kernel drops
// those bits, so a filter that looks at them can be walked around.
#include "attack.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <termios.h>

#define NONE (-1)

static int pair[2], tcp, file;
static char byte = ' ';
static struct iovec vec = {&byte, 1};
static struct msghdr msg;
static struct sched_param param;
static struct sock_filter allow_all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
static struct sock_fprog prog = {1, &allow_all};
static char node[256];
static unsigned long scratch[4];

struct row {
    const char *name;
    bool deny;
    long nr;
    long a[6];
    int dirty[3];
};

// Each act is done in a child of its own, on a fresh copy of the descriptors.
static long act(void *p) {
    long *v = p;
    long r = syscall(v[0], v[1], v[2], v[3], v[4], v[5], v[6]);
    int e = errno;
    if (v[0] == SYS_clone) {
        if (r == 0) _exit(0);
        if (r > 0) waitpid((pid_t)r, NULL, __WALL);
    }
    if (r >= 0 && (v[0] == SYS_mknod || v[0] == SYS_mknodat)) unlink(node);
    errno = e;
    return r;
}

static struct act run(const struct row *r, uint64_t bits, int arg) {
    long v[7] = {r->nr, r->a[0], r->a[1], r->a[2], r->a[3], r->a[4], r->a[5]};
    if (arg >= 0) v[1 + arg] = (long)(((uint64_t)v[1 + arg] & 0xffffffffu) | bits << 32);
    return in_child(act, v, 1000);
}

static bool same(const struct act *x, const struct act *y) {
    if (x->signalled || y->signalled)
        return x->signalled && y->signalled && x->sig == y->sig;
    if ((x->ret < 0) != (y->ret < 0)) return false;
    return x->ret >= 0 || x->err == y->err;
}

static const char *word(const struct act *a) {
    if (a->timed_out) return "hung";
    if (a->signalled) return a->sig == SIGSYS ? "killed" : "signal";
    return a->ret >= 0 ? "ok" : ename(a->err);
}

static bool stopped(const struct act *a) {
    if (killed_by_seccomp(a)) return true;
    if (!a->exited || a->ret >= 0) return false;
    switch (a->err) {
    case EPERM:
    case ENOSYS:
    case ENOTTY:
    case EAFNOSUPPORT:
    case EOPNOTSUPP:
        return true;
    }
    return false;
}

// The bug on purpose: both calls are compared as 64-bit words.
static void install_flawed(void) {
#define LO(n) (offsetof(struct seccomp_data, args) + 8 * (n))
#define HI(n) (LO(n) + 4)
    struct sock_filter f[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, HI(1)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 7),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, LO(1)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TIOCSTI, 6, 5),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, HI(1)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, LO(1)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOCK_DGRAM, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    };
    struct sock_fprog p = {sizeof f / sizeof *f, f};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p) < 0)
        NOTE("flawed filter not installed: %s", ename(errno));
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "flawed") == 0) install_flawed();
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    tcp = socket(AF_INET, SOCK_STREAM, 0);
    file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    snprintf(node, sizeof node, "%s/krn25.%d", writable_dir(), (int)getpid());
    (void)!write(pair[0], "x", 1);
    msg.msg_iov = &vec;
    msg.msg_iovlen = 1;
    long L = (long)&byte, V = (long)&vec, M = (long)&msg, N = (long)node, S = (long)scratch;
    long P = (long)&prog, Q = (long)&param;
    int one = 1;
    long O = (long)&one;

    const struct row rows[] = {
        {"ioctl(TIOCSTI)", true, SYS_ioctl, {pair[0], TIOCSTI, L}, {1, NONE}},
        {"ioctl(TIOCLINUX)", true, SYS_ioctl, {pair[0], 0x541C, L}, {1, NONE}},
        {"ioctl(FS_IOC_GETFLAGS)", true, SYS_ioctl, {file, 0x80086601, S}, {1, NONE}},
        {"ioctl(FIONREAD)", false, SYS_ioctl, {pair[1], FIONREAD, S}, {0, 1, NONE}},
        {"socket(INET, DGRAM)", true, SYS_socket, {AF_INET, SOCK_DGRAM, 0}, {0, 1, 2}},
        {"socket(INET, RAW)", true, SYS_socket, {AF_INET, SOCK_RAW, 1}, {0, 1, 2}},
        {"socket(PACKET)", true, SYS_socket, {AF_PACKET, SOCK_RAW, 0}, {0, 1, 2}},
        {"socket(VSOCK)", true, SYS_socket, {40, SOCK_STREAM, 0}, {0, 1, 2}},
        {"socket(ALG)", true, SYS_socket, {38, SOCK_SEQPACKET, 0}, {0, 1, 2}},
        {"socket(NETLINK_XFRM)", true, SYS_socket, {AF_NETLINK, SOCK_RAW, 6}, {0, 1, 2}},
        {"socket(UNIX)", false, SYS_socket, {AF_UNIX, SOCK_STREAM, 0}, {0, 1, 2}},
        {"socket(INET, STREAM)", false, SYS_socket, {AF_INET, SOCK_STREAM, 0}, {0, 1, 2}},
        {"clone(NEWUSER)", true, SYS_clone, {CLONE_NEWUSER | SIGCHLD}, {0, NONE}},
        {"clone(NEWNET)", true, SYS_clone, {CLONE_NEWNET | SIGCHLD}, {0, NONE}},
        {"clone(plain)", false, SYS_clone, {SIGCHLD}, {0, NONE}},
        {"personality(NO_RANDOMIZE)", true, SYS_personality, {0x0040000}, {0, NONE}},
        {"personality(query)", false, SYS_personality, {0xffffffff}, {0, NONE}},
        // Option 15 of PR_SET_MM only asks for a size and needs no privilege.
        {"prctl(SET_MM)", true, SYS_prctl, {35, 15, S, 0, 0}, {0, NONE}},
        {"prctl(SET_PTRACER)", false, SYS_prctl, {0x59616d61, 0, 0, 0, 0}, {0, NONE}},
        {"prctl(GET_DUMPABLE)", false, SYS_prctl, {PR_GET_DUMPABLE, 0, 0, 0, 0}, {0, NONE}},
        {"setsockopt(ATTACH_FILTER)", true, SYS_setsockopt,
         {pair[0], SOL_SOCKET, 26, P, sizeof prog}, {1, 2, 4}},
        {"setsockopt(REUSEPORT_CBPF)", true, SYS_setsockopt,
         {tcp, SOL_SOCKET, 51, P, sizeof prog}, {1, 2, 4}},
        {"setsockopt(REUSEADDR)", false, SYS_setsockopt,
         {tcp, SOL_SOCKET, SO_REUSEADDR, O, sizeof one}, {1, 2, 4}},
        // A whiteout node, the only device that the kernel gives to everybody.
        {"mknod(char 0:0)", true, SYS_mknod, {N, S_IFCHR | 0600, 0}, {1, 2, NONE}},
        {"mknodat(char 0:0)", true, SYS_mknodat, {AT_FDCWD, N, S_IFCHR | 0600, 0}, {2, 3, NONE}},
        {"mknod(fifo)", false, SYS_mknod, {N, S_IFIFO | 0600, 0}, {1, NONE}},
        {"sendto(OOB)", true, SYS_sendto, {pair[0], L, 1, MSG_OOB, 0, 0}, {3, NONE}},
        {"sendmsg(OOB)", true, SYS_sendmsg, {pair[0], M, MSG_OOB}, {2, NONE}},
        {"recvfrom(OOB)", true, SYS_recvfrom, {pair[1], L, 1, MSG_OOB, 0, 0}, {3, NONE}},
        {"recvmsg(OOB)", true, SYS_recvmsg, {pair[1], M, MSG_OOB}, {2, NONE}},
        {"sendto(DONTWAIT)", false, SYS_sendto, {pair[0], L, 1, MSG_DONTWAIT, 0, 0}, {3, NONE}},
        {"preadv2(NOWAIT)", true, SYS_preadv2, {file, V, 1, 0, 0, 8}, {5, NONE}},
        {"preadv2(HIPRI)", true, SYS_preadv2, {file, V, 1, 0, 0, 1}, {5, NONE}},
        {"sched_setscheduler(FIFO)", true, SYS_sched_setscheduler, {0, SCHED_FIFO, Q}, {1, NONE}},
        {"sched_setscheduler(OTHER)", false, SYS_sched_setscheduler, {0, SCHED_OTHER, Q},
         {1, NONE}},
        {"ioprio_set(RT)", true, SYS_ioprio_set, {1, 0, 1 << 13}, {0, 2, NONE}},
        {"seccomp(NEW_LISTENER)", true, SYS_seccomp, {1, 8, P}, {0, 1, NONE}},
        {"kill(self, 0)", false, SYS_kill, {getpid(), 0}, {0, 1, NONE}},
        {"kill(self, invalid)", false, SYS_kill, {getpid(), 99}, {1, NONE}},
        {"fcntl(GETFD)", false, SYS_fcntl, {file, F_GETFD, 0}, {1, NONE}},
    };
    static const uint64_t bits[] = {1, 0x80000000u, 0xffffffffu, 0x5a5a5a5au};
    int compared = 0;
    param.sched_priority = 0;
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        // Only the RT class has a priority of its own.
        param.sched_priority = r->nr == SYS_sched_setscheduler && r->a[1] == SCHED_FIFO ? 1 : 0;
        struct act clean = run(r, 0, NONE);
        if (r->deny && !stopped(&clean)) {
            breached("%s is not denied (%s)", r->name, word(&clean));
            continue;
        }
        if (!r->deny && stopped(&clean)) NOTE("%s is denied (%s)", r->name, word(&clean));
        for (int d = 0; d < 3 && r->dirty[d] != NONE; d++) {
            // An argument index of 0 after the first place is padding.
            if (d > 0 && r->dirty[d] == 0) break;
            for (unsigned b = 0; b < 4; b++) {
                struct act dirty = run(r, bits[b], r->dirty[d]);
                compared++;
                if (!same(&clean, &dirty))
                    breached("%s: arg %d with %#lx above answers %s instead of %s", r->name,
                             r->dirty[d], (unsigned long)bits[b], word(&dirty), word(&clean));
            }
        }
    }
    held("%d dirty calls answered like their clean twins", compared);
    return verdict();
}
