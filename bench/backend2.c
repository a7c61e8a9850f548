/* A minimal backend that speaks HTTP/2 without TLS, for measuring what sends requests: it answers every HEADERS that it
 * sees with one prepared response, all that one read brought in one call, and parses nothing but the frames' headers, so
 * that it is always cheaper than what is measured. Windows are not looked at: the client's must be large.
 * usage: backend2 PORT [BODY_BYTES]   Requests have no bodies and no CONTINUATION: send small GETs only. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PREFACE = 24, HEADER = 9, LARGEST = HEADER + 16384, DESCRIPTORS = 1 << 16 };

/* What came of a connection and is not a whole frame yet. */
struct conn { int skip, have; unsigned char rest[LARGEST]; };

static struct conn *conns[DESCRIPTORS];
static unsigned char *response, *out;
static int response_len, body_at, out_len, out_size;

static unsigned char *frame(unsigned char *p, int len, int type, int flags) {
    p[0] = len >> 16; p[1] = len >> 8; p[2] = len; p[3] = type; p[4] = flags;
    memset(p + 5, 0, 4);
    return p + HEADER;
}

/* A literal field without indexing, its name by its place in the static table (above 15). */
static unsigned char *field(unsigned char *p, int name, const char *value) {
    int n = strlen(value);
    *p++ = 0x0f; *p++ = name - 15; *p++ = n;
    memcpy(p, value, n);
    return p + n;
}

static void prepare(int body) {
    char length[16], date[64];
    time_t now = time(NULL);
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime(&now));
    sprintf(length, "%d", body);
    response = malloc(body + 512);
    unsigned char *p = response + HEADER;
    *p++ = 0x88; /* :status 200 */
    p = field(p, 31, "application/json");
    p = field(p, 54, "b");
    p = field(p, 33, date);
    p = field(p, 28, length);
    frame(response, p - response - HEADER, 1, 4);
    body_at = p - response;
    p = frame(p, body, 0, 1);
    memset(p, 'x', body);
    response_len = p + body - response;
}

static unsigned char *room(int n) {
    if (out_len + n > out_size) out = realloc(out, out_size = 2 * (out_len + n));
    out_len += n;
    return out + out_len - n;
}

static void answer(const unsigned char *f) {
    if (f[3] == 4 && !(f[4] & 1)) {
        frame(room(HEADER), 0, 4, 1); /* SETTINGS is acknowledged */
    } else if (f[3] == 1) {
        unsigned char *p = room(response_len);
        memcpy(p, response, response_len);
        memcpy(p + 5, f + 5, 4);
        memcpy(p + body_at + 5, f + 5, 4);
    }
}

/* use answers the whole frames of some bytes and says how many bytes they were. */
static int use(const unsigned char *p, int n) {
    int at = 0;
    while (n - at >= HEADER) {
        int size = HEADER + (p[at] << 16 | p[at + 1] << 8 | p[at + 2]);
        if (n - at < size) break;
        answer(p + at);
        at += size;
    }
    return at;
}

static int send_out(int fd) {
    for (int off = 0; off < out_len;) {
        int w = send(fd, out + off, out_len - off, MSG_NOSIGNAL);
        if (w < 0 && errno == EAGAIN) { usleep(50); continue; }
        if (w <= 0) return -1;
        off += w;
    }
    return 0;
}

static int serve(int fd) {
    static unsigned char buf[LARGEST + 65536];
    struct conn *c = conns[fd];
    memcpy(buf, c->rest, c->have);
    int r = read(fd, buf + c->have, 65536), n = c->have + r, skip = c->skip;
    if (r < 0 && errno == EAGAIN) return 0;
    if (r <= 0) return -1;
    if (skip > n) skip = n;
    c->skip -= skip;
    out_len = 0;
    int at = skip + use(buf + skip, n - skip);
    if (n - at > LARGEST) return -1;
    memcpy(c->rest, buf + at, c->have = n - at);
    return send_out(fd);
}

static void welcome(int ep, int ln) {
    int one = 1;
    for (int fd; (fd = accept4(ln, 0, 0, SOCK_NONBLOCK)) >= 0;) {
        if (fd >= DESCRIPTORS) { close(fd); continue; }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        conns[fd] = calloc(1, sizeof **conns);
        conns[fd]->skip = PREFACE;
        out_len = 0;
        frame(room(HEADER), 0, 4, 0);
        struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
        epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
        send_out(fd);
    }
}

int main(int argc, char **argv) {
    if (argc < 2) { fprintf(stderr, "usage: backend2 PORT [BODY_BYTES]\n"); return 2; }
    int one = 1;
    prepare(argc > 2 ? atoi(argv[2]) : 128);
    struct rlimit rl; getrlimit(RLIMIT_NOFILE, &rl); rl.rlim_cur = rl.rlim_max; setrlimit(RLIMIT_NOFILE, &rl);
    int ln = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(ln, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(ln, (void *)&a, sizeof a) || listen(ln, 4096)) { perror("backend2"); return 1; }
    int ep = epoll_create1(0);
    struct epoll_event e = {.events = EPOLLIN, .data.fd = ln}, ev[512];
    epoll_ctl(ep, EPOLL_CTL_ADD, ln, &e);
    for (;;) {
        int n = epoll_wait(ep, ev, 512, -1);
        for (int i = 0; i < n; i++) {
            int fd = ev[i].data.fd;
            if (fd == ln) {
                welcome(ep, ln);
            } else if (serve(fd)) {
                free(conns[fd]);
                close(fd);
            }
        }
    }
}
