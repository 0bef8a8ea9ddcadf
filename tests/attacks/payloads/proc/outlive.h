// Helpers for payloads that leave a process behind and look for it in a later call.
//
// A survivor counts in a shared file: a later call sees the number move, even where
// /proc hides the process. It also carries a name, so that the host can search its
// own process table after the sandbox is gone.
#ifndef BELLJAR_OUTLIVE_H
#define BELLJAR_OUTLIVE_H

#include "res/bound.h"

// beat_map opens the counter. The file stays for the check.
AT_UNUSED static volatile uint64_t *beat_map(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, 8) < 0) return NULL;
    void *p = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return p == MAP_FAILED ? NULL : p;
}

// beat_rate counts beats over a while: -1 if there never was a survivor.
AT_UNUSED static long beat_rate(const char *path, long ms) {
    uint64_t a = 0, b = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    bool ok = pread(fd, &a, 8, 0) == 8 && a > 0;
    sleep_ms(ms);
    ok = ok && pread(fd, &b, 8, 0) == 8;
    close(fd);
    return ok ? (long)(b - a) : -1;
}

// check_beat is the whole second half of a plant and check pair.
AT_UNUSED static int check_beat(const char *path, const char *what) {
    long n = beat_rate(path, 400);
    if (n < 0) return unstaged("%s left no counter, so it never ran", what);
    if (n > 0)
        BREACH("%s is still alive after its call (%ld beats in 400 ms)", what, n);
    else
        HELD("%s is gone: its counter stands still", what);
    return 0;
}

AT_UNUSED static void deafen(void) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    for (int s = 1; s < 65; s++) signal(s, SIG_IGN);
}

// go_dark cuts every tie that a naive supervisor could follow: session, process
// group, terminal, pipes and signals.
AT_UNUSED static void go_dark(const char *name) {
    setsid();
    prctl(PR_SET_NAME, name);
    deafen();
    for (int fd = 0; fd < 1024; fd++) close(fd);
}

AT_UNUSED static void beat_until(volatile uint64_t *beat, uint64_t end) {
    while (now_ms() < end) {
        ++*beat;
        sleep_ms(20);
    }
}

#endif
