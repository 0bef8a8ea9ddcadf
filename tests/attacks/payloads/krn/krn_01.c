// args: none
// KRN-01: become root in a nested user namespace, then reach for fsopen, nft and tc.
#include "attack.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

static long nested_root(void *unused) {
    if (unshare(CLONE_NEWUSER) < 0) return -1;
    // The namespace is the breach. The rest only shows what it would open.
    write_file("/proc/self/setgroups", "deny");
    write_file("/proc/self/uid_map", "0 1000 1");
    if (unshare(CLONE_NEWNS | CLONE_NEWNET) == 0) NOTE("nested mount and net namespace made");
    if (sys2(430, "tmpfs", 0) >= 0) NOTE("fsopen works in the nested namespace");
    if (socket(AF_NETLINK, SOCK_RAW, 12) >= 0) NOTE("nftables socket works");
    if (socket(AF_NETLINK, SOCK_RAW, 0) >= 0) NOTE("traffic control socket works");
    errno = 0;
    return 0;
}

int main(void) {
    // ENOSPC is the second lock: the per-namespace limit behind the filter.
    denied_act("unshare(NEWUSER)", in_child(nested_root, NULL, 1000), EPERM, ENOSPC, 0);
    static const struct {
        const char *name;
        unsigned long flag;
    } all[] = {{"NEWUSER|NEWNET", CLONE_NEWUSER | CLONE_NEWNET},
               {"NEWUSER|NEWNS", CLONE_NEWUSER | CLONE_NEWNS},
               {"NEWNS", CLONE_NEWNS},
               {"NEWNET", CLONE_NEWNET},
               {"NEWPID", CLONE_NEWPID},
               {"NEWIPC", CLONE_NEWIPC},
               {"NEWUTS", CLONE_NEWUTS},
               {"NEWCGROUP", CLONE_NEWCGROUP},
               {"NEWTIME", CLONE_NEWTIME}};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        char what[64];
        snprintf(what, sizeof what, "unshare(%s)", all[i].name);
        denied_act(what, child_call(SYS_unshare, all[i].flag), EPERM, ENOSPC, 0);
    }
    // Re-entering a namespace is the other door to the same room.
    int fd = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
    denied_act("setns(user)", child_call(SYS_setns, fd, 0), EPERM, 0);
    fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    denied_act("setns(net)", child_call(SYS_setns, fd, CLONE_NEWNET), EPERM, 0);
    return verdict();
}
