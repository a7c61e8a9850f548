// ledger books orders into a journal. Each of an order's lines is written and synced to the disk by itself, under the
// mutex that keeps orders apart, so that an order waits for the disk as often as it has lines, and the others for it.
//
// Cured, an order is written as a whole, and one sync is for all orders that wait for it.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LINES = 10, PRICES = 10000, REQUEST = 8192, LONGEST = 96 };

// The journal begins again at its front when it has this size, as the nightly run has taken what was there.
static const off_t most = 4 << 20;

static bool cured;
static int journal;
static off_t end;
static pthread_mutex_t booking = PTHREAD_MUTEX_INITIALIZER;

static uint64_t next(uint64_t *seed) {
	*seed += 0x9e3779b97f4a7c15;
	uint64_t z = (*seed ^ *seed >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static bool append(const char *text, size_t size) {
	if (end + (off_t)size > most)
		end = 0;
	bool whole = pwrite(journal, text, size, end) == (ssize_t)size;
	end += size;
	return whole;
}

// sync_together returns when a sync has ended that began after the caller wrote. It has the mutex, and gives it
// back while the disk works.
static bool sync_together(void) {
	static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
	static uint64_t written, synced;
	static bool syncing, failed;
	uint64_t mine = ++written;
	while (synced < mine && !failed) {
		if (syncing) {
			pthread_cond_wait(&ended, &booking);
			continue;
		}
		uint64_t until = written;
		syncing = true;
		pthread_mutex_unlock(&booking);
		bool safe = fsync(journal) == 0;
		pthread_mutex_lock(&booking);
		syncing = false;
		failed = !safe;
		synced = until;
		pthread_cond_broadcast(&ended);
	}
	return !failed;
}

// book writes an order down, and returns when it is safe.
static bool book(char lines[LINES][LONGEST]) {
	char whole[LINES * LONGEST];
	size_t size = 0;
	bool safe = true;
	pthread_mutex_lock(&booking);
	for (int i = 0; i < LINES && safe; i++) {
		size_t n = strlen(lines[i]);
		memcpy(whole + size, lines[i], n);
		size += n;
		if (!cured)
			safe = append(lines[i], n) && fsync(journal) == 0;
	}
	if (cured)
		safe = append(whole, size) && sync_together();
	pthread_mutex_unlock(&booking);
	return safe;
}

static int by_price(const void *a, const void *b) {
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

// offer is the median of what suppliers ask for today, which the order is priced with.
static uint32_t offer(uint64_t *seed, uint32_t *prices) {
	for (int i = 0; i < PRICES; i++)
		prices[i] = 100 + next(seed) % 90000;
	qsort(prices, PRICES, sizeof *prices, by_price);
	return prices[PRICES / 2];
}

static int answer(char *to, size_t size, uint64_t *seed, uint32_t *prices) {
	char lines[LINES][LONGEST], body[256];
	uint64_t order = next(seed), cents = 0;
	uint32_t price = offer(seed, prices);
	for (int i = 0; i < LINES; i++) {
		unsigned pieces = 1 + next(seed) % 9;
		snprintf(lines[i], LONGEST, "%016llx %2d P%04u %u x %u\n", (unsigned long long)order, i, (unsigned)(next(seed) % 9000),
			pieces, price + i);
		cents += (uint64_t)pieces * (price + i);
	}
	bool safe = book(lines);
	int n = snprintf(body, sizeof body, "{\"order\":\"%016llx\",\"lines\":%d,\"cents\":%llu}\n", (unsigned long long)order, LINES,
		(unsigned long long)cents);
	return snprintf(to, size, "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		safe ? "200 OK" : "500 Internal Server Error", n, body);
}

// serve answers the requests of a connection, one after the other, until it ends.
static void *serve(void *of) {
	int fd = (int)(long)of, have = 0, on = 1;
	uint64_t seed = fd;
	char request[REQUEST + 1], out[1024];
	uint32_t *prices = malloc(PRICES * sizeof *prices);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	while (prices) {
		ssize_t n = read(fd, request + have, REQUEST - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		request[have += n] = 0;
		if (!strstr(request, "\r\n\r\n")) {
			if (have == REQUEST)
				break;
			continue;
		}
		bool last = strcasestr(request, "\r\nconnection: close") != NULL;
		int size = answer(out, sizeof out, &seed, prices);
		if (send(fd, out, size, MSG_NOSIGNAL) != size || last)
			break;
		have = 0;
	}
	free(prices);
	close(fd);
	return NULL;
}

int main(int argc, char **argv) {
	char host[64] = "127.0.0.1";
	const char *path = "journal";
	int port = 18800;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--cured"))
			cured = true;
		else if (!strcmp(argv[i], "--journal") && i + 1 < argc)
			path = argv[++i];
		else if (strcmp(argv[i], "--address") || ++i == argc || sscanf(argv[i], "%63[^:]:%d", host, &port) != 2)
			return fprintf(stderr, "ledger [--address HOST:PORT] [--journal FILE] [--cured]\n"), 2;
	}
	if ((journal = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600)) < 0)
		return perror("ledger: open the journal"), 2;
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
	socklen_t size = sizeof at;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (inet_pton(AF_INET, host, &at.sin_addr) != 1 || bind(listener, (struct sockaddr *)&at, size) || listen(listener, 1024))
		return perror("ledger: listen"), 2;
	getsockname(listener, (struct sockaddr *)&at, &size);
	printf("ready %s:%d\n", host, ntohs(at.sin_port));
	fflush(stdout);
	pthread_attr_t detached;
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&detached, 256 * 1024);
	for (;;) {
		pthread_t thread;
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0 && pthread_create(&thread, &detached, serve, (void *)(long)fd))
			close(fd);
	}
}
