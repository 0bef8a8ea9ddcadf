// args: plant <secret> | probe <secret>
// FS-18: hard links to files of others, and what a later sandbox in the same slot, with
// the same uid, finds of the one before.
#include "res/bound.h"

static const char *places[] = {"/tmp", "/home/user", "/dev/shm", "/var/tmp", "/run", "/run/lock",
                               "/var/lock", "/workspace", "/mnt", "/srv", "/opt"};

static int found;

static void search(const char *dir, const char *secret, int depth) {
    static char text[65536];
    DIR *d = opendir(dir);
    if (!d || depth > 3) {
        if (d) closedir(d);
        return;
    }
    for (struct dirent *e; (e = readdir(d));) {
        char path[4096];
        struct stat st;
        if (is(e->d_name, ".") || is(e->d_name, "..")) continue;
        if (snprintf(path, sizeof path, "%s/%s", dir, e->d_name) >= (int)sizeof path) continue;
        if (lstat(path, &st) < 0) continue;
        if (S_ISDIR(st.st_mode)) search(path, secret, depth + 1);
        if (!S_ISREG(st.st_mode)) continue;
        ssize_t n = read_file(path, text, sizeof text);
        if (strstr(e->d_name, secret) || (n > 0 && find_bytes(text, (size_t)n, secret))) {
            breached("%s of an earlier sandbox is here", path);
            found++;
        }
    }
    closedir(d);
}

int main(int argc, char **argv) {
    const char *secret = word(argc, argv, 2, "fs18-secret");
    size_t n = sizeof places / sizeof *places;
    if (is(word(argc, argv, 1, "plant"), "probe")) {
        for (size_t i = 0; i < n; i++) search(places[i], secret, 0);
        if (!found) held("nothing of an earlier sandbox in %zu places", n);
        return verdict();
    }
    int wrote = 0;
    for (size_t i = 0; i < n; i++) {
        char path[320];
        snprintf(path, sizeof path, "%s/%s", places[i], secret);
        int fd = open(path, O_WRONLY | O_CREAT, 0666);
        if (fd < 0) continue;
        write(fd, secret, strlen(secret));
        close(fd);
        wrote++;
    }
    NOTE("secret in %d places", wrote);
    const char *others[] = {"/etc/passwd", "/etc/shadow", "/usr/bin/env", "/proc/1/exe"};
    for (size_t i = 0; i < 4; i++) {
        struct stat st;
        unlink("/tmp/fs18.link");
        if (linkat(AT_FDCWD, others[i], AT_FDCWD, "/tmp/fs18.link", AT_SYMLINK_FOLLOW) < 0) {
            held("link to %s %s", others[i], ename(errno));
            continue;
        }
        // A link by itself gives no right; writing through it or owning it would.
        stat("/tmp/fs18.link", &st);
        int fd = open("/tmp/fs18.link", O_WRONLY);
        if (fd >= 0 || st.st_uid == getuid() || chmod("/tmp/fs18.link", 0777) == 0)
            breached("a link to %s gives rights over it", others[i]);
        else
            held("a link to %s gives no right", others[i]);
    }
    return verdict();
}
