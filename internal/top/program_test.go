package top

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
)

// press is a key as the terminal library names it.
func press(name string) tea.Msg {
	special := map[string]rune{"up": tea.KeyUp, "down": tea.KeyDown, "pgdown": tea.KeyPgDown,
		"pgup": tea.KeyPgUp, "home": tea.KeyHome, "end": tea.KeyEnd, "esc": tea.KeyEscape}
	if code, ok := special[name]; ok {
		return tea.KeyPressMsg{Code: code}
	}
	if name == "ctrl+c" {
		return tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
	}
	return tea.KeyPressMsg{Code: rune(name[0]), Text: name}
}

func opened(t *testing.T) *program {
	t.Helper()
	w := NewWatcher(client(t, "127.0.0.1:1", ""), ShortestInterval)
	p := &program{ctx: t.Context(), watcher: w, figures: some()}
	p.Update(tea.WindowSizeMsg{Width: 80, Height: 10})
	return p
}

func (p *program) sees(t *testing.T, words string) {
	t.Helper()
	if !strings.Contains(p.View().Content, words) {
		t.Errorf("%q is not on the screen:\n%s", words, p.View().Content)
	}
}

func TestKeysDoWhatTheHelpSays(t *testing.T) {
	p := opened(t)
	for _, step := range []struct {
		key    string
		scroll int
		sees   string
	}{
		{"s", 0, "sort: rate"}, {"s", 0, "sort: p99"}, {"s", 0, "sort: errors"}, {"s", 0, "sort: as configured"},
		{"up", 0, "upstream"}, {"down", 1, "shop"}, {"down", 2, "a-service"}, {"k", 1, "shop"},
		{"pgdown", 6, "route"}, {"end", 12, "dry run"}, {"down", 12, "dry run"}, {"pgup", 7, "no_route"},
		{"home", 0, "upstream"}, {"down", 1, "shop"}, {"?", 0, "q, ctrl-c   quit"},
		{"end", 13, "state       changed"}, {"esc", 0, "upstream"},
		{"p", 0, "paused: p goes on"}, {"x", 0, "paused"}, {"p", 0, "q quit"},
	} {
		if _, cmd := p.Update(press(step.key)); cmd != nil {
			t.Errorf("%s ends the program", step.key)
		}
		if p.screen.scroll != step.scroll {
			t.Errorf("after %s the first row is %d, want %d", step.key, p.screen.scroll, step.scroll)
		}
		p.sees(t, step.sees)
	}
	for _, key := range []string{"q", "ctrl+c"} {
		_, cmd := p.Update(press(key))
		if cmd == nil {
			t.Errorf("%s does not quit", key)
		} else if _, quits := cmd().(tea.QuitMsg); !quits {
			t.Errorf("%s does not quit", key)
		}
	}
	if !p.View().AltScreen {
		t.Error("the terminal's own screen is drawn on")
	}
}

func TestAFailedLookIsShownAndTriedAgain(t *testing.T) {
	p := opened(t)
	_, cmd := p.Update(looked{err: errors.New("cannot reach it")})
	if cmd == nil {
		t.Fatal("nothing follows a failure")
	}
	p.sees(t, "old: cannot reach it")
	p.sees(t, "12,346/s")
	if _, cmd := p.Update(again{}); cmd == nil {
		t.Error("it does not look again")
	}
	f := some()
	f.Gateway.Rate = new(77.0)
	p.Update(looked{figures: f})
	p.sees(t, "77/s")
	if strings.Contains(p.View().Content, "cannot reach it") {
		t.Error("a failure that is over is shown")
	}
}

func TestAPausedScreenStays(t *testing.T) {
	p := opened(t)
	f := some()
	f.Gateway.Rate = new(77.0)
	p.Update(press("p"))
	if _, cmd := p.Update(looked{figures: f}); cmd == nil {
		t.Error("it does not look on, so the next figures would be of a long time")
	}
	p.sees(t, "12,346/s")
	p.Update(press("p"))
	p.Update(looked{figures: f})
	p.sees(t, "77/s")
}

// running runs the whole program on an API whose loops do not wait.
func running(t *testing.T, ctx context.Context, in io.Reader, out io.Writer) error {
	t.Helper()
	w := NewWatcher(client(t, answers(t, nil).URL, ""), ShortestInterval)
	return Run(ctx, w, Options{In: in, Out: out, Width: 80, Height: 24})
}

func TestTheProgramRunsUntilTheUserQuits(t *testing.T) {
	var out bytes.Buffer
	if err := running(t, t.Context(), strings.NewReader("?q"), &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "\x1b[?1049h") || !strings.Contains(out.String(), "\x1b[?1049l") {
		t.Errorf("the screen is not given back: %q", out.String())
	}
}

func TestTheProgramEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	defer write.Close()
	if err := running(t, ctx, read, &canceller{cancel: cancel}); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := running(t, ctx, read, io.Discard); err != nil {
		t.Errorf("one that is told to end before it begins: %v", err)
	}
}

// canceller ends a context when something is drawn.
type canceller struct{ cancel func() }

// Write implements io.Writer.
func (c *canceller) Write(p []byte) (int, error) {
	c.cancel()
	return len(p), nil
}

func TestAnAddressThatIsWrongIsAnErrorBeforeTheScreenIsTaken(t *testing.T) {
	s := answers(t, map[string]string{"/readyz": "401!{}"})
	var out bytes.Buffer
	err := Run(t.Context(), NewWatcher(client(t, s.URL, ""), ShortestInterval), Options{In: strings.NewReader(""), Out: &out})
	if err == nil || out.Len() > 0 {
		t.Errorf("got %v, and %q on the screen", err, out.String())
	}
}
