package http2_test

import (
	"strings"
	"testing"

	"plimsoll/internal/head"
	"plimsoll/internal/http2"
)

const browser = ":method: GET|:authority: shop.example.com|:scheme: https|:path: /api/v1/users/42?tab=orders&page=3|" +
	"sec-ch-ua: \"Chromium\";v=\"126\", \"Google Chrome\";v=\"126\", \"Not-A.Brand\";v=\"8\"|sec-ch-ua-mobile: ?0|" +
	"user-agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36|" +
	"accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8|sec-fetch-site: same-origin|" +
	"sec-fetch-mode: navigate|referer: https://shop.example.com/api/v1/users/|accept-encoding: gzip, deflate, br, zstd|" +
	"accept-language: en-GB,en;q=0.9,de;q=0.8|cookie: session=0123456789abcdef0123456789abcdef|cookie: theme=dark"

const small = ":method: GET|:scheme: http|:authority: api.example.com|:path: /api/v1/users/42|user-agent: h2load|accept: */*"

const answer = ":status: 200|server: nginx|date: Mon, 05 Oct 2026 10:00:00 GMT|content-type: " +
	"application/json|content-length: 128|cache-control: no-store"

// exchange is the frames of a usual request with a body.
var exchange = []byte(begun + raw(http2.Headers, 0x24, 1, strings.Repeat("h", 60)) + raw(http2.Data, 0, 1, strings.Repeat("d", 1000)) +
	raw(http2.Data, http2.EndStream, 1, "") + raw(http2.WindowUpdate, 0, 0, "\x00\x00\x10\x00") + raw(http2.Ping, 0, 0, "12345678") +
	raw(http2.SettingsFrame, http2.Ack, 0, ""))

type rig struct {
	request  request
	response head.Response
	answer   http2.ResponseHead
	budget   http2.Budget
	now      int64
	buf      []byte
}

func (r *rig) readFrames(in []byte) (frames int) {
	var reader http2.Reader
	reader.Reset(false, minFrame)
	r.now += second
	for len(in) > 0 {
		f, n, err := reader.Next(in)
		if n == 0 || err.Failed() || r.budget.Frame(&f, 1<<16, r.now) != http2.OK {
			panic(err)
		}
		r.budget.Sent()
		in = in[n:]
		frames++
	}
	return frames
}

func (r *rig) readRequest(fields [][2][]byte) {
	list := r.request.Fields
	list.Reset()
	r.request.Request = head.Request{Fields: list}
	r.request.RequestHead.Reset(&usualLimits, false)
	for _, f := range fields {
		if reason := r.request.Field(&r.request.Request, f[0], f[1]); reason != http2.OK {
			panic(reason)
		}
	}
	var reason http2.Reason
	if r.buf, reason = r.request.End(&r.request.Request, true, r.buf[:0]); reason != http2.OK {
		panic(reason)
	}
}

func (r *rig) readAnswer(fields [][2][]byte) {
	r.response.Fields.Reset()
	r.answer.Reset(&usualLimits)
	for _, f := range fields {
		r.answer.Field(&r.response, f[0], f[1])
	}
	if reason := r.answer.End(&r.response, false, false); reason != http2.OK {
		panic(reason)
	}
}

func (r *rig) write(block []byte) {
	b := http2.AppendSettings(r.buf[:0], http2.Setting{ID: http2.MaxFrameSize, Value: 1 << 14}, http2.Setting{ID: http2.EnablePush})
	b = http2.AppendHeaders(b, 1, block, false, 16)
	b = http2.AppendDataHeader(b, 1, 100, true)
	b = http2.AppendGoAway(b, 1, http2.NoError, "bye")
	r.buf = http2.AppendPing(http2.AppendRST(http2.AppendWindowUpdate(b, 0, 1), 1, http2.Cancel), true, [8]byte{})
}

func TestNothingAllocates(t *testing.T) {
	var r rig
	request, response, block := cut(browser), cut(answer), make([]byte, 100)
	changed := http2.AppendSettings(nil, http2.Setting{ID: http2.MaxFrameSize, Value: 1 << 14})[http2.HeaderSize:]
	if n := testing.AllocsPerRun(100, func() {
		r.readFrames(exchange)
		r.readRequest(request)
		r.readAnswer(response)
		r.write(block)
		s := http2.InitialSettings()
		s.Apply(changed, true)
		http2.ParsePriority(block)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkReader(b *testing.B) {
	var r rig
	b.ReportAllocs()
	frames := 0
	for b.Loop() {
		frames += r.readFrames(exchange)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(frames), "ns/frame")
}

func BenchmarkRequestHead(b *testing.B) {
	for name, text := range map[string]string{"small": small, "browser": browser} {
		b.Run(name, func(b *testing.B) {
			var r rig
			fields := cut(text)
			b.ReportAllocs()
			for b.Loop() {
				r.readRequest(fields)
			}
		})
	}
}

func BenchmarkResponseHead(b *testing.B) {
	var r rig
	fields := cut(answer)
	b.ReportAllocs()
	for b.Loop() {
		r.readAnswer(fields)
	}
}

func BenchmarkAppend(b *testing.B) {
	var buf [http2.HeaderSize + 60]byte
	out := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		out = append(out[:0], buf[:]...)
		out = http2.FinishHeaders(out, 0, 1, false, minFrame)
		out = http2.AppendDataHeader(out, 1, 128, true)
	}
}

func BenchmarkBudget(b *testing.B) {
	var budget http2.Budget
	now := int64(0)
	for b.Loop() {
		now += second
		budget.Frame(windowUpdate, 1<<16, now)
		budget.Sent()
	}
}
