// A guest in an attacker's hands: pid 1 of a jail, with the engine's stream at descriptor 3.
//
// Which act it plays is the limit on open files that the host tells it, less 2000. It speaks the
// protocol of crates/guest-proto: a header of nine bytes (length, kind, channel), then a body of
// varints.
#include "attack.h"

#ifndef GENERATION
#error "the harness says which generation of the protocol is spoken"
#endif

enum { STREAM = 3, SCENARIO_BASE = 2000, RESOURCE_NOFILE = 7 };

enum kind {
    CONFIGURE = 0x01,
    REQUEST = 0x02,
    HELLO = 0x81,
    REPLY = 0x82,
    STDOUT = 0x83,
    DATA = 0x85,
    END_OF_DATA = 0x86,
    EXITED = 0x87,
    CHANGED = 0x88,
    CREDIT = 0x89,
    COUNTERS = 0x8a,
};

// As in catalogue/agt/guest.rs.
enum scenario {
    OBEDIENT = 0,
    SAYS_NOTHING,
    ANSWERS_NOTHING,
    BYTE_BY_BYTE,
    OLDER_GENERATION,
    NEWER_GENERATION,
    SAYS_ROOT,
    SAYS_UNFILTERED,
    ANSWERS_BEFORE_HELLO,
    GREETS_TWICE,
    ENDLESS_FRAME,
    UNKNOWN_KIND,
    BAD_BODY,
    BAD_ENUM,
    ANSWERS_TWICE,
    NEVER_ASKED,
    FLOOD_OF_EVENTS,
    FLOOD_OF_ANSWERS,
    FLOOD_OF_COUNTERS,
    LIES_ABOUT_USE,
    LIES_ABOUT_SIZE,
    SENDS_DESCRIPTORS,
    REPLAYS,
    SPEAKS_FOR_OTHERS,
};

// ------------------------------------------------------------------- frames

static unsigned char out[1 << 21];
static size_t length;

static void byte(unsigned char value) { out[length++] = value; }

static void varint(uint64_t value) {
    while (value >= 0x80) {
        byte((unsigned char)(value | 0x80));
        value >>= 7;
    }
    byte((unsigned char)value);
}

static void bytes(const void *data, size_t count) {
    memcpy(out + length, data, count);
    length += count;
}

static size_t frame_start;

static void begin(enum kind kind, uint32_t channel) {
    frame_start = length;
    length += 4;
    byte((unsigned char)kind);
    bytes(&channel, 4);
}

static void end(void) {
    uint32_t body = (uint32_t)(length - frame_start - 9);
    memcpy(out + frame_start, &body, 4);
}

static void push(const void *data, size_t count) {
    const char *at = data;
    while (count > 0) {
        ssize_t wrote = write(STREAM, at, count);
        if (wrote < 0 && (errno == EAGAIN || errno == EINTR)) {
            struct pollfd ready = {.fd = STREAM, .events = POLLOUT};
            poll(&ready, 1, 1000);
            continue;
        }
        if (wrote <= 0)
            _exit(0);
        at += wrote;
        count -= (size_t)wrote;
    }
}

static void flush(void) {
    push(out, length);
    length = 0;
}

static void hello(unsigned generation, unsigned uid, bool filtered) {
    begin(HELLO, 0);
    varint(generation);
    varint(1); // its pid
    varint(uid);
    varint(0); // capabilities
    byte(1);   // no_new_privs
    byte(filtered);
    end();
}

static void started(uint32_t channel) {
    begin(REPLY, channel);
    byte(0); // Ok
    varint(1);
    varint(2);
    end();
}

static void done(uint32_t channel) {
    begin(REPLY, channel);
    byte(0);
    varint(0);
    end();
}

static void sized(uint32_t channel, uint64_t size) {
    begin(REPLY, channel);
    byte(0);
    varint(4);
    varint(size);
    end();
}

static void printed(uint32_t channel, const char *text) {
    begin(STDOUT, channel);
    bytes(text, strlen(text));
    end();
}

static void nothing_more(uint32_t channel) {
    begin(END_OF_DATA, channel);
    end();
}

static void counted(uint64_t value) {
    varint(value);
    byte(1);
    varint(value); // peak memory
    varint(3);     // killed because memory ran out
    varint(3);     // processes refused
    byte(1);       // a disk that is full
    varint(value);
    varint(value);
    byte(1);
}

