package rules_test

import (
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"plimsoll/internal/cache/rules"
	"plimsoll/internal/head"
)

func read(method string, q header) *rules.Request {
	r := new(rules.Request)
	r.Read(&head.Request{Method: []byte(method), Fields: q.list()})
	return r
}

var arrived = rules.Instant{Mono: 1e18, Wall: began.UnixNano()}

// later is circumstances d after a response arrived.
func later(d time.Duration) *rules.Circumstances {
	return &rules.Circumstances{Now: rules.Instant{Mono: arrived.Mono + int64(d), Wall: arrived.Wall +
		int64(d)}}
}

// judge stores a response that came at once.
func judge(o *rules.Options, status int, q, p header) (rules.Stored, rules.Reason) {
	return o.Judge(read("GET", q), &head.Response{Status: status, Fields: p.list()},
		rules.Times{Sent: arrived, Received: arrived})
}

func cc(value string) header { return header{{"Cache-Control", value}} }

func TestLifetimesThatTheRouteGives(t *testing.T) {
	modified := [2]string{"Last-Modified", began.Add(-1000 * time.Second).Format(http.TimeFormat)}
	dated := [2]string{"Date", began.Format(http.TimeFormat)}
	sec := int64(time.Second)
	negative := []rules.StatusTTL{{Status: 404, TTL: 5 * sec}, {Status: 503, TTL: sec}}
	for _, c := range []struct {
		what   string
		o      rules.Options
		status int
		p      header
		want   int64 // seconds; -1 where it is not stored
	}{
		{"nothing is said", rules.Options{}, 200, nil, -1},
		{"the route's time", rules.Options{Default: 7 * sec}, 200, nil, 7},
		{"the route's time is not for redirects", rules.Options{Default: 7 * sec}, 302, nil, -1},
		{"the route's time is not for errors", rules.Options{Default: 7 * sec}, 404, nil, -1},
		{"the answer's own comes first", rules.Options{Default: 7 * sec}, 200, cc("max-age=3"), 3},
		{"heuristics come before the route's", rules.Options{Default: 7 * sec, Heuristic: 0.1,
			HeuristicMax: 1000 * sec}, 200, header{modified, dated}, 100},
		{"heuristics are bounded", rules.Options{Heuristic: 0.1, HeuristicMax: 10 * sec}, 200,
			header{modified, dated}, 10},
		{"everything is bounded", rules.Options{Max: 10 * sec}, 200, cc("max-age=100"), 10},
		{"a 404 has its own time", rules.Options{Statuses: negative, Default: 7 * sec, Heuristic: 1,
			HeuristicMax: 1000 * sec}, 404, header{modified, dated}, 5},
		{"a 404 says its time", rules.Options{Statuses: negative}, 404, cc("max-age=60"), 60},
		{"a 404 that forbids it", rules.Options{Statuses: negative}, 404, cc("no-store"), -1},
		{"a 503 has its own time", rules.Options{Statuses: negative}, 503, nil, 1},
		{"a 500 has none", rules.Options{Statuses: negative}, 500, nil, -1},
	} {
		s, why := judge(&c.o, c.status, nil, c.p)
		if c.want < 0 {
			if why == rules.MayStore {
				t.Errorf("%s: stored for %v", c.what, time.Duration(s.Lifetime))
			}
		} else if why != rules.MayStore || s.Lifetime != c.want*sec {
			t.Errorf("%s: %s, for %v, want %d s", c.what, why.Detail(), time.Duration(s.Lifetime), c.want)
		}
	}
}

func TestWhyAnAnswerIsNotStored(t *testing.T) {
	for _, c := range []struct {
		status int
		q, p   header
		want   rules.Reason
	}{
		{200, nil, cc("max-age=5"), rules.MayStore},
		{103, nil, cc("max-age=5"), rules.Informational},
		{206, nil, cc("max-age=5"), rules.Partial},
		{304, nil, cc("max-age=5"), rules.Validation},
		{425, nil, cc("public, max-age=5"), rules.TooEarly},
		{200, nil, cc("no-store"), rules.NoStoreSaid},
		{200, nil, cc("private"), rules.PrivateSaid},
		{200, nil, cc(`x="`), rules.Unreadable},
		{599, nil, cc("must-understand, max-age=5"), rules.Unknown},
		{200, nil, header{{"Vary", "*"}}, rules.VaryAll},
		{200, nil, append(cc("max-age=5"), [2]string{"Set-Cookie", "a=b"}), rules.SetsCookie},
		{200, header{{"Authorization", "x"}}, cc("max-age=5"), rules.Authorized},
		{200, header{{"Cookie", "x"}}, cc("public, max-age=5"), rules.WithCookie},
		{200, cc("no-store"), cc("max-age=5"), rules.RequestNoStore},
		{302, nil, nil, rules.NotForStatus},
		{200, nil, nil, rules.NotFresh},
		{200, nil, cc("max-age=0"), rules.NotFresh},
		{200, nil, append(cc("max-age=0"), [2]string{"ETag", `"a"`}), rules.MayStore},
	} {
		if _, why := judge(new(rules.Options), c.status, c.q, c.p); why != c.want {
			t.Errorf("%d %q for %q: %q, want %q", c.status, c.p, c.q, why.Detail(), c.want.Detail())
		}
	}
	p := &head.Response{Status: 200}
	if _, why := new(rules.Options).Judge(read("HEAD", nil), p, rules.Times{}); why != rules.NotGet {
		t.Errorf("HEAD: %s", why.Detail())
	}
}

