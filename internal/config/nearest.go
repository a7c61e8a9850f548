package config

import (
	"slices"
	"strings"
)

// maxCompared bounds the work for all the suggestions of one file: beyond it errors go without.
const maxCompared = 200_000

// Suggest is what to do about an unknown name, for files that are read as strictly as a
// configuration: "did you mean rate?", or which names there are.
func Suggest(name string, known []string) string {
	var s suggester
	return s.advice(name, known)
}

// suggester finds the name that was probably meant.
type suggester struct{ compared int }

// advice is what to do about an unknown name: the nearest known one when there is one near, or all
// of them when they are few.
func (s *suggester) advice(name string, known []string) string {
	if near := s.nearest(name, known); near != "" {
		return "did you mean " + near + "?"
	}
	switch {
	case len(known) == 0:
		return "there is none"
	case len(known) == 1:
		return "the only one is " + known[0]
	case len(known) > 30:
		return "no known name is near it"
	}
	sorted := slices.Sorted(slices.Values(known))
	return "known are " + strings.Join(sorted, ", ")
}

// nearest is the known name with the smallest distance from name, if that is at most a third of its
// length (and at least one), or "" when none is as near.
func (s *suggester) nearest(name string, known []string) string {
	if len(name) > 100 {
		return ""
	}
	best, bestDistance := "", max(1, min(len(name), 12)/3)+1
	for _, candidate := range known {
		if d := len(candidate) - len(name); d >= bestDistance || -d >= bestDistance {
			continue
		}
		if s.compared++; s.compared > maxCompared {
			break
		}
		if d := distance(strings.ToLower(name), strings.ToLower(candidate)); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// distance is the number of insertions, deletions, replacements and swaps of neighbours that make b
// of a (Damerau and Levenshtein's, the optimal string alignment form).
func distance(a, b string) int {
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}
