// Command logbooks shows a page of a ship's logbook, with the name of who made each entry. An entry
// has the number of an account of the machine, and package os/user looks its name up in
// /etc/passwd, which is opened and read once more for each entry. Nothing is shown.
//
// Cured, the service remembers the name of an account that it has looked up.
package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/user"
	"strconv"
	"strings"
	"sync"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	entries = 4000
	page    = 120
	// officers are the accounts that make entries, from number 0: those that every machine has.
	officers = 9
)

var remarks = []string{"course %d", "wind %d kn", "barometer %d", "depth %d m", "%d hands on deck"}

// entry is a line of the logbook.
type entry struct {
	account string
	text    string
}

// names finds what accounts are called. Any goroutine may ask.
type names struct {
	remembers bool
	known     sync.Map // of string, by the account's number
}

// find looks an account up.
func find(account string) (string, error) {
	u, err := user.LookupId(account)
	if err != nil {
		return "", fmt.Errorf("account %s: %w", account, err)
	}
	return u.Username, nil
}

// of returns the name of an account.
func (n *names) of(account string) (string, error) {
	if !n.remembers {
		return find(account)
	}
	if name, ok := n.known.Load(account); ok {
		return name.(string), nil
	}
	name, err := find(account)
	if err == nil {
		n.known.Store(account, name)
	}
	return name, err
}

// write makes the logbook.
func write() []entry {
	all := make([]entry, entries)
	for i := range all {
		all[i] = entry{
			account: strconv.Itoa(i * 7 % officers),
			text:    fmt.Sprintf(remarks[i%len(remarks)], 3+i*37%350),
		}
	}
	return all
}

func open(p *ward.Patient) (http.Handler, error) {
	book, made := write(), &names{remembers: p.Cured}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		first := rand.IntN(entries - page)
		var text strings.Builder
		for i, e := range book[first : first+page] {
			name, err := made.of(e.account)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			fmt.Fprintf(&text, "%d. %s (%s)\n", first+i, e.text, name)
		}
		fmt.Fprintln(w, text.String(), work.Do(4))
	}), nil
}

func main() { ward.Main(open) }
