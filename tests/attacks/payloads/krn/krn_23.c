// args: none
// KRN-23: old and rare calls: LDT, port access, vm86, uselib and their relatives.
#include "attack.h"

int main(void) {
    char ldt[16];
    // func 0 reads the table, which is the harmless half of the same call.
    denied_act("modify_ldt(read)", child_call(SYS_modify_ldt, 0, ldt, sizeof ldt), EPERM, ENOSYS,
               0);
    unsigned desc[4] = {0, 0, 0, 0x40};
    denied_act("modify_ldt(write)", child_call(SYS_modify_ldt, 1, desc, sizeof desc), EPERM, ENOSYS,
               0);
    // Port access is an exploit indicator, for which the filter may also kill.
    denied_act("iopl(3)", child_call(SYS_iopl, 3), EPERM, ENOSYS, AT_KILL, 0);
    denied_act("ioperm(0x80)", child_call(SYS_ioperm, 0x80, 1, 1), EPERM, ENOSYS, AT_KILL, 0);
    denied_act("uselib", child_call(SYS_uselib, "/bin/sh"), EPERM, ENOSYS, 0);
    // vm86 has no 64-bit number; it is reached by int 0x80 only, which KRN-05 covers.
    void *m = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    denied_act("remap_file_pages", child_call(SYS_remap_file_pages, m, 4096, 0, 1, 0), EPERM,
               ENOSYS, 0);
    denied_act("memfd_secret", child_call(447, 0), EPERM, ENOSYS, 0);
    denied_act("lookup_dcookie", child_call(SYS_lookup_dcookie, 0, ldt, sizeof ldt), EPERM, ENOSYS,
               0);
    denied_act("_sysctl", child_call(156, 0), EPERM, ENOSYS, 0);
    denied_act("nfsservctl", child_call(180, 0), EPERM, ENOSYS, 0);
    denied_act("vhangup", child_call(SYS_vhangup), EPERM, ENOSYS, 0);
    denied_act("mbind", child_call(SYS_mbind, m, 4096, 0, 0, 0, 0), EPERM, ENOSYS, 0);
    denied_act("move_pages", child_call(SYS_move_pages, 0, 0, 0, 0, 0, 0), EPERM, ENOSYS, 0);
    denied_act("set_mempolicy", child_call(SYS_set_mempolicy, 0, 0, 0), EPERM, ENOSYS, 0);
    denied_act("migrate_pages", child_call(SYS_migrate_pages, 0, 0, 0, 0), EPERM, ENOSYS, 0);
    denied_act("fanotify_init", child_call(SYS_fanotify_init, 0x200, 0), EPERM, ENOSYS, 0);
    denied_act("kexec_load", child_call(SYS_kexec_load, 0, 0, 0, 0), EPERM, ENOSYS, AT_KILL, 0);
    // An empty image and an unknown module can never be loaded, whoever asks.
    denied_act("init_module", child_call(SYS_init_module, "", 0, ""), EPERM, ENOSYS, AT_KILL, 0);
    denied_act("finit_module", child_call(SYS_finit_module, -1, "", 0), EPERM, ENOSYS, AT_KILL, 0);
    denied_act("delete_module", child_call(SYS_delete_module, "belljar_none", O_NONBLOCK), EPERM,
               ENOSYS, AT_KILL, 0);
    denied_act("swapon", child_call(SYS_swapon, "/nonexistent", 0), EPERM, ENOSYS, AT_KILL, 0);
    // Wrong magic numbers: a call that gets through is answered and does nothing.
    denied_act("reboot", child_call(SYS_reboot, 0, 0, 0, 0), EPERM, ENOSYS, AT_KILL, 0);
    denied_act("acct", child_call(SYS_acct, "/nonexistent"), EPERM, ENOSYS, AT_KILL, 0);
    denied_act("quotactl", child_call(SYS_quotactl, 0x80000100, 0, 0, 0), EPERM, ENOSYS, AT_KILL,
               0);
    return verdict();
}
