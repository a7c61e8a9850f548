package remote

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/pace"
	"plimsoll/internal/reactor"
)

// puppet is a generator that says what a test wants.
type puppet struct {
	t    *testing.T
	wire *wire
	end  *pipe
}

// puppets dials generators that the test plays; each is played by play on a goroutine of its own,
// and ends when that returns.
func puppets(t *testing.T, play func(p *puppet)) func(context.Context, string) (Link, error) {
	var playing sync.WaitGroup
	t.Cleanup(playing.Wait)
	return func(context.Context, string) (Link, error) {
		near, far := pipes()
		playing.Go(func() {
			play(&puppet{t, newWire(far, far), far})
			far.Close()
		})
		return near, nil
	}
}

func (p *puppet) say(k kind, message any) { _ = p.wire.send(k, message) }

// hear is the next frame that is not a sign of life; clocks are answered.
func (p *puppet) hear() kind {
	for {
		k, content, err := p.wire.receive()
		switch {
		case err != nil:
			return 0
		case k == kindClock:
			var at trip
			if json.Unmarshal(content, &at) != nil {
				return 0
			}
			at.Received, at.Sent, at.Wall = reactor.Clock(), reactor.Clock(), time.Now().UnixNano()
			p.say(kindClock, at)
		case k != kindBeat:
			return k
		}
	}
}

// greeting is one that is right.
var greeting = hello{Version: protocolVersion, Sum: "sum", Host: "puppet", Cores: 2, Descriptors: 1000}

// ready plays a generator until its load has started.
func (p *puppet) ready() {
	p.say(kindHello, greeting)
	for k := p.hear(); k != 0 && k != kindStart; k = p.hear() {
		switch k {
		case kindWork:
			p.say(kindPrepared, prepared{Loops: 1})
		case kindLoad:
			p.say(kindReady, nil)
		}
	}
}

// untilStopped waits until the load is stopped, or the connection is closed.
func (p *puppet) untilStopped() {
	for k := p.hear(); k != 0 && k != kindStop; k = p.hear() {
	}
}

// playing is a fleet of one real generator and one that the test plays.
func playing(t *testing.T, play func(p *puppet)) (*Fleet, load.Options) {
	t.Helper()
	g := serve(t)
	real, played := inProcess(t), puppets(t, play)
	work := g.work(t)
	f := open(t, Options{
		Generators: []string{"real", "played"}, Work: work, Sum: "sum", Loops: 1,
		Dial: func(ctx context.Context, name string) (Link, error) {
			if name == "played" {
				return played(ctx, name)
			}
			return real(ctx, name)
		},
	})
	return f, load.Options{Script: f.o.Script, Connections: 2, Loops: 2, Duration: time.Hour,
		Timeout: patience}
}

// window is a whole one from a start, with one request.
func window(start int64) *measure.Window {
	return &measure.Window{Start: start, Length: 250e6, Due: 1, Sent: 1, Ended: measure.Tally{measure.OK: 1}}
}

