package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the Makefile from git; a binary that was built by hand says what Go knows of
// it.
var version string

type versionCommand struct {
	JSON bool `help:"Print the version as JSON."`
}

// Help is shown by plimsoll version --help.
func (versionCommand) Help() string {
	return `Examples:

    plimsoll version
    plimsoll version --json | jq -r .version`
}

// Run prints the version.
func (v *versionCommand) Run(_ context.Context, c *console) error {
	about := struct {
		SchemaVersion int    `json:"schema_version"`
		Version       string `json:"version"`
		Go            string `json:"go"`
		OS            string `json:"os"`
		Arch          string `json:"arch"`
	}{1, buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH}
	if v.JSON {
		return c.json(about)
	}
	_, err := fmt.Fprintf(c.out, "plimsoll %s (%s, %s/%s)\n",
		about.Version, about.Go, about.OS, about.Arch)
	return err
}

func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
