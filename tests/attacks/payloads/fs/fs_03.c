// args: <dir> <host canary dir> [seconds=4]
// FS-03: exchanges a directory and a symlink as fast as it can, while the host moves
// files through it. The same name as the host's canary exists inside as a decoy, so
// that a transfer which leaves the root shows itself by what it reads.
#include "res/bound.h"

static void put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd >= 0) write(fd, text, strlen(text)), close(fd);
}

int main(int argc, char **argv) {
    const char *dir = word(argc, argv, 1, "/tmp/fs03");
    const char *outside = word(argc, argv, 2, "/tmp/fs03-outside");
    uint64_t end = now_ms() + (uint64_t)number(argc, argv, 3, 4, 5) * 1000;
    char decoy[4200];
    for (char *p = strchr(outside + 1, '/'); p; p = strchr(p + 1, '/')) {
        snprintf(decoy, sizeof decoy, "%.*s", (int)(p - outside), outside);
        mkdir(decoy, 0755);
    }
    mkdir(outside, 0755);
    snprintf(decoy, sizeof decoy, "%s/f", outside);
    put(decoy, "GUEST-DECOY\n");
    mkdir(dir, 0755);
    if (chdir(dir) < 0) return unstaged("%s %s", dir, ename(errno));
    mkdir("d", 0755);
    put("d/f", "INSIDE\n");
    unlink("l");
    if (symlink(outside, "l") < 0) return unstaged("symlink %s", ename(errno));
    NOTE("swapping %s/d", dir);
    long swaps = 0;
    while (swaps % 64 || now_ms() < end) {
        // 316 is renameat2; its flag 2 exchanges the names in one step.
        if (sys5(316, AT_FDCWD, "d", AT_FDCWD, "l", 2) < 0)
            return unstaged("renameat2 %s", ename(errno));
        swaps++;
    }
    HELD("%ld exchanges; what the transfers read and wrote decides", swaps);
    return 0;
}
