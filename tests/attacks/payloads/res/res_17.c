// args: [deaths=10] [dir=/tmp]
// RES-17: asks for core dumps and dies with something to dump.
#include "res/bound.h"

static long crash(void *unused) {
    char *p = mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p != MAP_FAILED) memset(p, 0x5a, 8 * MIB);
    prctl(PR_SET_DUMPABLE, 1);
    abort();
}

int main(int argc, char **argv) {
    long most = number(argc, argv, 1, 10, 20), flagged = 0, found = 0;
    if (chdir(word(argc, argv, 2, "/tmp")) < 0) return unstaged("chdir %s", ename(errno));
    struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY}, now;
    if (setrlimit(RLIMIT_CORE, &all) < 0) held("raising RLIMIT_CORE %s", ename(errno));
    getrlimit(RLIMIT_CORE, &now);
    now.rlim_cur = now.rlim_max;
    setrlimit(RLIMIT_CORE, &now);
    if (now.rlim_max > 0) breached("RLIMIT_CORE may be %ld", (long)now.rlim_max);
    for (long i = 0; i < most; i++) {
        pid_t pid = fork();
        if (pid == 0) crash(NULL);
        int st = 0;
        waitpid(pid, &st, 0);
        if (WCOREDUMP(st)) flagged++;
    }
    const char *dirs[] = {".", "/tmp", "/var/tmp", "/dev/shm", "/"};
    for (int i = 0; i < 5; i++) {
        DIR *d = opendir(dirs[i]);
        if (!d) continue;
        for (struct dirent *e; (e = readdir(d));)
            if (strncmp(e->d_name, "core", 4) == 0 && (!e->d_name[4] || e->d_name[4] == '.')) {
                found++;
                unlinkat(dirfd(d), e->d_name, 0);
            }
        closedir(d);
    }
    if (flagged || found)
        breached("%ld cores flagged, %ld files found", flagged, found);
    else
        held("%ld crashes left no core", most);
    return verdict();
}
