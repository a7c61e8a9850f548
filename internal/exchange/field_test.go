package exchange_test

import (
	"strings"
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

func TestFieldNamesThatAConfigurationMayChange(t *testing.T) {
	for _, name := range []string{"X-A", "x-a", "Host", "Server", "Set-Cookie", "X-Forwarded-For", "Content-Type", "my_own"} {
		if err := exchange.CheckFieldName(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{
		"Connection", "content-length", "Transfer-Encoding", "TE", "Trailer", "Upgrade", "Keep-Alive", "Proxy-Connection",
		"Proxy-Authorization", "Proxy-Authenticate", "Expect", "HTTP2-Settings",
		"X_Forwarded_For", "Content_Length", "", "a b", "a:", "a\r\n", "ä", "a\x00",
	} {
		if exchange.CheckFieldName(name) == nil {
			t.Errorf("%q is accepted", name)
		}
	}
}

func TestFieldValuesThatAConfigurationMaySet(t *testing.T) {
	for _, value := range []string{"", "a", "a b\tc", "\xe4"} {
		if err := exchange.CheckFieldValue(value); err != nil {
			t.Errorf("%q: %v", value, err)
		}
	}
	for _, value := range []string{"a\r\nb", "a\nb", "a\x00", "\x7f", " a", "a\t"} {
		if exchange.CheckFieldValue(value) == nil {
			t.Errorf("%q is accepted", value)
		}
	}
}

func TestAStaticFieldIsItsOwnLine(t *testing.T) {
	for _, value := range []string{"", "text/plain"} {
		f := exchange.StaticField("content-type", value)
		if string(f.Name) != "content-type" || string(f.Value) != value ||
			string(f.Line) != "content-type: "+value+"\r\n" || f.ID != head.ContentType {
			t.Errorf("got %q %q %q %d", f.Name, f.Value, f.Line, f.ID)
		}
	}
}

func TestRefuseSaysTheReason(t *testing.T) {
	x := sample()
	x.Response.Fields.Add([]byte("X-Upstream"), []byte("old"))
	if v := x.Refuse(403, exchange.Denied); v != exchange.Answered {
		t.Errorf("verdict %d", v)
	}
	const body = "403 Forbidden: denied: your address is not allowed here\n"
	if x.Response.Status != 403 || x.Reason != exchange.Denied || string(x.Body) != body || x.Response.Length != int64(len(body)) {
		t.Errorf("got %d %v %q %d", x.Response.Status, x.Reason, x.Body, x.Response.Length)
	}
	if x.Response.Fields.Len() != 1 || !strings.HasPrefix(string(x.Response.Fields.Value(head.ContentType)), "text/plain") {
		t.Errorf("%d fields", x.Response.Fields.Len())
	}
}
