package http3_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/quic-go/qpack"
	"github.com/quic-go/quic-go/quicvarint"

	"plimsoll/internal/http3"
)

// varints makes bytes of integers.
func varints(values ...uint64) (b []byte) {
	for _, v := range values {
		b = quicvarint.Append(b, v)
	}
	return b
}

func frame(t http3.FrameType, payload string) string {
	return string(http3.AppendFrame(nil, t, []byte(payload)))
}

// parts are what a reader makes of a stream that comes in pieces of so many bytes, and what it says
// at the end.
func parts(r *http3.Reader, stream string, piece int) (list []string, why http3.Reason) {
	content := ""
	flush := func() {
		if content != "" {
			list, content = append(list, "content "+content), ""
		}
	}
	defer flush()
	for stream != "" {
		n := min(piece, len(stream))
		in := []byte(stream[:n])
		stream = stream[n:]
		for {
			p, used, why := r.Next(in)
			if why != http3.OK {
				flush()
				return list, why
			}
			in = in[used:]
			switch p.Kind {
			case http3.Head:
				list = append(list, "head "+string(p.Data))
			case http3.Trailer:
				flush()
				list = append(list, "trailer "+string(p.Data))
			case http3.Content:
				content += string(p.Data)
			}
			if p.Kind == http3.None {
				if used < len(in) || len(in) > 0 {
					panic("bytes were left")
				}
				break
			}
		}
	}
	flush()
	return list, r.End()
}

func TestFramesOfARequest(t *testing.T) {
	head, data := frame(http3.Headers, "HEAD"), frame(http3.Data, "some data")
	long := frame(http3.Data, strings.Repeat("x", 20_000))
	for _, c := range []struct {
		stream, want string
		why          http3.Reason
	}{
		{head, "head HEAD", http3.OK},
		{head + data + data, "head HEAD|content some datasome data", http3.OK},
		{head + long, "head HEAD|content " + strings.Repeat("x", 20_000), http3.OK},
		{head + frame(http3.Headers, "TAIL"), "head HEAD|trailer TAIL", http3.OK},
		{head + data + frame(http3.Headers, "") + frame(0x21, "x"), "head HEAD|content some data|trailer ", http3.OK},
		{frame(0x21, "grease") + head + frame(0x21, "") + data, "head HEAD|content some data", http3.OK},
		{"", "", http3.NoHead},
		{frame(0x21, "grease"), "", http3.NoHead},
		{head[:3], "", http3.TruncatedFrame},
		{head + "\x00", "head HEAD", http3.TruncatedFrame},
		{head + data[:5], "head HEAD|content som", http3.TruncatedFrame},
		{data, "", http3.UnexpectedFrame},
		{head + head + data, "head HEAD|trailer HEAD", http3.UnexpectedFrame},
		{head + head + head, "head HEAD|trailer HEAD", http3.UnexpectedFrame},
		{frame(http3.Settings, ""), "", http3.UnexpectedFrame},
		{head + frame(http3.GoAway, "\x00"), "head HEAD", http3.UnexpectedFrame},
		{head + frame(0x8, "1234"), "head HEAD", http3.UnexpectedFrame},
		{frame(http3.Headers, strings.Repeat("h", 1001)), "", http3.BlockTooLarge},
		{head + frame(0x21, strings.Repeat("x", 65<<10)), "head HEAD", http3.TooMuchUnknown},
	} {
		for _, piece := range []int{1, 2, 3, 7, 1 << 20} {
			var r http3.Reader
			r.Reset(1000)
			list, why := parts(&r, c.stream, piece)
			if got := strings.Join(list, "|"); got != c.want || why != c.why {
				t.Errorf("%.30q in pieces of %d: %.100q, %v; want %.100q, %v", c.stream, piece, got, why, c.want, c.why)
			}
		}
	}
}