func TestDecisionsUnderCircumstances(t *testing.T) {
	o := &rules.Options{StaleUnderPressure: int64(time.Minute), StaleWhileRevalidate: int64(2 * time.Second)}
	calm := &rules.Options{StaleUnderPressure: int64(time.Minute), IgnoreClients: true}
	for _, c := range []struct {
		what     string
		o        *rules.Options
		p, q     header
		after    time.Duration
		pressure bool
		purged   bool
		action   rules.Action
		why      rules.Reason
	}{
		{"fresh", o, cc("max-age=5"), nil, time.Second, false, false, rules.Serve, rules.NoReason},
		{"the route's stale-while-revalidate", o, cc("max-age=5"), nil, 6 * time.Second, false, false,
			rules.ServeAndRefresh, rules.Revalidating},
		{"stale", o, cc("max-age=5"), nil, 7 * time.Second, false, false, rules.Revalidate, rules.Stale},
		{"stale, and the service is behind", o, cc("max-age=5"), nil, 20 * time.Second, true, false,
			rules.Serve, rules.Pressure},
		{"too stale for that", o, cc("max-age=5"), nil, 66 * time.Second, true, false, rules.Revalidate,
			rules.Stale},
		{"forbidden even then", o, cc("max-age=5, must-revalidate"), nil, 20 * time.Second, true, false,
			rules.Revalidate, rules.Stale},
		{"s-maxage forbids it too", o, cc("s-maxage=5"), nil, 6 * time.Second, true, false,
			rules.Revalidate, rules.Stale},
		{"no-cache forbids it", o, append(cc("no-cache, max-age=5"), [2]string{"ETag", `"a"`}), nil,
			time.Second, true, false, rules.Revalidate, rules.NeverFresh},
		{"purged softly", o, cc("max-age=5"), nil, time.Second, false, true, rules.ServeAndRefresh,
			rules.Revalidating},
		{"purged softly, and may not be stale", o, cc("max-age=5, must-revalidate"), nil, time.Second,
			false, true, rules.Revalidate, rules.Stale},
		{"a reload", o, cc("max-age=5"), cc("no-cache"), time.Second, false, false, rules.Revalidate,
			rules.RequestReload},
		{"a reload that is ignored", calm, cc("max-age=5"), cc("no-cache, max-age=0"), time.Second,
			false, false, rules.Serve, rules.NoReason},
		{"an old client", calm, cc("max-age=5"), header{{"Pragma", "no-cache"}}, time.Second, false,
			false, rules.Serve, rules.NoReason},
		{"max-stale that is ignored", calm, cc("max-age=5"), cc("max-stale"), 6 * time.Second, false,
			false, rules.Revalidate, rules.Stale},
		{"no-store on something stale", calm, cc("max-age=5"), cc("no-store"), 6 * time.Second, false,
			false, rules.Pass, rules.RequestNoStore},
		{"no-store on something that would be refreshed", o, cc("max-age=5"), cc("no-store"), 6 * time.Second,
			false, false, rules.ServeAndRefresh, rules.Revalidating},
		{"only-if-cached on something stale", calm, cc("max-age=5"), cc("only-if-cached"),
			6 * time.Second, false, false, rules.Refuse, rules.Refused},
	} {
		s, why := judge(c.o, 200, nil, c.p)
		if why != rules.MayStore {
			t.Fatal(c.what, why.Detail())
		}
		with := later(c.after)
		with.Pressure, with.Purged = c.pressure, c.purged
		d := c.o.Decide(read("GET", c.q), &s, nil, with)
		if d.Action != c.action || d.Why != c.why {
			t.Errorf("%s: action %d (%q), want %d (%q)", c.what, d.Action, d.Why.Detail(), c.action,
				c.why.Detail())
		}
	}
}

