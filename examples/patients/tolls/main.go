// Command tolls says what a ship pays in a canal. Each rule that is not for a ship says so with an
// error that has the stack in it, as text, which nobody reads; only pprof is shown.
//
// Cured, the error of a rule that is not for a ship has no stack.
package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime/debug"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const rules = 130

// refusal says why a rule is not for a ship.
type refusal struct {
	rule, metres int
	where        string
}

func (r *refusal) Error() string {
	return fmt.Sprintf("rule %d begins at %d metres", r.rule, r.metres)
}

// ship is what is known of one.
type ship struct{ metres, tonnes int }

// rule is for ships of its length and above.
type rule struct{ number, from, cents int }

// canal knows its rules, the one for the longest ships first.
type canal struct {
	rules []rule
	cured bool
}

func open(p *ward.Patient) (http.Handler, error) {
	c := &canal{cured: p.Cured}
	for i := range rules {
		c.rules = append(c.rules, rule{number: i, from: 4 * (rules - i), cents: 90 + 37*i%60})
	}
	return c, nil
}

// refuse makes the error of a rule that is not for a ship.
func (c *canal) refuse(r rule) error {
	e := &refusal{rule: r.number, metres: r.from}
	if !c.cured {
		e.where = string(debug.Stack())
	}
	return e
}

// try is what a ship pays by one rule.
func (c *canal) try(r rule, s ship) (int, error) {
	if s.metres < r.from {
		return 0, c.refuse(r)
	}
	return s.tonnes * r.cents, nil
}

// toll is what a ship pays by the first rule that is for it.
func (c *canal) toll(s ship) (int, error) {
	var last *refusal
	for _, r := range c.rules {
		cents, err := c.try(r, s)
		if err == nil {
			return cents, nil
		}
		if !errors.As(err, &last) {
			return 0, err
		}
	}
	return 0, fmt.Errorf("no rule is for %d metres: %w", s.metres, last)
}

func (c *canal) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	s := ship{metres: 20 + rand.IntN(60), tonnes: 100 + rand.IntN(900)}
	cents, err := c.toll(s)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, s.metres, s.tonnes, cents, work.Do(2))
}

func main() { ward.Main(open) }
