package forwarded

import (
	"strings"

	"plimsoll/internal/head"
)

// Names are fields that only trusted peers may send because the configuration gives them a meaning,
// in addition to those that DropClaims knows. They are not among package head's known names.
type Names []string // in lower case, with '-' for '_'

// With adds a name.
func (n Names) With(name string) Names {
	return append(n, strings.ReplaceAll(strings.ToLower(name), "_", "-"))
}

// Drop removes the fields from l, ignoring case and reading '_' as '-', because the service may
// read these as the same name.
func (n Names) Drop(l *head.List) {
	if n.in(l) {
		l.RemoveFunc(func(f *head.Field) bool { return f.ID == head.Other && n.Has(f.Name) })
	}
}

func (n Names) in(l *head.List) bool {
	if len(n) == 0 || !l.Has(head.Other) {
		return false
	}
	for i := range l.Len() {
		if f := l.At(i); f.ID == head.Other && n.Has(f.Name) {
			return true
		}
	}
	return false
}

// Has reports whether name is one of n.
func (n Names) Has(name []byte) bool {
	for _, one := range n {
		if len(one) == len(name) && hasPrefix(name, one) {
			return true
		}
	}
	return false
}
