// args: plant [seconds=5] | victim
// PROC-14: a survivor of call 1 that works during call 2: it writes into the other
// call's output and burns CPU there. Without a network yet, output and CPU are what
// a call can be wrongly charged with.
#include "proc/outlive.h"

#define BEAT "/tmp/proc14.beat"
#define FORGED "/tmp/proc14.forged"

// forge looks for the victim by name and writes to its standard output.
static void forge(volatile uint64_t *forged) {
    static const char line[] = "FORGED-BY-CALL-1\n";
    DIR *d = opendir("/proc");
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));) {
        char path[320], comm[32];
        if (e->d_name[0] < '1' || e->d_name[0] > '9') continue;
        snprintf(path, sizeof path, "/proc/%s/comm", e->d_name);
        if (read_file(path, comm, sizeof comm) <= 0 || strncmp(comm, "bj-victim", 9)) continue;
        snprintf(path, sizeof path, "/proc/%s/fd/1", e->d_name);
        int fd = open(path, O_WRONLY | O_APPEND | O_NONBLOCK);
        if (fd < 0) continue;
        if (write(fd, line, sizeof line - 1) > 0) ++*forged;
        close(fd);
    }
    closedir(d);
}

int main(int argc, char **argv) {
    volatile uint64_t *beat = beat_map(BEAT), *forged = beat_map(FORGED);
    if (!beat || !forged) return unstaged("no counter file (%s)", ename(errno));
    if (is(word(argc, argv, 1, "plant"), "plant")) {
        uint64_t end = now_ms() + (uint64_t)number(argc, argv, 2, 5, 15) * 1000;
        *beat = *forged = 0;
        pid_t pid = fork();
        if (pid == 0) {
            if (fork() > 0) _exit(0);
            go_dark("bj-proc14");
            while (now_ms() < end) {
                ++*beat;
                forge(forged);
                burn(now_ms() + 20);
                sleep_ms(20);
            }
            _exit(0);
        }
        waitpid(pid, NULL, 0);
        for (int i = 0; i < 100 && *beat == 0; i++) sleep_ms(10);
        if (*beat == 0) return unstaged("the survivor did not start");
        HELD("planted; call 2 decides");
        return 0;
    }

    prctl(PR_SET_NAME, "bj-victim");
    if (*beat == 0) return unstaged("no survivor was planted");
    uint64_t before = *beat;
    for (int i = 0; i < 15; i++) {
        NOTE("OWN-OUTPUT %d", i);
        sleep_ms(100);
    }
    NOTE("CPU_MS=%ld", cpu_ms(RUSAGE_SELF));
    if (*forged)
        BREACH("call 1 wrote %lu lines into this call's output", (unsigned long)*forged);
    else if (*beat != before)
        BREACH("call 1 still ran during call 2, though it could not forge output");
    else
        HELD("nothing of call 1 ran during call 2");
    return 0;
}
