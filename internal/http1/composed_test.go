package http1_test

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// Parts that messages are made of. A fuzzer changes bytes and rarely meets a message that nearly
// passes; these mostly do.
var (
	startParts = []string{
		"GET / HTTP/1.1\r\n", "POST /a?b HTTP/1.1\r\n", "GET / HTTP/1.0\r\n",
		"GET http://A/ HTTP/1.1\r\n", "OPTIONS https://a:443?x HTTP/1.1\r\n",
		"\r\nPUT /%41//../b HTTP/1.1\r\n", "GET / HTTP/1.1\n", "GET  / HTTP/1.1\r\n", "\nGET / HTTP/1.1\r\n", "OPTIONS * HTTP/1.1\r\n",
	}
	statusParts = []string{
		"HTTP/1.1 200 OK\r\n", "HTTP/1.1 200\r\n", "HTTP/1.0 200 OK\r\n",
		"HTTP/1.1 204 No Content\r\n", "HTTP/1.1 304 \r\n", "HTTP/1.1 103 Hi\r\n",
		"HTTP/1.1 200 OK\n", "HTTP/1.1 599 \t\xff\r\n", "HTTP/1.1 20 OK\r\n",
	}
	fieldParts = []string{
		"Content-Length: 5\r\n", "content-length:0\r\n", "Content-Length: 05 \r\n",
		"Content_Length: 7\r\n", "Transfer-Encoding: chunked\r\n",
		"transfer-encoding:\tCHUNKED\r\n", "Transfer-Encoding: gzip\r\n", "Transfer-Encoding : chunked\r\n", "Connection: close\r\n",
		"Connection: keep-alive, Upgrade\r\n", "Upgrade: websocket\r\n", "Expect: 100-continue\r\n",
		"X: a\rb\r\n", "X: y\n", " folded\r\n", "X:\r\n", "X: \t \r\n",
		"X-Y: \xffa\tb c \r\n", "Pragma: no-cache\r\n", ": x\r\n", "Host: b\r\n", "X: \x00\r\n",
		"Trailer: Digest\r\n", "Cookie: a=b; c=d\r\n",
	}
	endParts  = []string{"\r\n", "\r\n", "\r\n", "\n", "\r\r\n", ""}
	bodyParts = []string{
		"hello", "5\r\nhello\r\n", "5;a=\"b\"\r\nhello\r\n", "0005 ;x\r\nhello\r\n",
		"A\r\n0123456789\r\n", "0\r\n", "00\r\n", "\r\n", "Digest: x\r\n", "Host: evil\r\n",
		"X_Real_Ip: 1\r\n", "5\nhello\r\n", "5\r\nhello\n", "4\r\nhello\r\n", " 5\r\nhello\r\n",
		"5 \r\nhello\r\n", "0\n", "0x5\r\nhello\r\n", "8000000000000000\r\n",
		"GET / HTTP/1.1\r\n", "\r", "\n",
	}
)

// compose draws up to most of the parts.
func compose(rng *rand.Rand, most int, parts []string) string {
	var b strings.Builder
	for range rng.IntN(most + 1) {
		b.WriteString(parts[rng.IntN(len(parts))])
	}
	return b.String()
}

func one(rng *rand.Rand, parts []string) string { return parts[rng.IntN(len(parts))] }

func TestComposedMessagesAreReadAsNetHTTPReadsThem(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 4000 {
		rest := compose(rng, 3, fieldParts) + one(rng, endParts) + compose(rng, 4, bodyParts)
		if rng.IntN(2) == 0 { // a whole chunked body, so that what follows it is compared too
			rest = "Transfer-Encoding: chunked\r\n\r\n" + compose(rng, 2, bodyParts[1:5]) +
				"0\r\n" + compose(rng, 2, bodyParts[7:11]) + "\r\nGET"
		}
		host := "Host: a\r\n"
		if rng.IntN(10) == 0 {
			host = ""
		}
		checkRequest(t, []byte(one(rng, startParts)+host+rest), rng.Int())
		checkResponse(t, []byte(one(rng, statusParts)+rest), rng.Int(), rng.IntN(4) == 0)
		checkBody(t, []byte(compose(rng, 5, bodyParts)), rng.Int())
		if t.Failed() {
			t.Fatalf("of %q", rest)
		}
	}
}
