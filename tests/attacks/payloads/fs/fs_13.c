// args: <dir>
// FS-13: attributes and nodes that mean something to overlayfs: a redirect that shows
// another directory, an opaque mark, a metacopy, a whiteout.
#include "res/bound.h"
#include <sys/xattr.h>

static int entries(const char *path) {
    int n = 0;
    DIR *d = opendir(path);
    if (!d) return -1;
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

int main(int argc, char **argv) {
    const char *dir = word(argc, argv, 1, "/home/user/fs13");
    if ((mkdir(dir, 0755) < 0 && errno != EEXIST) || chdir(dir) < 0)
        return unstaged("%s %s", dir, ename(errno));
    mkdir("redirect", 0755);
    mkdir("opaque", 0755);
    close(open("opaque/own", O_WRONLY | O_CREAT, 0644));
    close(open("meta", O_WRONLY | O_CREAT, 0644));
    const char *marks[][3] = {
        {"redirect", "overlay.redirect", "/etc"}, {"opaque", "overlay.opaque", "y"},
        {"meta", "overlay.metacopy", ""},         {"meta", "overlay.redirect", "/etc/shadow"},
        {"meta", "overlay.origin", "x"},          {"redirect", "overlay.impure", "y"},
    };
    int own = 0;
    for (size_t i = 0; i < 6; i++) {
        char name[64];
        snprintf(name, sizeof name, "trusted.%s", marks[i][1]);
        refused(name, setxattr(marks[i][0], name, marks[i][2], strlen(marks[i][2]), 0));
        // The user. form may be stored as plain data; what counts is that it means nothing.
        snprintf(name, sizeof name, "user.%s", marks[i][1]);
        own += setxattr(marks[i][0], name, marks[i][2], strlen(marks[i][2]), 0) == 0;
    }
    NOTE("%d of 6 user. marks stored", own);
    bool whiteout = !refused("whiteout in a directory", mknod("opaque/passwd", S_IFCHR | 0600, makedev(0, 0)));
    refused("security.capability", setxattr("meta", "security.capability",
                                            "\1\0\0\2\377\377\377\377\0\0\0\0\0\0\0\0\0\0\0\0", 20, 0));
    // A fresh look-up is what would follow a redirect.
    rename("redirect", "redirect-2");
    int n = entries("redirect-2");
    struct stat st;
    stat("meta", &st);
    if (n > 0) breached("the redirected directory shows %d foreign entries", n);
    if (st.st_size > 0) breached("the metacopy file shows %ld foreign bytes", (long)st.st_size);
    if (entries("opaque") != 1 + whiteout) breached("the opaque mark changed a directory");
    held("the marks mean nothing");
    return verdict();
}
