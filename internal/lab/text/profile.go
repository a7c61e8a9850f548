package text

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/profile"
)

// Profile says where the processor time of a profile went: by class, as classes shares it out, and
// by function, the heaviest top of them. before, which may be nil, is what it is compared with.
func Profile(
	p, before *profile.Profile, classes func(p *profile.Profile) map[string]float64, top int,
) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", format.Digits(p.Total(profile.CPU)), p.Unit(profile.CPU))
	if p.Seconds() > 0 {
		fmt.Fprintf(&b, ", over %s", format.Duration(p.Seconds()*1e9))
	}
	b.WriteString("\n\n")
	b.WriteString(classTable(p, before, classes) + "\n")
	b.WriteString(functionTable("its own code", p, before, profile.Leaf, top) + "\n")
	b.WriteString(functionTable("with what libraries do for it", p, before, profile.FirstUser, top))
	return b.String()
}

// shareOrNone is a share, "-" for none.
func shareOrNone(of float64) string {
	if of == 0 {
		return "-"
	}
	return format.Percent(of)
}

func classTable(
	p, before *profile.Profile, classes func(p *profile.Profile) map[string]float64,
) string {
	now, then := classes(p), map[string]float64{}
	t := Table{}
	header := []string{"class", "share"}
	if before != nil {
		then, header = classes(before), append(header, "before")
	}
	t.Row(header...)
	names := slices.Collect(maps.Keys(now))
	for name := range then {
		if _, ok := now[name]; !ok {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(now[b], now[a]), cmp.Compare(a, b))
	})
	for _, name := range names {
		row := []string{name, shareOrNone(now[name])}
		if before != nil {
			row = append(row, shareOrNone(then[name]))
		}
		t.Row(row...)
	}
	return t.String()
}

// functionTable lists functions by what choose gives them, and in a comparison those first that
// have moved the most.
func functionTable(
	what string, p, before *profile.Profile,
	choose func(stack []profile.Frame) (profile.Frame, bool), top int,
) string {
	const all = 10_000
	type function struct{ name, file string }
	now, then := p.Top(profile.CPU, choose, all), map[function]float64{}
	t := Table{Left: []int{1}}
	header := []string{"function, " + what, "at", "share"}
	if before != nil {
		header = append(header, "before")
		known := map[function]bool{}
		for _, at := range now {
			known[function{at.Function, at.File}] = true
		}
		for _, at := range before.Top(profile.CPU, choose, all) {
			key := function{at.Function, at.File}
			then[key] = at.Share
			if !known[key] {
				at.Share = 0
				now = append(now, at)
			}
		}
		moved := func(at profile.Place) float64 {
			change := at.Share - then[function{at.Function, at.File}]
			return max(change, -change)
		}
		slices.SortStableFunc(now, func(a, b profile.Place) int { return cmp.Compare(moved(b), moved(a)) })
	}
	t.Row(header...)
	for _, at := range now[:min(len(now), top)] {
		place := at.File
		if at.File != "" && at.Line > 0 {
			place = fmt.Sprintf("%s:%d", at.File, at.Line)
		}
		row := []string{Clip(at.Function, 60), Clip(place, 40), shareOrNone(at.Share)}
		if before != nil {
			row = append(row, shareOrNone(then[function{at.Function, at.File}]))
		}
		t.Row(row...)
	}
	return t.String()
}
