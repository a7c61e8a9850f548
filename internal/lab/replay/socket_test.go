package replay_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/replay"
)

// Two seconds of a log at twenty times its speed, over real connections: the target is asked for
// each line of it once.
func TestALogReachesTheTarget(t *testing.T) {
	var mu sync.Mutex
	asked := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked[r.URL.Path+" "+r.Host]++
	}))
	defer server.Close()
	target, err := load.Resolve(t.Context(), server.URL, load.TLSOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const loops = 2
	l, err := replay.Open(madeFile(t, []int{100, 300}, true), replay.Options{
		Format: fineFormat,
		Speed:  20,
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Start(context.Background(), loops, target.Authority)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	totals, err := load.Run(t.Context(), load.Options{
		Target:      target,
		Script:      s,
		Arrivals:    s.Arrivals,
		Loops:       loops,
		Connections: 4,
	})
	if err != nil {
		t.Fatal(err)
	}
	if totals.Due != 400 || totals.Ended[measure.OK] != 400 || s.Stats().Taken != 400 ||
		s.Err() != nil {
		t.Errorf("%d due, ended as %v: %v; %v", totals.Due, totals.Ended, totals.Examples, s.Err())
	}
	mu.Lock()
	defer mu.Unlock()
	for i := range 400 {
		if n := asked[fmt.Sprintf("/items/%d %s", i, target.Authority)]; n != 1 {
			t.Errorf("the target was asked %d times for item %d", n, i)
		}
	}
}
