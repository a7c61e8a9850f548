// Package measure holds what the lab's packages tell each other about a load: how a request ended,
// durations counted in histograms, the windows of a step and its totals, and samples of what a
// machine did meanwhile. It is values and arithmetic. It must know nothing of clocks, sockets or
// files, or of what the numbers are used for.
package measure

import (
	"cmp"
	"time"
)

// Kind is how a request ended. The set is closed, so that counters are arrays.
type Kind uint8

// The kinds. Every arrival ends as exactly one of them, exactly once.
const (
	// OK is an answer that arrived whole, within the timeout, and passed its checks.
	OK Kind = iota
	// BadStatus is a whole answer whose status is not wanted; without a check of its own that is
	// 400 and above.
	BadStatus
	// BadAnswer is a whole answer of a wanted status whose fields or body failed a check.
	BadAnswer
	// Timeout says that there was no whole answer within the timeout, counted from the intended
	// start.
	Timeout
	// ConnectFailed is a connection, or its TLS handshake, that could not be made.
	ConnectFailed
	// ConnectionLost is a connection that ended before the whole answer was there.
	ConnectionLost
	// BadHTTP is an answer that is not valid HTTP.
	BadHTTP
	// Refused is a request that the target said it would not begin to work on: by REFUSED_STREAM,
	// or by a GOAWAY that leaves it out. Only HTTP/2 can say so.
	Refused
	// NotSent is an arrival of an open loop for which no connection became free within the timeout,
	// or for which the bounded backlog had no room: the target was too slow for the connections it
	// was given.
	NotSent
	// Unfinished is a request that was cut off because the run was ended early.
	Unfinished
	// Kinds is how many kinds there are.
	Kinds = int(Unfinished) + 1
)

// names are the kinds' names in files and for people.
var names = [Kinds]string{
	"ok", "bad_status", "bad_answer", "timeout", "connect_failed", "connection_lost", "bad_http",
	"refused", "not_sent", "unfinished",
}

// String is the kind's name in files and for people, such as "bad_status".
func (k Kind) String() string { return names[k] }

// Tally counts requests by how they ended.
type Tally [Kinds]uint64

// Total is the requests of all kinds.
func (t *Tally) Total() (n uint64) {
	for _, c := range t {
		n += c
	}
	return n
}

// Failed is the requests that did not end well.
func (t *Tally) Failed() uint64 { return t.Total() - t[OK] }

// Answered is the requests that got an answer, wanted or not.
func (t *Tally) Answered() uint64 { return t[OK] + t[BadStatus] + t[BadAnswer] }

// Add adds what another tally counted.
func (t *Tally) Add(o *Tally) {
	for i, c := range o {
		t[i] += c
	}
}

// Window is what happened in a short part of a step, of all the generator's loops together. A
// request's arrival counts in the window of its intended start, its end in the window in which it
// ended; requests that were under way when the step's last arrival was due count in the last
// window, which then is longer than the others.
type Window struct {
	Start  int64 `json:"start_ns"`  // nanoseconds since the step's start
	Length int64 `json:"length_ns"` // nanoseconds
	// Due: arrivals whose intended start lies in the window; for a closed loop what was sent
	Due uint64 `json:"due"`
	// Sent: requests whose first byte was given to the kernel
	Sent  uint64 `json:"sent"`
	Ended Tally  `json:"ended"`
	// Waiting and InFlight are, at the window's end, arrivals that wait for a free connection, and
	// requests sent and not ended.
	Waiting  int    `json:"waiting"`
	InFlight int    `json:"in_flight"`
	BytesIn  uint64 `json:"bytes_received"`
	BytesOut uint64 `json:"bytes_sent"`
	// Response is from the intended start to the last byte of the answer; Service from the first
	// byte's sending. Both are of requests that ended OK. The others are in the tail, however fast
	// they failed (see Totals.Quantile).
	Response Sparse `json:"response"`
	Service  Sparse `json:"service"`
	// Lag is from the intended start to the sending, of arrivals for which a connection was free
	// when they were due: the generator's own lateness, and none of the target's.
	Lag Sparse `json:"lag"`
}

// End is when the window ends, in nanoseconds since the step's start.
func (w *Window) End() int64 { return w.Start + w.Length }

