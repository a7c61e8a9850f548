// Command context does not tell what it calls when a client has gone: who waits for one of its
// renderers waits with context.Background(). When there is too much to do clients give up, but stay
// in the queue, and what is rendered then is for nobody, while those who still wait wait longer.
//
// Cured, the request's context is passed on.
package main

import (
	"context"
	"fmt"
	"net/http"
	"runtime"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

// pageUnits is the work of one page.
const pageUnits = 24

func main() { ward.Main(shop) }

func shop(p *ward.Patient) (http.Handler, error) {
	idle := make(renderers, runtime.GOMAXPROCS(0))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := context.Background()
		if p.Cured {
			ctx = r.Context()
		}
		page, err := idle.render(ctx)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, page)
	}), nil
}

// renderers has room for as many as work at once.
type renderers chan struct{}

// render waits for its turn and makes a page, unless ctx ends while it waits.
func (idle renderers) render(ctx context.Context) (page string, err error) {
	select {
	case idle <- struct{}{}:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	defer func() { <-idle }()
	return work.Do(pageUnits), nil
}
