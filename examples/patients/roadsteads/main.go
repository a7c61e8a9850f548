// Command roadsteads names the five anchorages that are nearest to a ship. Since a ship far out at
// sea once found none, GEOSEARCH is given a radius of 900 km, so that Redis computes how far away
// each anchorage of the coast is, and sorts them all, on its one thread; only pprof is shown.
//
// Cured, the radius is 15 km, and 900 km only for who finds fewer than five.
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
	key        = "anchorages"
	anchorages = 10000
	nearest    = 5
	// near and far are radii, in kilometres.
	near, far = 15, 900
)

// coast is where anchorages are, in degrees.
var coast = struct{ west, south, wide, high float64 }{west: 4, south: 53, wide: 6, high: 5}

// finder asks Redis for what is near.
type finder struct {
	client rueidis.Client
	cured  bool
}

// fill spreads the anchorages over the coast.
func (f *finder) fill(ctx context.Context) error {
	add := f.client.B().Geoadd().Key(key).LongitudeLatitudeMember()
	random := rand.New(rand.NewPCG(1, 2))
	for i := range anchorages {
		add = add.LongitudeLatitudeMember(coast.west+coast.wide*random.Float64(),
			coast.south+coast.high*random.Float64(), "anchorage-"+strconv.Itoa(i))
	}
	if err := f.client.Do(ctx, add.Build()).Error(); err != nil {
		return fmt.Errorf("fill Redis: %w", err)
	}
	return nil
}

// within finds the nearest that are not farther away than a radius.
func (f *finder) within(
	ctx context.Context, radius, east, north float64,
) ([]rueidis.GeoLocation, error) {
	return f.client.Do(ctx, f.client.B().Geosearch().Key(key).Fromlonlat(east, north).
		Byradius(radius).Km().Asc().Count(nearest).Withdist().Build()).AsGeosearch()
}

// find is what is nearest.
func (f *finder) find(ctx context.Context, east, north float64) ([]rueidis.GeoLocation, error) {
	if f.cured {
		found, err := f.within(ctx, near, east, north)
		if err != nil || len(found) == nearest {
			return found, err
		}
	}
	return f.within(ctx, far, east, north)
}

func (f *finder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	east := coast.west + coast.wide*rand.Float64()
	north := coast.south + coast.high*rand.Float64()
	found, err := f.find(r.Context(), east, north)
	if err != nil || len(found) != nearest {
		http.Error(w, fmt.Sprint(len(found), " anchorages: ", err), http.StatusServiceUnavailable)
		return
	}
	for _, a := range found {
		fmt.Fprintf(w, "%s %.1f km\n", a.Name, a.Dist)
	}
	fmt.Fprintln(w, work.Do(6))
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
	f := &finder{client: client, cured: p.Cured}
	return f, f.fill(p.Context)
}

func main() { ward.Main(open) }