// What a generator does that is not right, once a load has started, makes the load invalid, stops
// the others, and ends the fleet.
func TestAGeneratorThatGoesWrongMakesTheLoadInvalid(t *testing.T) {
	raw := func(p *puppet, b []byte) { _, _ = p.end.Write(b) }
	for what, c := range map[string]struct {
		play func(p *puppet)
		want string
	}{
		"it dies": {func(p *puppet) {}, "the connection to it has ended"},
		"it dies in a message": {func(p *puppet) { raw(p, []byte{0, 0, 1, 0, byte(kindWindow), '{'}) },
			"after 1 of 256 bytes"},
		"garbage": {func(p *puppet) {
			raw(p, []byte("Segmentation fault (core dumped)\n"))
			p.untilStopped()
		}, "not the generator's protocol"},
		"a message that is too long": {func(p *puppet) {
			raw(p, binary.BigEndian.AppendUint32(nil, 1<<31)[:4])
			raw(p, []byte{byte(kindWindow)})
			p.untilStopped()
		}, "not the generator's protocol"},
		"a frame that is not JSON": {func(p *puppet) {
			raw(p, append([]byte{0, 0, 0, 3, byte(kindWindow)}, "{]}"...))
			p.untilStopped()
		}, "cannot be read"},
		"a frame of the other direction": {func(p *puppet) {
			p.say(kindStop, nil)
			p.untilStopped()
		}, "does not come from a generator"},
		"a window out of order": {func(p *puppet) {
			p.say(kindWindow, window(0))
			p.say(kindWindow, window(0))
			p.untilStopped()
		}, "does not follow"},
		"a window of no length": {func(p *puppet) {
			p.say(kindWindow, &measure.Window{})
			p.untilStopped()
		}, "does not follow"},
		"counts that cannot be": {func(p *puppet) {
			w := window(0)
			w.Ended[measure.Timeout] = 1 << 60
			p.say(kindWindow, w)
			p.untilStopped()
		}, "cannot be"},
		"an outcome of another load": {func(p *puppet) {
			p.say(kindOutcome, finished{Outcome: load.Outcome{Loops: 9}})
			p.untilStopped()
		}, "has measured what cannot be"},
		"more waiting than can be": {func(p *puppet) {
			w := window(0)
			w.Waiting = -1
			p.say(kindWindow, w)
			p.untilStopped()
		}, "a number of requests"},
		"it fails": {func(p *puppet) {
			p.say(kindFailed, failed{"no\x1b[2Jdescriptors"})
			p.untilStopped()
		}, "descriptors"},
		"the others fall behind": {func(p *puppet) {
			for i := range int64(2 * mostBehind) {
				p.say(kindWindow, window(i*250e6))
			}
			p.untilStopped()
			p.say(kindOutcome, finished{Outcome: load.Outcome{Loops: 1, Cut: 1}})
			p.untilStopped()
		}, "generator real does not keep up"},
		"it started late": {func(p *puppet) {
			p.say(kindOutcome, finished{Outcome: load.Outcome{Loops: 1}, Late: 3_000_000})
			p.untilStopped()
		}, "3ms after the start"},
		"it was the limit": {func(p *puppet) {
			p.say(kindOutcome, finished{Outcome: load.Outcome{Loops: 1},
				Invalid: "a loop was at work 99 % of the time"})
			p.untilStopped()
		}, "99 %"},
	} {
		t.Run(what, func(t *testing.T) {
			f, o := playing(t, func(p *puppet) {
				p.ready()
				c.play(p)
			})
			if strings.HasPrefix(what, "it started") || strings.HasPrefix(what, "it was") {
				o.Duration = 20 * time.Millisecond
			}
			totals, err := f.Run(t.Context(), o)
			why := ""
			if err != nil {
				why = err.Error() // the other had not started
			} else {
				why = totals.Generator.Invalid
			}
			if !strings.Contains(why, c.want) || !strings.Contains(why, "generator ") ||
				strings.ContainsRune(why, '\x1b') {
				t.Errorf("%q, want %q", why, c.want)
			}
			if err == nil && totals.Length >= int64(time.Hour) {
				t.Error("the others went on")
			}
		})
	}
}

func TestAGeneratorThatIsGoneStaysGone(t *testing.T) {
	f, o := playing(t, func(p *puppet) { p.ready() })
	if totals, err := f.Run(t.Context(), o); err == nil && totals.Generator.Invalid == "" {
		t.Fatal(err, totals)
	}
	if _, err := f.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "generator played") {
		t.Errorf("a second load: %v", err)
	}
	if _, err := f.Connections(t.Context()); err == nil {
		t.Error("it still counts connections")
	}
}

