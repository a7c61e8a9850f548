package gateway

import (
	"time"

	"plimsoll/internal/config"
	"plimsoll/internal/policy/limit"
)

var limitHeaders = map[string]limit.Headers{
	"refused": limit.OnRefused, "always": limit.Always, "never": limit.Never,
}

var limitOtherwise = map[string]limit.Otherwise{
	"local": limit.ByShare, "allow": limit.Allow, "deny": limit.Deny,
}

// limitOptions converts the config to the options of package limit.
func limitOptions(all []config.RateLimit, stores stores) (o limit.Options, err error) {
	for i := range all {
		c := &all[i]
		l := limit.Limit{
			Name: c.Name, Cost: int64(c.Cost.Tokens),
			CostHeader: c.Cost.Header, MaxCost: int64(c.Cost.Max), Key: c.Key,
			Prefix4: c.PrefixV4, Prefix6: c.PrefixV6,
			SkipMissing: c.Missing == "pass", Values: c.Values, Queue: int64(c.Queue),
			MaxWait: time.Duration(c.MaxWait), DryRun: c.DryRun, Headers: limitHeaders[c.Headers],
			Overrides: make(map[string]limit.Override, len(c.Overrides)),
		}
		if l.Algorithm, err = limit.ParseAlgorithm(c.Algorithm); err != nil {
			return o, err
		}
		if l.Rate, err = limitRate(c.Rate); err != nil {
			return o, err
		}
		if c.Burst != nil {
			l.Burst = int64(*c.Burst)
		}
		for value, c := range c.Overrides {
			override := limit.Override{}
			if override.Rate, err = limitRate(c.Rate); err != nil {
				return o, err
			}
			if c.Burst != nil {
				override.Burst = int64(*c.Burst)
			}
			l.Overrides[value] = override
		}
		if s := c.Shared; s != nil {
			l.Shared = &limit.Shared{
				Store: stores[s.Redis].Store, Leased: s.Mode == "leased", Batch: int64(s.Batch),
				Otherwise: limitOtherwise[s.Unavailable], Instances: int64(s.Instances),
			}
		}
		o.Limits = append(o.Limits, l)
	}
	return o, nil
}

func limitRate(text string) (limit.Rate, error) {
	count, per, err := config.ParseRate(text)
	return limit.Rate{Count: count, Per: per}, err
}
