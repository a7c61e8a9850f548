package main

import "context"

// winners are told that they have won.
type winners interface {
	tell(receipt string)
}

func newWinners(ctx context.Context, changed bool) winners {
	if !changed {
		return forgotten{make(chan string)}
	}
	q := queued{make(chan string, 1024)}
	go func() {
		for {
			select {
			case <-q.receipts: // the message would go out here
			case <-ctx.Done():
				return
			}
		}
	}()
	return q
}

// forgotten is the first day: a goroutine for each winner waits for somebody to take the receipt,
// and the code that was to take it was never written.
type forgotten struct{ receipts chan string }

func (f forgotten) tell(receipt string) {
	message := make([]byte, 2<<10)
	copy(message, receipt)
	go func() { f.receipts <- string(message) }()
}

// queued has one goroutine that takes them from a bounded queue; when that is full a winner is not
// told, which is what the sale's page is for.
type queued struct{ receipts chan string }

func (q queued) tell(receipt string) {
	select {
	case q.receipts <- receipt:
	default:
	}
}
