// args: [seconds=3] [MiB=64]
// RES-22: works in bursts that fall between samples and reports what it really used.
// The bill must be at least that.
#include "res/bound.h"

int main(int argc, char **argv) {
    uint64_t end = now_ms() + (uint64_t)number(argc, argv, 1, 3, 5) * 1000;
    long mib = number(argc, argv, 2, 64, 256), bursts = 0;
    while (now_ms() < end) {
        char *p = mmap(NULL, mib * MIB, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) return unstaged("mmap %s", ename(errno));
        memset(p, 0x5a, mib * MIB);
        munmap(p, mib * MIB);
        if (fork() == 0) {
            burn(now_ms() + 3);
            _exit(0);
        }
        while (wait(NULL) > 0) {
        }
        bursts++;
        sleep_ms(30);
    }
    NOTE("CPU_MS=%ld PEAK_MIB=%ld BURSTS=%ld",
         cpu_ms(RUSAGE_SELF) + cpu_ms(RUSAGE_CHILDREN), mib, bursts);
    HELD("the host compares its bill");
    return 0;
}
