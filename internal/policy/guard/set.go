package guard

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

const (
	scanCount = 1000            // members per step, about: Redis serves others between steps
	scanTime  = 5 * time.Second // for one step
	// maxScans bounds the steps, in case a set grows as fast as it is read. It allows as many steps
	// as for a set of MaxKeys of which all but a hundredth were removed, and whose table Redis has
	// not shrunk yet.
	maxScans = 100
	// leastRead is the share of the members that a scan must find. A scan finds all members that
	// exist from its beginning to its end. If it finds fewer, the set was removed meanwhile, and a
	// list of the rest would refuse existing keys. The margin is for keys that are added and
	// removed during the scan.
	leastRead = .9
)

// readSet returns the hashes of the members of a set in Redis. Some members come twice while Redis
// moves them. They are counted twice and take room, but do no harm.
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

// members is the number of members of the set.
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
