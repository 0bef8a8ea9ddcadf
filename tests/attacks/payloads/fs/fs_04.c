// args: <dir>
// FS-04: plants links into the magic parts of /proc, and tries those of pid 1 itself.
// A transfer done by the agent would resolve /proc/self as the agent.
#include "res/bound.h"

static const char *magic[] = {
    "/proc/self/root/etc/hostname", "/proc/self/cwd/x",   "/proc/self/exe",
    "/proc/self/fd/0",              "/proc/self/fd/3",    "/proc/self/fd/4",
    "/proc/self/fd/5",              "/proc/self/mem",     "/proc/self/environ",
    "/proc/self/maps",              "/proc/thread-self/root/etc/hostname",
    "/proc/thread-self/fd/3",
};
static const char *of_init[] = {
    "/proc/1/root", "/proc/1/cwd",     "/proc/1/exe",  "/proc/1/fd",        "/proc/1/fd/0",
    "/proc/1/fd/3", "/proc/1/environ", "/proc/1/mem",  "/proc/1/map_files", "/proc/1/maps",
    "/proc/1/auxv", "/proc/1/stack",   "/proc/1/task/1/mem",
};

int main(int argc, char **argv) {
    const char *dir = word(argc, argv, 1, "/tmp/fs04");
    if ((mkdir(dir, 0755) < 0 && errno != EEXIST) || chdir(dir) < 0)
        return unstaged("%s %s", dir, ename(errno));
    for (size_t i = 0; i < sizeof magic / sizeof *magic; i++) {
        char name[16];
        snprintf(name, sizeof name, "fs04-%02zu", i);
        unlink(name);
        if (symlink(magic[i], name) < 0) return unstaged("symlink %s", ename(errno));
        NOTE("LINK %s/%s", dir, name);
    }
    for (size_t i = 0; i < sizeof of_init / sizeof *of_init; i++) {
        char byte;
        int fd = open(of_init[i], O_RDONLY | O_NONBLOCK);
        // Some files open for anyone and only refuse the read.
        struct stat st;
        if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && read(fd, &byte, 1) <= 0) {
            held("%s opens but reads nothing", of_init[i]);
            close(fd);
            continue;
        }
        refused(of_init[i], fd);
    }
    return verdict();
}
