// args: deep [levels=30000] | wide [entries=100000], then [dir=/tmp]
// RES-12: trees that hurt whoever lists or deletes them: one level in another until
// no path reaches the end, or all in one directory.
#include "res/bound.h"

int main(int argc, char **argv) {
    const char *mode = word(argc, argv, 1, "deep");
    bool deep = is(mode, "deep");
    long most = number(argc, argv, 2, deep ? 30000 : 100000, 150000), n = 0;
    uint64_t end = now_ms() + 4500;
    if (chdir(word(argc, argv, 3, "/tmp")) < 0 || mkdir("res12", 0700) < 0 || chdir("res12") < 0)
        return unstaged("no directory (%s)", ename(errno));
    for (; n < most && now_ms() < end; n++) {
        if (deep) {
            if (mkdir("d", 0700) < 0 || chdir("d") < 0) break;
        } else {
            char name[64];
            snprintf(name, sizeof name, "an-entry-in-a-very-wide-directory-%ld", n);
            int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0600);
            if (fd < 0) break;
            close(fd);
        }
    }
    NOTE("%s tree of %ld (%s)", mode, n, ename(n < most ? errno : 0));
    HELD("planted; listing and destroying it decide");
    return 0;
}
