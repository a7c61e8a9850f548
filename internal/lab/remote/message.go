package remote

import (
	"errors"
	"fmt"
	"math"
	"time"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/pace"
)

// hello is the first message of either side. Only a generator sends more than the version.
type hello struct {
	Version int `json:"version"`
	// Sum is the hash of its program. It shows that the program is the one that was sent.
	Sum         string `json:"sum,omitempty"`
	Host        string `json:"host,omitempty"`
	Cores       int    `json:"cores,omitempty"`
	Descriptors uint64 `json:"descriptors,omitempty"`
}

func (h *hello) check() error {
	switch {
	case h.Version != protocolVersion:
		return fmt.Errorf("it speaks version %d of the generator's protocol, and this plimsoll "+
			"speaks %d: use the same plimsoll on both sides", h.Version, protocolVersion)
	case h.Cores < 0 || h.Cores > 1<<16 || len(h.Host) > 1<<10 || len(h.Sum) > 1<<10:
		return errors.New("it says of itself what cannot be")
	}
	return nil
}

// prepared says that the generator has accepted the work.
type prepared struct {
	Loops int  `json:"loops"` // the number that the generator would choose itself
	Near  bool `json:"near"`  // the target is on its machine
}

// assignment is a generator's part of a load. The fields are those of load.Options.
type assignment struct {
	Offered       *pace.Offered `json:"offered"`
	Duration      time.Duration `json:"duration"`
	Connections   int           `json:"connections"`
	Streams       int           `json:"streams"`
	Loops         int           `json:"loops"`
	First         int           `json:"first"`
	All           int           `json:"all"`
	Timeout       time.Duration `json:"timeout"`
	Backlog       int           `json:"backlog"`
	PerConnection int           `json:"per_connection"`
	Lifetime      time.Duration `json:"lifetime"`
	Window        time.Duration `json:"window"`
	Lateness      time.Duration `json:"lateness"`
	Seed          uint64        `json:"seed"`
}

// start is the start of a load's clock, by the generator's clock.
type start struct {
	At int64 `json:"at_ns"`
}

// trip is a round trip that compares clocks. The number is returned with the times of receiving and
// sending by the generator's clock, and its wall clock at that moment.
type trip struct {
	Number   int   `json:"number"`
	Received int64 `json:"received_ns"`
	Sent     int64 `json:"sent_ns"`
	Wall     int64 `json:"wall_ns"`
}

// farthest is the latest time that a clock may show, so that sums of times do not overflow.
const farthest = math.MaxInt64 / 8

func (t *trip) check() error {
	if t.Received < 0 || t.Sent < t.Received || t.Sent > farthest ||
		t.Wall < 0 || t.Wall > math.MaxInt64/2 {
		return errors.New("its clock shows times that cannot be")
	}
	return nil
}

// failed says why a generator could not do something.
type failed struct {
	Text string `json:"text"`
}

func (f *failed) err() error { return errors.New(clean(f.Text, 4<<10)) }

// counted is the number of connections from the generator's machine to the target.
type counted struct {
	Connections int `json:"connections"`
}

// finished is a generator's report on its part of a load.
type finished struct {
	Outcome load.Outcome `json:"outcome"`
	// Late is how many nanoseconds after the start time the generator received it.
	Late     int64   `json:"late_ns"`
	HostBusy float64 `json:"host_busy_share"`
	Invalid  string  `json:"invalid"`
}

// most bounds every count from another machine, so that sums do not overflow.
const most = 1 << 56

// checkWindow refuses a window that cannot follow the one before it, which ended at next.
func checkWindow(w *measure.Window, next int64) error {
	switch {
	case w.Start != next || w.Length <= 0 || w.Length > farthest-next:
		return fmt.Errorf("a window from %d ns for %d ns does not follow one that ended at %d ns",
			w.Start, w.Length, next)
	case w.Waiting < 0 || w.InFlight < 0 || w.Waiting > 1<<32 || w.InFlight > 1<<32:
		return errors.New("a window with a number of requests that cannot be")
	}
	return checkCounts(w.Due, w.Sent, &w.Ended, w.BytesIn, w.BytesOut,
		&w.Response, &w.Service, &w.Lag)
}

func checkCounts(
	due, sent uint64, ended *measure.Tally, in, out uint64, histograms ...*measure.Sparse,
) error {
	worst := max(due, sent, in, out)
	for _, n := range ended {
		worst = max(worst, n)
	}
	for _, h := range histograms {
		worst = max(worst, h.Count())
	}
	if worst > most {
		return fmt.Errorf("it has counted %d, which cannot be", worst)
	}
	return nil
}

// check refuses values that no load with this assignment can have measured, and cleans displayed
// texts. kinds is the number of request kinds in the script.
func (f *finished) check(a *assignment, kinds int) error {
	o := &f.Outcome
	if err := checkCounts(o.Due, o.Sent, &o.Ended, o.BytesIn, o.BytesOut,
		&o.Response, &o.Service, &o.Lag); err != nil {
		return err
	}
	if kinds == 1 {
		kinds = 0
	}
	shares := f.HostBusy >= 0 && f.HostBusy <= 1 && o.Busy <= 1 && o.Busy >= -1
	times := o.LastDue >= 0 && o.Finished >= 0 && o.Cut >= 0 && o.CPU >= 0 && f.Late >= 0 &&
		max(o.LastDue, o.Finished, o.Cut, o.CPU, f.Late) < farthest
	counts := max(o.Made, o.Reused, o.Resumed, o.Closing, o.Drained, o.Arrivals, o.Late) <= most &&
		o.Peak >= 0 && o.Peak <= 1<<32 && o.Streams >= 0 && o.Streams <= 1<<32
	if !shares || !times || !counts || o.Loops != a.Loops || len(o.Requests) != kinds {
		return errors.New("it has measured what cannot be")
	}
	for i := range o.Requests {
		r := &o.Requests[i]
		if err := checkCounts(0, 0, &r.Ended, 0, 0, &r.Response); err != nil {
			return err
		}
	}
	last := -1
	for _, c := range o.ConcurrencyAtSend {
		if c.Found <= last || c.Found > measure.MostFound || c.Count > most ||
			!(c.Sum >= 0) || !(c.Squares >= 0) {
			return errors.New("its requests met others that cannot have been")
		}
		last = c.Found
	}
	f.clean()
	return nil
}

// clean makes the texts safe for a terminal and drops examples without a known kind.
func (f *finished) clean() {
	o := &f.Outcome
	examples := map[string]string{}
	for k := range measure.Kinds {
		name := measure.Kind(k).String()
		if text := o.Examples[name]; text != "" {
			examples[name] = clean(text, 300)
		}
	}
	o.Examples, o.OwnLimit, f.Invalid = examples, clean(o.OwnLimit, 300), clean(f.Invalid, 600)
}

// clean is a text from another machine, safe for display.
func clean(text string, limit int) string {
	return format.Clean(text[:min(len(text), limit)])
}
