// args: <dir>
// OUT-09: text that starts a new record in a careless log: in output, in file names, in
// the process's own name, and in a program's path and arguments.
#include "res/bound.h"

int main(int argc, char **argv) {
    const char *dir = word(argc, argv, 1, "/tmp/out09");
    static const char *forged =
        "x\r\n2026-01-01T00:00:00Z ERROR belljar: FORGED-RECORD sandbox.id=other\n"
        "{\"level\":\"ERROR\",\"message\":\"FORGED-RECORD\"}\n\x1b[31mFORGED-RECORD\x1b[0m\n";
    mkdir(dir, 0755);
    if (chdir(dir) < 0) return unstaged("%s %s", dir, ename(errno));
    prctl(PR_SET_NAME, "a\n{\"x\":\"FORGED");
    at_put(forged, strlen(forged));
    write(2, forged, strlen(forged));
    // A program whose very path forges; the host starts it by this name.
    const char *name = "run\nFORGED-RECORD path=\"";
    int fd = open(name, O_WRONLY | O_CREAT, 0755);
    if (fd >= 0) write(fd, "#!/bin/sh\nexit 3\n", 17), close(fd);
    mkdir("cwd\r\nFORGED-RECORD cwd=", 0755);
    close(open("file\",\"reason\":\"FORGED-RECORD\"}\n{\"", O_WRONLY | O_CREAT, 0644));
    HELD("planted in %s; every log line of the host must stay one record", dir);
    return 0;
}
