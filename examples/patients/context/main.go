// Command context does not tell what it calls when a client has gone: a page is rendered in pieces, with context.Background(). When there is too
// much to do clients give up, and what is worked on then is for nobody, while those who still wait wait longer.
//
// Cured, the request's context is passed on.
package main

import (
	"context"
	"fmt"
	"net/http"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

// A page has so many pieces, and each takes so many units of work.
const (
	pieces = 12
	units  = 2
)

func main() { ward.Main(shop) }

func shop(p *ward.Patient) (http.Handler, error) {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := context.Background()
		if p.Cured {
			ctx = r.Context()
		}
		page, err := render(ctx)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, page)
	}), nil
}

// render makes a page, unless ctx ends before it is done.
func render(ctx context.Context) (page string, err error) {
	for range pieces {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		page += work.Do(units)
	}
	return page, nil
}
