package proxy

import (
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/http1"
	"plimsoll/internal/reactor"
	"plimsoll/internal/telemetry"
)

const objective = int64(100e6)

// over is an exchange that is over, whose upstream's head came after so many nanoseconds.
func over(status int, headAfter int64, flags flowFlags) *flow {
	s := &Snapshot{}
	s.Classes[1].Latency = objective
	f := &flow{life: life{view: &view{Snapshot: s}, route: &Route{}, flags: flags, headOut: 100, bodyOut: 400}}
	f.Class = 1
	f.Response = &head.Response{Status: status}
	f.Start = 5_000
	if headAfter > 0 {
		f.upstreamEnd = f.Start + headAfter
	}
	return f
}

func (f *flow) because(reason exchange.Reason) *flow { f.Reason = reason; return f }

func (f *flow) long() *flow { f.bodyOut = f.headOut + reactor.HighWater + 1; return f }

func (f *flow) pausedInResponse(d int64) *flow { f.pausedDown = d; return f }

func TestWhatMeetsTheObjective(t *testing.T) {
	const (
		late = objective + 1

		whole, own, gone = exchange.Completed, exchange.GatewayAnswer, exchange.ClientGone
		failed, shed     = exchange.UpstreamFailed, exchange.Shed
		good, bad, none  = telemetry.Good, telemetry.Bad, telemetry.NotJudged
	)
	elsewhere := over(404, 0, answered)
	elsewhere.route = &noRoute
	for name, c := range map[string]struct {
		f     *flow
		end   exchange.End
		total int64
		want  telemetry.ObjectiveVerdict
	}{
		"in time":                {over(200, 9, 0), whole, objective, good},
		"late":                   {over(200, 9, 0), whole, late, bad},
		"a client's error":       {over(404, 9, 0), whole, objective, good},
		"a client's error, late": {over(404, 9, 0), whole, late, bad},
		"the service's error":    {over(500, 9, 0), whole, objective, bad},
		"the route's own answer": {over(200, 0, answered), own, 1, good},
		"the route's own 503":    {over(503, 0, answered), own, 1, bad},
		"denied":                 {over(403, 0, answered).because(exchange.Denied), own, 1, good},
		"a body that came too slowly": {
			over(408, 0, answered).because(exchange.BodyTimeout), own, late, none,
		},
		"shed":                       {over(503, 0, answered).because(exchange.Overloaded), shed, 1, bad},
		"shed with a 429":            {over(429, 0, answered), shed, 1, bad},
		"no target":                  {over(503, 0, answered).because(exchange.NoTarget), failed, 1, bad},
		"cut off":                    {over(200, 9, 0).because(exchange.UpstreamCut), failed, 9, bad},
		"a client that left":         {over(200, 9, 0), gone, late, none},
		"a client that left at once": {over(0, 0, 0), gone, 1, none},
		"a client that is too slow": {
			over(200, 9, 0).because(exchange.ClientSlow), gone, late, none,
		},
		"cut by a drain": {over(200, 9, 0).because(exchange.Draining), gone, 9, bad},
		"cut by a drain while waiting": {
			over(0, 0, 0).because(exchange.Draining), gone, 9, bad,
		},
		"no route":                 {elsewhere, own, 1, none},
		"a tunnel":                 {over(101, objective, 0), whole, late, good},
		"a tunnel that began late": {over(101, late, 0), whole, late, bad},
		"a tunnel cut by a drain": {
			over(101, 9, 0).because(exchange.Draining), gone, late, good,
		},
		"events":                 {over(200, objective, endless), whole, late, good},
		"events that began late": {over(200, late, endless), whole, late, bad},
		"events that a policy held": {
			over(200, 9, endless).pausedInResponse(late), whole, late, bad,
		},
		"events cut by a drain": {
			over(200, 9, endless).because(exchange.Draining), gone, late, good,
		},
		"events that broke off": {
			over(200, 9, endless).because(exchange.UpstreamCut), failed, late, bad,
		},
		"a download":                     {over(200, objective, 0).long(), whole, late, good},
		"a download that began late":     {over(200, late, 0).long(), whole, late, bad},
		"a long answer of the route":     {over(200, 0, answered).long(), own, late, bad},
		"a policy's answer in its place": {over(200, 9, answered|endless), own, late, bad},
	} {
		if got := c.f.judge(c.end, c.total); got != c.want {
			t.Errorf("%s: the verdict is %d, want %d", name, got, c.want)
		}
	}
}

func TestStreamsOfEventsAreKnownByTheirType(t *testing.T) {
	for _, c := range []struct {
		framing http1.Framing
		value   string
		want    bool
	}{
		{http1.Chunked, "text/event-stream", true},
		{http1.ToEOF, "Text/Event-Stream; charset=utf-8", true},
		{http1.Chunked, "application/grpc+proto", true},
		{http1.Chunked, "application/json", false},
		{http1.Chunked, "text", false},
		{http1.Chunked, "", false},
		{http1.Length, "text/event-stream", false},
	} {
		f := &flow{life: life{flags: endless}}
		f.res.Framing = c.framing
		if c.value != "" {
			f.res.Fields.Add(contentTypeName, []byte(c.value))
		}
		if f.noteEndless(); f.is(endless) != c.want {
			t.Errorf("%q, framed as %d: a stream is %v", c.value, c.framing, !c.want)
		}
	}
}
