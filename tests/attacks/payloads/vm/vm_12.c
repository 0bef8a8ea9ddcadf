// args: [device to look for as well]...
// VM-12: virtualisation inside the machine: the processor's own word, devices, modules.
#include "attack.h"
#include <cpuid.h>

static void look(const char *path) {
    struct stat st;
    if (lstat(path, &st) == 0)
        breached("there is %s", path);
    else
        held("no %s", path);
}

int main(int argc, char **argv) {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) {
        NOTE("unstaged: the processor says nothing");
        return 2;
    }
    if (c & (1u << 5)) breached("the processor has VMX");
    if (__get_cpuid(0x80000001u, &a, &b, &c, &d) && c & (1u << 2)) breached("the processor has SVM");
    held("the processor has neither VMX nor SVM");
    static const char *devices[] = {"/dev/kvm", "/dev/vhost-vsock", "/dev/vhost-net", "/dev/vfio",
                                    "/sys/module/kvm"};
    for (unsigned i = 0; i < sizeof devices / sizeof *devices; i++) look(devices[i]);
    for (int i = 1; i < argc; i++) look(argv[i]);
    return verdict();
}
