// Shared by every payload of the attack suite.
//
// A payload tries one hostile act from inside the sandbox and prints exactly one
// final verdict: BREACH if any part of the act worked, HELD if every part was
// stopped. It exits 0 in both cases, so that a crash of the payload itself can
// never be mistaken for a verdict.
//
// Two ways to speak:
//   - directly: HELD("..."), BREACH("..."), NOTE("...");
//   - by accumulation: held(...), breached(...) or denied(...) for each act, then
//     `return verdict();` at the end of main.
#ifndef BELLJAR_ATTACK_H
#define BELLJAR_ATTACK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define AT_UNUSED __attribute__((unused))

// ---------------------------------------------------------------- errno names

AT_UNUSED static const char *ename(int e) {
    static char other[4][16];
    static int turn;
    switch (e) {
#define AT_E(x) \
    case x:     \
        return #x;
        AT_E(EPERM) AT_E(ENOENT) AT_E(ESRCH) AT_E(EINTR) AT_E(EIO) AT_E(ENXIO)
        AT_E(E2BIG) AT_E(ENOEXEC) AT_E(EBADF) AT_E(ECHILD) AT_E(EAGAIN) AT_E(ENOMEM)
        AT_E(EACCES) AT_E(EFAULT) AT_E(ENOTBLK) AT_E(EBUSY) AT_E(EEXIST) AT_E(EXDEV)
        AT_E(ENODEV) AT_E(ENOTDIR) AT_E(EISDIR) AT_E(EINVAL) AT_E(ENFILE) AT_E(EMFILE)
        AT_E(ENOTTY) AT_E(ETXTBSY) AT_E(EFBIG) AT_E(ENOSPC) AT_E(ESPIPE) AT_E(EROFS)
        AT_E(EMLINK) AT_E(EPIPE) AT_E(EDOM) AT_E(ERANGE) AT_E(EDEADLK) AT_E(ENAMETOOLONG)
        AT_E(ENOLCK) AT_E(ENOSYS) AT_E(ENOTEMPTY) AT_E(ELOOP) AT_E(ENODATA) AT_E(EOVERFLOW)
        AT_E(EUSERS) AT_E(ENOTSOCK) AT_E(EDESTADDRREQ) AT_E(EMSGSIZE) AT_E(EPROTOTYPE)
        AT_E(ENOPROTOOPT) AT_E(EPROTONOSUPPORT) AT_E(ESOCKTNOSUPPORT) AT_E(EOPNOTSUPP)
        AT_E(EPFNOSUPPORT) AT_E(EAFNOSUPPORT) AT_E(EADDRINUSE) AT_E(EADDRNOTAVAIL)
        AT_E(ENETDOWN) AT_E(ENETUNREACH) AT_E(ENETRESET) AT_E(ECONNABORTED)
        AT_E(ECONNRESET) AT_E(ENOBUFS) AT_E(EISCONN) AT_E(ENOTCONN) AT_E(ESHUTDOWN)
        AT_E(ETIMEDOUT) AT_E(ECONNREFUSED) AT_E(EHOSTDOWN) AT_E(EHOSTUNREACH)
        AT_E(EALREADY) AT_E(EINPROGRESS) AT_E(ESTALE) AT_E(EDQUOT) AT_E(ECANCELED)
        AT_E(ENOKEY) AT_E(EKEYEXPIRED) AT_E(EKEYREVOKED) AT_E(EKEYREJECTED)
#undef AT_E
    case 0:
        return "OK";
    }
    turn = (turn + 1) & 3;
    snprintf(other[turn], sizeof other[turn], "E%d", e);
    return other[turn];
}

// --------------------------------------------------------------------- output

// Everything is written with write(2), unbuffered: a forked child that dies or is
// killed must not repeat or lose half of its parent's output.
AT_UNUSED static void at_put(const char *s, size_t n) {
    while (n > 0) {
        ssize_t w = write(1, s, n);
        if (w < 0) {
            if (errno == EINTR) continue;
            return;
        }
        s += w;
        n -= (size_t)w;
    }
}

#define AT_LINE 32768

