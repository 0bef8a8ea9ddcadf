// args: [count=1000] [dir=/tmp]
// OUT-12: floods whatever counts by name: process names, file names, program names and
// metric-like lines, all different, and forged trace headers.
#include "res/bound.h"

int main(int argc, char **argv) {
    long most = number(argc, argv, 1, 1000, 2000);
    const char *dir = word(argc, argv, 2, "/tmp");
    uint64_t end = now_ms() + 4500;
    char path[320], self[512], name[64];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (argc > 3 && is(argv[3], "leaf")) return 0;
    if (n > 0) self[n] = 0;
    NOTE("traceparent: 00-0123456789abcdef0123456789abcdef-0123456789abcdef-01");
    NOTE("baggage: tenant=other,sandbox.id=other");
    long i = 0;
    for (; i < most && now_ms() < end; i++) {
        snprintf(name, sizeof name, "label-%ld", i);
        pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_NAME, name);
            char env[96];
            snprintf(env, sizeof env, "TRACEPARENT=00-%032lx-%016lx-01", i, i);
            char *args[] = {name, "0", "/tmp", "leaf", NULL}, *envp[] = {env, NULL};
            if (n > 0 && i % 4 == 0) execve(self, args, envp);
            _exit(0);
        }
        if (pid > 0) waitpid(pid, NULL, 0);
        snprintf(path, sizeof path, "%s/out12-%ld", dir, i);
        close(open(path, O_WRONLY | O_CREAT, 0644));
        NOTE("belljar_calls_total{label=\"%ld\",tenant=\"t%ld\"} 1", i, i);
    }
    HELD("%ld names; the host's metrics, logs and memory decide", i);
    return 0;
}
