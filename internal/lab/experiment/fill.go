package experiment

import (
	"fmt"
	"slices"
	"strings"

	"plimsoll/internal/config"
)

// The variables that a text may contain. The ports are free ports of this machine, chosen for each
// run.
const (
	varValue, varName     = "value", "name"
	varWork               = "work" // a folder of the experiment's own, removed at its end
	varPort, varAdminPort = "port", "admin_port"
)

var (
	valueVariables = []string{varWork}
	setupVariables = []string{varValue, varName, varWork}
	allVariables   = []string{varValue, varName, varWork, varPort, varAdminPort}
)

// variables returns the variables of a value that are known from the start.
func (v Value) variables() map[string]string {
	return map[string]string{varValue: v.Value, varName: v.Name}
}

// fill replaces the variables of a text. A variable without a value is left as written; "$${" is a
// literal "${".
func fill(text string, values map[string]string) string {
	var b strings.Builder
	for {
		before, name, after, ok := variable(text)
		if !ok {
			b.WriteString(text)
			return b.String()
		}
		b.WriteString(before)
		value, known := values[name]
		switch {
		case name == "":
			b.WriteString("${")
		case known:
			b.WriteString(value)
		default:
			b.WriteString("${" + name + "}")
		}
		text = after
	}
}

// variable finds the next variable of a text. An empty name means "$${".
func variable(text string) (before, name, after string, ok bool) {
	before, after, ok = strings.Cut(text, "${")
	if !ok {
		return "", "", "", false
	}
	if escaped, is := strings.CutSuffix(before, "$"); is {
		return escaped, "", after, true
	}
	name, after, ok = strings.Cut(after, "}")
	return before, name, after, ok
}

// checkVariables returns an error unless the variables of a text are all known ones.
func checkVariables(text string, known []string) error {
	for {
		_, name, after, ok := variable(text)
		switch {
		case !ok && strings.Contains(strings.ReplaceAll(text, "$${", ""), "${"):
			return fmt.Errorf("a \"${\" is not closed; add the \"}\", or write \"$${\" for " +
				"a literal \"${\"")
		case !ok:
			return nil
		case name != "" && !slices.Contains(known, name):
			return fmt.Errorf("${%s} has no value here; %s (\"$${\" is a literal \"${\")",
				name, config.Suggest(name, known))
		}
		text = after
	}
}

// varies reports whether a command differs between values.
func varies(command []string) bool {
	for _, word := range command {
		for text := word; ; {
			_, name, after, ok := variable(text)
			if !ok {
				break
			}
			if name == varValue || name == varName {
				return true
			}
			text = after
		}
	}
	return false
}

func fillAll(words []string, values map[string]string) []string {
	filled := make([]string, len(words))
	for i, w := range words {
		filled[i] = fill(w, values)
	}
	return filled
}
