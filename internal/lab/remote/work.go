package remote

import (
	"context"
	"errors"
	"fmt"
	"os"

	"plimsoll/internal/config/strict"
	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/scenario"
)

// Work says what generators load and with what, as plain data that can be sent to them.
// ReadScenario and ReadTLS add the files, so that a generator's machine needs none of them.
type Work struct {
	URL   string          `json:"url"`
	TLS   load.TLSOptions `json:"tls"`
	HTTP3 bool            `json:"http3"`
	// Request is the request to send. If Scenario, the path of a scenario, is set, that is sent
	// instead.
	Request  *Request `json:"request"`
	Scenario string   `json:"scenario"`
	// Files has contents by path on this machine, and Environment values by name.
	Files       map[string][]byte `json:"files"`
	Environment map[string]string `json:"environment"`
}

// Request is a prepared request, as load.Static takes it.
type Request struct {
	Name  string `json:"name"`
	Bytes []byte `json:"bytes"`
	Head  bool   `json:"head"`
}

// ReadScenario reads a scenario for this machine, and keeps the files and variables that it uses.
func (w *Work) ReadScenario(path string, target load.Target) (*scenario.Scenario, error) {
	w.Scenario, w.Environment = path, map[string]string{}
	return scenario.LoadFrom(path, target, scenario.Source{
		Open: func(path string, limit int64) ([]byte, error) {
			content, err := strict.Read(path, limit)
			w.keep(path, content)
			return content, err
		},
		Lookup: func(name string) (value string, ok bool) {
			if value, ok = os.LookupEnv(name); ok {
				w.Environment[name] = value
			}
			return value, ok
		},
	})
}

// ReadTLS keeps the files named in the TLS options.
func (w *Work) ReadTLS() error {
	for _, path := range []string{w.TLS.CA, w.TLS.Cert, w.TLS.Key} {
		if path == "" {
			continue
		}
		content, err := strict.Read(path, 1<<20)
		if err != nil {
			return fmt.Errorf("%s cannot be read: %w", path, err)
		}
		w.keep(path, content)
	}
	return nil
}

func (w *Work) keep(path string, content []byte) {
	if w.Files == nil {
		w.Files = map[string][]byte{}
	}
	w.Files[path] = content
}

// target resolves the target on this machine.
func (w *Work) target(ctx context.Context) (load.Target, error) {
	secure := w.TLS
	secure.ReadFile = w.file
	target, err := load.Resolve(ctx, w.URL, secure)
	target.HTTP3 = w.HTTP3
	return target, err
}

// Script is the script if there is no scenario.
func (w *Work) Script() load.Script {
	return load.Static(w.Request.Name, w.Request.Bytes, w.Request.Head)
}

// script is the script to send.
func (w *Work) script(target load.Target) (load.Script, error) {
	if w.Scenario == "" {
		if w.Request == nil || len(w.Request.Bytes) == 0 {
			return nil, errors.New("there is no request to send")
		}
		return w.Script(), nil
	}
	s, err := scenario.LoadFrom(w.Scenario, target, scenario.Source{
		Open: func(path string, limit int64) ([]byte, error) {
			content, err := w.file(path)
			if err == nil && int64(len(content)) > limit {
				err = fmt.Errorf("it has %d bytes, and %d are left for it", len(content), limit)
			}
			return content, err
		},
		Lookup: func(name string) (value string, ok bool) {
			value, ok = w.Environment[name]
			return value, ok
		},
	})
	if err != nil {
		return nil, err
	}
	return s.Script(), nil
}

// file is the content of a file in Files.
func (w *Work) file(path string) ([]byte, error) {
	content, ok := w.Files[path]
	if !ok {
		return nil, fmt.Errorf("%s was not sent along", path)
	}
	return content, nil
}
