package guard

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

const (
	scanCount = 1000            // members of one step, about: Redis serves others between steps
	scanTime  = 5 * time.Second // for one step
	// maxScans bounds the steps, for a set that grows as fast as it is read: as many as for a set of
	// MaxKeys that has been emptied but for a hundredth, whose table Redis has not made smaller yet.
	maxScans = 100
	// leastRead is the share of the members that a scan must find. It finds all that are there from its
	// begin to its end: less means that the set was removed meanwhile, and a list of the rest would
	// turn away what exists. Keys that come and go while it is read may be the difference.
	leastRead = .9
)

// readSet gives the hashes of the members of a set in Redis. Some come twice while Redis moves
// them: they are counted as often, and take room, but change nothing.
func (s *state) readSet(ctx context.Context) ([]uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	before, err := s.members(ctx)
	if err != nil {
		return nil, fmt.Errorf("set %s: %w", s.o.Set, err)
	}
	var all []uint64
	cursor := uint64(0)
	for steps := 0; ; steps++ {
		if steps > maxScans*(1+s.o.MaxKeys/scanCount) {
			return nil, fmt.Errorf("set %s: it is not read after %d steps; it grows too fast", s.o.Set, steps)
		}
		part, err := s.scan(ctx, cursor)
		if err != nil {
			return nil, fmt.Errorf("set %s: %w", s.o.Set, err)
		}
		for _, key := range part.Elements {
			switch {
			case len(key) > maxKey:
				return nil, fmt.Errorf("set %s: a key is longer than %d bytes", s.o.Set, maxKey)
			case len(all) == s.o.MaxKeys:
				return nil, fmt.Errorf("set %s has more than max_keys, %d", s.o.Set, s.o.MaxKeys)
			}
			all = append(all, s.hash([]byte(key)))
		}
		if cursor = part.Cursor; cursor == 0 {
			break
		}
	}
	after, err := s.members(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("set %s: %w", s.o.Set, err)
	case len(all) == 0 || after == 0:
		return nil, errNoKeys
	case float64(len(all)) < leastRead*float64(min(before, after)):
		return nil, fmt.Errorf("set %s was removed while it was read: of %d keys %d were there; "+
			"make a new one beside it and RENAME that", s.o.Set, min(before, after), len(all))
	}
	return all, nil
}

// members is how many the set has.
func (s *state) members(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, scanTime)
	defer cancel()
	client, err := s.o.Redis.Connect(ctx)
	if err != nil {
		return 0, err
	}
	return client.Do(ctx, client.B().Scard().Key(s.o.Set).Build()).AsInt64()
}

// scan reads one step.
func (s *state) scan(ctx context.Context, cursor uint64) (part rueidis.ScanEntry, err error) {
	ctx, cancel := context.WithTimeout(ctx, scanTime)
	defer cancel()
	client, err := s.o.Redis.Connect(ctx)
	if err != nil {
		return part, err
	}
	step := client.B().Sscan().Key(s.o.Set).Cursor(cursor).Count(scanCount).Build()
	return client.Do(ctx, step).AsScanEntry()
}
