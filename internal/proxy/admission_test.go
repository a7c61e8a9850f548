package proxy_test

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"plimsoll/internal/admission"
	"plimsoll/internal/exchange"
	"plimsoll/internal/reactor"
)

// overloaded is a bed whose loop is far too late in each turn.
func overloaded(t *testing.T, shadow bool) *bed {
	b := newBed(t, nil)
	b.work = int64(time.Millisecond)
	s := b.snapshot(b.upstream)
	s.Admission = admission.NewSheddingPlan(admission.Options{Delay: time.Millisecond, Shadow: shadow, Used: [admission.Classes]bool{true}})
	b.loop.Post(func() { b.acceptor.Worker.Install(s) })
	b.turn()
	return b
}

// lateTurn is a turn that comes after all that was ready has waited for a second.
func (b *bed) lateTurn() {
	b.now += int64(time.Second)
	b.loop.Step(int64(time.Second))
}

func TestALoopThatIsTooLateRefuses(t *testing.T) {
	b := overloaded(t, false)
	c := b.client(silence)
	c.in = saying(silence, ask)
	b.tell(c)
	b.lateTurn()
	if got := string(c.out); !strings.HasPrefix(got, "HTTP/1.1 503 ") || !strings.Contains(got, "instance_overloaded") ||
		!strings.Contains(got, "\r\nRetry-After: ") || strings.Contains(got, "Connection: close") {
		t.Errorf("the answer is %q", got)
	}
	if len(b.dialed) > 0 || c.closed {
		t.Error("the service is asked all the same, or the connection is closed")
	}
}

func TestInShadowModeNobodyIsRefused(t *testing.T) {
	b := overloaded(t, true)
	c := b.client(silence)
	c.in = saying(silence, ask)
	b.tell(c)
	b.lateTurn()
	b.turn()
	if len(c.out) > 0 || len(b.dialed) == 0 {
		t.Errorf("the client gets %q, and %d connections to the service are made", c.out, len(b.dialed))
	}
}

// crowd is a bed with clients whose only route has had each class once. It is so late that all but
// the highest class are refused.
type crowd struct {
	*bed
	delay time.Duration // of admission
	order *[]string     // who was read
}

func newCrowd(t *testing.T) *crowd {
	return &crowd{overloaded(t, false), time.Millisecond, new([]string)}
}

// install makes class that of the route.
func (c *crowd) install(class uint8) {
	s := c.snapshot(c.upstream)
	s.Routes[0].Class = class
	s.Admission = admission.NewSheddingPlan(admission.Options{Delay: c.delay, Used: [admission.Classes]bool{0: true, 1: true, 2: true}})
	c.loop.Post(func() { c.acceptor.Worker.Install(s) })
	c.turn()
}

// endAdmission is a reload to a configuration without admission.
func (c *crowd) endAdmission() {
	s := c.snapshot(c.upstream)
	c.loop.Post(func() { c.acceptor.Worker.Install(s) })
	c.turn()
}

// known connects a client that has been refused a request of a class.
func (c *crowd) known(name string, class uint8) *sock {
	c.install(class)
	s := c.client(silence)
	c.asks(s, name)
	for range 3 { // its first request waits for its turn, too
		c.lateTurn()
	}
	if !strings.HasPrefix(string(s.out), "HTTP/1.1 503 ") {
		c.t.Fatalf("%s is answered %q", name, s.out)
	}
	return s
}

// many are n such clients.
func (c *crowd) many(name string, class uint8, n int) (all []*sock) {
	for range n {
		all = append(all, c.known(name, class))
	}
	return all
}

// allAsk has a request of each client come.
func (c *crowd) allAsk(all []*sock, name string) {
	for _, s := range all {
		c.asks(s, name)
	}
}

// asks has a request come.
func (c *crowd) asks(s *sock, name string) { c.sends(s, name, ask) }

// sends has a message come, and notes when it is read.
func (c *crowd) sends(s *sock, name, message string) {
	waiting := true
	s.in = func(p []byte) (int, syscall.Errno) {
		if !waiting {
			return silence(p)
		}
		waiting = false
		*c.order = append(*c.order, name)
		return copy(p, message), 0
	}
	c.tell(s)
}

// read is who was read since the last call.
func (c *crowd) read() string {
	names := strings.Join(*c.order, " ")
	*c.order = nil
	return names
}

// Who has carried the highest class is read at once, the others in turn: each turn reads some, and
// what they send afterwards comes behind those who wait. For a second after a refusal each lower
// class is held: one of it is read.
func TestLowerClassesAreReadInTheirTurn(t *testing.T) {
	c := newCrowd(t)
	high := c.known("high", 0)
	low := c.many("low", 2, 6)
	middle := c.known("middle", 1)
	c.read()
	c.allAsk(low, "low")
	c.asks(middle, "middle")
	c.asks(high, "high")
	var turns []string
	for range 3 {
		c.lateTurn()
		turns = append(turns, c.read())
		c.install(2)
	}
	if want := []string{"high middle low", "low", "low low low low"}; !slices.Equal(turns, want) {
		t.Errorf("three turns read %q, want %q", turns, want)
	}
}

