// args: none
// KRN-24: call every number from 0 to 1023 and say which ones the filter lets through.
// The harness compares the line "NOTE allowed:" with its golden file.
//
// A number counts as allowed if any of three sets of arguments (zeros, garbage, and a
// plausible one for calls whose arguments are filtered) brings an answer other than
// EPERM, ENOSYS or a kill by the filter. No number is left out.
#include "attack.h"

#define TOP 1024
#define GARBAGE 0x5a5a5a5a5a5a5a5aL

struct cell {
    volatile int done;
    volatile long ret;
};
static struct cell *cell;

// Inline and without a stack frame of its own, because some of the calls (vfork,
// clone) come back twice on the same stack.
static inline __attribute__((always_inline)) long raw(long nr, const long *a) {
    long r;
    register long r10 __asm__("r10") = a[3];
    register long r8 __asm__("r8") = a[4];
    register long r9 __asm__("r9") = a[5];
    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"(nr), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return r;
}

// Only exit, not exit_group: it is one of the four calls that strict mode leaves.
static inline __attribute__((always_inline)) void leave(void) {
    __asm__ volatile("syscall" ::"a"(60L), "D"(0L) : "rcx", "r11", "memory");
}

// A signal return reads its frame from the stack. An unreadable stack makes it fail
// the same way each time, instead of jumping to whatever lies there.
static void sigreturn_nowhere(void) {
    __asm__ volatile("xor %%esp, %%esp\n\tmov $15, %%eax\n\tsyscall\n\tud2" ::: "memory");
}

static void child(int nr, const long *args) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    close(0);
    if (nr == SYS_rt_sigreturn) {
        // Reported before the call, since a call that is let through cannot come back.
        cell->ret = 0;
        sigreturn_nowhere();
    }
    long r = raw(nr, args);
    if (r == 0 && (nr == SYS_fork || nr == SYS_vfork || nr == SYS_clone || nr == 435)) leave();
    cell->ret = r;
    cell->done = 1;
    // A message queue is the one thing here that would outlive this process.
    if (nr == SYS_msgget && r >= 0) syscall(SYS_msgctl, r, 0, 0);
    leave();
}

enum answer { ALLOWED, EPERM_, ENOSYS_, KILLED };

// running tells a child that merely waits for a processor from one that blocks in the
// call, so that a busy machine does not change the answer.
static bool running(pid_t pid) {
    char path[40], buf[256];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (read_file(path, buf, sizeof buf) <= 0) return false;
    char *p = strrchr(buf, ')');
    return p && p[1] == ' ' && p[2] == 'R';
}

static enum answer sweep(int nr, const long *args) {
    sigset_t chld;
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    cell->done = 0;
    cell->ret = 0;
    pid_t pid = fork();
    if (pid < 0) {
        BREACH("fork failed at number %d: %s", nr, ename(errno));
        exit(0);
    }
    if (pid == 0) child(nr, args);
    int st = 0;
    uint64_t end = now_ms() + 200, latest = end + 5000;
    for (;;) {
        pid_t w = waitpid(pid, &st, WNOHANG);
        if (w == pid) break;
        uint64_t now = now_ms();
        if (now >= end && now < latest && running(pid)) end = now + 50;
        if (now >= end) {
            // It blocks, so it was let through. It is not waited for beyond a moment:
            // a call like sync may hold it in the kernel for long.
            kill(pid, SIGKILL);
            for (int i = 0; i < 20 && waitpid(pid, &st, WNOHANG) == 0; i++) sleep_ms(5);
            return ALLOWED;
        }
        struct timespec t = {0, (long)(end - now) * 1000000L};
        if (t.tv_nsec > 20000000L) t.tv_nsec = 20000000L;
        sigtimedwait(&chld, NULL, &t);
    }
    if (cell->done) {
        if (cell->ret == -EPERM) return EPERM_;
        if (cell->ret == -ENOSYS) return ENOSYS_;
        return ALLOWED;
    }
    if (WIFSIGNALED(st) && WTERMSIG(st) == SIGSYS) return KILLED;
    return ALLOWED;
}

