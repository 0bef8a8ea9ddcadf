// args: [boot id of the host] [uptime of the host in seconds] [texts of the host's files in /proc]...
// SYS-07: fingerprint the machine. Identity must be absent; the policy list names what
// may stay visible because runtimes need it.
#include "attack.h"
#include <sys/sysinfo.h>

int main(int argc, char **argv) {
    char buf[4096];
    // Identity of the machine or of its boot: never.
    static const char *never[] = {"/sys/class/dmi/id/product_uuid",
                                  "/sys/class/dmi/id/board_serial",
                                  "/sys/class/dmi/id/board_name",
                                  "/sys/class/dmi/id/product_name",
                                  "/sys/class/dmi/id/sys_vendor",
                                  "/sys/class/dmi/id/bios_version",
                                  "/sys/firmware/dmi/tables/DMI",
                                  "/sys/class/net/eth0/address",
                                  "/sys/class/net/lo/address",
                                  "/sys/devices/system/cpu/online",
                                  "/sys/devices/system/node/online",
                                  "/sys/block",
                                  "/sys/hypervisor/uuid",
                                  "/proc/cmdline",
                                  "/proc/partitions",
                                  "/proc/diskstats",
                                  "/proc/filesystems",
                                  "/proc/devices",
                                  "/proc/crypto",
                                  "/proc/interrupts",
                                  "/proc/bus/pci/devices",
                                  NULL};
    for (int i = 0; never[i]; i++) {
        struct stat st;
        ssize_t n = read_file(never[i], buf, sizeof buf);
        if (n > 0 || (n < 0 && errno == EISDIR && stat(never[i], &st) == 0))
            breached("%s is readable", never[i]);
        else
            held("%s %s", never[i], n < 0 ? ename(errno) : "empty");
    }
    // Policy list: may be readable, is reported.
    static const char *policy[] = {"/proc/cpuinfo", "/proc/meminfo", "/proc/uptime",
                                   "/proc/version", "/proc/stat",    "/etc/machine-id", NULL};
    for (int i = 0; policy[i]; i++) {
        ssize_t n = read_file(policy[i], buf, 80);
        buf[n < 0 ? 0 : strcspn(buf, "\n")] = 0;
        NOTE("%s: %s", policy[i], n < 0 ? ename(errno) : buf);
    }
    // Limits and use of the sandbox may be told in these files, and nothing of the host's.
    static const char *figures[] = {"/proc/cpuinfo", "/proc/meminfo", "/proc/uptime",
                                    "/proc/stat",    "/proc/loadavg", NULL};
    for (int i = 0; figures[i]; i++) {
        ssize_t m = read_file(figures[i], buf, sizeof buf);
        int shown = 0;
        for (int k = 3; m > 0 && k < argc; k++)
            if (*argv[k] && find_bytes(buf, (size_t)m, argv[k])) {
                breached("%s shows the host's %s", figures[i], argv[k]);
                shown++;
            }
        if (!shown) held("%s %s", figures[i], m < 0 ? ename(errno) : "shows nothing of the host");
    }
    ssize_t n = read_file("/proc/sys/kernel/random/boot_id", buf, sizeof buf);
    if (n > 0 && argc > 1 && *argv[1] && find_bytes(buf, (size_t)n, argv[1]))
        breached("boot_id is the host's");
    else
        held("boot_id %s", n < 0 ? ename(errno) : "is not the host's");

    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    struct sysinfo si;
    sysinfo(&si);
    NOTE("boottime %ld s, sysinfo uptime %ld s", (long)t.tv_sec, si.uptime);
    if (argc > 2 && atol(argv[2]) > 0) {
        long host = atol(argv[2]);
        if (labs(host - (long)t.tv_sec) < 30)
            breached("the boot clock is the host's");
        else
            held("the boot clock has its own zero");
    }
    return verdict();
}
