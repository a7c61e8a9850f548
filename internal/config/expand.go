package config

import (
	"fmt"
	"slices"
	"strings"

	"plimsoll/internal/exchange"
)

// variables are the names that ${...} may have in the keys tagged template, where they stand for
// something of the exchange; "path.NAME" besides, for the value of {NAME} in the route's pattern.
var variables = []string{
	"client_address", "client_port", "request_id", "method", "host", "path", "query", "scheme",
	"route", "upstream", "target",
	"listener", "tls_version", "tls_client_subject",
}

// Variables lists the names of the exchange's variables, for the code that gives them their values
// to check that none is missing.
func Variables() []string { return slices.Clone(variables) }

// expansion is a scalar's text after its ${...}.
type expansion struct {
	text string
	// used reports that the environment gave some of it: then a number may have been meant although
	// the file has a string.
	used bool
	// given are the variables of the environment in it that are set, by name.
	given map[string]string
	// values are the NAMEs of ${path.NAME} in it.
	values []string
}

// give notes what a variable of the environment gave.
func (e *expansion) give(name, value string) {
	e.used = true
	if value == "" {
		return
	}
	if e.given == nil {
		e.given = make(map[string]string)
	}
	e.given[name] = value
}

// expand replaces ${NAME} by the environment's value and ${NAME:-text} by the value or, when it is
// unset or empty, by text. The environment's names are upper case and the exchange's variables
// lower case, so that the two can never be taken for each other.
//
// In a template the exchange's variables are checked and left as they are, and so is the escape
// "$${": what is compiled from the template later must still tell it from a variable. For the same
// reason a "${" that comes out of the environment is escaped. Elsewhere "$${" becomes "${", and a
// lower-case name is an error.
func expand(text string, template bool, lookup func(string) (string, bool)) (expansion, error) {
	if !strings.Contains(text, "${") {
		return expansion{text: text}, nil
	}
	var out strings.Builder
	var result expansion
	for text != "" {
		at := strings.Index(text, "${")
		if at < 0 {
			break
		}
		if at > 0 && text[at-1] == '$' {
			out.WriteString(text[:at-1])
			if template {
				out.WriteByte('$')
			}
			out.WriteString("${")
			text = text[at+2:]
			continue
		}
		out.WriteString(text[:at])
		name, rest, closed := strings.Cut(text[at+2:], "}")
		if !closed {
			return result, fmt.Errorf("%q is not closed; add the \"}\", or write \"$${\" for a "+
				"literal \"${\"", clip(text[at:]))
		}
		text = rest
		switch name, fallback, hasFallback := strings.Cut(name, ":-"); {
		case isEnvironmentName(name):
			value, set := lookup(name)
			result.give(name, value)
			if value == "" && hasFallback {
				value = fallback
			} else if !set {
				return result, fmt.Errorf("the environment variable %s is not set; set it, or "+
					"give a default as in ${%s:-text}", name, name)
			}
			if template {
				value = strings.ReplaceAll(value, "${", "$${")
			}
			out.WriteString(value)
		default:
			if err := checkVariable(name, template && !hasFallback); err != nil {
				return result, err
			}
			if value, found := strings.CutPrefix(name, "path."); found {
				result.values = append(result.values, value)
			}
			out.WriteString("${" + name + "}")
		}
	}
	out.WriteString(text)
	result.text = out.String()
	return result, nil
}

// checkVariable says what is wrong with a ${name} that is not the environment's.
func checkVariable(name string, template bool) error {
	value, isPath := strings.CutPrefix(name, "path.")
	known := slices.Contains(variables, name) || isPath && exchange.IsPatternName(value)
	switch {
	case known && template:
		return nil
	case known:
		return fmt.Errorf("${%s} belongs to an exchange and has no value here; environment "+
			"variables are upper case, and \"$${\" is a literal \"${\"", name)
	case template:
		return fmt.Errorf("%q is not a variable; known are %s, and path.NAME for a value of the "+
			"pattern (\"$${\" is a literal \"${\")",
			"${"+clip(name)+"}", strings.Join(variables, ", "))
	}
	return fmt.Errorf("%q does not name an environment variable; they are upper case, as in "+
		"${HOME}, and \"$${\" is a literal \"${\"", "${"+clip(name)+"}")
}

func isEnvironmentName(name string) bool {
	return name != "" && (name[0] < '0' || name[0] > '9') &&
		strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// maxQuoted is how many bytes of a text an error quotes.
const maxQuoted = 60

// clip shortens what is quoted in an error.
func clip(text string) string {
	if len(text) <= maxQuoted {
		return text
	}
	return strings.ToValidUTF8(text[:maxQuoted], "") + "…"
}
