// args: [canary secret held by the agent] [agent pid, default 1]
// KRN-13: read or steer the guest agent with ptrace, process_vm_readv, pidfd_getfd and /proc.
#include "attack.h"
#include <sys/ptrace.h>

static const char *canary;

static void look(const char *where, const char *buf, ssize_t n) {
    if (n <= 0) return;
    breached("%s is readable (%zd bytes)", where, n);
    if (canary && find_bytes(buf, (size_t)n, canary)) breached("canary secret found in %s", where);
}

// PTRACE_SEIZE stops nothing, so even a success leaves the agent running; the tracer
// is this short-lived child.
static long seize(void *p) {
    return sys4(SYS_ptrace, PTRACE_SEIZE, *(pid_t *)p, 0, 0);
}

int main(int argc, char **argv) {
    canary = argc > 1 && *argv[1] ? argv[1] : NULL;
    pid_t agent = argc > 2 ? atoi(argv[2]) : 1;
    char buf[4096], path[64], what[80];

    denied_act("ptrace(SEIZE agent)", in_child(seize, &agent, 1000), EPERM, ESRCH, 0);

    struct iovec local = {buf, sizeof buf}, remote = {(void *)0x400000, sizeof buf};
    denied_act("process_vm_readv(agent)",
               child_call(SYS_process_vm_readv, agent, &local, 1, &remote, 1, 0), EPERM, ESRCH, 0);
    denied_act("process_vm_writev(agent, 0 bytes)",
               child_call(SYS_process_vm_writev, agent, &local, 0, &remote, 0, 0), EPERM, ESRCH, 0);
    denied_act("kcmp(agent)", child_call(SYS_kcmp, getpid(), agent, 1, 0, 0), EPERM, ESRCH, 0);

    int pidfd = (int)sys2(434, agent, 0);
    for (int fd = 0; fd < 4; fd++) {
        snprintf(what, sizeof what, "pidfd_getfd(agent, %d)", fd);
        // The call itself has to be refused, even where no pidfd could be opened.
        denied_act(what, child_call(438, pidfd, fd, 0), EPERM, ESRCH, 0);
    }
    denied_act("process_madvise(agent)", child_call(440, pidfd, &remote, 1, MADV_COLD, 0), EPERM,
               ESRCH, 0);

    static const char *files[] = {"mem", "environ", "maps", "auxv", "syscall", "stack", "io", NULL};
    for (int i = 0; files[i]; i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", (int)agent, files[i]);
        if (strcmp(files[i], "mem") == 0) {
            int fd = open(path, O_RDONLY | O_CLOEXEC);
            refused(path, fd);
            continue;
        }
        ssize_t n = read_file(path, buf, sizeof buf);
        if (n < 0)
            held("%s %s", path, ename(errno));
        else
            look(path, buf, n);
    }

    // The same calls on a child of our own show whether the filter is in the way or
    // only the agent's identity.
    pid_t kid = fork();
    if (kid == 0) {
        pause();
        _exit(0);
    }
    if (kid > 0) {
        denied_act("ptrace(SEIZE own child)", in_child(seize, &kid, 1000), EPERM, ENOSYS, 0);
        denied_act("process_vm_readv(self)",
                   child_call(SYS_process_vm_readv, getpid(), &local, 1, &local, 1, 0), EPERM,
                   ENOSYS, 0);
        kill(kid, SIGKILL);
        waitpid(kid, NULL, 0);
    }
    denied_act("ptrace(TRACEME)", child_call(SYS_ptrace, PTRACE_TRACEME, 0, 0, 0), EPERM, ENOSYS,
               0);
    return verdict();
}
