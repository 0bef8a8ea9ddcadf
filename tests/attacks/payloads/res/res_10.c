// args: files | dirs | links | symlinks, then [most=200000] [dir=/tmp]
// RES-10: fills the inode table with things of no size.
#include "res/bound.h"

int main(int argc, char **argv) {
    const char *mode = word(argc, argv, 1, "files");
    long most = number(argc, argv, 2, 200000, 200000), n = 0;
    uint64_t end = now_ms() + 4500;
    const char *dir = word(argc, argv, 3, "/tmp");
    if (chdir(dir) < 0 || (mkdir("res10", 0700) < 0 && errno != EEXIST) || chdir("res10") < 0)
        return unstaged("%s %s", dir, ename(errno));
    close(open("origin", O_WRONLY | O_CREAT, 0600));
    long r = 0;
    for (; n < most && now_ms() < end; n++) {
        char name[32];
        snprintf(name, sizeof name, "%s.%ld", mode, n);
        if (is(mode, "dirs"))
            r = mkdir(name, 0700);
        else if (is(mode, "links"))
            r = link("origin", name);
        else if (is(mode, "symlinks"))
            r = symlink("nowhere", name);
        else if ((r = open(name, O_WRONLY | O_CREAT | O_EXCL, 0600)) >= 0)
            close((int)r);
        if (r < 0) break;
    }
    if (n >= most)
        BREACH("%ld %s made unhindered", n, mode);
    else if (r < 0)
        HELD("%s %s after %ld", mode, ename(errno), n);
    else
        return unstaged("only %ld %s in time; use a smaller number", n, mode);
    return 0;
}
