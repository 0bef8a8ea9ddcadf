// Starts the harness again with secrets that no sandbox may ever show.
//
//     launch KEY-NAME SECRET PROGRAM ARGS...
//
// The program runs in a session keyring that holds the secret as a user key. A
// child that keeps the keyring could read it, so the jail has to take it away.
#include "attack.h"

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    // 1 is KEYCTL_JOIN_SESSION_KEYRING, -3 the session keyring.
    if (syscall(SYS_keyctl, 1, NULL) < 0) NOTE("no session keyring: %s", ename(errno));
    if (syscall(SYS_add_key, "user", argv[1], argv[2], strlen(argv[2]), -3) < 0)
        NOTE("no key planted: %s", ename(errno));
    execv(argv[3], argv + 3);
    return 127;
}
