// args: none
// KRN-14: type into a terminal with TIOCSTI, plain and with dirty upper bits, and TIOCLINUX.
#include "attack.h"
#include <termios.h>

#define N_DIRTY 5
static const uint64_t dirty[N_DIRTY] = {0, 1ull << 32, 1ull << 63, 0xffffffffull << 32,
                                        0xdeadull << 40};

// A blank is what we would type: if it works it does nothing to whoever reads it.
static char blank = ' ';

static void attack_fd(const char *name, int fd) {
    char what[96];
    for (int i = 0; i < N_DIRTY; i++) {
        snprintf(what, sizeof what, "TIOCSTI+%#llx on %s", (unsigned long long)dirty[i], name);
        denied_act(what, child_call(SYS_ioctl, fd, TIOCSTI | dirty[i], &blank), EPERM, 0);
        // Subcode 6 only asks for the shift state.
        char sub = 6;
        snprintf(what, sizeof what, "TIOCLINUX+%#llx on %s", (unsigned long long)dirty[i], name);
        denied_act(what, child_call(SYS_ioctl, fd, 0x541CL | dirty[i], &sub), EPERM, 0);
    }
}

// A terminal of our own, made the controlling one: the case where the kernel itself
// would say yes.
static long own_pty(void *unused) {
    int m = open("/dev/ptmx", O_RDWR | O_NOCTTY);
    if (m < 0) m = open("/dev/pts/ptmx", O_RDWR | O_NOCTTY);
    if (m < 0) return -1;
    int zero = 0, n = -1;
    char path[32];
    ioctl(m, TIOCSPTLCK, &zero);
    ioctl(m, TIOCGPTN, &n);
    setsid();
    snprintf(path, sizeof path, "/dev/pts/%d", n);
    int s = open(path, O_RDWR);
    if (s < 0) return -1;
    ioctl(s, TIOCSCTTY, 0);
    for (int i = 0; i < N_DIRTY; i++) {
        if (sys3(SYS_ioctl, s, TIOCSTI | dirty[i], &blank) == 0) return i;
        if (errno != EPERM) return -1;
    }
    errno = EPERM;
    return -1;
}

int main(void) {
    attack_fd("stdin", 0);
    int tty = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (tty >= 0) {
        // A controlling terminal may only be one made for this session. The harness
        // checks on the host that it is not its own.
        NOTE("there is a controlling terminal");
        attack_fd("/dev/tty", tty);
    }
    struct act a = in_child(own_pty, NULL, 1000);
    if (a.exited && a.ret < 0 && (a.err == ENOENT || a.err == EACCES || a.err == ENXIO ||
                                  a.err == EIO || a.err == ENOSPC))
        NOTE("no terminal of our own to be had (%s)", ename(a.err));
    else
        denied_act("TIOCSTI on own terminal", a, EPERM, 0);

    // Line disciplines and console redirection are driver surface: out of the list.
    int ldisc = 21;
    denied_act("TIOCSETD", child_call(SYS_ioctl, 0, TIOCSETD, &ldisc), EPERM, ENOTTY, 0);
    denied_act("TIOCCONS", child_call(SYS_ioctl, 0, TIOCCONS, 0), EPERM, ENOTTY, 0);
    return verdict();
}
