// args: <cpu millis of the sandbox> [seconds=3]
// RES-08: keeps every core busy and makes the others flush: futex, yield, membarrier
// and mprotect storms. Also asks for a better place in the queue.
#include "res/bound.h"
#include <linux/futex.h>
#include <linux/membarrier.h>

static uint64_t end;

static void *storm(void *kind) {
    static int word_;
    volatile unsigned long x = 1;
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    while (now_ms() < end)
        for (int i = 0; i < 200; i++) switch ((long)kind % 5) {
            case 0:
                for (int j = 0; j < 500; j++) x = x * 3 + 1;
                break;
            case 1:
                sys4(SYS_futex, &word_, FUTEX_WAKE, 1, 0);
                break;
            case 2:
                sched_yield();
                break;
            case 3:
                sys3(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
                break;
            default:
                page[i] = 1;
                mprotect(page, 4096, i & 1 ? PROT_READ | PROT_WRITE : PROT_READ);
                mprotect(page, 4096, PROT_READ | PROT_WRITE);
            }
    return NULL;
}

int main(int argc, char **argv) {
    long millis = number(argc, argv, 1, 1000, 1024000);
    long seconds = number(argc, argv, 2, 3, 5);
    struct sched_param rt = {.sched_priority = 1};
    refused("SCHED_FIFO", sched_setscheduler(0, SCHED_FIFO, &rt));
    refused("nice -5", setpriority(PRIO_PROCESS, 0, -5));
    sys3(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
    uint64_t start = now_ms();
    end = start + (uint64_t)seconds * 1000;
    pthread_t t[10];
    long n = 0;
    for (long i = 0; i < 10; i++)
        if (pthread_create(&t[n], NULL, storm, (void *)i) == 0) n++;
    for (long i = 0; i < n; i++) pthread_join(t[i], NULL);
    long wall = (long)(now_ms() - start), used = cpu_ms(RUSAGE_SELF);
    // A quarter above the share allows for one period of burst at either end.
    long fair = wall * millis / 1000 * 5 / 4 + 200;
    if (used > fair)
        breached("%ld ms of CPU in %ld ms, fair share %ld", used, wall, fair);
    else
        held("%ld ms of CPU in %ld ms, fair share %ld", used, wall, fair);
    return verdict();
}
