// Command notices tells a skipper which notices to mariners he has not read. It has Redis take the
// set of those that he has read from the set of all that were ever given out, so that Redis looks at
// each of them, on its one thread. Nothing is shown.
//
// Cured, a set has what each skipper has not read.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"

	"github.com/redis/rueidis"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	skippers = 24
	notices  = 6000 // were given out
	unread   = 12   // are new to each skipper
)

// byDifference is the disease.
func byDifference(client rueidis.Client, skipper int) rueidis.Completed {
	return client.B().Sdiff().Key("notices", fmt.Sprintf("read:%d", skipper)).Build()
}

func bySet(client rueidis.Client, skipper int) rueidis.Completed {
	return client.B().Smembers().Key(fmt.Sprintf("unread:%d", skipper)).Build()
}

// fill has each skipper read all notices but some.
func fill(ctx context.Context, client rueidis.Client) error {
	all := make([]string, notices)
	for i := range all {
		all[i] = "notice-" + strconv.Itoa(1000+i)
	}
	commands := []rueidis.Completed{client.B().Sadd().Key("notices").Member(all...).Build()}
	for skipper := range skippers {
		read, left := fmt.Sprintf("read:%d", skipper), fmt.Sprintf("unread:%d", skipper)
		first := 1 + 100*skipper
		commands = append(commands,
			client.B().Sadd().Key(read).Member(all[:first]...).Member(all[first+unread:]...).Build(),
			client.B().Sadd().Key(left).Member(all[first:first+unread]...).Build())
	}
	for _, done := range client.DoMulti(ctx, commands...) {
		if err := done.Error(); err != nil {
			return fmt.Errorf("fill Redis: %w", err)
		}
	}
	return nil
}

func open(p *ward.Patient) (http.Handler, error) {
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
		return nil, err
	}
	find := byDifference
	if p.Cured {
		find = bySet
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		skipper := rand.IntN(skippers)
		found, err := client.Do(r.Context(), find(client, skipper)).AsStrSlice()
		if err != nil || len(found) != unread {
			http.Error(w, fmt.Sprint(len(found), " notices: ", err), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, skipper, found, work.Do(3))
	}), nil
}

func main() { ward.Main(open) }