// Totals is what a whole step, or a whole run, measured.
type Totals struct {
	// Length: nanoseconds from the first arrival's due time until the last one's, without the drain
	// after it
	Length int64 `json:"length_ns"`
	// Drain: nanoseconds from there until the last request had ended
	Drain int64  `json:"drain_ns"`
	Due   uint64 `json:"due"`
	Sent  uint64 `json:"sent"`
	Ended Tally  `json:"ended"`
	// Drained is how many of those that ended OK did so in the drain.
	Drained  uint64 `json:"drained,omitempty"`
	BytesIn  uint64 `json:"bytes_received"`
	BytesOut uint64 `json:"bytes_sent"`
	Response Sparse `json:"response"`
	Service  Sparse `json:"service"`
	Lag      Sparse `json:"lag"`
	// ConnectionsMade, Reused and Resumed are connections that were opened, requests that used one
	// again, and TLS handshakes that resumed a session.
	ConnectionsMade uint64 `json:"connections_made"`
	Reused          uint64 `json:"connections_reused"`
	Resumed         uint64 `json:"sessions_resumed"`
	// Closing are answers of HTTP/1 that end their connection by what they say: Connection: close, or
	// HTTP/1.0 without keep-alive.
	Closing uint64 `json:"responses_that_close,omitempty"`
	// Streams is how many requests a connection of HTTP/2 carried at once at most: as many as were
	// asked for, or fewer where the target allows no more. It is 0 for HTTP/1.1.
	Streams int `json:"streams_per_connection,omitempty"`
	// Peak is the most requests in flight at once.
	Peak int `json:"peak_in_flight"`
	// Requests are the totals of each kind of request of the mix, in the order of the script's
	// names.
	Requests []RequestTotals `json:"requests,omitempty"`
	// ConcurrencyAtSend is the requests that ended OK, by how many others they found in flight;
	// ascending, none empty. They show where requests begin to wait for each other long before a
	// percentile does. It is nil where nobody counted.
	ConcurrencyAtSend []ConcurrencyAtSend `json:"concurrency_at_send,omitempty"`
	// Examples are, by kind of failure, what the first one looked like: for a person.
	Examples map[string]string `json:"examples,omitempty"`
	// Generator is what the generator itself used.
	Generator Generator `json:"generator"`
}

// RequestTotals is what became of one kind of request of a mix.
type RequestTotals struct {
	Name     string `json:"name"`
	Ended    Tally  `json:"ended"`
	Response Sparse `json:"response"`
}

// MostFound bounds ConcurrencyAtSend.Found: what finds more counts as having found this many.
const MostFound = 255

// ConcurrencyAtSend is the requests that found so many others of the same loop of the generator in
// flight when they were sent.
type ConcurrencyAtSend struct {
	Found int    `json:"found"`
	Count uint64 `json:"count"`
	// Sum, Squares: of their service times (see Window.Service) and of these squared, in
	// nanoseconds
	Sum     float64 `json:"sum_ns"`
	Squares float64 `json:"sum_of_squares_ns2"`
}

// Generator is the generator's own cost.
type Generator struct {
	Loops int `json:"loops"`
	// CPU: nanoseconds of processor time of all loops, user and system
	CPU int64 `json:"cpu_ns"`
	// Busy: share of the time that the busiest loop was at work, 0 to 1; spinning before an alarm
	// is not work
	Busy float64 `json:"busy_share"`
	// Invalid says why the figures are not the target's: the generator was the limit. It is empty
	// when they are.
	Invalid string `json:"invalid,omitempty"`
	// Full says that a closed loop used all of a loop's time. That is what a closed loop is for
	// where the target is fast; but the target may be able to do more. It is empty when it did not.
	Full string `json:"full,omitempty"`
	// Remote are the generators that the load was split over, where they were on other machines.
	Remote []Remote `json:"remote,omitempty"`
}

// Remote is one of several generators, each on a machine of its own.
type Remote struct {
	Name string `json:"name"` // as it was given: user@host
	Host string `json:"host"` // as its machine calls itself
	// Cores of its machine, and Descriptors: how many the generator may open there.
	Cores       int    `json:"cores"`
	Descriptors uint64 `json:"descriptors"`
	Loops       int    `json:"loops"`
	Due         uint64 `json:"due"`
	Sent        uint64 `json:"sent"`
	// Lag is the 99th percentile of its lateness, in nanoseconds.
	Lag int64 `json:"lag_p99_ns"`
	// CPU and Busy are as those of Generator. HostBusy is the share of its machine's processor time
	// that anybody used meanwhile, 0 to 1; 0 where that is not known.
	CPU      int64   `json:"cpu_ns"`
	Busy     float64 `json:"busy_share"`
	HostBusy float64 `json:"host_busy_share,omitempty"`
	// ClockOffset is by how much its wall clock is ahead of ours, in nanoseconds. It started with
	// the others to within ClockUncertainty nanoseconds.
	ClockOffset      int64 `json:"clock_offset_ns"`
	ClockUncertainty int64 `json:"clock_uncertainty_ns"`
	// Invalid says why its figures are not the target's; empty when they are.
	Invalid string `json:"invalid,omitempty"`
}

// Limit is Invalid or Full: why the rate may be the generator's limit and not the target's. It is
// empty when it is not.
func (g *Generator) Limit() string { return cmp.Or(g.Invalid, g.Full) }

// Rate is the requests that were due in a second.
func (t *Totals) Rate() float64 { return perSecond(t.Due, t.Length) }

// Goodput is the requests that ended well in a second while load was offered. The drain's are left
// out: a target that is offered twice what it can do serves the rest then, and would seem to have
// held the rate.
func (t *Totals) Goodput() float64 {
	return perSecond(t.Ended[OK]-min(t.Drained, t.Ended[OK]), t.Length)
}

