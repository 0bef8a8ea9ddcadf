// args: [twin=/tmp/out02.bin]
// OUT-02: bytes that are no text: all values, NUL, broken and overlong UTF-8, lone
// surrogates, byte order marks, and characters cut in two by a pause.
#include "out/twin.h"

int main(int argc, char **argv) {
    if (!twin_open(word(argc, argv, 1, "/tmp/out02.bin"))) return unstaged("%s", ename(errno));
    unsigned char all[256];
    for (int i = 0; i < 256; i++) all[i] = (unsigned char)i;
    twin(all, sizeof all);
    twin_text("\xef\xbb\xbf" "bom\n\xfe\xff\xff\xfe");
    twin_text("\xc0\xaf \xe0\x80\xaf \xf0\x80\x80\xaf overlong\n");
    twin_text("\xed\xa0\x80 \xed\xbf\xbf lone surrogates\n");
    twin_text("\xf4\x90\x80\x80 \xf8\x88\x80\x80\x80 past the end\n");
    twin_text("\x00 \\u0000 \\ud800 \"\\ \x7f\n");
    const char euro[] = "\xe2\x82\xac", clef[] = "\xf0\x9d\x84\x9e";
    // A pause between the bytes makes each a chunk of its own.
    for (int i = 0; i < 3; i++) twin(euro + i, 1), sleep_ms(20);
    for (int i = 0; i < 4; i++) twin(clef + i, 1), sleep_ms(20);
    // The last character never ends.
    twin_text("\xf0\x9d\x84");
    return twin_close("bytes");
}
