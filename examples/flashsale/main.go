// Command flashsale is the service of the flash-sale study: a sale of a few articles that many
// people want at once. It is written as one writes it on the first day, and --step N turns on the
// first N of the seven changes that make it fast, each in a file of its own:
//
//	1 voucher.go   the hot spot: a pattern is compiled once, not for each request
//	2 answer.go    the answer is appended to a buffer, not encoded by way of a map
//	3 payment.go   the client of the payment service keeps its connections
//	4 notify.go    the goroutine that tells the winner ends
//	5 basket.go    what each request needs is taken from a pool
//	6 stock.go     counters instead of one map under one lock
//	7 limits.go    descriptors and the backlog for the crowd that comes
//
// docs/flash-sale.md tells what each of them brought.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"strconv"

	"plimsoll/examples/patients/ward"
)

// lastStep is the number of changes.
const lastStep = 7

// sale is the service.
type sale struct {
	vouchers vouchers
	answers  answers
	payments payments
	winners  winners
	baskets  baskets
	stock    stock
}

func main() {
	step := flag.Int("step", 0, "how many of the seven changes are made")
	ward.Main(func(p *ward.Patient) (http.Handler, error) {
		if *step < 0 || *step > lastStep {
			return nil, fmt.Errorf("--step is 0 to %d", lastStep)
		}
		at := *step
		if p.Cured {
			at = lastStep
		}
		if err := setLimits(p, at >= 7); err != nil {
			return nil, err
		}
		bank, err := openBank()
		if err != nil {
			return nil, err
		}
		p.OnEnd(bank.close)
		mux := http.NewServeMux()
		mux.HandleFunc("GET /buy", build(p.Context, bank.url, at).buy)
		return mux, nil
	})
}

// build makes the service with the first changes made. What it starts ends with ctx.
func build(ctx context.Context, bank string, step int) *sale {
	return &sale{
		newVouchers(step >= 1),
		newAnswers(step >= 2),
		newPayments(bank, step >= 3),
		newWinners(ctx, step >= 4),
		newBaskets(step >= 5),
		newStock(step >= 6),
	}
}

// articles are on sale, and each has more pieces than any measurement buys: the study is about
// speed, and not about being sold out.
const (
	articles = 8
	pieces   = 1 << 40
)

// buy is the whole service: a voucher is checked, a piece taken, paid for, and the winner told.
func (s *sale) buy(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	article, err := strconv.Atoi(query.Get("article"))
	if err != nil || article < 0 || article >= articles {
		http.Error(w, "no such article", http.StatusNotFound)
		return
	}
	if !s.vouchers.valid(query.Get("voucher")) {
		http.Error(w, "no valid voucher", http.StatusForbidden)
		return
	}
	left, ok := s.stock.take(article)
	if !ok {
		http.Error(w, "sold out", http.StatusGone)
		return
	}
	b := s.baskets.get()
	defer s.baskets.put(b)
	b.fill(article, left)
	receipt, err := s.payments.pay(r.Context(), b)
	if err != nil {
		http.Error(w, "the payment failed: "+err.Error(), http.StatusBadGateway)
		return
	}
	s.winners.tell(receipt)
	w.Header().Set("Content-Type", "application/json")
	w.Write(s.answers.encode(b, receipt))
}
