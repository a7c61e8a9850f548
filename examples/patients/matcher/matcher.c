// matcher finds the names in a register of ships that are nearest to a misspelt one. It is healthy: most of
// its processor time is the comparison of names, which is what it is for, in one function.
//
// "Cured", names that cannot be near enough, by their length or the letters in them, are not compared.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SHIPS = 1200, LONGEST = 48, NEAREST = 5, REQUEST = 8192 };

struct ship {
	char name[LONGEST + 1];
	char folded[LONGEST + 1]; // the name in small letters, which is compared
	unsigned letters; // a bit for each that is in the name
};

struct match {
	const struct ship *ship;
	int distance;
};

static struct ship ships[SHIPS];
static bool cured;

static unsigned letters(const char *name) {
	unsigned set = 0;
	for (; *name; name++)
		if (isalpha((unsigned char)*name))
			set |= 1u << (tolower((unsigned char)*name) - 'a');
	return set;
}

static void fold(const char *name, char *folded) {
	do
		*folded++ = tolower((unsigned char)*name);
	while (*name++);
}

static void launch_ships(void) {
	static const char *const first[] = {"Amber", "Bonny", "Coral", "Daring", "Eager", "Frisian", "Gallant", "Hasty", "Ivory", "Jolly"};
	static const char *const second[] = {"Albatross", "Buccaneer", "Cormorant", "Dolphin", "Enterprise", "Fulmar", "Gannet", "Herring"};
	for (int i = 0; i < SHIPS; i++) {
		snprintf(ships[i].name, sizeof ships[i].name, "%s %s of %c%c %d", first[i % 10], second[i / 10 % 8], 'A' + i % 26,
			'a' + i * 7 % 26, i);
		fold(ships[i].name, ships[i].folded);
		ships[i].letters = letters(ships[i].name);
	}
}

// edit_distance is how many letters have to be put in, left out or changed to make one name of the other.
int edit_distance(const char *a, const char *b) {
	int row[LONGEST + 1], width = strlen(b);
	for (int j = 0; j <= width; j++)
		row[j] = j;
	for (int i = 0; a[i]; i++) {
		int before = row[0];
		row[0] = i + 1;
		for (int j = 0; j < width; j++) {
			int changed = before + (a[i] != b[j]);
			before = row[j + 1];
			int least = before < row[j] ? before + 1 : row[j] + 1;
			row[j + 1] = changed < least ? changed : least;
		}
	}
	return row[width];
}

// cannot_be_near says that a ship has to be farther from what is asked than the worst match so far.
static bool cannot_be_near(const char *asked, unsigned set, const struct ship *s, int worst) {
	int lengths = abs((int)strlen(asked) - (int)strlen(s->name));
	int apart = __builtin_popcount(set & ~s->letters), other = __builtin_popcount(s->letters & ~set);
	return lengths >= worst || apart >= worst || other >= worst;
}

static void find(const char *asked, struct match best[NEAREST]) {
	unsigned set = letters(asked);
	for (int i = 0; i < NEAREST; i++)
		best[i] = (struct match){&ships[i], edit_distance(asked, ships[i].folded)};
	for (int i = 0; i < SHIPS; i++) {
		int worst = best[NEAREST - 1].distance;
		if (cured && cannot_be_near(asked, set, &ships[i], worst))
			continue;
		int distance = edit_distance(asked, ships[i].folded), at = NEAREST - 1;
		if (distance >= worst)
			continue;
		for (; at > 0 && best[at - 1].distance > distance; at--)
			best[at] = best[at - 1];
		best[at] = (struct match){&ships[i], distance};
	}
}

// name_in copies what is asked for, as in "GET /?name=Jolly+Dolfin HTTP/1.1".
static void name_in(const char *request, char asked[LONGEST + 1]) {
	const char *from = strstr(request, "name="), *end = strstr(request, " HTTP/");
	int n = 0;
	if (from && end && from < end)
		for (from += 5; from < end && *from != '&' && n < LONGEST; from++)
			asked[n++] = isalnum((unsigned char)*from) ? *from : ' ';
	asked[n] = 0;
	if (n == 0)
		strcpy(asked, "Frisian Cormorent of Nq 2");
	fold(asked, asked);
}

static int answer(char *to, size_t size, const char *request) {
	char asked[LONGEST + 1], body[NEAREST * (LONGEST + 40) + LONGEST + 64];
	struct match best[NEAREST];
	name_in(request, asked);
	find(asked, best);
	int n = snprintf(body, sizeof body, "{\"asked\":\"%s\",\"nearest\":[", asked);
	for (int i = 0; i < NEAREST; i++)
		n += snprintf(body + n, sizeof body - n, "%s{\"name\":\"%s\",\"distance\":%d}", i ? "," : "", best[i].ship->name, best[i].distance);
	n += snprintf(body + n, sizeof body - n, "]}\n");
	return snprintf(to, size, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", n, body);
}

// serve answers the requests of a connection, one after the other, until it ends.
static void *serve(void *of) {
	int fd = (int)(long)of, have = 0, on = 1;
	char request[REQUEST + 1], out[4096];
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
		int size = answer(out, sizeof out, request);
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
			return fprintf(stderr, "matcher [--address HOST:PORT] [--cured]\n"), 2;
	}
	launch_ships();
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
	socklen_t size = sizeof at;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (inet_pton(AF_INET, host, &at.sin_addr) != 1 || bind(listener, (struct sockaddr *)&at, size) || listen(listener, 1024))
		return perror("matcher: listen"), 2;
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