func perSecond(n uint64, ns int64) float64 {
	if ns <= 0 {
		return 0
	}
	return float64(n) / (float64(ns) / 1e9)
}

// Quantile is the response time in nanoseconds that a share q of all requests does not exceed,
// where one that failed counts as slower than all that did not. ok is false when the quantile lies
// among those.
func (t *Totals) Quantile(q float64) (ns int64, ok bool) {
	good, total := t.Response.Count(), t.Ended.Total()
	if good == 0 {
		return 0, false
	}
	share := q * float64(total) / float64(good)
	if share > 1 {
		return 0, false
	}
	return t.Response.Quantile(share), true
}

// Sample is a reading of counters and gauges at one moment of a step. Names are dotted and end in
// their unit, such as "target.cpu.user_seconds"; they are constants of this package.
type Sample struct {
	At     int64              `json:"at_ns"` // nanoseconds since the step's start
	Values map[string]float64 `json:"values,omitempty"`
}

// Step is one step of an experiment as it was measured.
type Step struct {
	Plan StepPlan
	// Began is when the step began by the wall clock, to find it in other programs' logs; the zero
	// time when that is not known.
	Began   time.Time
	Totals  Totals
	Windows []Window
	Samples []Sample
	// Profiles are what was profiled during the step, by kind ("cpu"), in pprof's own format. A run
	// that was read has none: they stay files.
	Profiles map[string][]byte `json:"-"`
}

// Judged says whether a moment, in nanoseconds from the step's beginning, is in the part of the
// step that is judged: after the settling, and before the drain, in which nothing is offered any
// more.
func (s *Step) Judged(at int64) bool {
	return at >= s.Plan.Settle && at <= s.Totals.Length+drainSlack
}

// Ends are the first and the last sample of the judged part that have a value; nil when there are
// not two.
func (s *Step) Ends(name string) (first, last *Sample) {
	for i := range s.Samples {
		sample := &s.Samples[i]
		if _, there := sample.Values[name]; !there || !s.Judged(sample.At) {
			continue
		}
		if first == nil {
			first = sample
		}
		last = sample
	}
	if first == nil || last.At <= first.At {
		return nil, nil
	}
	return first, last
}

// Spent is how fast a counter of processor time grew in the judged part, in cores, and how many
// requests were answered a second meanwhile: one over the other is what a request costs. ok is false
// when it was not sampled twice, or fell, as when the target was restarted.
func (s *Step) Spent(name string) (cores, answered float64, ok bool) {
	first, last := s.Ends(name)
	if first == nil {
		return 0, 0, false
	}
	seconds := float64(last.At-first.At) / 1e9
	cores = (last.Values[name] - first.Values[name]) / seconds
	return cores, s.Between(first.At, last.At, (*Tally).Answered) / seconds, cores >= 0
}

// Between is how many requests ended between two moments of the step, of those that count counts.
// Those of a window are taken to be spread evenly over it; without windows, over the step.
func (s *Step) Between(from, to int64, count func(t *Tally) uint64) (n float64) {
	windows := s.Windows
	if len(windows) == 0 {
		windows = []Window{{Length: s.Totals.Length, Ended: s.Totals.Ended}}
	}
	for i := range windows {
		w := &windows[i]
		if inside := min(to, w.End()) - max(from, w.Start); inside > 0 {
			n += float64(count(&w.Ended)) * float64(inside) / float64(w.Length)
		}
	}
	return n
}

// drainSlack is how long after the last arrival a sample still counts: the one that is due then
// comes a little later.
const drainSlack = int64(50e6)

// The phases of a survey, and of a load. In PhaseHalf and PhaseAtLine half of the line and the line
// itself are offered for the sake of profiles, which cost the target something: they are not
// evidence of where the line is.
const (
	PhaseLoad     = "load" // there is no survey
	PhaseWarmUp   = "warm-up"
	PhaseBracket  = "bracket"
	PhaseNoise    = "noise"
	PhaseRefine   = "refine"
	PhaseHalf     = "half"
	PhaseAtLine   = "at-line"
	PhaseOverload = "overload"
	PhaseRecovery = "recovery"
)

// StepPlan is what a step was asked to do.
type StepPlan struct {
	Number int `json:"number"`
	// Phase is the part of the survey the step belongs to: one of the phases above.
	Phase string `json:"phase"`
	// Rate is the requests offered in a second; 0 is a closed loop.
	Rate float64 `json:"rate_per_second"`
	// Arrivals: "poisson", "constant", or "" for a closed loop
	Arrivals string `json:"arrivals"`
	// Length: nanoseconds of offered load, the settling included
	Length int64 `json:"length_ns"`
	// Settle: nanoseconds at the beginning that are not judged
	Settle int64 `json:"settle_ns"`
	// Connections the generator may use.
	Connections int `json:"connections"`
	// Why is the reason for the step, for a person.
	Why string `json:"why"`
}
