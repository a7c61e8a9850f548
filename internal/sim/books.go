package sim

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// settle waits until nothing can be left of what clients did, and checks whether anything is.
func (w *world) settle() {
	if w.ending {
		return
	}
	// Idle connections to services, waits, health checks: all take much less time than this.
	w.pass("idle connections are closed", 20*time.Second+4*w.scenario.Kernel.StallFor)
	if w.failure != nil {
		return
	}
	before, m := w.metrics(), w.metrics()
	if w.failure == nil && m[missed] == before[missed] {
		w.audit(m)
	}
}

// missed counts the loops that did not get the processor in time for a scrape. Their numbers are
// older than the others'.
const missed = "plimsoll_scrape_loops_missed_total"

// metrics returns what the gateway reports.
func (w *world) metrics() map[string]float64 {
	var text string
	asked := false
	w.trace("the metrics are asked for")
	go func() {
		text = w.ask(w.current, "/metrics").Body.String()
		asked = true
	}()
	w.run("metrics are given", func() bool { return asked })
	return parseMetrics(text)
}

// parseMetrics adds up all series with the same name.
func parseMetrics(text string) map[string]float64 {
	sums := map[string]float64{}
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := max(0, strings.LastIndexByte(line, ' '))
		n, err := strconv.ParseFloat(strings.TrimSpace(line[at:]), 64)
		if err != nil {
			continue
		}
		name, _, _ := strings.Cut(line[:at], "{")
		sums[name] += n
	}
	return sums
}

// audit checks what a gateway at rest reports about itself.
func (w *world) audit(m map[string]float64) {
	is := func(name string) float64 {
		n, known := m[name]
		if !known {
			w.violate("there is no metric %s", name)
		}
		return n
	}
	for _, name := range []string{
		"plimsoll_requests_in_flight", "plimsoll_connections_open", "plimsoll_buffers_out",
		"plimsoll_listener_connections", "plimsoll_upstream_requests_in_flight",
		"plimsoll_upstream_requests_waiting", "plimsoll_upstream_connections_open",
		"plimsoll_upstream_connections_idle", "plimsoll_access_log_lines_dropped_total",
	} {
		if n := is(name); n != 0 {
			w.violate("at rest %s is %v", name, n)
		}
	}
	if n := m["plimsoll_websocket_open"]; n != 0 {
		w.violate("at rest %v WebSockets are open", n)
	}
	if n := m["plimsoll_cache_fetches_in_flight"]; n != 0 {
		w.violate("at rest %v fetches of the cache are under way", n)
	}
	if n, known := m["plimsoll_target_breaker_trials"]; n != 0 || known != (w.scenario.Gateway.Breaker > 0) {
		w.violate("at rest %v trials of breakers are under way (known: %t)", n, known)
	}
	for _, name := range []string{"plimsoll_route_concurrency", "plimsoll_route_concurrency_values"} {
		if n, known := m[name]; n != 0 || known != (w.scenario.Gateway.InFlight > 0) {
			w.violate("at rest %s is %v (known: %t)", name, n, known)
		}
	}
	n, known := m["plimsoll_upstream_concurrency_used"]
	if n != 0 || known != (w.scenario.Gateway.Places > 0) {
		w.violate("at rest %v places of upstreams are taken (known: %t)", n, known)
	}
	// At rest each loop has one timer, that of its sweep.
	if timers, loops := w.kernel.Timers(w.current.process); timers != loops {
		w.violate("at rest %d timers are set on %d loops", timers, loops)
	}
	if w.upstreamConns != 0 && w.scenario.Quiet {
		w.violate("at rest %d connections to services are open", w.upstreamConns)
	}
	accepted := is("plimsoll_connections_accepted_total")
	closed := is("plimsoll_connections_closed_total")
	if accepted != closed {
		w.violate("%v connections were accepted and %v closed", accepted, closed)
	}
	requests := is("plimsoll_requests_total")
	for _, name := range []string{
		"plimsoll_exchanges_total", "plimsoll_request_duration_seconds_count",
		"plimsoll_access_log_lines_written_total", "plimsoll_loop_requests_total",
	} {
		if _, known := m[name]; requests == 0 && !known {
			continue // an empty histogram has no series
		}
		if n := is(name); n != requests {
			w.violate("%v exchanges were counted, but %s is %v", requests, name, n)
		}
	}
}

// end ends the gateways that the operator has not ended.
func (w *world) end() {
	w.ending, w.kernel.EndsAt = true, min(w.kernel.EndsAt, w.kernel.Clock())
	for _, g := range w.gateways {
		g.cancel()
	}
	w.run("every gateway ends", func() bool {
		for _, g := range w.gateways {
			if !g.ended {
				return false
			}
		}
		return true
	})
	w.pass("what the last turns sent arrives", time.Minute)
}

// balance checks what is left after the end, and the access log.
func (w *world) balance() {
	for _, g := range w.gateways {
		if g.err != nil {
			w.violate("a gateway ended with %v", g.err)
		}
		if open := w.kernel.Open(g.process); len(open) > 0 {
			w.violate("a gateway that has ended left descriptors open: %s",
				strings.Join(open, ", "))
		}
		w.readLog(g.log.Bytes())
	}
	for _, c := range w.people {
		for _, q := range c.requests {
			w.logged(q)
		}
	}
	w.crowds()
	// A drain that runs out of time resets connections in the queue, like those being served.
	if w.kernel.Lost > 0 && w.scenario.Gateway.Drain >= acceptsAll {
		w.violate("%d connections were reset in an accept queue", w.kernel.Lost)
	}
	if w.clients != 0 {
		w.violate("%d clients are still connected to gateways that have ended", w.clients)
	}
}

// logged checks that a request has the right number of lines in the access log.
func (w *world) logged(q *request) {
	if q.Cached != nil {
		return // the logged path does not identify the request
	}
	answered := q.status != 0 && q.status != 408 && q.Spoiled == 0
	switch {
	case q.lines > 1:
		w.violate("%s has %d lines in the access log", q.token, q.lines)
	case q.lines == 0 && answered:
		w.violate("%s was answered %d and is not in the access log", q.token, q.status)
	case q.lines == 0 && q.arrivals > 0:
		w.violate("%s has come to a service and is not in the access log", q.token)
	}
}

// logLine has the fields that are read of a line in the access log.
type logLine struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	Status int    `json:"status"`
	Reason string `json:"reason"`
}

func (w *world) readLog(text []byte) {
	for _, raw := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
		if len(raw) == 0 {
			continue
		}
		var l logLine
		if err := json.Unmarshal(raw, &l); err != nil {
			w.violate("a line of the access log cannot be read: %q: %v", raw, err)
			return
		}
		q := w.asked[l.Path[strings.LastIndexByte(l.Path, '/')+1:]]
		if q == nil {
			continue // its path was never parsed
		}
		q.lines++
		if q.status != 0 && q.status != l.Status {
			w.violate("%s was answered %d, and the access log says %d", q.token, q.status, l.Status)
		}
		if l.Reason == "upstream_bad" && !q.vicious && !w.brokenHTTP2 {
			w.violate("%s failed for a bad response, which no service has given", q.token)
		}
	}
}

// acceptsAll is enough time for an ending gateway to accept everything in a full accept queue.
const acceptsAll = 100 * time.Millisecond
