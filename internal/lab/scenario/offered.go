package scenario

import (
	"slices"
	"strings"
	"time"

	"plimsoll/internal/config"
	"plimsoll/internal/lab/pace"
)

// offered reads the load section.
func offered(v value) (*pace.Profile, pace.Arrivals) {
	f, ok := v.fields("rate", "arrivals", "duration", "bursts")
	if !ok {
		return nil, ""
	}
	var arrivals pace.Arrivals
	if a, ok := f.get("arrivals"); ok {
		if text, ok := a.text(); ok {
			arrivals = pace.Arrivals(text)
			if known := []string{string(pace.Poisson), string(pace.Constant)}; !slices.Contains(known, text) {
				a.fail("%q are no arrivals; %s", clip(text), config.Suggest(text, known))
			}
		}
	}
	length := config.Duration(0)
	if d, ok := f.get("duration"); ok {
		if length, ok = d.duration(); ok && length == 0 {
			d.fail("a load of no length offers nothing; give it a duration such as 30s")
		}
	}
	at, ok := f.need("rate")
	if !ok {
		return nil, arrivals
	}
	rate, ok := at.scalar()
	if !ok {
		return nil, arrivals
	}
	switch parts := strings.Contains(rate, ":"); {
	case parts && f.has("duration"):
		at.fail("the parts of the rate say how long they last, and duration says it again; remove duration")
		return nil, arrivals
	case !parts && !f.has("duration"):
		at.fail("a rate without lengths needs a duration beside it; add duration: 30s, or write %q", clip(rate)+":30s")
		return nil, arrivals
	case !parts && length == 0:
		return nil, arrivals
	}
	p, err := pace.ParseProfile(rate, time.Duration(length))
	if err != nil {
		at.fail("%v", err)
		return nil, arrivals
	}
	if b, ok := f.get("bursts"); ok {
		p.Bursts = bursts(b)
		if err := p.Validate(); err != nil && len(p.Bursts) > 0 {
			b.fail("%v", err)
		}
	}
	return &p, arrivals
}

// bursts reads the bursts of the load section: each as on the command line, or with its parts named.
func bursts(v value) (all []pace.Burst) {
	items, _ := v.list()
	for _, item := range items {
		if item.isScalar() {
			text, _ := item.scalar()
			b, err := pace.ParseBurst(text)
			if err != nil {
				item.fail("%v", err)
				continue
			}
			all = append(all, b)
			continue
		}
		f, ok := item.fields("rate", "at", "for")
		if !ok {
			continue
		}
		rate, ok1 := f.need("rate")
		at, ok2 := f.need("at")
		lasts, ok3 := f.need("for")
		if !ok1 || !ok2 || !ok3 {
			continue
		}
		number, ok1 := rate.number()
		begin, ok2 := at.duration()
		length, ok3 := lasts.duration()
		if ok1 && ok2 && ok3 {
			all = append(all, pace.Burst{Rate: number, At: int64(begin), Length: int64(length)})
		}
	}
	return all
}
