package top

import "time"

var began = time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)

// evil is a name that would clear the screen, turn words around and start a new line.
const evil = "\x1b[2J\x1b]0;x\x07a\u202eb\nc\td\x00\xff"

// some are figures in which everything occurs.
func some() *Figures {
	headroom := func(low, estimate, high float64) Headroom {
		return Headroom{Headroom: &Interval{low, estimate, high, confidence}, Age: new(1.0)}
	}
	return &Figures{
		Address: "http://127.0.0.1:9900", Taken: began, Length: 1.0004,
		Gateway: Instance{State: "serving", Rate: new(12345.6), InFlight: new(int64(1234)),
			Loops:    []Loop{{0, .31, 6000}, {1, .35, 6345.6}},
			Headroom: headroom(.38, .421, .47), Limit: "gateway cpu"},
		Upstreams: []Upstream{
			{Name: "shop", Rate: new(2310.4), Response: &Percentiles{1.24, 23.4}, Errors: new(.002),
				InFlight: 12, Limit: new(64), Headroom: headroom(.5, .58, .66),
				Breakers: map[string]int{"closed": 3}, Up: 3, Targets: 3},
			{Name: "a-service-whose-name-is-longer-than-its-column", Rate: new(.5),
				Response: &Percentiles{123, 4567}, Errors: new(.5), InFlight: 128, Limit: new(128),
				Waiting: 321, Headroom: headroom(0, .04, .2),
				Breakers: map[string]int{"closed": 1, "open": 2, "half-open": 1}, Up: 2, Targets: 4},
			{Name: evil, Headroom: Headroom{Why: "too little traffic"}, Targets: 1,
				Breakers: map[string]int{"forced-open": 1}, Rate: new(0.0)},
			{Name: "新しいサービス", Rate: new(7.25), Response: &Percentiles{.05, .312}, Errors: new(0.0),
				Headroom: headroom(.1, .2, .3), Up: 1, Targets: 1, Panicking: true},
		},
		Routes: []Route{
			{Name: "GET /goods/{id}", Class: "P0", Rate: new(2000.0), Response: &Percentiles{.52, 9.87},
				Errors: new(0.0), Burn: new(.3)},
			{Name: "POST /orders/{customer}/items/{item}", Class: "P1", Rate: new(310.4),
				Response: &Percentiles{12.3, 1234}, Errors: new(.0123), Burn: new(20.5),
				Refused: []Refusal{{"overloaded", 41.2}, {"rate_limited", 3}},
				Limits: []Limit{{Name: "per_client", Rate: "50/s", Changed: true},
					{Name: "all", Rate: "900/m", DryRun: true, Allowed: new(14.2), Refused: new(3.0)}},
				Concurrency: &Concurrency{InFlight: 64, Limit: 64, LimitPerValue: 4, Refused: new(38.5)}},
			{Name: evil, Class: "P2", Burn: new(1.5)},
			{Name: unmatched, Rate: new(1.5), Response: &Percentiles{.04, .05}, Errors: new(0.0),
				Refused: []Refusal{{"no_route", 1.5}}},
		},
	}
}
