package head_test

import (
	"strings"
	"testing"

	"plimsoll/internal/head"
)

// list makes a List of "Name: value" lines.
func list(lines ...string) *head.List {
	l := new(head.List)
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		l.Add([]byte(name), []byte(value))
	}
	return l
}

func text(l *head.List) string {
	var lines []string
	for i := range l.Len() {
		lines = append(lines, string(l.At(i).Name)+": "+string(l.At(i).Value))
	}
	return strings.Join(lines, "|")
}

func expect(t *testing.T, l *head.List, want string) {
	t.Helper()
	if got := text(l); got != want {
		t.Errorf("fields are %q, want %q", got, want)
	}
}

func TestFieldsAreFoundByNameInAnyCase(t *testing.T) {
	l := list("Host: a", "X-One: 1", "x-one: 2", "X_Request_Id: forged", "Cookie: c")
	for name, want := range map[string]string{
		"host": "a", "X-ONE": "1", "x_request_id": "forged", "COOKIE": "c", "X-Two": "", "X-Request-Id": "", "x_request-id": "", "Via": "",
	} {
		var got string
		if f := l.Find([]byte(name)); f != nil {
			got = string(f.Value)
		}
		if got != want {
			t.Errorf("Find(%q) has value %q, want %q", name, got, want)
		}
	}
	if string(l.Value(head.Cookie)) != "c" || l.Value(head.Via) != nil || l.Get(head.XRequestID) != nil {
		t.Error("known names are not found by ID")
	}
	if !l.Has(head.Alias) || l.Has(head.XRequestID) {
		t.Error("an alias counts as what it stands for")
	}
}

func TestSetReplacesTheFirstAndRemovesFurtherOnes(t *testing.T) {
	l := list("Via: 1", "X-A: 1", "Via: 2", "x-a: 2", "X_Real_Ip: 1", "x_real_ip: 2", "X-Real_Ip: 3")
	l.At(0).Line = []byte("Via: 1\r\n")
	l.Set([]byte("via"), []byte("v"))
	l.Set([]byte("X-A"), []byte("a"))
	l.Set([]byte("X_REAL_IP"), []byte("r"))
	l.Set([]byte("Server"), []byte("s"))
	expect(t, l, "Via: v|X-A: a|X_Real_Ip: r|X-Real_Ip: 3|Server: s")
	if l.At(0).Line != nil {
		t.Error("the field's line is still the old one")
	}
	if !l.Has(head.Server) {
		t.Error("a field that Set appended is not there")
	}
}

func TestRemove(t *testing.T) {
	l := list("Via: 1", "X-A: 1", "VIA: 2", "X-B: 1", "x-a: 2", "X_Via: 1", "X_Real_Ip: 1", "X-Real_Ip: 2")
	l.Remove([]byte("via"))
	l.Remove([]byte("X-a"))
	l.Remove([]byte("x_real_ip"))
	l.Remove([]byte("Cookie"))
	l.Remove([]byte("X-None"))
	expect(t, l, "X-B: 1|X_Via: 1|X-Real_Ip: 2")
	if l.Has(head.Via) {
		t.Error("a removed field is there")
	}
	l.RemoveID(head.Alias)
	expect(t, l, "X-B: 1|X_Via: 1")
	l.RemoveFunc(func(f *head.Field) bool { return string(f.Name) == "X-B" })
	expect(t, l, "X_Via: 1")
}

func TestExtendGivesAnEmptyFieldWhateverStoodThereBefore(t *testing.T) {
	l := list("Via: 1", "Cookie: 2", "X: 3")
	for range 40 {
		l.Extend(head.Other).Line = []byte("full")
	}
	l.RemoveFunc(func(f *head.Field) bool { return f.Line != nil })
	if f := l.Extend(head.Via); f.ID != head.Via || f.Name != nil || f.Value != nil || f.Line != nil {
		t.Errorf("after removal: %+v", f)
	}
	l.Reset()
	if l.Len() != 0 || l.Has(head.Via) || l.Has(head.Other) {
		t.Error("Reset left something")
	}
	if f := l.Extend(head.Other); f.ID != head.Other || f.Name != nil || f.Value != nil || f.Line != nil {
		t.Errorf("after Reset: %+v", f)
	}
}

func TestAListOfUsualSizeDoesNotAllocateAgain(t *testing.T) {
	l, name, value := list("A: 1"), []byte("Accept-Encoding"), []byte("gzip")
	if n := testing.AllocsPerRun(100, func() {
		l.Reset()
		for range 16 {
			l.Add(name, value)
		}
		l.Set(name, value)
		l.Remove(name)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
