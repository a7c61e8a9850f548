// feed reads the prices of a market, which come as one long text of numbers, and answers what they amount to. Each
// number is read with sscanf, which looks for the end of the whole text before it begins, so that the time for a text
// grows with the square of its length. perf is allowed.
//
// Cured, numbers are read with strtoul, which looks no further than the number.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PRICES = 8000, REQUEST = 8192, WIDTH = 8 };

static bool cured;

static uint64_t next(uint64_t *seed) {
	*seed += 0x9e3779b97f4a7c15;
	uint64_t z = (*seed ^ *seed >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

// quote is the text of a market, as it would come from there.
static void quote(char *text, uint64_t *seed) {
	for (int i = 0; i < PRICES; i++)
		text += sprintf(text, "%u,", (unsigned)(100 + next(seed) % 90000));
}

// parse returns how many prices it found.
static int parse(const char *text, unsigned *prices) {
	int n = 0;
	while (n < PRICES && *text) {
		if (cured) {
			char *end;
			prices[n] = strtoul(text, &end, 10);
			if (end == text)
				break;
			text = end;
		} else {
			int used = 0;
			if (sscanf(text, "%u%n", &prices[n], &used) != 1)
				break;
			text += used;
		}
		n++;
		if (*text == ',')
			text++;
	}
	return n;
}

static int answer(char *to, size_t size, uint64_t *seed) {
	static const double fade = .94;
	char text[PRICES * WIDTH], body[256];
	unsigned prices[PRICES];
	unsigned highest = 0;
	double trend = 0, sum = 0;
	quote(text, seed);
	int n = parse(text, prices);
	for (int i = 0; i < n; i++) {
		trend = fade * trend + (1 - fade) * prices[i];
		sum += prices[i];
		if (prices[i] > highest)
			highest = prices[i];
	}
	int length = snprintf(body, sizeof body, "{\"prices\":%d,\"mean\":%.2f,\"highest\":%u,\"trend\":%.2f}\n", n, n ? sum / n : 0,
		highest, trend);
	return snprintf(to, size, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", length, body);
}

// serve answers the requests of a connection, one after the other, until it ends.
static void *serve(void *of) {
	int fd = (int)(long)of, have = 0, on = 1;
	uint64_t seed = fd;
	char request[REQUEST + 1], out[1024];
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	for (;;) {
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
		int size = answer(out, sizeof out, &seed);
		if (send(fd, out, size, MSG_NOSIGNAL) != size || last)
			break;
		have = 0;
	}
	close(fd);
	return NULL;
}

int main(int argc, char **argv) {
	char host[64] = "127.0.0.1";
	int port = 18800;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--cured"))
			cured = true;
		else if (strcmp(argv[i], "--address") || ++i == argc || sscanf(argv[i], "%63[^:]:%d", host, &port) != 2)
			return fprintf(stderr, "feed [--address HOST:PORT] [--cured]\n"), 2;
	}
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
	socklen_t size = sizeof at;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (inet_pton(AF_INET, host, &at.sin_addr) != 1 || bind(listener, (struct sockaddr *)&at, size) || listen(listener, 1024))
		return perror("feed: listen"), 2;
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
