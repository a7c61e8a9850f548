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
	f := &flow{life: life{route: &Route{Latency: objective}, flags: flags, headOut: 100, bodyOut: 400}}
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
	const late = objective + 1
	elsewhere := over(404, 0, answered)
	elsewhere.route = &noRoute
	for name, c := range map[string]struct {
		f     *flow
		end   exchange.End
		total int64
		want  telemetry.Verdict
	}{
		"in time":                        {over(200, 9, 0), exchange.Completed, objective, telemetry.Good},
		"late":                           {over(200, 9, 0), exchange.Completed, late, telemetry.Bad},
		"a client's error":               {over(404, 9, 0), exchange.Completed, objective, telemetry.Good},
		"a client's error, late":         {over(404, 9, 0), exchange.Completed, late, telemetry.Bad},
		"the service's error":            {over(500, 9, 0), exchange.Completed, objective, telemetry.Bad},
		"the route's own answer":         {over(200, 0, answered), exchange.GatewayAnswer, 1, telemetry.Good},
		"the route's own 503":            {over(503, 0, answered), exchange.GatewayAnswer, 1, telemetry.Bad},
		"denied":                         {over(403, 0, answered).because(exchange.Denied), exchange.GatewayAnswer, 1, telemetry.Good},
		"a body that came too slowly":    {over(408, 0, answered).because(exchange.BodyTimeout), exchange.GatewayAnswer, late, telemetry.NotJudged},
		"shed":                           {over(503, 0, answered).because(exchange.Overloaded), exchange.Shed, 1, telemetry.Bad},
		"shed with a 429":                {over(429, 0, answered), exchange.Shed, 1, telemetry.Bad},
		"no target":                      {over(503, 0, answered).because(exchange.NoTarget), exchange.UpstreamFailed, 1, telemetry.Bad},
		"cut off":                        {over(200, 9, 0).because(exchange.UpstreamCut), exchange.UpstreamFailed, 9, telemetry.Bad},
		"a client that left":             {over(200, 9, 0), exchange.ClientGone, late, telemetry.NotJudged},
		"a client that left at once":     {over(0, 0, 0), exchange.ClientGone, 1, telemetry.NotJudged},
		"a client that is too slow":      {over(200, 9, 0).because(exchange.ClientSlow), exchange.ClientGone, late, telemetry.NotJudged},
		"cut by a drain":                 {over(200, 9, 0).because(exchange.Draining), exchange.ClientGone, 9, telemetry.Bad},
		"cut by a drain while waiting":   {over(0, 0, 0).because(exchange.Draining), exchange.ClientGone, 9, telemetry.Bad},
		"no route":                       {elsewhere, exchange.GatewayAnswer, 1, telemetry.NotJudged},
		"a tunnel":                       {over(101, objective, 0), exchange.Completed, late, telemetry.Good},
		"a tunnel that began late":       {over(101, late, 0), exchange.Completed, late, telemetry.Bad},
		"a tunnel cut by a drain":        {over(101, 9, 0).because(exchange.Draining), exchange.ClientGone, late, telemetry.Good},
		"events":                         {over(200, objective, endless), exchange.Completed, late, telemetry.Good},
		"events that began late":         {over(200, late, endless), exchange.Completed, late, telemetry.Bad},
		"events that a policy held":      {over(200, 9, endless).pausedInResponse(late), exchange.Completed, late, telemetry.Bad},
		"events cut by a drain":          {over(200, 9, endless).because(exchange.Draining), exchange.ClientGone, late, telemetry.Good},
		"events that broke off":          {over(200, 9, endless).because(exchange.UpstreamCut), exchange.UpstreamFailed, late, telemetry.Bad},
		"a download":                     {over(200, objective, 0).long(), exchange.Completed, late, telemetry.Good},
		"a download that began late":     {over(200, late, 0).long(), exchange.Completed, late, telemetry.Bad},
		"a long answer of the route":     {over(200, 0, answered).long(), exchange.GatewayAnswer, late, telemetry.Bad},
		"a policy's answer in its place": {over(200, 9, answered|endless), exchange.GatewayAnswer, late, telemetry.Bad},
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
