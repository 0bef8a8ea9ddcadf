// args: <dir> <host canary file> <host canary dir>
// FS-07: a tree for a careless cleaner: links to the host's canaries under the names
// that a cleaner walks, directories without rights, and hard links.
#include "res/bound.h"

int main(int argc, char **argv) {
    const char *dir = word(argc, argv, 1, "/tmp/fs07");
    const char *file = word(argc, argv, 2, "/nonexistent/canary");
    const char *folder = word(argc, argv, 3, "/nonexistent");
    if ((mkdir(dir, 0755) < 0 && errno != EEXIST) || chdir(dir) < 0)
        return unstaged("%s %s", dir, ename(errno));
    const char *names[] = {"upper", "work", "merged", "root", "tmp", "core", "output", ".cache"};
    int made = 0;
    for (int i = 0; i < 8; i++) {
        char path[64];
        mkdir(names[i], 0755);
        for (int j = 0; j < 50; j++) {
            snprintf(path, sizeof path, "%s/link-%d", names[i], j);
            made += symlink(j & 1 ? file : folder, path) == 0;
        }
        snprintf(path, sizeof path, "%s/up", names[i]);
        made += symlink("../../../../../../../..", path) == 0;
        snprintf(path, sizeof path, "%s/file", names[i]);
        close(open(path, O_WRONLY | O_CREAT, 0644));
        link(path, names[(i + 1) % 8]);
        chmod(names[i], i & 1 ? 0 : 0555);
    }
    // Links at the top of the places that a per-sandbox cleaner may know by name.
    const char *tops[] = {"/tmp", "/home/user", "/dev/shm", "/var/tmp", "/run"};
    for (int i = 0; i < 5; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/fs07-dir", tops[i]);
        made += symlink(folder, path) == 0;
        snprintf(path, sizeof path, "%s/fs07-file", tops[i]);
        made += symlink(file, path) == 0;
    }
    HELD("%d links planted; the canaries' owner, mode and ctime after destroy decide", made);
    return 0;
}
