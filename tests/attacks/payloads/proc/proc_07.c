// args: [host pid]...
// PROC-07: looks for processes of the host by signalling every number. Signal 0 is
// enough to learn what a real signal would do, and harms nobody in a control run.
#include "res/bound.h"

int main(int argc, char **argv) {
    char text[32];
    long most = 32768;
    if (read_file("/proc/sys/kernel/pid_max", text, sizeof text) > 0) most = atol(text);
    if (most > 4194304) most = 4194304;
    uint64_t end = now_ms() + 4000;

    for (int i = 1; i < argc; i++) {
        pid_t pid = atoi(argv[i]);
        if (pid < 2) continue;
        int r = kill(pid, 0);
        if (r == 0 || errno == EPERM)
            breached("host pid %d answers (%s)", pid, ename(r ? errno : 0));
        else
            held("host pid %d %s", pid, ename(errno));
        long fd = sys2(434 /* pidfd_open */, pid, 0);
        if (fd >= 0) breached("pidfd of host pid %d", pid);
    }
    long answers = 0, asked = 0;
    for (long pid = 2; pid <= most && now_ms() < end; pid++, asked++)
        if (pid != getpid() && (kill((pid_t)pid, 0) == 0 || errno == EPERM)) answers++;
    // The sandbox holds a guest and this call: a crowd can only be the host.
    if (answers > 16)
        breached("%ld of %ld pids answer", answers, asked);
    else
        held("%ld of %ld pids answer", answers, asked);
    return verdict();
}
