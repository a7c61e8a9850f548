package proxy_test

import (
	"strings"
	"testing"
	"time"

	"plimsoll/internal/admission"
	"plimsoll/internal/reactor"
)

// underWay begins n exchanges of a class while the loop has little to do.
func (c *crowd) underWay(class uint8, n int) (all []asked) {
	c.t.Helper()
	c.install(class)
	for range n {
		client := c.client(silence)
		client.in = saying(silence, ask)
		c.tell(client)
		for range 3 {
			c.turn()
		}
		all = append(all, asked{client, c.dialed[len(c.dialed)-1]})
		if len(c.dialed) < len(all) || c.dialed[len(c.dialed)-1].sends != 1 {
			c.t.Fatalf("request %d is not sent: %q", len(all), client.out)
		}
	}
	return all
}

// answer has the responses come of exchanges that are under way.
func (c *crowd) answer(all []asked, name string) {
	for _, a := range all {
		c.sends(a.target, name, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	}
}

// answered counts the clients that have been given the response.
func answered(all []asked) (n int) {
	for _, a := range all {
		if strings.HasPrefix(string(a.client.out), "HTTP/1.1 200 OK\r\n") &&
			strings.HasSuffix(string(a.client.out), "\r\n\r\nok") {
			n++
		}
	}
	return n
}

// many are so many events that a turn has more to do than it should.
const many = 40

func TestInACrowdedTurnResponsesOfLowerClassesAreReadLast(t *testing.T) {
	c := newCrowd(t)
	low, high := c.underWay(2, many), c.underWay(0, 1)
	c.answer(low, "low")
	c.answer(high, "high")
	c.turn()
	if read := c.read(); read != "high"+strings.Repeat(" low", many) {
		t.Errorf("the turn read %q", read)
	}
	if n := answered(low) + answered(high); n != many+1 {
		t.Errorf("%d of %d clients are answered", n, many+1)
	}
}

func TestInACrowdedTurnAResponseIsNotReadForAClientThatGivesUp(t *testing.T) {
	c := newCrowd(t)
	low := c.underWay(2, many)
	c.answer(low, "low")
	c.leave(low[0].client)
	c.turn()
	if n := answered(low); n != many-1 || len(low[0].client.out) > 0 || !low[0].target.closed {
		t.Errorf("%d of the other %d are answered, and the first gets %q", n, many-1, low[0].client.out)
	}
}

// A target that speaks before it is asked does not answer.
func TestInACrowdedTurnWhatComesBeforeTheRequestIsSentIsNotItsResponse(t *testing.T) {
	c := newCrowd(t)
	low := c.underWay(2, many)
	again := c.underWay(0, 1)[0] // its next request does not wait
	c.answer([]asked{again}, "")
	c.turn()
	c.install(2)
	dialed, answers := len(c.dialed), len(again.client.out)
	c.asks(again.client, "again") // batched in this turn, to the only idle connection
	c.sends(again.target, "unasked", "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
	c.answer(low, "low")
	for range 4 {
		c.turn()
	}
	if out := string(again.client.out[answers:]); out != "" || !again.target.closed {
		t.Errorf("the client is answered %q", out)
	}
	if len(c.dialed) != dialed+1 || c.dialed[dialed].sends != 1 {
		t.Error("its request is not sent over another connection")
	}
}

func TestResponsesAreReadAsTheyComeWhileThereIsLittleToDo(t *testing.T) {
	c := newCrowd(t)
	low, high := c.underWay(2, 3), c.underWay(0, 1)
	c.answer(low, "low")
	c.answer(high, "high")
	c.turn()
	if read := c.read(); read != "low low low high" {
		t.Errorf("the turn read %q", read)
	}
}

func TestInACrowdedTurnRequestsOfTheHighestClassAreReadFirst(t *testing.T) {
	c, high := crowded(t)
	c.turn()
	if read := c.read(); read != "high new new new new" {
		t.Errorf("the turn read %q", read)
	}
	if n := c.refused(); n != 0 || len(high.out) == 0 {
		t.Errorf("%d are refused", n)
	}
}

// A crowd that comes once is served, if slowly.
func TestASingleCrowdedTurnIsNoReasonToRefuse(t *testing.T) {
	c, _ := crowded(t)
	for range many / 4 {
		c.now += int64(2 * time.Millisecond)
		c.cpu += int64(2 * time.Millisecond)
		c.turn()
	}
	if n := strings.Count(c.read(), "new"); n != many || c.refused() != 0 {
		t.Errorf("%d of %d are read, and %d refused", n, many, c.refused())
	}
}

func TestWhoStillWaitsLongAfterACrowdedTurnIsRefused(t *testing.T) {
	c, _ := crowded(t)
	c.turn()
	c.now += int64(40 * time.Millisecond)
	c.cpu += int64(40 * time.Millisecond)
	c.turn()
	if n := c.refused(); n != 4 {
		t.Errorf("%d are refused, want the four that this turn read", n)
	}
}

// crowded is a turn to come with requests of many new clients and then one of the highest class.
func crowded(t *testing.T) (c *crowd, high *sock) {
	c = newCrowd(t)
	known := c.underWay(0, 1)
	c.answer(known, "")
	c.turn()
	c.install(2)
	var fresh []*sock
	for range many {
		fresh = append(fresh, c.client(silence))
	}
	c.read()
	c.allAsk(fresh, "new")
	c.asks(known[0].client, "high")
	return c, known[0].client
}

// refused counts the clients that the instance refused.
func (c *crowd) refused() (n int) {
	for _, s := range c.socks {
		if strings.Contains(string(s.out), "HTTP/1.1 503 ") {
			n++
		}
	}
	return n
}

// The timer of a connection in its line may fire before the line is served.
func TestAConnectionInALineEndsWhenItsTimeIsUpJustAfterAReloadEndsAdmission(t *testing.T) {
	c := newCrowd(t)
	low := c.underWay(2, many)
	c.answer(low, "")
	c.turn()
	c.now += int64(time.Hour - 20*time.Millisecond) // of the idle timeout of an hour
	for _, a := range low {
		c.asks(a.client, "low")
	}
	c.turn()
	c.now += int64(25 * time.Millisecond)
	c.endAdmission()
	c.turn()
	if n := strings.Count(c.read(), "low"); n != many {
		t.Errorf("%d of %d are read", n, many)
	}
}

func TestInShadowModeNoResponseWaits(t *testing.T) {
	c := newCrowd(t)
	low, high := c.underWay(2, many), c.underWay(0, 1)
	s := c.snapshot(c.upstream)
	s.Admission = admission.NewSheddingPlan(admission.Options{Delay: c.delay, Shadow: true, Used: [admission.Classes]bool{0: true, 2: true}})
	c.loop.Post(func() { c.acceptor.Worker.Install(s) })
	c.turn()
	c.answer(low, "low")
	c.answer(high, "high")
	c.turn()
	if read := c.read(); read != strings.Repeat("low ", many)+"high" {
		t.Errorf("the turn read %q", read)
	}
}

// leave has clients end their connections.
func (c *crowd) leave(clients ...*sock) {
	for _, s := range clients {
		c.events = append(c.events, reactor.Event{Token: s.token, Readable: true, PeerEnded: true})
	}
}

// Closing them all would keep the loop from the others for as long.
func TestClientsThatGiveUpInTheirLineAtOnceAreClosedAFewInATurn(t *testing.T) {
	c := newCrowd(t)
	low, high := c.many("low", 2, many), c.known("high", 0)
	c.install(2)
	c.allAsk(low, "low")
	c.lateTurn()
	c.read()
	before := closed(low)
	c.leave(low...)
	c.asks(high, "high")
	c.lateTurn()
	if read, n := c.read(), closed(low)-before; read != "high" || n != 4 {
		t.Errorf("%q are read, and %d connections closed, want four", read, n)
	}
	for range many {
		c.lateTurn()
	}
	if n := closed(low); n != many || c.read() != "" {
		t.Errorf("%d of %d connections are closed in the end", n, many)
	}
}

func TestClientsThatGaveUpInTheirLineAreClosedWhenAReloadEndsAdmission(t *testing.T) {
	c := newCrowd(t)
	low := c.many("low", 2, many)
	c.allAsk(low, "low")
	c.lateTurn()
	c.leave(low...)
	c.lateTurn()
	c.endAdmission()
	c.turn()
	if n := closed(low); n != many {
		t.Errorf("%d of %d are closed", n, many)
	}
}

func TestClientsThatGiveUpDuringTheirExchangesAreClosedAtOnce(t *testing.T) {
	c := newCrowd(t)
	var clients, targets []*sock
	for _, a := range c.underWay(2, many) {
		clients, targets = append(clients, a.client), append(targets, a.target)
	}
	c.leave(clients...)
	c.turn()
	if n, m := closed(clients), closed(targets); n != many || m != many {
		t.Errorf("%d and %d of %d are closed", n, m, many)
	}
}
