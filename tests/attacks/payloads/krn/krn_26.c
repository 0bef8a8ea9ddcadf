// args: none
// KRN-26: loosen the sandbox from within: a listener, another filter, no_new_privs,
// a wider Landlock layer, securebits, capabilities.
#include "attack.h"
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <netinet/in.h>

static struct sock_filter allow_all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
static struct sock_fprog prog = {1, &allow_all};

// probe is a fingerprint of what is denied right now. Calls whose refusal cannot be
// told from a success do not belong here.
static unsigned probe(void) {
    unsigned m = 0;
    static const struct {
        long nr, a, b;
    } calls[] = {{SYS_keyctl, 0, -3},          {SYS_bpf, 0, 0},
                 {SYS_socket, AF_PACKET, 3},   {SYS_socket, AF_INET, SOCK_DGRAM},
                 {SYS_personality, 0x40000, 0}, {SYS_ptrace, 0, 0},
                 {425, 1, 0},                  {SYS_unshare, 0, 0}};
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct act a = child_call(calls[i].nr, calls[i].a, calls[i].b);
        if (a.signalled || (a.exited && a.ret < 0 && (a.err == EPERM || a.err == ENOSYS)))
            m |= 1u << i;
    }
    int s = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(s, (void *)&to, sizeof to) < 0 && errno == EACCES) m |= 1u << 16;
    close(s);
    int fd = open("/etc/passwd", O_WRONLY | O_CLOEXEC);
    if (fd < 0) m |= 1u << 17;
    close(fd);
    return m;
}

static long stack_filter(void *p) {
    unsigned before = *(unsigned *)p;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0) return -1;
    return before & ~probe();
}

static long stack_landlock(void *p) {
    unsigned before = *(unsigned *)p;
    struct landlock_ruleset_attr attr = {.handled_access_fs = LANDLOCK_ACCESS_FS_MAKE_BLOCK};
    int fd = (int)sys3(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
    if (fd < 0) return -1;
    int root = open("/", O_PATH | O_CLOEXEC);
    struct landlock_path_beneath_attr rule = {LANDLOCK_ACCESS_FS_MAKE_BLOCK, root};
    sys4(SYS_landlock_add_rule, fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
    if (sys2(SYS_landlock_restrict_self, fd, 0) < 0) return -1;
    return before & ~probe();
}

static void layered(const char *what, struct act a) {
    if (!a.exited)
        breached("%s ended by signal %d", what, a.sig);
    else if (a.ret > 0)
        breached("%s loosened probes %#lx", what, a.ret);
    else
        held("%s %s", what, a.ret < 0 ? ename(a.err) : "changed nothing");
}

int main(void) {
    char v[64];
    if (status_value("Seccomp", v, sizeof v) && strcmp(v, "2") == 0)
        held("a filter is installed");
    else
        breached("no seccomp filter is installed");
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) breached("no_new_privs is not set");

    static const struct {
        const char *name;
        unsigned long flags;
    } listen[] = {{"NEW_LISTENER", 8},
                  {"NEW_LISTENER|TSYNC_ESRCH", 8 | 1 | 16},
                  {"NEW_LISTENER|WAIT_KILLABLE", 8 | 32},
                  {"NEW_LISTENER dirty", 8 | 1ul << 32}};
    for (unsigned i = 0; i < 4; i++)
        denied_act(listen[i].name, child_call(SYS_seccomp, 1, listen[i].flags, &prog), EPERM,
                   EACCES, ENOSYS, AT_KILL, 0);

    unsigned before = probe();
    NOTE("probes denied at start: %#x", before);
    layered("another filter", in_child(stack_filter, &before, 3000));
    layered("another Landlock layer", in_child(stack_landlock, &before, 3000));

    refused("PR_SET_NO_NEW_PRIVS 0", prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
    refused("PR_SET_SECCOMP off", prctl(PR_SET_SECCOMP, 0, 0, 0, 0));
    // Ambient capabilities, securebits and capset each need what we must not have.
    refused("PR_CAP_AMBIENT_RAISE", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 13, 0, 0));
    refused("PR_SET_SECUREBITS", prctl(PR_SET_SECUREBITS, 0, 0, 0, 0));
    struct {
        uint32_t version;
        int pid;
    } head = {0x20080522, 0};
    uint32_t data[6] = {1u << 21, 1u << 21, 0, 0, 0, 0};
    refused("capset(SYS_ADMIN)", sys2(SYS_capset, &head, data));
    unsigned size = 0;
    denied_act("PR_SET_MM", child_call(SYS_prctl, 35, 15, &size, 0, 0), EPERM, EINVAL, 0);
    denied_act("PR_SET_PTRACER", child_call(SYS_prctl, 0x59616d61, -1, 0, 0, 0), EPERM, EINVAL, 0);
    refused("PR_SET_DUMPABLE 2", prctl(PR_SET_DUMPABLE, 2, 0, 0, 0));

    if (before & ~probe()) breached("the probes are looser than at the start");
    return verdict();
}
