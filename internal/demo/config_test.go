package demo

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTheFilesAreWholeAndFitTogether(t *testing.T) {
	dir := t.TempDir()
	a := Addresses{HTTP: "127.0.0.1:1", HTTPS: "127.0.0.1:2", Admin: "127.0.0.1:3", Shop: [2]string{"127.0.0.1:4", "127.0.0.1:5"}}
	now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	files, err := WriteFiles(dir, a, now)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(files.Config)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{a.HTTP, a.HTTPS, a.Admin, a.Shop[0], a.Shop[1]} {
		if !strings.Contains(string(text), `"`+want+`"`) {
			t.Errorf("the configuration lacks %q", want)
		}
	}
	_, body, _ := strings.Cut(string(text), "listeners:")
	if strings.Contains(body, "@") {
		t.Error("a place in the configuration was not filled in")
	}
	pair, err := tls.LoadX509KeyPair(files.CertificatePath, filepath.Join(dir, "site.key"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(files.Certificate)
	for _, name := range []string{"localhost", "127.0.0.1"} {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: now}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAFolderThatCannotBeWrittenIsNamed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "absent")
	if _, err := WriteFiles(dir, Addresses{}, time.Now()); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("error %v, want one that names %s", err, dir)
	}
}
