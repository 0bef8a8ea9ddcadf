// args: [path of the agent's binary as seen inside]...
// LNG-06: replace the C library, the loader or its preload list, so that the agent or
// a helper loads our code. Files are opened for writing and never written.
#include "attack.h"

static void replace(const char *path) {
    struct stat st;
    if (lstat(path, &st) < 0 && errno == ENOENT) return;
    char what[320], dir[256], tmp[320];
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    snprintf(what, sizeof what, "write %s", path);
    refused(what, fd);
    if (fd >= 0) close(fd);
    // Renaming a file over itself through a second name needs the right to the
    // directory, which is all that a replacement needs; it changes nothing.
    snprintf(dir, sizeof dir, "%s", path);
    char *slash = strrchr(dir, '/');
    if (!slash || slash == dir) return;
    *slash = 0;
    snprintf(tmp, sizeof tmp, "%s/.lng06.%d", dir, (int)getpid());
    fd = open(tmp, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    snprintf(what, sizeof what, "create beside %s", path);
    refused(what, fd);
    if (fd >= 0) {
        close(fd);
        unlink(tmp);
    }
    if (chmod(path, st.st_mode & 07777) == 0)
        breached("chmod %s works", path);
    else
        held("chmod %s %s", path, ename(errno));
}

int main(int argc, char **argv) {
    static const char *libs[] = {"/lib/x86_64-linux-gnu/libc.so.6",
                                 "/usr/lib/x86_64-linux-gnu/libc.so.6",
                                 "/lib64/ld-linux-x86-64.so.2",
                                 "/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
                                 "/lib/x86_64-linux-gnu/libnss_files.so.2",
                                 "/usr/lib/x86_64-linux-gnu/libpthread.so.0",
                                 "/etc/ld.so.cache",
                                 "/etc/ld.so.conf",
                                 "/etc/nsswitch.conf",
                                 "/bin/sh",
                                 "/usr/bin/python3",
                                 NULL};
    for (int i = 0; libs[i]; i++) replace(libs[i]);

    // The preload list usually does not exist; making it is the attack.
    static const char *absent[] = {"/etc/ld.so.preload", "/etc/ld.so.conf.d/lng06.conf",
                                   "/usr/local/lib/libc.so.6", "/lib/x86_64-linux-gnu/lng06.so",
                                   "/etc/profile.d/lng06.sh", NULL};
    for (int i = 0; absent[i]; i++) {
        int fd = open(absent[i], O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
        char what[128];
        snprintf(what, sizeof what, "create %s", absent[i]);
        if (fd < 0 && errno == EEXIST) fd = open(absent[i], O_WRONLY | O_CLOEXEC);
        refused(what, fd);
        if (fd >= 0) {
            close(fd);
            unlink(absent[i]);
        }
    }

    // The agent itself, by its name and by its running image.
    for (int i = 1; i < argc; i++) replace(argv[i]);
    static const char *running[] = {"/proc/1/exe", "/proc/1/map_files", "/proc/1/root", NULL};
    for (int i = 0; running[i]; i++) {
        int fd = open(running[i], O_RDONLY | O_CLOEXEC);
        refused(running[i], fd);
        if (fd >= 0) close(fd);
        fd = open(running[i], O_WRONLY | O_CLOEXEC);
        if (fd >= 0) {
            breached("%s opens for writing", running[i]);
            close(fd);
        }
    }
    return verdict();
}
