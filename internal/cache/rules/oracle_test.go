package rules_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/cache/rules"
	"plimsoll/internal/head"
)

// The oracle is RFC 9111 again, written from its text, slowly and with other means: strings, maps,
// regular expressions and net/http's dates. It says what a shared cache must not do. Where the
// rules are stricter than that they may be, so it is asked one way: what they do, is it allowed?

// header is the fields of a message.
type header [][2]string

func (h header) values(name string) (all []string) {
	for _, f := range h {
		if strings.EqualFold(f[0], name) {
			all = append(all, f[1])
		}
	}
	return all
}

func (h header) list() (l head.List) {
	for _, f := range h {
		l.Add([]byte(f[0]), []byte(f[1]))
	}
	return l
}

var member = regexp.MustCompile(`^[ \t]*([!#$%&'*+\-.^_` + "`" +
	`|~0-9A-Za-z]+)(?:=("(?:[^"\\]|\\.)*"|[^",]*))?[ \t]*(?:,|$)`)

// control reads Cache-Control into a map from names to all arguments; known is false when a line is
// not a list of directives, which says nothing of what it forbids.
func control(h header) (m map[string][]string, known bool) {
	m, known = map[string][]string{}, true
	for _, line := range h.values("Cache-Control") {
		for line != "" {
			found := member.FindStringSubmatch(line)
			if found == nil {
				if skip := regexp.MustCompile(`^[ \t]*,|^[ \t]+$`).FindString(line); skip != "" {
					line = line[len(skip):]
					continue
				}
				known = false
				break
			}
			name := strings.ToLower(found[1])
			m[name] = append(m[name], strings.Trim(strings.TrimRight(found[2], " \t"), `"`))
			line = line[len(found[0]):]
		}
	}
	return m, known
}

// delta is the smallest of the times that a directive gives, in seconds; bad ones are 0.
func delta(arguments []string) (n int64, ok bool) {
	n = 1 << 31
	for _, a := range arguments {
		v, err := strconv.ParseInt(a, 10, 64)
		switch {
		case err != nil && strings.Contains(err.Error(), "range") && a[0] != '-':
			v = 1 << 31
		case err != nil || v < 0 || a[0] == '+':
			v = 0
		}
		n = min(n, v)
	}
	return n, len(arguments) > 0
}

// play is one story: a request that was answered and perhaps stored, and a later one.
type play struct {
	first, second header // the requests' fields
	status        int
	answer        header
	delay, pause  time.Duration
	wall          time.Time
	step          time.Duration // by which the wall clock is set in between
}

var began = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func (p *play) String() string {
	return fmt.Sprintf("GET %v -> %d %v after %v; %v later (clock set by %v) GET %v", p.first, p.status,
		p.answer, p.delay, p.pause, p.step, p.second)
}

// mayStore is section 3.
func (p *play) mayStore() (bool, string) {
	cc, known := control(p.answer)
	if !known {
		return false, "what cannot be read may forbid it"
	}
	request, _ := control(p.first)
	_, public := cc["public"]
	_, must := cc["must-revalidate"]
	_, maxAge := cc["max-age"]
	_, shared := cc["s-maxage"]
	heuristic := strings.Contains(" 200 203 204 206 300 301 308 404 405 410 414 501 ",
		fmt.Sprintf(" %d ", p.status))
	understood := http.StatusText(p.status) != "" && p.status != 206 && p.status != 304
	_, mustUnderstand := cc["must-understand"]
	if _, is := cc["no-store"]; is && !(mustUnderstand && understood) {
		return false, "no-store"
	}
	if _, is := request["no-store"]; is {
		return false, "the request's no-store"
	}
	if mustUnderstand && !understood || p.status < 200 || p.status == 206 || p.status == 304 {
		return false, "status"
	}
	for _, names := range cc["private"] {
		if names == "" {
			return false, "private"
		}
	}
	if p.first.values("Authorization") != nil && !public && !must && !shared {
		return false, "Authorization"
	}
	if !public && !maxAge && !shared && p.answer.values("Expires") == nil && !heuristic {
		return false, "nothing says that it may be stored"
	}
	for _, line := range p.answer.values("Vary") {
		for _, name := range strings.Split(line, ",") {
			if strings.TrimSpace(name) == "*" {
				return false, "Vary: *"
			}
		}
	}
	return true, ""
}