func TestWhoIsNotARightGeneratorIsRefused(t *testing.T) {
	g := serve(t)
	for what, c := range map[string]struct {
		greeting func(p *puppet)
		want     string
	}{
		"another version": {func(p *puppet) { p.say(kindHello, hello{Version: 99, Sum: "sum"}) },
			"version 99"},
		"another program": {func(p *puppet) {
			p.say(kindHello, hello{Version: protocolVersion,
				Sum: "x"})
		}, "not the one that was sent"},
		"no greeting": {func(p *puppet) { p.say(kindBeat, nil) }, "not with a greeting"},
		"text": {func(p *puppet) { _, _ = p.end.Write([]byte("Welcome to Debian\n")) },
			"not the generator's protocol"},
		"nothing": {func(p *puppet) {}, "has ended"},
		"more than asked": {func(p *puppet) { p.say(kindHello, map[string]any{"version": 1, "evil": 1}) },
			"cannot be read"},
	} {
		_, err := Open(t.Context(), Options{
			Generators: []string{"g"}, Work: g.work(t), Script: g.work(t).Script(), Sum: "sum",
			Dial: puppets(t, c.greeting),
		})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A generator answers what makes no sense by ending, and cuts off what is under way.
func TestWhatMakesNoSenseEndsAGenerator(t *testing.T) {
	good := func(k kind, message any) func(w *wire) { return func(w *wire) { _ = w.send(k, message) } }
	greet := good(kindHello, hello{Version: protocolVersion})
	for what, c := range map[string]struct {
		say  []func(w *wire)
		want string
	}{
		"nothing": {nil, ""},
		"garbage": {[]func(w *wire){func(w *wire) {
			_,
				_ = w.out.Write([]byte("GET / HTTP/1.1\r\n"))
		}}, "not the generator's"},
		"no greeting":         {[]func(w *wire){good(kindBeat, nil)}, "a greeting comes first"},
		"two greetings":       {[]func(w *wire){greet, greet}, "a greeting comes first"},
		"another version":     {[]func(w *wire){good(kindHello, hello{Version: 2})}, "version 2"},
		"a load too early":    {[]func(w *wire){greet, good(kindLoad, assignment{})}, "after the work"},
		"the other direction": {[]func(w *wire){greet, good(kindOutcome, nil)}, "does not go to a generator"},
		"a cut-off frame": {[]func(w *wire){greet, func(w *wire) {
			_, _ = w.out.Write([]byte{0, 0, 0,
				9, byte(kindWork), '{'})
		}}, "after 1 of 9"},
	} {
		near, far := pipes()
		ended := make(chan error, 1)
		go func() {
			ended <- Serve(context.Background(), far, far, "")
			far.Close()
		}()
		go io.Copy(io.Discard, near)
		w := newWire(near, near)
		for _, say := range c.say {
			say(w)
		}
		near.WriteCloser.Close()
		err := <-ended
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(),
			c.want)) {
			t.Errorf("%s: %v", what, err)
		}
		near.Close()
	}
}

func TestAGeneratorEndsWhenItsFleetIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := pipes()
		var all sync.WaitGroup
		all.Go(func() { _, _ = io.Copy(io.Discard, near) })
		began := time.Now()
		err := Serve(t.Context(), far, far, "")
		if err == nil || !strings.Contains(err.Error(), "nothing was heard") || time.Since(began) < silence {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		far.Close()
		near.Close()
		all.Wait()
	})
}

func TestAFleetNoticesAGeneratorThatIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := puppets(t, func(p *puppet) {
			p.say(kindHello, greeting)
			for p.hear() != 0 {
			}
		})
		work := &Work{URL: "http://127.0.0.1/", Request: &Request{Name: "GET /",
			Bytes: []byte("GET / HTTP/1.1\r\n\r\n")}}
		_, err := Open(t.Context(), Options{Generators: []string{"g"}, Work: work, Script: work.Script(),
			Sum: "sum", Dial: dial})
		if err == nil || !strings.Contains(err.Error(), "generator g: nothing was heard of it") {
			t.Error(err)
		}
	})
}

func TestAScheduleThatIsNotDataIsRefused(t *testing.T) {
	f := &Fleet{}
	o := load.Options{Arrivals: func(int, int) pace.Schedule { return nil }}
	if _, err := f.Run(t.Context(), o); err == nil {
		t.Error("it was run")
	}
}

// FuzzFrames reads any bytes as frames and their contents: errors are all that may come of it.
func FuzzFrames(f *testing.F) {
	for _, k := range []kind{kindHello, kindWindow, kindOutcome, kindPrepared, kindFailed, kindCounted,
		kindClock} {
		var b bytes.Buffer
		if err := newWire(&b, &b).send(k, map[string]any{}); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Add([]byte(`\x00\x00\x00\x20d{"response":{"buckets":[{"from_ns":1}]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		w, p := newWire(bytes.NewReader(b), io.Discard), &peer{clocks: make(chan answer, 1)}
		all := windows{length: 250e6, of: make([]part, 2)}
		for {
			k, content, err := w.receive()
			if err != nil {
				return
			}
			if len(content) > len(b) {
				t.Fatal("a frame is longer than what came")
			}
			if k == kindClock {
				_ = p.toldTime(content, 1)
				continue
			}
			e, err := p.understand(k, content)
			if err != nil {
				continue
			}
			if e.window != nil {
				_ = all.add(0, e.window)
			}
			if e.done != nil && e.done.check(&assignment{Loops: 1}, 1) == nil {
				(&load.Outcome{Examples: map[string]string{}}).Add(&e.done.Outcome)
			}
		}
	})
}