// refusing is a crowd that has just refused a request of the middle class, with clients of the
// lowest that wait, of which the first was read.
func refusing(t *testing.T, waiting int) (c *crowd, low []*sock) {
	c = newCrowd(t)
	low = c.many("low", 2, waiting)
	middle := c.known("middle", 1)
	c.now += int64(2 * time.Second)
	c.read()
	c.asks(middle, "middle")
	c.loop.Step(int64(time.Second))
	c.install(2)
	c.allAsk(low, "low")
	c.loop.Step(int64(time.Second))
	if read := c.read(); read != "middle low" {
		t.Fatalf("the turns read %q, want one of each", read)
	}
	return c, low
}

// A loop that reads every client it is going to refuse has no time for the others.
func TestWhileAClassIsRefusedOneConnectionOfALowerOneIsReadAtATime(t *testing.T) {
	c, _ := refusing(t, 9)
	for range 3 {
		c.turn()
		if read := c.read(); read != "" {
			t.Errorf("no time has passed, and %q are read", read)
		}
		c.now += int64(10 * time.Millisecond) // with what the timers round up
		c.turn()
		if read := c.read(); read != "low" {
			t.Errorf("ten milliseconds later %q are read, want one", read)
		}
	}
}

func TestASecondAfterTheLastRefusalALowerClassIsReadAgain(t *testing.T) {
	c, _ := refusing(t, 4)
	c.now += int64(time.Second) + 1
	c.turn() // the timer
	c.turn()
	if read := c.read(); read != "low low low" {
		t.Errorf("%q are read, want the three that wait", read)
	}
}

// It waited for others, and not because the loop has too much to do now.
func TestWhatIsHeldIsRefusedOnlyWhileTheLoopIsBehind(t *testing.T) {
	c, _ := refusing(t, 120)
	c.delay, c.work = 100*time.Millisecond, 0
	c.install(2)
	for range 101 {
		c.now += int64(10 * time.Millisecond)
		c.cpu += int64(10 * time.Millisecond)
		c.turn()
	}
	read, refused := strings.Count(c.read(), "low"), 0
	for _, s := range c.socks {
		if strings.Count(string(s.out), "HTTP/1.1 503 ") == 2 { // one from before
			refused++
		}
	}
	if read != 119 || refused > 20 {
		t.Errorf("of 120 requests %d are read in the second, and %d refused", read, refused)
	}
}

// The lines are served in each turn while one that is not held has connections.
func TestOthersThatWaitDoNotHaveThoseReadThatAreHeld(t *testing.T) {
	c, _ := refusing(t, 9)
	for range 9 { // of no class yet
		c.asks(c.client(silence), "new")
	}
	for range 3 {
		c.turn()
	}
	if read := c.read(); strings.Contains(read, "low") || strings.Count(read, "new") != 9 {
		t.Errorf("no time has passed, and %q are read, want the nine that are new", read)
	}
}

// Nothing runs for clients that have gone.
func TestAClassThatIsHeldAndGivesUpLeavesNoTimer(t *testing.T) {
	c, low := refusing(t, 2)
	var ended []int // timers, with a client that does not wait and with the only one that does
	for _, s := range low {
		before := c.loop.Timers()
		c.events = append(c.events, reactor.Event{Token: s.token, Readable: true, PeerEnded: true})
		c.turn()
		if !s.closed {
			t.Fatal("a client that gives up is not closed")
		}
		ended = append(ended, before-c.loop.Timers())
	}
	if ended[1] != ended[0]+1 {
		t.Errorf("%d timers end, want one more with the second: that of the lines", ended)
	}
}

func TestAClientThatGivesUpInItsLineIsNotRead(t *testing.T) {
	c := newCrowd(t)
	low := c.many("low", 2, 6)
	c.read()
	c.allAsk(low, "low")
	c.lateTurn()
	c.events = append(c.events, reactor.Event{Token: low[5].token, Readable: true, PeerEnded: true})
	c.read()
	c.lateTurn()
	if read := c.read(); read != "low" || !low[5].closed || low[4].closed {
		t.Errorf("the last turn read %q, and the client that gave up is closed: %v", read, low[5].closed)
	}
}

// The law compares classes by how late the loop is, and their lines are not served alike.
func TestALowClassIsNotAdmittedWhileAHigherOneIsRefused(t *testing.T) {
	c := newCrowd(t)
	c.delay, c.work = 100*time.Millisecond, int64(13*time.Millisecond) // more than a turn has for lines
	middle := c.many("middle", 1, 9)
	low := c.known("low", 2)
	c.allAsk(middle, "middle")
	c.lateTurn() // reads four
	c.now += int64(time.Second)
	c.cpu += int64(200 * time.Millisecond)
	c.turn() // four more, no longer because of the loop, but because they have waited
	c.read()
	refused := len(low.out)
	c.asks(low, "low")
	c.turn()
	if read := c.read(); read != "middle low" || len(c.dialed) > 0 || len(low.out) == refused {
		t.Errorf("%q are read, %d requests are admitted, and %d bytes answer the low class", read,
			len(c.dialed), len(low.out)-refused)
	}
}

