package upstream

import "plimsoll/internal/invariant"

// Outcome is how a try at a target ended.
type Outcome uint8

// The outcomes of a try.
const (
	Success       Outcome = iota // a response head came, with a status other than those below
	ConnectFailed                // no connection
	Reset                        // the connection broke before the response was whole
	Timeout                      // no response head in time
	BadResponse                  // the answer was not HTTP
	Status5xx                    // 502, 503 or 504
	ServerError                  // another 5xx: the target works, but the request fails in it
	// the client left, or the gateway gave up for a reason of its own: this says nothing about the
	// target
	Cancelled
)

// String is the outcome for logs and metrics.
func (o Outcome) String() string {
	switch o {
	case Success:
		return "success"
	case ConnectFailed:
		return "connect_failed"
	case Reset:
		return "reset"
	case Timeout:
		return "timeout"
	case BadResponse:
		return "bad_response"
	case Status5xx:
		return "status_5xx"
	case ServerError:
		return "server_error"
	case Cancelled:
		return "cancelled"
	}
	return "unknown"
}

// Member is one target as one loop sees it: the loop's outstanding tries there, the target's
// latency, and the loop's pool of connections to it. Only the loop may use it. It stays valid after
// its target is gone, until its last request ends.
type Member struct {
	Pool

	ewma        float64 // nanoseconds, 0 before the first sample
	sampled     int64   // when ewma was last fed
	outstanding int

	usable bool    // as of the last refresh
	ramp   float64 // 0.1 to 1, slow start's part of the weight
	share  float64 // weight × ramp
	inv    float64 // mean share of the usable ÷ share

	current int64 // round robin's running credit

	// See flights.go.
	flying  int  // tries that were sent and not answered yet
	noted   bool // it is one of the first members, whose flights are recorded
	flights *Flights

	requests, failures             uint64 // ever
	foldedRequests, foldedFailures uint64 // of these, how many were added to the target's counts
}

const (
	// ewmaTime is the time constant of the latency estimate, as in Finagle and linkerd.
	ewmaTime = 10e9
	// failureFactor is how many times slower than the target usually is a failure is taken to be,
	// so that failing quickly does not look like answering quickly.
	failureFactor = 5
	// failureLeast and failureMost bound the latency that a failure is taken to have, in
	// nanoseconds.
	failureLeast = 1e6
	failureMost  = 1e9
	// unsampledCost is the cost of each outstanding request at a target that has answered none yet.
	// Such a target readily gets one request, and more only when no other target can take them:
	// else one that never answers would look free for ever.
	unsampledCost = 10e9
)

// Target returns the target, which all loops share.
func (m *Member) Target() *Target { return m.target }

// Outstanding returns how many tries of this loop are under way at the target.
func (m *Member) Outstanding() int { return m.outstanding }

// Begin counts a try that starts. Each Begin needs one End. Loop only; it does not allocate.
func (m *Member) Begin(_ int64) { m.outstanding++ }

// End counts a try that is over. latency is the time to the response head (or to the failure), in
// nanoseconds. Loop only; it does not allocate.
func (m *Member) End(now int64, o Outcome, latency int64) {
	if m.outstanding--; invariant.On && m.outstanding < 0 {
		panic("upstream: a try was ended twice, or never begun")
	}
	switch o {
	case Cancelled:
		return
	case Success, ServerError:
		m.slot.good++
		if o == Success && latency > 0 {
			m.slot.timed++
			if m.slot.least == 0 || latency < m.slot.least {
				m.slot.least = latency
			}
		}
		m.observe(now, float64(latency))
		// The load is nearly always zero, so that all loops can keep the cache line.
		if m.target.fails.Load() != 0 {
			m.target.fails.Store(0)
		}
	default:
		m.slot.bad++
		m.failures++
		m.observe(now, max(float64(latency), min(max(failureFactor*m.ewma, failureLeast), failureMost)))
		m.local.u.failed(m.target)
	}
	m.requests++
}

// observe adds a latency in nanoseconds to the peak-sensitive average: a sample above the average
// replaces it at once, one below it lowers it only as time passes.
func (m *Member) observe(now int64, sample float64) {
	old := fade(now - m.sampled)
	m.sampled, m.ewma = now, max(sample, m.ewma*old+sample*(1-old), 1)
}

// latency returns the estimated latency in nanoseconds at the time now. Without samples it fades,
// so that a target that was slow once is tried again.
func (m *Member) latency(now int64) float64 { return m.ewma * fade(now-m.sampled) }

// cost returns the cost of one more request: the latency times the requests that would then be at
// the target, of which those there already count relative to the member's share. Lower is better.
func (m *Member) cost(now int64) float64 {
	if m.ewma == 0 {
		return unsampledCost * float64(m.outstanding)
	}
	return m.latency(now) * (float64(m.outstanding)*m.inv + 1)
}

// fade approximates exp(-elapsed/ewmaTime) with one division. It is never negative.
func fade(elapsed int64) float64 {
	if elapsed <= 0 {
		return 1
	}
	x := float64(elapsed) * (1 / ewmaTime)
	return 1 / (1 + x + 0.5*x*x)
}
