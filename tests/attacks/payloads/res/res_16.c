// args: [deaths=1000]
// RES-16: dies in every way that the kernel likes to write about: bad reads, bad
// instructions, traps, and calls of a foreign architecture.
#include "res/bound.h"

static long die(void *how) {
    switch (*(long *)how % 4) {
    case 0:
        *(volatile int *)16 = 1;
        break;
    case 1:
        __asm__ volatile("ud2");
        break;
    case 2:
        ((void (*)(void))0x10)();
        break;
    default: {
        // The 32-bit entry: number 20 is getpid there, harmless if it is let through.
        long r = 20;
        __asm__ volatile("int $0x80" : "+a"(r) : : "memory", "r8", "r9", "r10", "r11");
        return r;
    }
    }
    return 0;
}

int main(int argc, char **argv) {
    long most = number(argc, argv, 1, 1000, 2000), by_sys = 0, by_fault = 0, lived = 0;
    uint64_t end = now_ms() + 4500;
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    for (long i = 0; i < most && now_ms() < end; i++) {
        struct act a = in_child(die, &i, 1000);
        if (killed_by_seccomp(&a))
            by_sys++;
        else if (a.signalled)
            by_fault++;
        else
            lived++;
    }
    NOTE("LIVED=%ld", lived);
    HELD("%ld faults, %ld seccomp deaths; the host's log decides", by_fault, by_sys);
    return 0;
}
