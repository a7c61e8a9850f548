// Command wsecho is a WebSocket service that sends back what it gets, with either of two
// implementations of RFC 6455 that are not plimsoll's. bench/autobahn.py runs the Autobahn test
// suite against it, directly and through the gateway.
package main

import (
	"flag"
	"io"
	"log"
	"net"
	"net/http"

	coder "github.com/coder/websocket"
	gorilla "github.com/gorilla/websocket"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to listen on")
	kind := flag.String("kind", "coder", "implementation: coder or gorilla")
	flag.Parse()
	echo := map[string]http.HandlerFunc{"coder": echoCoder, "gorilla": echoGorilla}[*kind]
	if echo == nil {
		log.Fatalf("-kind %s: use coder or gorilla", *kind)
	}
	ln, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("%s listens on %s", *kind, ln.Addr())
	log.Fatal(http.Serve(ln, echo))
}

func echoCoder(w http.ResponseWriter, r *http.Request) {
	c, err := coder.Accept(w, r, &coder.AcceptOptions{
		InsecureSkipVerify: true, CompressionMode: coder.CompressionContextTakeover})
	if err != nil {
		return
	}
	defer c.CloseNow()
	c.SetReadLimit(-1)
	for {
		kind, in, err := c.Reader(r.Context())
		if err != nil {
			return
		}
		out, err := c.Writer(r.Context(), kind)
		if err != nil {
			return
		}
		if _, err := io.Copy(out, in); err != nil || out.Close() != nil {
			return
		}
	}
}

func echoGorilla(w http.ResponseWriter, r *http.Request) {
	up := gorilla.Upgrader{EnableCompression: true, CheckOrigin: func(*http.Request) bool { return true }}
	c, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer c.Close()
	for {
		kind, message, err := c.ReadMessage()
		if err != nil || c.WriteMessage(kind, message) != nil {
			return
		}
	}
}
