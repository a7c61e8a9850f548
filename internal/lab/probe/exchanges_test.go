package probe

import (
	"testing"

	"plimsoll/internal/lab/measure"
)

func TestOnlySmallSegmentsThatGoToAndFroAreExchanges(t *testing.T) {
	const ethernet, loopback = 1448, 65483
	for name, c := range map[string]struct {
		data
		want float64
	}{
		"questions":                  {data{20, 20, 2000, 8000, ethernet}, 20},
		"one for several answers":    {data{10, 20, 1000, 8000, ethernet}, 10},
		"nothing comes back":         {data{20, 0, 2000, 0, ethernet}, 0},
		"bodies both ways":           {data{20, 20, 28000, 28000, ethernet}, 0},
		"room for bodies":            {data{40, 1400, 520, 2000000, ethernet}, 0},
		"larger ones on one machine": {data{20, 20, 2000, 50000, loopback}, 20},
		"room for bodies over TLS":   {data{25, 70, 1200, 500000, ethernet}, 0},
		"large rows":                 {data{20, 20, 1600, 120000, loopback}, 20},
		"large rows in segments":     {data{20, 100, 1600, 120000, ethernet}, 20},
		"buffers on one machine":     {data{20, 20, 82000, 82000, loopback}, 0},
		"short ones, large rows":     {data{20, 20, 720, 120000, loopback}, 0},
	} {
		if got := c.exchanges(false); got != c.want {
			t.Errorf("%s: %v exchanges, want %v", name, got, c.want)
		}
	}
}

// A store is sent no frames that only make room for more of a body.
func TestWhatAStoreIsSentIsAQuestionHoweverShort(t *testing.T) {
	if got := (data{20, 20, 720, 120000, 65483}).exchanges(true); got != 20 {
		t.Errorf("%v exchanges, want 20", got)
	}
	if got := (data{20, 20, 82000, 82000, 65483}).exchanges(true); got != 0 {
		t.Errorf("of bodies: %v exchanges", got)
	}
	for to, want := range map[string]bool{
		"192.0.2.7:6379": true, "[2001:db8::1]:5432": true, "192.0.2.7:8080": false, "192.0.2.7:16379": false,
	} {
		if storePort(to) != want {
			t.Errorf("%s: %v", to, !want)
		}
	}
	var x exchanges
	x.found("127.0.0.1:7000", "redis-server")
	x.found("127.0.0.1:7001", "python3")
	if !x.stores["127.0.0.1:7000"] || len(x.stores) != 1 {
		t.Errorf("stores %v", x.stores)
	}
}

func TestExchangesAreTheFewerOfWhatCameSinceTheLastLook(t *testing.T) {
	// Before, 1000 segments were sent and 500 received; since then, 1 and 1000.
	before, now := data{1000, 500, 1000, 500, 1448}, data{1001, 1500, 1001, 1500, 1448}
	if got := now.since(before).exchanges(false); got != 1 {
		t.Errorf("%v exchanges, want 1", got)
	}
	again := data{3, 3, 3, 3, 1448}
	if got := again.since(before).exchanges(false); got != 3 {
		t.Errorf("an inode that is used again has %v exchanges, want 3", got)
	}
}

// looked is the result of one census, by inode: TCP connections with their number of exchanges, and
// Unix sockets.
type looked struct {
	tcp, local map[uint64]uint32
	whole      bool
}

func TestWhatOneCensusMissesIsNotCountedWholeByTheNext(t *testing.T) {
	const path = measure.UnixAddress + "/db"
	all := map[uint64]uint32{1: 100, 2: 200}
	for name, c := range map[string]struct {
		looks       []looked
		want, fresh float64
	}{
		"the first": {[]looked{{all, all, true}}, 0, 0},
		"the same again": {
			[]looked{{all, all, true}, {map[uint64]uint32{1: 101, 2: 203}, all, true}}, 4, 0,
		},
		"a new one": {
			[]looked{{all, all, true}, {map[uint64]uint32{3: 7}, map[uint64]uint32{3: 0}, true}}, 7, 1,
		},
		"one that could not look": {
			[]looked{{all, all, true}, {nil, nil, false}, {all, all, true}}, 0, 0,
		},
		"one that missed some": {
			[]looked{{nil, nil, true}, {nil, nil, false}, {all, all, true}}, 0, 0,
		},
		"one that saw some": {
			[]looked{
				{all, all, true},
				{map[uint64]uint32{1: 101}, map[uint64]uint32{1: 0}, false},
				{map[uint64]uint32{1: 103, 2: 201}, all, true},
			}, 4, 0,
		},
	} {
		var x exchanges
		for _, l := range c.looks {
			x.begin()
			for inode, n := range l.tcp {
				x.add(&candidate{inode: inode, state: established, told: true,
					data: data{n, n, uint64(n), uint64(n), 1448}}, false)
			}
			for inode := range l.local {
				x.add(&candidate{inode: inode, state: established, path: path}, false)
			}
			x.end(l.whole, l.whole)
		}
		if got := x.by[(&candidate{}).to()]; got != c.want {
			t.Errorf("%s: %v exchanges, want %v", name, got, c.want)
		}
		if got := x.received[(&candidate{}).to()]; got != c.want {
			t.Errorf("%s: %v bytes came, want one for each exchange, %v", name, got, c.want)
		}
		if got := x.fresh[path]; got != c.fresh {
			t.Errorf("%s: %v fresh ones, want %v", name, got, c.fresh)
		}
	}
	var x exchanges
	x.begin()
	x.end(true, true)
	x.begin()
	x.add(&candidate{inode: 1, state: established, told: true, data: data{9, 9, 9, 9, 1448}}, true)
	x.add(&candidate{inode: 2, state: established, path: path}, true)
	if x.by[(&candidate{}).to()] != 0 || x.fresh[path] != 0 {
		t.Errorf("connections of a process that was another's before: %v, %v", x.by, x.fresh)
	}
}

// What is under way on the connections of an address now: those that have closed have nothing.
func TestQuestionsAheadOfTheirAnswersAreThoseOfOpenConnections(t *testing.T) {
	var x exchanges
	for _, open := range []map[uint64][2]uint32{{1: {9, 9}, 2: {7, 4}}, {1: {12, 11}}} {
		x.begin()
		for inode, n := range open {
			x.add(&candidate{inode: inode, state: established, told: true,
				data: data{n[0], n[1], 100, 100, 1448}}, false)
		}
		x.end(true, true)
		want := 0.0
		for _, n := range open {
			want += float64(n[0]) - float64(n[1])
		}
		if got := x.ahead[(&candidate{}).to()]; got != want {
			t.Errorf("%v: %v ahead, want %v", open, got, want)
		}
	}
}