static void exited(uint32_t channel, int code, uint64_t lie) {
    begin(EXITED, channel);
    byte(1);
    varint((uint64_t)code * 2);
    byte(0);
    varint(lie);
    varint(lie);
    byte(lie != 0);
    if (lie)
        counted(lie);
    end();
}

static void counters(uint32_t channel, uint64_t value) {
    begin(COUNTERS, channel);
    counted(value);
    end();
}

// A file with a name as long as one may be.
static void changed(uint32_t channel) {
    static char path[4000];
    memset(path, 'x', sizeof path);
    begin(CHANGED, channel);
    varint(1);
    varint(sizeof path);
    bytes(path, sizeof path);
    end();
}

// A listing of as many entries as a frame takes.
static void entries(uint32_t channel) {
    enum { COUNT = 60000 };
    begin(REPLY, channel);
    byte(0);
    varint(3);
    varint(COUNT);
    for (int i = 0; i < COUNT; i++) {
        varint(0); // path
        varint(0); // a file
        for (int field = 0; field < 7; field++)
            varint(0);
        byte(0);
        byte(0);
        varint(0);
    }
    byte(1);
    end();
}

// -------------------------------------------------------------------- input

static unsigned char in[1 << 21];
static size_t have;

// The next frame in `in`; its whole length.
static size_t next_frame(void) {
    for (;;) {
        uint32_t body;
        memcpy(&body, in, 4);
        if (have >= 9 && have >= 9 + (size_t)body)
            return 9 + (size_t)body;
        ssize_t got = read(STREAM, in + have, sizeof in - have);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
            struct pollfd ready = {.fd = STREAM, .events = POLLIN};
            poll(&ready, 1, -1);
            continue;
        }
        if (got <= 0)
            _exit(0);
        have += (size_t)got;
    }
}

static void forget(size_t count) {
    memmove(in, in + count, have - count);
    have -= count;
}

static uint64_t read_varint(const unsigned char **at) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        unsigned char one = *(*at)++;
        value |= (uint64_t)(one & 0x7f) << shift;
        if (!(one & 0x80))
            break;
    }
    return value;
}

// What the host says before anything else: a filter, then pairs of limits.
static enum scenario configured(void) {
    size_t whole = next_frame();
    const unsigned char *at = in + 9;
    at += read_varint(&at);
    uint64_t pairs = read_varint(&at), wanted = SCENARIO_BASE;
    while (pairs-- > 0) {
        uint64_t resource = read_varint(&at), value = read_varint(&at);
        if (resource == RESOURCE_NOFILE)
            wanted = value;
    }
    forget(whole);
    return (enum scenario)(wanted - SCENARIO_BASE);
}

// --------------------------------------------------------------------- acts

// As many descriptors as one message takes, beside a frame that is dropped.
static bool send_descriptors(uint32_t channel) {
    enum { COUNT = 200 };
    length = 0;
    counters(channel + 1000, 1);
    int descriptors[COUNT];
    for (int i = 0; i < COUNT; i++)
        descriptors[i] = STREAM;
    char control[CMSG_SPACE(sizeof descriptors)] = {0};
    struct iovec part = {.iov_base = out, .iov_len = length};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof descriptors);
    memcpy(CMSG_DATA(head), descriptors, sizeof descriptors);
    ssize_t sent;
    while ((sent = sendmsg(STREAM, &message, 0)) < 0 && (errno == EAGAIN || errno == EINTR || errno == ETOOMANYREFS)) {
        struct pollfd ready = {.fd = STREAM, .events = POLLOUT};
        poll(&ready, 1, 100);
    }
    length = 0;
    return sent > 0;
}

static void obey(uint32_t channel, const char *text, int code) {
    started(channel);
    printed(channel, text);
    nothing_more(channel);
    exited(channel, code, 0);
    flush();
}

