package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"plimsoll/internal/lab/reference"
	"plimsoll/internal/lab/refserver"
)

// about is a kind of service for other programs.
type about struct {
	Name   string            `json:"name"`
	SLO    string            `json:"slo"`
	Line   float64           `json:"line"`
	Says   []string          `json:"says"`
	Held   bool              `json:"held"`
	Routes []reference.Route `json:"routes"`
}

// printKinds prints the kinds there are.
func printKinds() error {
	out := json.NewEncoder(os.Stdout)
	for _, k := range reference.Kinds {
		if err := out.Encode(about{k.Name, k.SLO, k.Line, k.Says, k.Held, k.Routes}); err != nil {
			return err
		}
	}
	return nil
}

// serveKind serves a kind until it is interrupted; its address is printed as one line of JSON.
func serveKind(s *settings) error {
	for i := range reference.Kinds {
		k := &reference.Kinds[i]
		if k.Name != s.kind {
			continue
		}
		var paths []string
		for _, route := range k.Routes {
			paths = append(paths, route.Path)
		}
		server, err := refserver.Start(refserver.Options{
			Service:     k.New(s.seed),
			Paths:       paths,
			Address:     s.address,
			Body:        bytes.Repeat([]byte("x"), s.body),
			Connections: s.mostConns,
		})
		if err != nil {
			return err
		}
		defer server.Close()
		err = json.NewEncoder(os.Stdout).Encode(map[string]any{
			"address": server.Address(),
			"slo":     k.SLO,
			"line":    k.Line,
		})
		if err != nil {
			return err
		}
		return printCounts(server)
	}
	return fmt.Errorf("--kind %q is not a kind of service; --kinds lists them", s.kind)
}
