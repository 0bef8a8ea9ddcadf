// args: none
// KRN-22: switch off address randomisation and execute protection with personality().
#include "attack.h"
#include <sys/personality.h>

int main(void) {
    static const struct {
        const char *name;
        unsigned long v;
    } all[] = {{"ADDR_NO_RANDOMIZE", 0x0040000}, {"READ_IMPLIES_EXEC", 0x0400000},
               {"ADDR_COMPAT_LAYOUT", 0x0200000}, {"MMAP_PAGE_ZERO", 0x0100000},
               {"ADDR_LIMIT_3GB", 0x8000000},     {"UNAME26", 0x0020000},
               {"PER_LINUX32", 0x0008},           {"PER_SVR4", 0x0001},
               {"dirty NO_RANDOMIZE", 0x0040000 | 1ul << 40}};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        char what[64];
        snprintf(what, sizeof what, "personality(%s)", all[i].name);
        denied_act(what, child_call(SYS_personality, all[i].v), EPERM, 0);
    }
    long now = sys1(SYS_personality, 0xffffffff);
    if (now < 0)
        NOTE("the query form is refused too (%s)", ename(errno));
    else if (now != 0)
        breached("personality is %#lx from the start", now);
    else
        held("personality is 0");
    return verdict();
}