// A head that comes in two parts waits once, and that counts when its class is known.
func TestAHeadInTwoPartsHasWaitedToo(t *testing.T) {
	c := newCrowd(t)
	c.delay, c.work = 100*time.Millisecond, int64(13*time.Millisecond)
	middle := c.many("middle", 1, 9)
	low := c.known("low", 2)
	c.allAsk(middle, "middle")
	refused := len(low.out)
	low.in = saying(silence, ask[:2])
	c.tell(low)
	c.lateTurn() // reads the first four and, from the low line, the first part
	c.now += int64(time.Second)
	c.cpu += int64(200 * time.Millisecond)
	c.turn()
	low.in = saying(silence, ask[2:])
	c.tell(low)
	c.turn()
	if len(c.dialed) > 0 || len(low.out) == refused {
		t.Errorf("%d requests are admitted, and %d bytes answer the low class", len(c.dialed), len(low.out)-refused)
	}
}

func TestAClientThatEndsIsClosedAndNotPutInALine(t *testing.T) {
	c := newCrowd(t)
	gone := c.known("gone", 2)
	c.read()
	gone.in = func([]byte) (int, syscall.Errno) { t.Error("it is read"); return 0, 0 }
	c.events = append(c.events, reactor.Event{Token: gone.token, Readable: true, PeerEnded: true})
	c.lateTurn()
	if !gone.closed {
		t.Error("it is not closed")
	}
}

// What comes after a cut may be the middle of anything.
func TestAConnectionThatIsCutOffInItsLineIsNotReadAsARequest(t *testing.T) {
	c := newCrowd(t)
	c.acceptor.Listener.SendTimeout = int64(500 * time.Millisecond)
	low := c.many("low", 2, 8)
	slow := c.known("slow", 2)
	c.lateTurn()
	c.lateTurn()
	slow.stuck = true
	c.asks(slow, "slow")
	c.lateTurn() // its answer is queued
	c.allAsk(low, "low")
	c.asks(slow, "slow")
	c.lateTurn() // too slow: it is cut off
	slow.stuck = false
	answered := len(slow.out)
	slow.in = saying(silence, ask)
	c.tell(slow)
	for range 3 {
		c.lateTurn()
	}
	if more := slow.out[answered:]; len(more) > 0 {
		t.Errorf("after the cut it gets %q", more)
	}
}

// Who is answered before a class counts, as by a policy, has no place among the new.
func TestWhoWasNeverAskedForAClassWaitsLast(t *testing.T) {
	c := newCrowd(t)
	low := c.many("low", 2, 5)
	c.now += int64(time.Second)
	s := c.snapshot(c.upstream)
	s.Routes[0].Chain.Append(answerer("ok"))
	s.Routes[0].Upstream = exchange.NoUpstream
	s.Admission = admission.NewSheddingPlan(admission.Options{Delay: c.delay, Used: [admission.Classes]bool{0: true, 2: true}})
	c.loop.Post(func() { c.acceptor.Worker.Install(s) })
	c.turn()
	answered := c.client(silence)
	c.asks(answered, "answered")
	c.turn()
	c.turn()
	if !strings.HasSuffix(string(answered.out), "ok") {
		t.Fatalf("it is answered %q", answered.out)
	}
	c.install(2)
	c.asks(c.known("low", 2), "low") // so that the loop is behind
	c.read()
	c.asks(answered, "answered")
	c.allAsk(low, "low")
	c.lateTurn()
	if read := c.read(); read != "low low low low answered" {
		t.Errorf("the turn read %q", read)
	}
}

// Were the lines served twice in a turn after that, they would be ever after.
func TestALineThatEmptiesAndFillsIsServedOnceATurn(t *testing.T) {
	c := newCrowd(t)
	low := c.many("low", 2, 9)
	c.asks(low[0], "low")
	c.events = append(c.events, reactor.Event{Token: low[0].token, Readable: true, PeerEnded: true})
	c.allAsk(low[1:], "low")
	c.read()
	c.lateTurn()
	if read := c.read(); read != "low low low low" {
		t.Errorf("one turn read %q, want four", read)
	}
}

func TestWhoWaitsInLineIsReadWhenAReloadEndsAdmission(t *testing.T) {
	c := newCrowd(t)
	low := c.many("low", 2, 9)
	c.allAsk(low, "low")
	c.lateTurn()
	c.read()
	c.endAdmission()
	c.turn()
	if read := c.read(); strings.Count(read, "low") != 5 {
		t.Errorf("after the reload %q are read, want the five that waited", read)
	}
}
