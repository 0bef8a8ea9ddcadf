// args: vmas [most=200000] | splits [most=200000] | tables [MiB=256]
// RES-06: memory of the memory manager: mappings, splits, and page tables over pages
// that were only read and hence cost nothing themselves.
#include "res/bound.h"

int main(int argc, char **argv) {
    const char *mode = word(argc, argv, 1, "vmas");
    uint64_t end = now_ms() + 4500;
    long done = 0;
    if (is(mode, "tables")) {
        long want = number(argc, argv, 2, 256, 256) * 256;
        size_t span = (size_t)want * 2 * MIB;
        char *p = mmap(NULL, span, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) {
            HELD("mmap of %zu GiB %s", span >> 30, ename(errno));
            return 0;
        }
        // Huge pages would need no page table.
        madvise(p, span, MADV_NOHUGEPAGE);
        volatile char sink AT_UNUSED;
        for (; done < want && now_ms() < end; done++) sink = p[done * 2 * MIB];
        if (done >= want)
            BREACH("%ld MiB of page tables built", done / 256);
        else
            return unstaged("only %ld MiB in time", done / 256);
        return 0;
    }
    long most = number(argc, argv, 2, 200000, 1000000);
    bool splits = is(mode, "splits");
    char *whole = NULL;
    if (splits) {
        whole = mmap(NULL, (size_t)most * 8192, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (whole == MAP_FAILED) return unstaged("mmap %s", ename(errno));
    }
    for (; done < most && now_ms() < end; done++) {
        if (splits) {
            if (mprotect(whole + done * 8192, 4096, PROT_READ) < 0) break;
        } else {
            // Neighbours with different rights cannot be merged.
            void *p = mmap(NULL, 4096, done & 1 ? PROT_READ : PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (p == MAP_FAILED) break;
        }
    }
    if (done >= most)
        BREACH("%ld %s made", done, mode);
    else
        HELD("%s %s after %ld", mode, ename(errno), done);
    return 0;
}
