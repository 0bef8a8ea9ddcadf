// args: none
// KRN-10: load BPF by every road that a socket or a system call offers; options and flags of
// sockets that put other protocols into the kernel, or take references to pages.
#include "attack.h"
#include <linux/filter.h>
#include <netinet/in.h>

int main(void) {
    // bpf(): a map and the smallest program there is (r0 = 0; exit).
    uint32_t map_attr[18] = {2, 4, 4, 1};
    denied_act("bpf(MAP_CREATE)", child_call(SYS_bpf, 0, map_attr, sizeof map_attr), EPERM, 0);
    uint64_t insns[2] = {0x00000000000000b7ull, 0x0000000000000095ull};
    uint64_t attr[16] = {0};
    ((uint32_t *)attr)[0] = 1;
    ((uint32_t *)attr)[1] = 2;
    attr[1] = (uintptr_t)insns;
    attr[2] = (uintptr_t) "GPL";
    denied_act("bpf(PROG_LOAD)", child_call(SYS_bpf, 5, attr, sizeof attr), EPERM, 0);
    denied_act("bpf(OBJ_GET)", child_call(SYS_bpf, 7, attr, sizeof attr), EPERM, 0);

    struct sock_filter ret = BPF_STMT(BPF_RET | BPF_K, 0xffff);
    struct sock_fprog prog = {1, &ret};
    int bad = -1;
    static const struct {
        const char *name;
        int opt;
        bool classic;
    } opts[] = {{"SO_ATTACH_FILTER", 26, true},
                {"SO_ATTACH_BPF", 50, false},
                {"SO_ATTACH_REUSEPORT_CBPF", 51, true},
                {"SO_ATTACH_REUSEPORT_EBPF", 52, false}};
    int socks[2] = {socket(AF_INET, SOCK_STREAM, 0), -1}, pair[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0)
        socks[1] = pair[0];
    int one = 1;
    setsockopt(socks[0], SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
    for (unsigned s = 0; s < 2; s++) {
        for (unsigned i = 0; i < sizeof opts / sizeof *opts; i++) {
            char what[80];
            snprintf(what, sizeof what, "%s on %s", opts[i].name, s ? "unix" : "tcp");
            const void *val = opts[i].classic ? (void *)&prog : (void *)&bad;
            long len = opts[i].classic ? sizeof prog : sizeof bad;
            denied_act(what, child_call(SYS_setsockopt, socks[s], SOL_SOCKET, opts[i].opt, val, len),
                       EPERM, 0);
        }
    }

    // kTLS and its kin replace a socket's operations; zero copy keeps pages of ours in the
    // network's queues, or maps its pages into ours.
    denied_act("TCP_ULP", child_call(SYS_setsockopt, socks[0], 6, 31, "tls", 3), EPERM, 0);
    for (unsigned s = 0; s < 2; s++)
        denied_act(s ? "SO_ZEROCOPY on unix" : "SO_ZEROCOPY on tcp",
                   child_call(SYS_setsockopt, socks[s], SOL_SOCKET, 60, &one, sizeof one), EPERM, 0);
    char receive[64] = {0};
    socklen_t length = sizeof receive;
    denied_act("TCP_ZEROCOPY_RECEIVE",
               child_call(SYS_getsockopt, socks[0], 6, 35, receive, &length), EPERM, 0);
    struct iovec iov = {"x", 1};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &iov, .msg_iovlen = 1}};
    long zerocopy = 0x4000000;
    denied_act("sendto(MSG_ZEROCOPY)", child_call(SYS_sendto, socks[1], "x", 1, zerocopy, 0, 0),
               EPERM, EOPNOTSUPP, 0);
    denied_act("sendmsg(MSG_ZEROCOPY)",
               child_call(SYS_sendmsg, socks[1], &message.msg_hdr, zerocopy), EPERM, EOPNOTSUPP, 0);
    denied_act("sendmmsg(MSG_ZEROCOPY)", child_call(SYS_sendmmsg, socks[1], &message, 1, zerocopy),
               EPERM, EOPNOTSUPP, 0);
    return verdict();
}
