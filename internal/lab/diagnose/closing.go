package diagnose

import (
	"fmt"
	"strings"

	"plimsoll/internal/lab/measure"
)

// These say who closes the connections of clients, how much that matters, and what keeping them gains.

// closers returns how many of the remembered connections were closed first by the service, and how
// many by its clients. It looks at the line, or at the last load before it at which sockets were
// counted, since they are counted rarely if there are very many. counted is false if they never
// were; the caller then judges by clients that keep their connections and yet lose them.
func (e *Evidence) closers() (service, clients float64, counted bool) {
	for i := len(e.Run.Steps) - 1; i >= 0; i-- {
		m := &Moment{Step: &e.Run.Steps[i], near: true}
		if m.Step.Plan.Number <= e.AtLine.Step.Plan.Number && m.Has(measure.ListenerTimeWait) {
			return m.Mean(measure.ListenerTimeWait), m.Mean(measure.ListenerClientTimeWait), true
		}
	}
	return 0, 0, false
}

// worthKeeping returns the number of requests per connection below which new connections are
// expensive. The connections that a short step begins with do not show that others were closed.
func (e *Evidence) worthKeeping() float64 {
	t, kept := &e.AtLine.Step.Totals, e.AtLine.Step.Plan.Connections
	if strings.HasPrefix(e.Run.Manifest.Target, "https:") && kept > 0 &&
		float64(t.ConnectionsMade) > 1.5*float64(kept) {
		return 30
	}
	return 10
}

// resetsClients reports whether the service closes its clients' connections by a reset, which
// neither end remembers. The generator keeps its connections and none of its requests timed out,
// and yet it had to make new ones again and again.
func (e *Evidence) resetsClients() bool {
	here, there, _ := e.closers()
	connections := float64(e.AtLine.Step.Plan.Connections)
	return here+there < fewClosed && e.AtLine.Failed(measure.Timeout) == 0 &&
		float64(e.AtLine.Step.Totals.ConnectionsMade) > connections+fewClosed && connections > 0
}

// endsThem reports whether at least half as many responses announce the end of their connection as
// connections were made. Then the service ends them, whoever closes first.
func (e *Evidence) endsThem() bool {
	t := &e.AtLine.Step.Totals
	return t.Closing > 0 && 2*t.Closing >= t.ConnectionsMade
}

// closingRank returns the rank of clients' connections that are closed. To make one takes a fraction
// of a millisecond without TLS, so where few places are taken all the time, or processors are busy
// with a request for far longer, it is these that set the line: gunicorn's sync workers close all
// connections, and serve one request each.
func (e *Evidence) closingRank() Rank {
	plain := !strings.HasPrefix(e.Run.Manifest.Target, "https:")
	cost := min(e.AtLine.PerRequest(measure.TargetCPU), connectionCost)
	if plain && (e.fewPlaces() || e.waitsLonger(cost) || cost < littleOfIt*e.machineCost()) {
		return Cost
	}
	return e.costRank()
}

const (
	// connectionCost is the most processor time in seconds that a service spends on making a
	// connection to a client without TLS.
	connectionCost = .4e-3
	// usualConnection and usualHandshake are what is assumed if no profile shows it, without TLS and
	// with it, and connectionMost is the largest share of the service's time that it then is.
	usualConnection, usualHandshake, connectionMost = .3e-3, 1.5e-3, .75
)

// gainOfKept is the gain from keeping clients' connections, of which so many are made in a second.
func (e *Evidence) gainOfKept(made float64) Gain {
	c := cure{saves: e.connectionShare(), elsewhere: e.clientsShare()}
	if e.Classes != nil {
		return e.gain(c)
	}
	each := usualConnection
	if strings.HasPrefix(e.Run.Manifest.Target, "https:") {
		each = usualHandshake
	}
	c.saves = min(each*made/max(e.AtLine.PerSecond(measure.TargetCPU), 1e-9), connectionMost)
	g := e.gain(c)
	g.Why += fmt.Sprintf("; no profile shows what connections cost, which is assumed to be %s of a "+
		"processor each", span(each))
	return g
}
