// args: none
// KRN-12: userfaultfd, the primitive that holds the kernel still during a race.
#include "attack.h"

int main(void) {
    denied_act("userfaultfd(0)", child_call(SYS_userfaultfd, O_CLOEXEC), EPERM, 0);
    // The user-mode-only flag needs no privilege on any kernel that knows it.
    denied_act("userfaultfd(USER_MODE_ONLY)", child_call(SYS_userfaultfd, O_CLOEXEC | 1), EPERM, 0);
    denied("open(/dev/userfaultfd)", open("/dev/userfaultfd", O_RDWR | O_CLOEXEC), ENOENT, EACCES,
           EPERM, 0);
    return verdict();
}
