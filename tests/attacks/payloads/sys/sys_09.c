// args: [further names allowed in /dev]...
// SYS-09: list /dev and compare it with what belongs there.
#include "attack.h"

static const struct {
    const char *name;
    mode_t type;
    int major, minor;
} golden[] = {{"null", S_IFCHR, 1, 3},    {"zero", S_IFCHR, 1, 5}, {"full", S_IFCHR, 1, 7},
              {"random", S_IFCHR, 1, 8},  {"urandom", S_IFCHR, 1, 9}, {"tty", S_IFCHR, 5, 0},
              {"ptmx", 0, 5, 2},          {"pts", S_IFDIR},        {"shm", S_IFDIR},
              {"fd", S_IFLNK},            {"stdin", S_IFLNK},      {"stdout", S_IFLNK},
              {"stderr", S_IFLNK}};

static int by_name(const void *a, const void *b) {
    return strcmp(*(char **)a, *(char **)b);
}

int main(int argc, char **argv) {
    char *names[512];
    int n = 0;
    DIR *d = opendir("/dev");
    if (!d) {
        held("/dev %s", ename(errno));
        return verdict();
    }
    for (struct dirent *e; (e = readdir(d)) && n < 512;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        names[n++] = strdup(e->d_name);
    }
    closedir(d);
    qsort(names, (size_t)n, sizeof *names, by_name);
    char line[4096] = "";
    for (int i = 0; i < n; i++) {
        snprintf(line + strlen(line), sizeof line - strlen(line), " %s", names[i]);
        char path[300];
        struct stat st;
        snprintf(path, sizeof path, "/dev/%s", names[i]);
        if (lstat(path, &st) < 0) continue;
        int g = -1;
        for (unsigned j = 0; j < sizeof golden / sizeof *golden; j++)
            if (strcmp(golden[j].name, names[i]) == 0) g = (int)j;
        bool extra = false;
        for (int j = 1; j < argc; j++) extra |= strcmp(argv[j], names[i]) == 0;
        if (g < 0) {
            if (!extra) breached("/dev/%s does not belong there", names[i]);
            continue;
        }
        // The name says little: a mask made from a swapped /dev/null is a known trick.
        mode_t type = st.st_mode & S_IFMT;
        if (golden[g].type && type != golden[g].type)
            breached("/dev/%s has the wrong type %o", names[i], type);
        else if (type == S_IFCHR && (major(st.st_rdev) != (unsigned)golden[g].major ||
                                     minor(st.st_rdev) != (unsigned)golden[g].minor))
            breached("/dev/%s is device %u:%u", names[i], major(st.st_rdev), minor(st.st_rdev));
    }
    NOTE("dev:%s", line);
    // Terminals of others would show as further numbers here.
    d = opendir("/dev/pts");
    int ptys = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] >= '0' && e->d_name[0] <= '9') ptys++;
    if (d) closedir(d);
    NOTE("pts holds %d terminals", ptys);
    int fd = open("/dev/sys09", O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    refused("create in /dev", fd);
    if (fd >= 0) {
        close(fd);
        unlink("/dev/sys09");
    }
    held("%d names, all golden", n);
    return verdict();
}
