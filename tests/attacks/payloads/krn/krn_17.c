// args: [pairs]
// KRN-17: open every address family with every type, and every netlink protocol. `pairs`: not
// even the usual ones may open, and pairs alone have to: those whose ends lead nowhere else.
#include "attack.h"
#include <netinet/in.h>

static int opened, denied_n;

// An errno that only the kernel's own socket code gives means that the filter let the
// call through and that another host, with that family built in, would open it.
static bool reached_kernel(int e, int unknown_family) {
    switch (e) {
    case EPERM:
    case EACCES:
        return false;
    case EAFNOSUPPORT:
        // Ambiguous, unless the filter answers a family that cannot exist otherwise.
        return unknown_family != EAFNOSUPPORT;
    case EPROTONOSUPPORT:
    case ESOCKTNOSUPPORT:
        // Also fine as a filter's own answer, if it gives it for everything unknown.
        return unknown_family != e;
    case EMFILE:
    case ENFILE:
        return false;
    default:
        return unknown_family != e;
    }
}

static int try_socket(long nr, int family, long type, int proto, int *sv) {
    long r = nr == SYS_socket ? sys3(nr, family, type, proto) : sys4(nr, family, type, proto, sv);
    if (r < 0) return errno;
    if (nr == SYS_socket) {
        close((int)r);
    } else {
        close(sv[0]);
        close(sv[1]);
    }
    return 0;
}

static bool golden(int family, int type, int proto) {
    if (family == AF_UNIX) return true;
    // A protocol other than TCP would be MPTCP, SCTP or SMC, each a family of its own
    // in all but name, and one that the port rules of Landlock do not see.
    if (family == AF_INET || family == AF_INET6)
        return type == SOCK_STREAM && (proto == 0 || proto == IPPROTO_TCP);
    // Any type: the kernel itself knows two of them, and they are the same protocol.
    if (family == AF_NETLINK) return proto == 0;
    return false;
}

static bool judge(const char *call, int family, int type, int proto, int e, int unknown) {
    if (golden(family, type, proto)) return true;
    if (e == 0) {
        breached("%s(%d, %d, %d) opened", call, family, type, proto);
    } else if (reached_kernel(e, unknown)) {
        breached("%s(%d, %d, %d) reached the kernel (%s)", call, family, type, proto, ename(e));
    } else {
        denied_n++;
        return true;
    }
    return false;
}

// One end of any other pair can be sent from, or connected, to a socket with a name.
static bool stays_a_pair(int type) {
    return type == SOCK_STREAM || type == SOCK_SEQPACKET;
}

int main(int argc, char **argv) {
    bool pairs = argc > 1 && strcmp(argv[1], "pairs") == 0;
    static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET, SOCK_RDM,
                                SOCK_DCCP,   SOCK_PACKET};
    static const int inet_protos[] = {0,   1,   6,   17,  33,  50,  51,  58,
                                      132, 136, 255, 256, 262};
    int sv[2];
    // No kernel has this family, so the answer is the filter's own, if there is one.
    int unknown = try_socket(SYS_socket, 511, SOCK_STREAM, 0, sv);
    NOTE("a family that cannot exist answers %s", ename(unknown));

    for (int f = 0; f <= 50; f++)
        for (unsigned t = 0; t < sizeof types / sizeof *types; t++) {
            bool ok =
                judge("socket", f, types[t], 0, try_socket(SYS_socket, f, types[t], 0, sv), unknown);
            // The two flag bits share the type word and must not hide the type.
            if (ok)
                judge("socket+flags", f, types[t], 0,
                      try_socket(SYS_socket, f, types[t] | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv),
                      unknown);
            int e = try_socket(SYS_socketpair, f, types[t], 0, sv);
            if (e == 0 && (f != AF_UNIX || (pairs && !stays_a_pair(types[t]))))
                breached("socketpair(%d, %d) opened", f, types[t]);
        }
    char open_protos[512] = "";
    size_t n = 0;
    for (int f = AF_INET; f <= AF_INET6; f += AF_INET6 - AF_INET)
        for (unsigned t = 0; t < 4; t++)
            for (unsigned p = 0; p < sizeof inet_protos / sizeof *inet_protos; p++) {
                int type = types[t], proto = inet_protos[p];
                int e = try_socket(SYS_socket, f, type, proto, sv);
                // An opened foreign protocol is a breach. A kernel that has it not
                // built says so, which leaves the filter's answer open: a remark.
                if (e == 0)
                    judge("socket", f, type, proto, e, unknown);
                else if (type == SOCK_STREAM && !golden(f, type, proto) && e != EPERM)
                    n += snprintf(open_protos + n, sizeof open_protos - n, " %d/%d", f, proto);
                else
                    denied_n++;
            }
    if (n > 0) NOTE("stream protocols without a filter, not built in here:%s", open_protos);
    for (int p = 0; p < 32; p++)
        for (unsigned t = 0; t < 4; t++)
            judge("netlink", AF_NETLINK, types[t], p,
                  try_socket(SYS_socket, AF_NETLINK, types[t], p, sv), unknown);

    // The golden set has to open, or the test has only shown that nothing works.
    static const int need[][3] = {{AF_UNIX, SOCK_STREAM, 0},
                                  {AF_UNIX, SOCK_DGRAM, 0},
                                  {AF_UNIX, SOCK_SEQPACKET, 0},
                                  {AF_INET, SOCK_STREAM, 0}};
    for (unsigned i = 0; i < 4; i++) {
        if (pairs && need[i][0] == AF_UNIX && stays_a_pair(need[i][1]) &&
            socketpair(AF_UNIX, need[i][1], 0, sv) < 0)
            breached("usability: a pair of type %d refused (%s)", need[i][1], ename(errno));
        int e = try_socket(SYS_socket, need[i][0], need[i][1], need[i][2], sv);
        if (pairs && e == 0)
            breached("socket(%d, %d) opened", need[i][0], need[i][1]);
        else if (pairs)
            denied_n++;
        else if (e == 0)
            opened++;
        else
            breached("usability: socket(%d, %d) refused (%s)", need[i][0], need[i][1], ename(e));
    }
    NOTE("AF_INET6 STREAM %s, NETLINK_ROUTE %s",
         ename(try_socket(SYS_socket, AF_INET6, SOCK_STREAM, 0, sv)),
         ename(try_socket(SYS_socket, AF_NETLINK, SOCK_RAW, 0, sv)));
    held("%d combinations denied, %d needed ones open", denied_n, opened);
    return verdict();
}
