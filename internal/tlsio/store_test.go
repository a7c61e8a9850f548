package tlsio_test

import (
	"context"
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"plimsoll/internal/tlsio"
)

// shown is the common name, and the key's kind, of the certificate that a client for name gets.
func shown(t *testing.T, store *tlsio.Store, name string, suites ...uint16) string {
	t.Helper()
	server, err := tlsio.ServerConfig(tlsio.ServerOptions{Store: store})
	must(t, err)
	client := &tls.Config{ServerName: name, InsecureSkipVerify: true, CipherSuites: suites}
	if suites != nil {
		client.MaxVersion = tls.VersionTLS12
	}
	p := established(t, tlsio.NewLoop(), true, server, client)
	leaf := p.far.ConnectionState().PeerCertificates[0]
	return leaf.Subject.CommonName + " " + leaf.PublicKeyAlgorithm.String()
}

func TestCertificateIsChosenByNameAndAlgorithm(t *testing.T) {
	ca, dir := newAuthority(t), t.TempDir()
	store, err := tlsio.NewStore([]tlsio.Pair{
		ca.issue(t, dir, "default", newECDSA(t), "default.test"),
		ca.issue(t, dir, "default-rsa", rsaKey(), "default.test"),
		ca.issue(t, dir, "wild", newECDSA(t), "*.example.test"),
		ca.issue(t, dir, "exact", newECDSA(t), "www.example.test", "Mixed.Test"),
		ca.issue(t, dir, "exact-rsa", rsaKey(), "www.example.test"),
	})
	must(t, err)
	rsaOnly := tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
	for _, c := range []struct {
		name   string
		suites []uint16
		want   string
	}{
		{"default.test", nil, "default ECDSA"},
		{"default.test", []uint16{rsaOnly}, "default-rsa RSA"},
		{"www.example.test", nil, "exact ECDSA"},
		{"www.example.test", []uint16{rsaOnly}, "exact-rsa RSA"},
		{"WWW.Example.TEST", nil, "exact ECDSA"},
		{"mixed.test", nil, "exact ECDSA"},
		{"api.example.test", nil, "wild ECDSA"},
		{"a.b.example.test", nil, "default ECDSA"},
		{"example.test", nil, "default ECDSA"},
		{"unknown.test", nil, "default ECDSA"},
		{"unknown.test", []uint16{rsaOnly}, "default-rsa RSA"},
		{"", nil, "default ECDSA"},
		{"127.0.0.1", []uint16{rsaOnly}, "default-rsa RSA"},
	} {
		if got := shown(t, store, c.name, c.suites...); got != c.want {
			t.Errorf("for %q (suites %v): %s, want %s", c.name, c.suites, got, c.want)
		}
	}
	info := store.Certificates()
	if len(info) != 5 || info[3].Names[0] != "www.example.test" || info[3].Subject != "CN=exact,O=Harbour" ||
		info[3].NotAfter.Before(time.Now()) {
		t.Errorf("certificates %+v", info)
	}
}

func TestReloadKeepsTheOldOnError(t *testing.T) {
	ca, dir := newAuthority(t), t.TempDir()
	pair := ca.issue(t, dir, "site", newECDSA(t), "one.test")
	store, err := tlsio.NewStore([]tlsio.Pair{pair})
	must(t, err)
	must(t, os.WriteFile(pair.Cert, []byte("half a cert"), 0o600))
	if err := store.Reload(); err == nil || !strings.Contains(err.Error(), pair.Cert) {
		t.Errorf("reload of a broken file: %v", err)
	}
	if got := shown(t, store, "one.test"); got != "site ECDSA" {
		t.Errorf("after the failed reload: %s", got)
	}
	ca.issue(t, dir, "site", newECDSA(t), "two.test")
	must(t, store.Reload())
	if names := store.Certificates()[0].Names; names[0] != "two.test" {
		t.Errorf("after the reload: %v", names)
	}
}

func TestUnusableFilesAreNamedInOneLineEach(t *testing.T) {
	ca, dir := newAuthority(t), t.TempDir()
	good, other := ca.issue(t, dir, "good", newECDSA(t), "a.test"), ca.issue(t, dir, "other", newECDSA(t), "b.test")
	missing := filepath.Join(dir, "missing.pem")
	_, err := tlsio.NewStore([]tlsio.Pair{
		good, {Cert: missing, Key: good.Key}, {Cert: good.Cert, Key: missing}, {Cert: good.Cert, Key: other.Key},
	})
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 3 || !strings.Contains(lines[0], missing) || !strings.Contains(lines[1], missing) ||
		!strings.Contains(lines[2], other.Key) {
		t.Errorf("errors: %q", lines)
	}
	if _, err := tlsio.NewStore(nil); err == nil {
		t.Error("a store without certificates")
	}
}

