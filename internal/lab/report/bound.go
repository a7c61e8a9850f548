package report

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/record"
)

// Bounds on a run's texts and lists in a page. A survey of plimsoll is far below them, but a run
// directory may come from anywhere and hold megabytes in any of its texts.
const (
	mostText  = 600       // bytes of one text
	mostTexts = 200 << 10 // bytes of all texts of the manifest and the result together
	mostItems = 1000      // entries of a list or a map
	mostSteps = 1000
)

// shortened returns the parts of a run with its texts, lists and steps cut to the bounds of a page.
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

// bounded returns a copy of a value with its texts and lists cut. left is the number of bytes of
// text that remain.
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
				continue // unexported fields are not shown
			}
			bound(to.Field(i), from.Field(i), left)
		}
	default:
		to.Set(from)
	}
}

// boundMap visits the keys in order, so that a run always gives the same page. The keys of all maps
// in a run are texts.
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
