// args: none
// PROC-04: kills pid 1, stops the agent, and kills everything with one broadcast.
// Never run it with the pid namespace switched off.
#include "res/bound.h"

int main(void) {
    const int signals[] = {SIGSTOP, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGKILL};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        char what[32];
        snprintf(what, sizeof what, "kill(1, %d)", signals[i]);
        denied(what, kill(1, signals[i]), EPERM, ESRCH, 0);
    }

    // Helpers of the agent have another uid, so probing them answers EPERM.
    int mine = 0, others = 0;
    for (pid_t pid = 2; pid < 32768; pid++) {
        if (pid == getpid()) continue;
        if (kill(pid, 0) == 0) {
            mine++;
        } else if (errno == EPERM) {
            others++;
            denied("SIGSTOP to a process of another uid", kill(pid, SIGSTOP), EPERM, ESRCH, 0);
        }
    }
    NOTE("%d processes of this uid, %d of others", mine, others);
    // A crowd means that the pid namespace is not our own. The broadcast would then
    // hit the host, so the suite stops here: that it could is the finding.
    if (mine > 40) {
        breached("%d foreign processes can be signalled; broadcast left out", mine);
        return verdict();
    }

    pid_t victim = fork();
    if (victim == 0) {
        sleep_ms(3000);
        _exit(0);
    }
    int st = 0;
    int r = kill(-1, SIGKILL);
    NOTE("kill(-1, SIGKILL) = %d %s", r, ename(r < 0 ? errno : 0));
    if (victim > 0) waitpid(victim, &st, 0);
    if (victim > 0 && WIFSIGNALED(st)) NOTE("the broadcast reached this call's own child");
    if (kill(1, 0) == 0 || errno == EPERM)
        held("pid 1 is still there after the broadcast");
    else
        breached("pid 1 is gone (%s)", ename(errno));
    return verdict();
}
