package redis_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"plimsoll/internal/redis"
	"plimsoll/internal/redis/redistest"
)

// impostor is a server of which a test says what it answers.
type impostor struct {
	t        *testing.T
	listener net.Listener
	// answer gives the reply to a command, or "" for that of a server as it should be.
	answer atomic.Pointer[func(command []string) string]
}

func startImpostor(t *testing.T, answer func(command []string) string) *impostor {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &impostor{t: t, listener: ln}
	s.answer.Store(&answer)
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go s.serve(c)
		}
	}()
	return s
}

func (s *impostor) serve(c net.Conn) {
	defer c.Close()
	from := bufio.NewReader(c)
	for {
		command, err := readCommand(from)
		if err != nil {
			return
		}
		reply := (*s.answer.Load())(command)
		if reply == "" {
			reply = honest(command[0])
		}
		if _, err := io.WriteString(c, reply); err != nil {
			return
		}
	}
}

func honest(name string) string {
	switch name {
	case "HELLO":
		return "%3\r\n+server\r\n+redis\r\n+version\r\n+7.0.0\r\n+proto\r\n:3\r\n"
	case "CLUSTER":
		return "-ERR This instance has cluster support disabled\r\n"
	case "PING":
		return "+PONG\r\n"
	}
	return "+OK\r\n"
}

func readCommand(from *bufio.Reader) (words []string, err error) {
	header := func() (n int, err error) {
		line, err := from.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := header()
	for range n {
		length, err := header()
		if err != nil {
			return nil, err
		}
		word := make([]byte, length+2)
		if _, err = io.ReadFull(from, word); err != nil {
			return nil, err
		}
		words = append(words, string(word[:length]))
	}
	return words, err
}

func newClient(t *testing.T, address string, longest int64) *redis.Client {
	t.Helper()
	began := time.Now()
	c, err := redis.New(redis.Options{Name: "r", Addresses: []string{address}, Timeout: time.Second,
		MaxReply: longest, Failures: 1 << 20, Now: func() int64 { return int64(time.Since(began)) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Release)
	return c
}

// get asks for a key.
func get(t *testing.T, c *redis.Client) (value string, err error) {
	t.Helper()
	call, err := c.Admit()
	if err != nil {
		return "", err
	}
	err = call.Run(func(ctx context.Context, client rueidis.Client) (err error) {
		value, err = client.Do(ctx, client.B().Get().Key("key").Build()).ToString()
		return err
	})
	return value, err
}

// Each of these made rueidis panic on a goroutine of its own, or take all the memory there is.
var hostile = map[string]string{
	"a string of a negative length":     "$-5\r\n",
	"a string of 90 PB":                 "$99999999999999999\r\n",
	"a string of 2 GB":                  "$2147483647\r\n",
	"an array of a negative length":     "*-7\r\n",
	"an array of 99 billion":            "*99999999999\r\n",
	"a map of a negative length":        "%-3\r\n",
	"a map whose length overflows":      "%9223372036854775807\r\n",
	"a set of a negative length":        "~-2\r\n",
	"a push message of negative length": ">-2\r\n",
	"a chunk of a negative length":      "$?\r\n;-9223372036854775807\r\n",
	"arrays that are too deep":          strings.Repeat("*1\r\n", 1<<16),
	"a line without an end":             "+" + strings.Repeat("a", 1<<20),
	"more replies than commands":        "+OK\r\n+OK\r\n+OK\r\n",
	"a subscription to nothing":         ">3\r\n+subscribe\r\n+x\r\n:1\r\n",
	"a lie hidden behind a null":        "_ab$-5\r\n",
	"a lie hidden behind a boolean":     "#tab$-5\r\n",
	"a boolean without a value":         "#\r\n$-5\r\n",
	"a reply more behind a boolean":     "*1\r\n+a\r\n*1\r\n#>3\r\n",
	"a lie hidden behind a string":      "$1\r\naab$-5\r\n",
	"a lie behind a bare line feed":     "+a\n$-5\r\n",
	"an attribute":                      "|1\r\n+a\r\n$-5\r\n",
	"another protocol":                  "HTTP/1.1 400 Bad Request\r\n\r\n",
}

func TestAServerThatLiesLosesItsConnectionAndNothingElse(t *testing.T) {
	for name, lie := range hostile {
		for _, to := range []string{"HELLO", "CLUSTER", "GET"} {
			t.Run(name+" to "+to, func(t *testing.T) {
				t.Parallel()
				s := startImpostor(t, func(command []string) string {
					if command[0] == to {
						return lie
					}
					return ""
				})
				c := newClient(t, s.listener.Addr().String(), 1<<20)
				// What is wrong behind a whole reply shows with the next one.
				for range 3 {
					if _, err := get(t, c); err == nil && to != "GET" && name != "more replies than commands" {
						t.Error("a reply was accepted")
					}
				}
				if to == "CLUSTER" {
					return // what it says of the cluster may have been believed
				}
				answer := func(command []string) string {
					if command[0] == "GET" {
						return "$5\r\nvalue\r\n"
					}
					return ""
				}
				s.answer.Store(&answer)
				redistest.Eventually(t, "an honest answer", func() bool {
					value, err := get(t, c)
					return err == nil && value == "value"
				})
			})
		}
	}
}

func TestASubscriptionSurvivesWhatAServerPushes(t *testing.T) {
	const subscribed, message = ">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n", ">3\r\n+message\r\n+c\r\n+hello\r\n"
	for name, lie := range map[string]string{
		"nothing else":               "",
		"the same again":             subscribed,
		"a subscription by pattern":  ">3\r\n+psubscribe\r\n+c\r\n:1\r\n",
		"the end of a subscription":  ">3\r\n+unsubscribe\r\n+c\r\n:0\r\n",
		"a reply":                    "+OK\r\n",
		"a queue":                    "+QUEUED\r\n",
		"a push without text":        ">2\r\n:1\r\n:2\r\n",
		"an invalidation":            ">2\r\n+invalidate\r\n_\r\n",
		"a push within an array":     "*1\r\n>1\r\n+message\r\n",
		"a push of a negative count": ">-3\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startImpostor(t, func(command []string) string {
				if command[0] == "SUBSCRIBE" {
					return subscribed + message + lie
				}
				return ""
			})
			c := newClient(t, s.listener.Addr().String(), 1<<20)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			client, err := c.Connect(ctx)
			if err != nil {
				t.Fatal(err)
			}
			got := 0
			err = client.Receive(ctx, client.B().Subscribe().Channel("c").Build(), func(m rueidis.PubSubMessage) {
				if got++; m.Message == "hello" && lie == "" {
					cancel()
				}
			})
			if ctx.Err() != nil && lie != "" || err == nil || lie == "" && got != 1 {
				t.Errorf("%d messages, and it ended with %v", got, err)
			}
		})
	}
}

