// args: none
// SYS-12: rewrite the maps of the user namespace, or simply take another identity.
#include "attack.h"
#include <grp.h>

static long as_uid(void *p) {
    uid_t u = *(uid_t *)p;
    return sys3(SYS_setresuid, u, u, u);
}

static long as_gid(void *p) {
    gid_t g = *(gid_t *)p;
    return sys3(SYS_setresgid, g, g, g);
}

static long with_groups(void *p) {
    return sys2(SYS_setgroups, 1, p);
}

int main(void) {
    static const struct {
        const char *path, *text;
    } maps[] = {{"/proc/self/uid_map", "0 0 4294967295\n"},
                {"/proc/self/uid_map", "1000 0 1\n"},
                {"/proc/self/gid_map", "0 0 4294967295\n"},
                {"/proc/self/projid_map", "0 0 1\n"},
                {"/proc/self/setgroups", "allow\n"},
                {"/proc/1/uid_map", "0 0 1\n"}};
    for (unsigned i = 0; i < sizeof maps / sizeof *maps; i++) {
        // The map of project ids needs no privilege as long as nobody has written it.
        ssize_t n = write_file(maps[i].path, maps[i].text);
        denied(maps[i].path, n, EPERM, EACCES, ENOENT, EROFS, 0);
    }
    char now[256];
    if (read_file("/proc/self/setgroups", now, sizeof now) > 0) {
        if (strncmp(now, "deny", 4) == 0)
            held("setgroups is deny");
        else
            NOTE("setgroups is %s", now);
    }
    // 999 is the agent: becoming it would open everything it holds.
    uid_t ids[] = {0, 999, 65534};
    for (unsigned i = 0; i < 3; i++) {
        char what[64];
        snprintf(what, sizeof what, "setresuid(%u)", ids[i]);
        denied_act(what, in_child(as_uid, &ids[i], 1000), EPERM, EINVAL, 0);
        snprintf(what, sizeof what, "setresgid(%u)", ids[i]);
        denied_act(what, in_child(as_gid, &ids[i], 1000), EPERM, EINVAL, 0);
        snprintf(what, sizeof what, "setgroups(%u)", ids[i]);
        denied_act(what, in_child(with_groups, &ids[i], 1000), EPERM, EINVAL, 0);
    }
    gid_t groups[32];
    int n = getgroups(32, groups);
    for (int i = 0; i < n; i++)
        if (groups[i] != getgid()) breached("supplementary group %u", groups[i]);
    if (getuid() == 0) breached("we run as uid 0");
    return verdict();
}
