// Output that must arrive byte by byte.
//
// What is written to standard output also goes to a file, which the host downloads and
// compares. The verdict then goes to standard error, so that it does not disturb the
// bytes under test.
#ifndef BELLJAR_TWIN_H
#define BELLJAR_TWIN_H

#include "res/bound.h"

static int twin_fd = -1;

AT_UNUSED static bool twin_open(const char *path) {
    twin_fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    return twin_fd >= 0;
}

AT_UNUSED static void twin(const void *bytes, size_t n) {
    at_put(bytes, n);
    const char *p = bytes;
    while (n > 0) {
        ssize_t w = write(twin_fd, p, n);
        if (w <= 0) return;
        p += w;
        n -= (size_t)w;
    }
}

#define twin_text(literal) twin(literal, sizeof(literal) - 1)

AT_UNUSED static int twin_close(const char *what) {
    close(twin_fd);
    dup2(2, 1);
    HELD("%s written twice; the host compares output and file", what);
    return 0;
}

#endif
