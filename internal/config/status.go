package config

import "strconv"

// Status is an HTTP status as it is written.
type Status string

// Code is the status as a number, 0 where it is not one.
func (s Status) Code() int {
	n, err := strconv.Atoi(string(s))
	if err != nil {
		return 0
	}
	return n
}
