// args: plant <dir> | feed <dir> [seconds=4]
// FS-05: things that are no files: a download of one must fail at once, not hang.
// `feed` writes into the FIFO meanwhile, so that opening it does not fail by itself.
#include "res/bound.h"

int main(int argc, char **argv) {
    const char *dir = word(argc, argv, 2, "/tmp/fs05");
    if ((mkdir(dir, 0755) < 0 && errno != EEXIST) || chdir(dir) < 0)
        return unstaged("%s %s", dir, ename(errno));
    if (is(word(argc, argv, 1, "plant"), "feed")) {
        uint64_t end = now_ms() + (uint64_t)number(argc, argv, 3, 4, 5) * 1000;
        signal(SIGPIPE, SIG_IGN);
        mkfifo("fed-fifo", 0666);
        int fd = open("fed-fifo", O_RDWR | O_NONBLOCK);
        if (fd < 0) return unstaged("fifo %s", ename(errno));
        NOTE("feeding %s/fed-fifo", dir);
        long fed = 0;
        while (now_ms() < end)
            if (write(fd, "drip", 4) > 0)
                fed += 4;
            else
                sleep_ms(5);
        int left = 0;
        ioctl(fd, FIONREAD, &left);
        if (fed > left)
            BREACH("somebody read %ld bytes from the FIFO", fed - left);
        else
            HELD("nobody read from the FIFO");
        return 0;
    }
    const char *links[][2] = {{"zero", "/dev/zero"},     {"full", "/dev/full"},
                              {"random", "/dev/urandom"}, {"tty", "/dev/tty"},
                              {"kmsg", "/proc/kmsg"},     {"ptmx", "/dev/ptmx"},
                              {"mounts", "/proc/self/mountinfo"}};
    if (mkfifo("fifo", 0666) < 0 && errno != EEXIST) return unstaged("fifo %s", ename(errno));
    struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "socket"};
    unlink("socket");
    bind(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&at, sizeof at);
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        unlink(links[i][0]);
        symlink(links[i][1], links[i][0]);
    }
    mkdir("directory", 0755);
    close(open("locked", O_WRONLY | O_CREAT, 0));
    refused("mknod of a device", mknod("device", S_IFCHR | 0666, makedev(1, 5)));
    DIR *d = opendir(".");
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.') NOTE("FILE %s/%s", dir, e->d_name);
    return verdict();
}
