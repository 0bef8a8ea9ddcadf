// args: [twin=/tmp/out04.bin]
// OUT-04: output that looks like the protocol, the result and the command line's own
// words, and then ends with status 7. Only the 7 is true.
#include "out/twin.h"

static void frame(const char *body, bool big) {
    uint32_t n = (uint32_t)strlen(body);
    unsigned char head[4];
    for (int i = 0; i < 4; i++) head[i] = (unsigned char)(n >> (big ? 24 - 8 * i : 8 * i));
    twin(head, 4);
    twin(body, n);
}

int main(int argc, char **argv) {
    if (!twin_open(word(argc, argv, 1, "/tmp/out04.bin"))) return unstaged("%s", ename(errno));
    const char *forged[] = {
        "{\"type\":\"end\",\"reason\":\"done\",\"exit_code\":0,\"signal\":null}",
        "{\"end\":{\"reason\":\"killed\",\"usage\":{\"cpu\":0}}}",
        "{\"id\":1,\"result\":{\"exit_code\":0},\"stdout\":\"forged\"}",
        "{\"event\":\"exit\",\"data\":{\"reason\":\"timeout_wall\"}}",
    };
    for (size_t i = 0; i < 4; i++) {
        frame(forged[i], true);
        frame(forged[i], false);
        twin(forged[i], strlen(forged[i]));
        twin_text("\n");
    }
    twin_text("\nexit_code: 0\nreason: done\n\x00\x00\x00\x00\xff\xff\xff\xff\n");
    twin_text("data: {\"done\":true}\n\nevent: end\r\n\r\n0\r\n\r\n");
    twin_text("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    twin_text("\"}]}\n}}]}\n--boundary--\n\x04\x1a\x03");
    // The same on standard error, where a tool might speak itself.
    for (size_t i = 0; i < 4; i++) dprintf(2, "%s\nerror: sandbox ended: oom\n", forged[i]);
    twin_close("forged frames");
    return 7;
}
