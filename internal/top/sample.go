package top

import (
	"time"

	"plimsoll/internal/hist"
	"plimsoll/internal/loadline"
)

// sample is what a gateway said of itself at about one moment. The types name what top uses of the
// API's answers and pass over the rest.
type sample struct {
	ready       readySample
	routes      []routeSample
	routesAt    time.Time // when that was known
	upstreams   []upstreamSample
	upstreamsAt time.Time
	line        *loadline.Status // nil where the gateway has no estimate
}

type readySample struct {
	State string `json:"state"`
	Lacks string `json:"error"`
}

type routeSample struct {
	Name     string            `json:"name"`
	Class    string            `json:"class"`
	Requests uint64            `json:"requests"`
	Codes    map[string]uint64 `json:"codes"`
	Refused  map[string]uint64 `json:"refused"`
	Cells    []hist.Cell       `json:"duration_histogram"`
	SLO      *struct {
		Windows []struct {
			Window   string  `json:"window"`
			Requests uint64  `json:"requests"`
			Burn     float64 `json:"burn"`
		} `json:"windows"`
	} `json:"slo"`
	Policies struct {
		Limits struct {
			Limits []limitSample `json:"limits"`
		} `json:"limits"`
		Concurrency *concurrencySample `json:"concurrency"`
	} `json:"policies"`
}

// concurrencySample is of a route that bounds how many of its requests are under way.
type concurrencySample struct {
	UnderWay    int    `json:"under_way"`
	Max         int    `json:"max"`
	MaxPerValue int    `json:"max_per_value"`
	RouteFull   uint64 `json:"route_full"`
	ClientFull  uint64 `json:"client_full"`
}

type limitSample struct {
	Name        string `json:"name"`
	Rate        string `json:"rate"`
	DryRun      bool   `json:"dry_run"`
	Changed     bool   `json:"changed"`
	Allowed     uint64 `json:"allowed"`
	Refused     uint64 `json:"refused"`
	WouldRefuse uint64 `json:"would_refuse"`
}

type upstreamSample struct {
	Name        string            `json:"name"`
	States      map[string]int    `json:"targets_by_state"`
	Panicking   bool              `json:"panicking"`
	Outstanding int               `json:"outstanding"`
	Waiting     int               `json:"waiting_for_a_connection"`
	Requests    uint64            `json:"requests"`
	Codes       map[string]uint64 `json:"codes"`
	Cells       []hist.Cell       `json:"duration_histogram"`
	// Concurrency is the sum of its targets' limits, MaxConcurrency the bound on all of them.
	Concurrency    *placesSample  `json:"concurrency"`
	MaxConcurrency *placesSample  `json:"max_concurrency"`
	Breakers       map[string]int `json:"breakers_by_state"`
}

type placesSample struct {
	Limit int `json:"limit"`
	Used  int `json:"used"`
}

type loopSample struct {
	Loop     int     `json:"loop"`
	Busy     float64 `json:"busy"`
	Requests float64 `json:"requests_per_second"`
	InFlight int64   `json:"requests_in_flight"`
}
