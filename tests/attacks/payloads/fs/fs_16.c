// args: <dir>
// FS-16: working directories and programs that do not resolve as they look. The host
// starts each one; every start must give a typed answer within 1 s.
#include "res/bound.h"

static void put(const char *name, const char *text, size_t n) {
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0755);
    if (fd >= 0) write(fd, text, n), close(fd);
}

int main(int argc, char **argv) {
    const char *dir = word(argc, argv, 1, "/tmp/fs16");
    if ((mkdir(dir, 0755) < 0 && errno != EEXIST) || chdir(dir) < 0)
        return unstaged("%s %s", dir, ename(errno));
    const char *cwds[][2] = {{"cwd-root", "/"},           {"cwd-proc", "/proc/1/cwd"},
                             {"cwd-fd", "/proc/self/fd/3"}, {"cwd-loop", "cwd-loop"},
                             {"cwd-gone", "/nonexistent"}, {"cwd-up", "../../../../.."}};
    for (int i = 0; i < 6; i++) {
        unlink(cwds[i][0]);
        symlink(cwds[i][1], cwds[i][0]);
        NOTE("CWD %s/%s", dir, cwds[i][0]);
    }
    put("cwd-file", "x", 1);
    mkfifo("cwd-fifo", 0666);
    mkdir("cwd-locked", 0);
    NOTE("CWD %s/cwd-file", dir);
    NOTE("CWD %s/cwd-fifo", dir);
    NOTE("CWD %s/cwd-locked", dir);

    char self[4200], wide[400], tail[32];
    snprintf(self, sizeof self, "#!%s/run-self\n", dir);
    memset(wide, 'a', sizeof wide);
    memcpy(wide, "#!/", 3);
    wide[398] = '\n';
    const char *scripts[][2] = {
        {"run-gone", "#!/nonexistent/interpreter\n"}, {"run-dir", "#!/usr\n"},
        {"run-self", self},                           {"run-init", "#!/proc/1/exe\n"},
        {"run-exe", "#!/proc/self/exe\n"},            {"run-fd", "#!/proc/self/fd/3\n"},
        {"run-empty", "#!\n"},                        {"run-crlf", "#!/bin/sh\r\necho x\r\n"},
        {"run-text", "no header\n"},                  {"run-up", "#!../../../../bin/sh\n"},
    };
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        put(scripts[i][0], scripts[i][1], strlen(scripts[i][1]));
        NOTE("RUN %s/%s", dir, scripts[i][0]);
    }
    put("run-wide", wide, 399);
    put("run-zero", "", 0);
    // The first bytes of a program and nothing behind them.
    put("run-short", "\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\2\0\76\0", 20);
    close(open("run-noexec", O_WRONLY | O_CREAT, 0644));
    mkfifo("run-fifo", 0777);
    unlink("run-loop");
    symlink("run-loop", "run-loop");
    for (int i = 0; i < 6; i++) {
        const char *rest[] = {"wide", "zero", "short", "noexec", "fifo", "loop"};
        snprintf(tail, sizeof tail, "run-%s", rest[i]);
        NOTE("RUN %s/%s", dir, tail);
    }
    HELD("planted; every start must give a typed answer");
    return 0;
}
