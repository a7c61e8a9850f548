package diagnose

import (
	"math"
	"strconv"
	"strings"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/profile"
)

const (
	// newEach is the minimum number of connections per request for handshakes to matter.
	// everResumed is the largest share of connections that may resume a session if sessions are
	// hardly ever resumed, and leastWhole the minimum share that does not if some are: each worker, or
	// each instance behind an address, that has sessions of its own has them for its share.
	newEach     = .5
	everResumed = .05
	leastWhole  = .3
)

// seenByClients makes a rule about TLS handshakes use the client's view if there is no profile: how
// long a connection without resumption takes, compared with the answer.
func seenByClients(r Rule) Rule {
	inProfile := r.Judge
	r.Needs = []string{"profile:cpu|" + measure.TargetCPU}
	r.Threshold += "; or, without a profile that names them, over a connection for two requests, " +
		"of which less than seven of ten resume a session, and a lone client waits longer for " +
		"one than for the answer"
	r.Judge = func(e *Evidence) *Finding {
		if e.AtLine.Profile(kindCPU) == nil {
			return judgeFullHandshakes(e)
		}
		f := inProfile(e)
		unseen := e.profiledWithin() && e.Run.Manifest.Machine.TargetRuntime != measure.RuntimeJVM
		if f != nil || e.encrypting() < mostlyEncrypting && !unseen {
			return f
		}
		return judgeFullHandshakes(e)
	}
	r.Counters = append(r.Counters, Counter{
		"the survey asked for a full handshake for each connection",
		func(e *Evidence) (string, bool) {
			if e.Run.Manifest.Settings["resumption"] != "false" {
				return "", false
			}
			return "--no-resumption", true
		},
	})
	return r
}

// mostlyEncrypting is the share of the processor time in libraries without symbols that encrypt from
// which on handshakes may be most of it.
const mostlyEncrypting = .3

// encrypting returns the share of the processor time in libraries that encrypt and have no symbols:
// what called them is often not known either.
func (e *Evidence) encrypting() (share float64) {
	for _, at := range e.AtLine.Profile(kindCPU).Top(profile.CPU, leafBinary, math.MaxInt) {
		if does := binaryOf(profile.Frame{Function: at.Function}); does == encrypts || does == tlsOnly {
			share += at.Share
		}
	}
	return share
}

// leafBinary picks the frame in which a stack's time is spent, if it only names a library.
func leafBinary(stack []profile.Frame) (profile.Frame, bool) {
	if len(stack) == 0 || binaryOf(stack[0]) == "" {
		return profile.Frame{}, false
	}
	return stack[0], true
}

func judgeFullHandshakes(e *Evidence) *Finding {
	t, requests := &e.AtLine.Step.Totals, e.AtLine.Goodput()
	made := float64(t.ConnectionsMade)
	full := 1 - float64(t.Resumed)/max(made, 1)
	if !strings.HasPrefix(e.Run.Manifest.Target, "https:") || requests == 0 ||
		e.AtLine.connections() < newEach*requests || full < leastWhole {
		return nil
	}
	connect, answer := e.lone()
	if connect <= answer {
		return nil
	}
	share := connect / (connect + answer)
	claim := "Each connection begins with a full TLS handshake: no session is resumed"
	if full < 1-everResumed {
		claim = percent(full) + " of the connections begin with a full TLS handshake: their sessions " +
			"are not resumed, as where workers, or instances behind one address, do not share them"
	}
	return &Finding{
		Claim: claim + ", and a lone client waits " + span(connect) + " for a connection and " +
			span(answer) + " for the answer",
		Rank:       Cost,
		Confidence: .75,
		Evidence: []Fact{
			{
				What:  "sessions resumed, of the connections at the line",
				Value: strconv.FormatUint(t.Resumed, 10) + " of " + strconv.FormatUint(t.ConnectionsMade, 10),
			},
			{What: "a new connection, for a client that is alone", Value: span(connect)},
			{What: "and the answer", Value: span(answer)},
		},
		saves: &cure{saves: full * resumed * share, elsewhere: full * resumed * e.clientsShare()},
	}
}

// lone returns how many seconds a lone client waits for a new connection, and then for the answer.
// It uses the survey's warm-up, which sends one request after the other. Both are 0 if the warm-up
// kept its connection.
func (e *Evidence) lone() (connect, answer float64) {
	requests, whole := 0.0, 0.0
	for i := range e.Run.Steps {
		s := &e.Run.Steps[i]
		n := float64(s.Totals.Ended[measure.OK])
		if s.Plan.Phase != measure.PhaseWarmUp || s.Plan.Connections != 1 ||
			float64(s.Totals.ConnectionsMade) < n {
			continue
		}
		requests += n
		whole += float64(s.Totals.Length) / 1e9
		answer += s.Totals.Response.Mean() / 1e9 * n
	}
	if requests == 0 {
		return 0, 0
	}
	return (whole - answer) / requests, answer / requests
}
