// Starts the harness again with secrets that no sandbox may ever show, and in a network of its own.
//
//     launch KEY-NAME SECRET PROGRAM ARGS...
//
// The program runs in a session keyring that holds the secret as a user key. A
// child that keeps the keyring could read it, so the jail has to take it away.
//
// Canaries listen on sockets of the host. Another suite on the same machine has attacks that knock
// at every socket they find, so each has a network namespace: ports, abstract names and the list
// of unix sockets are its own.
#include "attack.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>

// An address that is not loopback, as a host has.
#define OWN_ADDRESS "10.213.0.1"

static void address(struct sockaddr *to, const char *text) {
    struct sockaddr_in in = {.sin_family = AF_INET};
    inet_pton(AF_INET, text, &in.sin_addr);
    memcpy(to, &in, sizeof in);
}

static const char *own_network(void) {
    if (unshare(CLONE_NEWNET) < 0) return "unshare";
    int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (s < 0) return "socket";
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    if (ioctl(s, SIOCSIFFLAGS, &lo) < 0) return "bring loopback up";
    struct ifreq own = {.ifr_name = "lo:1"};
    address(&own.ifr_addr, OWN_ADDRESS);
    if (ioctl(s, SIOCSIFADDR, &own) < 0) return "give it an address";
    address(&own.ifr_addr, "255.255.255.255");
    if (ioctl(s, SIOCSIFNETMASK, &own) < 0) return "make it one address";
    // Addresses that are nobody's (RFC 5737): there is a way there, and nothing at its end.
    struct rtentry away = {.rt_flags = RTF_UP, .rt_dev = "lo"};
    address(&away.rt_dst, "192.0.2.0");
    address(&away.rt_genmask, "255.255.255.0");
    if (ioctl(s, SIOCADDRT, &away) < 0) return "give it a route";
    close(s);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    const char *failed = own_network();
    if (failed) {
        fprintf(stderr, "no network of its own: cannot %s: %s\n", failed, ename(errno));
        return 1;
    }
    // 1 is KEYCTL_JOIN_SESSION_KEYRING, -3 the session keyring.
    if (syscall(SYS_keyctl, 1, NULL) < 0) NOTE("no session keyring: %s", ename(errno));
    if (syscall(SYS_add_key, "user", argv[1], argv[2], strlen(argv[2]), -3) < 0)
        NOTE("no key planted: %s", ename(errno));
    execv(argv[3], argv + 3);
    return 127;
}