func date(text string, now time.Time) (time.Time, bool) {
	t, err := http.ParseTime(text)
	if err != nil {
		return t, false
	}
	if len(text) > 5 && strings.Contains(text, "-") && t.After(now.AddDate(50, 0, 0)) {
		t = t.AddDate(-100, 0, 0)
	}
	return t, true
}

// age is section 4.2.3, in seconds, at the second request.
func (p *play) age() float64 {
	received := p.wall.Add(p.delay)
	apparent := 0.0
	if values := p.answer.values("Date"); values != nil {
		for _, v := range values {
			if t, ok := date(v, received); ok {
				apparent = max(0, received.Truncate(time.Second).Sub(t).Seconds())
				break
			}
		}
	}
	given := 0.0
	if values := p.answer.values("Age"); values != nil {
		first := strings.TrimSpace(strings.Split(values[0], ",")[0])
		if regexp.MustCompile(`^\d+$`).MatchString(first) {
			given, _ = strconv.ParseFloat(first, 64)
			given = min(given, 1<<31)
		}
	}
	return max(apparent, given+p.delay.Seconds()) + p.pause.Seconds()
}

// lifetime is section 4.2.1, in seconds; heuristics give a tenth.
func (p *play) lifetime() float64 {
	cc, _ := control(p.answer)
	if n, ok := delta(cc["s-maxage"]); ok {
		return float64(n)
	}
	if n, ok := delta(cc["max-age"]); ok {
		return float64(n)
	}
	received := p.wall.Add(p.delay)
	from := received.Truncate(time.Second)
	for _, v := range p.answer.values("Date") {
		if t, ok := date(v, received); ok {
			from = t
			break
		}
	}
	if values := p.answer.values("Expires"); values != nil {
		least := 1e18
		for _, v := range values {
			t, ok := date(v, received)
			if !ok {
				return 0
			}
			least = min(least, float64(t.Unix()-from.Unix()))
		}
		return max(least, 0)
	}
	for _, v := range p.answer.values("Last-Modified") {
		if t, ok := date(v, received); ok {
			return max(float64(from.Unix()-t.Unix())*0.1, 0)
		}
	}
	return 0
}

// mayServe is sections 4 and 4.2.4 with RFC 5861: may the stored answer be given without asking
// again? background says that it is asked meanwhile.
func (p *play) mayServe(background bool) (bool, string) {
	cc, _ := control(p.answer)
	request, _ := control(p.second)
	for _, names := range cc["no-cache"] {
		if names == "" {
			return false, "no-cache"
		}
	}
	_, reload := request["no-cache"]
	if len(p.second.values("Cache-Control")) == 0 {
		for _, v := range p.second.values("Pragma") {
			reload = reload || strings.EqualFold(v, "no-cache")
		}
	}
	if reload {
		return false, "the request's no-cache"
	}
	age, life := p.age(), p.lifetime()
	maxStale, stale := delta(request["max-stale"])
	for _, v := range request["max-stale"] {
		if v == "" {
			maxStale = 1 << 40
		}
	}
	if n, ok := delta(request["max-age"]); ok && age > float64(n) && !stale {
		if _, immutable := cc["immutable"]; !immutable || n != 0 || age >= life {
			return false, "the request's max-age"
		}
	}
	if life > age {
		least := int64(-1)
		for _, v := range request["min-fresh"] {
			n, _ := delta([]string{v})
			least = max(least, n)
		}
		if least >= 0 && life-age < float64(least) {
			return false, "the request's min-fresh"
		}
		return true, ""
	}
	_, must := cc["must-revalidate"]
	_, proxy := cc["proxy-revalidate"]
	if must || proxy {
		return false, "stale, and must-revalidate"
	}
	if n, ok := delta(cc["stale-while-revalidate"]); ok && background && age-life < float64(n) {
		return true, ""
	}
	if _, shared := cc["s-maxage"]; !shared && stale && age-life <= float64(maxStale) {
		return true, ""
	}
	return false, fmt.Sprintf("stale for %.3f s", age-life)
}

