package measure_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"plimsoll/internal/lab/measure"
)

func TestAHistogramComesBackFromJSONBucketByBucket(t *testing.T) {
	var h measure.Histogram
	for _, d := range durations(5000) {
		h.Record(d)
	}
	h.Record(0)
	h.Record(measure.Longest)
	want := h.Sparse()
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got measure.Sparse
	if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n%+v\nwant\n%+v", err, got, want)
	}
}

func TestWhatIsNotAHistogramIsRefused(t *testing.T) {
	for _, text := range []string{
		`{"buckets":[{"from_ns":-1,"to_ns":-1,"count":1}]}`,
		`{"buckets":[{"from_ns":99999999999999,"to_ns":99999999999999,"count":1}]}`,
		`{"buckets":[{"from_ns":257,"to_ns":257,"count":1}]}`,
		`{"buckets":[{"from_ns":256,"to_ns":258,"count":1}]}`,
		`{"buckets":[{"from_ns":2,"to_ns":2,"count":1},{"from_ns":1,"to_ns":1,"count":1}]}`,
		`{"buckets":[{"from_ns":2,"to_ns":2,"count":1},{"from_ns":2,"to_ns":2,"count":1}]}`,
		`{"buckets":[{"from_ns":2,"to_ns":2,"count":0}]}`,
		`{"buckets":[{"from_ns":1,"to_ns":1,"count":18446744073709551615},{"from_ns":2,"to_ns":2,"count":1}]}`,
		`{"max_ns":-1}`, `{"max_ns":999999999999}`, `[]`,
	} {
		var got measure.Sparse
		if err := json.Unmarshal([]byte(text), &got); err == nil {
			t.Errorf("%s was read as %+v", text, got)
		}
	}
}
