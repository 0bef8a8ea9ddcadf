// args: none
// KRN-06: slip past a filter by number, with x32 numbers and a dirty number register.
#include "attack.h"

#define X32 0x40000000L

// The number is loaded as a full 64-bit word, which libc's syscall() also does, but
// here nothing between us and the kernel can clean it.
static long raw(long nr, long a, long b, long c) {
    long r;
    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"(nr), "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "memory");
    if (r < 0 && r > -4096) {
        errno = (int)-r;
        return -1;
    }
    return r;
}

static long act(void *p) {
    long *v = p;
    return raw(v[0], v[1], v[2], v[3]);
}

int main(void) {
    static const struct {
        const char *name;
        long v[4];
    } x32[] = {{"x32 getpid", {X32 + SYS_getpid}},
               {"x32 socket(AF_ALG)", {X32 + SYS_socket, 38, SOCK_SEQPACKET, 0}},
               {"x32 unshare", {X32 + SYS_unshare, CLONE_NEWUSER}},
               {"x32 ptrace", {X32 + 521, 16, 1}},
               {"x32 ioctl", {X32 + 514, 0, 0x5412}},
               {"x32 process_vm_readv", {X32 + 539, 1}},
               {"x32 keyctl", {X32 + SYS_keyctl, 0, -3}},
               {"x32 io_uring_setup", {X32 + 425, 4}},
               {"number -1 with x32 bit", {X32 | 0x3fffffff}}};
    for (unsigned i = 0; i < sizeof x32 / sizeof *x32; i++)
        denied_act(x32[i].name, in_child(act, (void *)x32[i].v, 1000), ENOSYS, AT_KILL, 0);

    // The kernel reads only 32 bits of the number. A filter must judge the same ones,
    // so a denied call stays denied whatever stands above them.
    static const struct {
        const char *name;
        long v[4];
    } dirty[] = {{"dirty unshare(0)", {0x100000000L | SYS_unshare, 0}},
                 {"negative dirty unshare(0)", {(long)0xffffffff00000000UL | SYS_unshare, 0}},
                 {"dirty keyctl", {0x7fff00000000L | SYS_keyctl, 0, -3}}};
    for (unsigned i = 0; i < sizeof dirty / sizeof *dirty; i++)
        denied_act(dirty[i].name, in_child(act, (void *)dirty[i].v, 1000), EPERM, ENOSYS, AT_KILL,
                   0);
    return verdict();
}
