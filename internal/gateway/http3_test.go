package gateway

import "testing"

func TestARequestOverHTTP3(t *testing.T) {
	t.Parallel()
	s := newService(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	b := serveH3(t, oneUpstream(s.address()))
	c := b.h3()
	for range 3 {
		st := c.get("/x?y")
		st.answer()
		if st.status != 200 || string(st.body) != "ok" || st.fields.Get("Content-Length") != "2" {
			t.Errorf("it got %d, %v and %q", st.status, st.fields, st.body)
		}
	}
}
