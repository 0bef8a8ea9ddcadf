// args: none
// SYS-02: write to the kernel's control files: sysrq, sysctls, irq, uevent helper,
// efivars, binfmt_misc, cgroup release agents.
#include "attack.h"

static int tried, refused_n, absent;

// These act on any byte, so a file that opens is enough and nothing is written.
static void open_only(const char *path) {
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    tried++;
    if (fd >= 0) {
        breached("%s opens for writing", path);
        close(fd);
    } else if (errno == ENOENT || errno == ENOTDIR) {
        absent++;
    } else {
        refused_n++;
    }
}

// Some sysctls carry write bits for all and refuse later. Writing back what was read
// shows the truth and changes nothing.
static void write_back(const char *path) {
    char now[4096];
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    tried++;
    if (fd < 0) {
        refused_n++;
        return;
    }
    ssize_t n = read_file(path, now, sizeof now);
    if (n > 0 && write(fd, now, (size_t)n) >= 0)
        breached("%s is writable", path);
    else
        refused_n++;
    close(fd);
}

static void walk(const char *dir, int depth) {
    if (depth > 6 || tried > 6000) return;
    DIR *d = opendir(dir);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));) {
        char path[1024];
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (e->d_type == DT_DIR)
            walk(path, depth + 1);
        else if (e->d_type == DT_REG)
            write_back(path);
    }
    closedir(d);
}

int main(void) {
    static const char *triggers[] = {"/proc/sysrq-trigger",
                                     "/proc/sys/fs/binfmt_misc/register",
                                     "/proc/sys/fs/binfmt_misc/status",
                                     "/proc/sys/vm/drop_caches",
                                     "/proc/sys/vm/compact_memory",
                                     "/proc/sys/kernel/core_pattern",
                                     "/proc/sys/kernel/modprobe",
                                     "/proc/sys/kernel/sysrq",
                                     "/proc/acpi/wakeup",
                                     "/proc/mtrr",
                                     "/proc/irq/default_smp_affinity",
                                     "/proc/irq/0/smp_affinity",
                                     "/proc/irq/1/smp_affinity",
                                     "/proc/bus/pci/00/00.0",
                                     "/proc/scsi/scsi",
                                     "/proc/timer_stats",
                                     "/sys/kernel/uevent_helper",
                                     "/sys/kernel/mm/ksm/run",
                                     "/sys/kernel/mm/transparent_hugepage/enabled",
                                     "/sys/power/state",
                                     "/sys/module/kernel/parameters/panic",
                                     "/sys/kernel/debug/provoke-crash/DIRECT",
                                     "/sys/kernel/tracing/trace_marker",
                                     "/sys/kernel/security/apparmor/.load",
                                     "/sys/firmware/efi/efivars",
                                     "/sys/fs/cgroup/release_agent",
                                     "/sys/fs/cgroup/cgroup.procs",
                                     "/sys/fs/cgroup/pids/release_agent",
                                     "/sys/fs/cgroup/memory/release_agent",
                                     "/sys/fs/cgroup/unified/cgroup.procs",
                                     "/sys/fs/bpf",
                                     NULL};
    for (int i = 0; triggers[i]; i++) {
        struct stat st;
        if (stat(triggers[i], &st) == 0 && S_ISDIR(st.st_mode)) {
            char path[256];
            snprintf(path, sizeof path, "%s/sys02", triggers[i]);
            int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
            tried++;
            if (fd >= 0) {
                breached("a file can be made in %s", triggers[i]);
                close(fd);
                unlink(path);
            } else {
                refused_n++;
            }
            continue;
        }
        open_only(triggers[i]);
    }
    // Writing into the middle of the tree of sysctls, wherever it is mounted.
    walk("/proc/sys", 0);
    walk("/proc/irq", 0);
    char self[64];
    snprintf(self, sizeof self, "/proc/%d/root/proc/sys", (int)getpid());
    if (tried < 3000) walk(self, 0);
    DIR *s = opendir("/sys");
    int entries = 0;
    for (struct dirent *e; s && (e = readdir(s));)
        if (e->d_name[0] != '.') entries++;
    if (s) closedir(s);
    NOTE("/sys has %d entries", entries);
    held("%d files tried: %d refused, %d absent", tried, refused_n, absent);
    return verdict();
}
