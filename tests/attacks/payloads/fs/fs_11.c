// args: <dir>
// FS-11: names that break whoever prints them. Each name is also given in hex, so that
// the host can compare what its listing makes of it, byte by byte.
#include "res/bound.h"

int main(int argc, char **argv) {
    const char *dir = word(argc, argv, 1, "/tmp/fs11");
    char longest[256];
    memset(longest, 'L', 255);
    longest[255] = 0;
    const char *names[] = {
        "new\nline", "carriage\r\nreturn: header", "\x1b[2J\x1b]0;title\x07", "\x1b]52;c;aGk=\x07",
        "rtl-\xe2\x80\xae" "fdp.exe", "\xff\xfe-invalid", "\xed\xa0\x80-surrogate", "\xc0\xaf-overlong",
        "-rf", "--checkpoint-action=exec=id", " leading", "trailing ", "tab\there", "\"quoted\"",
        "'; id; '", "`id`", "$(id)", "%s%n%x", "\\..\\..\\x", "..%2f..%2fx", "{\"json\":1}", "<b>html</b>",
        "null\\u0000", "\x01\x02\x7f", "\xc2\x9b" "31m-c1", "...", "\xe2\x80\x8b", "CON", longest,
    };
    if ((mkdir(dir, 0755) < 0 && errno != EEXIST) || chdir(dir) < 0)
        return unstaged("%s %s", dir, ename(errno));
    int made = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char hex[520] = {0};
        for (size_t j = 0; names[i][j]; j++)
            snprintf(hex + 2 * j, 3, "%02x", (unsigned char)names[i][j]);
        int fd = open(names[i], O_WRONLY | O_CREAT, 0644);
        if (fd < 0) {
            NOTE("REFUSED %s %s", hex, ename(errno));
            continue;
        }
        // The content is the hex name: a download by name can be told from any other.
        write(fd, hex, strlen(hex));
        close(fd);
        NOTE("NAME %s", hex);
        made++;
    }
    HELD("%d names planted; the listing decides", made);
    return 0;
}
