package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"

	"plimsoll/internal/lab/load"
)

// maxBody bounds a body that is read from a file: it is sent from memory, again and again.
const maxBody = 64 << 20

// connectionFlags are how a target is connected to.
type connectionFlags struct {
	CA           string `name:"ca" placeholder:"FILE" help:"Trust only certificates that the authorities in this file (PEM) signed."`
	Insecure     bool   `help:"Trust any certificate."`
	ServerName   string `placeholder:"NAME" help:"Ask for this name in TLS (SNI), and expect it in the certificate."`
	Cert         string `placeholder:"FILE" help:"Present this client certificate (PEM). It needs --key."`
	Key          string `placeholder:"FILE" help:"The client certificate's key (PEM)."`
	NoResumption bool   `help:"Do a full TLS handshake for each connection."`
}

// protocolFlags are what is spoken to a target.
type protocolFlags struct {
	HTTP2   bool `name:"http2" help:"Use HTTP/2: with https by ALPN, with http by prior knowledge."`
	HTTP3   bool `name:"http3" help:"Use HTTP/3, over QUIC. It needs https."`
	Streams int  `placeholder:"N" help:"${streams}"`
}

// usualStreams is how many requests a connection of HTTP/2 or HTTP/3 carries at once when nobody says.
const usualStreams = 10

// checkProtocol refuses flags that contradict each other.
func (k *protocolFlags) checkProtocol() error {
	switch {
	case k.Streams < 0:
		return errors.New("--streams must be at least 1")
	case k.HTTP2 && k.HTTP3:
		return errors.New("--http2 and --http3 exclude each other: leave one out")
	case k.Streams > 0 && !k.HTTP2 && !k.HTTP3:
		return errors.New("--streams needs HTTP/2 or HTTP/3: give --http2 or --http3 too")
	}
	return nil
}

// streams is how many requests a connection carries at once; 0 is for HTTP/1.1.
func (k *protocolFlags) streams() int {
	if !k.HTTP2 && !k.HTTP3 {
		return 0
	}
	return cmp.Or(k.Streams, usualStreams)
}

// protocol is the name of what is spoken.
func (k *protocolFlags) protocol() string {
	switch {
	case k.HTTP3:
		return "HTTP/3"
	case k.HTTP2:
		return "HTTP/2"
	}
	return "HTTP/1.1"
}

// note adds to settings what is spoken.
func (k *protocolFlags) note(settings map[string]string) map[string]string {
	settings["protocol"] = k.protocol()
	if n := k.streams(); n > 0 {
		settings["streams"] = strconv.Itoa(n)
	}
	return settings
}

// speak says to a target what is spoken to it.
func (k *protocolFlags) speak(t *load.Target) error {
	t.HTTP3 = k.HTTP3
	if k.HTTP3 && t.TLS == nil {
		return withExit{exitUsage, errors.New("--http3 is always spoken over TLS: write https://")}
	}
	return nil
}

// reach resolves a target that is spoken to by a protocol.
func (k *connectionFlags) reach(
	ctx context.Context, address string, by *protocolFlags,
) (load.Target, error) {
	target, err := k.resolve(ctx, address)
	if err == nil {
		err = by.speak(&target)
	}
	return target, err
}

// over says what requests go over, to a person: "64 connections".
func (k *protocolFlags) over(connections int) string {
	s := many(connections, "connection")
	if n := k.streams(); n > 0 {
		s += " of " + k.protocol() + " with " + many(n, "stream") + " each"
	}
	return s
}

// requestFlags are the one request that is sent when there is no scenario.
type requestFlags struct {
	Header []string `short:"H" sep:"none" placeholder:"'NAME: VALUE'" help:"Add a header field. May be repeated."`
	Method string   `short:"X" placeholder:"METHOD" help:"The request method (GET, or POST with --body)."`
	Body   string   `placeholder:"TEXT|@FILE" help:"The request body, or the file that has it."`
}

// resolve finds the target, whose certificates it checks later, when it connects.
func (k *connectionFlags) resolve(ctx context.Context, address string) (load.Target, error) {
	if (k.Cert == "") != (k.Key == "") {
		return load.Target{}, withExit{
			exitUsage, errors.New("--cert and --key go together: give both or none"),
		}
	}
	target, err := load.Resolve(ctx, address, k.options())
	if u, bad := url.Parse(address); err != nil &&
		(bad != nil || errors.Is(err, load.ErrPort) || u.Scheme != "http" && u.Scheme != "https" ||
			u.Hostname() == "" || u.User != nil) {
		err = withExit{exitUsage, err}
	}
	if err == nil && target.TLS == nil && *k != (connectionFlags{}) {
		err = withExit{
			exitUsage,
			fmt.Errorf("%s is spoken to without TLS, so no flag of TLS has an effect: "+
				"write https://, or leave them out", address),
		}
	}
	return target, err
}

// options are the flags in the generator's words.
func (k *connectionFlags) options() load.TLSOptions {
	return load.TLSOptions{
		CA:           k.CA,
		Insecure:     k.Insecure,
		ServerName:   k.ServerName,
		NoResumption: k.NoResumption,
		Cert:         k.Cert,
		Key:          k.Key,
	}
}

// given says whether any of the flags was.
func (k *requestFlags) given() bool { return len(k.Header) > 0 || k.Method != "" || k.Body != "" }

// prepare makes the bytes of the request.
func (k *requestFlags) prepare(
	ctx context.Context, target load.Target,
) (method string, request []byte, err error) {
	body, err := input(ctx, k.body)
	if err != nil {
		return "", nil, err
	}
	method = k.Method
	if method == "" {
		method = "GET"
		if body != nil {
			method = "POST"
		}
	}
	request, err = load.Prepare(target, method, k.Header, body)
	if err != nil {
		return "", nil, withExit{exitUsage, err}
	}
	return method, request, nil
}

func (k *requestFlags) body() ([]byte, error) {
	path, isFile := strings.CutPrefix(k.Body, "@")
	if !isFile {
		if k.Body == "" {
			return nil, nil
		}
		return []byte(k.Body), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, withExit{exitUsage, fmt.Errorf("--body: %w", err)}
	}
	defer f.Close()
	body, err := io.ReadAll(io.LimitReader(f, maxBody+1))
	if err != nil {
		return nil, withExit{exitUsage, fmt.Errorf("--body: %w", err)}
	}
	if len(body) > maxBody {
		return nil, withExit{
			exitUsage,
			fmt.Errorf("--body: %s is over %d MiB, the most that is sent", path, maxBody>>20),
		}
	}
	return body, nil
}

// words says the request to a person: "GET /api".
func (k *requestFlags) words(target *load.Target) string {
	switch {
	case k.Method != "":
		return k.Method + " " + target.Path
	case k.Body != "":
		return "POST " + target.Path
	}
	return "GET " + target.Path
}
