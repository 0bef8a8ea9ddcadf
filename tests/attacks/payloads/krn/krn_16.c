// args: none
// KRN-16: out-of-band data on an AF_UNIX pair, by every send and receive call.
#include "attack.h"

static int fds[2];

struct one {
    const char *name;
    long nr;
    int end;
    int shape;
    long extra;
};

static long act(void *p) {
    struct one *o = p;
    char b[4] = "oob";
    struct iovec v = {b, 1};
    struct mmsghdr mm;
    memset(&mm, 0, sizeof mm);
    mm.msg_hdr.msg_iov = &v;
    mm.msg_hdr.msg_iovlen = 1;
    long flags = MSG_OOB | MSG_DONTWAIT | o->extra;
    switch (o->shape) {
    case 0:
        return sys6(o->nr, fds[o->end], b, 1, flags, 0, 0);
    case 1:
        return sys3(o->nr, fds[o->end], &mm.msg_hdr, flags);
    default:
        return sys5(o->nr, fds[o->end], &mm, 1, flags, 0);
    }
}

int main(void) {
    static struct one all[] = {{"sendto", SYS_sendto, 0, 0},    {"sendmsg", SYS_sendmsg, 0, 1},
                               {"sendmmsg", SYS_sendmmsg, 0, 2}, {"recvfrom", SYS_recvfrom, 1, 0},
                               {"recvmsg", SYS_recvmsg, 1, 1},   {"recvmmsg", SYS_recvmmsg, 1, 2}};
    static const long dirty[] = {0, 1L << 32, (long)(0xffffffffUL << 32)};
    for (unsigned i = 0; i < 6; i++)
        for (unsigned d = 0; d < 3; d++) {
            if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0) {
                BREACH("no AF_UNIX pair: %s", ename(errno));
                return 0;
            }
            (void)!send(fds[0], "x", 1, MSG_DONTWAIT);
            char what[64];
            snprintf(what, sizeof what, "%s(MSG_OOB)%s", all[i].name, d ? " dirty" : "");
            all[i].extra = dirty[d];
            denied_act(what, in_child(act, &all[i], 1000), EPERM, EOPNOTSUPP, 0);
            close(fds[0]);
            close(fds[1]);
        }
    return verdict();
}
