// args: [twin=/tmp/out03.bin]
// OUT-03: sequences that drive a terminal: clear, title, clipboard, links, questions
// that answer on the keyboard, end of paste, and the 8-bit forms of the same.
#include "out/twin.h"

int main(int argc, char **argv) {
    if (!twin_open(word(argc, argv, 1, "/tmp/out03.bin"))) return unstaged("%s", ename(errno));
    twin_text("before\x1b[2J\x1b[H\x1b[3Jafter clear\n");
    twin_text("\x1b]0;title\x07\x1b]2;title\x1b\\\n");
    twin_text("\x1b]52;c;YmVsbGphcg==\x07\n");
    twin_text("\x1b]8;;file:///etc/passwd\x1b\\safe text\x1b]8;;\x1b\\\n");
    twin_text("\x1bP$q\"p\x1b\\\x1b[c\x1b[5n\x1b[6n\x1b[21t\n");
    twin_text("\x1b[201~id\n\x1b[200~\n");
    twin_text("\x1b[8mhidden\x1b[0m \x1b[?1049h\x1b[?1049l \x1b" "c\n");
    twin_text("\xc2\x9b" "2J \xc2\x9d" "0;title\xc2\x9c \x9b" "2J \x90q\x9c\n");
    twin_text("overwritten\rreal line\b\b\b\bxxxx\x0b\x0c\x07\n");
    // A sequence without an end must not swallow what follows it for ever.
    twin_text("\x1b]0;no end\nmarker-after-open-sequence\n\x1b[");
    return twin_close("terminal sequences");
}
