// args: [host canary port] [connections=500]
// RES-21: takes every connection it can get from anything that listens on loopback,
// half of them idle. Today the sandbox has no listener, so a hit is the host's.
#include "res/bound.h"
#include <netinet/in.h>

static int dial(int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    struct sockaddr_in own = {0};
    socklen_t n = sizeof own;
    int e = ECONNREFUSED;
    if (connect(fd, (void *)&to, sizeof to) < 0) {
        e = errno;
    } else {
        // A port that dials itself by chance is no listener.
        getsockname(fd, (void *)&own, &n);
        if (own.sin_port != to.sin_port) return fd;
    }
    close(fd);
    errno = e;
    return -1;
}

int main(int argc, char **argv) {
    long canary = number(argc, argv, 1, 0, 65535), most = number(argc, argv, 2, 500, 1000);
    uint64_t end = now_ms() + 4000;
    int open_ports = 0, port = 0;
    long asked = 0;
    if (canary) {
        port = dial((int)canary) >= 0 ? (int)canary : 0;
        if (port)
            breached("the host's listener on port %ld answers", canary);
        else
            held("the host's listener %s", ename(errno));
    }
    // Where the host's listener answers, its other listeners are left alone.
    for (int p = 1; p < 65536 && !port && now_ms() < end; p++, asked++) {
        int fd = dial(p);
        if (fd < 0) continue;
        open_ports++;
        if (!port) port = p;
        close(fd);
    }
    if (!port) {
        held("%ld loopback ports, no listener", asked);
        return verdict();
    }
    long got = 0;
    for (; got < most; got++) {
        int fd = dial(port);
        if (fd < 0) break;
        if (got & 1) write(fd, "GET", 3);
    }
    NOTE("%d ports answer; %ld connections to %d (%s)", open_ports, got, port,
         ename(got < most ? errno : 0));
    if (!canary && got >= most) breached("port %d took %ld connections", port, got);
    held("connections end at %ld", got);
    return verdict();
}
