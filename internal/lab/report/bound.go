package report

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/record"
)

// What of a run's texts and lists goes into a page. A survey of ours is far from these; a run
// directory may come from anywhere and hold megabytes in any of its texts.
const (
	mostText  = 600       // bytes of one text
	mostTexts = 200 << 10 // bytes of all texts of the manifest and the result together
	mostItems = 1000      // entries of a list or a map
	mostSteps = 1000
)

// shortened is a run of which no text, list or number of steps is longer than a page should have.
// It shares the steps with the run.
func shortened(
	run *record.Run,
) (m record.Manifest, r *record.Result, steps []measure.Step, notes []string) {
	left := mostTexts
	m, r = bounded(run.Manifest, &left), bounded(run.Result, &left)
	steps, notes = run.Steps, clipped(run.Notes)
	if len(steps) > mostSteps {
		notes = append(notes, fmt.Sprintf("the run has %d steps, and only the first %d are shown",
			len(steps), mostSteps))
		steps = steps[:mostSteps]
	}
	return m, r, steps, notes
}

// bounded is a copy of a value with its texts and lists cut. left is how many bytes of text there
// may still be.
func bounded[T any](v T, left *int) T {
	out := reflect.New(reflect.TypeFor[T]()).Elem()
	bound(out, reflect.ValueOf(v), left)
	return out.Interface().(T)
}

func bound(to, from reflect.Value, left *int) {
	switch from.Kind() {
	case reflect.String:
		s := clip(from.String(), min(mostText, *left))
		*left -= min(len(s), *left)
		to.SetString(s)
	case reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(from.Type().Elem()))
			bound(to.Elem(), from.Elem(), left)
		}
	case reflect.Slice:
		if !from.IsNil() {
			n := min(from.Len(), mostItems)
			to.Set(reflect.MakeSlice(from.Type(), n, n))
			for i := range n {
				bound(to.Index(i), from.Index(i), left)
			}
		}
	case reflect.Map:
		boundMap(to, from, left)
	case reflect.Struct:
		if from.Type() == reflect.TypeFor[time.Time]() {
			to.Set(from)
			return
		}
		for i := range from.NumField() {
			if !from.Type().Field(i).IsExported() {
				continue // nothing of it is shown
			}
			bound(to.Field(i), from.Field(i), left)
		}
	default:
		to.Set(from)
	}
}

// boundMap takes the keys in their order, so that a run always gives the same page. All maps of a
// run have texts for keys.
func boundMap(to, from reflect.Value, left *int) {
	if from.IsNil() {
		return
	}
	to.Set(reflect.MakeMap(from.Type()))
	keys := from.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int {
		if a.String() < b.String() {
			return -1
		}
		return 1
	})
	for _, key := range keys[:min(len(keys), mostItems)] {
		k, v := reflect.New(key.Type()).Elem(), reflect.New(from.Type().Elem()).Elem()
		bound(k, key, left)
		bound(v, from.MapIndex(key), left)
		to.SetMapIndex(k, v)
	}
}
