package http2_test

import (
	"testing"

	"plimsoll/internal/http2"
)

func TestPriorities(t *testing.T) {
	for value, want := range map[string]http2.Priority{
		"": {Urgency: 3}, "u=0": {}, "u=7, i": {Urgency: 7, Incremental: true}, "i,u=5": {Urgency: 5, Incremental: true},
		"u=1;x=2;y, i=?1;z": {Urgency: 1, Incremental: true}, "i=?0": {Urgency: 3}, "i;a=1": {Urgency: 3, Incremental: true},
		" u=2 ,\ti ": {Urgency: 2, Incremental: true}, "u=1,u=2": {Urgency: 2}, "u=1,u=8": {Urgency: 3}, "u=-1": {Urgency: 3},
		"u=\"1\"": {Urgency: 3}, "u": {Urgency: 3}, "u=1.0": {Urgency: 3}, "U=1": {Urgency: 3}, "u =1": {Urgency: 3}, "i=1": {Urgency: 3},
		"i, i=no": {Urgency: 3}, "x=\"a,u=1\\\",i\",u=6": {Urgency: 6}, "x=(1 2), i": {Urgency: 3, Incremental: true},
		",,,u=4": {Urgency: 4}, "=": {Urgency: 3}, "\"": {Urgency: 3}, "\\": {Urgency: 3}, "u=": {Urgency: 3}, "x=\"\\": {Urgency: 3},
	} {
		if got := http2.ParsePriority([]byte(value)); got != want {
			t.Errorf("%q is %+v", value, got)
		}
	}
}

func TestAResponsesPriorityOverridesWhatItNames(t *testing.T) {
	request := http2.Priority{Urgency: 5, Incremental: true}
	for value, want := range map[string]http2.Priority{
		"": request, "u=1": {Urgency: 1, Incremental: true}, "i=?0": {Urgency: 5}, "u=0, i=?0": {},
		"i": request, "u=8": request, "u=1, u=x": request, "i=0": request, "i=?2": request,
		"x, \"": request, "u=7;a, i=?0;b": {Urgency: 7},
	} {
		if got := request.With([]byte(value)); got != want {
			t.Errorf("with %q it is %+v", value, got)
		}
	}
}
