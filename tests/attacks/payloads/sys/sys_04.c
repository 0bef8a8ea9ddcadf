// args: [most foreign tasks that may exist beside us, default 24]
// SYS-04: find processes that are not ours, by listing /proc, by asking for each
// number in it, and by signal 0 to each number.
#include "attack.h"

#define TOP 65536

int main(int argc, char **argv) {
    int limit = argc > 1 ? atoi(argv[1]) : 24;
    uid_t me = getuid();
    int mine = 0, foreign = 0;
    DIR *d = opendir("/proc");
    for (struct dirent *e; d && (e = readdir(d));) {
        int pid = atoi(e->d_name);
        if (pid <= 0) continue;
        struct stat st;
        if (fstatat(dirfd(d), e->d_name, &st, 0) < 0) continue;
        if (st.st_uid == me) {
            mine++;
        } else {
            foreign++;
            breached("/proc lists pid %d of uid %d", pid, (int)st.st_uid);
        }
    }
    if (d) closedir(d);
    if (foreign == 0) held("/proc lists our own %d pids only", mine);

    // A directory that is not listed may still open by its name.
    int hidden = 0;
    for (int pid = 1; pid < TOP; pid++) {
        char path[48];
        struct stat st;
        snprintf(path, sizeof path, "/proc/%d/stat", pid);
        if (stat(path, &st) == 0 && st.st_uid != me) {
            // A process of ours that may not be dumped shows another owner.
            if (kill(pid, 0) == 0) continue;
            hidden++;
            if (hidden <= 4) breached("%s is visible", path);
        }
    }
    if (hidden == 0) held("no foreign /proc entry by name");

    // Signal 0 sends nothing. EPERM still tells that somebody is there: that may be the
    // agent's few threads, but never a whole host.
    int ours = 0, others = 0;
    char few[256] = "";
    for (int pid = 1; pid < TOP; pid++) {
        if (kill(pid, 0) == 0) {
            ours++;
        } else if (errno == EPERM) {
            if (others++ < 12) snprintf(few + strlen(few), sizeof few - strlen(few), " %d", pid);
        }
    }
    NOTE("signal 0: %d reachable, %d refused:%s", ours, others, few);
    if (kill(1, 0) == 0 && getpid() != 1) breached("pid 1 can be signalled");
    if (others > limit)
        breached("%d foreign tasks exist in our pid namespace", others);
    else
        held("%d foreign tasks at most", limit);
    return verdict();
}
