// args: none
// SYS-15: watch neighbours through counters of the whole host.
#include "attack.h"
#include <sys/sysinfo.h>

int main(void) {
    static const char *host_wide[] = {"/proc/vmstat",
                                      "/proc/diskstats",
                                      "/proc/interrupts",
                                      "/proc/softirqs",
                                      "/proc/schedstat",
                                      "/proc/swaps",
                                      "/proc/zoneinfo",
                                      "/proc/buddyinfo",
                                      "/proc/locks",
                                      "/proc/cgroups",
                                      "/proc/pressure/cpu",
                                      "/proc/pressure/memory",
                                      "/proc/pressure/io",
                                      "/proc/sys/fs/file-nr",
                                      "/proc/sys/fs/inode-nr",
                                      "/proc/sys/fs/dentry-state",
                                      "/proc/sys/kernel/random/entropy_avail",
                                      "/proc/sys/kernel/pty/nr",
                                      "/sys/fs/cgroup/cpuacct/cpuacct.usage",
                                      "/sys/fs/cgroup/memory/memory.stat",
                                      "/sys/fs/cgroup/cpu.stat",
                                      "/sys/class/net/eth0/statistics/rx_bytes",
                                      "/sys/class/thermal/thermal_zone0/temp",
                                      "/sys/class/powercap/intel-rapl:0/energy_uj",
                                      NULL};
    char buf[8192];
    for (int i = 0; host_wide[i]; i++) {
        ssize_t n = read_file(host_wide[i], buf, sizeof buf);
        if (n > 0)
            breached("%s is readable", host_wide[i]);
        else
            held("%s %s", host_wide[i], n < 0 ? ename(errno) : "empty");
    }
    // These two may be there if they count the sandbox alone. The kernel counts context switches
    // and tasks of the whole host; sysinfo() tells how many tasks those are.
    struct sysinfo whole;
    if (read_file("/proc/stat", buf, sizeof buf) > 0) {
        char *switches = strstr(buf, "\nctxt ");
        if (!switches || strtoull(switches + 6, NULL, 10) > 0)
            breached("/proc/stat counts the host's context switches");
        else
            held("/proc/stat counts no context switch");
    } else {
        held("/proc/stat %s", ename(errno));
    }
    if (read_file("/proc/loadavg", buf, sizeof buf) > 0) {
        char *tasks = strchr(buf, '/');
        long shown = tasks ? atol(tasks + 1) : 0;
        if (sysinfo(&whole) == 0 && shown * 2 >= (long)whole.procs && whole.procs > 16)
            breached("/proc/loadavg counts %ld tasks, of %d on the host", shown, whole.procs);
        else
            held("/proc/loadavg counts %ld tasks", shown);
    } else {
        held("/proc/loadavg %s", ename(errno));
    }
    // The network files are those of our own namespace, so they may be read; but then
    // they must know of no interface, route or connection but our own.
    ssize_t n = read_file("/proc/self/net/dev", buf, sizeof buf);
    if (n > 0) {
        char *save = NULL;
        int line = 0;
        for (char *l = strtok_r(buf, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
            if (line++ < 2) continue;
            l += strspn(l, " ");
            size_t k = strcspn(l, ":");
            if (k == 2 && strncmp(l, "lo", 2) == 0) continue;
            // The kernel makes some unusable tunnel ends in every new namespace.
            if (strstr(l, "tunl0") || strstr(l, "sit0") || strstr(l, "ip6tnl0") ||
                strstr(l, "gre0") || strstr(l, "gretap0") || strstr(l, "erspan0") ||
                strstr(l, "ip_vti0") || strstr(l, "ip6_vti0") || strstr(l, "ip6gre0"))
                continue;
            breached("network interface %.*s", (int)k, l);
        }
        if (at_breach_count == 0) held("only the loopback interface");
    } else {
        held("/proc/self/net/dev %s", n < 0 ? ename(errno) : "empty");
    }
    n = read_file("/proc/self/net/route", buf, sizeof buf);
    if (n > 0) {
        char *second = strchr(buf, '\n');
        if (second && second[1])
            breached("there is a route");
        else
            held("no route");
    } else {
        held("/proc/self/net/route %s", n < 0 ? ename(errno) : "empty");
    }
    static const char *conntrack[] = {"/proc/self/net/nf_conntrack", "/proc/self/net/stat/nf_conntrack",
                                      "/proc/self/net/ip_conntrack", NULL};
    for (int i = 0; conntrack[i]; i++) {
        n = read_file(conntrack[i], buf, sizeof buf);
        if (n > 0 && strstr(buf, "src="))
            breached("%s lists connections", conntrack[i]);
        else
            held("%s %s", conntrack[i], n < 0 ? ename(errno) : "lists none");
    }
    // One call still answers for the whole host and many programs need it. It is a
    // known residue, reported so that nobody forgets it.
    struct sysinfo s;
    if (sysinfo(&s) == 0)
        NOTE("residue: sysinfo() tells load %lu, %u tasks, %lu MiB free", s.loads[0] >> 16, s.procs,
             s.freeram * s.mem_unit >> 20);
    double load[3];
    NOTE("getloadavg %s", getloadavg(load, 3) < 0 ? "fails" : "works");
    return verdict();
}
