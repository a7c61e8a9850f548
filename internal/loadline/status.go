// Package loadline estimates how much the instance and the services behind it can carry, and how
// close the present load is to that. It observes the live traffic and sends none of its own. It
// works on counts that other packages pass in, and must not know sockets, loops or the
// configuration.
package loadline

// Status is the estimator's present state.
type Status struct {
	// Rate: requests a second that the instance answers now
	Rate float64 `json:"rate_per_second"`
	// Limit is the estimate with the least headroom, by its Name; empty while none is known.
	Limit string `json:"limit,omitempty"`
	// Headroom is the headroom of that estimate.
	Headroom *Interval `json:"headroom,omitempty"`
	// Instance: "gateway cpu", "descriptors", "memory"
	Instance []Estimate `json:"instance"`
	// Upstreams has one estimate for each upstream, in the order of their names.
	Upstreams []Estimate `json:"upstreams"`
	// Routes is the processor time that a request of each route costs, the routes with the most
	// requests first. It is absent while the loops are too idle to say.
	Routes []RouteCost `json:"routes,omitempty"`
}

// Estimate is how much one resource can carry, at the present mix of requests.
type Estimate struct {
	Name string `json:"name"` // "gateway cpu", or the upstream's
	// Rate: requests a second that use the resource now
	Rate float64 `json:"rate_per_second"`
	// Capacity: requests a second at which the resource is used up, or at which objectives are no
	// longer met. While it is unknown it is nil, and Why says what is missing.
	Capacity *Interval `json:"capacity_per_second,omitempty"`
	// Headroom is 1 − Rate ÷ Capacity, at least 0.
	Headroom *Interval `json:"headroom,omitempty"`
	// Age: seconds since the newest traffic that the estimate rests on
	Age float64 `json:"age_seconds"`
	How string  `json:"how,omitempty"` // what the estimate rests on, for people
	Why string  `json:"why,omitempty"` // what is missing, for people
}

// Interval is an estimate with its 95 % confidence interval.
type Interval struct {
	Low      float64 `json:"low"`
	Estimate float64 `json:"estimate"`
	High     float64 `json:"high"`
}
