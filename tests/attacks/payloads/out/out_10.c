// args: <dir>
// OUT-10: pages and pictures that act when a browser opens them. There is no console
// yet, so they must come out as bytes, unopened, and harmless inside JSON.
#include "out/twin.h"

int main(int argc, char **argv) {
    const char *dir = word(argc, argv, 1, "/tmp/out10");
    mkdir(dir, 0755);
    if (chdir(dir) < 0) return unstaged("%s %s", dir, ename(errno));
    const char *files[][2] = {
        {"page.html", "<script>fetch('/api/keys').then(r=>r.text()).then(t=>document.title=t)</script>\n"},
        {"picture.svg", "<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'><script>alert(2)</script></svg>\n"},
        {"text.txt", "GIF89a/*<html><script>alert(3)</script>*/=1;\n"},
        {"notes.md", "[x](javascript:alert(4)) ![y](http://127.0.0.1/beacon) <img src=x onerror=alert(5)>\n"},
        {"table.csv", "=HYPERLINK(\"http://127.0.0.1/\",\"x\"),@SUM(1),+1,-1,\t=1\n"},
        {"out.json", "</script><script>alert(6)</script><!--\n"},
    };
    if (!twin_open("twin.bin")) return unstaged("%s", ename(errno));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        int fd = open(files[i][0], O_WRONLY | O_CREAT | O_TRUNC, 0644);
        if (fd >= 0) write(fd, files[i][1], strlen(files[i][1])), close(fd);
        twin(files[i][1], strlen(files[i][1]));
    }
    return twin_close("active documents");
}
