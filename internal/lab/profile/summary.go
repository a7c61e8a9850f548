package profile

import (
	"cmp"
	"maps"
	"slices"
)

// Summary says where the weight of a profile is and, in a comparison, where the weight of another
// profile was.
type Summary struct {
	Weight Weight `json:"weight"`
	// Seconds is how long the profile was taken; 0 if that is not known
	Seconds float64 `json:"length_seconds,omitempty"`
	// Compared says that the shares of another profile are there, too.
	Compared bool         `json:"compared"`
	Classes  []ClassMoved `json:"classes"`
	Own      []PlaceMoved `json:"functions"`                // by the code that ran
	Users    []PlaceMoved `json:"functions_with_libraries"` // by the service's code that called it
}

// Weight is the total weight of a profile.
type Weight struct {
	Value float64 `json:"value"`
	Unit  string  `json:"unit"` // "processor seconds", "samples"
}

// ClassMoved is a class's share of the weight.
type ClassMoved struct {
	Class  string   `json:"class"`
	Share  float64  `json:"share"`
	Before *float64 `json:"before_share,omitempty"` // absent if nothing is compared
}

// PlaceMoved is a function's share of the weight.
type PlaceMoved struct {
	Place
	Before *float64 `json:"before_share,omitempty"` // absent if nothing is compared
}

// Summarize says where the weight of a kind is: by class, as returned by classes, and by function,
// the heaviest top of them. before is the profile to compare with. It may be nil; otherwise the
// functions whose share changed most come first.
func Summarize(
	p, before *Profile, kind string, classes func(*Profile) map[string]float64, top int,
) *Summary {
	return &Summary{
		Weight:   Weight{p.Total(kind), p.Unit(kind)},
		Seconds:  p.Seconds(),
		Compared: before != nil,
		Classes:  classesMoved(p, before, classes),
		Own:      placesMoved(p, before, kind, Leaf, top),
		Users:    placesMoved(p, before, kind, FirstUser, top),
	}
}

func classesMoved(
	p, before *Profile, classes func(*Profile) map[string]float64,
) []ClassMoved {
	now, then := classes(p), map[string]float64{}
	if before != nil {
		then = classes(before)
	}
	names := map[string]bool{}
	for name := range now {
		names[name] = true
	}
	for name := range then {
		names[name] = true
	}
	all := make([]ClassMoved, 0, len(names))
	for name := range maps.Keys(names) {
		c := ClassMoved{Class: name, Share: now[name]}
		if before != nil {
			c.Before = new(then[name])
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b ClassMoved) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Class, b.Class))
	})
	return all
}

// mostCompared is how many functions of each profile are searched for the largest changes.
const mostCompared = 10_000

func placesMoved(
	p, before *Profile, kind string, choose func(stack []Frame) (Frame, bool), top int,
) []PlaceMoved {
	all := []PlaceMoved{}
	for _, at := range p.Top(kind, choose, mostCompared) {
		all = append(all, PlaceMoved{Place: at})
	}
	if before != nil {
		all = compared(all, before.Top(kind, choose, mostCompared))
	}
	return all[:min(len(all), top)]
}

// compared adds the shares in before to functions, adds the functions that are only in before, and
// sorts them by the size of the change, the largest first.
func compared(now []PlaceMoved, before []Place) []PlaceMoved {
	then, known := map[function]float64{}, map[function]bool{}
	for _, at := range now {
		known[function{at.Function, at.File}] = true
	}
	for _, at := range before {
		key := function{at.Function, at.File}
		then[key] = at.Share
		if !known[key] {
			at.Share = 0
			now = append(now, PlaceMoved{Place: at})
		}
	}
	for i := range now {
		now[i].Before = new(then[function{now[i].Function, now[i].File}])
	}
	moved := func(at PlaceMoved) float64 { return max(at.Share-*at.Before, *at.Before-at.Share) }
	slices.SortStableFunc(now, func(a, b PlaceMoved) int { return cmp.Compare(moved(b), moved(a)) })
	return now
}
