// args: [seconds, default 5] [processes, default 4] [seed]
// KRN-29: random fuzz of the allowed calls from several processes. What counts is seen
// on the host: no oops, and a neighbour that keeps its beat.
#include "attack.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/timerfd.h>

static uint64_t state;

static uint64_t rnd(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

// What an argument is made of. Everything a call can break must belong to the worker:
// descriptors from its own table, memory from its own arena, names in its own directory.
enum kind { END, FD, PTR, LEN, INT, FLAGS, PATH, OFF, ZERO, CLOCK, PAGES };

static char *arena;
#define ARENA (1 << 20)

static long value(enum kind k) {
    static const char *names[] = {"a", "b", "c", "d/e", "d", "", ".", "a/b", "d/./a"};
    static const long odd[] = {0, 1, 2, -1, 4095, 4096, 4097, 0x7fffffff, -0x7fffffff, 1L << 31};
    switch (k) {
    case FD:
        return rnd() % 16 == 0 ? -1 : (long)(3 + rnd() % 24);
    case PTR:
        return rnd() % 10 == 0 ? (long)rnd() : (long)(arena + rnd() % (ARENA / 2));
    case LEN:
        return (long)(rnd() % 4 == 0 ? rnd() % 65536 : rnd() % 256);
    case INT:
        return rnd() % 3 == 0 ? (long)(rnd() % 64) : odd[rnd() % 10];
    case FLAGS:
        return (long)(rnd() & rnd() & 0xffffffff);
    case PATH:
        return (long)names[rnd() % 9];
    case OFF:
        return (long)(rnd() % 8 == 0 ? rnd() : rnd() % 100000);
    case CLOCK:
        return (long)(rnd() % 12);
    case PAGES:
        return (long)(arena + ARENA / 2 + (rnd() % 64) * 4096);
    default:
        return 0;
    }
}

// Calls that end or signal other processes, sleep without bound or make new ones are
// left out: they are the subject of other attacks.
static const struct {
    int nr;
    enum kind k[6];
} calls[] = {
    {SYS_read, {FD, PTR, LEN}},
    {SYS_write, {FD, PTR, LEN}},
    {SYS_openat, {FD, PATH, FLAGS, INT}},
    {SYS_open, {PATH, FLAGS, INT}},
    {SYS_stat, {PATH, PTR}},
    {SYS_fstat, {FD, PTR}},
    {SYS_lstat, {PATH, PTR}},
    {SYS_lseek, {FD, OFF, INT}},
    {SYS_pread64, {FD, PTR, LEN, OFF}},
    {SYS_pwrite64, {FD, PTR, LEN, OFF}},
    {SYS_readv, {FD, PTR, INT}},
    {SYS_writev, {FD, PTR, INT}},
    {SYS_access, {PATH, INT}},
    {SYS_dup, {FD}},
    {SYS_fcntl, {FD, INT, OFF}},
    {SYS_fsync, {FD}},
    {SYS_fdatasync, {FD}},
    {SYS_truncate, {PATH, LEN}},
    {SYS_ftruncate, {FD, LEN}},
    {SYS_getdents64, {FD, PTR, LEN}},
    {SYS_getcwd, {PTR, LEN}},
    {SYS_rename, {PATH, PATH}},
    {SYS_renameat2, {FD, PATH, FD, PATH, INT}},
    {SYS_mkdir, {PATH, INT}},
    {SYS_rmdir, {PATH}},
    {SYS_link, {PATH, PATH}},
    {SYS_unlink, {PATH}},
    {SYS_symlink, {PATH, PATH}},
    {SYS_readlink, {PATH, PTR, LEN}},
    {SYS_chmod, {PATH, INT}},
    {SYS_fchmod, {FD, INT}},
    {SYS_utimensat, {FD, PATH, PTR, FLAGS}},
    {SYS_fallocate, {FD, FLAGS, LEN, LEN}},
    {SYS_flock, {FD, INT}},
    {SYS_statx, {FD, PATH, FLAGS, FLAGS, PTR}},
    {SYS_fstatfs, {FD, PTR}},
    {SYS_setxattr, {PATH, PTR, PTR, LEN, INT}},
    {SYS_getxattr, {PATH, PTR, PTR, LEN}},
    {SYS_listxattr, {PATH, PTR, LEN}},
    {SYS_copy_file_range, {FD, PTR, FD, PTR, LEN, ZERO}},
    {SYS_mprotect, {PAGES, LEN, INT}},
    {SYS_madvise, {PAGES, LEN, INT}},
    {SYS_msync, {PAGES, LEN, INT}},
    {SYS_mlock, {PAGES, LEN}},
    {SYS_munlock, {PAGES, LEN}},
    {SYS_pipe2, {PTR, FLAGS}},
    {SYS_eventfd2, {INT, FLAGS}},
    {SYS_epoll_create1, {FLAGS}},
    {SYS_epoll_ctl, {FD, INT, FD, PTR}},
    {SYS_epoll_wait, {FD, PTR, INT, ZERO}},
    {SYS_timerfd_create, {CLOCK, FLAGS}},
    {SYS_timerfd_settime, {FD, INT, PTR, PTR}},
    {SYS_timerfd_gettime, {FD, PTR}},
    {SYS_inotify_init1, {FLAGS}},
    {SYS_inotify_add_watch, {FD, PATH, FLAGS}},
    {SYS_inotify_rm_watch, {FD, INT}},
    {SYS_memfd_create, {PATH, FLAGS}},
    {SYS_signalfd4, {FD, PTR, INT, FLAGS}},
    {SYS_socket, {INT, INT, INT}},
    {SYS_socketpair, {INT, INT, INT, PTR}},
    {SYS_bind, {FD, PTR, LEN}},
    {SYS_listen, {FD, INT}},
    {SYS_getsockname, {FD, PTR, PTR}},
    {SYS_getsockopt, {FD, INT, INT, PTR, PTR}},
    {SYS_setsockopt, {FD, INT, INT, PTR, LEN}},
    {SYS_shutdown, {FD, INT}},
    {SYS_sendmsg, {FD, PTR, FLAGS}},
    {SYS_recvmsg, {FD, PTR, FLAGS}},
    {SYS_ioctl, {FD, FLAGS, PTR}},
    {SYS_clock_gettime, {CLOCK, PTR}},
    {SYS_clock_getres, {CLOCK, PTR}},
    {SYS_getrandom, {PTR, LEN, INT}},
    {SYS_getrusage, {INT, PTR}},
    {SYS_sysinfo, {PTR}},
    {SYS_uname, {PTR}},
    {SYS_getpriority, {INT, ZERO}},
    {SYS_sched_getaffinity, {ZERO, LEN, PTR}},
    {SYS_sched_yield, {ZERO}},
    {SYS_rt_sigpending, {PTR, LEN}},
    {SYS_sigaltstack, {PTR, PTR}},
    {SYS_prctl, {INT, INT, PTR, INT, INT}},
    {SYS_poll, {PTR, INT, ZERO}},
    {SYS_membarrier, {INT, FLAGS, ZERO}},
    {SYS_close_range, {FD, FD, INT}},
    {SYS_rseq, {PTR, LEN, INT, INT}},
    {SYS_openat2, {FD, PATH, PTR, LEN}},
};
#define CALLS (sizeof calls / sizeof *calls)

static void worker(const char *dir, uint64_t seed, uint64_t end) {
    struct rlimit core = {0, 0}, as = {48 << 20, 48 << 20}, fsize = {1 << 20, 1 << 20},
                  files = {64, 64}, lock = {65536, 65536};
    setrlimit(RLIMIT_CORE, &core);
    setrlimit(RLIMIT_AS, &as);
    setrlimit(RLIMIT_FSIZE, &fsize);
    setrlimit(RLIMIT_NOFILE, &files);
    setrlimit(RLIMIT_MEMLOCK, &lock);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    if (chdir(dir) < 0) _exit(1);
    // Nothing that was open before belongs to the worker, not even /dev/null: a chmod of
    // it would be felt by everybody. All it holds from here on is its own scratch file.
    close_range(0, ~0u, 0);
    for (int fd = 0; fd < 3; fd++) open("a", O_CREAT | O_RDWR | O_NONBLOCK, 0600);
    state = seed | 1;
    arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (arena == MAP_FAILED) _exit(1);
    for (uint64_t n = 0;; n++) {
        if (n % 256 == 0) {
            if (now_ms() >= end) _exit(0);
            // Fresh rights, bytes and descriptors, or the state runs dry.
            chmod(".", 0700);
            for (int i = 0; i < 4096; i++) ((uint64_t *)arena)[rnd() % (ARENA / 16)] = rnd() % 32;
            int p[2];
            if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p) == 0) (void)p;
            open("a", O_CREAT | O_RDWR | O_NONBLOCK, 0600);
            if (n % 16384 == 0) close_range(3, ~0u, 0);
        }
        // A call that blocks is cut short; the alarm is what may end the worker.
        if (n % 64 == 0) alarm(1);
        unsigned i = (unsigned)(rnd() % CALLS);
        long a[6];
        for (int j = 0; j < 6; j++) a[j] = calls[i].k[j] ? value(calls[i].k[j]) : 0;
        if (calls[i].nr == SYS_close_range && a[0] < 3) continue;
        // Strict seccomp mode, a death signal and a forbidden time stamp counter are only
        // ways to end the worker.
        if (calls[i].nr == SYS_prctl &&
            (a[0] == PR_SET_SECCOMP || a[0] == PR_SET_PDEATHSIG || a[0] == PR_SET_TSC))
            continue;
        // An owner of asynchronous input would get its signals, and may be anybody.
        if (calls[i].nr == SYS_fcntl && (a[1] == F_SETOWN || a[1] == F_SETSIG || a[1] == F_SETOWN_EX))
            continue;
        syscall(calls[i].nr, a[0], a[1], a[2], a[3], a[4], a[5]);
    }
}