func TestInterimHeadsOfAResponse(t *testing.T) {
	var r http3.Reader
	r.ResetResponse(1000)
	p, _, why := r.Next([]byte(frame(http3.Headers, "103")))
	if p.Kind != http3.Head || why != http3.OK {
		t.Fatal(p, why)
	}
	r.Interim()
	if why := r.End(); why != http3.NoHead {
		t.Errorf("the stream may end behind an interim response: %v", why)
	}
	list, why := parts(&r, frame(http3.Headers, "200")+frame(http3.Data, "x"), 1)
	if strings.Join(list, "|") != "head 200|content x" || why != http3.OK {
		t.Errorf("%q, %v", list, why)
	}
}

// uni gives a unidirectional stream to a reader in pieces, and says what came of it.
func uni(server bool, stream string, piece int) (said string, why http3.Reason) {
	u := http3.Uni{Server: server}
	goaway := "" // of several at once the last is told
	for stream != "" && why == http3.OK {
		n := min(piece, len(stream))
		for in := []byte(stream[:n]); len(in) > 0 && why == http3.OK; {
			var used int
			var change http3.Change
			used, change, why = u.Take(in)
			in = in[used:]
			if change.Settings != nil {
				said += fmt.Sprint(change.Settings)
			}
			if change.GoAway {
				goaway = fmt.Sprint("goaway ", change.ID)
			}
		}
		stream = stream[n:]
	}
	return said + goaway, why
}

func TestUnidirectionalStreams(t *testing.T) {
	settings := func(values ...uint64) string { return frame(http3.Settings, string(varints(values...))) }
	many := make([]uint64, 0, 200)
	for i := range uint64(65) {
		many = append(many, 0x1000+i, 1)
	}
	control := "\x00"
	for _, c := range []struct {
		stream, want string
		server       bool
		why          http3.Reason
	}{
		{control + settings(6, 1000, 0x33, 1), "[{6 1000} {51 1}]", false, http3.OK},
		{control + settings(6, 1) + frame(http3.GoAway, "\x08") + frame(http3.GoAway, "\x04"), "[{6 1}]goaway 4",
			true, http3.OK},
		{control + settings(6, 1) + frame(http3.MaxPushID, "\x04") + frame(0xf0700, "anything"), "[{6 1}]", false, http3.OK},
		{control + frame(0x21, "grease"), "", false, http3.NoSettings},
		{control + settings() + settings(), "", false, http3.UnexpectedFrame},
		{control + settings(6, 1, 6, 2), "", false, http3.BadSettings},
		{control + settings(8, 2), "", false, http3.BadSettings},
		{control + settings(0, 2), "", false, http3.BadSettings},
		{control + settings(5, 2), "", false, http3.BadSettings},
		{control + settings(6), "", false, http3.BadFrame},
		{control + settings(many...), "", false, http3.FrameTooLarge},
		{control + frame(http3.Settings, strings.Repeat("\x40", 5000)), "", false, http3.FrameTooLarge},
		{control + settings() + frame(http3.GoAway, "\x08") + frame(http3.GoAway, "\x0c"), "goaway 8", true, http3.BadID},
		{control + settings() + frame(http3.GoAway, "\x09"), "", true, http3.BadID},
		{control + settings() + frame(http3.GoAway, ""), "", true, http3.BadFrame},
		{control + settings() + frame(http3.GoAway, "\x08\x00"), "", true, http3.BadFrame},
		{control + settings() + frame(http3.MaxPushID, "\x08"), "", true, http3.UnexpectedFrame},
		{control + settings() + frame(http3.MaxPushID, "\x08") + frame(http3.MaxPushID, "\x07"), "", false, http3.BadID},
		{control + settings() + frame(http3.CancelPush, "\x00"), "", false, http3.BadID},
		{control + settings() + frame(http3.Headers, "x"), "", false, http3.UnexpectedFrame},
		{control + settings() + strings.Repeat(frame(http3.MaxPushID, "\x08"), 5000), "", false, http3.TooMuchUnknown},
		{control + settings() + strings.Repeat(frame(0x21, ""), 5000), "", false, http3.TooMuchUnknown},
		{"\x01", "", false, http3.BadStream},
		{"\x02\x20\x20", "", false, http3.OK},
		{"\x02\x3f\x01", "", false, http3.BadEncoder},
		{"\x02\xc0", "", false, http3.BadEncoder},
		{"\x03\x40\x7f\xff\x01\x41", "", false, http3.OK},
		{"\x03\x80", "", false, http3.BadDecoder},
		{"\x03\x01", "", false, http3.BadDecoder},
		{"\x03\x7f" + strings.Repeat("\xff", 20), "", false, http3.BadDecoder},
		{"\x21whatever", "", false, http3.OK},
	} {
		for _, piece := range []int{1, 2, 5, 1 << 20} {
			if said, why := uni(c.server, c.stream, piece); said != c.want || why != c.why {
				t.Errorf("%.40q in pieces of %d: %q, %v; want %q, %v", c.stream, piece, said, why, c.want, c.why)
			}
		}
	}
}

