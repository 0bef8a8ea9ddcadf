// args: write <path> [records=300] | check <path> <acknowledged>
// FS-19: writes numbered records and acknowledges each on its output, while the host
// pauses and resumes. Every acknowledged record must be there afterwards.
#include "res/bound.h"

struct record {
    uint64_t number, mix;
    char body[496];
};

static void fill(struct record *r, uint64_t n) {
    memset(r, 0, sizeof *r);
    r->number = n;
    r->mix = n * 0x9e3779b97f4a7c15ull;
    memset(r->body, 'a' + (int)(n % 26), sizeof r->body);
}

int main(int argc, char **argv) {
    const char *path = word(argc, argv, 2, "/tmp/fs19.log");
    struct record want, got;
    if (is(word(argc, argv, 1, "write"), "write")) {
        long records = number(argc, argv, 3, 300, 2000);
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);
        if (fd < 0) return unstaged("open %s", ename(errno));
        for (long i = 1; i <= records; i++) {
            fill(&want, (uint64_t)i);
            if (write(fd, &want, sizeof want) != sizeof want || fsync(fd) < 0)
                return unstaged("record %ld %s", i, ename(errno));
            NOTE("ACK %ld", i);
            sleep_ms(10);
        }
        HELD("%ld records written; the check decides", records);
        return 0;
    }
    long acknowledged = number(argc, argv, 3, 1, 2000);
    int fd = open(path, O_RDONLY);
    if (fd < 0) {
        BREACH("the file is gone (%s)", ename(errno));
        return 0;
    }
    for (long i = 1; i <= acknowledged; i++) {
        fill(&want, (uint64_t)i);
        if (read(fd, &got, sizeof got) != sizeof got || memcmp(&want, &got, sizeof got)) {
            BREACH("record %ld of %ld is lost or changed", i, acknowledged);
            return 0;
        }
    }
    HELD("all %ld acknowledged records are there", acknowledged);
    return 0;
}
