// args: none
// KRN-11: open performance counters of several kinds.
#include "attack.h"
#include <linux/perf_event.h>

int main(void) {
    static const struct {
        const char *name;
        unsigned type;
        uint64_t config;
        int pid, cpu;
    } all[] = {{"perf(software clock, self)", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, 0, -1},
               {"perf(dummy, self)", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY, 0, -1},
               {"perf(cycles, self)", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, 0, -1},
               {"perf(context switches, cpu 0)", PERF_TYPE_SOFTWARE,
                PERF_COUNT_SW_CONTEXT_SWITCHES, -1, 0},
               {"perf(breakpoint)", PERF_TYPE_BREAKPOINT, 0, 0, -1},
               {"perf(tracepoint 1)", PERF_TYPE_TRACEPOINT, 1, 0, -1}};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        struct perf_event_attr a;
        memset(&a, 0, sizeof a);
        a.size = sizeof a;
        a.type = all[i].type;
        a.config = all[i].config;
        a.disabled = 1;
        a.exclude_kernel = 1;
        a.exclude_hv = 1;
        denied_act(all[i].name,
                   child_call(SYS_perf_event_open, &a, all[i].pid, all[i].cpu, -1, 0), EPERM, 0);
    }
    return verdict();
}
