// args: none
// KRN-32: as root with the profile `full`: keep its capabilities after becoming another user, or
// leave them behind for programs of another user.
#include "res/bound.h"
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/xattr.h>

enum { USER = 1000, HAS_RIGHTS = 3 };

static const char *self;
static char copy[] = "/tmp/krn32.copy";

// has_rights reads what the kernel says, since every call of ours may be filtered.
static bool has_rights(void) {
    char text[64];
    bool some = geteuid() == 0 || getuid() == 0;
    static const char *sets[] = {"CapPrm", "CapEff", "CapAmb", NULL};
    for (int i = 0; sets[i]; i++)
        if (status_value(sets[i], text, sizeof text) && strtoull(text, NULL, 16) != 0) some = true;
    return some;
}

static long become_user(void) {
    if (sys2(SYS_setgroups, 0, 0) < 0 || sys3(SYS_setresgid, USER, USER, USER) < 0) return -1;
    return sys3(SYS_setresuid, USER, USER, USER);
}

static long plainly(void *unused) {
    if (become_user() < 0) return -1;
    return has_rights() ? HAS_RIGHTS : 0;
}

static long by_keepcaps(void *unused) {
    prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
    return plainly(NULL);
}

static long by_securebits(void *unused) {
    prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP | SECBIT_KEEP_CAPS, 0, 0, 0);
    return plainly(NULL);
}

static void look_after_exec(const char *program) {
    char *argv[] = {(char *)program, "look", NULL}, *env[] = {NULL};
    execve(program, argv, env);
    _exit(9);
}

static long by_ambient(void *unused) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    if (sys2(SYS_capget, &head, data) == 0) {
        data[0].inheritable = data[0].permitted;
        sys2(SYS_capset, &head, data);
    }
    prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
    if (become_user() < 0) return -1;
    for (int number = 0; number < 41; number++)
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, number, 0, 0);
    look_after_exec(self);
    return 0;
}

// The saved id is still root's, until the next program.
static long by_saved_id(void *unused) {
    if (sys3(SYS_setresuid, USER, USER, 0) < 0) return -1;
    look_after_exec(self);
    return 0;
}

static long by_file(void *unused) {
    if (become_user() < 0) return -1;
    look_after_exec(copy);
    return 0;
}

static void without_rights(const char *what, struct act a) {
    if (!a.forked || a.timed_out)
        breached("%s not tried", what);
    else if (!a.exited)
        breached("%s ended by signal %d", what, a.sig);
    else if (a.ret == HAS_RIGHTS || a.code == HAS_RIGHTS)
        breached("%s keeps rights", what);
    else if (a.ret < 0 || a.code != 0)
        breached("%s not tried: %s, code %d", what, ename(a.err), a.code);
    else
        held("%s ends them", what);
}

static bool make_copy(mode_t mode) {
    int from = open(self, O_RDONLY | O_CLOEXEC);
    unlink(copy);
    int to = open(copy, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    char piece[65536];
    ssize_t n;
    while (from >= 0 && to >= 0 && (n = read(from, piece, sizeof piece)) > 0)
        if (write(to, piece, (size_t)n) != n) return false;
    bool made = to >= 0 && fchown(to, 0, 0) == 0 && fchmod(to, mode) == 0;
    close(from);
    close(to);
    return made;
}

int main(int argc, char **argv) {
    self = argv[0];
    if (is(word(argc, argv, 1, ""), "look")) return has_rights() ? HAS_RIGHTS : 0;
    char own[64];
    if (!status_value("CapEff", own, sizeof own) || strtoull(own, NULL, 16) == 0)
        return unstaged("this root has no capability");

    without_rights("setresuid", in_child(plainly, NULL, 2000));
    without_rights("KEEPCAPS", in_child(by_keepcaps, NULL, 2000));
    without_rights("SECUREBITS", in_child(by_securebits, NULL, 2000));
    without_rights("ambient capabilities", in_child(by_ambient, NULL, 2000));
    without_rights("the saved id", in_child(by_saved_id, NULL, 2000));

    if (!make_copy(06755)) return unstaged("cannot make a setuid program: %s", ename(errno));
    without_rights("a setuid program", in_child(by_file, NULL, 2000));
    // All capabilities, as a file would give them to whoever runs it.
    struct vfs_cap_data file = {VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE,
                                {{~0u, 0}, {~0u, 0}}};
    if (!make_copy(0755)) return unstaged("cannot make a program: %s", ename(errno));
    int set = setxattr(copy, "security.capability", &file, sizeof file, 0);
    NOTE("file capabilities: %s", ename(set < 0 ? errno : 0));
    without_rights("a program with capabilities", in_child(by_file, NULL, 2000));
    unlink(copy);
    return verdict();
}