AT_UNUSED static void at_say(const char *head, const char *fmt, ...) {
    static __thread char line[AT_LINE];
    int keep = errno;
    size_t n = (size_t)snprintf(line, sizeof line, "%s ", head);
    va_list ap;
    va_start(ap, fmt);
    int m = vsnprintf(line + n, sizeof line - n - 1, fmt, ap);
    va_end(ap);
    if (m < 0) m = 0;
    n += (size_t)m;
    if (n > sizeof line - 2) n = sizeof line - 2;
    // One verdict is one line, whatever text was put into it.
    for (size_t i = 0; i < n; i++)
        if (line[i] == '\n' || line[i] == '\r') line[i] = ' ';
    line[n++] = '\n';
    at_put(line, n);
    errno = keep;
}

#define HELD(...) at_say("HELD", __VA_ARGS__)
#define BREACH(...) at_say("BREACH", __VA_ARGS__)
#define NOTE(...) at_say("NOTE", __VA_ARGS__)

// --------------------------------------------------------------- accumulation

static char at_held_text[AT_LINE / 2] AT_UNUSED;
static char at_breach_text[AT_LINE / 2] AT_UNUSED;
static int at_held_count AT_UNUSED;
static int at_breach_count AT_UNUSED;

AT_UNUSED static void at_append(char *to, size_t cap, const char *fmt, va_list ap) {
    size_t n = strlen(to);
    if (n + 3 >= cap) return;
    if (n > 0) n += (size_t)snprintf(to + n, cap - n, "; ");
    vsnprintf(to + n, cap - n, fmt, ap);
}

// held records one act that was stopped, and what stopped it.
AT_UNUSED static void held(const char *fmt, ...) {
    int keep = errno;
    va_list ap;
    va_start(ap, fmt);
    at_append(at_held_text, sizeof at_held_text, fmt, ap);
    va_end(ap);
    at_held_count++;
    errno = keep;
}

// breached records one act that worked.
AT_UNUSED static void breached(const char *fmt, ...) {
    int keep = errno;
    va_list ap;
    va_start(ap, fmt);
    at_append(at_breach_text, sizeof at_breach_text, fmt, ap);
    va_end(ap);
    at_breach_count++;
    errno = keep;
}

// verdict prints the one final line and gives the exit code of main. An attack
// that recorded nothing proved nothing, so silence is a breach of the suite.
AT_UNUSED static int verdict(void) {
    if (at_breach_count > 0)
        BREACH("%s", at_breach_text);
    else if (at_held_count > 0)
        HELD("%s", at_held_text);
    else
        BREACH("payload recorded no act");
    return 0;
}

// denied judges one call by its return value and errno. The list of accepted errno
// values ends with 0. Success is a breach, and so is any other errno: it means that
// the call got past the layer that had to stop it. Returns true if it was denied.
//
//     denied("unshare(NEWUSER)", unshare(CLONE_NEWUSER), EPERM, ENOSPC, 0);
AT_UNUSED static bool denied(const char *what, long ret, ...) {
    int e = errno;
    if (ret >= 0) {
        breached("%s succeeded (%ld)", what, ret);
        return false;
    }
    va_list ap;
    va_start(ap, ret);
    bool ok = false;
    for (int want; (want = va_arg(ap, int)) != 0;)
        if (want == e) ok = true;
    va_end(ap);
    if (ok)
        held("%s %s", what, ename(e));
    else
        breached("%s got past its lock (%s)", what, ename(e));
    errno = e;
    return ok;
}

// refused is the lenient form: any failure counts as stopped. Only for rows whose
// expected outcome names no errno.
AT_UNUSED static bool refused(const char *what, long ret) {
    int e = errno;
    if (ret >= 0) {
        breached("%s succeeded (%ld)", what, ret);
        return false;
    }
    held("%s %s", what, ename(e));
    errno = e;
    return true;
}

// --------------------------------------------------------------- raw syscalls

// All six arguments go to the kernel as full 64-bit words; libc would narrow them.
#define AT_L(x) ((long)(x))
#define sys0(nr) syscall((long)(nr), 0L, 0L, 0L, 0L, 0L, 0L)
#define sys1(nr, a) syscall((long)(nr), AT_L(a), 0L, 0L, 0L, 0L, 0L)
#define sys2(nr, a, b) syscall((long)(nr), AT_L(a), AT_L(b), 0L, 0L, 0L, 0L)
#define sys3(nr, a, b, c) syscall((long)(nr), AT_L(a), AT_L(b), AT_L(c), 0L, 0L, 0L)
#define sys4(nr, a, b, c, d) \
    syscall((long)(nr), AT_L(a), AT_L(b), AT_L(c), AT_L(d), 0L, 0L)
