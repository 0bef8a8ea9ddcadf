// args: <dir>
// FS-20: a layer full of things that a copy or a snapshot must not take literally:
// sockets, FIFOs, devices, whiteouts and huge holes.
#include "res/bound.h"
#include <sys/xattr.h>

int main(int argc, char **argv) {
    const char *dir = word(argc, argv, 1, "/home/user/fs20");
    if ((mkdir(dir, 0755) < 0 && errno != EEXIST) || chdir(dir) < 0)
        return unstaged("%s %s", dir, ename(errno));
    refused("character device", mknod("null", S_IFCHR | 0666, makedev(1, 3)));
    refused("memory device", mknod("mem", S_IFCHR | 0666, makedev(1, 1)));
    refused("block device", mknod("disk", S_IFBLK | 0666, makedev(8, 0)));
    refused("whiteout", mknod("whiteout", S_IFCHR, makedev(0, 0)));
    // Renaming with the whiteout flag is the other way to make one. On a plain tmpfs the
    // result is a device 0:0 that means nothing; on an overlay it would hide a file.
    struct statfs fs;
    close(open("covered", O_WRONLY | O_CREAT, 0644));
    long renamed = sys5(316, AT_FDCWD, "covered", AT_FDCWD, "uncovered", 4);
    if (renamed < 0 || (statfs(".", &fs) == 0 && fs.f_type == 0x794c7630))
        refused("rename with whiteout", renamed);
    else
        NOTE("rename made a device 0:0 on a file system that is no overlay");
    mkfifo("fifo", 0666);
    struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "socket"};
    unlink("socket");
    bind(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&at, sizeof at);
    signal(SIGXFSZ, SIG_IGN);
    int fd = open("hole", O_RDWR | O_CREAT, 0644);
    long gib = 64;
    while (gib && ftruncate(fd, gib << 30) < 0) gib /= 2;
    pwrite(fd, "END", 3, gib ? (gib << 30) - 3 : 0);
    for (int i = 0; i < 1000; i++) pwrite(fd, "x", 1, i * 1048576L);
    symlink("/proc/self/mem", "link");
    setxattr("hole", "user.large", dir, strlen(dir), 0);
    struct stat st;
    fstat(fd, &st);
    NOTE("APPARENT=%lld ALLOCATED=%lld", (long long)st.st_size, (long long)st.st_blocks * 512);
    return verdict();
}
