package text

import (
	"fmt"
	"strings"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/profile"
)

// Profile shows where the processor time of a profile went, by class and by function.
func Profile(s *profile.Summary) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", format.Digits(s.Weight.Value), s.Weight.Unit)
	if s.Seconds > 0 {
		fmt.Fprintf(&b, ", over %s", format.Duration(s.Seconds*1e9))
	}
	b.WriteString("\n\n")
	b.WriteString(classTable(s) + "\n")
	b.WriteString(functionTable("its own code", s.Own, s.Compared) + "\n")
	b.WriteString(functionTable("with what libraries do for it", s.Users, s.Compared))
	return b.String()
}

// shareOrNone formats a share, "-" for 0.
func shareOrNone(of float64) string {
	if of == 0 {
		return "-"
	}
	return format.Percent(of)
}

func classTable(s *profile.Summary) string {
	t := Table{}
	header := []string{"class", "share"}
	if s.Compared {
		header = append(header, "before")
	}
	t.Row(header...)
	for _, c := range s.Classes {
		row := []string{c.Class, shareOrNone(c.Share)}
		if c.Before != nil {
			row = append(row, shareOrNone(*c.Before))
		}
		t.Row(row...)
	}
	return t.String()
}

func functionTable(what string, all []profile.PlaceMoved, compared bool) string {
	t := Table{Left: []int{1}}
	header := []string{"function, " + what, "at", "share"}
	if compared {
		header = append(header, "before")
	}
	t.Row(header...)
	for _, at := range all {
		row := []string{Clip(at.Function, 60), Clip(at.At(), 40), shareOrNone(at.Share)}
		if at.Before != nil {
			row = append(row, shareOrNone(*at.Before))
		}
		t.Row(row...)
	}
	return t.String()
}
