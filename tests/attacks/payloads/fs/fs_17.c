// args: watch <dir> [KiB=1024] [seconds=4] | check <dir> [KiB=1024]
// FS-17: reads a file over and over while the host uploads to it from many sides. Each
// upload is one byte value repeated, so a torn or half file shows itself.
#include "res/bound.h"

static char *whole;

// look gives 0 for a whole file, 1 for none, and -1 for a torn one.
static int look(const char *path, size_t want) {
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0) return 1;
    size_t n = 0;
    for (ssize_t r; n <= want && (r = read(fd, whole + n, want + 1 - n)) > 0;) n += (size_t)r;
    close(fd);
    if (n != want) return -1;
    return memcmp(whole, whole + 1, n - 1) ? -1 : 0;
}

int main(int argc, char **argv) {
    const char *dir = word(argc, argv, 2, "/tmp/fs17");
    size_t want = (size_t)number(argc, argv, 3, 1024, 4096) * 1024;
    whole = malloc(want + 1);
    if ((mkdir(dir, 0755) < 0 && errno != EEXIST) || chdir(dir) < 0)
        return unstaged("%s %s", dir, ename(errno));
    if (is(word(argc, argv, 1, "watch"), "watch")) {
        uint64_t end = now_ms() + (uint64_t)number(argc, argv, 4, 4, 5) * 1000;
        long good = 0, torn = 0, none = 0;
        NOTE("watching %s/target", dir);
        while (now_ms() < end) {
            int r = look("target", want);
            *(r == 0 ? &good : r < 0 ? &torn : &none) += 1;
            if (r > 0) sleep_ms(1);
        }
        NOTE("GOOD=%ld TORN=%ld NONE=%ld", good, torn, none);
        if (torn)
            BREACH("%ld of %ld looks saw a torn file", torn, good + torn);
        else if (!good)
            return unstaged("no upload was ever seen");
        else
            HELD("%ld looks, all whole", good);
        return 0;
    }
    int extra = 0;
    DIR *d = opendir(".");
    for (struct dirent *e; (e = readdir(d));)
        if (!is(e->d_name, ".") && !is(e->d_name, "..") && !is(e->d_name, "target")) {
            extra++;
            breached("%s is left of an upload", e->d_name);
        }
    if (look("target", want) == 0)
        held("one whole file, nothing beside it");
    else
        breached("the last upload is not whole");
    return verdict();
}
