// Package measure holds the values that the lab's packages exchange about a load: how requests
// ended, histograms of durations, the windows of a step and its totals, and samples of what a
// machine did meanwhile. It contains only values and arithmetic. It must not know clocks, sockets
// or files, or what the numbers are used for.
package measure

import (
	"cmp"
	"time"
)

// Kind is how a request ended. The set is closed, so counters can be arrays.
type Kind uint8

// The kinds. Every arrival ends as exactly one of them, exactly once.
const (
	// OK is a complete answer, within the timeout, that passed its checks.
	OK Kind = iota
	// BadStatus is a complete answer with an unwanted status. Without a check of the script's own,
	// that is 400 and above.
	BadStatus
	// BadAnswer is a complete answer with a wanted status whose fields or body failed a check.
	BadAnswer
	// Timeout is a request without a complete answer within the timeout, counted from its intended
	// start.
	Timeout
	// ConnectFailed is a connection, or its TLS handshake, that could not be made.
	ConnectFailed
	// ConnectionLost is a connection that ended before the answer was complete.
	ConnectionLost
	// BadHTTP is an answer that is not valid HTTP.
	BadHTTP
	// Refused is a request that the target rejected before processing it: by REFUSED_STREAM or
	// H3_REQUEST_REJECTED, or by a GOAWAY that excludes it. Only HTTP/2 and HTTP/3 have these.
	Refused
	// NotSent is an arrival of an open loop for which no connection became free within the timeout,
	// or for which the bounded backlog had no room: the target was too slow for the connections it
	// was given.
	NotSent
	// Unfinished is a request that was cut off because the run ended early.
	Unfinished
	// Kinds is the number of kinds.
	Kinds = int(Unfinished) + 1
)

// names are the kinds' names in files and output.
var names = [Kinds]string{
	"ok", "bad_status", "bad_answer", "timeout", "connect_failed", "connection_lost", "bad_http",
	"refused", "not_sent", "unfinished",
}

// String returns the kind's name in files and output, such as "bad_status".
func (k Kind) String() string { return names[k] }

// Tally counts requests by how they ended.
type Tally [Kinds]uint64

// Total returns the number of requests of all kinds.
func (t *Tally) Total() (n uint64) {
	for _, c := range t {
		n += c
	}
	return n
}

// Failed returns the number of requests that did not end OK.
func (t *Tally) Failed() uint64 { return t.Total() - t[OK] }

// Answered returns the number of requests that got an answer, wanted or not.
func (t *Tally) Answered() uint64 { return t[OK] + t[BadStatus] + t[BadAnswer] }

// Add adds the counts of another tally.
func (t *Tally) Add(o *Tally) {
	for i, c := range o {
		t[i] += c
	}
}

// Window is what happened in a short part of a step, over all the generator's loops. An arrival
// counts in the window of its intended start, its end in the window in which it ends. Requests
// under way when the step's last arrival was due count in the last window, which is then longer
// than the others.
type Window struct {
	Start  int64 `json:"start_ns"`  // nanoseconds since the step's start
	Length int64 `json:"length_ns"` // nanoseconds
	// Due: arrivals whose intended start lies in the window; in a closed loop, requests sent
	Due uint64 `json:"due"`
	// Sent: requests whose first byte was passed to the kernel
	Sent  uint64 `json:"sent"`
	Ended Tally  `json:"ended"`
	// At the window's end, Waiting counts arrivals that wait for a free connection, and InFlight
	// requests that were sent and have not ended.
	Waiting  int    `json:"waiting"`
	InFlight int    `json:"in_flight"`
	BytesIn  uint64 `json:"bytes_received"`
	BytesOut uint64 `json:"bytes_sent"`
	// Response is from the intended start to the last byte of the answer, Service from the sending
	// of the first byte. Both cover only requests that ended OK. The others belong in the tail,
	// however fast they failed (see Totals.Quantile).
	Response Sparse `json:"response"`
	Service  Sparse `json:"service"`
	// Lag is from the intended start to the sending, for arrivals that found a free connection when
	// they were due. It is the generator's own lateness, not the target's.
	Lag Sparse `json:"lag"`
}

// End returns when the window ends, in nanoseconds since the step's start.
func (w *Window) End() int64 { return w.Start + w.Length }

