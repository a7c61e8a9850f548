package gateway

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The writer takes lines from the rings ten times a second, so that most of these are still there
// when the loop panics.
func TestAPanicOnALoopLosesNoLineOfTheAccessLogAndSaysWhatToDo(t *testing.T) {
	address, admin, path := freeAddress(t), freeAddress(t), filepath.Join(t.TempDir(), "access.log")
	c := startChild(t, `
loops: 2
listeners: [{address: "`+address+`"}]
routes: [{match: /, respond: {}}]
admin: {address: "`+admin+`"}
access_log: {path: "`+path+`"}
`)
	eventually(t, "the gateway serves", func() bool { return strings.Contains(c.logged.String(), "msg=serving") })
	const requests = 500
	clients := []*peer{dialRaw(t, address), dialRaw(t, address), dialRaw(t, address), dialRaw(t, address)}
	for n := range requests {
		if status, _ := clients[n%len(clients)].request("GET", "/"); status != 200 {
			t.Fatalf("request %d got %d", n, status)
		}
	}
	// A client has its answer before the exchange is accounted for, at the end of the turn.
	eventually(t, "all exchanges are over", func() bool {
		return strings.Contains(bodyOf(t, "http://"+admin+"/metrics"), `plimsoll_exchanges_total{end="gateway_answer"} 500`)
	})
	if r, err := http.Get("http://" + admin + "/panic"); err == nil {
		r.Body.Close()
	}
	eventually(t, "the process ends", c.over)
	if code := c.cmd.ProcessState.ExitCode(); code != 2 {
		t.Errorf("it ended with %d, want 2", code)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if len(lines) != requests {
		t.Errorf("the access log has %d lines, want %d", len(lines), requests)
	}
	for _, line := range lines {
		if !json.Valid([]byte(line)) {
			t.Errorf("a line is torn: %q", line)
		}
	}
	const want = "plimsoll: internal error on loop 1: the test wants it: this is a defect; please report it with the lines below"
	eventually(t, "the last words are read", func() bool {
		said := c.logged.String()
		at := strings.Index(said, want)
		return at >= 0 && strings.Contains(said[at:], "child_test.go") // where the panic came from
	})
}

// bodyOf is the body of an answer, empty when there is none.
func bodyOf(t *testing.T, url string) string {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		return ""
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return ""
	}
	return string(body)
}
