// args: [pid leaked from the host or from another sandbox]...
// SYS-14: use a shared host uid to reach a process of another sandbox. Run in two
// sandboxes at once; the harness compares the uid that each has on the host.
#include "attack.h"
#include <sys/ptrace.h>

static void attack(pid_t pid) {
    char path[64], what[96], buf[16];
    snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    refused(path, fd);
    if (fd >= 0) close(fd);
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    ssize_t n = read_file(path, buf, sizeof buf);
    refused(path, n);
    snprintf(what, sizeof what, "signal 0 to %d", (int)pid);
    denied(what, kill(pid, 0), ESRCH, EPERM, 0);
    struct iovec v = {buf, 8};
    snprintf(what, sizeof what, "process_vm_readv(%d)", (int)pid);
    denied_act(what, child_call(SYS_process_vm_readv, pid, &v, 1, &v, 1, 0), EPERM, ESRCH, ENOSYS,
               0);
    snprintf(what, sizeof what, "pidfd_open(%d)", (int)pid);
    denied_act(what, child_call(434, pid, 0), EPERM, ESRCH, EINVAL, ENOSYS, 0);
}

int main(int argc, char **argv) {
    static const char *maps[] = {"/proc/self/uid_map", "/proc/self/gid_map", NULL};
    for (int i = 0; maps[i]; i++) {
        char buf[1024];
        if (read_file(maps[i], buf, sizeof buf) <= 0) {
            held("%s %s", maps[i], ename(errno));
            continue;
        }
        NOTE("%s: %s", maps[i], buf);
        char *save = NULL;
        for (char *l = strtok_r(buf, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
            unsigned long in, out, count;
            if (sscanf(l, "%lu %lu %lu", &in, &out, &count) != 3) continue;
            if (count > 65536) breached("%s maps %lu ids", maps[i], count);
            // Host ids below this belong to people and services.
            if (out < 65536) breached("%s maps %lu to host id %lu", maps[i], in, out);
        }
    }
    if (at_breach_count == 0) held("our ids lie in a range of their own");
    for (int i = 1; i < argc; i++)
        if (atoi(argv[i]) > 0) attack(atoi(argv[i]));
    return verdict();
}
