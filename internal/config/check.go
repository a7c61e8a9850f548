package config

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"plimsoll/internal/head"
)

// maxFiles bounds what the files of all respond actions hold together.
const maxFiles = 256 << 20

// fileCache holds the files that routes answer with, each once.
type fileCache struct {
	content map[string][]byte
	total   int
}

func (c *Config) check(s *scope) {
	if s.good("admin") && !drawn(c.Admin.Address) {
		s.claim(s.within("admin", "address"), c.Admin.Address)
	}
	s.entries("upstreams", func(name string, key, _ place) {
		if !isName(name) {
			s.fail(key, "%q cannot name an upstream; use 1 to 200 characters that can be printed", clip(name))
		}
	})
	s.entries("classes", func(name string, key, _ place) {
		if len(name) != 2 || name[0] != 'P' || name[1] < '0' || name[1] > '9' {
			s.fail(key, "%q is not an SLA class; classes are P0 to P9", clip(name))
		}
	})
	// A mapping that could not be read at all would make every reference wrong.
	if !s.has("upstreams") || c.Upstreams != nil {
		known := slices.Sorted(maps.Keys(c.Upstreams))
		for _, r := range s.references {
			if _, ok := c.Upstreams[r.name]; !ok && !s.errs.full() {
				s.fail(r.at, "no upstream is named %q; %s", clip(r.name), s.suggest.advice(r.name, known))
			}
		}
	}
	c.checkStores(s)
	if s.good("sla_header") {
		s.claimName("sla_header", c.SLAHeader)
	}
	for _, h := range s.deadlines {
		if s.good("sla_header") && sameField(h.name, c.SLAHeader) {
			s.fail(h.at, "%s is sla_header's already; choose another name", clip(h.name))
		}
	}
	c.checkSteps(s)
	c.nameRoutes(s)
}

// nameRoutes checks that no two routes are given the same name, and names those that have none
// after their match: as it may be shown, because names are, in metrics and logs.
func (c *Config) nameRoutes(s *scope) {
	taken := make(map[string]int, len(c.Routes))
	for _, n := range s.routeNames {
		line, _ := PositionOf(n.at.node)
		if first, again := taken[n.name]; again {
			s.fail(n.at, "the name %q is taken, first on line %d; choose another", clip(n.name), first)
			continue
		}
		taken[n.name] = line
	}
	counts := make(map[string]int)
	for i := range c.Routes {
		r := &c.Routes[i]
		if r.Name != "" {
			continue
		}
		match := r.shownMatch(s.sources.at("routes").item(i))
		for r.Name = match; ; {
			counts[match]++
			if n := counts[match]; n > 1 {
				r.Name = match + " #" + strconv.Itoa(n)
			}
			if _, again := taken[r.Name]; !again {
				break
			}
		}
		taken[r.Name] = 0
	}
}

func (a *Admin) check(s *scope) {
	if !s.good("address") {
		return
	}
	a.Address = s.listenAddress("address", a.Address)
	if host, _, err := splitAddress(a.Address); a.Token == "" && !s.failed["token"] && err == nil {
		if ip, err := netip.ParseAddr(host); err != nil || !ip.IsLoopback() {
			s.reject("token", "an admin listener off loopback needs a token; add one, or listen on 127.0.0.1")
		}
	}
	if s.good("token") && strings.ContainsFunc(a.Token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		s.reject("token", "has a blank or a character outside ASCII, which an Authorization "+
			"header cannot carry; choose others")
	}
}

func (a *AccessLog) check(s *scope) {
	if !s.good("path") || a.Path == "stdout" {
		return
	}
	a.Path = s.relative(a.Path)
	parent, err := os.Stat(directory(a.Path))
	if err != nil {
		s.reject("path", "the directory of the file cannot be used: %v; make it first", bare(err))
	} else if !parent.IsDir() {
		s.reject("path", "the directory of the file is itself a file; choose another path")
	}
	if info, err := os.Stat(a.Path); err == nil && info.IsDir() {
		s.reject("path", "is a directory; name a file in it")
	}
}

