// args: [shared file of the lower layer]
// KRN-07: file pages spliced into a UDP socket, and a NETLINK_XFRM security
// association to receive them.
#include "attack.h"
#include <netinet/in.h>

#define MSG_SPLICE_PAGES_ 0x8000000

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "/bin/sh";
    uint64_t before = hash_file(path);
    static const struct {
        const char *name;
        int family, type, proto;
    } doors[] = {{"socket(NETLINK_XFRM)", AF_NETLINK, SOCK_RAW, 6},
                 {"socket(NETLINK_NETFILTER)", AF_NETLINK, SOCK_RAW, 12},
                 {"socket(AF_KEY)", 15, SOCK_RAW, 2},
                 {"socket(AF_RXRPC)", 33, SOCK_DGRAM, AF_INET},
                 {"socket(UDP)", AF_INET, SOCK_DGRAM, 0},
                 {"socket(UDP6)", AF_INET6, SOCK_DGRAM, 0},
                 {"socket(raw ESP)", AF_INET, SOCK_RAW, 50}};
    for (unsigned i = 0; i < sizeof doors / sizeof *doors; i++)
        denied_act(doors[i].name,
                   child_call(SYS_socket, doors[i].family, doors[i].type, doors[i].proto), EPERM,
                   EAFNOSUPPORT, 0);

    int file = open(path, O_RDONLY | O_CLOEXEC);
    int p[2], u[2];
    // Where a pair of datagrams is refused, one of streams takes pages as well.
    if (file < 0 || pipe(p) < 0 ||
        (socketpair(AF_UNIX, SOCK_DGRAM, 0, u) < 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, u) < 0)) {
        NOTE("could not prepare %s: %s", path, ename(errno));
        return verdict();
    }
    long off = 0;
    denied_act("splice(file to pipe)", child_call(SYS_splice, file, &off, p[1], 0, 4096, 0), EPERM,
               EINVAL, ENOSYS, 0);
    (void)!write(p[1], "page", 4);
    denied_act("splice(pipe to socket)", child_call(SYS_splice, p[0], 0, u[0], 0, 4, 2), EPERM,
               EINVAL, ENOSYS, 0);
    struct iovec v = {"page", 4};
    denied_act("vmsplice", child_call(SYS_vmsplice, p[1], &v, 1, 2), EPERM, EINVAL, ENOSYS, 0);

    // The kernel keeps this flag for itself and masks it out of user calls. A send
    // that carries it must at most behave like one without.
    struct msghdr m;
    memset(&m, 0, sizeof m);
    m.msg_iov = &v;
    m.msg_iovlen = 1;
    long r = sys3(SYS_sendmsg, u[0], &m, MSG_SPLICE_PAGES_ | MSG_DONTWAIT);
    NOTE("sendmsg(MSG_SPLICE_PAGES) %s", r < 0 ? ename(errno) : "sent as a plain message");

    if (before != hash_file(path))
        breached("content of %s changed", path);
    else
        held("%s unchanged", path);
    return verdict();
}
