package top

import (
	"time"

	"plimsoll/internal/lab/document"
)

// Figures are what a gateway did in an interval. They are what top prints as JSON too. What is not
// known is absent: a rate has a value only when the gateway ran all the time.
type Figures struct {
	Address string    `json:"address"`
	Taken   time.Time `json:"taken_at"`
	Length  float64   `json:"interval_seconds"`
	Gateway Instance  `json:"gateway"`
	// Upstreams and Routes are in the gateway's order.
	Upstreams []Upstream `json:"upstreams"`
	Routes    []Route    `json:"routes"`
	// Notes are for a person: what could not be determined, and why.
	Notes []string `json:"notes,omitempty"`
}

// Instance is the gateway as a whole.
type Instance struct {
	State    string   `json:"state"` // "serving", "draining", …
	Lacks    string   `json:"not_ready_why,omitempty"`
	Rate     *float64 `json:"rate_per_second,omitempty"`
	InFlight *int64   `json:"in_flight,omitempty"`
	Loops    []Loop   `json:"loops,omitempty"`
	Headroom
	// Limit is what the headroom is of: the resource that has the least.
	Limit string `json:"limit,omitempty"`
}

// Loop is an event loop.
type Loop struct {
	Loop int     `json:"loop"`
	Busy float64 `json:"busy_share"`
	Rate float64 `json:"rate_per_second"`
}

// Headroom is the share of a capacity that is free, or why nobody knows.
type Headroom struct {
	Headroom *Interval `json:"headroom_share,omitempty"`
	Age      *float64  `json:"headroom_age_seconds,omitempty"`
	Why      string    `json:"headroom_unknown_why,omitempty"`
}

// Interval is an estimate, and the range in which the true value lies with some confidence.
type Interval struct {
	Low        float64 `json:"low"`
	Estimate   float64 `json:"estimate"`
	High       float64 `json:"high"`
	Confidence float64 `json:"confidence"`
}

// Percentiles are of the requests that ended within the interval. They come from a histogram and
// are off by an eighth at most.
type Percentiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// Upstream is a service.
type Upstream struct {
	Name     string       `json:"name"`
	Rate     *float64     `json:"rate_per_second,omitempty"`
	Response *Percentiles `json:"response_ms,omitempty"`
	// Errors is the share of 5xx; absent without requests.
	Errors   *float64 `json:"error_share,omitempty"`
	InFlight int      `json:"in_flight"`
	// Limit is the sum of the concurrency limits of its targets, or max_concurrency where that is
	// less; absent where there is neither.
	Limit   *int `json:"concurrency_limit,omitempty"`
	Waiting int  `json:"waiting"`
	Headroom
	Breakers map[string]int `json:"breakers_by_state,omitempty"`
	Up       int            `json:"targets_up"`
	Targets  int            `json:"targets"`
	States   map[string]int `json:"targets_by_state,omitempty"`
	// Panicking: too few targets are usable, so that those that are down are used too.
	Panicking bool `json:"panicking"`
}

// Route is a route.
type Route struct {
	Name     string       `json:"name"`
	Class    string       `json:"class,omitempty"`
	Rate     *float64     `json:"rate_per_second,omitempty"`
	Response *Percentiles `json:"response_ms,omitempty"`
	// Errors is the share of 5xx; absent without requests.
	Errors *float64 `json:"error_share,omitempty"`
	// Burn is how many times faster than the objective allows requests failed in the last hour.
	Burn *float64 `json:"slo_burn_1h_factor,omitempty"`
	// Busy is for how many microseconds a request keeps a loop of the gateway busy, at the present rate;
	// absent where that is not known, and of routes with few of the requests.
	Busy *Interval `json:"busy_us,omitempty"`
	// Refused are the requests that the gateway refused or cut, or gave a fallback's answer, by its
	// reason.
	Refused []Refusal `json:"refused,omitempty"`
	Limits  []Limit   `json:"limits,omitempty"`
	// Concurrency is absent where nothing bounds how many of the route's requests are under way.
	Concurrency *Concurrency `json:"concurrency,omitempty"`
}

// Concurrency is the bound on a route's requests under way.
type Concurrency struct {
	InFlight int `json:"in_flight"`
	// Limit is of the whole route, and LimitPerValue of each value of a key; 0 for none.
	Limit         int      `json:"concurrency_limit,omitempty"`
	LimitPerValue int      `json:"concurrency_limit_per_value,omitempty"`
	Refused       *float64 `json:"refused_per_second,omitempty"`
}

// Refusal is a reason and how often the gateway had it. The most frequent comes first.
type Refusal struct {
	Reason string  `json:"reason"`
	Rate   float64 `json:"rate_per_second"`
}

// Limit is a rate limit of a route.
type Limit struct {
	Name string `json:"name"`
	Rate string `json:"rate"` // as configured: "50/s"
	// Changed says that the rate is not the configuration's.
	Changed bool `json:"changed"`
	// DryRun says that it only counts: Refused is what it would refuse.
	DryRun  bool     `json:"dry_run"`
	Allowed *float64 `json:"allowed_per_second,omitempty"`
	Refused *float64 `json:"refused_per_second,omitempty"`
}

// Command is the name that documents of top carry.
const Command = "top"

// Document is what top prints with --json.
type Document struct {
	document.Head
	Figures
}

// NewDocument is of these figures.
func NewDocument(f *Figures) Document {
	return Document{document.Head{SchemaVersion: document.SchemaVersion, Command: Command}, *f}
}
