// Package invariant switches on the checks that find a broken invariant where it breaks: a buffer given back twice, an
// exchange ended twice, a loop touched from outside. They cost too much for production; the race detector's build turns them on.
package invariant