// The workers leave names that nobody chose, so the whole tree goes.
static void clean(int at, const char *name) {
    fchmodat(at, name, 0700, 0);
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        if (unlinkat(fd, e->d_name, 0) < 0) clean(fd, e->d_name);
    }
    if (d) closedir(d);
    unlinkat(at, name, AT_REMOVEDIR);
}

int main(int argc, char **argv) {
    int seconds = argc > 1 && atoi(argv[1]) > 0 ? atoi(argv[1]) : 5;
    int procs = argc > 2 && atoi(argv[2]) > 0 ? atoi(argv[2]) : 4;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 0) : (uint64_t)time(NULL) * 2654435761u;
    if (procs > 16) procs = 16;
    NOTE("seed %llu", (unsigned long long)seed);
    uint64_t end = now_ms() + (uint64_t)seconds * 1000;
    pid_t pid[16];
    char dir[16][128];
    int restarts = 0;
    for (int i = 0; i < procs; i++) {
        snprintf(dir[i], sizeof dir[i], "%s/krn29.%d.%d", writable_dir(), (int)getpid(), i);
        mkdir(dir[i], 0700);
        pid[i] = -1;
    }
    uint64_t round = 0;
    while (now_ms() < end) {
        for (int i = 0; i < procs; i++) {
            if (pid[i] > 0 && waitpid(pid[i], NULL, WNOHANG) == 0) continue;
            if (pid[i] > 0) restarts++;
            chmod(dir[i], 0700);
            pid[i] = fork();
            if (pid[i] == 0) worker(dir[i], seed + 977 * ++round + (uint64_t)i, end);
            round++;
        }
        sleep_ms(20);
    }
    sleep_ms(100);
    for (int i = 0; i < procs; i++) {
        if (pid[i] > 0) {
            kill(pid[i], SIGKILL);
            waitpid(pid[i], NULL, 0);
        }
        clean(AT_FDCWD, dir[i]);
    }
    held("%d processes fuzzed %d s, %d restarts, parent alive", procs, seconds, restarts);
    return verdict();
}
