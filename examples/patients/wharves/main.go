// Command wharves charges the wharfage of its customers. Each account is charged by one request at a
// time, under the mutex of its shard, which is taken by the last bits of the account's number.
// Numbers are made of the time, a machine and a count that is nearly always 0, so that all accounts
// are in a few shards, and wait for each other while the bank is asked. Only pprof is shown.
//
// Cured, all bits of a number say which shard it is in.
package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"plimsoll/examples/patients/upstream"
	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	bits     = 11 // of a number say which shard it is in
	accounts = 20_000
	takes    = 3 * time.Millisecond // to ask the bank
)

// shard has some of the accounts.
type shard struct {
	mu  sync.Mutex
	due map[uint64]int
}

// books have the accounts. Any goroutine may use them.
type books struct {
	bank    *upstream.Upstream
	numbers []uint64
	shards  [1 << bits]shard
	index   func(number uint64) uint64
}

// number is made like those of many a service: 41 bits are the time, ten the machine, twelve a count.
func number(opened time.Time, machine, count uint64) uint64 {
	return uint64(opened.UnixMilli())<<22 | machine<<12 | count
}

// lowest is the disease.
func lowest(number uint64) uint64 { return number % (1 << bits) }

// mixed multiplies with the golden ratio, and takes the highest bits.
func mixed(number uint64) uint64 { return number * 0x9e3779b97f4a7c15 >> (64 - bits) }

// charge takes what an account owes, and returns what it owes from now on. Nobody else may charge it
// before the bank has answered.
func (b *books) charge(ctx context.Context, account uint64) (int, error) {
	s := &b.shards[b.index(account)]
	s.mu.Lock()
	defer s.mu.Unlock()
	receipt, err := b.bank.Ask(ctx)
	if err != nil {
		return 0, err
	}
	s.due[account] += 400 - len(receipt)%400
	return s.due[account], nil
}

func (b *books) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	account := b.numbers[rand.IntN(accounts)]
	due, err := b.charge(r.Context(), account)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	fmt.Fprintln(w, account, due, work.Do(4))
}

func open(p *ward.Patient) (http.Handler, error) {
	bank, err := upstream.Start(p, 256, takes)
	if err != nil {
		return nil, err
	}
	b := &books{bank: bank, index: lowest}
	if p.Cured {
		b.index = mixed
	}
	for i := range b.shards {
		b.shards[i].due = map[uint64]int{}
	}
	first := time.Date(2019, time.March, 1, 6, 0, 0, 0, time.UTC)
	for i := range accounts {
		opened := first.Add(time.Duration(i) * 171 * time.Minute)
		var count uint64
		if i%150 == 0 {
			count = 1
		}
		n := number(opened, 3, count)
		b.numbers = append(b.numbers, n)
		b.shards[b.index(n)].due[n] = 0
	}
	return b, nil
}

func main() { upstream.Main(open) }
