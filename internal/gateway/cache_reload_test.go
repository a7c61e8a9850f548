package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// gatedOrigin answers GET with a body whose second half waits, and counts versions: a POST makes
// the next.
func gatedOrigin(t *testing.T) (o *origin, enter, leave chan bool) {
	enter, leave = make(chan bool, 100), make(chan bool, 100)
	var version atomic.Int64
	return newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/gated" || r.Method == "POST" {
			enter <- true
			<-leave
		}
		if r.Method == "POST" {
			version.Add(1)
			return
		}
		w.Header().Set("Cache-Control", "max-age=1000")
		fmt.Fprintf(w, "version %d ", version.Load())
		if r.URL.Path == "/halves" {
			http.NewResponseController(w).Flush()
			enter <- true
			<-leave
		}
		io.WriteString(w, "whole")
	}), enter, leave
}

// Fetches that are under way when the configuration changes, its memory or not, end well for all
// who wait.
func TestFetchesUnderWayOutliveAReload(t *testing.T) {
	t.Parallel()
	o, enter, leave := gatedOrigin(t)
	yaml := cacheConfig(o, "")
	for n, next := range []string{yaml, yaml + "cache: {memory: 8MB}\n", strings.Replace(yaml,
		"cache: {}", "timeout: 50s", 1)} {
		b := &bed{instance: serveClean(t, yaml)}
		var calls []*call
		ask := func(path string) {
			c := &call{method: "GET", one: b.dial(), of: &talker{t: t, bed: b}}
			c.one.send("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
			calls = append(calls, c)
		}
		ask("/gated")
		<-enter
		ask("/gated")
		ask("/halves")
		<-enter
		ask("/halves")
		b.joined(2)
		if err := b.reload(next); err != nil {
			t.Fatal(err)
		}
		leave <- true
		leave <- true
		for _, g := range readAll(calls) {
			if g.status != 200 || g.cut || !strings.HasSuffix(g.body, " whole") {
				t.Errorf("reload %d: %v", n, g)
			}
		}
	}
}

// A gateway that drains waits for those who read what is fetched.
func TestADrainWaitsForThoseWhoWaitForAFetch(t *testing.T) {
	t.Parallel()
	o, enter, leave := gatedOrigin(t)
	i := serve(t, cacheConfig(o, ""))
	var calls []*call
	for _, path := range []string{"/gated", "/halves"} {
		for n := range 2 {
			if calls = append(calls, i.sendGET(path)); n == 0 {
				<-enter
			}
		}
	}
	i.joined(2)
	i.stop()
	eventually(t, "the drain to begin", func() bool { return i.state.Load() == Draining })
	leave <- true
	leave <- true
	for _, g := range readAll(calls) {
		if g.status != 200 || g.cut || !strings.HasSuffix(g.body, " whole") {
			t.Errorf("%v", g)
		}
	}
}

// An unsafe request, or a purge, that crosses a change of the memory holds in both memories:
// requests of the configuration before may not be over.
func TestWhatIsOutdatedDuringAReloadIsSoInBothMemories(t *testing.T) {
	t.Parallel()
	o, enter, leave := gatedOrigin(t)
	i := serveClean(t, cacheConfig(o, ""))
	c := i.client()
	request(t, c, "GET", i.url("/x"))
	old := i.dial() // its request is one of the configuration before
	old.send("POST /x HTTP/1.1\r\nHost: " + i.address(0) + "\r\nContent-Length: 0\r\n\r\n")
	<-enter
	if err := i.reload(cacheConfig(o, "") + "cache: {memory: 8MB}\n"); err != nil {
		t.Fatal(err)
	}
	// What is stored in the next memory is from before the POST.
	if _, body, _ := request(t, c, "GET", i.url("/x")); body != "version 0 whole" {
		t.Errorf("before the POST: %q", body)
	}
	leave <- true
	if status := old.status("POST"); status != 200 {
		t.Fatalf("POST: %d", status)
	}
	if _, body, h := request(t, c, "GET", i.url("/x")); body != "version 1 whole" {
		t.Errorf("after the POST: %q %v", body, h)
	}
}
