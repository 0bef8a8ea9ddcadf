// args: <file of the host's root in a directory that is shown> <file of the template>
// FS-22: as root with the profile `full`: read, change and give away files of the host, and of
// what all sandboxes share. Whether others see changes is for the harness to find out.
#include "res/bound.h"
#include <sys/xattr.h>

static void change(const char *path) {
    NOTE("%s: chown %s, chmod %s", path, ename(chown(path, 1234, 1234) < 0 ? errno : 0),
         ename(chmod(path, 0777) < 0 ? errno : 0));
}

int main(int argc, char **argv) {
    const char *hosts = word(argc, argv, 1, ""), *shared = word(argc, argv, 2, "/usr/bin/env");
    char moved[256], text[64];
    struct stat about;
    if (stat(hosts, &about) < 0) return unstaged("%s: %s", hosts, ename(errno));
    if (status_value("CapEff", text, sizeof text) && strtoull(text, NULL, 16) == 0)
        return unstaged("this root has no capability");
    snprintf(moved, sizeof moved, "%s.moved", hosts);
    refused("open to read", open(hosts, O_RDONLY | O_CLOEXEC));
    refused("open to write", open(hosts, O_WRONLY | O_CLOEXEC));
    refused("chmod", chmod(hosts, 0777));
    refused("chown", chown(hosts, 0, 0));
    refused("lchown to a user", lchown(hosts, 1000, 1000));
    refused("truncate", truncate(hosts, 0));
    refused("utimes", utimensat(AT_FDCWD, hosts, NULL, 0));
    refused("setxattr", setxattr(hosts, "user.fs22", "x", 1, 0));
    refused("link", link(hosts, "/tmp/fs22.link"));
    refused("rename", rename(hosts, moved));
    refused("unlink", unlink(hosts));

    // In its own layer root may do all of this.
    static const char *others[] = {"/dev/null", "/dev/urandom", "/etc/passwd", "/proc/meminfo",
                                   "/proc/1", "/dev", "/usr", NULL};
    change(shared);
    for (int i = 0; others[i]; i++) change(others[i]);
    return verdict();
}
