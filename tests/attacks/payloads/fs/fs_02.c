// args: plant <dir> <host canary file> <host canary dir> | check <dir>
// FS-02: symlinks that lead to files of the host, of the base and of the agent. The
// host then downloads through each and uploads over each.
#include "res/bound.h"

static const char *base[] = {"/etc/passwd", "/etc/hostname", "/usr/bin/env", "/bin/sh"};

int main(int argc, char **argv) {
    const char *dir = word(argc, argv, 2, "/tmp/fs02");
    if (is(word(argc, argv, 1, "plant"), "plant")) {
        const char *file = word(argc, argv, 3, "/nonexistent/canary");
        const char *folder = word(argc, argv, 4, "/nonexistent");
        char up[4200];
        snprintf(up, sizeof up, "../../../../../../../../..%s", file);
        const char *links[][2] = {
            {"shadow", "/etc/shadow"}, {"passwd", "/etc/passwd"},   {"env", "/usr/bin/env"},
            {"guest", "/proc/1/exe"},  {"canary", file},            {"canary-up", up},
            {"canary-dir", folder},    {"root", "/"},               {"loop", "loop"},
            {"mem", "/proc/1/mem"},    {"environ", "/proc/1/environ"}, {"dangling", "/etc/fs02-new"},
            {"host-tmp", "/tmp/fs02-dangling"}, {"chain", "chain-2"}, {"chain-2", "canary"},
        };
        if (mkdir(dir, 0755) < 0 && errno != EEXIST) return unstaged("%s %s", dir, ename(errno));
        if (chdir(dir) < 0) return unstaged("%s %s", dir, ename(errno));
        size_t n = sizeof links / sizeof *links;
        for (size_t i = 0; i < n; i++) {
            unlink(links[i][0]);
            if (symlink(links[i][1], links[i][0]) < 0)
                return unstaged("symlink %s", ename(errno));
            NOTE("LINK %s/%s", dir, links[i][0]);
        }
        int fd = open("hashes", O_WRONLY | O_CREAT | O_TRUNC, 0600);
        for (size_t i = 0; i < 4; i++) {
            uint64_t h = hash_file(base[i]);
            write(fd, &h, sizeof h);
        }
        HELD("%zu links planted; the transfers decide", n);
        return 0;
    }
    if (chdir(dir) < 0) return unstaged("%s %s", dir, ename(errno));
    int fd = open("hashes", O_RDONLY);
    if (fd < 0) return unstaged("no hashes");
    for (size_t i = 0; i < 4; i++) {
        uint64_t h = 0;
        read(fd, &h, sizeof h);
        if (h != hash_file(base[i]))
            breached("%s was changed by an upload", base[i]);
        else
            held("%s unchanged", base[i]);
    }
    if (access("/etc/fs02-new", F_OK) == 0) breached("an upload made /etc/fs02-new");
    return verdict();
}
