// args: [text that must not be found, e.g. a canary secret or a host path]...
// SYS-05: read what /proc tells about pid 1 and every other process of the agent.
#include "attack.h"

static int n_words;
static char **words;

static void look(const char *path, const char *buf, size_t n) {
    for (int i = 0; i < n_words; i++)
        if (find_bytes(buf, n, words[i])) breached("%s contains a forbidden text", path);
}

// These tell the agent's memory, environment or files and must never be readable.
static const char *closed[] = {"environ", "maps", "smaps", "numa_maps", "auxv",  "syscall",
                               "stack",   "io",   "pagemap", "mountinfo", "personality", NULL};
// These are harmless on an ordinary system, but with hidepid they are gone as well.
static const char *hidden[] = {"cmdline", "status", "stat", "comm", "cgroup", "limits",
                               "sched",   "wchan",  "oom_score_adj", NULL};
static const char *links[] = {"root", "cwd", "exe", "ns/user", "ns/net", "ns/mnt", NULL};

static void attack(int pid) {
    char path[128], buf[8192];
    for (int i = 0; closed[i]; i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", pid, closed[i]);
        ssize_t n = read_file(path, buf, sizeof buf);
        if (n > 0) {
            breached("%s is readable", path);
            look(path, buf, (size_t)n);
        } else {
            held("%s %s", path, n < 0 ? ename(errno) : "empty");
        }
    }
    for (int i = 0; hidden[i]; i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", pid, hidden[i]);
        ssize_t n = read_file(path, buf, sizeof buf);
        if (n > 0) {
            breached("%s is not hidden", path);
            look(path, buf, (size_t)n);
        } else {
            held("%s %s", path, n < 0 ? ename(errno) : "empty");
        }
    }
    for (int i = 0; links[i]; i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", pid, links[i]);
        ssize_t n = readlink(path, buf, sizeof buf - 1);
        if (n > 0) {
            breached("%s leads to %.*s", path, (int)n, buf);
            look(path, buf, (size_t)n);
        } else {
            held("%s %s", path, ename(errno));
        }
    }
    static const char *dirs[] = {"fd", "fdinfo", "map_files", "task/1/fd", "root/", "cwd/", NULL};
    for (int i = 0; dirs[i]; i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", pid, dirs[i]);
        DIR *d = opendir(path);
        if (d) {
            breached("%s can be listed", path);
            closedir(d);
        } else {
            held("%s %s", path, ename(errno));
        }
    }
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    refused(path, fd);
    if (fd >= 0) close(fd);
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0) {
        breached("%s opens for writing", path);
        close(fd);
    }
}

int main(int argc, char **argv) {
    n_words = argc - 1;
    words = argv + 1;
    attack(1);
    // Other processes of the agent, if any are left visible at all.
    int seen = 0;
    for (int pid = 2; pid < 4096 && seen < 4; pid++) {
        if (kill(pid, 0) == 0 || errno != EPERM) continue;
        seen++;
        attack(pid);
    }
    // What we were handed ourselves must not carry the secret either.
    char buf[16384];
    ssize_t n = read_file("/proc/self/environ", buf, sizeof buf);
    if (n > 0) look("/proc/self/environ", buf, (size_t)n);
    return verdict();
}
