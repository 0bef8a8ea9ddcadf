// args: none
// RES-20: leaves one of everything behind and ends at once. The host creates, runs
// this and destroys, over and over, and looks for anything that grows.
#include "proc/outlive.h"
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/shm.h>

static int made;

static int keep(long fd) {
    if (fd >= 0) made++;
    return (int)fd;
}

int main(void) {
    int gate[2];
    if (pipe(gate) < 0) return unstaged("pipe %s", ename(errno));
    if (fork() == 0) {
        setsid();
        prctl(PR_SET_NAME, "bj-res20");
        struct sockaddr_un path = {.sun_family = AF_UNIX, .sun_path = "/tmp/res20.sock"};
        struct sockaddr_un hidden = {.sun_family = AF_UNIX, .sun_path = "\0res20"};
        struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(40020),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int s = socket(AF_UNIX, SOCK_STREAM, 0);
        if (bind(s, (void *)&path, sizeof path) == 0) keep(listen(s, 8));
        s = socket(AF_UNIX, SOCK_STREAM, 0);
        if (bind(s, (void *)&hidden, sizeof(sa_family_t) + 6) == 0) keep(listen(s, 8));
        s = socket(AF_INET, SOCK_STREAM, 0);
        if (bind(s, (void *)&here, sizeof here) == 0) keep(listen(s, 8));
        keep(shmget(0x20, 65536, IPC_CREAT | 0600));
        keep(mkfifo("/tmp/res20.fifo", 0600));
        int gone = keep(open("/tmp/res20.gone", O_RDWR | O_CREAT, 0600));
        unlink("/tmp/res20.gone");
        keep(write(gone, "data", 4));
        keep(flock(gone, LOCK_EX));
        keep(memfd_create("res20", 0));
        int watch = keep(inotify_init1(0));
        keep(inotify_add_watch(watch, "/tmp", IN_ALL_EVENTS));
        keep(mkdir("/tmp/res20.d", 0700));
        keep(chdir("/tmp/res20.d"));
        NOTE("%d things left behind", made);
        HELD("left behind; the host counts what stays after destroy");
        go_dark("bj-res20");
        sleep_ms(5000);
        _exit(0);
    }
    // The child closes its end when everything is in place.
    char c;
    close(gate[1]);
    read(gate[0], &c, 1);
    return 0;
}
