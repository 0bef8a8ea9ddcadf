// args: [most=600]
// RES-02: a thread bomb with 8 MiB stacks.
#include "res/bound.h"

static void *stay(void *gate) {
    char page[4096], c;
    memset(page, 1, sizeof page);
    read(*(int *)gate, &c, 1);
    return NULL;
}

int main(int argc, char **argv) {
    long most = number(argc, argv, 1, 600, 600), made = 0;
    int gate[2], why = 0;
    if (pipe(gate) < 0) return unstaged("pipe %s", ename(errno));
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 8 * MIB);
    for (; made < most; made++) {
        pthread_t t;
        why = pthread_create(&t, &attr, stay, &gate[0]);
        if (why) break;
    }
    if (made >= most)
        BREACH("%ld threads started unhindered", made);
    else
        HELD("pthread_create %s after %ld threads", ename(why), made);
    _exit(0);
}
