// args: none
// SYS-01: point core_pattern at a program of ours, then crash and leave a core.
#include "attack.h"

static long crash(void *p) {
    (void)!chdir((const char *)p);
    struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_CORE, &all);
    // Half the way is often open: the soft limit up to the hard one.
    getrlimit(RLIMIT_CORE, &all);
    all.rlim_cur = all.rlim_max;
    setrlimit(RLIMIT_CORE, &all);
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    raise(SIGSEGV);
    abort();
}

int main(void) {
    static const char *paths[] = {"/proc/sys/kernel/core_pattern",
                                  "/proc/sys/kernel/core_pipe_limit",
                                  "/proc/sys/kernel/core_uses_pid", "/proc/sys/fs/suid_dumpable",
                                  "/proc/self/root/proc/sys/kernel/core_pattern", NULL};
    for (int i = 0; paths[i]; i++) {
        char now[512];
        ssize_t n = read_file(paths[i], now, sizeof now);
        int e = errno;
        // The old value is written back: it proves the right without using it.
        if (n >= 0 && write_file(paths[i], now) >= 0)
            breached("%s is writable", paths[i]);
        else
            held("write %s %s", paths[i], ename(n < 0 ? e : errno));
        int fd = open(paths[i], O_WRONLY | O_CLOEXEC);
        if (fd >= 0) {
            breached("%s opens for writing", paths[i]);
            close(fd);
        }
    }

    struct rlimit r;
    getrlimit(RLIMIT_CORE, &r);
    if (r.rlim_max == 0)
        held("RLIMIT_CORE 0");
    else
        breached("RLIMIT_CORE can be raised");

    // The crash happens in an empty directory of our own, so any core is ours to see.
    char dir[256];
    snprintf(dir, sizeof dir, "%s/sys01.%d", writable_dir(), (int)getpid());
    mkdir(dir, 0700);
    pid_t pid = fork();
    if (pid == 0) {
        crash(dir);
        _exit(0);
    }
    int st = 0;
    waitpid(pid, &st, 0);
    if (!WIFSIGNALED(st)) NOTE("the crash did not end the child");
    if (WIFSIGNALED(st) && WCOREDUMP(st))
        breached("the kernel says that a core was dumped");
    else
        held("no core flag");
    DIR *d = opendir(dir);
    int found = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        found++;
        breached("core file %s", e->d_name);
        unlinkat(dirfd(d), e->d_name, 0);
    }
    if (d) closedir(d);
    rmdir(dir);
    if (found == 0) held("no core file");
    return verdict();
}
