// args: [names=1000000] [seconds=4]
// RES-15: asks for names that do not exist. The kernel remembers each miss; the memory
// must be charged to the sandbox and go away with it.
#include "res/bound.h"

int main(int argc, char **argv) {
    long most = number(argc, argv, 1, 1000000, 1000000), n = 0, found = 0;
    uint64_t end = now_ms() + (uint64_t)number(argc, argv, 2, 4, 5) * 1000;
    const char *dirs[] = {"/tmp", "/usr/lib", "/usr/share", "/etc", "."};
    int fds[5];
    for (int i = 0; i < 5; i++) fds[i] = open(dirs[i], O_PATH | O_DIRECTORY);
    char name[240];
    memset(name, 'n', sizeof name);
    while (n < most && (n % 256 || now_ms() < end)) {
        struct stat st;
        // Long names cost the most memory for each miss.
        snprintf(name, 21, "%020ld", n);
        name[20] = 'n';
        name[239] = 0;
        if (fstatat(fds[n % 5], name, &st, 0) == 0) found++;
        n++;
    }
    HELD("%ld missing names asked for; peak memory and the host's slab decide", n - found);
    return 0;
}
