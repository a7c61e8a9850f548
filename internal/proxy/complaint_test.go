package proxy

import "testing"

func TestAComplaintIsLoggedAtOnceAndThenAtMostOnceInAWhile(t *testing.T) {
	var c complaint
	for _, step := range []struct {
		now        int64
		more, want int
	}{
		{1, 1, 1}, {2, 1, 0}, {3, 5, 0}, {complaintEvery, 0, 0}, {1 + complaintEvery, 1, 7},
		{2 + 2*complaintEvery, 0, 0}, {3 + 3*complaintEvery, 2, 2},
	} {
		if got := c.due(step.more, step.now); got != step.want {
			t.Errorf("at %d: a line for %d, want %d", step.now, got, step.want)
		}
	}
}
