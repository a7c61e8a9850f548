package remote

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// address is an ssh destination for a generator.
type address struct {
	host string // with the user, if given
	port string // empty leaves it to ssh's configuration
}

// CheckAddress returns an error of one line if a generator's address is invalid.
func CheckAddress(text string) error {
	_, err := parseAddress(text)
	return err
}

// parseAddress parses [user@]host[:port]. An IPv6 address is in brackets. It refuses anything that
// ssh could read as an option.
func parseAddress(text string) (address, error) {
	wrong := func(why string) (address, error) {
		return address{}, fmt.Errorf("%q is not where a generator can be reached: %s; "+
			"write it as user@host or user@host:port", clean(text, 100), why)
	}
	user, host, named := strings.Cut(text, "@")
	if !named {
		user, host = "", text
	}
	a := address{}
	switch at := strings.LastIndexByte(host, ':'); {
	case strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]"):
		host = host[1 : len(host)-1]
	case at >= 0:
		name, port, err := net.SplitHostPort(host)
		if err != nil {
			return wrong("an IPv6 address stands in brackets")
		}
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil || number == 0 {
			return wrong("a port is a number from 1 to 65535")
		}
		host, a.port = name, port
	}
	for _, r := range user + host {
		if r <= ' ' || r > '~' || strings.ContainsRune("\"'`$\\;&|<>()@/", r) {
			return wrong("a name of a user or a host does not have such characters")
		}
	}
	if host == "" || named && user == "" || strings.HasPrefix(user, "-") ||
		strings.HasPrefix(host, "-") {
		return wrong("a user or a host is missing")
	}
	if a.host = host; named {
		a.host = user + "@" + host
	}
	return a, nil
}
