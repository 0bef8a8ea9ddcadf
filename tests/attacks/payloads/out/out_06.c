// args: deep | wide | numbers | keys | strings, then [twin=/tmp/out06.json]
// OUT-06: JSON that hurts whoever parses it. To the host it is text and must stay text.
#include "out/twin.h"

int main(int argc, char **argv) {
    const char *mode = word(argc, argv, 1, "deep");
    if (!twin_open(word(argc, argv, 2, "/tmp/out06.json"))) return unstaged("%s", ename(errno));
    static char block[1 << 20];
    if (is(mode, "deep")) {
        memset(block, '[', sizeof block);
        twin(block, 1000000);
        for (int i = 0; i < 100000; i++) twin_text("{\"a\":");
    } else if (is(mode, "wide")) {
        twin_text("[");
        for (int i = 0; i < 200000; i++) twin_text("0,");
        twin_text("0]");
    } else if (is(mode, "numbers")) {
        twin_text("[NaN,Infinity,-Infinity,1e999999,-0,0x10,1e-999999,");
        memset(block, '9', sizeof block);
        for (int i = 0; i < 8; i++) twin(block, sizeof block);
        twin_text("]");
    } else if (is(mode, "keys")) {
        twin_text("{\"reason\":\"done\",\"reason\":\"oom\",\"__proto__\":{},\"\":0,\"\\u0000\":1,"
                  "\"exit_code\":0,\"exit_code\":7,\"stdout\":null}");
    } else {
        twin_text("\"\\ud800\\udc00\\udc00\\u0000\\x41 </script><!-- \xe2\x80\xa8\xe2\x80\xa9 ");
        memset(block, '\\', sizeof block);
        twin(block, sizeof block);
    }
    return twin_close(mode);
}
