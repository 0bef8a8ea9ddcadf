// args: none
// SYS-13: change the clock or the names of the machine.
#include "attack.h"
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/utsname.h>

int main(void) {
    struct timeval tv;
    struct timespec ts;
    // The time we would set is the time it is.
    gettimeofday(&tv, NULL);
    denied_act("settimeofday", child_call(SYS_settimeofday, &tv, 0), EPERM, 0);
    clock_gettime(CLOCK_REALTIME, &ts);
    denied_act("clock_settime", child_call(SYS_clock_settime, CLOCK_REALTIME, &ts), EPERM, 0);
    struct timex t;
    memset(&t, 0, sizeof t);
    // Without a mode this only reads the state of the clock, which is a host's matter too.
    denied_act("adjtimex(read)", child_call(SYS_adjtimex, &t), EPERM, 0);
    denied_act("clock_adjtime(read)", child_call(SYS_clock_adjtime, CLOCK_REALTIME, &t), EPERM, 0);
    // A status of zero with its mode bit is the smallest change there is.
    struct timex s;
    memset(&s, 0, sizeof s);
    s.modes = ADJ_STATUS;
    s.status = STA_UNSYNC;
    denied_act("adjtimex(status)", child_call(SYS_adjtimex, &s), EPERM, 0);

    struct utsname before, after;
    uname(&before);
    denied_act("sethostname", child_call(SYS_sethostname, before.nodename, strlen(before.nodename)),
               EPERM, 0);
    denied_act("setdomainname", child_call(SYS_setdomainname, "attack", 6), EPERM, 0);
    uname(&after);
    if (strcmp(before.nodename, after.nodename) || strcmp(before.domainname, after.domainname))
        breached("the names have changed");
    int fd = open("/dev/rtc0", O_RDONLY | O_CLOEXEC);
    refused("open(/dev/rtc0)", fd);
    fd = open("/proc/sys/kernel/hostname", O_WRONLY | O_CLOEXEC);
    refused("open(/proc/sys/kernel/hostname)", fd);
    fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
    // The file opens for its owner; writing is what the kernel refuses.
    if (fd >= 0) {
        refused("write(timens_offsets)", write(fd, "monotonic 100 0\n", 16));
        close(fd);
    } else {
        held("timens_offsets %s", ename(errno));
    }
    return verdict();
}
