// args: [most=300]
// RES-24: as root with the profile `full`: more processes than one user may have, by giving each
// to a user of its own.
#include "res/bound.h"

int main(int argc, char **argv) {
    long most = number(argc, argv, 1, 300, 600), alive = 0;
    int gate[2], ready[2], stopped_by = 0;
    if (pipe(gate) < 0 || pipe(ready) < 0) return unstaged("no pipe");
    for (; alive < most; alive++) {
        pid_t pid = fork();
        if (pid < 0) {
            stopped_by = errno;
            break;
        }
        if (pid == 0) {
            char moved = sys3(SYS_setresuid, 2000 + alive, 2000 + alive, 2000 + alive) == 0, c;
            close(gate[1]);
            alarm(8);
            prctl(PR_SET_NAME, "bj-res24");
            write(ready[1], &moved, 1);
            read(gate[0], &c, 1);
            _exit(0);
        }
        // Until then it counts as one of root's.
        char moved = 0;
        if (read(ready[0], &moved, 1) != 1 || !moved) return unstaged("cannot become another user");
    }
    sleep_ms(300);
    if (alive >= most)
        BREACH("%ld processes of as many users", alive);
    else
        HELD("fork %s after %ld processes", ename(stopped_by), alive);
    return 0;
}
