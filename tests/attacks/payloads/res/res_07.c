// args: hold [seconds=0] | probe
// RES-07: objects that the kernel counts by user. `hold` takes all it can get, up to
// 20 000 of each; `probe` runs in a neighbour meanwhile and needs a modest number.
#include "res/bound.h"
#include <mqueue.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>

static long more(int kind) {
    switch (kind) {
    case 0: {
        union sigval v = {0};
        return sigqueue(getpid(), SIGRTMIN, v);
    }
    case 1: {
        timer_t t;
        struct sigevent e = {.sigev_notify = SIGEV_NONE};
        return timer_create(CLOCK_MONOTONIC, &e, &t);
    }
    case 2:
        return inotify_init1(IN_CLOEXEC);
    case 3:
        return epoll_create1(EPOLL_CLOEXEC);
    case 4:
        return eventfd(0, EFD_CLOEXEC);
    case 5: {
        static int n;
        char name[32];
        snprintf(name, sizeof name, "/res07-%d-%d", getpid(), n++);
        mqd_t q = mq_open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0600, NULL);
        // Unlinked at once; the descriptor keeps the queue and its charge.
        if (q >= 0) mq_unlink(name);
        return q;
    }
    default: {
        static int fd = -1, at;
        if (fd < 0) fd = open("/tmp/res07.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        struct flock l = {.l_type = F_WRLCK, .l_start = 2L * at++, .l_len = 1};
        return fcntl(fd, F_SETLK, &l);
    }
    }
}

static const char *names[] = {"queued signals", "timers", "inotify", "epoll",
                              "eventfd",        "mqueue", "file locks"};

int main(int argc, char **argv) {
    bool probe = is(word(argc, argv, 1, "hold"), "probe");
    long seconds = number(argc, argv, 2, 0, 5);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int gate[2];
    if (pipe(gate) < 0) return unstaged("pipe %s", ename(errno));
    for (int kind = 0; kind < 7; kind++) {
        // One child each, so that one kind does not eat the descriptors of another.
        pid_t pid = fork();
        if (pid < 0) return unstaged("fork %s", ename(errno));
        if (pid == 0) {
            // Lock tables are searched one by one, so a full count would take minutes.
            long most = probe ? 32 : kind == 6 ? 4000 : 20000, n = 0;
            while (n < most && more(kind) >= 0) n++;
            long note[3] = {kind, n, n < most ? errno : 0};
            write(gate[1], note, sizeof note);
            if (!probe) sleep_ms(seconds * 1000);
            _exit(0);
        }
    }
    for (int i = 0; i < 7; i++) {
        long note[3];
        if (read(gate[0], note, sizeof note) != sizeof note) break;
        const char *what = names[note[0]];
        // Message queues may be denied altogether, and locks are bounded by memory.
        if (probe) {
            if (note[2] && note[0] != 5)
                breached("a neighbour leaves only %ld %s (%s)", note[1], what, ename((int)note[2]));
            else
                held("%ld %s", note[1], what);
        } else if (!note[2] && note[0] != 6) {
            breached("%ld %s", note[1], what);
        } else {
            held("%s %s after %ld", what, ename((int)note[2]), note[1]);
        }
    }
    if (seconds && !probe) NOTE("holding");
    while (wait(NULL) > 0) {
    }
    return verdict();
}
