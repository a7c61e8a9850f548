// Command rediskeys finds a customer's sessions with KEYS, for which Redis looks at every key that
// it has, on its one thread.
//
// Cured, a set has each customer's sessions.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"

	"github.com/redis/rueidis"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	// customers have ten sessions each.
	customers, sessions = 2000, 10
)

func main() { ward.Main(shop) }

func shop(p *ward.Patient) (http.Handler, error) {
	address := os.Getenv("PATIENT_REDIS")
	if address == "" {
		return nil, errors.New("PATIENT_REDIS is not set: give it as 127.0.0.1:6379, " +
			"or let bench/patients.py start one")
	}
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:  []string{address},
		DisableCache: true,
	})
	if err != nil {
		return nil, fmt.Errorf("PATIENT_REDIS: %w", err)
	}
	p.OnEnd(client.Close)
	if err := fill(p.Context, client); err != nil {
		return nil, fmt.Errorf("fill Redis: %w", err)
	}
	find := byKeys
	if p.Cured {
		find = bySet
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		found, err := client.Do(r.Context(), find(client, rand.IntN(customers))).AsStrSlice()
		if err != nil || len(found) != sessions {
			http.Error(w, fmt.Sprint(len(found), " sessions: ", err), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, len(found), work.Do(3))
	}), nil
}

// byKeys is the disease.
func byKeys(client rueidis.Client, customer int) rueidis.Completed {
	return client.B().Keys().Pattern(fmt.Sprintf("session:%d:*", customer)).Build()
}

func bySet(client rueidis.Client, customer int) rueidis.Completed {
	return client.B().Smembers().Key(fmt.Sprintf("sessions:%d", customer)).Build()
}

// fill makes the sessions, and the sets of them.
func fill(ctx context.Context, client rueidis.Client) error {
	for customer := range customers {
		set := fmt.Sprintf("sessions:%d", customer)
		var all []rueidis.Completed
		for n := range sessions {
			key := fmt.Sprintf("session:%d:%d", customer, n)
			all = append(all, client.B().Set().Key(key).Value("x").Build(),
				client.B().Sadd().Key(set).Member(key).Build())
		}
		for _, done := range client.DoMulti(ctx, all...) {
			if err := done.Error(); err != nil {
				return err
			}
		}
	}
	return nil
}
