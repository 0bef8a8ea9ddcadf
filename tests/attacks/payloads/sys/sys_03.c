// args: none
// SYS-03: read kernel memory, kernel logs and kernel addresses.
#include "attack.h"

// A masked file reads as empty, a censored one as zero addresses.
static bool only_zero_addresses(const char *buf) {
    bool any = false;
    for (const char *l = buf; l && *l;) {
        size_t n = strspn(l, "0123456789abcdefABCDEF");
        if (n >= 8) {
            any = true;
            if (strspn(l, "0") < n) return false;
        }
        l = strchr(l, '\n');
        if (l) l++;
    }
    return any;
}

int main(void) {
    static const char *files[] = {"/proc/kcore",
                                  "/proc/kmsg",
                                  "/proc/modules",
                                  "/proc/timer_list",
                                  "/proc/keys",
                                  "/proc/key-users",
                                  "/proc/sched_debug",
                                  "/proc/slabinfo",
                                  "/proc/vmallocinfo",
                                  "/proc/pagetypeinfo",
                                  "/proc/config.gz",
                                  "/proc/kpagecount",
                                  "/proc/kpageflags",
                                  "/proc/sysvipc/shm",
                                  "/proc/sys/kernel/ns_last_pid",
                                  "/dev/mem",
                                  "/dev/kmem",
                                  "/dev/port",
                                  "/dev/kmsg",
                                  "/dev/core",
                                  "/dev/cpu/0/msr",
                                  "/dev/nvram",
                                  "/sys/kernel/notes",
                                  "/sys/kernel/debug/sched/debug",
                                  "/sys/kernel/tracing/available_events",
                                  "/sys/kernel/security/lsm",
                                  "/sys/kernel/vmcoreinfo",
                                  "/sys/firmware/acpi/tables/DSDT",
                                  "/boot/System.map",
                                  "/proc/self/stack",
                                  "/proc/thread-self/stack",
                                  NULL};
    char buf[4096];
    for (int i = 0; files[i]; i++) {
        ssize_t n = read_file(files[i], buf, sizeof buf);
        if (n > 0)
            breached("%s is readable (%zd bytes)", files[i], n);
        else
            held("%s %s", files[i], n < 0 ? ename(errno) : "empty");
    }
    static const char *lists[] = {"/proc/kallsyms", "/proc/iomem", "/proc/ioports", NULL};
    for (int i = 0; lists[i]; i++) {
        ssize_t n = read_file(lists[i], buf, sizeof buf);
        if (n <= 0)
            held("%s %s", lists[i], n < 0 ? ename(errno) : "empty");
        else if (only_zero_addresses(buf))
            held("%s shows zeros", lists[i]);
        else
            breached("%s shows addresses", lists[i]);
    }
    // Physical addresses behind our own pages.
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        uint64_t e = 0;
        (void)!pread(fd, &e, 8, (off_t)((uintptr_t)buf / 4096 * 8));
        if (e & ((1ull << 55) - 1))
            breached("pagemap shows a frame number");
        else
            held("pagemap shows no frame number");
        close(fd);
    } else {
        held("pagemap %s", ename(errno));
    }
    // Reading all (3), the size of the log (10) and the size of the unread part (9).
    denied_act("syslog(READ_ALL)", child_call(SYS_syslog, 3, buf, sizeof buf), EPERM, ENOSYS, 0);
    denied_act("syslog(SIZE_BUFFER)", child_call(SYS_syslog, 10, 0, 0), EPERM, ENOSYS, 0);
    denied_act("syslog(SIZE_UNREAD)", child_call(SYS_syslog, 9, 0, 0), EPERM, ENOSYS, 0);
    return verdict();
}
