// args: [GiB=1024] [path=/tmp/res11.sparse]
// RES-11: a file that is huge by name and empty on disk. Whoever copies it by its
// apparent size fills the host.
#include "res/bound.h"

int main(int argc, char **argv) {
    long gib = number(argc, argv, 1, 1024, 1024);
    const char *path = word(argc, argv, 2, "/tmp/res11.sparse");
    signal(SIGXFSZ, SIG_IGN);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0) return unstaged("open %s", ename(errno));
    long first = gib;
    while (gib > 0 && ftruncate(fd, gib << 30) < 0) gib /= 2;
    int why = errno;
    // Data behind the hole: a reader that stops at the first zero block misses it.
    if (gib > 0) pwrite(fd, "END", 3, (gib << 30) - 3);
    struct stat st;
    fstat(fd, &st);
    NOTE("APPARENT=%lld ALLOCATED=%lld", (long long)st.st_size, (long long)st.st_blocks * 512);
    if (gib < first)
        HELD("files end at %ld GiB (%s); the download of %s decides", gib, ename(why), path);
    else
        HELD("%ld GiB stand in %s; the download decides", gib, path);
    return 0;
}
