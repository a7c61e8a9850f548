// Command scuppers tells the crew of a ship when one of its scuppers will be cleared. A navy clears
// them in the order in which they were reported. Those that wait are a list in Redis, and LPOS
// finds the place of one. It walks along the list from its head and compares each scupper on the
// way, and Redis does nothing else meanwhile. Eighty thousand are in the list, so the commands of
// all requests queue up behind that one.
//
// Cured, the scuppers that wait are a sorted set, by when they were reported, and ZRANK finds the
// place of one in a few steps.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"github.com/redis/rueidis"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	// Ships of so many scuppers are in the navy, and all of these wait.
	ships, scuppersEach = 2000, 40
	waiting             = ships * scuppersEach
	// workers clear one scupper each at a time, and that takes them a while.
	workers   = 300
	clearance = 5 * time.Minute
	// batch is how many scuppers are sent to Redis in one command when the queue is made.
	batch = 500
)

func main() { ward.Main(navy) }

func navy(p *ward.Patient) (http.Handler, error) {
	address := os.Getenv("PATIENT_REDIS")
	if address == "" {
		return nil, errors.New("PATIENT_REDIS is not set: give it as HOST:PORT")
	}
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:  []string{address},
		DisableCache: true,
	})
	if err != nil {
		return nil, fmt.Errorf("PATIENT_REDIS: %w", err)
	}
	p.OnEnd(client.Close)
	var q queue = list{client}
	if p.Cured {
		q = sortedSet{client}
	}
	if err := fill(p.Context, client, q); err != nil {
		return nil, fmt.Errorf("make the queue: %w", err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scupper := name(rand.IntN(waiting))
		place, err := q.place(r.Context(), scupper)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		asked, err := count(r.Context(), client, scupper)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		wait := time.Duration(place/workers+1) * clearance
		fmt.Fprintf(w, "%s: %d before it, cleared in %v, asked for %d times\n%s\n",
			scupper, place, wait, asked, work.Do(2))
	}), nil
}

// name is the name of the scupper that was reported as number n.
func name(n int) string { return fmt.Sprintf("ship %04d scupper %02d", n%ships, n/ships) }

// count notes that a crew asked, and returns how often that was.
func count(ctx context.Context, client rueidis.Client, scupper string) (int64, error) {
	asked, err := client.Do(ctx,
		client.B().Hincrby().Key("enquiries").Field(scupper).Increment(1).Build()).AsInt64()
	if err != nil {
		return 0, fmt.Errorf("count the enquiry: %w", err)
	}
	return asked, nil
}

// fill reports all scuppers, in their order.
func fill(ctx context.Context, client rueidis.Client, q queue) error {
	if err := client.Do(ctx, client.B().Del().Key(key, "enquiries").Build()).Error(); err != nil {
		return err
	}
	for first := 0; first < waiting; first += batch {
		if err := q.report(ctx, first, min(first+batch, waiting)); err != nil {
			return err
		}
	}
	return nil
}

// key is where the queue is.
const key = "waiting"

// queue is the scuppers that wait.
type queue interface {
	// report adds the scuppers from first until before end.
	report(ctx context.Context, first, end int) error
	// place is how many are before one.
	place(ctx context.Context, scupper string) (int64, error)
}

// list is a queue that is a list.
type list struct{ rueidis.Client }

func (l list) report(ctx context.Context, first, end int) error {
	command := l.B().Rpush().Key(key).Element()
	for n := first; n < end; n++ {
		command = command.Element(name(n))
	}
	return l.Do(ctx, command.Build()).Error()
}

func (l list) place(ctx context.Context, scupper string) (int64, error) {
	place, err := l.Do(ctx, l.B().Lpos().Key(key).Element(scupper).Build()).AsInt64()
	if err != nil {
		return 0, fmt.Errorf("find %s: %w", scupper, err)
	}
	return place, nil
}

// sortedSet is a queue that is a sorted set, by when a scupper was reported.
type sortedSet struct{ rueidis.Client }

func (s sortedSet) report(ctx context.Context, first, end int) error {
	command := s.B().Zadd().Key(key).ScoreMember()
	for n := first; n < end; n++ {
		command = command.ScoreMember(float64(n), name(n))
	}
	return s.Do(ctx, command.Build()).Error()
}

func (s sortedSet) place(ctx context.Context, scupper string) (int64, error) {
	place, err := s.Do(ctx, s.B().Zrank().Key(key).Member(scupper).Build()).AsInt64()
	if err != nil {
		return 0, fmt.Errorf("find %s: %w", scupper, err)
	}
	return place, nil
}
