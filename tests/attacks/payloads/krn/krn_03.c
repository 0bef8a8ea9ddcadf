// args: none
// KRN-03: open a file and connect through io_uring, which no syscall filter sees.
#include "attack.h"
#include <linux/io_uring.h>
#include <netinet/in.h>

#define NR_SETUP 425
#define NR_ENTER 426
#define NR_REGISTER 427

struct ring {
    int fd;
    char *sq, *cq;
    struct io_uring_sqe *sqes;
    struct io_uring_params p;
};

static bool ring_map(struct ring *r) {
    size_t sq = r->p.sq_off.array + r->p.sq_entries * sizeof(unsigned);
    size_t cq = r->p.cq_off.cqes + r->p.cq_entries * sizeof(struct io_uring_cqe);
    r->sq = mmap(NULL, sq, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, IORING_OFF_SQ_RING);
    r->cq = mmap(NULL, cq, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, IORING_OFF_CQ_RING);
    r->sqes = mmap(NULL, r->p.sq_entries * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE,
                   MAP_SHARED, r->fd, IORING_OFF_SQES);
    return r->sq != MAP_FAILED && r->cq != MAP_FAILED && (void *)r->sqes != MAP_FAILED;
}

static int ring_run(struct ring *r, const struct io_uring_sqe *one) {
    unsigned mask = *(unsigned *)(r->sq + r->p.sq_off.ring_mask);
    unsigned *tail = (unsigned *)(r->sq + r->p.sq_off.tail);
    unsigned at = *tail & mask;
    r->sqes[at] = *one;
    ((unsigned *)(r->sq + r->p.sq_off.array))[at] = at;
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    if (sys6(NR_ENTER, r->fd, 1, 1, IORING_ENTER_GETEVENTS, 0, 0) < 0) return -errno;
    unsigned *head = (unsigned *)(r->cq + r->p.cq_off.head);
    unsigned cmask = *(unsigned *)(r->cq + r->p.cq_off.ring_mask);
    struct io_uring_cqe *cqes = (struct io_uring_cqe *)(r->cq + r->p.cq_off.cqes);
    int res = cqes[*head & cmask].res;
    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    return res;
}

static long through_ring(void *unused) {
    struct ring r;
    memset(&r, 0, sizeof r);
    r.fd = (int)sys2(NR_SETUP, 4, &r.p);
    if (r.fd < 0) return -1;
    if (!ring_map(&r)) return 0;
    struct io_uring_sqe s;
    memset(&s, 0, sizeof s);
    s.opcode = IORING_OP_OPENAT;
    s.fd = AT_FDCWD;
    s.addr = (uintptr_t) "/proc/self/status";
    s.open_flags = O_RDONLY;
    if (ring_run(&r, &s) >= 0) NOTE("opened a file through the ring");
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    memset(&s, 0, sizeof s);
    s.opcode = IORING_OP_CONNECT;
    s.fd = socket(AF_INET, SOCK_STREAM, 0);
    s.addr = (uintptr_t)&to;
    s.off = sizeof to;
    NOTE("connect through the ring answered %s", ename(-ring_run(&r, &s)));
    errno = 0;
    return 0;
}

int main(void) {
    // A kill would be wrong too: common runtimes probe io_uring at start and would die.
    denied_act("io_uring_setup", in_child(through_ring, NULL, 1000), EPERM, ENOSYS, 0);
    denied_act("io_uring_enter", child_call(NR_ENTER, -1, 1, 1, 0), EPERM, ENOSYS, 0);
    denied_act("io_uring_register", child_call(NR_REGISTER, -1, 0, 0, 0), EPERM, ENOSYS, 0);
    return verdict();
}
