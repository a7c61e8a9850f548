// Package front is the frame around patients that are an nginx in front of a service: flags, the
// service, an nginx whose configuration is the patient's, and a clean end. It must know nothing of
// diseases: what is wrong has to be seen in the patient's own file.
package front

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"plimsoll/internal/freeport"
)

// patience is how long nginx may take until it can be reached.
const patience = 20 * time.Second

// Site is what a patient says of itself.
type Site struct {
	// Service is what nginx is put in front of; nil where there is nothing behind it. Its listener
	// speaks TLS when the patient wraps it.
	Service *http.Server
	Wrap    func(net.Listener) net.Listener // nil leaves it as it is
	// Files are written below "files" in nginx's own folder: texts by their names.
	Files map[string]string
	// Config is the patient's part of nginx.conf, from the addresses at which nginx has to listen
	// and at which the service is.
	Config func(listen, service string) string
}

// Main is a patient's main function: it runs the site that build makes until SIGINT or SIGTERM.
// It prints "ready ADDRESS" when nginx can be reached, and exits with 2 when it could not start.
func Main(build func(cured bool) (*Site, error)) {
	address := flag.String("address", "127.0.0.1:18800", "where nginx listens; port 0 takes a free one")
	flag.String("debug", "", "there is nothing to look inside: it is taken as all patients take it")
	cured := flag.Bool("cured", false, "without the disease")
	flag.Parse()
	// nginx gets its signal when the thread that started it ends, so that has to be the last one.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address, *cured, build); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func run(ctx context.Context, address string, cured bool, build func(bool) (*Site, error)) error {
	site, err := build(cured)
	if err != nil {
		return err
	}
	behind, err := serve(site)
	if err != nil {
		return err
	}
	if site.Service != nil {
		defer site.Service.Close()
	}
	if address, err = fixed(address); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "patient-nginx-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	for name, text := range site.Files {
		name = filepath.Join(folder, "files", name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	file := filepath.Join(folder, "nginx.conf")
	config := frame(folder) + site.Config(address, behind)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return err
	}
	nginx := exec.Command("setpriv", "--pdeathsig", "TERM", "--", "nginx", "-p", folder, "-c", file)
	nginx.Stderr = os.Stderr
	if err := nginx.Start(); err != nil {
		return fmt.Errorf("start nginx: %w", err)
	}
	gone := make(chan error, 1)
	go func() { gone <- nginx.Wait() }()
	err = until(ctx, address, gone)
	if ctx.Err() != nil {
		nginx.Process.Signal(syscall.SIGTERM)
		<-gone
		return nil
	}
	return err
}

// serve starts the service, and gives its address; empty without one.
func serve(site *Site) (address string, err error) {
	if site.Service == nil {
		return "", nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listen for the service: %w", err)
	}
	address = l.Addr().String()
	if site.Wrap != nil {
		l = site.Wrap(l)
	}
	go site.Service.Serve(l)
	return address, nil
}

// fixed is the address with a port in the place of 0, which nginx does not know.
func fixed(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("--address: %w", err)
	}
	if port != "0" {
		return address, nil
	}
	free, err := freeport.Find(1)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(host, strconv.Itoa(free[0])), nil
}

// until says that nginx is ready when it is, and returns when it is gone or ctx is over.
func until(ctx context.Context, address string, gone chan error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	late, ready := time.After(patience), false
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-gone:
			gone <- err
			return fmt.Errorf("nginx ended: %v", err)
		case <-late:
			if !ready {
				return fmt.Errorf("nginx could not be reached within %s", patience)
			}
		case <-tick.C:
			c, err := net.Dial("tcp", address)
			if err == nil {
				c.Close()
				tick.Stop()
				ready = true
				fmt.Println("ready " + address)
			}
		}
	}
}

// frame is the part of nginx.conf that is the same for all: everything is below one folder, and
// nothing is logged but errors that end it.
func frame(folder string) string {
	user := ""
	if os.Geteuid() == 0 {
		user = "user root;\n"
	}
	return user + fmt.Sprintf("daemon off;\npid %s/pid;\nerror_log stderr emerg;\n", folder)
}
