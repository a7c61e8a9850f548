package demo

import (
	"bytes"
	_ "embed" // the demo's configuration is a file that people can read
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

//go:embed plimsoll.yaml
var configTemplate string

// Scenario is what visitors of the shop look at, for a survey: a scenario as docs/scenario.md
// explains it.
//
//go:embed visitors.yaml
var Scenario []byte

// Overload is what comes when the shop is to have more than it can carry: a scenario whose requests
// are named as the SLA classes of their routes.
//
//go:embed overload.yaml
var Overload []byte

// Adaptive is the line of the configuration that limits how many requests the shop works on at
// once. Protect puts it in force.
const Adaptive = "concurrency: adaptive"

// Addresses are the places, each "host:port", that the demo's parts listen on.
type Addresses struct {
	HTTP, HTTPS, Admin string
	// Shop holds the addresses of two instances.
	Shop [2]string
}

// Files are what a gateway in front of the shop is started with.
type Files struct {
	// Config is the path of the configuration.
	Config string
	// Certificate is the PEM of the certificate that visitors have to trust, and CertificatePath
	// its file.
	Certificate     []byte
	CertificatePath string
}

// WriteFiles makes the configuration and the certificate of a demo, good for 30 days from now, in
// the existing directory dir.
func WriteFiles(dir string, a Addresses, now time.Time) (Files, error) {
	cert, key, err := Certificate(now)
	if err != nil {
		return Files{}, err
	}
	text := strings.NewReplacer("@HTTP@", a.HTTP, "@HTTPS@", a.HTTPS, "@ADMIN@", a.Admin,
		"@SHOP_A@", a.Shop[0], "@SHOP_B@", a.Shop[1]).Replace(configTemplate)
	for name, content := range map[string][]byte{
		"site.pem":      cert,
		"site.key":      key,
		"plimsoll.yaml": []byte(text),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return Files{}, fmt.Errorf("write the demo's files: %w", err)
		}
	}
	return Files{
		Config:          filepath.Join(dir, "plimsoll.yaml"),
		Certificate:     cert,
		CertificatePath: filepath.Join(dir, "site.pem"),
	}, nil
}

// Protect puts the line Adaptive in force in the file of a demo's configuration; the gateway takes
// it up with its next reload.
func Protect(path string) error {
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, bytes.Replace(text, []byte("# "+Adaptive), []byte(Adaptive), 1), 0o600)
	}
	if err != nil {
		return fmt.Errorf("change the demo's configuration: %w", err)
	}
	return nil
}
