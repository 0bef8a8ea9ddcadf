// args: <dir>
// FS-15: artifact names that aim at another key or path once somebody joins them to a
// prefix. A file name holds neither a slash nor a NUL, so the rest is what there is.
#include "res/bound.h"

int main(int argc, char **argv) {
    const char *dir = word(argc, argv, 1, "/tmp/fs15");
    const char *names[] = {
        "..%2f..%2fother-tenant%2fx", "%2e%2e%2fx",  "..\\..\\other\\x", "C:\\x",      "~",
        "~root",                      "$HOME",       "?versionId=1",     "#fragment",  "a;id",
        "&amp;",                      "..\xef\xbc\x8f..\xef\xbc\x8fx",   "\xe2\x88\x95x", ".",
        "..%c0%af..",                 "sandbox.lock", ".git",            "*",          "-",
    };
    if ((mkdir(dir, 0755) < 0 && errno != EEXIST) || chdir(dir) < 0)
        return unstaged("%s %s", dir, ename(errno));
    int made = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char hex[160] = {0};
        for (size_t j = 0; names[i][j]; j++)
            snprintf(hex + 2 * j, 3, "%02x", (unsigned char)names[i][j]);
        int fd = open(names[i], O_WRONLY | O_CREAT, 0644);
        if (fd < 0) continue;
        write(fd, hex, strlen(hex));
        close(fd);
        NOTE("NAME %s", hex);
        made++;
    }
    HELD("%d names planted; where the host puts them decides", made);
    return 0;
}
