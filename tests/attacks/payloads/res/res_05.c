// args: [MiB=128]
// RES-05: kernel buffers: large pipes, socket queues, and descriptors that exist only
// in flight, which no limit on open files sees.
#include "res/bound.h"

static char block[65536];
static long total;

static void pour(int fd) {
    fcntl(fd, F_SETFL, O_NONBLOCK);
    for (ssize_t w; (w = write(fd, block, sizeof block)) > 0;) total += w;
}

// post hands two descriptors to the queue of a socket and closes the originals.
static bool post(int to, int a, int b) {
    char space[CMSG_SPACE(2 * sizeof(int))] = {0}, c = 'x';
    struct iovec io = {&c, 1};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = space,
                       .msg_controllen = sizeof space};
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    h->cmsg_level = SOL_SOCKET;
    h->cmsg_type = SCM_RIGHTS;
    h->cmsg_len = CMSG_LEN(2 * sizeof(int));
    memcpy(CMSG_DATA(h), (int[]){a, b}, 2 * sizeof(int));
    bool ok = sendmsg(to, &m, MSG_DONTWAIT) == 1;
    int e = errno;
    if (ok) close(a), close(b);
    errno = e;
    return ok;
}

int main(int argc, char **argv) {
    long most = number(argc, argv, 1, 128, 256) * MIB;
    uint64_t end = now_ms() + 4000;
    int pair[2], pipes = 0, pairs = 0, flying = 0, why = 0;
    memset(block, 0x5a, sizeof block);
    while (total < most && pipes < 200 && pipe(pair) == 0) {
        fcntl(pair[1], F_SETPIPE_SZ, 1 << 20);
        pour(pair[1]);
        pipes++;
    }
    why = errno;
    NOTE("%d pipes hold %ld MiB (%s)", pipes, total / MIB, ename(why));
    // A mailbox is itself only reachable through its queue: a chain of such sockets
    // keeps far more files alive than the process may open.
    int mailbox[2] = {-1, -1};
    while (total < most && now_ms() < end) {
        if (mailbox[0] < 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, mailbox) < 0) break;
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0) break;
        int size = 8 * MIB;
        setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
        pour(pair[0]);
        pairs++;
        if (post(mailbox[0], pair[0], pair[1])) {
            flying += 2;
        } else if (errno == EAGAIN) {
            mailbox[0] = mailbox[1] = -1;
        } else {
            NOTE("in-flight descriptors stopped: %s", ename(errno));
        }
    }
    why = errno;
    NOTE("%d pairs, %d descriptors in flight, %ld MiB", pairs, flying, total / MIB);
    if (total >= most)
        BREACH("%ld MiB of kernel buffers taken", total / MIB);
    else
        HELD("kernel buffers end at %ld MiB (%s)", total / MIB, ename(why));
    return 0;
}
