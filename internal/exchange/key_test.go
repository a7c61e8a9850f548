package exchange_test

import (
	"net/netip"
	"strings"
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

var allKeys = []exchange.KeyKind{
	exchange.AddressKey, exchange.HeaderKey, exchange.CookieKey, exchange.PathKey, exchange.QueryKey,
}

func TestKeysFindTheirPartOfARequest(t *testing.T) {
	fields := cookies("session=abc")
	fields.Add([]byte("X-Tenant"), []byte("acme"))
	x := &exchange.Exchange{
		Request: &head.Request{Fields: *fields, Query: []byte("a=1&%69d=b%2Fc+d&id=2&empty=")},
		Client:  netip.MustParseAddr("192.0.2.1"), Params: params{"user": "u%2F7"},
	}
	const none = "(nil)"
	for text, want := range map[string]string{
		"":                none,
		"client_address":  "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xc0\x00\x02\x01",
		"header:x-tenant": "acme", "header:X-Other": none,
		"cookie:session": "abc", "cookie:other": none,
		"path:user": "u%2F7", "path:other": none,
		"query:id": "b/c d", "query:a": "1", "query:empty": "", "query:other": none,
	} {
		key, err := exchange.ParseKey(text, allKeys...)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		got := key.Find(x)
		if string(got) != want && (got != nil || want != none) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
		if key.String() != text {
			t.Errorf("%q is written %q", text, key)
		}
	}
	x.Params, x.Client = nil, netip.Addr{} // as a mirror's copy
	for _, text := range []string{"path:user", "client_address"} {
		if key, _ := exchange.ParseKey(text, allKeys...); key.Find(x) != nil {
			t.Errorf("%s is found where there is none", text)
		}
	}
}

func TestKeysThatAreRefused(t *testing.T) {
	for _, text := range []string{
		"client_address:x", "header", "header:", "header:a b", "cookie:", "cookie:a=b", "path:", "path:1a", "path:a-b", "path:a...",
		"query:", "query:a&b", "query", "Header:x", "route", " client_address",
	} {
		if _, err := exchange.ParseKey(text, allKeys...); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
	_, err := exchange.ParseKey("query:id", exchange.AddressKey, exchange.HeaderKey)
	if err == nil || !strings.Contains(err.Error(), "write one of client_address, header:NAME") {
		t.Errorf("a kind that is not possible: %v", err)
	}
}
