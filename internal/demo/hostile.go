package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// badKinds are requests that no gateway may pass on. Each is sent as bytes on a connection of its
// own, and the gateway has to answer it and close.
func (v Visitor) badKinds() []kind {
	const count = 5
	bad := func(name string, status int, request string) kind {
		return kind{
			name,
			"http",
			count,
			map[int]int{status: count},
			func(ctx context.Context, _ int) (int, error) {
				return raw(ctx, v.HTTP, request)
			},
		}
	}
	const shop = "Host: shop.example\r\n"
	return []kind{
		bad("no Host", 400, "GET /api/v1/items HTTP/1.1\r\n\r\n"),
		bad("two framings", 400, "POST /api/v1/items/1/buy HTTP/1.1\r\n"+shop+
			"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
		bad("space before a colon", 400, "GET /api/v1/items HTTP/1.1\r\n"+shop+"X-A : b\r\n\r\n"),
		bad("unknown transfer coding", 501,
			"POST /api/v1/items/1/buy HTTP/1.1\r\n"+shop+"Transfer-Encoding: zip\r\n\r\n"),
		bad("unknown version", 505, "GET /api/v1/items HTTP/3.7\r\n"+shop+"\r\n"),
		bad("CONNECT", 405, "CONNECT shop.example:443 HTTP/1.1\r\nHost: shop.example:443\r\n\r\n"),
		bad("body too long", 413,
			"POST /api/v1/items/1/buy HTTP/1.1\r\n"+shop+"Content-Length: 100000\r\n\r\n"),
		bad("target too long", 414,
			"GET /"+strings.Repeat("a", 12<<10)+" HTTP/1.1\r\n"+shop+"\r\n"),
		bad("head too long", 431,
			"GET /api/v1/items HTTP/1.1\r\n"+shop+"X-A: "+strings.Repeat("a", 48<<10)+"\r\n\r\n"),
	}
}

// raw sends bytes and returns the status that came back. It is an error when the connection then
// stays open.
func raw(ctx context.Context, address, request string) (status int, err error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return 0, err
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	// A gateway may answer and close before it has read everything, so a failed write is not a
	// verdict.
	_, writeErr := io.WriteString(conn, request)
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		return 0, errors.Join(fmt.Errorf("no answer: %w", err), writeErr)
	}
	if _, err = io.Copy(io.Discard, io.LimitReader(response.Body, maxAnswer)); err != nil {
		return response.StatusCode, fmt.Errorf("the answer broke off: %w", err)
	}
	// A reset closes as well as an end of file; only a connection that stays open is wrong.
	if _, err = reader.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return response.StatusCode, errors.New("the connection was not closed after the refusal")
	}
	return response.StatusCode, nil
}
