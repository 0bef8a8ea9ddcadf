// args: [seconds=5]
// PROC-09: processes that wait where a signal comes in late: parents of vfork (state
// D), openers of a FIFO, waiters for a lock. The host freezes and then kills them.
#include "proc/outlive.h"

static char state(pid_t pid) {
    char path[48], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (read_file(path, text, sizeof text) <= 0) return '?';
    char *p = strrchr(text, ')');
    return p && p[1] ? p[2] : '?';
}

int main(int argc, char **argv) {
    long seconds = number(argc, argv, 1, 5, 60);
    char states[13] = {0};
    pid_t pids[12];
    unlink("/tmp/proc09.fifo");
    mkfifo("/tmp/proc09.fifo", 0600);
    int lock = open("/tmp/proc09.lock", O_RDWR | O_CREAT, 0600);
    struct flock whole = {.l_type = F_WRLCK};
    fcntl(lock, F_SETLK, &whole);
    for (int i = 0; i < 12; i++) {
        pids[i] = fork();
        if (pids[i] != 0) continue;
        prctl(PR_SET_NAME, "bj-proc09");
        deafen();
        if (i < 6) {
            if (vfork() == 0) {
                struct timespec t = {seconds, 0};
                nanosleep(&t, NULL);
                _exit(0);
            }
        } else if (i < 9) {
            open("/tmp/proc09.fifo", O_RDONLY);
        } else {
            fcntl(lock, F_SETLKW, &whole);
        }
        _exit(0);
    }
    sleep_ms(200);
    for (int i = 0; i < 12; i++) states[i] = state(pids[i]);
    NOTE("ready, states %s", states);
    sleep_ms(seconds * 1000);
    for (int i = 0; i < 12; i++)
        if (pids[i] > 0) kill(pids[i], SIGKILL);
    BREACH("stuck processes were left alone for %ld s", seconds);
    return 0;
}
