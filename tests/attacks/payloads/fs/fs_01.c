// args: check
// FS-01: the inside half. The host uploads to every path of fs_01_paths.txt; this finds
// where the files came to lie, and judges each by owner and place.
#include "res/bound.h"

static int seen;

static void walk(const char *dir, int depth, dev_t proc) {
    struct stat st;
    // An interpreter's tree is large and deep; the clock bounds the search, not the tree.
    static uint64_t end;
    if (!end) end = now_ms() + 4000;
    if (depth > 24 || now_ms() > end || lstat(dir, &st) < 0 || st.st_dev == proc) return;
    DIR *d = opendir(dir);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));) {
        char path[4096];
        if (is(e->d_name, ".") || is(e->d_name, "..")) continue;
        int n = snprintf(path, sizeof path, "%s/%s", is(dir, "/") ? "" : dir, e->d_name);
        if (n >= (int)sizeof path || lstat(path, &st) < 0) continue;
        if (strstr(e->d_name, "fs01-mark")) {
            seen++;
            // This uid may create files only where it may write anyway.
            if (st.st_uid != getuid())
                breached("%s belongs to uid %d", path, st.st_uid);
            else if (access(dir, W_OK) < 0)
                breached("%s lies in a directory that this uid may not write", path);
            else
                held("%s is an ordinary own file", path);
        }
        if (S_ISDIR(st.st_mode)) walk(path, depth + 1, proc);
    }
    closedir(d);
}

int main(void) {
    struct stat proc = {0};
    stat("/proc", &proc);
    walk("/", 0, proc.st_dev);
    held("%d uploaded files found", seen);
    return verdict();
}