// rueidis looks for the address of a redirection where there need not be one, as soon as the server
// has said that it is a cluster.
func TestARedirectionToNowhereLosesTheConnectionAndNothingElse(t *testing.T) {
	for _, lie := range []string{"-MOVED\r\n", "-MOVED 1\r\n", "-ASK\r\n", "-ASKED for\r\n", "!5\r\nMOVED\r\n",
		"!9\r\nASK 16383\r\n"} {
		t.Run(lie, func(t *testing.T) {
			t.Parallel()
			var honestly atomic.Bool
			var port int
			s := startImpostor(t, func(command []string) string {
				switch {
				case command[0] == "CLUSTER":
					return fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n", port)
				case command[0] == "GET" && honestly.Load():
					return "$5\r\nvalue\r\n"
				case command[0] == "GET":
					return lie
				}
				return ""
			})
			port = s.listener.Addr().(*net.TCPAddr).Port
			c := newClient(t, s.listener.Addr().String(), 1<<20)
			if value, err := get(t, c); err == nil {
				t.Errorf("it was taken for %q", value)
			}
			honestly.Store(true)
			redistest.Eventually(t, "an honest answer", func() bool {
				value, err := get(t, c)
				return err == nil && value == "value"
			})
		})
	}
}

// What nobody has thought of: pieces of replies in any order.
func TestRandomRepliesEndNothing(t *testing.T) {
	pieces := []string{"*", "$", ">", "%", "~", "+", "-", ":", "_", "#", "!", "=", "(", ",", "|", ".", ";",
		"?", "\r\n", "\r\n", "\r\n", "\n", "\r", "-1", "-2", "0", "1", "2", "3", "99999", "message", "subscribe",
		"unsubscribe", "psubscribe", "invalidate", "QUEUED", "PONG", "pong", "OK", "MOVED 1 x:1", "LOADING",
		"+OK\r\n", "$2\r\nab\r\n", "*1\r\n", ">3\r\n", "_\r\n", "#t\r\n", ":1\r\n", "*0\r\n", "$-1\r\n"}
	for seed := range uint64(120) {
		random := rand.New(rand.NewPCG(seed, 1))
		var lie strings.Builder
		for range 1 + random.IntN(12) {
			lie.WriteString(pieces[random.IntN(len(pieces))])
		}
		to := []string{"HELLO", "GET", "GET"}[seed%3]
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			var done atomic.Bool
			s := startImpostor(t, func(command []string) string {
				if command[0] == to && !done.Load() {
					return lie.String() + "\r\n"
				}
				return ""
			})
			c := newClient(t, s.listener.Addr().String(), 1<<20)
			get(t, c)
			get(t, c)
			done.Store(true)
			redistest.Eventually(t, fmt.Sprintf("an answer after %q", lie.String()), func() bool {
				_, err := get(t, c)
				return err == nil
			})
		})
	}
}
