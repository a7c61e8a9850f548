package limit

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"plimsoll/internal/exchange"
	"plimsoll/internal/redis"
)

// Indexes of the series.
const (
	seriesDecisions = iota
	seriesQueued
	seriesOverflowed
	seriesValues
	seriesUnavailable
)

// Series are the metrics of this kind of policy.
var Series = []exchange.Series{
	seriesDecisions: {Name: "limit_decisions_total",
		Help:   "Requests that a limit counted (allowed), refused, or would refuse if it did not only count.",
		Labels: []string{"limit", "result"}},
	seriesQueued: {Name: "limit_queued_total", Help: "Requests that waited for their turn, by limit.",
		Labels: []string{"limit"}},
	seriesOverflowed: {Name: "limit_overflowed_total",
		Help:   "Requests whose value found no place of its own and shared a bucket with others, by limit.",
		Labels: []string{"limit"}},
	seriesValues: {Name: "limit_values", Help: "Values of which a limit counts something at present.",
		Labels: []string{"limit"}},
	seriesUnavailable: {Name: "limit_unavailable_total",
		Help:   "Requests for which Redis did not answer a shared limit in time, by limit.",
		Labels: []string{"limit"}},
}

// Metrics emits the values of Series.
func (p *Policy) Metrics(emit func(series int, value float64, labels ...string)) {
	for _, l := range p.limits {
		s := l.status()
		emit(seriesDecisions, float64(s.Allowed), l.Name, "allowed")
		emit(seriesDecisions, float64(s.Refused), l.Name, "refused")
		emit(seriesDecisions, float64(s.WouldRefuse), l.Name, "would_refuse")
		emit(seriesQueued, float64(s.Queued), l.Name)
		emit(seriesOverflowed, float64(s.Overflowed), l.Name)
		emit(seriesValues, float64(s.Values), l.Name)
		if s.Shared != nil {
			emit(seriesUnavailable, float64(s.Shared.Unavailable), l.Name)
		}
	}
}

// Status is what the admin API shows about a limit.
type Status struct {
	Name      string `json:"name"`
	Algorithm string `json:"algorithm"`
	Key       string `json:"key,omitempty"`
	Rate      string `json:"rate"`
	Burst     int64  `json:"burst,omitempty"`
	Cost      int64  `json:"cost"`
	DryRun    bool   `json:"dry_run,omitempty"`
	// Changed says that the rate or the burst differs from the configuration's.
	Changed bool `json:"changed"`
	// OverridesChanged is how many overrides were changed or added at run time.
	OverridesChanged int `json:"overrides_changed,omitempty"`

	Allowed     int64 `json:"allowed"`
	Refused     int64 `json:"refused"`
	WouldRefuse int64 `json:"would_refuse"`
	Queued      int64 `json:"queued"`
	Overflowed  int64 `json:"overflowed"`
	// Values is how many values have something counted at present, Places how many can be counted
	// apart.
	Values     int          `json:"values"`
	Places     int          `json:"places"`
	TopRefused []TopRefused `json:"top_refused"`
	// Shared is set if other instances share the limit.
	Shared *SharedStatus `json:"shared,omitempty"`
}

// SharedStatus says how a limit is shared. Values and Places then count this instance's leases, or
// what it counts while Redis is away.
type SharedStatus struct {
	Mode        string       `json:"mode"`
	Batch       int64        `json:"batch,omitempty"`
	Unavailable int64        `json:"unavailable"` // requests for which Redis did not answer
	Store       redis.Status `json:"store"`
}

// statusList is what the policy shows.
type statusList struct {
	Limits []Status `json:"limits"`
}

// TopRefused is a value that was refused often.
type TopRefused struct {
	Value string `json:"value"`
	Count int64  `json:"count"`
}

// Status lists the limits in the configuration's order.
func (p *Policy) Status() any {
	byPosition := func(a, b *limit) int { return cmp.Compare(a.position, b.position) }
	limits := slices.SortedFunc(slices.Values(p.limits), byPosition)
	said := statusList{make([]Status, len(limits))}
	for i, l := range limits {
		s := l.status()
		s.TopRefused = []TopRefused{}
		for _, e := range l.topRefused() {
			s.TopRefused = append(s.TopRefused, TopRefused{l.shownValue(&e), e.count})
		}
		said.Limits[i] = s
	}
	return said
}