#define sys5(nr, a, b, c, d, e) \
    syscall((long)(nr), AT_L(a), AT_L(b), AT_L(c), AT_L(d), AT_L(e), 0L)
#define sys6(nr, a, b, c, d, e, f) \
    syscall((long)(nr), AT_L(a), AT_L(b), AT_L(c), AT_L(d), AT_L(e), AT_L(f))

// ----------------------------------------------------------------------- time

AT_UNUSED static uint64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

AT_UNUSED static void sleep_ms(long ms) {
    struct timespec t = {ms / 1000, (ms % 1000) * 1000000L};
    while (nanosleep(&t, &t) < 0 && errno == EINTR) {
    }
}

// ------------------------------------------------------------------- children

// What a forked act came to. `ret` and `err` are the act's return value and errno,
// valid only if `exited` is true.
struct act {
    bool forked;
    bool exited;
    bool signalled;
    bool timed_out;
    int sig;
    int code;
    long ret;
    int err;
};

struct at_cell {
    volatile long ret;
    volatile int err;
    volatile int done;
};

// in_child runs the act in a forked child and waits at most timeout_ms for it. A
// child that is late is killed and reported as timed out.
AT_UNUSED static struct act in_child(long (*fn)(void *), void *arg, int timeout_ms) {
    struct act a;
    memset(&a, 0, sizeof a);
    struct at_cell *cell = mmap(NULL, sizeof *cell, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (cell == MAP_FAILED) {
        a.err = errno;
        return a;
    }
    pid_t pid = fork();
    if (pid < 0) {
        a.err = errno;
        munmap(cell, sizeof *cell);
        return a;
    }
    if (pid == 0) {
        errno = 0;
        long r = fn(arg);
        cell->err = errno;
        cell->ret = r;
        cell->done = 1;
        _exit(0);
    }
    a.forked = true;
    uint64_t end = now_ms() + (uint64_t)timeout_ms;
    int st = 0;
    for (long nap = 50;;) {
        pid_t w = waitpid(pid, &st, WNOHANG);
        if (w == pid) break;
        if (w < 0 && errno != EINTR) break;
        if (now_ms() >= end) {
            a.timed_out = true;
            kill(pid, SIGKILL);
            while (waitpid(pid, &st, 0) < 0 && errno == EINTR) {
            }
            break;
        }
        struct timespec t = {0, nap * 1000L};
        nanosleep(&t, NULL);
        if (nap < 5000) nap *= 2;
    }
    if (WIFSIGNALED(st)) {
        a.signalled = true;
        a.sig = WTERMSIG(st);
    } else if (WIFEXITED(st)) {
        a.exited = true;
        a.code = WEXITSTATUS(st);
        a.ret = cell->ret;
        a.err = cell->err;
    }
    munmap(cell, sizeof *cell);
    return a;
}

// killed_by_seccomp tells the kernel's own kill from any other death.
AT_UNUSED static bool killed_by_seccomp(const struct act *a) {
    return a->signalled && a->sig == SIGSYS && !a->timed_out;
}

struct at_call {
    long nr;
    long a[6];
};

AT_UNUSED static long at_do_call(void *p) {
    struct at_call *c = p;
    return syscall(c->nr, c->a[0], c->a[1], c->a[2], c->a[3], c->a[4], c->a[5]);
}

// child_call makes one raw system call in a forked child, so that a filter that
// kills takes the child and not the verdict with it.
AT_UNUSED static struct act at_child_call(const struct at_call *c) {
    return in_child(at_do_call, (void *)c, 1000);
}
// Missing arguments are zero: child_call(SYS_personality, 0x40000).
#define child_call(...) at_child_call(&(struct at_call)AT_CALL_(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0))
#define AT_CALL_(nr_, a_, b_, c_, d_, e_, f_, ...) \
    {(long)(nr_), {AT_L(a_), AT_L(b_), AT_L(c_), AT_L(d_), AT_L(e_), AT_L(f_)}}

// In the list of denied_act, AT_KILL accepts a kill by the seccomp filter.
#define AT_KILL (-1)

// denied_act is `denied` for an act that ran in a child.
AT_UNUSED static bool denied_act(const char *what, struct act a, ...) {
    va_list ap;
    bool ok = false;
    va_start(ap, a);
    for (int want; (want = va_arg(ap, int)) != 0;) {
        if (want == AT_KILL)
            ok |= killed_by_seccomp(&a);
        else
            ok |= a.exited && a.ret < 0 && a.err == want;
    }
    va_end(ap);
    if (!a.forked)
        breached("%s not tried: fork %s", what, ename(a.err));
    else if (a.timed_out)
        breached("%s did not return", what);
    else if (a.signalled && ok)
        held("%s killed by the filter", what);
    else if (a.signalled)
        breached("%s ended by signal %d", what, a.sig);
    else if (a.ret >= 0)
        breached("%s succeeded (%ld)", what, a.ret);
    else if (ok)
        held("%s %s", what, ename(a.err));
    else
        breached("%s got past its lock (%s)", what, ename(a.err));
    return ok && a.forked && !a.timed_out;
}

// ---------------------------------------------------------------------- files

// read_file reads up to cap-1 bytes and terminates them. Returns the length, or -1
// with errno.
AT_UNUSED static ssize_t read_file(const char *path, char *buf, size_t cap) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return -1;
    size_t n = 0;
    while (n + 1 < cap) {
        ssize_t r = read(fd, buf + n, cap - 1 - n);
        if (r < 0) {
            if (errno == EINTR) continue;
            int e = errno;
            close(fd);
            if (n > 0) break;
            errno = e;
            return -1;
        }
        if (r == 0) break;
        n += (size_t)r;
    }
    buf[n] = 0;
    close(fd);
    return (ssize_t)n;
}

