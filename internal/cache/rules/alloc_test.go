//go:build !race

package rules_test

import (
	"net/http"
	"testing"
	"time"

	"plimsoll/internal/cache/rules"
	"plimsoll/internal/head"
)

func TestAHitAllocatesNothing(t *testing.T) {
	k, err := rules.NewKey(rules.KeyOptions{SortQuery: true, DropQuery: []string{"utm_*"},
		Fields: map[string]rules.Treatment{"x-tenant": rules.Keyed}})
	if err != nil {
		t.Fatal(err)
	}
	o := &rules.Options{Key: k, Targeted: []string{"CDN-Cache-Control"}}
	s, block := storedText(t, o, header{{"ETag", `"a"`}, {"Last-Modified",
		began.Add(-time.Hour).Format(http.TimeFormat)}})
	h := &head.Request{
		Method: []byte("GET"), Scheme: []byte("https"), Host: []byte("example.com"),
		Path: []byte("/a/b"), Query: []byte("b=1&a=2&utm_x=3"),
		Fields: header{
			{"Accept", "text/html, */*;q=0.8"}, {"Accept-Language", "de, en;q=0.5"}, {"Accept-Encoding",
				"gzip, br"}, {"X-Tenant", "7"},
			{"Cache-Control", "max-age=30"}, {"If-None-Match", `"b", "c"`}, {"If-Modified-Since",
				began.Add(-time.Minute).Format(http.TimeFormat)},
			{"Range", "bytes=2-5"}, {"If-Range", `"a"`}, {"User-Agent", "x"}, {"Cookie", "a=b"},
		}.list(),
	}
	var r rules.Request
	var fields head.List
	memory := make([]byte, 0, 1000)
	c := rules.Circumstances{Now: rules.Instant{Mono: 1e18 + 5e9, Wall: began.UnixNano()}}
	if n := testing.AllocsPerRun(200, func() {
		r.Read(h)
		key := o.Key.AppendFields(o.Key.AppendURI(memory, "route", h, h.Path), h)
		key = o.Key.AppendVariant(key, []byte("accept-encoding"), h)
		d := o.Decide(&r, &s, block, &c)
		fields.Reset()
		rules.Fields(&fields, block)
		reply := r.Reply(&s, block, 10, c.Now.Wall)
		rules.AppendStatus(rules.AppendAge(rules.AppendContentRange(key, &reply, 10), d.Age), "x",
			&rules.Report{Hit: true, HasTTL: true, TTL: d.TTL})
		if d.Action != rules.Serve || reply.Status != 206 {
			t.Errorf("%+v %+v", d, reply)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
