// args: [seconds=5]
// FS-14: everything that makes a file system hard to take down: immutable files, a
// working directory inside, open and mapped files, locks, and a deaf holder of it all.
#include "proc/outlive.h"
#include <linux/fs.h>
#include <sys/file.h>

int main(int argc, char **argv) {
    long seconds = number(argc, argv, 1, 5, 60);
    const char *dirs[] = {"/tmp", "/home/user", "/dev/shm", "/var/tmp", "/run"};
    int holding = 0;
    char *map = NULL;
    for (int i = 0; i < 5; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/fs14", dirs[i]);
        int fd = open(path, O_RDWR | O_CREAT, 0600);
        if (fd < 0) continue;
        holding++;
        ftruncate(fd, 65536);
        flock(fd, LOCK_EX);
        map = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (map != MAP_FAILED) map[0] = 1;
        const int flags[] = {FS_IMMUTABLE_FL, FS_APPEND_FL};
        for (int j = 0; j < 2; j++) {
            int want = flags[j], none = 0;
            char what[96];
            snprintf(what, sizeof what, "%s %s", j ? "+a" : "+i", path);
            if (!refused(what, ioctl(fd, FS_IOC_SETFLAGS, &want))) ioctl(fd, FS_IOC_SETFLAGS, &none);
        }
        snprintf(path, sizeof path, "%s/fs14.d", dirs[i]);
        mkdir(path, 0700);
        chdir(path);
    }
    if (!holding) return unstaged("no directory is writable");
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        deafen();
        prctl(PR_SET_NAME, "bj-fs14");
        // The output is let go, the files are not.
        for (int fd = 0; fd < 3; fd++) close(fd);
        sleep_ms(seconds * 1000);
        _exit(0);
    }
    NOTE("a holder sits in %d file systems", holding);
    return verdict();
}
