package scenario

import (
	"slices"
	"strings"
	"time"

	"plimsoll/internal/config"
	"plimsoll/internal/config/strict"
	"plimsoll/internal/lab/pace"
)

// offered reads the load section.
func offered(v strict.Value) (*pace.Profile, pace.Arrivals) {
	f, ok := v.Fields("rate", "arrivals", "duration", "bursts")
	if !ok {
		return nil, ""
	}
	var arrivals pace.Arrivals
	if a, ok := f.Get("arrivals"); ok {
		if text, ok := a.Text(); ok {
			arrivals = pace.Arrivals(text)
			known := []string{string(pace.Poisson), string(pace.Constant)}
			if !slices.Contains(known, text) {
				a.Fail("%q is not a kind of arrivals; %s",
					strict.Clip(text), config.Suggest(text, known))
			}
		}
	}
	length := config.Duration(0)
	if d, ok := f.Get("duration"); ok {
		if length, ok = d.Duration(); ok && length == 0 {
			d.Fail("a load of no length offers nothing; give it a duration such as 30s")
		}
	}
	at, ok := f.Need("rate")
	if !ok {
		return nil, arrivals
	}
	rate, ok := at.Scalar()
	if !ok {
		return nil, arrivals
	}
	switch parts := strings.Contains(rate, ":"); {
	case parts && f.Has("duration"):
		at.Fail("the parts of the rate say how long they last, and duration says it again; " +
			"remove duration")
		return nil, arrivals
	case !parts && !f.Has("duration"):
		at.Fail("a rate without lengths needs a duration beside it; add duration: 30s, or write %q",
			strict.Clip(rate)+":30s")
		return nil, arrivals
	case !parts && length == 0:
		return nil, arrivals
	}
	p, err := pace.ParseProfile(rate, time.Duration(length))
	if err != nil {
		at.Fail("%v", err)
		return nil, arrivals
	}
	if b, ok := f.Get("bursts"); ok {
		p.Bursts = bursts(b)
		if err := p.Validate(); err != nil && len(p.Bursts) > 0 {
			b.Fail("%v", err)
		}
	}
	return &p, arrivals
}

// bursts reads the bursts of the load section. Each is written as on the command line, or as a
// mapping.
func bursts(v strict.Value) (all []pace.Burst) {
	items, _ := v.List()
	for _, item := range items {
		if item.IsScalar() {
			text, _ := item.Scalar()
			b, err := pace.ParseBurst(text)
			if err != nil {
				item.Fail("%v", err)
				continue
			}
			all = append(all, b)
			continue
		}
		f, ok := item.Fields("rate", "at", "for")
		if !ok {
			continue
		}
		rate, ok1 := f.Need("rate")
		at, ok2 := f.Need("at")
		lasts, ok3 := f.Need("for")
		if !ok1 || !ok2 || !ok3 {
			continue
		}
		number, ok1 := rate.Number()
		begin, ok2 := at.Duration()
		length, ok3 := lasts.Duration()
		if ok1 && ok2 && ok3 {
			all = append(all, pace.Burst{Rate: number, At: int64(begin), Length: int64(length)})
		}
	}
	return all
}
