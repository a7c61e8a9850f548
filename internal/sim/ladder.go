package sim

import (
	"fmt"
	"strings"
)

// If the gateway has a ladder, routes have static answers, which repeat the request's token. If it
// also limits the requests in progress, so does the route with a cache: beyond that limit it serves
// fresh stored answers.

// fallbackStatus is the status of static answers; nothing else uses it.
const fallbackStatus = 203

// fallback is the static answer of a route, which repeats a variable; "" without a ladder.
func (g *GatewayPlan) fallback(variable string) string {
	if !g.Ladder {
		return ""
	}
	return fmt.Sprintf(", fallback: {status: %d, body: \"later for ${%s}\"}", fallbackStatus, variable)
}

// cachedSteps are the ladder's steps on the route with a cache. In some scenarios its class is P0.
func (s *Scenario) cachedSteps(g *GatewayPlan) string {
	text := g.fallback("query")
	if s.cachedIsP0() {
		text = ", sla: P0"
	}
	if g.Ladder && g.InFlight > 0 {
		text += ", concurrency: 2"
	}
	return text
}

func (s *Scenario) cachedIsP0() bool { return s.Gateway.Ladder && s.Seed%3 == 0 }

// classes writes the SLA classes.
func (g *GatewayPlan) classes() string {
	keys := [3]string{}
	if g.Slots > 0 || g.Places > 0 {
		for class := range keys {
			keys[class] = fmt.Sprintf("patience: %v", g.Patience)
		}
	}
	if g.Ladder {
		keys[1] = strings.TrimPrefix(keys[1]+", degrade: [cache, stale, static]", ", ")
	}
	text := ""
	for class, k := range keys {
		if k != "" {
			text += fmt.Sprintf(", P%d: {%s}", class, k)
		}
	}
	if text == "" {
		return ""
	}
	return "classes: {" + text[2:] + "}\n"
}

// class is the request's SLA class.
func (q *request) class() string {
	if q.trusted && len(q.Class) == 2 {
		return q.Class
	}
	if q.Cached != nil && q.by.w.scenario.cachedIsP0() {
		return "P0"
	}
	if class := classes[q.Path]; class != "" {
		return class
	}
	return "P1"
}

// stepsDown takes the head of an answer that declares itself a substitute for the live one.
func (a *answer) stepsDown(h *messageHead) error {
	q, step := a.begun, h.value("x-degraded")
	static := a.own && a.status == fallbackStatus
	switch {
	case step == "" && !static:
		return nil
	case q.Method != "GET" && q.Method != "HEAD":
		return fmt.Errorf("%s is a %s and is answered %d by the step %q", q.token, q.Method, a.status, step)
	case q.class() == "P0":
		return fmt.Errorf("%s is of class P0, which has no steps, and gets %q", q.token, step)
	case static != (step == "static"), !static && (q.Cached == nil || step != "cache" && step != "stale"):
		return fmt.Errorf("%s is answered %d by the step %q", q.token, a.status, step)
	}
	if static {
		a.want = "later for " + q.token
		if q.Cached != nil {
			a.want = "later for t=" + q.token
		}
	}
	return nil
}
