package tlsio_test

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/internal/tlsio"
)

// sclient is a running `openssl s_client`.
type sclient struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func openssl(t *testing.T, s *site, address string, args ...string) *sclient {
	t.Helper()
	args = append([]string{"s_client", "-connect", address, "-servername", "site.test", "-CAfile",
		s.ca.file, "-verify_return_error"}, args...)
	c := &sclient{t: t, cmd: exec.Command("openssl", args...)}
	r, w, err := os.Pipe()
	must(t, err)
	c.cmd.Stdout, c.cmd.Stderr = w, w
	c.in, err = c.cmd.StdinPipe()
	must(t, err)
	must(t, c.cmd.Start())
	w.Close()
	c.out = bufio.NewScanner(r)
	t.Cleanup(func() {
		c.in.Close()
		for c.out.Scan() {
		}
		c.cmd.Wait()
		r.Close()
	})
	return c
}

// expect reads up to a line that contains want.
func (c *sclient) expect(want string) {
	c.t.Helper()
	var seen []string
	for c.out.Scan() {
		if strings.Contains(c.out.Text(), want) {
			return
		}
		seen = append(seen, c.out.Text())
	}
	c.t.Fatalf("openssl never said %q, but:\n%s", want, strings.Join(seen, "\n"))
}

func (c *sclient) say(line string) { io.WriteString(c.in, line+"\n") }

func TestOpensslTalksBothVersions(t *testing.T) {
	s := newSite(t)
	server := newEchoServer(t, s.server)
	for flag, want := range map[string]string{"-tls1_2": "1.2", "-tls1_3": "1.3"} {
		c := openssl(t, s, server.address, flag, "-alpn", "h2,http/1.1")
		c.expect("ALPN protocol: http/1.1")
		c.expect("Verify return code: 0 (ok)")
		c.say("hello from openssl")
		c.expect("hello from openssl")
		c.say("Q")
		l := <-server.loops
		if st := <-l.opened; st.Version != want || st.ServerName != "site.test" || st.ALPN != "http/1.1" {
			t.Errorf("%s: state %+v", flag, st)
		}
		if err := <-l.ended; err != io.EOF {
			t.Errorf("%s: ended with %v", flag, err)
		}
	}
}

func TestOpensslKeyUpdates(t *testing.T) {
	s := newSite(t)
	server := newEchoServer(t, s.server)
	c := openssl(t, s, server.address, "-tls1_3")
	c.expect("Verify return code")
	for _, line := range []string{"K", "k", "K"} {
		c.say(line)
		c.expect("KEYUPDATE")
		c.say("after " + line)
		c.expect("after " + line)
	}
	c.say("Q")
	if err := <-(<-server.loops).ended; err != io.EOF {
		t.Error(err)
	}
}

func TestOpensslRenegotiationIsRefused(t *testing.T) {
	s := newSite(t)
	server := newEchoServer(t, s.server)
	c := openssl(t, s, server.address, "-tls1_2")
	c.expect("Verify return code")
	c.say("R")
	c.expect("RENEGOTIATING")
	if err := <-(<-server.loops).ended; err == io.EOF || err == nil {
		t.Errorf("ended with %v", err)
	}
}

func TestOpensslResumes(t *testing.T) {
	s := newSite(t)
	server := newEchoServer(t, s.server)
	t.Run("1.2", func(t *testing.T) {
		c := openssl(t, s, server.address, "-tls1_2", "-reconnect")
		for i := range 6 {
			l := <-server.loops
			if st := <-l.opened; st.Resumed != (i > 0) {
				t.Errorf("connection %d: %+v", i, st)
			}
			if i == 5 {
				c.say("Q")
			}
			<-l.ended
		}
	})
	t.Run("1.3", func(t *testing.T) {
		session := filepath.Join(t.TempDir(), "session")
		for i, flag := range []string{"-sess_out", "-sess_in"} {
			c := openssl(t, s, server.address, "-tls1_3", flag, session)
			c.say("hello")
			c.expect("hello")
			c.say("Q")
			l := <-server.loops
			if st := <-l.opened; st.Resumed != (i > 0) {
				t.Errorf("connection %d: %+v", i, st)
			}
			<-l.ended
			c.cmd.Wait()
		}
	})
}

func TestOpensslClientCertificates(t *testing.T) {
	s := newSite(t)
	alice := s.ca.issue(t, t.TempDir(), "alice", newECDSA(t))
	server := newEchoServer(t, s.config(t, tlsio.ServerOptions{ClientAuth: "require", ClientCA: s.ca.file}))
	for _, version := range []string{"-tls1_2", "-tls1_3"} {
		c := openssl(t, s, server.address, version, "-cert", alice.Cert, "-key", alice.Key)
		c.say("it is me")
		c.expect("it is me")
		c.say("Q")
		l := <-server.loops
		if st := <-l.opened; st.Subject != "CN=alice,O=Harbour" {
			t.Errorf("%s: %+v", version, st)
		}
		<-l.ended
		openssl(t, s, server.address, version).expect("alert")
		if err := <-(<-server.loops).ended; err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("%s without a certificate: %v", version, err)
		}
	}
}

func TestPlainTextClientIsToldOff(t *testing.T) {
	s := newSite(t)
	server := newEchoServer(t, s.server)
	c, err := net.Dial("tcp", server.address)
	must(t, err)
	defer c.Close()
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: site.test\r\n\r\n")
	if err := <-(<-server.loops).ended; err == nil || !strings.Contains(err.Error(), "does not look like a TLS handshake") {
		t.Error(err)
	}
}
