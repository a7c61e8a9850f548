// Package headers changes the header fields that a route's configuration names: it removes, then
// sets, then adds. On requests it is the last policy before the action, on responses the last of
// all, so that a route's own settings win over what other policies wrote.
//
// Fields that are removed or set are also removed from trailers and interim responses, where
// nothing is set or added.
//
// Values are templates. The value of a variable cannot end a field: control characters become
// spaces. Fields that say where a message ends, or that belong to one connection, belong to the
// data plane and are refused here.
//
// It must not know which fields mean something to other policies.
package headers

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

// Options name the changes. A name may be in several of them: Remove comes first, then Set, then
// Add. Among Set, and among Add, the names are taken in alphabetical order.
type Options struct {
	Remove    []string
	Set       map[string]string // replaces all fields of the name, or adds one
	Add       map[string]string // appends a field
	PathNames []string          // the names in the route's pattern, for ${path.NAME}
}

// Request changes the fields of requests.
type Request struct {
	changes changes
	host    *exchange.Template // nil if Host is not set
}

// Response changes the fields of responses.
type Response struct {
	changes changes
}

var (
	_ exchange.RequestPolicy   = (*Request)(nil)
	_ exchange.RequestRemover  = (*Request)(nil)
	_ exchange.ResponsePolicy  = (*Response)(nil)
	_ exchange.ResponseRemover = (*Response)(nil)
)

// changes are the compiled options.
type changes struct {
	remove [][]byte
	set    []change
	add    []change
}

// change is one field to write: either ready-made, or with a template for its value.
type change struct {
	field head.Field
	value *exchange.Template
}

// NewRequest reads the changes of requests. Host may be set. The upstream then gets that Host, and
// ${host} has that value from then on, so it takes effect after all other changes. If variables
// give a value that is not a host and port, it is dropped, and the client's Host stays.
func NewRequest(o Options) (*Request, error) {
	p := &Request{}
	set := maps.Clone(o.Set)
	for name, text := range o.Set {
		if !strings.EqualFold(name, "Host") {
			continue
		}
		delete(set, name)
		host, err := compile(name, text, o.PathNames)
		if err != nil {
			return nil, err
		}
		if constant, ok := host.Constant(); ok && !isAuthority(constant) || p.host != nil {
			//lint:ignore ST1005 Host is a name
			return nil, fmt.Errorf("Host cannot be set to %q; give one host, with a port if need "+
				"be, in lower case", text)
		}
		p.host = host
	}
	o.Set = set
	var err error
	p.changes, err = prepare(o)
	return p, err
}

// NewResponse reads the changes of responses.
func NewResponse(o Options) (*Response, error) {
	changes, err := prepare(o)
	return &Response{changes}, err
}

// prepare checks names and values.
func prepare(o Options) (c changes, err error) {
	for _, name := range o.Remove {
		if err := checkName(name); err != nil {
			return c, err
		}
		c.remove = append(c.remove, []byte(name))
	}
	if c.set, err = prepareFields(o.Set, o.PathNames); err != nil {
		return c, err
	}
	c.add, err = prepareFields(o.Add, o.PathNames)
	return c, err
}

func prepareFields(fields map[string]string, pathNames []string) (list []change, err error) {
	var before string
	for _, name := range slices.SortedFunc(maps.Keys(fields), func(a, b string) int {
		return strings.Compare(strings.ToLower(a), strings.ToLower(b))
	}) {
		if strings.EqualFold(name, before) {
			return nil, fmt.Errorf("%s is there twice, as %s too; leave one out", name, before)
		}
		before = name
		if err := checkName(name); err != nil {
			return nil, err
		}
		value, err := compile(name, fields[name], pathNames)
		if err != nil {
			return nil, err
		}
		c := change{field: head.Field{Name: []byte(name), ID: head.Lookup([]byte(name))}, value: value}
		if constant, ok := value.Constant(); ok {
			c = change{field: exchange.StaticField(name, string(constant))}
		}
		list = append(list, c)
	}
	return list, nil
}

func checkName(name string) error {
	if strings.EqualFold(name, "Host") {
		//lint:ignore ST1005 Host is a name
		return fmt.Errorf("Host can be set on requests, and neither added nor removed: each " +
			"request has exactly one")
	}
	return exchange.CheckFieldName(name)
}

func compile(name, text string, pathNames []string) (*exchange.Template, error) {
	if err := exchange.CheckFieldValue(text); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	t, err := exchange.CompileTemplate(text, pathNames)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

// OnRequest changes the request's fields.
func (p *Request) OnRequest(x *exchange.Exchange) exchange.PolicyVerdict {
	fields := &x.Request.Fields
	p.changes.apply(fields, x)
	if p.host != nil {
		if host := x.Render(p.host); isAuthority(host) {
			x.Request.Host = host
			fields.Set(hostName, host)
		}
	}
	return exchange.Continue
}

// OnResponse changes the response's fields.
func (p *Response) OnResponse(x *exchange.Exchange) exchange.PolicyVerdict {
	p.changes.apply(&x.Response.Fields, x)
	return exchange.Continue
}

// RequestRemoved implements exchange.RequestRemover.
func (p *Request) RequestRemoved() []string { return p.changes.removed() }

// ResponseRemoved implements exchange.ResponseRemover.
func (p *Response) ResponseRemoved() []string { return p.changes.removed() }

// removed are the names whose received fields are not forwarded.
func (c *changes) removed() (names []string) {
	for _, name := range c.remove {
		names = append(names, string(name))
	}
	for i := range c.set {
		names = append(names, string(c.set[i].field.Name))
	}
	return names
}

var hostName = []byte("Host")

func (c *changes) apply(fields *head.List, x *exchange.Exchange) {
	for _, name := range c.remove {
		fields.Remove(name)
	}
	for i := range c.set {
		fields.Remove(c.set[i].field.Name)
		c.set[i].append(fields, x)
	}
	for i := range c.add {
		c.add[i].append(fields, x)
	}
}

// append writes the field. Fields without variables have a complete line, which serialisers copy.
func (c *change) append(fields *head.List, x *exchange.Exchange) {
	if c.value == nil {
		fields.Append(c.field)
		return
	}
	f := fields.Extend(c.field.ID)
	f.Name, f.Value = c.field.Name, x.Render(c.value)
}

// maxAuthority is the length of the longest host name with a colon and a port.
const maxAuthority = 253 + 1 + 5

// isAuthority reports whether b can be a Host, in lower case as in head.Request. It checks only
// that b cannot be read as anything but a host and port.
func isAuthority(b []byte) bool {
	if len(b) == 0 || len(b) > maxAuthority {
		return false
	}
	for _, c := range b {
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '.' || c == '-' || c == '_' ||
			c == ':' || c == '[' || c == ']') {
			return false
		}
	}
	return true
}
