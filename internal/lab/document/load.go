package document

import (
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/replay"
	"plimsoll/internal/lab/text"
)

// Load is printed by load.
type Load struct {
	Head
	Target   string            `json:"target"`
	Settings map[string]string `json:"settings"`
	Early    string            `json:"early,omitempty"` // why it ended before it was done
	Rate     float64           `json:"rate_per_second"` // requests due
	Goodput  float64           `json:"goodput_per_second"`
	Ended    measure.Tally     `json:"ended"`
	// Response is the time from the intended start of a request to the last byte of its answer,
	// Service the time from its sending.
	Response Percentiles    `json:"response_ms"`
	Service  Percentiles    `json:"service_ms"`
	Requests []Request      `json:"requests"` // each kind of request of a mix
	Totals   measure.Totals `json:"totals"`
}

// Replay is printed by replay.
type Replay struct {
	Load
	Log Log `json:"log"`
}

// Log says what happened to a replayed log.
type Log struct {
	Stats *replay.Stats `json:"stats"`
	Kept  *text.Kept    `json:"kept"`
}

// Request has the results of one kind of request of a mix.
type Request struct {
	Name     string        `json:"name"`
	Ended    measure.Tally `json:"ended"`
	Response Percentiles   `json:"response_ms"`
}

// Percentiles are in milliseconds. A failed request counts as slower than all others; a percentile
// among the failed ones is null. Mean and Max only cover requests that did not fail.
type Percentiles struct {
	Mean  float64  `json:"mean"`
	P50   *float64 `json:"p50"`
	P75   *float64 `json:"p75"`
	P90   *float64 `json:"p90"`
	P99   *float64 `json:"p99"`
	P999  *float64 `json:"p99_9"`
	P9999 *float64 `json:"p99_99"`
	Max   float64  `json:"max"`
}

// NewLoad makes the document of a finished load. early says why it ended early; empty if it did
// not.
func NewLoad(target string, settings map[string]string, t *measure.Totals, early string) Load {
	return newLoad("load", target, settings, t, early)
}

// NewReplay makes the document of a replayed log.
func NewReplay(
	target string, settings map[string]string, t *measure.Totals, early string, log Log,
) Replay {
	return Replay{newLoad("replay", target, settings, t, early), log}
}

func newLoad(
	command, target string, settings map[string]string, t *measure.Totals, early string,
) Load {
	l := Load{
		Head:     head(command),
		Target:   target,
		Settings: settings,
		Early:    early,
		Rate:     t.Rate(),
		Goodput:  t.Goodput(),
		Ended:    t.Ended,
		Response: percentiles(t.Ended, t.Response),
		Service:  percentiles(t.Ended, t.Service),
		Requests: []Request{},
		Totals:   *t,
	}
	for _, r := range t.Requests {
		l.Requests = append(l.Requests, Request{r.Name, r.Ended, percentiles(r.Ended, r.Response)})
	}
	return l
}

// percentiles computes the percentiles of a kind of duration.
func percentiles(ended measure.Tally, of measure.Sparse) Percentiles {
	t := measure.Totals{Ended: ended, Response: of}
	at := func(q float64) *float64 {
		ns, ok := t.Quantile(q)
		if !ok {
			return nil
		}
		return new(milliseconds(float64(ns)))
	}
	return Percentiles{
		Mean:  milliseconds(of.Mean()),
		Max:   milliseconds(float64(of.Max)),
		P50:   at(.5),
		P75:   at(.75),
		P90:   at(.9),
		P99:   at(.99),
		P999:  at(.999),
		P9999: at(.9999),
	}
}

func milliseconds(ns float64) float64 { return ns / 1e6 }
