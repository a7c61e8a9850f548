// Command manifests shows what a ship has on board. It makes a client of Redis for each request,
// and closes it, as one does with a file; so each request begins with a new connection, on which
// client and server tell each other who they are. Nothing is shown.
//
// Cured, there is one client.
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
	ships = 400
	lots  = 14 // on board of each
)

// hold is where lots are looked up.
type hold struct {
	options rueidis.ClientOption
	kept    rueidis.Client
}

// client returns a client, and what to do with it afterwards.
func (h *hold) client() (rueidis.Client, func(), error) {
	if h.kept != nil {
		return h.kept, func() {}, nil
	}
	c, err := rueidis.NewClient(h.options)
	if err != nil {
		return nil, nil, err
	}
	return c, c.Close, nil
}

// find returns what is on board of a ship.
func (h *hold) find(ctx context.Context, ship int) (map[string]string, error) {
	c, done, err := h.client()
	if err != nil {
		return nil, err
	}
	defer done()
	return c.Do(ctx, c.B().Hgetall().Key(key(ship)).Build()).AsStrMap()
}

func key(ship int) string { return fmt.Sprintf("manifest:%d", ship) }

// fill loads the ships.
func (h *hold) fill(ctx context.Context) error {
	c, done, err := h.client()
	if err != nil {
		return err
	}
	defer done()
	for ship := range ships {
		load := c.B().Hset().Key(key(ship)).FieldValue()
		for lot := range lots {
			load = load.FieldValue(fmt.Sprintf("lot-%02d", lot), fmt.Sprint(ship*lot%97, " t of tea"))
		}
		if err := c.Do(ctx, load.Build()).Error(); err != nil {
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
	h := &hold{options: rueidis.ClientOption{InitAddress: []string{address}, DisableCache: true}}
	if p.Cured {
		c, err := rueidis.NewClient(h.options)
		if err != nil {
			return nil, fmt.Errorf("PATIENT_REDIS: %w", err)
		}
		h.kept = c
		p.OnEnd(c.Close)
	}
	if err := h.fill(p.Context); err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ship := rand.IntN(ships)
		found, err := h.find(r.Context(), ship)
		if err != nil || len(found) != lots {
			http.Error(w, fmt.Sprint(len(found), " lots: ", err), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, ship, found, work.Do(3))
	}), nil
}

func main() { ward.Main(open) }
