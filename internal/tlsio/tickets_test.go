package tlsio_test

import (
	"crypto/tls"
	"io"
	"testing"
	"time"

	"plimsoll/internal/tlsio"
)

// visit connects once as client and says whether the session was resumed.
func visit(t *testing.T, server, client *tls.Config) bool {
	t.Helper()
	p := established(t, tlsio.NewLoop(), true, server, client)
	// The ticket of TLS 1.3 comes with the first data.
	must(t, p.conn.Write([]byte("x")))
	if _, err := io.ReadFull(p.far, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return p.conn.State().Resumed
}

func TestTicketsOutliveTwoRotationsAndNotThree(t *testing.T) {
	s := newSite(t)
	versions(t, func(t *testing.T, v uint16) {
		for rotations, want := range []bool{true, true, true, false} {
			tickets := tlsio.NewTickets(time.Hour, 0)
			server := s.config(t, tlsio.ServerOptions{Tickets: tickets})
			client := s.capped(v)
			client.ClientSessionCache = tls.NewLRUClientSessionCache(4)
			if visit(t, server, client) {
				t.Fatal("the first visit was resumed")
			}
			for i := range rotations {
				if !tickets.Rotate(int64(i+1) * int64(time.Hour)) {
					t.Fatal("no rotation after an hour")
				}
			}
			if got := visit(t, server, client); got != want {
				t.Errorf("after %d rotations resumed: %v", rotations, got)
			}
		}
	})
}

func TestTicketsRotateWhenTheirTimeHasCome(t *testing.T) {
	const hour = int64(time.Hour)
	k := tlsio.NewTickets(time.Hour, 10*hour)
	for _, step := range []struct {
		at   int64
		want bool
	}{
		{10 * hour, false}, {11*hour - 1, false}, {11 * hour, true}, {11 * hour, false},
		{40*hour + 5, true}, {41*hour - 1, false}, {41 * hour, true}, {3 * hour, false},
	} {
		if got := k.Rotate(step.at); got != step.want {
			t.Errorf("at %v rotated: %v", time.Duration(step.at), got)
		}
	}
	if tlsio.NewTickets(0, 0).Rotate(1 << 60) {
		t.Error("rotated although it never should")
	}
}

func TestMissedRotationsRetireOldKeys(t *testing.T) {
	s := newSite(t)
	tickets := tlsio.NewTickets(time.Hour, 0)
	server := s.config(t, tlsio.ServerOptions{Tickets: tickets})
	client := s.client.Clone()
	client.ClientSessionCache = tls.NewLRUClientSessionCache(4)
	visit(t, server, client)
	tickets.Rotate(int64(50 * time.Hour))
	if visit(t, server, client) {
		t.Error("a ticket of two days ago was accepted")
	}
}

func TestTicketsAreSharedByListeners(t *testing.T) {
	s := newSite(t)
	client := s.client.Clone()
	client.ClientSessionCache = tls.NewLRUClientSessionCache(4)
	visit(t, s.server, client)
	if !visit(t, s.config(t, tlsio.ServerOptions{}), client) {
		t.Error("another listener of the same tickets did not resume")
	}
	strict := s.config(t, tlsio.ServerOptions{ClientAuth: "require", ClientCA: s.ca.file})
	p, near, _ := connect(tlsio.NewLoop(), true, strict, client, nil)
	if near == nil {
		t.Errorf("a ticket replaced the client certificate that a listener requires: %+v", p.conn.State())
	}
}

func TestClientConfigResumesSessions(t *testing.T) {
	s := newSite(t)
	own, err := tlsio.ClientConfig(tlsio.ClientOptions{CA: s.ca.file}, "site.test")
	must(t, err)
	for i, want := range []bool{false, true} {
		p := established(t, tlsio.NewLoop(), false, own, s.server)
		if _, err := p.far.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := readAll(p.conn, 10); err != error(again) {
			t.Fatal(err)
		}
		if p.conn.State().Resumed != want {
			t.Errorf("connection %d resumed: %v", i, !want)
		}
	}
}