// draw makes a story of what is interesting, and of its neighbours.
func draw(r *rand.Rand) *play {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	number := func() string {
		return pick("0", "1", "2", "5", "10", "60", "100", "3600", "2147483648", "99999999999999999999",
			"-1", "x", "5x", "", `"10"`, "+5", "1.5")
	}
	times := func(base time.Time) string {
		t := base.Add(time.Duration(r.IntN(400)-200) * time.Second)
		switch r.IntN(12) {
		case 0:
			return t.UTC().Format(time.ANSIC)
		case 1:
			return t.UTC().Format("Monday, 02-Jan-06 15:04:05 GMT")
		case 2:
			return pick("0", "", "soon", "Thu, 01 Jan 1970 00:00:00 GMT",
				"Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 31 Feb 2026 00:00:00 GMT")
		}
		return t.UTC().Format(http.TimeFormat)
	}
	responseCC := func() string {
		var parts []string
		for range r.IntN(5) {
			parts = append(parts, pick("no-store", "no-cache", "private", "public", "must-revalidate",
				"proxy-revalidate", "must-understand", "immutable",
				"max-age="+number(), "max-age="+number(), "s-maxage="+number(),
				"stale-while-revalidate="+number(), "stale-if-error="+number(),
				`no-cache="a, b"`, `private="set-cookie"`, `no-cache=""`, `x="no-store, y"`, "No-Store",
				"MAX-AGE=10", "", "x=y", "no-transform"))
		}
		return strings.Join(parts, pick(", ", ",", " ,\t"))
	}
	requestCC := func() string {
		var parts []string
		for range 1 + r.IntN(2) {
			parts = append(parts, pick("no-store", "no-cache", "max-age="+number(), "max-stale",
				"max-stale="+number(), "min-fresh="+number(), "x"))
		}
		return strings.Join(parts, ", ")
	}
	p := &play{wall: began, status: 200, delay: time.Duration(r.IntN(3)) * 700 * time.Millisecond,
		pause: time.Duration(r.IntN(120_000)) * time.Millisecond}
	if r.IntN(3) == 0 {
		p.status = []int{201, 203, 204, 206, 299, 302, 304, 403, 404, 410, 500, 503, 599}[r.IntN(13)]
	}
	if r.IntN(4) == 0 {
		p.step = time.Duration(r.IntN(2_000_000)-1_000_000) * time.Second
	}
	maybe := func(h *header, one int, name string, value func() string) {
		if r.IntN(one) == 0 {
			*h = append(*h, [2]string{name, value()})
		}
	}
	for range 1 + r.IntN(2) {
		maybe(&p.answer, 2, "Cache-Control", responseCC)
	}
	maybe(&p.answer, 2, "Date", func() string { return times(p.wall) })
	maybe(&p.answer, 3, "Expires", func() string { return times(p.wall) })
	maybe(&p.answer, 8, "Expires", func() string { return times(p.wall) })
	maybe(&p.answer, 3, "Last-Modified", func() string { return times(p.wall.Add(-500 * time.Second)) })
	maybe(&p.answer, 5, "Age", func() string { return pick(number(), "5, 100", "100, 5", " 7") })
	maybe(&p.answer, 3, "ETag", func() string { return pick(`"a"`, `W/"a"`, "a", "") })
	maybe(&p.answer, 9, "Vary", func() string { return pick("*", "foo", ", *", "Accept-Language", "a b") })
	maybe(&p.first, 6, "Authorization", func() string { return "x" })
	maybe(&p.first, 8, "Cache-Control", requestCC)
	maybe(&p.second, 3, "Cache-Control", requestCC)
	maybe(&p.second, 9, "Pragma", func() string { return pick("no-cache", "x") })
	return p
}