// Totals are the results of a whole step, or of a whole run.
type Totals struct {
	// Length: nanoseconds for which load was offered, without the drain after it
	Length int64 `json:"length_ns"`
	// Drain: nanoseconds from then until the last request had ended
	Drain int64  `json:"drain_ns"`
	Due   uint64 `json:"due"`
	Sent  uint64 `json:"sent"`
	Ended Tally  `json:"ended"`
	// Drained is how many of the requests that ended OK did so in the drain.
	Drained  uint64 `json:"drained,omitempty"`
	BytesIn  uint64 `json:"bytes_received"`
	BytesOut uint64 `json:"bytes_sent"`
	Response Sparse `json:"response"`
	Service  Sparse `json:"service"`
	Lag      Sparse `json:"lag"`
	// ConnectionsMade counts opened connections, Reused requests on a connection used before, and
	// Resumed TLS handshakes that resumed a session.
	ConnectionsMade uint64 `json:"connections_made"`
	Reused          uint64 `json:"connections_reused"`
	Resumed         uint64 `json:"sessions_resumed"`
	// Closing counts HTTP/1 answers that close their connection: with Connection: close, or
	// HTTP/1.0 without keep-alive.
	Closing uint64 `json:"responses_that_close,omitempty"`
	// Streams is how many requests an HTTP/2 connection may carry at once: as many as configured,
	// or fewer if the target allows fewer. It is 0 for HTTP/1.1 and HTTP/3.
	Streams int `json:"streams_per_connection,omitempty"`
	// Peak is the maximum number of requests in flight: of each of the generator's loops, added up,
	// though they need not have reached it at the same moment.
	Peak int `json:"peak_in_flight"`
	// Requests are the totals per kind of request of the mix, in the order of the script's names.
	Requests []RequestTotals `json:"requests,omitempty"`
	// ConcurrencyAtSend groups the requests that ended OK by how many others they found in flight;
	// ascending, no group empty. It shows where requests begin to wait for each other long before a
	// percentile does. It is nil if it was not counted.
	ConcurrencyAtSend []ConcurrencyAtSend `json:"concurrency_at_send,omitempty"`
	// Examples are the first failure of each kind, as text for humans.
	Examples map[string]string `json:"examples,omitempty"`
	// Server is the Server field of one of the first answers; empty if they had none. It is the
	// same in all steps, so a step's record does not have it.
	Server string `json:"-"`
	// Generator is what the generator itself used.
	Generator Generator `json:"generator"`
}

// RequestTotals are the results of one kind of request of a mix.
type RequestTotals struct {
	Name     string `json:"name"`
	Ended    Tally  `json:"ended"`
	Response Sparse `json:"response"`
}

// MostFound is the maximum of ConcurrencyAtSend.Found. Requests that find more count as this many.
const MostFound = 255

// ConcurrencyAtSend sums up the requests that found the same number of others, of the same loop of
// the generator, in flight when they were sent.
type ConcurrencyAtSend struct {
	Found int    `json:"found"`
	Count uint64 `json:"count"`
	// Sum, Squares: of their service times (see Window.Service) and of the squared ones, in
	// nanoseconds
	Sum     float64 `json:"sum_ns"`
	Squares float64 `json:"sum_of_squares_ns2"`
}

// Generator is the generator's own cost.
type Generator struct {
	Loops int `json:"loops"`
	// CPU: nanoseconds of processor time of all loops, user and system
	CPU int64 `json:"cpu_ns"`
	// Busy: share of the time for which the busiest loop was at work, 0 to 1; spinning before an
	// alarm is not work
	Busy float64 `json:"busy_share"`
	// Invalid is the reason why the results are not the target's: the generator was the limit. It
	// is empty if they are valid.
	Invalid string `json:"invalid,omitempty"`
	// Full reports that a closed loop used all of a loop's time. With a fast target that is what a
	// closed loop is for, but the target may be able to do more. It is empty if it did not.
	Full string `json:"full,omitempty"`
	// Remote are the generators on other machines that shared the load, if any.
	Remote []Remote `json:"remote,omitempty"`
}

// Remote is one of several generators, each on its own machine.
type Remote struct {
	Name string `json:"name"` // as given: user@host
	Host string `json:"host"` // the machine's own name
	// Cores of its machine, and Descriptors that the generator may open there.
	Cores       int    `json:"cores"`
	Descriptors uint64 `json:"descriptors"`
	Loops       int    `json:"loops"`
	Due         uint64 `json:"due"`
	Sent        uint64 `json:"sent"`
	// Lag is the 99th percentile of its lateness, in nanoseconds.
	Lag int64 `json:"lag_p99_ns"`
	// CPU and Busy are as in Generator. HostBusy is the used share of its machine's processor time,
	// 0 to 1; 0 if unknown.
	CPU      int64   `json:"cpu_ns"`
	Busy     float64 `json:"busy_share"`
	HostBusy float64 `json:"host_busy_share,omitempty"`
	// ClockOffset is how far its wall clock is ahead of ours, in nanoseconds. It started with the
	// others to within ClockUncertainty nanoseconds.
	ClockOffset      int64 `json:"clock_offset_ns"`
	ClockUncertainty int64 `json:"clock_uncertainty_ns"`
	// Invalid is the reason why its results are not the target's; empty if they are valid.
	Invalid string `json:"invalid,omitempty"`
}

