// Command leak asks two replicas and takes the answer that comes first. The other answer is sent to
// a channel on which nobody listens any more, so each request leaves a goroutine behind, with all
// that it holds on to, for ever.
//
// Cured, the channel has room for both answers.
package main

import (
	"fmt"
	"net/http"
	"time"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	near, far  = time.Millisecond, 3 * time.Millisecond // how long the replicas take
	answerSize = 2 << 10
)

func main() { ward.Main(shop) }

func shop(p *ward.Patient) (http.Handler, error) {
	room := 0
	if p.Cured {
		room = 2
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answers := make(chan []byte, room)
		go ask(near, answers)
		go ask(far, answers)
		fmt.Fprintln(w, len(<-answers), work.Do(20))
	}), nil
}

// ask stands for a call to a replica.
func ask(delay time.Duration, answers chan<- []byte) {
	answer := make([]byte, answerSize)
	time.Sleep(delay)
	answers <- answer
}
