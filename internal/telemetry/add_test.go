package telemetry

import (
	"reflect"
	"testing"

	"plimsoll/internal/hist"
)

// numbers visits every number in a struct of counters; histograms are told by path only.
func numbers(v reflect.Value, path string, visit func(path string, number reflect.Value)) {
	switch v.Kind() {
	case reflect.Struct:
		if _, ok := v.Addr().Interface().(*hist.Histogram); ok {
			visit(path, v)
			return
		}
		for i := range v.NumField() {
			numbers(v.Field(i), path+"."+v.Type().Field(i).Name, visit)
		}
	case reflect.Array:
		for i := range v.Len() {
			numbers(v.Index(i), path, visit)
		}
	default:
		visit(path, v)
	}
}

// count adds one to a number or records one duration.
func count(number reflect.Value) {
	switch n := number.Addr().Interface().(type) {
	case *uint64:
		*n++
	case *int64:
		*n++
	case *hist.Histogram:
		n.Record(1000)
	}
}

// checkSum checks that add doubles a value in which everything was counted once.
func checkSum[T any](t *testing.T, add func(to, from *T)) {
	t.Helper()
	var once, twice T
	numbers(reflect.ValueOf(&once).Elem(), "", func(_ string, n reflect.Value) { count(n) })
	numbers(reflect.ValueOf(&twice).Elem(), "", func(_ string, n reflect.Value) { count(n); count(n) })
	sum := once
	add(&sum, &once)
	got, want := reflect.ValueOf(sum), reflect.ValueOf(twice)
	for i := range got.NumField() {
		if !reflect.DeepEqual(got.Field(i).Interface(), want.Field(i).Interface()) {
			t.Errorf("%s.%s is not added up", got.Type().Name(), got.Type().Field(i).Name)
		}
	}
}

func TestEveryNumberOfALoopIsInTheSum(t *testing.T) {
	checkSum(t, func(to, from *Counters) {
		to.add(from)
		if to.HTTP2.Heaviest != 1 { // the only number that is not a sum
			t.Errorf("the heaviest of two connections with one stream has %d", to.HTTP2.Heaviest)
		}
		to.HTTP2.Heaviest = 2
	})
	checkSum(t, func(to, from *RouteStats) { to.add(from) })
	checkSum(t, func(to, from *UpstreamStats) { to.add(from) })
}

func TestEveryCountOfAnUpstreamMakesItsCopyStale(t *testing.T) {
	var s UpstreamStats
	numbers(reflect.ValueOf(&s).Elem(), "", func(path string, n reflect.Value) {
		if path == ".Codes" { // Exchange records a duration with each
			return
		}
		before := s.version()
		count(n)
		if s.version() == before {
			t.Errorf("%s changed and the version did not", path)
		}
	})
}
