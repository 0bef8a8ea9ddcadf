// args: none
// KRN-18: the whole mount API, above all the unmounting of masks.
#include "attack.h"

int main(void) {
    const char *dir = writable_dir();
    uint64_t attr[4] = {0, 1, 0, 0};
    struct {
        uint32_t size, spare;
        uint64_t mnt_id, param, mnt_ns;
    } req = {24, 0, (uint64_t)-1, 2, 0};
    uint64_t ids[8];
    char out[512];

    denied_act("mount(tmpfs)", child_call(SYS_mount, "none", dir, "tmpfs", 0, 0), EPERM, 0);
    denied_act("mount(bind)", child_call(SYS_mount, "/", dir, 0, MS_BIND, 0), EPERM, 0);
    denied_act("mount(proc)", child_call(SYS_mount, "proc", dir, "proc", 0, 0), EPERM, 0);
    denied_act("mount(sysfs)", child_call(SYS_mount, "sysfs", dir, "sysfs", 0, 0), EPERM, 0);
    denied_act("mount(cgroup)", child_call(SYS_mount, "c", dir, "cgroup", 0, "pids"), EPERM, 0);
    denied_act("mount(overlay)",
               child_call(SYS_mount, "o", dir, "overlay", 0, "lowerdir=/etc:/usr"), EPERM, 0);
    denied_act("mount(remount rw)",
               child_call(SYS_mount, 0, "/", 0, MS_REMOUNT | MS_BIND, 0), EPERM, 0);
    denied_act("mount(shared)", child_call(SYS_mount, 0, "/", 0, MS_SHARED | MS_REC, 0), EPERM, 0);

    static const char *masks[] = {"/proc",      "/proc/kcore",        "/proc/keys",
                                  "/proc/acpi", "/proc/timer_list",   "/proc/sys",
                                  "/sys",       "/proc/sysrq-trigger", "/dev",
                                  "/dev/shm",   "/tmp",               "/etc",
                                  "/",          NULL};
    for (int i = 0; masks[i]; i++) {
        char what[64];
        snprintf(what, sizeof what, "umount2(%s)", masks[i]);
        denied_act(what, child_call(SYS_umount2, masks[i], MNT_DETACH), EPERM, 0);
    }

    denied_act("pivot_root", child_call(SYS_pivot_root, dir, dir), EPERM, 0);
    denied_act("chroot", child_call(SYS_chroot, dir), EPERM, 0);
    denied_act("open_tree", child_call(428, AT_FDCWD, "/", 0), EPERM, 0);
    denied_act("open_tree(clone)", child_call(428, AT_FDCWD, "/", 1), EPERM, 0);
    denied_act("move_mount", child_call(429, AT_FDCWD, "/dev", AT_FDCWD, dir, 0), EPERM, 0);
    denied_act("fsopen(tmpfs)", child_call(430, "tmpfs", 0), EPERM, 0);
    denied_act("fsopen(ext4)", child_call(430, "ext4", 0), EPERM, 0);
    denied_act("fsconfig", child_call(431, -1, 0, 0, 0, 0), EPERM, 0);
    denied_act("fsmount", child_call(432, -1, 0, 0), EPERM, 0);
    denied_act("fspick", child_call(433, AT_FDCWD, "/", 0), EPERM, 0);
    denied_act("mount_setattr", child_call(442, AT_FDCWD, "/", 0, attr, sizeof attr), EPERM, 0);
    // These are younger than many filters; unknown is as good as forbidden.
    denied_act("statmount", child_call(457, &req, out, sizeof out, 0), EPERM, ENOSYS, 0);
    denied_act("listmount", child_call(458, &req, ids, 8, 0), EPERM, ENOSYS, 0);
    denied_act("open_tree_attr", child_call(467, AT_FDCWD, "/", 0, attr, sizeof attr), EPERM,
               ENOSYS, 0);

    // After all of it the masks must still be there.
    static const char *hidden[] = {"/proc/kcore", "/proc/keys", "/proc/timer_list",
                                   "/proc/kallsyms", "/sys/kernel/notes", "/sys/class/dmi/id/uevent",
                                   NULL};
    for (int i = 0; hidden[i]; i++) {
        char c[64];
        ssize_t n = read_file(hidden[i], c, sizeof c);
        if (n > 0)
            breached("%s is not masked", hidden[i]);
        else
            held("%s %s", hidden[i], n < 0 ? ename(errno) : "empty");
    }
    return verdict();
}
