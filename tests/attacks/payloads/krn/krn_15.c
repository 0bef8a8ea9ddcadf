// args: [description of a user key planted in the host's session keyring]
// KRN-15: search and read the parent's session keyring, and flood it with keys.
#include "attack.h"

enum { GET_ID = 0, JOIN = 1, DESCRIBE = 6, UNLINK = 9, SEARCH = 10, READ = 11 };

static const char *canary = "belljar-canary";

static long search(void *p) {
    int ring = *(int *)p;
    char secret[64];
    long key = sys5(SYS_keyctl, SEARCH, ring, "user", canary, 0);
    if (key < 0) {
        // A missing key also means that the search was carried out.
        return -1;
    }
    long n = sys4(SYS_keyctl, READ, key, secret, sizeof secret);
    NOTE("found the planted key, read %ld bytes", n);
    return key;
}

static long flood(void *unused) {
    long first = -1;
    char name[32];
    for (int i = 0; i < 32; i++) {
        snprintf(name, sizeof name, "krn15-%d", i);
        // The process keyring dies with this child, so a success leaves nothing.
        long k = sys5(SYS_add_key, "user", name, "x", 1, -2);
        if (k < 0) return first >= 0 ? first : -1;
        if (first < 0) first = k;
    }
    return first;
}

int main(int argc, char **argv) {
    if (argc > 1 && *argv[1]) canary = argv[1];
    static const struct {
        const char *name;
        int id;
    } rings[] = {{"thread", -1}, {"process", -2},       {"session", -3},
                 {"user", -4},   {"user session", -5}};
    for (unsigned i = 0; i < 5; i++) {
        char what[64], buf[256];
        int id = rings[i].id;
        snprintf(what, sizeof what, "keyctl(GET_KEYRING_ID, %s)", rings[i].name);
        denied_act(what, child_call(SYS_keyctl, GET_ID, id, 0), EPERM, 0);
        snprintf(what, sizeof what, "keyctl(SEARCH, %s)", rings[i].name);
        denied_act(what, in_child(search, &id, 1000), EPERM, 0);
        snprintf(what, sizeof what, "keyctl(READ, %s)", rings[i].name);
        denied_act(what, child_call(SYS_keyctl, READ, id, buf, sizeof buf), EPERM, 0);
    }
    denied_act("keyctl(JOIN)", child_call(SYS_keyctl, JOIN, 0), EPERM, 0);
    denied_act("request_key", child_call(SYS_request_key, "user", canary, 0, 0), EPERM, 0);
    denied_act("add_key flood", in_child(flood, NULL, 1000), EPERM, 0);
    char buf[4096];
    ssize_t n = read_file("/proc/keys", buf, sizeof buf);
    if (n > 0 && find_bytes(buf, (size_t)n, canary))
        breached("planted key is listed in /proc/keys");
    else
        held("/proc/keys %s", n < 0 ? ename(errno) : "without the planted key");
    return verdict();
}