// Plausible arguments for calls that a filter judges by their arguments.
static const struct {
    int nr;
    long a[6];
} good[] = {{SYS_socket, {AF_UNIX, SOCK_STREAM, 0}},
            {SYS_socketpair, {AF_UNIX, SOCK_STREAM, 0, 0}},
            {SYS_clone, {SIGCHLD}},
            {SYS_ioctl, {-1, 0x5401, 0}},
            {SYS_prctl, {PR_GET_DUMPABLE}},
            {SYS_personality, {0xffffffff}},
            {SYS_setsockopt, {-1, SOL_SOCKET, SO_REUSEADDR, 0, 4}},
            {SYS_mknod, {0, S_IFIFO | 0600, 0}},
            {SYS_mknodat, {-1, 0, S_IFIFO | 0600, 0}},
            {SYS_sched_setscheduler, {0, SCHED_OTHER, 0}},
            {SYS_ioprio_set, {1, 0, 0x6000}},
            {SYS_seccomp, {2, 0, 0}},
            {SYS_fcntl, {-1, F_GETFD}},
            {SYS_kill, {0x5a5a5a5a, 0}},
            {SYS_tgkill, {0x5a5a5a5a, 0x5a5a5a5a, 0}},
            {SYS_madvise, {0, 0, MADV_DONTNEED}},
            {SYS_mmap, {0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0}},
            {SYS_prlimit64, {0, RLIMIT_NOFILE, 0, 0}},
            {SYS_arch_prctl, {0x1003, 0}},
            {SYS_memfd_create, {0, 1}},
            {SYS_setuid, {1000}},
            {SYS_setgid, {1000}},
            {SYS_sendto, {-1, 0, 0, 0, 0, 0}},
            {SYS_unlink, {0}}};

// Calls that no policy of ours lets through. They make the sweep fail by itself, even
// without a golden file.
static const struct {
    int nr;
    const char *name;
} never[] = {{SYS_ptrace, "ptrace"},
             {SYS_unshare, "unshare"},
             {SYS_setns, "setns"},
             {435, "clone3"},
             {SYS_mount, "mount"},
             {SYS_umount2, "umount2"},
             {428, "open_tree"},
             {430, "fsopen"},
             {432, "fsmount"},
             {429, "move_mount"},
             {442, "mount_setattr"},
             {SYS_pivot_root, "pivot_root"},
             {SYS_chroot, "chroot"},
             {425, "io_uring_setup"},
             {426, "io_uring_enter"},
             {427, "io_uring_register"},
             {SYS_bpf, "bpf"},
             {SYS_perf_event_open, "perf_event_open"},
             {SYS_userfaultfd, "userfaultfd"},
             {SYS_add_key, "add_key"},
             {SYS_request_key, "request_key"},
             {SYS_keyctl, "keyctl"},
             {SYS_process_vm_readv, "process_vm_readv"},
             {SYS_process_vm_writev, "process_vm_writev"},
             {438, "pidfd_getfd"},
             {SYS_name_to_handle_at, "name_to_handle_at"},
             {SYS_open_by_handle_at, "open_by_handle_at"},
             {SYS_modify_ldt, "modify_ldt"},
             {SYS_iopl, "iopl"},
             {SYS_ioperm, "ioperm"},
             {SYS_kexec_load, "kexec_load"},
             {SYS_init_module, "init_module"},
             {SYS_mincore, "mincore"},
             {SYS_kcmp, "kcmp"},
             {SYS_settimeofday, "settimeofday"},
             {SYS_adjtimex, "adjtimex"},
             {SYS_syslog, "syslog"},
             {SYS_fanotify_init, "fanotify_init"}};

static void list(const char *head, const unsigned char *is, enum answer want) {
    static char line[AT_LINE / 2];
    size_t n = 0;
    int count = 0;
    line[0] = 0;
    for (int nr = 0; nr < TOP; nr++) {
        if (is[nr] != want) continue;
        n += (size_t)snprintf(line + n, sizeof line - n, " %d", nr);
        count++;
    }
    NOTE("%s:%s", head, line);
    held("%s %d", head, count);
}

int main(void) {
    static unsigned char is[TOP];
    static const long zeros[6], garbage[6] = {GARBAGE, GARBAGE, GARBAGE, GARBAGE, GARBAGE, GARBAGE};
    sigset_t chld;
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    sigprocmask(SIG_BLOCK, &chld, NULL);
    cell = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int nr = 0; nr < TOP; nr++) {
        enum answer a = sweep(nr, zeros);
        if (a != ALLOWED) {
            enum answer b = sweep(nr, garbage);
            // ENOSYS for one set and EPERM for the other is a filter by argument.
            if (b != a && a != KILLED) a = b;
        }
        for (unsigned i = 0; a != ALLOWED && i < sizeof good / sizeof *good; i++)
            if (good[i].nr == nr && sweep(nr, good[i].a) == ALLOWED) a = ALLOWED;
        is[nr] = (unsigned char)a;
    }
    list("allowed", is, ALLOWED);
    list("eperm", is, EPERM_);
    list("killed", is, KILLED);
    for (unsigned i = 0; i < sizeof never / sizeof *never; i++)
        if (is[never[i].nr] == ALLOWED) breached("%s is let through", never[i].name);
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
    return verdict();
}