static void answer(enum scenario scenario, uint32_t channel, unsigned request) {
    static uint32_t first;
    static unsigned answered;
    // Files that are read, watched or listed: `Read`, `Watch`, `List`.
    bool is_read = request == 8, is_watch = request == 10, is_list = request == 4;
    answered++;
    if (answered == 1)
        first = channel;
    switch (scenario) {
    case SAYS_NOTHING:
    case ANSWERS_NOTHING:
        return;
    case BYTE_BY_BYTE:
        started(channel);
        for (size_t at = 0; at < length; at++) {
            push(out + at, 1);
            sleep(20);
        }
        length = 0;
        return;
    case ENDLESS_FRAME:
        push("\xff\xff\xff\xff\x82\x01\x00\x00\x00", 9);
        return;
    case UNKNOWN_KIND:
        begin((enum kind)0x42, channel);
        end();
        flush();
        return;
    case BAD_BODY:
        begin(REPLY, channel);
        bytes("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12);
        end();
        flush();
        return;
    case BAD_ENUM:
        begin(REPLY, channel);
        byte(0);
        varint(4000);
        end();
        flush();
        return;
    case ANSWERS_TWICE:
        started(channel);
        started(channel);
        flush();
        return;
    case NEVER_ASKED:
    case SPEAKS_FOR_OTHERS:
        for (uint32_t other = 0; other < 4096; other++) {
            if (other == channel)
                continue;
            started(other);
            printed(other, "FORGED");
            exited(other, 99, 0);
            flush();
        }
        obey(channel, "own", 5);
        return;
    case FLOOD_OF_EVENTS:
        if (!is_watch)
            break;
        done(channel);
        for (int i = 0; i < 80000; i++) {
            changed(channel);
            flush();
        }
        return;
    case FLOOD_OF_ANSWERS:
        if (!is_watch)
            break;
        done(channel);
        flush();
        for (int i = 0; i < 40; i++) {
            entries(channel);
            flush();
        }
        return;
    case FLOOD_OF_COUNTERS:
        if (!is_watch)
            break;
        done(channel);
        for (int i = 0; i < 400000; i++) {
            counters(channel, (uint64_t)i);
            begin(CHANGED, channel);
            varint(1);
            varint(1);
            byte('x');
            end();
            if (length > 60000)
                flush();
        }
        flush();
        return;
    case LIES_ABOUT_USE:
        started(channel);
        nothing_more(channel);
        exited(channel, 0, 1000000000000ull);
        flush();
        return;
    case LIES_ABOUT_SIZE:
        if (!is_read)
            break;
        sized(channel, answered == 1 ? UINT64_MAX : 10);
        for (int i = 0; i < 3; i++) {
            begin(DATA, channel);
            memset(out + length, 'x', 200000);
            length += 200000;
            end();
        }
        nothing_more(channel);
        flush();
        return;
    case SENDS_DESCRIPTORS:
        for (int i = 0; i < 2000; i++) {
            if (!send_descriptors(channel)) {
                obey(channel, ename(errno), 1);
                return;
            }
        }
        break;
    case REPLAYS:
        if (answered > 1) {
            printed(first, "old");
            nothing_more(first);
            exited(first, 77, 0);
            exited(first, 77, 0);
            flush();
        }
        obey(channel, answered > 1 ? "new" : "old", answered > 1 ? 5 : 77);
        return;
    default:
        break;
    }
    if (is_watch || is_list) {
        done(channel);
        flush();
        return;
    }
    obey(channel, "own", 5);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    enum scenario scenario = configured();
    unsigned uid = getuid();
    switch (scenario) {
    case SAYS_NOTHING:
        break;
    case OLDER_GENERATION:
        hello(GENERATION - 1, uid, true);
        break;
    case NEWER_GENERATION:
        hello(GENERATION + 1, uid, true);
        break;
    case SAYS_ROOT:
        hello(GENERATION, 0, true);
        break;
    case SAYS_UNFILTERED:
        hello(GENERATION, uid, false);
        break;
    case ANSWERS_BEFORE_HELLO:
        obey(1, "own", 5);
        break;
    case GREETS_TWICE:
        hello(GENERATION, uid, true);
        hello(GENERATION - 1, 0, false);
        break;
    default:
        hello(GENERATION, uid, true);
    }
    flush();
    for (;;) {
        size_t whole = next_frame();
        uint32_t channel;
        memcpy(&channel, in + 5, 4);
        unsigned char kind = in[4], request = in[9];
        forget(whole);
        if (kind == REQUEST)
            answer(scenario, channel, request);
    }
}
