// args: none
// KRN-05: reach socket() through the 32-bit socketcall of int 0x80, whose arguments
// sit behind a pointer and would pass any argument filter.
#include "attack.h"

static long int80(long nr, long b, long c) {
    long r;
    __asm__ volatile("int $0x80"
                     : "=a"(r)
                     : "a"(nr), "b"(b), "c"(c)
                     : "memory", "r8", "r9", "r10", "r11");
    r = (int)r;
    if (r < 0) {
        errno = (int)-r;
        return -1;
    }
    return r;
}

static long call_socketcall(void *p) {
    return int80(102, 1, (long)p);
}

static long call_getpid(void *unused) {
    return int80(20, 0, 0);
}

static long call_unshare(void *unused) {
    return int80(310, CLONE_NEWUSER, 0);
}

static void judge(const char *what, struct act a) {
    if (killed_by_seccomp(&a))
        held("%s killed by the filter", what);
    else if (a.signalled && a.sig == SIGSEGV && !a.timed_out)
        held("%s: kernel has no 32-bit entry (SIGSEGV)", what);
    else if (!a.forked)
        breached("%s not tried: fork %s", what, ename(a.err));
    else
        breached("%s answered %ld (%s)", what, a.ret, ename(a.err));
}

int main(void) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    // 32-bit pointers need an argument block in the low 4 GiB.
    unsigned *args = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    if (args != MAP_FAILED) {
        args[0] = 38;
        args[1] = SOCK_SEQPACKET;
        args[2] = 0;
        judge("int80 socketcall(AF_ALG)", in_child(call_socketcall, args, 1000));
        args[0] = AF_PACKET;
        args[1] = SOCK_RAW;
        judge("int80 socketcall(AF_PACKET)", in_child(call_socketcall, args, 1000));
    }
    judge("int80 getpid", in_child(call_getpid, NULL, 1000));
    judge("int80 unshare", in_child(call_unshare, NULL, 1000));
    return verdict();
}
