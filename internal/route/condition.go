package route

import (
	"fmt"
	"strings"

	"plimsoll/internal/head"
)

// maxConditions bounds the conditions of one rule, which are tried for every request that reaches
// its pattern.
const maxConditions = 16

// Condition is something that must hold for a header field or a query value. Value is the exact
// value, case-sensitive; "*" asks for any value, "" for there being none of that name. Of several
// fields or values of one name it is enough that one is equal. A query is read as "name=value"
// pairs between "&", percent-decoded, "+" for a space; the names of fields are matched in any case,
// those of query values exactly.
type Condition struct {
	Name  string
	Value string
}

// condition is a Condition made ready.
type condition struct {
	name   string
	value  string
	id     head.ID // of a field's name
	any    bool    // any value will do
	absent bool    // none may be there
}

func compileConditions(list []Condition, field bool) ([]condition, error) {
	if len(list) > maxConditions {
		return nil, fmt.Errorf("%d conditions; %d is the most", len(list), maxConditions)
	}
	var out []condition
	for _, c := range list {
		if c.Name == "" || field && !head.IsToken([]byte(c.Name)) {
			return nil, fmt.Errorf("%q is not a name that a condition can ask for", c.Name)
		}
		if field && c.Value != strings.Trim(c.Value, " \t") {
			return nil, fmt.Errorf("the value of header %s can never be %q: fields come without "+
				"white space around their values", c.Name, c.Value)
		}
		done := condition{name: c.Name, value: c.Value, any: c.Value == "*", absent: c.Value == ""}
		if field {
			done.id = head.Lookup([]byte(c.Name))
			done.name = strings.ToLower(c.Name)
		}
		out = append(out, done)
	}
	return out, nil
}

// inHeader says whether the condition holds for fields.
func (c *condition) inHeader(fields *head.List) bool {
	if !fields.Has(c.id) {
		return c.absent
	}
	for i := range fields.Len() {
		f := fields.At(i)
		if f.ID != c.id || c.id == head.Other && !equalFold(f.Name, c.name) {
			continue
		}
		if c.absent {
			return false
		}
		if c.any || string(f.Value) == c.value {
			return true
		}
	}
	return c.absent
}

// equalFold compares a field's name with a lower-case one.
func equalFold(name []byte, lower string) bool {
	if len(name) != len(lower) {
		return false
	}
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// inQuery says whether the condition holds for a query.
func (c *condition) inQuery(query []byte) bool {
	for {
		name, value, rest, ok := head.NextParam(query)
		if !ok {
			return c.absent
		}
		query = rest
		if !head.DecodesTo(name, c.name) {
			continue
		}
		if c.absent {
			return false
		}
		if c.any || head.DecodesTo(value, c.value) {
			return true
		}
	}
}