func (l *limit) status() Status {
	l.mu.Lock()
	store, changed, overridden := l.store.Load(), l.set, len(l.overridden)
	l.mu.Unlock()
	rules := store.rules.Load()
	s := Status{
		Name: l.Name, Algorithm: l.Algorithm.String(), Key: l.Key,
		Rate: rules.rate.String(), Burst: rules.burst, Cost: rules.cost, DryRun: l.DryRun,
		Changed: changed, OverridesChanged: overridden, Places: store.places(),
		Allowed:     l.sum(func(s *loopStats) *count { return &s.allowed }),
		Refused:     l.sum(func(s *loopStats) *count { return &s.refused }),
		WouldRefuse: l.sum(func(s *loopStats) *count { return &s.wouldRefuse }),
		Queued:      l.sum(func(s *loopStats) *count { return &s.queued }),
		Overflowed:  l.sum(func(s *loopStats) *count { return &s.overflowed }),
	}
	now := l.now()
	if l.Shared != nil {
		l.addShared(&s, now)
	}
	if store.table != nil {
		s.Values += store.table.held(store.rules, now)
	}
	for _, o := range store.overrides {
		if w := o.state.Load(); isLive(w) && !o.params.Load().idle(w, now) {
			s.Values++
		}
	}
	return s
}

// addShared adds the facts about a shared limit.
func (l *limit) addShared(s *Status, now int64) {
	s.Rate, s.Burst = l.params.rate.String(), l.params.burst
	s.Allowed += l.aside.allowed.Load()
	s.WouldRefuse += l.aside.wouldRefuse.Load()
	s.Shared = &SharedStatus{
		Mode: "exact", Batch: l.batch, Store: l.Shared.Store.Status(),
		Unavailable: l.sum(func(s *loopStats) *count { return &s.unavailable }) + l.aside.unavailable.Load(),
	}
	if l.leases != nil {
		s.Shared.Mode = "leased"
		s.Places = l.leases.table.places()
		s.Values = l.leases.table.held(&l.leases.rules, now)
	}
}

// shownValue is a refused value in readable form.
func (l *limit) shownValue(e *topEntry) string {
	switch {
	case e.size == 0 && l.Key == "":
		return "(all)"
	case e.size == 0:
		return "(missing)"
	case l.key.Kind() == exchange.AddressKey && e.size == 16:
		address := netip.AddrFrom16([16]byte(e.value[:16])).Unmap()
		bits := l.Prefix6
		if address.Is4() {
			bits = l.Prefix4
		}
		if bits == address.BitLen() {
			return address.String()
		}
		return netip.PrefixFrom(address, bits).String()
	}
	value, cut := e.value[:e.size], e.cut
	if l.credential() && len(value) > credentialShown {
		value, cut = value[:credentialShown], true
	}
	text := strings.ToValidUTF8(string(value), "\ufffd")
	if cut {
		text += "…"
	}
	return text
}

// credentialShown is how many bytes are shown of a value that may be a credential: enough to tell
// two apart.
const credentialShown = 6

// credential reports whether the values of the key may be credentials.
func (l *limit) credential() bool {
	name := strings.ToLower(l.key.Name())
	return l.key.Kind() == exchange.CookieKey || strings.Contains(name, "auth") ||
		strings.Contains(name, "key") ||
		strings.Contains(name, "token") || strings.Contains(name, "secret")
}

// String is the rate in the form of the configuration.
func (r Rate) String() string {
	for _, unit := range []struct {
		name string
		long time.Duration
	}{{"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}, {"d", 24 * time.Hour}} {
		if r.Per == unit.long {
			return strconv.FormatInt(r.Count, 10) + "/" + unit.name
		}
	}
	return fmt.Sprintf("%d/%s", r.Count, r.Per)
}
