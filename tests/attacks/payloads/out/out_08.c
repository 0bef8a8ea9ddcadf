// args: <canary secret, reversed>...
// OUT-08: looks for secrets of the host's processes: own and others' environment and
// arguments, start-up memory, and files. They come in reversed, since the search would
// otherwise find its own arguments. Then prints texts shaped like keys, for the logs.
#include "res/bound.h"

static char text[1 << 20];
static char secrets[16][128];
static int known;

static void search(const char *where, const char *data, size_t n) {
    for (int i = 0; i < known; i++)
        if (find_bytes(data, n, secrets[i])) breached("secret %d found in %s", i, where);
}

static void search_file(const char *path) {
    struct stat st;
    if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode)) return;
    ssize_t n = read_file(path, text, sizeof text);
    if (n > 0) search(path, text, (size_t)n);
}

static void search_dir(const char *dir, int depth) {
    DIR *d = opendir(dir);
    if (!d) return;
    for (struct dirent *e; depth < 4 && (e = readdir(d));) {
        char path[4096];
        struct stat st;
        if (is(e->d_name, ".") || is(e->d_name, "..")) continue;
        if (snprintf(path, sizeof path, "%s/%s", dir, e->d_name) >= (int)sizeof path) continue;
        if (lstat(path, &st) < 0) continue;
        if (S_ISDIR(st.st_mode)) search_dir(path, depth + 1);
        else search_file(path);
    }
    closedir(d);
}

int main(int argc, char **argv, char **envp) {
    for (int i = 1; i < argc && known < 16; i++, known++) {
        size_t n = strlen(argv[i]);
        for (size_t j = 0; j < n && j < 127; j++) secrets[known][j] = argv[i][n - 1 - j];
    }
    if (!known) return unstaged("no secret to look for");
    int names = 0;
    for (char **e = envp; *e; e++, names++) {
        search("the environment", *e, strlen(*e));
        NOTE("ENV %.*s", (int)strcspn(*e, "="), *e);
    }
    // The stack above the environment holds what the kernel copied at start.
    char *top = envp[0] ? envp[0] : argv[0];
    search("the start-up stack", top, strlen(top));
    int processes = 0;
    DIR *d = opendir("/proc");
    for (struct dirent *e; d && (e = readdir(d));) {
        const char *files[] = {"environ", "cmdline", "comm", "mountinfo", "cgroup", "status", "maps"};
        if (e->d_name[0] < '0' || e->d_name[0] > '9') continue;
        processes++;
        for (int i = 0; i < 7; i++) {
            char path[320];
            snprintf(path, sizeof path, "/proc/%s/%s", e->d_name, files[i]);
            ssize_t n = read_file(path, text, sizeof text);
            if (n > 0) search(path, text, (size_t)n);
        }
    }
    const char *dirs[] = {"/etc", "/run", "/tmp", "/home", "/root", "/var/tmp", "/dev/shm",
                          "/opt", "/srv", "/mnt", "/var/lib/belljar"};
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++) search_dir(dirs[i], 0);
    search_file("/proc/keys");
    search_file("/proc/cmdline");
    // Shaped like keys, and none: they are put together here so that no scanner of
    // the source takes them for leaked ones.
    NOTE("%s%s", "sk-", "belljarattack0000000000000000000000000000000000");
    NOTE("%s%s", "AKIA", "BELLJARATTACK000");
    NOTE("%s%s", "ghp_", "belljarattack00000000000000000000000000");
    held("%d secrets in none of %d variables, %d processes and the files", known, names, processes);
    return verdict();
}
