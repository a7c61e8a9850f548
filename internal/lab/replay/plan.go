package replay

import (
	"time"

	"plimsoll/internal/lab/measure"
)

// ArrivalPlan counts arrivals by the time at which they are due.
type ArrivalPlan struct {
	// Step is the time that one count covers: a second, or more if the replay is longer than a day.
	Step   time.Duration
	Counts []uint64
}

// maxCounts is the largest number of counts: the seconds of a day.
const maxCounts = 86_400

func newPlan() ArrivalPlan { return ArrivalPlan{Step: time.Second} }

// add counts an arrival. If the plan is full, it joins counts in pairs, so that each covers twice
// the time.
func (p *ArrivalPlan) add(due int64) {
	for due/int64(p.Step) >= maxCounts {
		for i := range (len(p.Counts) + 1) / 2 {
			sum := p.Counts[2*i]
			if 2*i+1 < len(p.Counts) {
				sum += p.Counts[2*i+1]
			}
			p.Counts[i] = sum
		}
		p.Counts = p.Counts[:(len(p.Counts)+1)/2]
		p.Step *= 2
	}
	i := int(due / int64(p.Step))
	for len(p.Counts) <= i {
		p.Counts = append(p.Counts, 0)
	}
	p.Counts[i]++
}

// Fold sums up the windows of a load by the same steps: the requests due and the requests sent in
// each. A window counts in the step in which it begins, so a step should be a multiple of the
// windows' length.
func (p *ArrivalPlan) Fold(windows []measure.Window) (due, sent []uint64) {
	due, sent = make([]uint64, len(p.Counts)), make([]uint64, len(p.Counts))
	for i := range windows {
		w := &windows[i]
		step := int(w.Start / int64(p.Step))
		if w.Start < 0 || len(due) == 0 {
			continue
		}
		// Requests sent after the last step were due in it.
		step = min(step, len(due)-1)
		due[step] += w.Due
		sent[step] += w.Sent
	}
	return due, sent
}

// Compare compares the requests sent in each step with those planned, over the steps that both
// have. worst is the largest difference as a share of the planned requests, and at is its step. In
// a step without planned requests, each request sent counts as a difference of 1. If a run ended
// early, pass only its complete steps.
func Compare(planned, sent []uint64) (worst float64, at int) {
	for i := range min(len(planned), len(sent)) {
		difference := float64(sent[i]) - float64(planned[i])
		if difference < 0 {
			difference = -difference
		}
		if share := difference / float64(max(planned[i], 1)); share > worst {
			worst, at = share, i
		}
	}
	return worst, at
}
