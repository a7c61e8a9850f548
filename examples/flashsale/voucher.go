package main

import "regexp"

// vouchers checks voucher codes.
type vouchers interface {
	valid(code string) bool
}

// forms are what vouchers look like: every campaign has made up its own, and the newest are tried
// last.
var forms = []string{
	`^SALE[0-9]{6}$`,
	`^[A-Z]{3}-[0-9]{3}-[0-9]{3}$`,
	`^(?:VIP|CREW|PRESS)-[a-f0-9]{8}$`,
	`^[A-Z]{2}[0-9]{2}(?:-[A-Z0-9]{4}){3}$`,
	`^W[0-9]{2}-(?:MON|TUE|WED|THU|FRI|SAT|SUN)-[0-9]{5}$`,
	`^(?:[A-Z]{4}-){3}[0-9]{4,6}(?:-(?:EU|US|ASIA))?$`,
}

func newVouchers(changed bool) vouchers {
	if !changed {
		return uncompiled{}
	}
	var all compiled
	for _, form := range forms {
		all = append(all, regexp.MustCompile(form))
	}
	return all
}

// uncompiled is the first day: the patterns are where they are used.
type uncompiled struct{}

func (uncompiled) valid(code string) bool {
	for _, form := range forms {
		if ok, err := regexp.MatchString(form, code); ok && err == nil {
			return true
		}
	}
	return false
}

// compiled has compiled them when the service started.
type compiled []*regexp.Regexp

func (all compiled) valid(code string) bool {
	for _, form := range all {
		if form.MatchString(code) {
			return true
		}
	}
	return false
}
