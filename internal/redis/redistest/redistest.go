// Package redistest runs real Redis servers for tests: one, or a cluster. Servers keep nothing on
// disk and end with the test.
package redistest

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"plimsoll/internal/freeport"
)

// Server is a redis-server process on a port of its own.
type Server struct {
	t       testing.TB
	port    int
	bus     int // of the cluster; 0 for a server alone
	options []string
	process *exec.Cmd
	ended   chan struct{}
}

// patience bounds every waiting, so that a defect fails a test instead of hanging it.
const patience = 2 * time.Minute

// Start runs a server with options as the command line takes them, such as "--requirepass", "x".
func Start(t testing.TB, options ...string) *Server {
	t.Helper()
	s := &Server{t: t, port: freePort(t), options: options}
	s.Run()
	t.Cleanup(s.Kill)
	return s
}

// StartTLS runs a server that speaks only TLS, with files of PEM, and gives its address.
func StartTLS(t testing.TB, cert, key string) string {
	t.Helper()
	s := &Server{t: t, port: freePort(t)}
	s.options = []string{
		"--port", "0", "--tls-port", strconv.Itoa(s.port), "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-auth-clients", "no",
	}
	s.begin()
	t.Cleanup(s.Kill)
	Eventually(t, "redis-server to accept", func() bool {
		c, err := net.Dial("tcp", s.Address())
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return s.Address()
}

// Certificate makes a certificate for a name that is its own authority, and gives its files.
func Certificate(t testing.TB, name string) (cert, key string, authority *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(file, kind string, content []byte) string {
		file = filepath.Join(dir, file)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}),
			0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	authority = x509.NewCertPool()
	authority.AddCert(parsed)
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", secret), authority
}

// Address is the server's host and port.
func (s *Server) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Beside is another server of this machine, for its Address and Do alone.
func (s *Server) Beside(port int) *Server { return &Server{t: s.t, port: port} }

// Run starts the process, again on the same port after Kill, and waits until it answers.
func (s *Server) Run() {
	s.t.Helper()
	s.begin()
	Eventually(s.t, "redis-server to answer", func() bool {
		answer, err := s.Do("PING")
		return err == nil && (answer == "PONG" || strings.HasPrefix(answer, "NOAUTH"))
	})
}

func (s *Server) begin() {
	s.t.Helper()
	args := append([]string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
		"--dir", s.t.TempDir(), "--loglevel", "warning",
	}, s.options...)
	s.process = exec.Command("redis-server", args...)
	s.process.Stderr = os.Stderr
	if err := s.process.Start(); err != nil {
		s.t.Fatalf("start redis-server, which scripts/tools.sh installs: %v", err)
	}
	s.ended = make(chan struct{})
	go func(p *exec.Cmd, ended chan struct{}) {
		p.Wait() // the end is what counts, and Kill makes it an error
		close(ended)
	}(s.process, s.ended)
}

// Kill ends the process at once and waits for its end.
func (s *Server) Kill() {
	s.process.Process.Kill()
	<-s.ended
}

// Pause stops the process where it is until Resume: it has connections, and neither reads nor answers.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume lets the process go on after Pause.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(what syscall.Signal) {
	s.t.Helper()
	if err := s.process.Process.Signal(what); err != nil {
		s.t.Fatal(err)
	}
}

// Do sends a command on a connection of its own and gives its answer, of a bulk the content.
func (s *Server) Do(command ...string) (string, error) {
	c, err := net.Dial("tcp", s.Address())
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(command))
	for _, word := range command {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := c.Write([]byte(b.String())); err != nil {
		return "", err
	}
	r := bufio.NewReader(c)
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSpace(line)
	if line[0] != '$' || line == "$-1" {
		return line[1:], nil
	}
	size, err := strconv.Atoi(line[1:])
	if err != nil {
		return "", err
	}
	text := make([]byte, size)
	for at := 0; at < size; {
		n, err := r.Read(text[at:])
		if err != nil {
			return "", err
		}
		at += n
	}
	return string(text), nil
}

// Cluster runs three masters that share the slots.
func Cluster(t testing.TB) []*Server {
	t.Helper()
	const masters, slots = 3, 16384
	var all []*Server
	for range masters {
		s := &Server{t: t, port: freePort(t), bus: freePort(t)}
		s.options = []string{
			"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(s.bus),
			"--cluster-node-timeout", "5000",
		}
		s.Run()
		t.Cleanup(s.Kill)
		all = append(all, s)
	}
	for i, s := range all {
		first, last := i*slots/masters, (i+1)*slots/masters-1
		must(t, s, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last))
		must(t, s, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		if i > 0 {
			must(t, s, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(all[0].port), strconv.Itoa(all[0].bus))
		}
	}
	for _, s := range all {
		Eventually(t, "the cluster to form", func() bool {
			info, err := s.Do("CLUSTER", "INFO")
			return err == nil && strings.Contains(info, "cluster_state:ok") &&
				strings.Contains(info, "cluster_known_nodes:"+strconv.Itoa(masters)) &&
				strings.Contains(info, "cluster_size:"+strconv.Itoa(masters))
		})
	}
	return all
}

func must(t testing.TB, s *Server, command ...string) {
	t.Helper()
	if answer, err := s.Do(command...); err != nil || answer != "OK" {
		t.Fatalf("%v: %q, %v", command, answer, err)
	}
}

// Eventually waits until a condition holds. The pauses between looks grow, as a look can take long.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for pause := 2 * time.Millisecond; !holds(); pause = min(2*pause, 50*time.Millisecond) {
		select {
		case <-time.After(pause):
		case <-deadline.C:
			t.Fatalf("waited %s for %s", patience, what)
		}
	}
}

func freePort(t testing.TB) int {
	t.Helper()
	ports, err := freeport.Find(1)
	if err != nil {
		t.Fatal(err)
	}
	return ports[0]
}
