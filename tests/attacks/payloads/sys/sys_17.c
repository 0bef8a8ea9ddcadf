// args: [path or @abstract name of a socket of datagrams that is out of bounds]...
// SYS-17: one end of a pair of sockets, which takes no socket(), is sent from and connected to
// sockets of the host. SOCK_RAW is another name for datagrams.
#include "attack.h"

static const char MESSAGE[] = "from a pair";

static void try_pair(const char *name, int type, const char *to) {
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    size_t n = strlen(to);
    if (n >= sizeof un.sun_path) {
        breached("the name %s is too long to be tried", to);
        return;
    }
    memcpy(un.sun_path, to, n);
    if (*to == '@') un.sun_path[0] = '\0';
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + (*to != '@'));

    int pair[2];
    if (socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
        held("no pair of %s %s", name, ename(errno));
        return;
    }
    char got[sizeof MESSAGE];
    ssize_t sent = sendto(pair[0], MESSAGE, sizeof MESSAGE, 0, (const void *)&un, len);
    int e = errno;
    if (sent >= 0 && recv(pair[1], got, sizeof got, 0) > 0)
        held("%s to %s: the address is ignored", name, to);
    else if (sent >= 0 || e == EAGAIN)
        breached("%s: sent to %s", name, to);
    else
        held("%s to %s %s", name, to, ename(e));

    int r = connect(pair[0], (const void *)&un, len);
    e = errno;
    // A full queue also means that somebody is there.
    if (r == 0 || e == EAGAIN)
        breached("%s: connected to %s", name, to);
    else
        held("%s connected to %s %s", name, to, ename(e));
    close(pair[0]);
    close(pair[1]);
}

int main(int argc, char **argv) {
    if (argc < 2) {
        NOTE("unstaged: no name was given");
        return 0;
    }
    for (int i = 1; i < argc; i++) {
        try_pair("datagrams", SOCK_DGRAM, argv[i]);
        try_pair("raw", SOCK_RAW, argv[i]);
        try_pair("packets", SOCK_SEQPACKET, argv[i]);
        try_pair("stream", SOCK_STREAM, argv[i]);
    }
    return verdict();
}
