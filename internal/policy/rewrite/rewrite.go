// Package rewrite changes the path that is forwarded: it strips a prefix, or replaces the path. It
// runs after the upstream is chosen and before the header fields, and sets only x.Forward:
// conditions, keys, variables and logs still see the path that the client asked for. The query is
// forwarded unchanged.
//
// The result is a canonical path like the one that was matched, because an upstream that reads it
// differently could serve what the route does not allow. It begins with one "/", has no empty
// segments except the last, no "." and ".." in any spelling, and no "?". If values would make it
// otherwise, the request gets 400.
//
// It must not know how routes are matched.
package rewrite

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

// Options of the policy: exactly one of StripPrefix and Replace.
type Options struct {
	// StripPrefix is removed from the front if it ends at a segment's border: "/api" turns "/api/x"
	// into "/x" and "/api" into "/", but leaves "/apiary" unchanged.
	StripPrefix string
	// Replace is the new path, a text for exchange.CompilePath that begins with "/" or "${path}".
	Replace string
	// PathNames are the names in the route's pattern.
	PathNames []string
}

// Policy changes paths.
type Policy struct {
	prefix   string             // "" if there is a template
	constant []byte             // the text of a template without variables; nil for others
	template *exchange.Template // nil if there is a prefix
}

var _ exchange.RequestPolicy = (*Policy)(nil)

// New checks the texts, and their result if every name is "x" and every variable is empty.
func New(o Options) (*Policy, error) {
	switch {
	case o.StripPrefix != "" && o.Replace != "":
		return nil, errors.New("a rewrite strips a prefix and replaces the whole path; do one of them")
	case o.StripPrefix != "":
		prefix := strings.TrimSuffix(o.StripPrefix, "/")
		if err := check(prefix); err != nil {
			return nil, fmt.Errorf("strip_prefix %q: %w", o.StripPrefix, err)
		}
		return &Policy{prefix: prefix}, nil
	case o.Replace == "":
		return nil, errors.New("a rewrite without a text; give the new path")
	case o.Replace[0] != '/' && !strings.HasPrefix(o.Replace, "${path}"):
		return nil, fmt.Errorf("the rewrite %q does not begin with a /", o.Replace)
	}
	t, err := exchange.CompilePath(o.Replace, o.PathNames)
	if err != nil {
		return nil, fmt.Errorf("rewrite %q: %w", o.Replace, err)
	}
	constant, ok := t.Constant()
	text := string(constant)
	if !ok {
		text = sample(t)
	}
	if err := check(text); err != nil {
		return nil, fmt.Errorf("rewrite %q: %w", o.Replace, err)
	}
	return &Policy{template: t, constant: constant}, nil
}

// check returns an error if a text of the configuration does not give a path.
func check(path string) error {
	if strings.ContainsAny(path, "?#") {
		return errors.New("only the path is rewritten, and the query is forwarded as it came; " +
			"leave out what follows ? or #")
	}
	if tidied, ok := tidy([]byte(path)); !ok || string(tidied) != path {
		return errors.New("that is not a canonical path: it begins with one /, has no //, . or " +
			".. segments, " +
			"and encodes only what it must, in upper case, like %2F")
	}
	return nil
}

type xs struct{}

func (xs) Value(string) []byte { return []byte("x") }

// sample fills in a template with values that cannot affect the form of a path.
func sample(t *exchange.Template) string {
	x := &exchange.Exchange{Request: &head.Request{Path: []byte("/x")}, Response: &head.Response{},
		Params: xs{}}
	text := string(t.Append(nil, x))
	// Variables such as ${host} are empty here, and "/${host}/b" is not a mistake.
	for strings.Contains(text, "//") {
		text = strings.ReplaceAll(text, "//", "/")
	}
	return text
}

// OnRequest sets x.Forward. "OPTIONS *" has no path and is left alone.
func (p *Policy) OnRequest(x *exchange.Exchange) exchange.PolicyVerdict {
	path := x.Request.Path
	if len(path) == 0 || path[0] != '/' {
		return exchange.Continue
	}
	switch {
	case p.constant != nil:
		x.Forward = p.constant
	case p.template != nil:
		forward, ok := tidy(x.Render(p.template))
		if !ok {
			return x.Refuse(http.StatusBadRequest, exchange.BadPath)
		}
		x.Forward = forward
	default:
		x.Forward = strip(path, p.prefix)
	}
	return exchange.Continue
}

var root = []byte("/")

// strip removes the prefix from a canonical path if it ends at a segment's border.
func strip(path []byte, prefix string) []byte {
	if len(path) < len(prefix) || string(path[:len(prefix)]) != prefix {
		return path
	}
	rest := path[len(prefix):]
	switch {
	case len(rest) == 0:
		return root
	case rest[0] == '/':
		return rest
	}
	return path
}