// bare is an error of the file system without the operation and the path, which the message around
// it has.
func bare(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// splitAddress parts "host:port". The host may be empty, an address without its brackets, or a
// name.
func splitAddress(address string) (host string, port int, err error) {
	colon := strings.LastIndexByte(address, ':')
	if colon < 0 {
		return "", 0, errors.New("has no port; write host:port")
	}
	host = address[:colon]
	digits := address[colon+1:]
	port, err = strconv.Atoi(digits)
	if err != nil || port < 0 || port > 65535 || strings.Trim(digits, "0123456789") != "" {
		return "", 0, fmt.Errorf("the port %q is not a number from 0 to 65535; write host:port", clip(digits))
	}
	if inner, found := strings.CutPrefix(host, "["); found {
		inner, found = strings.CutSuffix(inner, "]")
		ip, err := netip.ParseAddr(inner)
		if !found || err != nil || !ip.Is6() {
			return "", 0, fmt.Errorf("%q is not an IPv6 address in brackets; write it as "+
				"[::1]:8080", clip(host))
		}
		return inner, port, nil
	}
	if strings.Contains(host, ":") {
		return "", 0, fmt.Errorf("%q is ambiguous; write an IPv6 address in brackets, as "+
			"[::1]:8080", clip(address))
	}
	return host, port, nil
}

// listenAddress checks an address to listen on and returns it in its canonical form: "localhost" is
// 127.0.0.1, so that what is listened on does not hang on the resolver.
func (s *scope) listenAddress(name, address string) string {
	host, port, err := splitAddress(address)
	if err != nil {
		s.reject(name, "%v", err)
		return address
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if host == "" {
		return ":" + strconv.Itoa(port)
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		s.reject(name, "%q is not an IP address; write one, as 127.0.0.1:%d, or :%d for every "+
			"address of the machine", clip(host), port, port)
		return address
	}
	return netip.AddrPortFrom(ip, uint16(port)).String()
}

// drawn says that the kernel draws the port of an address.
func drawn(address string) bool { return strings.HasSuffix(address, ":0") }

// claim notes that an address is listened on, and refuses it when another listener has it already.
// ":80" and both wildcards are the same socket as far as the kernel is concerned, or would share
// its connections at random with SO_REUSEPORT. Where the kernel draws the port each listener gets
// its own, but listeners are distinguished by their addresses as they are written.
func (s *scope) claim(at place, address string) {
	same := address
	for _, wildcard := range []string{"0.0.0.0:", "[::]:"} {
		if port, found := strings.CutPrefix(address, wildcard); found && !drawn(address) {
			same = ":" + port
		}
	}
	if first, taken := s.addresses[same]; taken {
		line, _ := PositionOf(first.node)
		s.fail(at, "%s is listened on twice, first on line %d; choose another port", address, line)
		return
	}
	if s.addresses == nil {
		s.addresses = make(map[string]place)
	}
	s.addresses[same] = at
}

// prefixes checks a list of addresses and CIDR prefixes. Each gets the place of every one that is
// right, in its canonical form.
func (s *scope) prefixes(name string, list []string, each func(at place, prefix netip.Prefix)) {
	s.items(name, func(i int, at place) {
		prefix, err := parsePrefix(list[i])
		if err != nil {
			s.fail(at, "%v", err)
			return
		}
		each(at, prefix)
	})
}

func parsePrefix(text string) (netip.Prefix, error) {
	if !strings.Contains(text, "/") {
		ip, err := netip.ParseAddr(text)
		if err != nil || ip.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("%q is not an address or a CIDR prefix; write one "+
				"such as 10.0.0.0/8 or 192.0.2.7", clip(text))
		}
		ip = ip.Unmap()
		return netip.PrefixFrom(ip, ip.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return prefix, fmt.Errorf("%q is not a CIDR prefix; write one such as 10.0.0.0/8", clip(text))
	}
	if prefix.Addr().Is4In6() {
		return prefix, fmt.Errorf("%q is an IPv4 prefix in the form of IPv6; write it as IPv4, "+
			"such as 10.0.0.0/8", clip(text))
	}
	if prefix.Masked() != prefix {
		return prefix, fmt.Errorf("%s has bits beyond its length; write %s for the whole "+
			"network, or the address alone", text, prefix.Masked())
	}
	return prefix, nil
}

// isToken reports whether text is a token of no strange length: what names of header fields and
// methods are made of.
func isToken(text string) bool {
	return head.IsToken([]byte(text)) && len(text) <= 256
}

// isPath reports whether text may be the path of a request: it begins with a slash and has only
// characters that RFC 3986 allows there, or a percent sign.
func isPath(text string) bool {
	if !strings.HasPrefix(text, "/") {
		return false
	}
	return !strings.ContainsFunc(text, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"#<>\\^`{|}", r)
	})
}

// isName reports whether text may name an upstream or a route: something that a label of a metric
// and a line of a log can show.
func isName(text string) bool {
	return text != "" && len(text) <= 200 &&
		!strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}