func TestAClockThatIsSetChangesNothing(t *testing.T) {
	o := new(rules.Options)
	s, _ := judge(o, 200, nil, append(cc("max-age=60"), [2]string{"Date", began.Format(http.TimeFormat)}))
	for _, step := range []time.Duration{-1e6 * time.Hour, -time.Hour, time.Hour, 1e6 * time.Hour} {
		for after, want := range map[time.Duration]rules.Action{59 * time.Second: rules.Serve,
			60 * time.Second: rules.Revalidate} {
			c := later(after)
			c.Now.Wall += int64(step)
			if d := o.Decide(read("GET", nil), &s, nil, c); d.Action != want {
				t.Errorf("%v after it came, the clock set by %v: action %d, want %d", after, step,
					d.Action, want)
			}
		}
	}
	// A clock that is behind the origin's, or far ahead of it, when the answer comes.
	ahead, _ := judge(o, 200, nil, append(cc("max-age=60"), [2]string{"Date",
		began.Add(time.Hour).Format(http.TimeFormat)}))
	behind, _ := judge(o, 200, nil, append(cc("max-age=60"), [2]string{"Date",
		began.Add(-time.Hour).Format(http.TimeFormat)}))
	if ahead.Age(arrived.Mono) != 0 || behind.TTL(arrived.Mono) > 0 {
		t.Errorf("ages are %d and %d", ahead.Age(arrived.Mono), behind.Age(arrived.Mono))
	}
}

func TestWhatHeadSays(t *testing.T) {
	o := new(rules.Options)
	s, block := storedText(t, o, header{{"ETag", `"a"`}, {"Last-Modified", "Thu, 01 Jan 1970 00:00:10 GMT"}})
	weak, weakBlock := storedText(t, o, header{{"ETag", `W/"a"`}, {"Content-Encoding", "gzip"}})
	for _, c := range []struct {
		status int
		p      header
		want   bool
	}{
		{200, header{{"ETag", `"a"`}, {"Content-Length", "10"}}, false},
		{200, nil, false},
		{200, header{{"ETag", `"a"`}, {"Content-Length", "11"}}, true},
		{200, header{{"ETag", `"b"`}}, true},
		{200, header{{"ETag", `b`}}, false},
		{200, header{{"Last-Modified", "Thu, 01 Jan 1970 00:00:11 GMT"}}, true},
		{200, header{{"Content-Length", "99999999999999999999"}}, false},
		{200, header{{"ETag", `"b"`}, {"Content-Encoding", "br"}, {"Content-Length", "4"}}, false},
		{404, nil, true},
		{410, nil, true},
		{304, nil, false}, // to a condition of the client's
		{412, nil, false},
		{401, nil, false},
		{503, nil, false},
	} {
		if got := rules.HeadOutdates(&s, block, &head.Response{Status: c.status,
			Fields: c.p.list()}, 0); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	// Compressed on its way into the cache.
	if rules.HeadOutdates(&weak, weakBlock, &head.Response{Status: 200, Fields: header{{"ETag", `"a"`},
		{"Content-Length", "500"}}.list()}, 0) {
		t.Error("what is not compressed outdates what is")
	}
}

func TestCacheStatusSaysWhy(t *testing.T) {
	for want, report := range map[string]rules.Report{
		"p; hit; ttl=5": {Hit: true, HasTTL: true, TTL: 5_900_000_000},
		"p; hit; ttl=-1; detail=max-stale": {Hit: true, HasTTL: true, TTL: -1,
			Why: rules.ClientAllows},
		"p; fwd=uri-miss; stored":             {Why: rules.Miss, Stored: true},
		"p; fwd=uri-miss; collapsed":          {Why: rules.Miss, Collapsed: true},
		"p; fwd=vary-miss; detail=set-cookie": {Why: rules.VaryMiss, NotStored: rules.SetsCookie},
		"p; fwd=stale; fwd-status=304; ttl=60; stored": {Why: rules.Stale, Status: 304, HasTTL: true,
			TTL: 60e9, Stored: true},
		"p; fwd=bypass; detail=range": {Why: rules.RangeMiss},
		"p; fwd=method":               {Why: rules.Method},
	} {
		if got := string(rules.AppendStatus(nil, "p", &report)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestJitterShortensAndEarlyRefreshIsRare(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var s rules.Stored
	least := int64(1000)
	for range 1000 {
		s.Lifetime = 1000
		s.Jitter(0.1, r.Float64())
		if s.Lifetime > 1000 || s.Lifetime < 900 {
			t.Fatalf("a lifetime of 1000 becomes %d", s.Lifetime)
		}
		least = min(least, s.Lifetime)
	}
	if least > 910 {
		t.Errorf("the shortest of 1000 is %d", least)
	}
	// A fetch takes 100 ms: of ten thousand hits a second some refresh in the last second, hardly
	// any ten seconds before, none where it is off.
	share := func(ttl, beta float64) (n int) {
		for range 10_000 {
			if rules.EarlyRefresh(int64(ttl*1e9), 1e8, beta, 1-r.Float64()) {
				n++
			}
		}
		return n
	}
	if now, soon, long, off := share(0.05, 1), share(0.5, 1), share(3, 1), share(0.05, 0); now < 5000 ||
		soon < 30 || soon > 120 || long > 1 || off != 0 {
		t.Errorf("of 10,000 hits %d refresh at 50 ms, %d at 500, %d at 3 s, %d when it is off", now,
			soon, long, off)
	}
}