// check plays a story and holds what the rules do against the oracle; it says whether the answer
// was stored, and served.
func check(t *testing.T, p *play) (stored, served bool) {
	t.Helper()
	o := rules.Options{Heuristic: 0.1, HeuristicMax: int64(24 * time.Hour)}
	ask := func(h header) *rules.Request {
		r := new(rules.Request)
		r.Read(&head.Request{Method: []byte("GET"), Scheme: []byte("https"), Host: []byte("h"),
			Path: []byte("/"), Fields: h.list()})
		return r
	}
	at := func(d, step time.Duration) rules.Instant {
		return rules.Instant{Mono: 1e18 + int64(d), Wall: p.wall.Add(d + step).UnixNano()}
	}
	response := &head.Response{Status: p.status, Fields: p.answer.list(), Length: 4}
	s, why := o.Judge(ask(p.first), response, rules.Times{Sent: at(0, 0), Received: at(p.delay, 0)})
	if why != rules.MayStore {
		return false, false
	}
	if ok, forbidden := p.mayStore(); !ok {
		t.Fatalf("it was stored, but: %s\n%v", forbidden, p)
	}
	block, ok := o.AppendBlock(nil, &s, &response.Fields)
	if !ok {
		t.Fatal("the block does not fit")
	}
	now := at(p.delay+p.pause, p.step)
	d := o.Decide(ask(p.second), &s, block, &rules.Circumstances{Now: now})
	if got, want := float64(d.Age)/1e9, p.age(); got < want-0.001 || got > want+0.001 {
		t.Fatalf("its age is %v, want %v\n%v", got, want, p)
	}
	if d.Action != rules.Serve && d.Action != rules.ServeAndRefresh {
		return true, false
	}
	if ok, forbidden := p.mayServe(d.Action == rules.ServeAndRefresh); !ok {
		t.Fatalf("it was served (%s), but: %s\n%v", d.Why.Detail(), forbidden, p)
	}
	return true, true
}

func TestNothingIsStoredOrServedThatTheOracleForbids(t *testing.T) {
	var stored, served int
	const n = 60_000
	for seed := range uint64(n) {
		a, b := check(t, draw(rand.New(rand.NewPCG(seed, 6))))
		if a {
			stored++
		}
		if b {
			served++
		}
	}
	t.Logf("of %d stories, %d were stored and %d served", n, stored, served)
	if stored < n/10 || served < n/50 {
		t.Errorf("only %d were stored and %d served: the stories are not the right ones", stored, served)
	}
}

func FuzzOracle(f *testing.F) {
	f.Add("max-age=10, no-cache=\"a\"", "Thu, 01 Jan 1970 00:00:00 GMT", "5", "max-age=5", uint16(200),
		uint16(5))
	f.Add("private, max-age=\"10\"", "", "1,2", "min-fresh=1", uint16(404), uint16(20))
	f.Fuzz(func(t *testing.T, cc, expires, age, request string, status, pause uint16) {
		for _, s := range []string{cc, expires, age, request} {
			if !head.IsText([]byte(s)) || strings.TrimSpace(s) != s {
				return
			}
		}
		p := &play{wall: began, status: int(status%500) + 100, pause: time.Duration(pause) * time.Second}
		p.answer = header{{"Cache-Control", cc}, {"Age", age}, {"Date", began.Format(http.TimeFormat)}}
		if expires != "" {
			p.answer = append(p.answer, [2]string{"Expires", expires})
		}
		p.second = header{{"Cache-Control", request}}
		check(t, p)
	})
}
