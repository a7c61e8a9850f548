package demo

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// OK says whether everything was answered as it had to be.
func (r Row) OK() bool { return len(r.Problems) == 0 && maps.Equal(r.Statuses, r.Wanted) }

// WriteTable prints the rows for a person, each with what was wrong under it, and returns how many
// rows were not OK.
func WriteTable(w io.Writer, rows []Row) (wrong int, err error) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "requests\tover\tsent\tanswers\tp50\tp99\t")
	for _, r := range rows {
		verdict := "as expected"
		if !r.OK() {
			wrong++
			verdict = "WRONG, expected " + counts(r.Wanted)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%s\n",
			r.Kind, r.Over, r.Sent, counts(r.Statuses), short(r.P50), short(r.P99), verdict)
	}
	if err := t.Flush(); err != nil {
		return wrong, err
	}
	for _, r := range rows {
		for _, p := range r.Problems {
			if _, err := fmt.Fprintf(w, "%s: %s\n", r.Kind, p); err != nil {
				return wrong, err
			}
		}
	}
	return wrong, nil
}

// counts writes {200: 50, 409: 30} as "200 ×50, 409 ×30".
func counts(byStatus map[int]int) string {
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(byStatus)) {
		parts = append(parts, fmt.Sprintf("%d ×%d", status, byStatus[status]))
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, ", ")
}

func short(d time.Duration) string {
	return d.Round(10 * time.Microsecond).String()
}

// percentile is the smallest of the durations that at least p percent of them do not exceed; 0 when
// there are none. It sorts its argument.
func percentile(ds []time.Duration, p int) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	slices.Sort(ds)
	rank := (len(ds)*p + 99) / 100
	return ds[max(rank, 1)-1]
}
