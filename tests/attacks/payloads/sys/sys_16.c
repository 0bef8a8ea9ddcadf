// args: none
// SYS-16: look for the clocks and the shared cache that a prime-and-probe needs. No
// software lock stops this; the outcome is a documented residue and the measurements
// show how wide it is.
#include "attack.h"

static inline uint64_t stamp(void) {
    unsigned lo, hi, aux;
    __asm__ volatile("rdtscp" : "=a"(lo), "=d"(hi), "=c"(aux)::"memory");
    return (uint64_t)hi << 32 | lo;
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static long measure(void *unused) {
    static char line[4096] __attribute__((aligned(64)));
    static uint64_t hot[512], cold[512];
    volatile char *p = line + 1024;
    for (int i = 0; i < 512; i++) {
        (void)*p;
        uint64_t a = stamp();
        (void)*p;
        hot[i] = stamp() - a;
        __asm__ volatile("clflush (%0)\n\tmfence" ::"r"(p) : "memory");
        a = stamp();
        (void)*p;
        cold[i] = stamp() - a;
    }
    qsort(hot, 512, sizeof *hot, by_value);
    qsort(cold, 512, sizeof *cold, by_value);
    NOTE("cycle counter readable; cached %llu cycles, uncached %llu",
         (unsigned long long)hot[256], (unsigned long long)cold[256]);
    return cold[256] > hot[256] + 40;
}

int main(void) {
    struct timespec r;
    clock_getres(CLOCK_MONOTONIC, &r);
    NOTE("clock resolution %ld ns", r.tv_nsec);
    struct act a = in_child(measure, NULL, 1000);
    if (a.signalled)
        held("the cycle counter is switched off (signal %d)", a.sig);
    else
        held("residual: cache timing %s", a.ret > 0 ? "is visible" : "is not visible");
    // Which processor is whose sibling is what an attacker would need next.
    static const char *maps[] = {"/sys/devices/system/cpu/smt/active",
                                 "/sys/devices/system/cpu/cpu0/topology/thread_siblings_list",
                                 "/sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list",
                                 "/sys/devices/system/cpu/vulnerabilities/spectre_v2", NULL};
    char buf[256];
    for (int i = 0; maps[i]; i++) {
        ssize_t n = read_file(maps[i], buf, sizeof buf);
        if (n > 0)
            breached("%s is readable", maps[i]);
        else
            held("%s %s", maps[i], n < 0 ? ename(errno) : "empty");
    }
    return verdict();
}
