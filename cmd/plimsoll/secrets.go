package main

import (
	"slices"
	"strings"
)

// secretive are parts of the names of header fields whose values stay out of run directories and reports, which are made to be passed around.
var secretive = []string{"auth", "cookie", "token", "key", "secret", "password", "session", "signature"}

// withoutSecrets is a command line in which the values of such fields are left out.
func withoutSecrets(args []string) []string {
	out := slices.Clone(args)
	for i, a := range out {
		switch {
		case i > 0 && (out[i-1] == "-H" || out[i-1] == "--header"):
			out[i] = hide(a)
		case strings.HasPrefix(a, "--header="):
			out[i] = "--header=" + hide(strings.TrimPrefix(a, "--header="))
		case strings.HasPrefix(a, "-H"):
			out[i] = "-H" + hide(strings.TrimPrefix(a, "-H"))
		}
	}
	return out
}

// hide is a field without its value when that may be a secret.
func hide(field string) string {
	name, _, ok := strings.Cut(field, ":")
	if ok && slices.ContainsFunc(secretive, func(part string) bool { return strings.Contains(strings.ToLower(name), part) }) {
		return name + ": (left out)"
	}
	return field
}
