package reactor

import (
	"testing"
	"time"
)

// A kernel before 5.11 has no epoll_pwait2: a loop must sleep there, and not ask again and again.
func TestAShortSleepIsOneWithoutEpollPwait2Too(t *testing.T) {
	p := poller{}
	if err := p.open(nil); err != nil {
		t.Fatal(err)
	}
	defer p.close()
	for _, coarse := range []bool{false, true} {
		p.coarse = coarse
		before := Clock()
		n, over := p.waitBriefly(int64(5 * time.Millisecond))
		// The runtime may have interrupted it, to stop the world.
		if slept := Clock() - before; n != 0 || over && slept < int64(4*time.Millisecond) || coarse && !over {
			t.Errorf("coarse %v: it slept for %d ns, found %d and said %v", coarse, slept, n, over)
		}
	}
}
