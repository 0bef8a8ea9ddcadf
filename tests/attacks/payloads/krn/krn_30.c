// args: none
// KRN-30: call numbers that are newer than the filter, which must look like an old kernel.
#include "attack.h"

int main(void) {
    char what[40];
    int ok = 0;
    // 470 is the first number that the suite's authors knew no call for. Those in the
    // gap were never given out, and 512 to 547 belong to another architecture's table.
    static const struct {
        long from, to;
    } ranges[] = {{470, 640}, {337, 423}, {1000, 1030}};
    for (unsigned r = 0; r < 3; r++)
        for (long nr = ranges[r].from; nr <= ranges[r].to; nr++) {
            struct act a = child_call(nr, -1, -1, -1, -1, -1, -1);
            if (a.exited && a.ret < 0 && a.err == ENOSYS) {
                ok++;
                continue;
            }
            snprintf(what, sizeof what, "number %ld", nr);
            denied_act(what, a, ENOSYS, 0);
        }
    static const long far[] = {4096, 65535, 0x3fffffff, 0x7fffffff, 0x80000000L};
    for (unsigned i = 0; i < 5; i++) {
        snprintf(what, sizeof what, "number %#lx", far[i]);
        denied_act(what, child_call(far[i], -1, -1, -1, -1, -1, -1), ENOSYS, AT_KILL, 0);
    }
    // Young calls that a filter may know by name. Known is fine, let through is not.
    static const struct {
        long nr;
        const char *name;
    } young[] = {{453, "map_shadow_stack"}, {457, "statmount"},      {458, "listmount"},
                 {459, "lsm_get_self_attr"}, {460, "lsm_set_self_attr"},
                 {461, "lsm_list_modules"},  {463, "setxattrat"},     {467, "open_tree_attr"},
                 {468, "file_getattr"},      {469, "file_setattr"}};
    for (unsigned i = 0; i < sizeof young / sizeof *young; i++)
        denied_act(young[i].name, child_call(young[i].nr, -1, -1, -1, -1, -1, -1), ENOSYS, EPERM, 0);
    held("%d unassigned numbers ENOSYS", ok);
    return verdict();
}
