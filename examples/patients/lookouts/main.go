// Command lookouts tells what is reported of a ship, which it asks of another service. It asks
// with fasthttp's PipelineClient, as that is said to be the fastest. Unless it is told otherwise,
// this client has one connection, and sends one question after the other over it; but the service
// answers those of a connection in turn, and takes 2 ms for each. Nothing is shown.
//
// Cured, MaxConns of the client is 64.
package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/valyala/fasthttp"

	"plimsoll/examples/patients/upstream"
	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	// takes is how long the service behind is busy with a request; it has many connections at once.
	takes, workers = 2 * time.Millisecond, 256
	connections    = 64
	ships          = 500
	// patience is how long an answer is waited for.
	patience = 10 * time.Second
)

// tower asks for reports.
type tower struct {
	address string
	client  *fasthttp.PipelineClient
}

// report is what is known of a ship.
func (t *tower) report(ship int) (string, error) {
	question, answer := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(question)
	defer fasthttp.ReleaseResponse(answer)
	question.SetRequestURI(fmt.Sprintf("http://%s/ships/%d", t.address, ship))
	if err := t.client.DoTimeout(question, answer, patience); err != nil {
		return "", fmt.Errorf("ask for the report: %w", err)
	}
	if answer.StatusCode() != http.StatusOK {
		return "", fmt.Errorf("asked for the report, it answered %d", answer.StatusCode())
	}
	return fmt.Sprintf("ship %d, %d bytes", ship, len(answer.Body())), nil
}

func (t *tower) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	report, err := t.report(rand.IntN(ships))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	fmt.Fprintln(w, report, work.Do(6))
}

func open(p *ward.Patient) (http.Handler, error) {
	office, err := upstream.Start(p, workers, takes)
	if err != nil {
		return nil, err
	}
	client := &fasthttp.PipelineClient{Addr: office.Address()}
	if p.Cured {
		client.MaxConns = connections
	}
	return &tower{address: office.Address(), client: client}, nil
}

func main() { upstream.Main(open) }
