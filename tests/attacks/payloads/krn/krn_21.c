// args: none
// KRN-21: open files by handle, guessing inode numbers, past every path check.
#include "attack.h"

struct handle {
    unsigned bytes;
    int type;
    unsigned char data[128];
};

int main(void) {
    struct handle h;
    int mnt = 0;
    int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    static const char *paths[] = {"/", "/etc/passwd", "/tmp", "/proc/self", NULL};
    for (int i = 0; paths[i]; i++) {
        char what[64];
        memset(&h, 0, sizeof h);
        h.bytes = sizeof h.data;
        snprintf(what, sizeof what, "name_to_handle_at(%s)", paths[i]);
        denied_act(what, child_call(SYS_name_to_handle_at, AT_FDCWD, paths[i], &h, &mnt, 0), EPERM,
                   0);
    }
    // Inode 2 is the root of ext file systems; the first numbers after it are the old ones.
    int stopped = 0, other = 0, open_n = 0, last = 0;
    for (unsigned ino = 2; ino < 2 + 256; ino++) {
        memset(&h, 0, sizeof h);
        h.bytes = 8;
        h.type = 1;
        memcpy(h.data, &ino, 4);
        long fd = sys3(SYS_open_by_handle_at, root, &h, O_RDONLY);
        if (fd >= 0) {
            open_n++;
            close((int)fd);
        } else if (errno == EPERM) {
            stopped++;
        } else {
            other++;
            last = errno;
        }
    }
    if (open_n) breached("open_by_handle_at opened %d inodes", open_n);
    if (other) breached("open_by_handle_at got past its lock %d times (%s)", other, ename(last));
    if (stopped == 256) held("open_by_handle_at EPERM for 256 inodes");
    return verdict();
}
