// Bounds for payloads that exhaust something.
//
// A control run lets the act succeed, so every amount has a ceiling that no
// argument can raise.
#ifndef BELLJAR_BOUND_H
#define BELLJAR_BOUND_H

#include "attack.h"

#define MIB (1024L * 1024L)

// number reads argument i, or takes the fallback; it never exceeds the ceiling.
AT_UNUSED static long number(int argc, char **argv, int i, long fallback, long ceiling) {
    long n = i < argc ? atol(argv[i]) : fallback;
    if (n < 0) n = 0;
    return n > ceiling ? ceiling : n;
}

AT_UNUSED static const char *word(int argc, char **argv, int i, const char *fallback) {
    return i < argc ? argv[i] : fallback;
}

AT_UNUSED static bool is(const char *a, const char *b) { return strcmp(a, b) == 0; }

// unstaged says that the act never took place. That is neither HELD nor BREACH: the
// harness has to count exit code 2 as a failed test, never as a pass.
#define unstaged(...) (NOTE("unstaged: " __VA_ARGS__), 2)

// shared gives zeroed memory that forked children see too.
AT_UNUSED static void *shared(size_t n) {
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

// burn keeps one core busy.
AT_UNUSED static void burn(uint64_t until_ms) {
    volatile uint64_t x = 1;
    while (now_ms() < until_ms)
        for (int i = 0; i < 20000; i++) x = x * 6364136223846793005ull + 1;
}

AT_UNUSED static long cpu_ms(int who) {
    struct rusage u;
    getrusage(who, &u);
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000 +
           (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1000;
}

#endif
