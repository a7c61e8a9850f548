package main

import (
	"net/url"
	"slices"
	"strings"
)

// secretive are parts of the names of header fields whose values stay out of run directories and
// reports, which are made to be passed around.
var secretive = []string{
	"auth", "cookie", "token", "key", "secret", "password", "session", "signature",
}

// withoutSecrets is a command line in which the values of such fields, and passwords in URLs, are
// left out.
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
		default:
			out[i] = withoutPassword(a)
		}
	}
	return out
}

// hide is a field without its value when that may be a secret.
func hide(field string) string {
	name, _, ok := strings.Cut(field, ":")
	if ok && slices.ContainsFunc(secretive, func(part string) bool {
		return strings.Contains(strings.ToLower(name), part)
	}) {
		return name + ": (left out)"
	}
	return field
}

// withoutPassword is an argument that is a URL, or a flag with one, without the URL's password.
func withoutPassword(arg string) string {
	before, after := "", arg
	if strings.HasPrefix(arg, "--") {
		if name, value, ok := strings.Cut(arg, "="); ok {
			before, after = name+"=", value
		}
	}
	u, err := url.Parse(after)
	if err != nil || u.User == nil {
		return arg
	}
	return before + u.Redacted()
}
