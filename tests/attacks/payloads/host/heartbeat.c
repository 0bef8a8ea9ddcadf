// A well-behaved neighbour: one beat every 10 ms, each on a line of its own with
// the microseconds since the last one. It tells of trouble that others cause.
#include "attack.h"

static uint64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

int main(void) {
    uint64_t last = now_us();
    for (unsigned long beat = 0;; beat++) {
        sleep_ms(10);
        uint64_t now = now_us();
        char line[64];
        int n = snprintf(line, sizeof line, "%lu %llu\n", beat, (unsigned long long)(now - last));
        at_put(line, (size_t)n);
        last = now;
    }
}
