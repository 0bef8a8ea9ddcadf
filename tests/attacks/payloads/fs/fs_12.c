// args: none
// FS-12: overwrites what the agent and every later call run: the agent, the loader, the
// shell, the interpreter and their start-up files. As uid 1000 all must fail. As the
// sandbox's root they may work on its own layer, and the host's copy decides.
#include "res/bound.h"

static const char *targets[] = {
    "/proc/1/exe",      "/bin/sh",      "/bin/bash",        "/usr/bin/env",
    "/usr/bin/python3", "/bin/ls",      "/lib64/ld-linux-x86-64.so.2",
    "/etc/passwd",      "/etc/group",   "/lib/x86_64-linux-gnu/libc.so.6",
    "/etc/hosts",       "/etc/profile", "/etc/resolv.conf", "/etc/ld.so.cache",
};
static const char *dirs[] = {"/", "/etc", "/usr", "/usr/bin", "/usr/lib", "/usr/local/bin",
                             "/lib64", "/dev", "/proc", "/sys", "/boot", "/opt", "/root"};

int main(void) {
    bool root = getuid() == 0;
    int tried = 0, worked = 0;
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        const char *path = targets[i];
        if (access(path, F_OK) < 0 && errno == ENOENT) continue;
        tried++;
        // A running file answers ETXTBSY, which is no protection: it may be replaced.
        int fd = open(path, O_WRONLY);
        bool did = fd >= 0 && write(fd, "", 0) == 0;
        if (fd >= 0) close(fd);
        bool mode = chmod(path, 0777) == 0;
        bool moved = rename(path, "/tmp/fs12.moved") == 0;
        if (moved) rename("/tmp/fs12.moved", path);
        worked += did || mode || moved;
        if (!root && (did || mode || moved))
            breached("%s:%s%s%s", path, did ? " opened for writing" : "",
                     mode ? " chmod" : "", moved ? " renamed" : "");
    }
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++) {
        char path[64];
        struct stat st;
        if (stat(dirs[i], &st) < 0) continue;
        // Where the sandbox has a root of its own, / is like /tmp. No other directory may be so.
        if (!strcmp(dirs[i], "/") && (st.st_mode & S_ISVTX)) continue;
        tried++;
        snprintf(path, sizeof path, "%s/fs12-new", dirs[i]);
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0755);
        if (fd < 0) continue;
        close(fd);
        unlink(path);
        worked++;
        if (!root) breached("%s takes new files", dirs[i]);
    }
    if (root) {
        // One real change for the host to look for in the shared base.
        int fd = open("/usr/bin/env", O_WRONLY | O_APPEND);
        if (fd >= 0) write(fd, "FS12", 4), close(fd);
        held("as root %d of %d places changed in the own layer; the base's hash decides", worked, tried);
    } else {
        held("%d of %d places refused", tried - worked, tried);
    }
    return verdict();
}
