package profiler

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// inspected returns an Inspector for a target that responds as answer says.
func inspected(t *testing.T, answer func(id int, method string) string) *Inspector {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/json/list" {
			fmt.Fprint(w, `[{"webSocketDebuggerUrl":"ws://elsewhere:9229/some-id"}]`)
			return
		}
		conn, err := websocket.Accept(w, r, nil)
		if err != nil || r.URL.Path != "/some-id" {
			return
		}
		defer conn.CloseNow()
		for {
			_, raw, err := conn.Read(r.Context())
			var call struct {
				ID     int
				Method string
			}
			if err != nil || json.Unmarshal(raw, &call) != nil {
				return
			}
			conn.Write(r.Context(), websocket.MessageText,
				[]byte(`{"method":"Profiler.consoleProfileStarted"}`))
			text := answer(call.ID, call.Method)
			if text == "" {
				return
			}
			conn.Write(r.Context(), websocket.MessageText, []byte(text))
		}
	}))
	t.Cleanup(s.Close)
	i, err := NewInspector(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestAnInspectorGivesAProfile(t *testing.T) {
	var asked []string
	i := inspected(t, func(id int, method string) string {
		asked = append(asked, method)
		return fmt.Sprintf(`{"id":%d,"result":{"profile":{"startTime":0,"endTime":2000000,"nodes":[{"id":1,"callFrame":`+
			`{"functionName":"score","url":"file:///s.js","lineNumber":4}}],"samples":[1],"timeDeltas":[0]}}}`, id)
	})
	p, err := i.Take(t.Context(), time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if line := p.Sample[0].Location[0].Line[0]; line.Function.Name != "score" || line.Line != 5 ||
		p.DurationNanos != 2e9 {
		t.Errorf("%+v in %d ns", line, p.DurationNanos)
	}
	if got := strings.Join(asked, " "); got != "Profiler.enable Profiler.setSamplingInterval "+
		"Profiler.start Profiler.stop" {
		t.Errorf("it was asked %s", got)
	}
}

func TestWhatAnInspectorMayDoWrong(t *testing.T) {
	for want, answer := range map[string]func(id int, method string) string{
		`refuses Profiler.enable: "no"`: func(id int, _ string) string {
			return fmt.Sprintf(`{"id":%d,"error":{"message":"no"}}`, id)
		},
		"answer to Profiler.enable": func(int, string) string { return "" },
		"the inspector's answer":    func(int, string) string { return "{" },
		"the inspector's profile": func(id int, _ string) string {
			return fmt.Sprintf(`{"id":%d,"result":{"profile":{"nodes":3}}}`, id)
		},
	} {
		if _, err := inspected(t, answer).Take(t.Context(), time.Millisecond); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, address := range []string{"", "127.0.0.1:9229", "https://127.0.0.1:9229"} {
		if _, err := NewInspector(address); err == nil || !strings.Contains(err.Error(), "node --inspect") {
			t.Errorf("%q: %v", address, err)
		}
	}
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	i, err := NewInspector(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.Take(t.Context(), time.Millisecond); err == nil || !strings.Contains(err.Error(),
		"status 404") {
		t.Errorf("what is not an inspector: %v", err)
	}
}

// A target's response must not make the lab ask other machines of its network.
func TestAnInspectorIsNotFollowedElsewhere(t *testing.T) {
	asked := make(chan string, 10)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
	}))
	defer other.Close()
	s := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusFound))
	defer s.Close()
	for _, path := range []string{"", "/some-id"} {
		i, err := NewInspector(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := i.Take(t.Context(), time.Millisecond); err == nil ||
			!strings.Contains(err.Error(), "302") || len(asked) > 0 {
			t.Errorf("%v, and %d requests to another", err, len(asked))
		}
	}
}

func TestNodesInspector(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		t.Fatal("there is no node here: scripts/tools.sh installs it")
	}
	file := filepath.Join(t.TempDir(), "work.js")
	source := "function score(t) {\n  for (let i = 0; i < 1e5; i++) t = (t * 31 + i) % 1000003;\n  " +
		"return t;\n}\n" +
		"let t = 1;\nfunction turn() { t = score(t); setImmediate(turn); }\nturn();\n"
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", "--inspect=127.0.0.1:0", file)
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	address := ""
	for lines := bufio.NewScanner(said); address == "" && lines.Scan(); {
		_, address, _ = strings.Cut(lines.Text(), "listening on ")
	}
	i, err := NewInspector(address)
	if err != nil {
		t.Fatal(err)
	}
	// On a busy machine a profile may have no sample of the function.
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		p, err := i.Take(t.Context(), time.Second)
		if err != nil {
			continue // nothing ran in that time
		}
		for _, s := range p.Sample {
			if line := s.Location[0].Line[0]; line.Function.Name == "score" && line.Line == 2 &&
				line.Function.Filename == file {
				return
			}
		}
	}
	t.Errorf("score is in no profile, line 2 of %s", file)
}