func TestWhatIsNotAFileOfACertificateIsAnErrorAtOnce(t *testing.T) {
	ca, dir := newAuthority(t), t.TempDir()
	good := ca.issue(t, dir, "good", newECDSA(t), "a.test")
	pipe, long := filepath.Join(dir, "pipe"), filepath.Join(dir, "long")
	must(t, syscall.Mkfifo(pipe, 0o600))
	must(t, os.WriteFile(long, make([]byte, 4<<20+1), 0o600))
	for name, want := range map[string]string{pipe: "regular", dir: "regular", "/dev/zero": "regular", long: "larger"} {
		store, err := tlsio.NewStore([]tlsio.Pair{good})
		must(t, err)
		must(t, os.Rename(good.Key, good.Key+".old"))
		must(t, os.Symlink(name, good.Key))
		if err := store.Reload(); err == nil || !strings.Contains(err.Error(), good.Key) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("with a key that is %s: %v", name, err)
		}
		must(t, os.Rename(good.Key+".old", good.Key))
		if err := store.Reload(); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
	}
}

// watch runs Watch and returns its reports; it ends with the test.
func watch(t *testing.T, store *tlsio.Store, every time.Duration) <-chan error {
	ctx, cancel := context.WithCancel(context.Background())
	reports, over := make(chan error), make(chan struct{})
	go func() {
		defer close(over)
		store.Watch(ctx, every, func(err error) {
			select {
			case reports <- err:
			case <-ctx.Done():
			}
		})
	}()
	t.Cleanup(func() { cancel(); <-over })
	return reports
}

// await waits for a reload that worked; a renewal that is seen between its two files fails first.
func await(t *testing.T, reports <-chan error, store *tlsio.Store, name string) {
	t.Helper()
	for range 10 {
		if err := <-reports; err == nil && store.Certificates()[0].Names[0] == name {
			return
		}
	}
	t.Fatalf("%s never came into force", name)
}

func TestWatchFollowsFiles(t *testing.T) {
	ca := newAuthority(t)
	for how, every := range map[string]time.Duration{"by events": time.Hour, "by interval": time.Millisecond} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			pair := ca.issue(t, dir, "site", newECDSA(t), "one.test")
			store, err := tlsio.NewStore([]tlsio.Pair{pair})
			must(t, err)
			// A change between reading and watching must not be missed: the first one comes before
			// Watch.
			ca.issue(t, dir, "site", newECDSA(t), "two.test")
			if every == time.Hour {
				must(t, store.Reload())
			}
			reports := watch(t, store, every)
			if every < time.Hour {
				await(t, reports, store, "two.test")
			}
			touchUntilSeen(t, dir, store, reports, ca)
			must(t, os.WriteFile(pair.Key, []byte("broken"), 0o600))
			// A late look at the renewal before may report success once more.
			for err := range reports {
				if err != nil {
					break
				}
			}
			if names := store.Certificates()[0].Names; names[0] != "three.test" {
				t.Errorf("with a broken key: %v", names)
			}
			ca.issue(t, dir, "site", newECDSA(t), "four.test")
			await(t, reports, store, "four.test")
		})
	}
}

// touchUntilSeen renews the certificate until Watch, which may not have begun to watch yet, reports
// it.
func touchUntilSeen(t *testing.T, dir string, store *tlsio.Store, reports <-chan error, ca *authority) {
	t.Helper()
	for {
		ca.issue(t, dir, "site", newECDSA(t), "three.test")
		select {
		case err := <-reports:
			if err == nil && store.Certificates()[0].Names[0] == "three.test" {
				return
			}
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func TestWatchFollowsASwappedSymlink(t *testing.T) {
	ca, root := newAuthority(t), t.TempDir()
	for _, d := range []string{"first", "second", "served"} {
		must(t, os.Mkdir(filepath.Join(root, d), 0o700))
	}
	ca.issue(t, filepath.Join(root, "first"), "tls", newECDSA(t), "first.test")
	ca.issue(t, filepath.Join(root, "second"), "tls", newECDSA(t), "second.test")
	data := filepath.Join(root, "served", "..data")
	must(t, os.Symlink(filepath.Join("..", "first"), data))
	pair := tlsio.Pair{Cert: filepath.Join(root, "served", "tls.pem"), Key: filepath.Join(root, "served", "tls.key")}
	must(t, os.Symlink(filepath.Join("..data", "tls.pem"), pair.Cert))
	must(t, os.Symlink(filepath.Join("..data", "tls.key"), pair.Key))
	store, err := tlsio.NewStore([]tlsio.Pair{pair})
	must(t, err)
	// As Kubernetes does it: a new link takes the place of the old in one step.
	must(t, os.Symlink(filepath.Join("..", "second"), data+"_tmp"))
	reports := watch(t, store, 20*time.Millisecond)
	must(t, os.Rename(data+"_tmp", data))
	await(t, reports, store, "second.test")
}

func TestWatchSaysWhenDirectoriesCannotBeWatched(t *testing.T) {
	ca, dir := newAuthority(t), filepath.Join(t.TempDir(), "certs")
	must(t, os.Mkdir(dir, 0o700))
	pair := ca.issue(t, dir, "site", newECDSA(t), "one.test")
	store, err := tlsio.NewStore([]tlsio.Pair{pair})
	must(t, err)
	must(t, os.RemoveAll(dir))
	reports := watch(t, store, time.Millisecond)
	if err := <-reports; err == nil || !strings.Contains(err.Error(), "checked every") {
		t.Errorf("first report: %v", err)
	}
	must(t, os.Mkdir(dir, 0o700))
	ca.issue(t, dir, "site", newECDSA(t), "two.test")
	await(t, reports, store, "two.test")
}
