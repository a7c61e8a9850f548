package pace

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	profileForms = "a rate is 1000 (arrivals a second), or parts with lengths: 1000:30s (hold), " +
		"1000-5000:60s (ramp), with commas between"
	burstForm = "a burst is RATE:LENGTH@START, as 3200:8s@20s: 3200 a second more for 8s, " +
		"20s after the start"
)

// ParseProfile parses a profile from a command line: "1000:30s,1000-5000:60s,5000:30s" holds a
// rate, ramps, and holds again. "1000" and "1000-5000" alone use length, which is otherwise
// ignored. The returned profile is valid and has arrivals.
func ParseProfile(text string, length time.Duration) (Profile, error) {
	parts := strings.Split(text, ",")
	if len(parts) > MaxParts {
		return Profile{}, fmt.Errorf("the rate has %d parts: %d are the most", len(parts), MaxParts)
	}
	var p Profile
	for _, part := range parts {
		s, err := parseSegment(strings.TrimSpace(part), len(parts) == 1, length)
		if err != nil {
			return Profile{}, err
		}
		p.Segments = append(p.Segments, s)
	}
	if err := p.Validate(); err != nil {
		return Profile{}, fmt.Errorf("rate %q: %w", clip(text), err)
	}
	if p.Peak() == 0 {
		return Profile{}, fmt.Errorf("rate %q offers nothing: %s", clip(text), profileForms)
	}
	return p, nil
}

func parseSegment(part string, alone bool, length time.Duration) (Segment, error) {
	rates, lasts, timed := strings.Cut(part, ":")
	switch {
	case timed:
		d, err := time.ParseDuration(strings.TrimSpace(lasts))
		if err != nil || d <= 0 {
			return Segment{}, fmt.Errorf("rate %q: %q is not a length: %s",
				clip(part), clip(lasts), profileForms)
		}
		length = d
	case !alone:
		return Segment{}, fmt.Errorf("rate %q has no length, and several parts each need theirs: "+
			"%s",
			clip(part), profileForms)
	case length <= 0:
		return Segment{}, fmt.Errorf("rate %q has no length: give the run's duration, "+
			"or write %s:30s",
			clip(part), clip(part))
	}
	from, to, ramp := strings.Cut(rates, "-")
	if !ramp {
		to = from
	}
	s := Segment{Length: length.Nanoseconds()}
	var err1, err2 error
	s.From, err1 = parseRate(from)
	s.To, err2 = parseRate(to)
	if err := cmp.Or(err1, err2); err != nil {
		return Segment{}, fmt.Errorf("rate %q: %w: %s", clip(part), err, profileForms)
	}
	return s, nil
}

// ParseBurst parses a burst from a command line: "3200:8s@20s". Validate checks whether it lies
// within a profile.
func ParseBurst(text string) (Burst, error) {
	fail := func(what string) (Burst, error) {
		return Burst{}, fmt.Errorf("burst %q: %s: %s", clip(text), what, burstForm)
	}
	rates, when, timed := strings.Cut(text, ":")
	lasts, begins, placed := strings.Cut(when, "@")
	if !timed || !placed {
		return fail("its length or its start is missing")
	}
	rate, err := parseRate(rates)
	if err == nil && rate > MaxRate {
		err = checkRate(rate)
	}
	if err != nil {
		return fail(err.Error())
	}
	length, err := time.ParseDuration(strings.TrimSpace(lasts))
	if err != nil || length <= 0 {
		return fail(fmt.Sprintf("%q is not a length", clip(lasts)))
	}
	at, err := time.ParseDuration(strings.TrimSpace(begins))
	if err != nil || at < 0 {
		return fail(fmt.Sprintf("%q is not a start", clip(begins)))
	}
	return Burst{rate, at.Nanoseconds(), length.Nanoseconds()}, nil
}

// parseRate parses a plain decimal number. It rejects signs, exponents, hexadecimal and names such
// as "inf".
func parseRate(text string) (float64, error) {
	text = strings.TrimSpace(text)
	rate, err := strconv.ParseFloat(text, 64)
	if err != nil || strings.Trim(text, "0123456789.") != "" {
		return 0, fmt.Errorf("%q is not a rate", clip(text))
	}
	return rate, nil
}

// String formats the profile for ParseProfile, followed by each burst for ParseBurst, separated by
// " + ".
func (p Profile) String() string {
	var b strings.Builder
	for i, s := range p.Segments {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(plain(s.From))
		if s.To != s.From {
			b.WriteString("-" + plain(s.To))
		}
		b.WriteString(":" + time.Duration(s.Length).String())
	}
	for _, x := range p.Bursts {
		fmt.Fprintf(&b, " + %s:%v@%v", plain(x.Rate), time.Duration(x.Length), time.Duration(x.At))
	}
	return b.String()
}

func plain(rate float64) string { return strconv.FormatFloat(rate, 'f', -1, 64) }

// clip shortens a text quoted in an error.
func clip(text string) string {
	if len(text) <= 60 {
		return text
	}
	return strings.ToValidUTF8(text[:60], "") + "…"
}