// write_file opens an existing file for writing and writes the text. It creates and
// truncates nothing. Returns the bytes written, or -1 with errno.
AT_UNUSED static ssize_t write_file(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return -1;
    ssize_t w = write(fd, text, strlen(text));
    int e = errno;
    close(fd);
    errno = e;
    return w;
}

// hash_file is FNV-1a over the content, which is enough to notice a changed byte.
AT_UNUSED static uint64_t hash_file(const char *path) {
    uint64_t h = 1469598103934665603ull;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    unsigned char b[16384];
    ssize_t r;
    while ((r = read(fd, b, sizeof b)) > 0)
        for (ssize_t i = 0; i < r; i++) h = (h ^ b[i]) * 1099511628211ull;
    close(fd);
    return h;
}

// find_bytes is memmem without the libc quirks on empty needles.
AT_UNUSED static const char *find_bytes(const char *hay, size_t n, const char *needle) {
    size_t m = strlen(needle);
    if (m == 0 || n < m) return NULL;
    return memmem(hay, n, needle, m);
}

// status_value reads one field of /proc/self/status as text. Returns false if the
// field or the file is missing.
AT_UNUSED static bool status_value(const char *field, char *out, size_t cap) {
    static char buf[8192];
    ssize_t n = read_file("/proc/self/status", buf, sizeof buf);
    if (n <= 0) return false;
    size_t m = strlen(field);
    for (char *l = buf; l && *l; l = strchr(l, '\n') ? strchr(l, '\n') + 1 : NULL) {
        if (strncmp(l, field, m) == 0 && l[m] == ':') {
            char *v = l + m + 1;
            while (*v == ' ' || *v == '\t') v++;
            size_t k = strcspn(v, "\n");
            if (k >= cap) k = cap - 1;
            memcpy(out, v, k);
            out[k] = 0;
            return true;
        }
    }
    return false;
}

// writable_dir gives a directory that the sandbox user may write to.
AT_UNUSED static const char *writable_dir(void) {
    // Where the sandbox shares the host's directories, its own is named.
    const char *own = getenv("TMPDIR");
    if (own && access(own, W_OK) == 0) return own;
    static const char *dirs[] = {"/workspace", "/tmp", "/home/u", "/var/tmp", "/dev/shm", NULL};
    for (int i = 0; dirs[i]; i++)
        if (access(dirs[i], W_OK) == 0) return dirs[i];
    return "/tmp";
}

#endif
