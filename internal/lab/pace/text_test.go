package pace_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/internal/lab/pace"
)

func TestProfilesAreReadFromTheCommandLine(t *testing.T) {
	for text, want := range map[string][]pace.Segment{
		"1000":      {{1000, 1000, 10 * second}},
		" 0.5 ":     {{.5, .5, 10 * second}},
		"1000-5000": {{1000, 5000, 10 * second}},
		"1000:30s":  {{1000, 1000, 30 * second}},
		"0-100:1m, 0:500ms,1000:30s,1000-5000:60s,5000:30s": {
			{0, 100, 60 * second},
			{0, 0, second / 2},
			{1000, 1000, 30 * second},
			{1000, 5000, 60 * second},
			{5000, 5000, 30 * second},
		},
	} {
		p, err := pace.ParseProfile(text, 10*time.Second)
		if err != nil || !slices.Equal(p.Segments, want) || p.Bursts != nil {
			t.Errorf("%q: %+v %v", text, p, err)
		}
	}
}

func TestAnInvalidProfileSaysWhatOneIs(t *testing.T) {
	for _, text := range []string{
		"", "x", "-5", "+5", "1e3", "inf", "NaN", "0x10", "1000:", "1000:30", "1000:-3s", "1000:0s",
		"1000,2000", "1000:30s,2000",
		"1000:30s,,", "1000-", "-1000:3s", "1-2-3:4s", "0", "0:30s", "20000000", "1..2",
		"1000:9000h", strings.Repeat("9", 5000), strings.Repeat("1:1s,", 2000),
	} {
		_, err := pace.ParseProfile(text, 10*time.Second)
		if err == nil {
			t.Errorf("%q was taken for a profile", text)
			continue
		}
		if !strings.Contains(err.Error(), "rate") || strings.Contains(err.Error(), "\n") ||
			len(err.Error()) > 400 {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := pace.ParseProfile("1000", 0); err == nil ||
		!strings.Contains(err.Error(), "1000:30s") {
		t.Errorf("without a length: %v", err)
	}
}

func TestBurstsAreReadFromTheCommandLine(t *testing.T) {
	b, err := pace.ParseBurst("3200:8s@20s")
	if err != nil || b != (pace.Burst{Rate: 3200, At: 20 * second, Length: 8 * second}) {
		t.Errorf("%+v %v", b, err)
	}
	for _, text := range []string{
		"", "3200", "3200:8s", "3200@20s", "3200:8@20s", "3200:8s@20", "x:8s@20s", "3200:-8s@20s",
		"3200:8s@-1s", "3200:0s@0s", "99999999:1s@0s",
	} {
		if _, err := pace.ParseBurst(text); err == nil ||
			!strings.Contains(err.Error(), "3200:8s@20s") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestAProfileIsSaidAsItIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := profiles(t)
		if p.Peak() == 0 {
			return
		}
		parts := strings.Split(p.String(), " + ")
		again, err := pace.ParseProfile(parts[0], 0)
		segments := p.Segments
		if slices.IndexFunc(segments, func(s pace.Segment) bool {
			return s.From > 0 || s.To > 0
		}) < 0 {
			return // only bursts offer something: as text there are two parts
		}
		if err != nil || !slices.Equal(again.Segments, segments) {
			t.Fatalf("%q is read as %+v %v", parts[0], again, err)
		}
		for i, part := range parts[1:] {
			if b, err := pace.ParseBurst(part); err != nil || b != p.Bursts[i] {
				t.Fatalf("%q is read as %+v %v", part, b, err)
			}
		}
	})
}

func TestAProfileThatCannotBeIsRefused(t *testing.T) {
	hold := func(rate float64, length int64, bursts ...pace.Burst) pace.Profile {
		p := pace.Hold(rate, length)
		p.Bursts = bursts
		return p
	}
	for name, c := range map[string]struct {
		profile pace.Profile
		says    string
	}{
		"empty":           {pace.Profile{}, "no segment"},
		"negative":        {hold(-1, second), "segment 1: the rate -1 is negative"},
		"NaN":             {hold(math.NaN(), second), "segment 1"},
		"infinite":        {hold(math.Inf(1), second), "segment 1"},
		"no length":       {hold(1, 0), "segment 1: the length"},
		"negative length": {hold(1, -5), "segment 1: the length"},
		"too fast":        {hold(pace.MaxRate+1, second), "10000000"},
		"too long":        {hold(1, pace.MaxLength+1), "segment 1: the length"},
		"too long in all": {
			pace.Profile{Segments: slices.Repeat([]pace.Segment{{1, 1, pace.MaxLength}}, 900)},
			"segment 2: the profile ends",
		},
		"too many parts":       {pace.Profile{Segments: slices.Repeat([]pace.Segment{{1, 1, 1}}, pace.MaxParts+1)}, "1001 segments"},
		"burst below zero":     {hold(1, second, pace.Burst{-1, 0, 5}), "burst 1"},
		"burst before":         {hold(1, second, pace.Burst{1, -1, 5}), "burst 1 begins"},
		"burst after":          {hold(1, second, pace.Burst{1, 0, 5}, pace.Burst{1, second - 4, 5}), "burst 2 begins"},
		"burst far after":      {hold(1, second, pace.Burst{1, math.MaxInt64, 5}), "burst 1 begins"},
		"burst without length": {hold(1, second, pace.Burst{1, 0, 0}), "burst 1"},
		"burst on top":         {hold(pace.MaxRate/2, second, pace.Burst{pace.MaxRate * .6, 0, 5}), "with its bursts"},
	} {
		err := c.profile.Validate()
		if err == nil || !strings.Contains(err.Error(), c.says) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want something with %q", name, err, c.says)
		}
	}
	if err := hold(0, second).Validate(); err != nil {
		t.Errorf("a pause is refused: %v", err)
	}
}

func FuzzParseProfile(f *testing.F) {
	f.Add("1000:30s,1000-5000:60s,5000:30s")
	f.Add("3200:8s@20s")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := pace.ParseProfile(text, time.Second)
		if err == nil {
			if err := p.Validate(); err != nil {
				t.Fatal(err)
			}
			s := p.Schedule(pace.Constant, 0, 1, 0)
			for range 1000 {
				due, ok := s.Next()
				if ok && (due < 0 || due > p.Length()) {
					t.Fatalf("due at %d of %d", due, p.Length())
				}
			}
		} else if strings.Contains(err.Error(), "\n") {
			t.Fatalf("%q", err)
		}
		if b, err := pace.ParseBurst(text); err == nil && (b.Length <= 0 || b.At < 0) {
			t.Fatalf("%+v", b)
		}
	})
}