func TestWhatWeSayOfOurselvesIsUnderstood(t *testing.T) {
	stream := http3.AppendControl(nil, http3.Setting{ID: http3.MaxFieldSectionSize, Value: 35400},
		http3.Setting{ID: http3.EnableConnectProtocol, Value: 1})
	stream = http3.AppendGoAway(stream, http3.LastStream)
	if said, why := uni(true, string(stream), 1); why != http3.OK || said != "[{6 35400} {8 1}]goaway 4611686018427387900" {
		t.Errorf("%q, %v", said, why)
	}
}

// decoded is a field section as quic-go's own decoder reads it.
func decoded(section []byte) (fields []string) {
	next := qpack.NewDecoder().Decode(section)
	for {
		f, err := next()
		if err == io.EOF {
			return fields
		}
		if err != nil {
			return append(fields, err.Error())
		}
		fields = append(fields, f.Name+": "+f.Value)
	}
}

func TestFieldSections(t *testing.T) {
	var e http3.Encoder
	for _, pairs := range [][]string{{}, {":status", "200"}, {"X-Some", "Value", "Date", "", "a", strings.Repeat("é", 500)}} {
		e.Begin()
		want := []string{}
		for i := 0; i < len(pairs); i += 2 {
			e.Field([]byte(pairs[i]), []byte(pairs[i+1]))
			want = append(want, strings.ToLower(pairs[i])+": "+pairs[i+1])
		}
		var r http3.Reader
		r.Reset(10_000)
		p, _, why := r.Next(e.AppendSection(nil))
		if why != http3.OK || p.Kind != http3.Head {
			t.Fatal(p.Kind, why)
		}
		if got := decoded(p.Data); strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("quic-go reads %q, want %q", got, want)
		}
		fields, why := http3.DecodeFields(p.Data, 10_000, 100)
		if why != http3.OK || len(fields) != len(want) {
			t.Fatal(fields, why)
		}
		for i, f := range fields {
			if got := string(f.Name) + ": " + string(f.Value); got != want[i] {
				t.Errorf("field %d is %q, want %q", i, got, want[i])
			}
		}
	}
}

func TestDecodingStopsWhereALimitIs(t *testing.T) {
	var b bytes.Buffer
	e := qpack.NewEncoder(&b)
	for range 1000 {
		e.WriteField(qpack.HeaderField{Name: ":method", Value: "GET"})
	}
	if fields, why := http3.DecodeFields(b.Bytes(), 1<<20, 10); why != http3.OK || len(fields) != 11 {
		t.Errorf("%d fields, %v", len(fields), why)
	}
	if fields, why := http3.DecodeFields(b.Bytes(), 420, 10_000); why != http3.OK || len(fields) != 11 {
		t.Errorf("%d fields of 42 bytes, %v", len(fields), why)
	}
}

func TestEveryReasonHasALabelAndACode(t *testing.T) {
	labels := map[string]bool{}
	for why := http3.OK; int(why) < http3.Reasons; why++ {
		if why.Error() == "" || labels[why.Error()] || why.Code() < http3.NoError {
			t.Errorf("reason %d is %q with code %#x", why, why.Error(), why.Code())
		}
		labels[why.Error()] = true
	}
}
