package forwarded

import (
	"strings"

	"plimsoll/internal/head"
)

// Names are fields that only trusted peers may send because a configuration gives them a meaning,
// beside those that DropClaims knows. They are none of package head's known names.
type Names []string // in lower case, with '-' for '_'

// With adds a name.
func (n Names) With(name string) Names {
	return append(n, strings.ReplaceAll(strings.ToLower(name), "_", "-"))
}

// Drop takes them out of l, in every case and with '_' for '-': the service may read these as the
// same name.
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

// Has says whether name is one of them.
func (n Names) Has(name []byte) bool {
	for _, one := range n {
		if len(one) == len(name) && hasPrefix(name, one) {
			return true
		}
	}
	return false
}
