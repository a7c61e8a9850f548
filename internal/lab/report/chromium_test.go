package report_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// chromium shows the pages of all tests, one after the other. To start it takes three seconds of the
// processor, and to show a page two.
var chromium browser

func TestMain(m *testing.M) {
	code := m.Run()
	chromium.end()
	os.Exit(code)
}

// browser is a headless Chromium that is told what to do by the Chrome DevTools Protocol: messages
// in JSON, each with a zero byte at its end, in the files 3 and 4 of its process. It starts when it
// is first used.
type browser struct {
	mu      sync.Mutex
	process *exec.Cmd
	dir     string
	to      *os.File
	from    *os.File
	replies *bufio.Reader
	last    int             // number of the last command
	events  map[string]bool // what has happened since the page was opened
}

// patience is how long a command may take.
const patience = 5 * time.Minute

func (b *browser) start() error {
	dir, err := os.MkdirTemp("", "chromium")
	if err != nil {
		return err
	}
	commands, to, err := os.Pipe()
	if err != nil {
		return err
	}
	defer commands.Close()
	from, replies, err := os.Pipe()
	if err != nil {
		return err
	}
	defer replies.Close()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	process := exec.Command("chromium", "--headless=new", "--no-sandbox", "--disable-gpu",
		"--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run",
		"--disable-background-networking", "--disable-component-update",
		"--user-data-dir="+filepath.Join(dir, "profile"), "--remote-debugging-pipe", "about:blank")
	process.ExtraFiles = []*os.File{commands, replies}
	process.Stdout, process.Stderr = log, log
	if err := process.Start(); err != nil {
		return fmt.Errorf("%w: scripts/tools.sh installs it", err)
	}
	b.process, b.dir, b.to, b.from, b.replies = process, dir, to, from, bufio.NewReader(from)
	return nil
}

// end closes the browser, if it was started.
func (b *browser) end() {
	if b.process == nil {
		return
	}
	defer time.AfterFunc(patience, func() { b.process.Process.Kill() }).Stop()
	b.to.Close() // it ends when nobody can tell it what to do
	b.from.Close()
	b.process.Wait()
	os.RemoveAll(b.dir)
}

// message is a command, the reply to one or an event.
type message struct {
	ID        int             `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    any             `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// next reads a message.
func (b *browser) next() (m message, err error) {
	if err := b.from.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return m, err
	}
	text, err := b.replies.ReadBytes(0)
	if err != nil {
		said, _ := os.ReadFile(filepath.Join(b.dir, "log"))
		return m, fmt.Errorf("%w: it says:\n%s", err, said)
	}
	if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
		return m, err
	}
	if m.ID == 0 {
		b.events[m.Method] = true
	}
	return m, nil
}

// call sends a command to a page, or to the browser itself, and reads the reply.
func (b *browser) call(session, method string, params map[string]any, reply any) error {
	b.last++
	text, err := json.Marshal(message{ID: b.last, SessionID: session, Method: method, Params: params})
	if err != nil {
		return err
	}
	if _, err := b.to.Write(append(text, 0)); err != nil {
		return err
	}
	for {
		m, err := b.next()
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", method, err)
		case m.ID != b.last:
		case m.Error != nil:
			return fmt.Errorf("%s: %s", method, m.Error.Message)
		case reply != nil:
			return json.Unmarshal(m.Result, reply)
		default:
			return nil
		}
	}
}

// view is how a page is looked at.
type view struct {
	width, height int // in CSS pixels
	dark          bool
	picture       string // the file in which to leave a picture, if any
	print         string // and a PDF
}

// look opens the page in a file, lets its scripts run for four seconds of their own time, and gives
// the DOM that there is then.
func look(t *testing.T, path string, v view) (dom string) {
	t.Helper()
	chromium.mu.Lock()
	defer chromium.mu.Unlock()
	dom, err := chromium.show(path, v)
	if err != nil {
		t.Fatalf("chromium: %v", err)
	}
	return dom
}

func (b *browser) show(path string, v view) (dom string, err error) {
	if b.process == nil {
		if err := b.start(); err != nil {
			return "", err
		}
	}
	b.events = map[string]bool{}
	var target struct{ TargetID string }
	if err := b.call("", "Target.createTarget", map[string]any{"url": "about:blank"}, &target); err != nil {
		return "", err
	}
	id := map[string]any{"targetId": target.TargetID}
	defer func() { err = errors.Join(err, b.call("", "Target.closeTarget", id, nil)) }()
	var session struct{ SessionID string }
	attach := map[string]any{"targetId": target.TargetID, "flatten": true}
	if err := b.call("", "Target.attachToTarget", attach, &session); err != nil {
		return "", err
	}
	p := page{b, session.SessionID}
	if err := p.open(path, v); err != nil {
		return "", err
	}
	return p.taken(v)
}

// page is a tab of the browser.
type page struct {
	*browser
	session string
}

func (p page) open(path string, v view) error {
	colours := "light"
	if v.dark {
		colours = "dark"
	}
	for _, c := range []struct {
		method string
		params map[string]any
	}{
		{"Emulation.setDeviceMetricsOverride", map[string]any{"width": v.width, "height": v.height,
			"deviceScaleFactor": 1, "mobile": false}},
		{"Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{
			{"name": "prefers-color-scheme", "value": colours}}}},
		{"Page.enable", nil},
		{"Page.navigate", map[string]any{"url": "file://" + path}},
	} {
		if err := p.call(p.session, c.method, c.params, nil); err != nil {
			return err
		}
	}
	if err := p.await("Page.loadEventFired"); err != nil {
		return err
	}
	if err := p.call(p.session, "Emulation.setVirtualTimePolicy",
		map[string]any{"policy": "pauseIfNetworkFetchesPending", "budget": 4000}, nil); err != nil {
		return err
	}
	return p.await("Emulation.virtualTimeBudgetExpired")
}

// await reads messages until an event has happened.
func (p page) await(event string) error {
	for !p.events[event] {
		if _, err := p.next(); err != nil {
			return fmt.Errorf("%s: %w", event, err)
		}
	}
	return nil
}

// taken leaves what the view asks for in files, and gives the DOM.
func (p page) taken(v view) (dom string, err error) {
	var text struct{ Result struct{ Value string } }
	if err := p.call(p.session, "Runtime.evaluate",
		map[string]any{"expression": "document.documentElement.outerHTML"}, &text); err != nil {
		return "", err
	}
	for method, file := range map[string]string{"Page.captureScreenshot": v.picture, "Page.printToPDF": v.print} {
		if file == "" {
			continue
		}
		var content struct{ Data []byte }
		if err := p.call(p.session, method, nil, &content); err != nil {
			return "", err
		}
		if err := os.WriteFile(file, content.Data, 0o644); err != nil {
			return "", err
		}
	}
	return text.Result.Value, nil
}