// Limit returns Invalid or Full: why the rate may be the generator's limit and not the target's. It
// is empty if neither is set.
func (g *Generator) Limit() string { return cmp.Or(g.Invalid, g.Full) }

// Rate returns the requests due per second.
func (t *Totals) Rate() float64 { return perSecond(t.Due, t.Length) }

// Goodput returns the requests that ended OK per second while load was offered. It leaves out the
// drain: a target that is offered twice what it can do serves the rest then, and would seem to have
// kept up.
func (t *Totals) Goodput() float64 {
	return perSecond(t.Ended[OK]-min(t.Drained, t.Ended[OK]), t.Length)
}

func perSecond(n uint64, ns int64) float64 {
	if ns <= 0 {
		return 0
	}
	return float64(n) / (float64(ns) / 1e9)
}

// Quantile returns the response time in nanoseconds that a share q of all requests does not exceed.
// A failed request counts as slower than all others. ok is false if the quantile is a failed
// request.
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
// their unit, such as "target.cpu.user_seconds". They are constants of this package.
type Sample struct {
	At     int64              `json:"at_ns"` // nanoseconds since the step's start
	Values map[string]float64 `json:"values,omitempty"`
}

// Step is one step of an experiment and its results.
type Step struct {
	Plan StepPlan
	// Began is when the step began, by the wall clock, to find it in other programs' logs. It is
	// the zero time if unknown.
	Began   time.Time
	Totals  Totals
	Windows []Window
	Samples []Sample
	// Profiles are the profiles taken during the step, by kind ("cpu"), in pprof's format. A run
	// that was read from disk has none: they stay in files.
	Profiles map[string][]byte `json:"-"`
}

// Judged reports whether a moment, in nanoseconds from the step's start, is in the part of the step
// that is judged: after the settling and before the drain, in which no load is offered.
func (s *Step) Judged(at int64) bool {
	return at >= s.Plan.Settle && at <= s.Totals.Length+drainSlack
}

// Ends returns the first and the last sample of the judged part that have a value; nil if there are
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

// Spent returns how fast a counter of processor time grew in the judged part, in cores, and how
// many requests were answered per second meanwhile. The first divided by the second is the cost of
// a request. ok is false if the counter was not sampled twice, or fell, for example after a restart
// of the target.
func (s *Step) Spent(name string) (cores, answered float64, ok bool) {
	first, last := s.Ends(name)
	if first == nil {
		return 0, 0, false
	}
	seconds := float64(last.At-first.At) / 1e9
	cores = (last.Values[name] - first.Values[name]) / seconds
	return cores, s.Between(first.At, last.At, (*Tally).Answered) / seconds, cores >= 0
}

// Between returns how many of the requests that count selects ended between two moments of the
// step. The requests of a window are assumed to be spread evenly over it; without windows, over the
// step.
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

// drainSlack is how long after the last arrival a sample still counts, because the sample due then
// comes a little later.
const drainSlack = int64(50e6)

// The phases of a survey, and of a load. PhaseHalf and PhaseAtLine offer half of the line and the
// line itself for profiles. Profiles cost the target something, so these steps are not evidence for
// the line.
const (
	PhaseLoad     = "load" // not a survey
	PhaseWarmUp   = "warm-up"
	PhaseBracket  = "bracket"
	PhaseNoise    = "noise"
	PhaseRefine   = "refine"
	PhaseHalf     = "half"
	PhaseAtLine   = "at-line"
	PhaseOverload = "overload"
	PhaseRecovery = "recovery"
)

// StepPlan is what a step is to do.
type StepPlan struct {
	Number int `json:"number"`
	// Phase is the part of the survey that the step belongs to: one of the phases above.
	Phase string `json:"phase"`
	// Rate is the offered requests per second; 0 is a closed loop.
	Rate float64 `json:"rate_per_second"`
	// Arrivals: "poisson", "constant", or "" for a closed loop
	Arrivals string `json:"arrivals"`
	// Length: nanoseconds of offered load, including the settling
	Length int64 `json:"length_ns"`
	// Settle: nanoseconds at the beginning that are not judged
	Settle int64 `json:"settle_ns"`
	// Connections is how many the generator may use.
	Connections int `json:"connections"`
	// Why is the reason for the step, for humans.
	Why string `json:"why"`
}
